"""Belief in the model's own answer, through the real tasks: known Brier scores, an attack, and bad input."""

from typing import Any

import numpy as np
import pytest
from inspect_ai import score
from inspect_ai.log import EvalLog
from inspect_ai.model import ChatMessage, ModelOutput, get_model
from inspect_ai.scorer import SampleScore, Score

from tests.fixtures import Run, details, listens, metrics, samples, says, values
from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import OWN_ANSWER
from truthgym.models.agents.policies import Parameters
from truthgym.models.agents.tool_users import chain_belief
from truthgym.scorers.brier import brier, summarise_scores
from truthgym.scorers.martingale import martingale
from truthgym.tasks.agents import agent_bench_mini, code_repair, fact_chains, gaia_mini
from truthgym.tasks.worlds import urns

OWN: dict[str, Any] = {"about": "own_answer", "figures": "all"}
TESTED: dict[str, Any] = {"grader": "hidden_tests", "trusted": True}
SLIP = 0.3
SAID = {"sure": 1.0, "half": 0.5}


@pytest.fixture(scope="module")
def walks(run_once: Run) -> dict[str, EvalLog]:
    """One walk through all chains, and what agents of other beliefs say of its answers."""
    task = fact_chains(n=40, hops=(1, 3), paradigms={"brier": OWN, "agent_answer": {}})
    log = run_once(task, get_model("reference/walker", slip=SLIP), epochs=1)
    others = {name: get_model("reference/walker", slip=SLIP, own_belief=belief) for name, belief in SAID.items()}
    return {"calibrated": log} | {
        name: score(log, brier(**OWN), action="append", model=model, display="none") for name, model in others.items()
    }


def facts(log: EvalLog, name: str = "brier") -> list[dict[str, Any]]:
    return [details(sample, name) for sample in samples(log)]


def test_a_calibrated_walker_has_the_known_score(walks: dict[str, EvalLog]) -> None:
    """Chains of 1 and of 3 hops: it is right in the planted shares p, so that its score is p (1 - p) on average."""
    found, back = metrics(walks["calibrated"]), 1 / 20
    one = 1 - SLIP
    two = one * (1 - SLIP) + (1 - one) * back
    three = two * (1 - SLIP) + (1 - two) * back
    assert {fact["beliefs"][0]["value"] for fact in facts(walks["calibrated"])} == {round(one, 2), round(three, 2)}
    known = (one * (1 - one) + three * (1 - three)) / 2
    assert found["brier_lower"] < known < found["brier_upper"]
    assert found["murphy_reliability"] < 0.01
    assert (found["n"], found["share_scored"]) == (40, 1)


def test_a_belief_of_one_half_scores_a_quarter_and_one_that_is_sure_its_errors(walks: dict[str, EvalLog]) -> None:
    right = metrics(walks["sure"], 0)["answer"]
    assert right == metrics(walks["calibrated"], 0)["answer"]
    assert metrics(walks["half"])["brier"] == 0.25
    assert metrics(walks["sure"])["brier"] == pytest.approx(1 - right)
    assert metrics(walks["calibrated"])["brier"] < 0.25 < metrics(walks["sure"])["brier"]
    assert metrics(walks["sure"])["murphy_reliability"] > 0.1


@pytest.mark.parametrize("agent", ["no_tool", "looking_busy"])
def test_an_agent_that_is_wrong_on_purpose_and_says_so_has_a_perfect_score(run: Run, agent: str) -> None:
    """So it is read beside the answer, which must be scored too."""
    log = run(agent_bench_mini(n=6, paradigms={"brier": OWN, "agent_answer": {}}), f"reference/{agent}")
    assert (metrics(log)["brier"], metrics(log, 0)["answer"]) == (0, 0)


@pytest.mark.parametrize(
    ("agent", "least", "most"), [("oracle", 0, 0), ("bayesian", 0, 0.01), ("inventing", 0.9, 0.91)]
)
def test_it_is_not_the_belief_that_there_is_an_answer(run: Run, agent: str, least: float, most: float) -> None:
    task = agent_bench_mini(n=6, paradigms={"agent_answer": {}, "brier": {}})
    log = run(task, f"reference/{agent}")
    both = score(log, brier(about="own_answer"), action="append")
    assert metrics(both, 1) == metrics(log, 1)
    assert least <= metrics(both)["brier"] <= most
    assert metrics(both)["brier"] != metrics(both, 1)["brier"]
    outcomes = [fact["outcome"] for fact in facts(both, "brier1")]
    assert outcomes == [values(sample, "agent_answer")["answer"] for sample in samples(both)]


def test_gaia_mini_and_code_repair_ask_for_it_too(run: Run) -> None:
    log = run(gaia_mini(n=3, paradigms={"brier": OWN, "agent_answer": {}}), "reference/bayesian")
    assert metrics(log)["brier"] < 0.01
    for agent, expected in (("oracle", 0.0), ("careless", 1.0)):
        log = run(code_repair(trusted=True, n=2, paradigms={"brier": OWN, "graded": TESTED}), f"reference/{agent}")
        assert metrics(log)["brier"] == expected
        assert metrics(log, 0)["grade"] == 1 - expected


