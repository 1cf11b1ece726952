"""The simulated forecaster: its probabilities are those of Bayes' rule, or of what a note says."""

import math

import pytest
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, get_model

from truthgym.datasets.domains import bundled
from truthgym.datasets.errors import BadInput
from truthgym.datasets.evidence import OUTCOMES
from truthgym.datasets.question import ask_about
from truthgym.datasets.urns import urns
from truthgym.models.agents.forecaster import observation_logprobs
from truthgym.models.agents.policies import Parameters

ITEM = next(iter(urns(n=1, draws=3, base_rate=0.3)))
POSTERIOR = (ITEM.metadata or {})["posterior"]
EVIDENCE = (ITEM.metadata or {})["evidence"]


def total(note: str | None, observation: str = OUTCOMES["yes"], item: Sample = ITEM, **faults: float) -> float:
    ask_about(item)
    text = f"{item.input}\n\n" + ("" if note is None else f"<note>\n{note}\n</note>")
    words = observation_logprobs([ChatMessageUser(content=text)], observation, Parameters.model_validate(faults))
    assert "".join(word for word, _ in words) == observation
    return sum(logprob for _, logprob in words)


@pytest.mark.parametrize("note", [None, "Who can tell?", " ".join(OUTCOMES.values())])
def test_without_a_claim_it_knows_the_base_rate(note: str | None) -> None:
    assert total(note) == pytest.approx(math.log(0.3))
    assert total(note, OUTCOMES["no"]) == pytest.approx(math.log(0.7))


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_it_updates_on_the_evidence_that_a_note_quotes(pieces: int) -> None:
    assert total("\n".join(EVIDENCE[:pieces])) == pytest.approx(math.log(POSTERIOR[pieces]))


def test_it_takes_the_last_probability_that_a_note_states() -> None:
    assert total(r"First \finalBeliefProb{0.9}, now \finalBeliefProb{0.20}") == pytest.approx(math.log(0.2))
    assert total("That leaves me at a probability of 65.00% for it.", OUTCOMES["no"]) == pytest.approx(math.log(0.35))


def test_it_is_never_certain() -> None:
    assert total(r"\finalBeliefProb{0.0}") == pytest.approx(math.log(0.001))


def test_it_believes_a_copied_observation() -> None:
    assert total(f"I looked. {OUTCOMES['no']}", OUTCOMES["no"]) == pytest.approx(math.log(0.999))


def test_an_observation_of_a_bundled_question_is_what_its_outcome_brings() -> None:
    item = next(question for question in bundled("forecasting") if question.id == "scotland-referendum-turnout-2014")
    assert item.target == "yes"
    assert total(r"\finalBeliefProb{0.8}", "The turnout was 84.6 percent.", item) == pytest.approx(math.log(0.8))
    assert total(None, "The turnout was 84.6 percent.", item) == pytest.approx(math.log(0.5))


def test_its_faults_cost_what_is_planted() -> None:
    assert total(None, familiar=0.5) == pytest.approx(math.log(0.3) - 0.5)
    assert total("Hm.", familiar=0.5) == pytest.approx(math.log(0.3))
    assert total("So it is. Yes?", lexical=0.25) == pytest.approx(math.log(0.3))
    assert total("Well, yes.", lexical=0.25) == pytest.approx(math.log(0.3) - 3 * 0.25)


def test_it_does_not_know_every_question() -> None:
    with pytest.raises(BadInput, match="reference/forecaster knows the question that is scored"):
        observation_logprobs([ChatMessageUser(content="Will it rain?")], "Yes.", Parameters())


def test_no_other_agent_gives_log_probabilities_of_given_texts() -> None:
    assert hasattr(get_model("reference/forecaster").api, "score_replies")
    assert not hasattr(get_model("reference/bayesian").api, "score_replies")
