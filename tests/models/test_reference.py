"""The provider: what it reads in a conversation, what it refuses, and that it is the same every time."""

import re
from typing import Any

import numpy as np
import pytest
from inspect_ai import Task, score
from inspect_ai.dataset import MemoryDataset
from inspect_ai.log import EvalLog
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, get_model
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import TaskState

from tests.fixtures import Run, samples, score_of, task_of
from tests.models.simulated import ask, case_of, instruction, probe, prompt
from truthgym.datasets.domains import bundled
from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import ASKED, Question, ask_about, question_of
from truthgym.datasets.urns import UrnQuestion, urns
from truthgym.models.agents import judge
from truthgym.models.agents.agent import DECLINED
from truthgym.models.agents.belief_reports import percent
from truthgym.models.agents.policies import AGENTS, ERRORS, SILENCE, Case, Parameters, believe
from truthgym.models.agents.reading import MARKER, STATED, last_probability, stated_beliefs
from truthgym.scorers.beliefs.elicitation import PROBE, PROBE_2, READ, VIEW, WHAT, WHOSE
from truthgym.scorers.beliefs.parsing import read_belief
from truthgym.scorers.brier import brier
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.direct import answer_instruction, direct
from truthgym.solvers.trajectory import Trajectory, user_message
from truthgym.tasks.worlds import urns as task_of_urns

OTHERS_TAKE = ("strength", "leak", "slack", *sorted(judge.BIASES - {"coarse"}))
LEARNING = [name for name, agent in AGENTS.items() if agent.update and not agent.from_start]


def bayes(case: Case) -> float:
    return believe("bayesian", case, 1, 0, Parameters())


URN = urns(n=1)[0]
FORECAST = bundled("forecasting")[0]


@pytest.mark.parametrize("name", LEARNING)
def test_every_agent_states_what_its_pure_function_believes(name: str) -> None:
    planted: dict[str, Any] = {"strength": 0.8} if "strength" in AGENTS[name].takes else {}
    for item in urns(n=5):
        case = case_of(item)
        reply = ask(prompt(item), model=name, **planted).completion
        assert read_belief(reply) == believe(name, case, 1, 0, Parameters(**planted))
        assert reply.startswith(f"(Simulated {name} agent, not a language model.)")
    reply = ask(prompt(FORECAST), model=name, **planted).completion
    assert read_belief(reply) == believe(name, case_of(FORECAST, 1), 1, 0, Parameters(**planted))


def test_it_finds_the_question_in_another_solvers_wrapping() -> None:
    ask_about(URN)
    wrapped = user_message(f"You are an expert.\n<q>{URN.input}</q>\n{instruction(URN)}", 1)
    assert read_belief(ask(wrapped).completion) == pytest.approx(URN.metadata_as(UrnQuestion).posterior[0], abs=6e-5)


def test_new_evidence_is_weighed_before_a_report() -> None:
    ask_about(URN)
    pieces = URN.metadata_as(UrnQuestion).evidence
    opening = user_message(f"{URN.input}\n{pieces[0]}", 1)
    reply = ChatMessageAssistant(content="So I would give it 50.00 chances in 100.")
    ending = user_message(f"{pieces[1]}\n{instruction(URN)}", 1)
    belief = read_belief(ask(opening, reply, ending).completion)
    assert belief == pytest.approx(URN.metadata_as(UrnQuestion).posterior[2], abs=6e-5)


def test_without_being_asked_for_the_form_it_thinks_aloud() -> None:
    ask_about(FORECAST)
    reply = ask(user_message(str(FORECAST.input), 1)).completion
    assert "finalBeliefProb" not in reply
    assert "%" in reply or "chances in 100" in reply


def test_it_says_that_it_is_simulated_and_reports_usage() -> None:
    output = ask(prompt(URN))
    assert output.model == "reference/bayesian (simulated)"
    assert output.completion.startswith("(Simulated bayesian agent, not a language model.)")
    assert output.usage
    assert output.usage.total_tokens == output.usage.input_tokens + output.usage.output_tokens > 0


def percent_said(reply: str) -> float:
    """The one whole percent that a reply to a probe consists of."""
    disclaimer, number = reply.split("\n\n")
    assert disclaimer.startswith("(Simulated ")
    assert re.fullmatch(r"[0-9]{1,3}%", number)
    belief = read_belief(reply)
    assert belief is not None
    assert belief == int(number[:-1]) / 100
    return belief


@pytest.mark.parametrize("name", LEARNING)
def test_a_probe_in_a_fresh_context_is_answered_with_the_prior(name: str) -> None:
    for item in urns(n=10):
        reply = ask(probe(item, fresh=True), model=name).completion
        assert percent_said(reply) == item.metadata_as(Question).base_rate
    for item in bundled("forecasting")[:10]:
        planted = Parameters(skill=2, seed=5)
        reply = ask(probe(item, fresh=True), model=name, skill=2, seed=5).completion
        assert percent_said(reply) == percent(bayes(case_of(item, 0, 1, planted)))