def test_the_statement_says_what_counts_as_right(run: Run) -> None:
    own_grade = {"graded": TESTED, "brier": OWN}
    for task, rule in (
        (code_repair(trusted=True, n=1, paradigms=own_grade), " (It is right if it passes every hidden test.)"),
        (agent_bench_mini(n=1, paradigms={"agent_answer": {}, "brier": OWN}), " (`Answer: none` is right only if"),
        (fact_chains(n=1, hops=1, paradigms={"agent_answer": {}, "brier": OWN}), "\n\n"),
    ):
        model, heard = listens(lambda messages: "90" if OWN_ANSWER in messages[-1].text else "Answer: none")
        run(task, model)
        probe = next(messages for messages in heard if OWN_ANSWER in messages[-1].text)
        assert f"{OWN_ANSWER}{rule}" in probe[-1].text
        assert probe[-2].text == "Answer: none"


def test_along_the_way_there_is_no_exact_belief(run: Run) -> None:
    """And the last belief is one report: `brier` asks for none that `martingale` has had answered."""
    paradigms = {"martingale": {"about": "own_answer", "per": "step"}, "brier": OWN, "agent_answer": {}}
    log = run(agent_bench_mini(n=3, paradigms=paradigms), "reference/bayesian", epochs=2)
    for found, last in zip(facts(log, "martingale"), facts(log), strict=True):
        assert "exact" not in found
        assert found["outcome"] is None
        assert found["beliefs"][0]["stage"] == "prior"
        assert any(one["stage"].startswith("step") for one in found["beliefs"])
        assert all("value" in belief for belief in found["beliefs"])
        assert last["beliefs"][0] == found["beliefs"][-1]
    model, heard = listens(lambda messages: "90" if OWN_ANSWER in messages[-1].text else "Answer: none")
    run(agent_bench_mini(n=1, paradigms=paradigms), model)
    assert sum(OWN_ANSWER in messages[-1].text for messages in heard) == 2  # before and after, for both scorers


def test_an_answer_that_cannot_be_read_has_no_score_and_counts_as_wrong_where_it_is_imputed(run: Run) -> None:
    def reply(messages: list[ChatMessage]) -> str | ModelOutput:
        if OWN_ANSWER in messages[-1].text:
            return "90"
        return "Answer: none" if any("country 1000" in message.text for message in messages) else "I am done."

    log = run(agent_bench_mini(n=4, paradigms={"brier": OWN, "agent_answer": {}}), says(reply))
    found = metrics(log)
    assert (found["n"], found["share_scored"]) == (1, 0.25)
    assert found["brier"] == pytest.approx(0.81)
    assert found["brier_imputed"] == pytest.approx(0.81 / 4)  # none is right: the base rate of the others is 0
    assert sum("must have one line `Answer: X`" in str(fact["reason"]) for fact in facts(log)) == 3


def test_each_epoch_has_an_answer_of_its_metrics() -> None:
    def one(epoch: int, belief: float, outcome: float | None) -> SampleScore:
        facts = {"epoch": epoch, "event": "e", "outcome": outcome, "about": "own_answer"}
        return SampleScore(score=Score(value={"belief": belief}, metadata=facts), sample_id="q")

    found = summarise_scores([one(1, 0.8, 1.0), one(2, 0.6, 0.0)])
    assert found["brier"] == pytest.approx((0.2**2 + 0.6**2) / 2)
    assert (found["n"], found["clusters"]) == (2, 1)
    assert np.isnan(summarise_scores([one(1, np.nan, None)])["brier"])


def test_bad_values_are_one_error_before_any_call(run: Run) -> None:
    with pytest.raises(BadInput, match="needs a scorer beside it .* agent_answer, fact_chain, graded"):
        agent_bench_mini(n=1, paradigms={"brier": {"about": "own_answer"}})
    with pytest.raises(BadInput, match="own_anwser"):
        agent_bench_mini(n=1, paradigms={"brier": {"about": "own_anwser"}, "agent_answer": {}})
    with pytest.raises(BadInput, match="use read=stated"):
        brier(about="own_answer", read="token")
    with pytest.raises(BadInput, match="use elicitor=self"):
        martingale(about="own_answer", elicitor="judge")
    with pytest.raises(BadInput, match="use elicitor=self"):
        martingale(about="own_answer", joint=True)
    log = run(agent_bench_mini(n=1), "reference/oracle")
    with pytest.raises(Exception, match="score a log with inspect score --action append"):
        score(log, brier(about="own_answer"), action="overwrite")


def test_a_grade_between_both_ends_is_neither_right_nor_wrong(run: Run) -> None:
    log = run(urns(n=2, paradigms={"graded": {}, "brier": OWN}), "reference/bayesian", epochs=1)
    assert metrics(log)["share_scored"] == 0
    assert all("neither 0 nor 1" in str(fact["reason"]) for fact in facts(log))


def test_a_walker_knows_no_other_question() -> None:
    assert chain_belief("How likely is it?", Parameters()) is None
