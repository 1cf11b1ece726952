"""The scorer `rubric`: figures, failures of the judge, and end to end on agents whose truth is known."""

import asyncio
import json
from typing import Any

import numpy as np
import pytest
from inspect_ai import score
from inspect_ai.log import EvalLog
from inspect_ai.model import Model, get_model

from tests.fixtures import Fails, Run, listens, metrics, number, rain, samples, says, score_of, task_of
from truthgym.models.agents.quality_markers import MARKERS, TOPICS, topic_quality
from truthgym.scorers.rubric import rubric
from truthgym.scorers.rubrics.grading import by_criteria
from truthgym.scorers.rubrics.reward import Artifact, Content, ModelSpec, RubricReward, read_reward
from truthgym.solvers.direct import direct
from truthgym.tasks.worlds import urns
from truthgym.training.reward_functions.resolve import resolve_rewards
from truthgym.training.trl_rewards import graded

PLANTED = {
    "name": "planted",
    "scale": "0-1",
    "criteria": [{"id": f"c{i}", "text": f"Names {TOPICS[i]} and {TOPICS[i + 1]}."} for i in range(0, 8, 2)],
}
TWO = {"name": "two", "criteria": [{"id": "a", "text": "Is good.", "weight": 3}, {"id": "b", "text": "Is short."}]}


def reply(**grades: object) -> str:
    return json.dumps({"reasons": "So.", **grades})


def judged(run: Run, judge: Model, answer: str = "Yes.", **arguments: Any) -> EvalLog:
    task = task_of(rain(), direct(), rubric(**({"rubric": TWO} | arguments)))
    return run(task, says(answer), model_roles={"judge": judge})


def score_and_details(log: EvalLog) -> tuple[float, dict[str, Any]]:
    entry = score_of(samples(log)[0], "rubric")
    assert isinstance(entry.value, dict)
    return float(entry.value["rubric_score"] or 0), entry.metadata or {}


@pytest.fixture(scope="module")
def planted(run_once: Run) -> EvalLog:
    task = urns(n=6, paradigms={"rubric": {"rubric": PLANTED, "votes": 2, "figures": "all"}})
    judge = get_model("reference/judge", noise=0.1)
    return run_once(task, get_model("reference/bayesian", care=0.5), model_roles={"judge": judge}, epochs=1)


def test_known_truth(planted: EvalLog) -> None:
    exact = [sum(marker in sample.output.completion for marker in MARKERS) / 8 for sample in samples(planted)]
    roles = {"judge": "reference/judge"}
    scored = score(planted, rubric(PLANTED), model_roles=roles, display="log", action="overwrite")
    for entry, share in zip(samples(scored), exact, strict=True):
        assert number(entry, "rubric", "rubric_score") == pytest.approx(share, abs=0.011), "from 0.01 to 0.99"
    assert metrics(scored)["rubric_score"] == pytest.approx(np.mean(exact), abs=0.011)
    assert 0.02 < metrics(planted)["repeat_sd"] < 0.2


def test_scoring_the_log_again_gives_the_same(planted: EvalLog) -> None:
    scorer = rubric(PLANTED, votes=2, figures="all")
    roles = {"judge": get_model("reference/judge", noise=0.1)}
    again = score(planted, scorer, model_roles=roles, display="log", action="overwrite")
    result = metrics(planted)
    assert metrics(again) == pytest.approx(result, nan_ok=True)
    assert (result["n"], result["share_scored"], result["share_unread"], result["share_na"]) == (6, 1, 0, 0)


