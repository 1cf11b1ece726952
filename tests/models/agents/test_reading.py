"""What reference agents make of a conversation."""

from itertools import pairwise
from typing import Any

import pytest
from inspect_ai.dataset import Sample

from truthgym.datasets.domains import BUNDLED, DOMAINS, GENERATED, bundled
from truthgym.datasets.domains import bundled as bundled_of
from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.generated import logit
from truthgym.datasets.question import ASKED, Question, ask_about
from truthgym.datasets.testimony import TestimonyQuestion, testimony
from truthgym.datasets.urns import UrnQuestion, urns
from truthgym.models.agents.agent import NOT_A_MODEL, Asks
from truthgym.models.agents.believer import BEFORE, REPORTED
from truthgym.models.agents.judge import LIST, OWN
from truthgym.models.agents.policies import Case, Parameters, private_signal
from truthgym.models.agents.reading import MARKER, STATED, Reading, last_probability, read_conversation, stated_beliefs
from truthgym.scorers.beliefs.elicitation import JOINT, PROBE, PROBE_2, READ, VIEW, WHAT, WHOSE, WHOSE_JOINT
from truthgym.solvers import bootstrap_interview, chain_of_thought, dialogue, direct, self_debate

URN, OTHER = urns(n=2)
PIECES = URN.metadata_as(UrnQuestion).evidence
FORECAST = bundled("forecasting")[0]


def look(item: Sample, *parts: object, epoch: int = 1, thoughts: int = 0, skill: float = 1.0) -> Reading:
    ask_about(item)
    return read_conversation("\n\n".join(str(part) for part in parts), epoch, thoughts, Parameters(skill=skill))


def signal(thoughts: int, epoch: int = 1, skill: float = 1.0) -> Case:
    return private_signal(str(FORECAST.id), FORECAST.target == "yes", thoughts, epoch, Parameters(skill=skill))


def stated(percent: str, wording: int = 0) -> str:
    return STATED[wording].format(percent=percent)


@pytest.mark.parametrize("wording", range(len(STATED)))
@pytest.mark.parametrize("percent", ["0.00", "0.01", "5.00", "12.34", "99.99", "100.00"])
def test_every_statement_of_a_belief_is_read_back(wording: int, percent: str) -> None:
    text = f"So: {stated(percent, wording)} That is all."
    [(end, belief)] = stated_beliefs(text)
    assert belief == pytest.approx(float(percent) / 100, abs=1e-12)
    assert text[:end].endswith(stated(percent, wording))
    assert last_probability(text, 0) == belief


def test_other_numbers_are_no_statement() -> None:
    for text in (
        "I had thought 20.00 chances in 100.",
        "So I would give it 20 chances in 100.",
        "So I would give it 20.001 chances in 100.",
        "Prices rose 12.34%.",
        *STATED,
    ):
        assert stated_beliefs(text) == []
        assert last_probability(text, 0) is None


def test_statements_are_read_in_order_from_a_place_on() -> None:
    first, second = stated("10.00", 3), stated("20.00", 1)
    text = f"{first} {second}"
    assert [belief for _, belief in stated_beliefs(text)] == [0.1, 0.2]
    assert [belief for _, belief in stated_beliefs(text, len(first))] == [0.2]


def test_a_reader_takes_the_last_number_in_words_or_marked() -> None:
    words, marked = stated("10.00"), r"\finalBeliefProb{0.3000}"
    assert last_probability(f"{words}\n\n{marked}", 0) == 0.3
    assert last_probability(f"{marked}\n\n{words}", 0) == 0.1
    assert last_probability(f"{marked}\n\n{words}", len(marked + words)) is None
    assert last_probability(r"\finalBeliefProb{0.1} and \finalBeliefProb{1.0}", 0) == 1
    assert last_probability(r"End with \finalBeliefProb{p}.", 0) is None
    assert last_probability(f"{marked} {direct.STATE_BELIEF.format(proposition='It rains.')}", 0) == 0.3


def test_an_urn_question_is_a_base_rate_and_the_pieces_seen() -> None:
    for count in range(len(PIECES) + 1):
        found = look(URN, "You are an expert.", URN.input, *PIECES[:count])
        case = found.case
        assert case.key == URN.input
        assert case.log_odds == pytest.approx(logit(URN.metadata_as(UrnQuestion).posterior[0]))
        assert len(case.evidence) == count
        belief = case.log_odds + sum(case.evidence)
        assert belief == pytest.approx(logit(URN.metadata_as(UrnQuestion).posterior[count]))
        assert (found.stated, found.belief, found.begins) == (0, None, len("You are an expert.\n\n"))


def test_thoughts_are_no_evidence_about_an_urn() -> None:
    assert look(URN, URN.input, PIECES[0], thoughts=3) == look(URN, URN.input, PIECES[0])


def test_each_statement_on_a_bundled_question_is_a_thought() -> None:
    fields: dict[str, Any] = {"question": FORECAST.input, "proposition": FORECAST.metadata_as(Question).proposition}
    assert look(FORECAST, FORECAST.input) == Reading(signal(0), 0, None, 0, **fields)
    assert look(FORECAST, FORECAST.input, thoughts=1).case == signal(1)
    reading = look(FORECAST, FORECAST.input, stated("10.00"), stated("20.00", 2), thoughts=1, epoch=2, skill=1.7)
    assert reading == Reading(signal(3, epoch=2, skill=1.7), 2, 0.2, 0, **fields)


