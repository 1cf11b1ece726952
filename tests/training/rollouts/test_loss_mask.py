"""Branches: of what a model read and wrote in each reasoning mode, the steps that training may use get gradient."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from inspect_ai.log import EvalSample, read_eval_log

from tests.fixtures import Run, Says
from truthgym.solvers.trajectory import Trajectory
from truthgym.training.rollouts.policy import SampledReply
from truthgym.training.rollouts.questions import Questions, load_questions
from truthgym.training.rollouts.runner import (
    Rollouts,
    Sampling,
    TokenRow,
    TrainingSample,
    conversation_rows,
    masked_row,
    reply_rows,
    step_folder,
)
from truthgym.training.rollouts.sampling import Generated, Request


def turn(
    name: str, prompt: Sequence[int], completion: Sequence[int], before: SampledReply | None = None
) -> SampledReply:
    logprobs = [-token / 10 for token in completion]
    fields: dict[str, Any] = {
        "temperature": 1.0,
        "text": name,
        "context_key": (),
        "prompt": "",
        "reply_text": "",
        "end": "",
    }
    return SampledReply(name, list(prompt), list(completion), logprobs, previous=before, **fields)


def test_a_conversation_is_one_row() -> None:
    first = turn("a", [1, 2], [3, 4])
    second = turn("b", [1, 2, 3, 4, 5], [6], first)
    third = turn("c", [1, 2, 3, 4, 5, 6, 7, 8], [9], second)
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
    other = turn("d", [1, 2, 3, 4, 15], [16], first)
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
        replies: list[str] = []

        def reply(requests: Sequence[Request]) -> list[Generated]:
            samples = []
            for _ in requests:
                replies.append(rf"Reply {len(replies)}. \finalBeliefProb{{0.6}}")
                ids = [*tokenizer(replies[-1])["input_ids"], tokenizer.eos_token_id]
                samples.append(Generated(ids, [-0.5] * len(ids)))
            return samples

        engine: Any = Mock(side_effect=reply, end_ids=(tokenizer.eos_token_id,), context_length=None)
        rollouts = Rollouts(
            questions=[questions],
            sampling=Sampling("tiny", tokenizer, 0, 64),
            folder=tmp_path / "rollouts",
            solver=f"truthgym/{solver}",
            solver_args=args,
            roles=roles or {},
            whole_conversations=whole,
        )
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
    says: Says,
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
    assert [one in before for one in expected] == [expected.index(text) > at for at in range(3)]


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
