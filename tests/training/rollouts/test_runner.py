"""Rollouts: runs of samples as Inspect evals, each with its log, whatever becomes of some of them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import read_eval_log

from truthgym.datasets.errors import BadInput
from truthgym.training.rollouts.questions import load_questions
from truthgym.training.rollouts.runner import Rollouts, Sampling, archive_steps_from, step_folder
from truthgym.training.rollouts.sampling import Generated, Request

OWN = """
from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate, solver

@solver
def breaks():
    async def solve(state, generate):
        state = await generate(state)
        if state.sample_id == "b":
            raise RuntimeError("the tool is lost")
        if state.sample_id == "d":
            raise PrerequisiteError("")
        if state.sample_id == "e":
            await get_model("mockllm/model", custom_outputs=lambda *_: 1 / 0).generate("?")
        return state
    return solve

@task
def letters() -> Task:
    samples = [Sample(name, id=name, target=name, metadata={"split": "train"}) for name in "abcde"]
    return Task(dataset=samples, solver=breaks(), scorer=match(), epochs=3, config=GenerateConfig(top_p=0.5))
"""


class Engine:
    """Says the last letter of the prompt, and keeps what it was asked."""

    context_length, concurrent = None, False

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.end_ids = (tokenizer.eos_token_id,)
        self.asked: list[list[Request]] = []

    def __call__(self, requests: Sequence[Request]) -> list[Generated]:
        self.asked.append(list(requests))
        keys = [str(request.key[1]) for request in requests]
        ids = [[*self.tokenizer(text)["input_ids"], self.tokenizer.eos_token_id] for text in keys]
        return [Generated(row, [-0.5] * len(row)) for row in ids]


@pytest.fixture
def rollouts(tokenizer: Any, tmp_path: Path) -> Callable[..., Rollouts]:
    (tmp_path / "own.py").write_text(OWN)
    questions = [load_questions(str(tmp_path / "own.py"), {}), load_questions(str(tmp_path / "own.py"), {})]
    sampling = Sampling("tiny", tokenizer, 0, 8)

    def make(**options: Any) -> Rollouts:
        return Rollouts(questions=questions, sampling=sampling, folder=tmp_path / "rollouts", **options)

    return make


def test_each_key_has_its_rollout_in_order(rollouts: Callable[..., Rollouts], tokenizer: Any) -> None:
    engine = Engine(tokenizer)
    ended: list[int] = []
    rows = rollouts(on_sample_end=lambda: ended.append(1)).run(
        [(0, "c"), (0, "a"), (0, "c"), (0, "b")], engine, 7, (2, 1)
    )
    assert [(row.rollout.sample_id, row.rollout.epoch) for row in rows] == [("c", 1), ("a", 1), ("c", 2), ("b", 1)]
    assert [one.rollout.answer for one in rows] == ["c", "a", "c", "b"]
    assert [one.rollout.scores["match"].value for one in rows[:3]] == ["C", "C", "C"]
    assert "the tool is lost" in str(rows[3].rollout.error)
    assert rows[3].rollout.crashed
    assert rows[3].rollout.scores == {}
    assert rows[0].rollout.question == "c"
    assert len(ended) == 4
    assert sorted(len(batch) for batch in engine.asked) == [2, 2], "what is asked as often is asked at once"
    assert {one.seed for batch in engine.asked for one in batch} == {(0, 7, 2, 1)}
    assert {one.top_p for batch in engine.asked for one in batch} == {0.5}, "the task's own settings count"
    logs = [read_eval_log(str(path)) for path in step_folder(rollouts().folder, 7).glob("*.eval")]
    assert sorted(len(log.samples or []) for log in logs) == [2, 2]
    assert all(log.status == "success" and log.eval.tags == ["rollouts"] for log in logs)


def test_a_failed_call_is_no_crash(rollouts: Callable[..., Rollouts], tokenizer: Any) -> None:
    samples = rollouts().run([(0, name) for name in "abe"], Engine(tokenizer), 0)
    assert [sample.rollout.crashed for sample in samples] == [False, True, False]
    assert [one.rollout.call_failed for one in samples] == [False, False, True]


def test_rollouts_of_two_tasks_of_one_name_stay_apart(rollouts: Callable[..., Rollouts], tokenizer: Any) -> None:
    samples = rollouts().run([(1, "a"), (0, "a"), (1, "a"), (0, "a")], Engine(tokenizer), 0)
    assert [sample.rollout.epoch for sample in samples] == [1, 1, 2, 2]


def test_a_run_of_failures_alone_is_refused(rollouts: Callable[..., Rollouts], tokenizer: Any) -> None:
    with pytest.raises(BadInput, match=r"All 2 rollouts failed: .*the tool is lost"):
        rollouts().run([(0, "b"), (0, "b")], Engine(tokenizer), 0)
    with pytest.raises(BadInput, match=r"All 1 rollouts failed: no reason is given"):
        rollouts().run([(0, "d")], Engine(tokenizer), 0)


def test_logs_from_a_step_on_are_archived(tmp_path: Path) -> None:
    def write(numbers: Sequence[int]) -> None:
        for number in numbers:
            step_folder(tmp_path, number).mkdir()
            (step_folder(tmp_path, number) / "one.eval").write_text(str(number))

    write(range(4))
    assert [path.name for path in archive_steps_from(tmp_path, 2)] == ["step-00002-1", "step-00003-1"]
    write([2])
    assert [path.name for path in archive_steps_from(tmp_path, 2)] == ["step-00002-2"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["set_aside", "step-00000", "step-00001"]
    assert archive_steps_from(tmp_path / "nowhere", 0) == []
