"""Rollouts: runs of samples as Inspect evals, each with its log, and the tokens in them that get gradient."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import EvalSample, read_eval_log

from tests.fixtures import Run, says
from tests.training.rollouts.conftest import Scripted
from truthgym.datasets.errors import BadInput
from truthgym.solvers.trajectory import Trajectory
from truthgym.training.rollouts.policy import SampledReply
from truthgym.training.rollouts.questions import Questions, load_questions
from truthgym.training.rollouts.runner import (
    Rollouts,
    Sampling,
    TokenRow,
    TrainingSample,
    archive_steps_from,
    conversation_rows,
    masked_row,
    reply_rows,
    step_folder,
)
from truthgym.training.rollouts.sampling import Request

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


def names(request: Request) -> str:
    """The script of an engine that says the name of the sample."""
    return str(request.key[1])


@pytest.fixture
def rollouts(tokenizer: Any, tmp_path: Path) -> Callable[..., Rollouts]:
    (tmp_path / "own.py").write_text(OWN)
    questions = [load_questions(str(tmp_path / "own.py"), {}), load_questions(str(tmp_path / "own.py"), {})]
    sampling = Sampling("tiny", tokenizer, 0, 8)

    def make(**options: Any) -> Rollouts:
        return Rollouts(questions=questions, sampling=sampling, folder=tmp_path / "rollouts", **options)

    return make


def test_each_key_has_its_rollout_in_order(rollouts: Callable[..., Rollouts], tokenizer: Any) -> None:
    engine = Scripted(tokenizer, names)
    ended: list[int] = []
    keys = [(0, "c"), (0, "a"), (0, "c"), (0, "b")]
    rows = rollouts(on_sample_end=lambda: ended.append(1)).run(keys, engine, 7, (2, 1))
    assert [(row.rollout.sample_id, row.rollout.epoch) for row in rows] == [("c", 1), ("a", 1), ("c", 2), ("b", 1)]
    assert [row.rollout.answer for row in rows] == ["c", "a", "c", "b"]
    assert [row.rollout.scores["match"].value for row in rows[:3]] == ["C", "C", "C"]
    assert "the tool is lost" in str(rows[3].rollout.error)
    assert rows[3].rollout.crashed
    assert rows[3].rollout.scores == {}
    assert rows[0].rollout.question == "c"
    assert len(ended) == 4
    assert engine.batches == [2, 2], "what is asked as often is asked at once"
    assert {request.seed for request in engine.asked} == {(0, 7, 2, 1)}
    assert {request.top_p for request in engine.asked} == {0.5}, "the task's own settings count"
    logs = [read_eval_log(str(path)) for path in step_folder(rollouts().folder, 7).glob("*.eval")]
    assert sorted(len(log.samples or []) for log in logs) == [2, 2]
    assert all(log.status == "success" and log.eval.tags == ["rollouts"] for log in logs)


def test_failed_calls_are_no_crashes_and_failures_alone_are_refused(
    rollouts: Callable[..., Rollouts], tokenizer: Any
) -> None:
    samples = rollouts().run([(0, name) for name in "abe"], Scripted(tokenizer, names), 0)
    assert [sample.rollout.crashed for sample in samples] == [False, True, False]
    assert [sample.rollout.call_failed for sample in samples] == [False, False, True]
    with pytest.raises(BadInput, match=r"All 2 rollouts failed: .*the tool is lost"):
        rollouts().run([(0, "b"), (0, "b")], Scripted(tokenizer, names), 0)
    with pytest.raises(BadInput, match=r"All 1 rollouts failed: no reason is given"):
        rollouts().run([(0, "d")], Scripted(tokenizer, names), 0)


def test_rollouts_of_two_tasks_of_one_name_stay_apart(rollouts: Callable[..., Rollouts], tokenizer: Any) -> None:
    samples = rollouts().run([(1, "a"), (0, "a"), (1, "a"), (0, "a")], Scripted(tokenizer, names), 0)
    assert [sample.rollout.epoch for sample in samples] == [1, 1, 2, 2]


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


def reply(name: str, prompt: list[int], completion: list[int], before: SampledReply | None = None) -> SampledReply:
    logprobs = [-token / 10 for token in completion]
    return SampledReply(name, prompt, completion, logprobs, 1.0, name, (), "", "", "", before)


def test_a_conversation_is_one_row() -> None:
    first = reply("a", [1, 2], [3, 4])
    second = reply("b", [1, 2, 3, 4, 5], [6], first)
    third = reply("c", [1, 2, 3, 4, 5, 6, 7, 8], [9], second)
    assert conversation_rows([first, second, third]) == [
        TokenRow([1, 2], [3, 4, 5, 6, 7, 8, 9], [1, 1, 0, 1, 0, 0, 1], [-0.3, -0.4, 0, -0.6, 0, 0, -0.9])
    ]
    assert conversation_rows([second, third]) == [
        TokenRow([1, 2, 3, 4, 5], [6, 7, 8, 9], [1, 0, 0, 1], [-0.6, 0, 0, -0.9])
    ]
    assert conversation_rows([first, third]) == [
        TokenRow([1, 2], [3, 4, 5, 6, 7, 8, 9], [1, 1, 0, 0, 0, 0, 1], [-0.3, -0.4, 0, 0, 0, 0, -0.9])
    ]
    assert conversation_rows([first]) == [TokenRow([1, 2], [3, 4], [1, 1], [-0.3, -0.4])]
    assert reply_rows([first, third]) == [
        TokenRow([1, 2], [3, 4], [1, 1], [-0.3, -0.4]),
        TokenRow([1, 2, 3, 4, 5, 6, 7, 8], [9], [1], [-0.9]),
    ]
    other = reply("d", [1, 2, 3, 4, 15], [16], first)
    assert [row.completion_ids for row in conversation_rows([first, second, other])] == [[3, 4, 5, 6], [3, 4, 15, 16]]
    assert conversation_rows([]) == []
    assert masked_row([1], 2) == TokenRow([1], [2], [0], [0.0])
    assert masked_row([], 2).prompt_ids == [2], "a trainer needs a token to begin from"


@pytest.fixture(scope="module")
def questions() -> Questions:
    return load_questions("truthgym/urns", {"n": 40, "paradigms": "brier"})


Perform = Callable[..., tuple[TrainingSample, EvalSample]]


@pytest.fixture
def perform(tokenizer: Any, questions: Questions, tmp_path: Path) -> Perform:
    """Let a solver work on a question with an engine whose every reply is another, and read the log that it leaves."""

    def run(solver: str, roles: Mapping[str, Any] | None = None, whole: bool = True, **args: Any) -> Any:
        engine = Scripted(tokenizer, [rf"Reply {number}. \finalBeliefProb{{0.6}}" for number in range(9)])
        rollouts = Rollouts(
            questions=[questions], sampling=Sampling("tiny", tokenizer, 0, 64), folder=tmp_path / "rollouts",
            solver=f"truthgym/{solver}", solver_args=args, roles=roles or {}, whole_conversations=whole,
        )  # fmt: skip
        samples = rollouts.run([(0, next(iter(questions.samples)))], engine, 3)
        logs = list(step_folder(tmp_path / "rollouts", 3).glob("*.eval"))
        log = read_eval_log(str(logs[0]))
        assert log.samples
        return samples[0], log.samples[0]

    return run


def marked(tokenizer: Any, row: TokenRow) -> list[str]:
    """The texts that get gradient, in order: runs of marked tokens."""
    texts, ids = [], [*row.completion_ids, 0]
    begun: list[int] = []
    for token, mask in zip(ids, [*row.mask, 0], strict=True):
        if mask:
            begun.append(token)
        elif begun:
            texts.append(tokenizer.decode(begun))
            begun = []
    return texts


@pytest.mark.parametrize(
    ("mode", "args", "roles", "trained", "replies"),
    [
        ("direct", {}, (), 1, 1),
        ("chain_of_thought", {"steps": 2}, (), 3, 3),
        ("self_debate", {"turns": 1}, (), 3, 3),
        ("self_debate", {"turns": 2}, ("debater_a",), 3, 3),
        ("dialogue", {"turns": 1}, ("interlocutor",), 3, 3),
        ("bootstrap_interview", {"questions": 2, "mode": "fixed_sequence"}, (), 1, 3),
        ("length_control", {"target": 50, "attempts": 2}, (), 3, 3),
    ],
    ids=["direct", "chain", "debate", "debate with another", "dialogue", "interview", "length"],
)
def test_trainable_steps_and_no_others_get_gradient(
    perform: Perform,
    tokenizer: Any,
    mode: str,
    args: dict[str, Any],
    roles: tuple[str, ...],
    trained: int,
    replies: int,
) -> None:
    message = "What another says."
    result, sample = perform(mode, {role: says(message) for role in roles}, **args)
    steps = sample.store_as(Trajectory).steps
    expected = [step.text for step in steps if step.trainable]
    assert len(expected) == trained
    assert marked(tokenizer, result.row) == [f"{text}<|end|>" for text in expected]
    text = tokenizer.decode([*result.row.prompt_ids, *result.row.completion_ids])
    assert sum(text.count(f"Reply {number}.") for number in range(9)) == replies, "all that was said is context"
    assert (message in text) == bool(roles)
    assert result.rollout.tokens == sum(result.row.mask)
    assert all((value == 0) == (mask == 0) for value, mask in zip(result.row.logprobs, result.row.mask, strict=True))


def test_each_reply_is_a_row_for_a_trainer_without_masks(perform: Perform, tokenizer: Any) -> None:
    result, sample = perform("chain_of_thought", whole=False, steps=2)
    expected = [f"{step.text}<|end|>" for step in sample.store_as(Trajectory).steps if step.trainable]
    text = tokenizer.decode(result.row.completion_ids)
    assert all(result.row.mask)
    assert text in expected
    before = tokenizer.decode(result.row.prompt_ids)
    assert [reply in before for reply in expected] == [expected.index(text) > at for at in range(3)]


def test_examples_are_context(perform: Perform, tokenizer: Any, run: Run, questions: Questions) -> None:
    from inspect_ai.util import registry_create

    task: Any = registry_create("task", "truthgym/urns", n=8, split="train", paradigms="brier")
    result, sample = perform("few_shot", source=run(task).location, count=2, share=1)
    steps = sample.store_as(Trajectory).steps
    examples = [step.text for step in steps if step.role == "assistant" and not step.trainable]
    assert examples
    assert marked(tokenizer, result.row) == [r"Reply 0. \finalBeliefProb{0.6}<|end|>"]
    before = tokenizer.decode(result.row.prompt_ids)
    assert all(text in before for text in examples)
