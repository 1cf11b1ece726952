"""Any Inspect scorer's number as a reward: its sign, what cannot be read, and what is no number."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspect_ai.model import ChatMessage
from inspect_ai.scorer import Score

from tests.fixtures import Run, says
from truthgym.datasets.errors import BadInput
from truthgym.scorers.statistics.direction import NO_OUTCOME
from truthgym.tasks.worlds import urns
from truthgym.training.reward_functions.rollout import Rollout
from truthgym.training.reward_functions.scorer_reward import ScorerReward


def scored(scorer: str, value: Any, target: str = "yes", **metadata: Any) -> Rollout:
    score = Score(value=value, metadata=metadata or None)
    return Rollout("mine", "s1", 2, "Is it?", target, scores={scorer: score}, answer="Yes.")


def failed(**fields: Any) -> Rollout:
    return Rollout("mine", "s1", 3, "Is it?", "yes", answer="Yes.", error="ValueError", **fields)


def rewards(name: str, *values: Any, best: Any = None, **metadata: Any) -> list[float | None]:
    scorer, _, key = name.partition("/")
    reward = ScorerReward(name, scorer, key or None, best)
    return reward([scored(scorer, value, **metadata) for value in values])


@pytest.mark.parametrize(
    ("name", "value", "reward"),
    [
        ("brier", {"belief": 0.9, "brier_score": 0.01, "accuracy": 1.0}, -0.01),
        ("brier/accuracy", {"belief": 0.9, "brier_score": 0.01, "accuracy": 1.0}, 1.0),
        ("brier/log_score", {"log_score": 0.3}, -0.3),
        ("sycophantic_reasoning", {"belief": 0.9, "brier_score": 0.01}, -0.01),
        ("qualitative", {"quality": 0.7, "curiosity": 0.2, "spread": 0.1}, 0.7),
        ("qualitative/curiosity", {"quality": 0.7, "curiosity": 0.2}, 0.2),
        ("length", {"words": 9, "kept": 1.0}, 1.0),
        ("includes", "C", 1.0),
    ],
)
def test_the_better_end_is_the_scorers(name: str, value: Any, reward: float) -> None:
    assert rewards(name, value) == [reward]


def test_a_grader_declares_its_own_end_and_the_user_has_the_last_word() -> None:
    assert rewards("match", "C", "I", "P", "N", True, 0.25, "yes", "0.5") == [1, 0, 0.5, 0, 1, 0.25, 1, 0.5]
    assert rewards("graded", {"grade": 0.4}, higher_is_better=False, low=0.0, high=2.0) == [-0.4]
    assert rewards("mine", 0.4, higher_is_better=True) == [0.4]
    assert rewards("mine", 3.0, best="lowest") == [-3.0]
    assert rewards("length/words", {"words": 9}, best="highest") == [9.0]


@pytest.mark.parametrize(
    ("name", "value", "metadata", "worst"),
    [
        ("brier", {"brier_score": np.nan}, {"reason": "No belief."}, -1.0),
        ("brier/log_score", {"log_score": np.nan}, {"reason": "No belief."}, np.log(0.005)),
        ("brier/spherical_score", {"spherical_score": np.nan}, {"reason": "No belief."}, 0.0),
        ("qualitative", {"quality": np.nan}, {"reason": "The reasoning ended early."}, 0.0),
        ("graded", {"grade": np.nan}, {"reason": "?", "low": 1.0, "high": 7.0, "higher_is_better": True}, 1.0),
        ("graded", {"grade": np.nan}, {"reason": "?", "low": 1.0, "high": 7.0, "higher_is_better": False}, -7.0),
        ("match", np.nan, {}, 0.0),
    ],
    ids=["brier", "log", "spherical", "qualitative", "graded-high", "graded-low", "inspect"],
)
def test_what_cannot_be_read_earns_the_least(name: str, value: Any, metadata: dict[str, Any], worst: float) -> None:
    assert rewards(name, value, **metadata) == [pytest.approx(worst)]


@pytest.mark.parametrize(
    ("name", "value", "metadata", "worst"),
    [
        ("brier", {"brier_score": 0.1}, {}, -1.0),
        ("graded", {"grade": 5.0}, {"low": 1.0, "high": 7.0, "higher_is_better": False}, -7.0),
        ("match", "C", {}, 0.0),
        ("mine", 3.0, {"higher_is_better": True}, 3.0),
    ],
)
def test_a_crash_earns_the_least(name: str, value: Any, metadata: dict[str, Any], worst: float) -> None:
    """Otherwise a model that expects a low reward could escape it, for instance by a tool call that raises."""
    reward = ScorerReward(name, name, None, None)
    assert reward([scored(name, value, **metadata), failed(), failed(call_failed=True)])[1:] == [worst, None]
    assert ScorerReward("brier", "brier", None, None)([failed()]) == [-1.0]


def test_where_the_range_is_not_known_the_least_of_the_batch() -> None:
    reward = ScorerReward("mine", "mine", None, "lowest")
    assert reward([scored("mine", 3.0), scored("mine", np.nan), scored("mine", 8.0)]) == [-3.0, -8.0, -8.0]
    assert reward.read([scored("mine", 3.0), scored("mine", np.nan)]) == 0.5
    assert reward([scored("mine", np.nan)]) == [None]


def test_what_there_is_nothing_to_say_of_has_no_reward() -> None:
    reward = ScorerReward("brier", "brier", None, None)
    unknown = scored("brier", {"brier_score": np.nan}, "", reason=NO_OUTCOME)
    unscored = Rollout("mine", "s1", 1, "Is it?", "yes")
    rollouts = [unknown, failed(call_failed=True), unscored]
    assert reward(rollouts) == [None, None, None]
    assert np.isnan(reward.read(rollouts))
    without_outcome = scored("sycophantic_reasoning", {"belief": 0.3, "brier_score": np.nan}, "", outcome=None)
    assert ScorerReward("s", "sycophantic_reasoning", None, None)([without_outcome]) == [None]
    length = ScorerReward("length", "length", None, None)
    assert length([scored("length", {"kept": np.nan}, reason=None)]) == [None]  # no length was asked for


@pytest.fixture
def rolled(run: Run) -> Callable[..., list[Rollout]]:
    """Make rollouts of two questions, four of each, that a grading model has read, or failed to read."""

    def make(paradigms: dict[str, Any], role: str, reply: Callable[[list[ChatMessage]], str]) -> list[Rollout]:
        log = run(urns(n=2, paradigms=paradigms), model_roles={role: says(reply)}, epochs=4)
        return [
            Rollout("urns", str(sample.id), sample.epoch, "", str(sample.target), scores=dict(sample.scores or {}))
            for sample in sorted(log.samples or [], key=lambda sample: (str(sample.id), sample.epoch))
        ]

    return make


def test_an_answer_whose_judge_failed_or_cannot_be_read_has_no_reward(rolled: Callable[..., list[Rollout]]) -> None:
    """Neither the lowest one, which would punish an answer for its judge, nor 0."""

    def reply(messages: list[ChatMessage]) -> str:
        epoch = (messages[-1].metadata or {})["epoch"]
        if epoch == 4:
            raise ConnectionError("the quota is used up")
        return "Very good!" if epoch == 3 else f'{{"reasons": "", "grade": {30 * epoch}}}'

    reward = ScorerReward("graded", "graded", None, None)
    rollouts = rolled({"graded": {"grader": "model"}}, "grader", reply)
    assert reward(rollouts) == [pytest.approx(0.3), pytest.approx(0.6), None, None] * 2
    assert reward.figures == {"rewards/graded/failed": 2, "rewards/graded/judge_unread": pytest.approx(1 / 3)}
    assert reward.read(rollouts) == 1, "it says how many answers were out of form, not how many replies of a judge"
    assert reward(rollouts[2:3]) == [None], "one that cannot be read is no reason to end the run"
    crashed = failed()
    assert reward([rollouts[1], crashed, rollouts[2]]) == [pytest.approx(0.6), 0.0, None], "that is the answer's fault"
    with pytest.raises(BadInput, match=r"reward=graded: none of 1 answers could be graded. The grader model failed"):
        reward(rollouts[3:4])


def test_a_program_that_an_answer_breaks_still_pays_the_least(run: Run, tmp_path: Path) -> None:
    program = tmp_path / "mine.py"
    program.write_text("def grade(sample, item):\n    raise ValueError('no number')\n")
    log = run(urns(n=1, paradigms={"graded": {"grader": str(program), "trusted": True}}))
    sample = (log.samples or [])[0]
    rollout = Rollout("urns", str(sample.id), 1, "", str(sample.target), scores=dict(sample.scores or {}))
    assert ScorerReward("graded", "graded", None, None)([rollout]) == [0.0]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("sycophantic_reasoning/quality", {"metric": "quality"}),
        ("qualitative", {"few_shot": "disabled", "probes": "none", "red_team": "none", "self_answer": False}),
    ],
    ids=["sycophantic_reasoning", "qualitative"],
)
def test_a_judge_that_is_gone_ends_the_run(
    name: str, settings: dict[str, Any], rolled: Callable[..., list[Rollout]]
) -> None:
    def gone(messages: list[ChatMessage]) -> str:
        raise ConnectionError("no route")

    scorer, _, key = name.partition("/")
    with pytest.raises(BadInput, match=r"none of 8 answers could be graded. The judge .* failed \(ConnectionError"):
        ScorerReward(name, scorer, key or None, "highest")(rolled({scorer: settings}, "judge", gone))


def test_which_of_them_are_proper_and_have_a_best_constant_answer() -> None:
    expected = {"brier": True, "brier/log_score": True, "brier/accuracy": False, "graded": True, "match": False}
    for name, proper in expected.items():
        scorer, _, key = name.partition("/")
        assert ScorerReward(name, scorer, key or None, None).proper == proper, name
    rollouts = [scored("brier", {"brier_score": 0.1}, target) for target in ("yes", "yes", "no")]
    assert ScorerReward("brier", "brier", None, None).baseline(rollouts) == pytest.approx(-2 / 9)
    assert ScorerReward("match", "match", None, None).baseline([scored("match", "C")]) is None


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("match", "maybe", r"match gave sample s1 of mine \(epoch 2\) the value 'maybe', which is not a number"),
        ("match", "c", "the value 'c', which is not a number"),  # of which Inspect would make a 0
        ("match", [1.0, 2.0], "which is not a number"),
        ("match", float("inf"), "the value inf, which is not a number"),
        ("mine", {"a": 1.0, "b": 2.0}, "several numbers; name one of mine/a, mine/b"),
        ("brier/nothing", {"belief": 0.1}, "no nothing; name one of brier/belief"),
        ("mine", 1.0, "mine/mine does not declare whether higher is better; use mine:highest or mine:lowest"),
    ],
    ids=["text", "small", "list", "infinite", "several", "key", "direction"],
)
def test_what_is_no_reward(name: str, value: Any, words: str) -> None:
    with pytest.raises(BadInput, match=f"reward={name}: .*{words}"):
        rewards(name, value)