def test_every_bundled_question_is_known_by_itself() -> None:
    for domain in BUNDLED:
        for item in bundled_of(domain):
            if item.metadata_as(Question).proposition:
                assert look(item, f"Consider{item.input}this.").case.key == item.id


def test_the_last_belief_stands_until_evidence_comes() -> None:
    assert look(URN, URN.input, PIECES[0], stated("10.00"), stated("20.00")).belief == 0.2
    after = look(URN, URN.input, PIECES[0], stated("10.00"), PIECES[1])
    assert (after.stated, after.belief) == (1, None)
    repeated = look(URN, URN.input, PIECES[0], stated("10.00"), URN.input, PIECES[0])
    assert (repeated.stated, repeated.belief) == (1, 0.1), "what is quoted again is no news"
    assert look(URN, URN.input, stated("10.00"), PIECES[0], stated("30.00")).belief == 0.3


def test_a_belief_before_the_question_does_not_count() -> None:
    for item in (URN, FORECAST):
        found = look(item, stated("10.00"), item.input)
        assert (found.stated, found.belief) == (0, None)
        assert found.begins == len(stated("10.00")) + 2


def test_only_the_question_that_is_worked_on_is_read() -> None:
    for item, distractor in ((URN, FORECAST), (FORECAST, URN), (URN, OTHER)):
        around = look(item, distractor.input, item.input, distractor.input, *distractor.metadata_as(Question).evidence)
        assert around.case == look(item, item.input).case


def test_evidence_counts_wherever_it_stands_and_for_its_place_in_the_order() -> None:
    [item] = testimony(n=1)
    metadata = item.metadata_as(TestimonyQuestion)
    odds = [logit(p) for p in metadata.posterior]
    steps = [after - before for before, after in pairwise(odds)]
    first, last = metadata.evidence[0], metadata.evidence[-1]
    assert look(item, last, item.input, first).case.evidence == pytest.approx((steps[0], steps[-1]))
    naive = read_conversation(f"{item.input}\n{first}", 1, 0, Parameters(), naive=True).case
    assert [naive.log_odds, naive.log_odds + naive.evidence[0]] == pytest.approx([logit(p) for p in metadata.naive[:2]])


def test_a_text_without_the_question_is_refused() -> None:
    for text in ("Will pigs fly by 2030?", "", URN.metadata_as(Question).proposition, OTHER.input):
        with pytest.raises(BadInput, match="does not find it in this conversation"):
            look(URN, text)
    ASKED.set(None)
    with pytest.raises(BadInput, match="does not find it in this conversation"):
        read_conversation(str(URN.input), 1, 0, Parameters())


def test_each_key_phrase_is_in_the_prompts_that_it_tells_apart() -> None:
    reading, view, belief = (
        READ.format(what=WHAT[stage], whose=WHOSE[standpoint], question="", text="", proposition="")
        for stage, standpoint in (("", "policy"), ("prior", "policy"), ("", "judge"))
    )
    prompts = {
        "probe": PROBE,
        "second probe": PROBE_2,
        "first view": VIEW,
        "list": JOINT,
        "answer": direct.STATE_BELIEF,
    }
    prompts |= {"reading": reading, "reading of a first view": view, "belief of the reader": belief}
    prompts |= {"list of the reader": WHOSE_JOINT["judge"], "speech": self_debate.ARGUE}
    readings = {"reading", "reading of a first view", "belief of the reader"}
    for phrase, names in {
        Asks.PERCENT: {"probe", "second probe"} | readings,
        Asks.PERCENT_AGAIN: {"second probe"},
        Asks.FIRST_VIEW: {"first view", "reading of a first view"},
        Asks.READING: readings,
        Asks.ARGUMENT: {"speech"},
        MARKER: {"answer"},
        OWN: {"belief of the reader", "list of the reader"},
    }.items():
        assert {name for name, text in prompts.items() if phrase in text} == names
        assert not any(phrase in text for text in OTHER_PROMPTS)


OTHER_PROMPTS = [
    *(chain_of_thought.THINK, chain_of_thought.THINK_ON, chain_of_thought.WEIGH),
    *(direct.CHOOSE, direct.CONCLUDE, direct.EVIDENCE),
    *(self_debate.OPEN, self_debate.CONCLUDE, self_debate.DEBATE, self_debate.OPPONENT_TURN, self_debate.OTHER_TURN),
    *(dialogue.OPEN, dialogue.INTERLOCUTOR),
    *(bootstrap_interview.ASK, bootstrap_interview.WRITE, bootstrap_interview.SO_FAR),
]


def test_questions_and_agents_do_not_use_the_key_phrases() -> None:
    texts = [*STATED, *BEFORE, *REPORTED, NOT_A_MODEL, *OTHER_PROMPTS]
    for item in [*bundled("forecasting"), *(item for world in GENERATED for item in DOMAINS[world](n=30))]:
        question = item.metadata_as(Question)
        texts += [str(item.input), str(question.proposition), *question.evidence]
    for text in texts:
        assert not any(phrase in text for phrase in (Asks.PERCENT, Asks.FIRST_VIEW, OWN, MARKER))
        assert not LIST.search(text)