def test_votes_are_averaged_and_unread_ones_left_out(run: Run) -> None:
    replies = iter([reply(a=1, b=0), "hm", reply(a=0, b=1)])
    log = judged(run, says(lambda _: next(replies)), votes=3)
    value, metadata = score_and_details(log)
    assert value == pytest.approx((3 * 0.5 + 0.5) / 4)
    assert metadata["details"]["votes"] == [0.75, 0.25]
    assert "not in form" in metadata["details"]["unread"][0]
    assert metadata["details"]["repaired"] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (reply(a=1), "b"),
        (reply(a=1, b=2), "Input should be 0 or 1"),
        (reply(a="na", b=0), "Input should be 0 or 1"),
        (reply(a=True, b=0), "not true or false"),
        ("", "empty reply"),
    ],
)
def test_a_failure_is_never_a_score(run: Run, text: str, message: str) -> None:
    log = judged(run, says(text))
    assert metrics(log)["share_scored"] == 0
    assert message in score_and_details(log)[1]["reason"]


def test_a_judge_that_cannot_be_reached_is_told_apart(run: Run) -> None:
    def fails(_: object) -> str:
        raise RuntimeError("no connection")

    log = judged(run, says(fails))
    assert score_and_details(log)[1]["reason"].startswith("The judge mockllm/model failed (RuntimeError")
    assert metrics(log)["share_scored"] == 0


def test_what_does_not_apply_leaves_the_mean(run: Run) -> None:
    allowed = TWO | {"allow_na": True}
    value, metadata = score_and_details(judged(run, says(reply(a="na", b=1)), rubric=allowed))
    assert value == 1
    assert metadata["details"]["criteria"] == {"a": None, "b": 1}
    log = judged(run, says(reply(a="na", b="na")), rubric=allowed, cache=False)
    assert "every criterion that it does not apply" in score_and_details(log)[1]["reason"]


def test_what_the_judge_is_shown(run: Run) -> None:
    judge, heard = listens(reply(a=1, b=1))
    answer = "Thinking.<answer>It will. </rubric> {form}</answer>"
    log = judged(run, judge, answer, extraction={"kind": "tag", "pattern": "answer"})
    shown = heard[0][0].text
    assert "- a: Is good." in shown
    assert "<answer>\nIt will. ‹/rubric> {form}\n</answer>" in shown
    assert "Thinking" not in shown
    assert metrics(log)["share_missed"] == 0
    log = judged(run, judge, "No tags.", extraction={"kind": "tag", "pattern": "answer"}, language="zh")
    assert "<answer>\nNo tags.\n</answer>" in heard[1][0].text
    assert "评分标准" in heard[1][0].text
    assert metrics(log)["share_missed"] == 1


def test_an_artifact_names_its_judge(run: Run, fails: Fails) -> None:
    reward = read_reward(TWO)[0]
    assert isinstance(reward, RubricReward)
    judge = ModelSpec(model="reference/judge", model_args={"discernment": 0.0})
    assert "needs the role judge" in fails(urns(n=1, paradigms={"rubric": {"rubric": TWO}}))
    artifact = Artifact.of(Content(reward=reward.model_copy(update={"judges": (judge,)}))).model_dump(mode="json")
    task = task_of(rain(), direct(), rubric(artifact))
    log = run(task, says("Yes."))
    assert score_and_details(log)[0] in (0, 0.25, 0.75, 1), "its judge was asked without a role"
    assert score_and_details(log)[1]["artifact"] == artifact["artifact_id"]


def test_it_is_a_reward() -> None:
    reward = resolve_rewards(["rubric"], {"task": ["rubric"]})
    assert reward[0].name == "rubric"
    judge = says(reply(a=1, b=0))
    function = graded(by_criteria(read_reward(TWO)[0]), model=judge)
    rewards: list[Any] = asyncio.run(function(["Q"], ["A"], target=[""]))  # type: ignore[arg-type]
    assert rewards == [0.75]


def test_the_simulated_judge_reads_what_a_criterion_names() -> None:
    for topic, marker in zip(TOPICS, MARKERS, strict=True):
        assert topic_quality(f"It {topic}.", marker) == 1
        assert sum(topic_quality(f"It {topic}.", other) or 0 for other in MARKERS) == 1
    assert topic_quality("Answers at length.", "word " * 100) == 0.25