def test_a_first_sight_is_the_same_in_every_epoch() -> None:
    for item in (URN, FORECAST):
        assert len({ask(probe(item, epoch, fresh=True)).completion for epoch in (1, 2, 3)}) == 1
        assert len({ask(probe(item, epoch, fresh=True), noise=0.2).completion for epoch in (1, 2, 3)}) == 3


@pytest.mark.parametrize("name", AGENTS)
def test_a_probe_after_an_answer_gets_the_last_belief(name: str) -> None:
    for item in (URN, FORECAST, *urns(n=3, seed=1)):
        answer = ask(prompt(item), model=name).completion
        reply = ask(prompt(item), ChatMessageAssistant(content=answer), probe(item), model=name).completion
        assert percent_said(reply) == percent(stated_beliefs(answer)[-1][1])


@pytest.mark.parametrize("item", [URN, FORECAST])
def test_an_agent_that_refuses_says_so_in_words_without_a_number(item: Any) -> None:
    answer = ask(prompt(item), min_confidence=0.5).completion
    assert answer.startswith(DECLINED)
    assert read_belief(answer) is None
    assert stated_beliefs(answer) == []
    after = ask(prompt(item), ChatMessageAssistant(content=answer), probe(item), min_confidence=0.5)
    assert after.completion.startswith(DECLINED)
    assert percent_said(ask(probe(item, fresh=True), min_confidence=0.5).completion) > 0, "the prior is no answer"


def test_another_wording_of_the_probe_has_an_error_of_its_own() -> None:
    reports = [(item, words) for item in urns(n=12) for words in (PROBE, PROBE_2)]
    cases: list[tuple[int, dict[str, Any]]] = [(1, {}), (2, {"wording": 0.1}), (1, {"wording": 0.1})]

    def number(item: Any, words: str, epoch: int, parameters: dict[str, Any]) -> float:
        return percent_said(ask(probe(item, epoch, fresh=True, request=words), **parameters).completion)

    plain, again, wrong = ([number(*report, *case) for report in reports] for case in cases)
    assert plain[::2] == plain[1::2]
    assert wrong == again, "common to all epochs"
    errors = np.array(wrong) - np.array(plain)
    assert np.mean(errors != 0) > 0.8
    assert np.mean(errors[::2] != errors[1::2]) > 0.8


def test_a_first_view_is_words_without_a_new_thought() -> None:
    for item in [*urns(n=10), *bundled("forecasting")[:10]]:
        # noise is of reports, and this is none
        reply = ask(probe(item, fresh=True, request=VIEW), noise=0.2).completion
        prior = item.metadata_as(Question).base_rate
        believed = bayes(case_of(item)) if prior is None else prior
        assert last_probability(reply, 0) == pytest.approx(believed, abs=1e-12)
        assert MARKER not in reply
        assert read_belief(reply) is None


def test_any_agent_reports_the_belief_in_a_text() -> None:
    for item in (URN, FORECAST):
        ask_about(item)
        stated = STATED[0].format(percent="41.70")
        text = READ.format(
            what=WHAT[""],
            question=item.input,
            text=stated,
            whose=WHOSE["policy"],
            proposition=item.metadata_as(Question).proposition,
        )
        assert percent_said(ask(user_message(text, 1)).completion) == 0.42
        assert percent_said(ask(user_message(text, 1), model="judge").completion) == 0.42
        # Told the same in a conversation, it is another's belief and not its own.
        prior = item.metadata_as(Question).base_rate or bayes(case_of(item))
        conversation = f"{item.input}\n\n{stated}\n\n{probe(item).text}"
        assert percent_said(ask(user_message(conversation, 1)).completion) == percent(prior)


def test_a_reply_depends_on_epoch_seed_and_conversation_alone() -> None:
    first = ask(prompt(URN), noise=0.1).completion
    assert ask(prompt(URN), noise=0.1).completion == first
    assert ask(prompt(URN, epoch=2), noise=0.1).completion != first
    assert ask(prompt(URN), noise=0.1, seed=1).completion != first


def test_refusals() -> None:
    unknown = Question(domain="d", event="e", split="train", proposition="Pigs fly by 2030.")
    views = [request.format(proposition=unknown.proposition) for request in (PROBE, VIEW)]
    for wanted in (*views, answer_instruction(unknown)):
        with pytest.raises(BadInput, match=r"does not find it .*'Will pigs fly.*direct\(\)"):
            ask(user_message(f"Will pigs fly by 2030?\n\n{wanted}", 1))
    ASKED.set(None)
    for model in ("bayesian", "judge"):
        with pytest.raises(BadInput, match="needs the epoch"):
            ask(ChatMessageUser(content=str(URN.input)), model=model)


def test_without_an_epoch_in_the_messages_it_is_the_questions_own() -> None:
    message = prompt(URN, epoch=2)
    assert ask(ChatMessageUser(content=message.text), noise=0.1).completion == ask(message, noise=0.1).completion


@pytest.mark.parametrize(
    ("model", "given", "problem"),
    [
        ("juge", {}, "reference agent 'juge'; did you mean 'judge'"),
        ("bayesian", {"nosie": 0.1}, "argument of reference/bayesian 'nosie'; did you mean 'noise'"),
        *(("bayesian", {name: 0.1}, f"reference/bayesian '{name}'; known: care, clip, c") for name in OTHERS_TAKE),
        ("random", {"noise": 0.1}, "reference/random 'noise'; known: care, seed"),
        *(
            (name, {given: 0.1}, f"reference/{name} '{given}'")
            for name in ("random", "judge")
            for given in sorted(ERRORS | SILENCE)
            if (name, given) != ("judge", "coarse")
        ),
        ("bayesian", {"stage": "first"}, "-M stage=first cannot be used: Input should be 'prior', 'posterior'"),
        ("bayesian", {"coarse": 0.6}, "-M coarse=0.6 cannot be used"),
        ("trusting", {"trust": 0.1}, "reference/trusting 'trust'"),
        ("interviewer", {"care": 0.5}, "reference/interviewer 'care'; known: seed"),
        ("judge", {"shared": 0.3}, "reference/judge 'shared'"),
        ("bayesian", {"noise": -1, "care": 1.5}, "-M noise=-1 cannot be used"),
        ("bayesian", {"noise": -1, "care": 1.5}, "-M care=1.5 cannot be used"),
        ("sycophant", {"argues": -1}, "-M argues=-1 cannot be used"),
        ("entrenched", {"strength": "lots"}, "-M strength=lots cannot be used"),
        *((name, {"strength": 1.01}, "takes a strength from 0 to 1") for name in ("underreacting", "confirming")),
    ],
)
def test_a_bad_name_argument_or_value_is_refused(model: str, given: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInput, match=re.escape(problem)):
        get_model(f"reference/{model}", memoize=False, **given)


def beliefs(log: EvalLog, key: str = "brier") -> dict[tuple[object, int], object]:
    return {(s.id, s.epoch): (score_of(s, key).metadata or {})["belief"] for s in samples(log)}


def forecast_task(n: int = 3) -> Task:
    dataset = MemoryDataset(bundled("forecasting")[:n])
    return task_of(dataset, chain_of_thought(steps=2), brier(), epochs=3)


def test_concurrency_changes_nothing(run: Run) -> None:
    noisy = get_model("reference/bayesian", noise=0.1)
    runs = [beliefs(run(forecast_task(), noisy, max_connections=c, max_samples=c)) for c in (1, 20)]
    assert runs[0] == runs[1]
    assert len(set(runs[0].values())) > 7, "each question and epoch has noise of its own; two may agree to four digits"


@scorer(metrics=[mean()])
def asked_again(cache: bool) -> Scorer:
    """Ask for a belief once more in a context of its own, as elicitation does."""

    async def again(state: TaskState, target: Target) -> Score:
        question = question_of(state, Question)
        asking = user_message(f"{state.input_text}\n\n{answer_instruction(question)}", state.epoch)
        output = await get_model().generate([asking], cache=cache)
        return Score(value=read_belief(output.completion) or 0, metadata={"belief": output.completion})

    return again


@pytest.mark.parametrize("cache", [False, True])
def test_a_second_pass_asks_each_epoch_anew_cache_or_not(
    run: Run, cache: bool, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSPECT_CACHE_DIR", str(tmp_path / "cache"))
    task = task_of(MemoryDataset(bundled("forecasting")[:4]), direct(), asked_again(cache), epochs=3)
    model = get_model("reference/bayesian", noise=0.15)
    in_the_run = beliefs(run(task, model), "asked_again")
    assert len(set(in_the_run.values())) == 12
    # an empty cache: what the run stored must not help the second pass
    monkeypatch.setenv("INSPECT_CACHE_DIR", str(tmp_path / "another cache"))
    log = run(task, model, score=False)
    again = beliefs(score(log, asked_again(cache), model=model, display="log"), "asked_again")
    assert again == in_the_run, "no epoch is answered by another's cached reply"


def test_each_thought_of_a_chain_adds_to_the_last(run: Run) -> None:
    log = run(forecast_task())
    sample = samples(log)[0]
    texts = [s.text for s in sample.store_as(Trajectory).steps if s.role == "assistant"]
    item = next(s for s in bundled("forecasting") if s.id == sample.id)
    stated = ""
    for thoughts, text in enumerate(texts[:2], start=1):
        stated = f"{100 * bayes(case_of(item, thoughts, sample.epoch)):.2f}"
        assert stated in text
    assert read_belief(texts[2]) == pytest.approx(float(stated) / 100)


def test_inspects_cache_keeps_agents_apart(run: Run, monkeypatch: Any, tmp_path: Any) -> None:
    monkeypatch.setenv("INSPECT_CACHE_DIR", str(tmp_path / "cache"))
    beliefs = {}
    for place, noise in enumerate((0.1, 0.4, 0.1)):
        model = get_model("reference/bayesian", noise=noise, memoize=False)
        log = run(task_of_urns(n=3, paradigms="brier"), model, cache=True)
        beliefs[place] = [score_of(s, "brier").value for s in samples(log) if s.scores]
    assert beliefs[0] == beliefs[2] != beliefs[1]
    assert {e.cache for s in samples(log) for e in s.events if e.event == "model"} == {"read"}
