"""Examples for few_shot: trajectories of other questions, from a scored log or a .jsonl file."""

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, get_args

from inspect_ai.log import EvalSample, read_eval_log
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageUser
from inspect_ai.scorer import CORRECT, INCORRECT, NOANSWER, PARTIAL, value_to_float
from inspect_ai.util import Store
from pydantic import BaseModel, Field, ValidationError, field_validator

from truthgym.datasets.errors import BadInput, bad_fields
from truthgym.datasets.loading.row_files import read_rows
from truthgym.datasets.question import (
    NEUTRAL,
    Question,
    Split,
    arm_of,
    group_of,
    may_be_shown_with,
    plain_question,
    split_of,
)
from truthgym.solvers.thoughts import split_thought
from truthgym.solvers.trajectory import STEPS, Step, from_question, recorded_answer, recorded_steps, steps_of_messages

CHARACTERS_PER_TOKEN = 4
"""A rough estimate that needs no tokenizer."""

Best = Literal["lowest", "highest"]


class Turn(BaseModel, frozen=True):
    role: Literal["user", "assistant"]
    content: str


class Example(BaseModel, frozen=True):
    """One trajectory: a row of a .jsonl file of examples."""

    id: str
    event: str
    split: Split
    proposition: str | None = None
    opened_on: date | None = None
    """The day on which the question was asked."""
    score: float = Field(allow_inf_nan=False)
    messages: list[Turn] = Field(min_length=2)
    """From the question on, alternating between user and assistant."""

    @field_validator("messages")
    @classmethod
    def _alternating(cls, messages: list[Turn]) -> list[Turn]:
        if [turn.role for turn in messages] != ["user", "assistant"] * (len(messages) // 2):
            raise ValueError("roles must alternate between user and assistant")
        return messages

    @property
    def tokens(self) -> int:
        """Estimated number of tokens."""
        return sum(len(turn.content) for turn in self.messages) // CHARACTERS_PER_TOKEN + 1

    def as_messages(self) -> list[ChatMessage]:
        """Its messages, with new ids on every call."""
        return [
            ChatMessageUser(content=turn.content) if turn.role == "user" else ChatMessageAssistant(content=turn.content)
            for turn in self.messages
        ]


def read_examples(source: str, score: str) -> list[Example]:
    """Read all scored trajectories of a log (.eval or .json) or all rows of a file (.jsonl)."""
    if source.endswith(".jsonl"):
        rows = [_of_row(where, row) for where, row in read_rows(Path(source))]
        if not rows:
            raise BadInput(f"{source} has no rows; write one example per line, or give an .eval log")
        return rows
    try:
        log = read_eval_log(source, exclude_fields={"events", "attachments"})
    except Exception as error:  # Inspect passes on errors of file systems and parsers
        raise BadInput(
            f"{source} cannot be read as a log ({type(error).__name__}: {error}); give an .eval log"
        ) from None
    samples = log.samples or []
    examples = [example for sample in samples for example in _of_sample(sample, score, log.eval.task)]
    if not examples:
        names = sorted({key for sample in samples for key in _numbers(sample)})
        raise BadInput(
            f"{source}: none of its {len(samples)} samples has an answer and a number for score={score!r}; it has "
            f"numbers for: {', '.join(names) or 'nothing'}. Name one of them, with best=highest if more is better"
        )
    return examples


def choose_examples(examples: Sequence[Example], count: int, share: float, best: Best, seed: int) -> list[Example]:
    """Select the best trajectories, one per question, in an order drawn with the seed."""
    allowed = [example for example in examples if example.split != "test"]
    if not allowed:
        raise BadInput(
            f"All {len(examples)} examples are of the test split, which is reserved for evaluation; use a log of "
            "other questions: of the train split (-T split=train), or of another task, of which a hash of each id "
            "reserves one in five, more samples. A .jsonl file of examples names their split itself"
        )
    sign = 1 if best == "lowest" else -1
    rng = random.Random(seed)
    rng.shuffle(allowed)  # so that ties are not decided by the order of the log
    ranked = sorted(allowed, key=lambda example: sign * example.score)
    top = ranked[: max(1, min(count, math.floor(share * len(allowed) + 1e-9)))]
    by_question = groupby(sorted(top, key=lambda example: example.id), key=lambda example: example.id)
    selected = [rng.choice(list(group)) for _, group in by_question]
    rng.shuffle(selected)
    return selected


def examples_for(examples: Sequence[Example], identity: str, question: Question, tokens: int) -> list[Example]:
    """The examples for one question, up to `tokens`: not the question itself, none of its event or of a later day."""
    shown: list[Example] = []
    for example in examples:
        if example.id == identity or not may_be_shown_with(
            question, example.event, example.proposition, example.opened_on
        ):
            continue
        if example.tokens <= tokens:
            tokens -= example.tokens
            shown.append(example)
    return shown


def _of_sample(sample: EvalSample, score: str, task: str) -> Iterator[Example]:
    value, store = _numbers(sample).get(score), Store(sample.store)
    split: Any
    try:
        question = Question.model_validate(sample.metadata)
        split = question.split
    except ValidationError:
        question = _plain(sample)
        named = sample.metadata.get("split")
        split = named if named in get_args(Split) else split_of(f"{task} {sample.id}")
    steps = recorded_steps(store) if STEPS in store else steps_of_messages(sample.messages, "answer", trainable=False)
    answer = recorded_answer(store) if STEPS in store else sample.output.completion
    if sample.error or sample.invalidation or value is None or not (answer or "").strip():
        return
    # With a stated opinion, the best scores belong to trajectories that followed a correct opinion.
    if arm_of(sample.metadata) != NEUTRAL:
        return
    turns = list(_turns(steps, {message.id: message.text for message in sample.messages}))
    if [turn.role for turn in turns] == ["user", "assistant"] * (len(turns) // 2) and turns:
        yield Example(
            id=group_of(sample.metadata, sample.id),
            event=question.event,
            split=split,
            proposition=None if question.options else question.proposition,  # a choice may be one of other questions
            opened_on=question.opened_on,
            score=value,
            messages=turns,
        )


def _plain(sample: EvalSample) -> Question:
    """The question of a sample of any other task."""
    users = [] if isinstance(sample.input, str) else [message for message in sample.input if message.role == "user"]
    text = sample.input if isinstance(sample.input, str) else users[-1].text if users else ""
    targets = [sample.target] if isinstance(sample.target, str) else sample.target
    return plain_question(str(sample.id), text, targets, sample.choices or ())


def _turns(steps: Sequence[Step], replies: Mapping[str | None, str]) -> Iterator[Turn]:
    """A trajectory from its question on as alternating turns, without the thoughts before replies."""
    steps = from_question(steps)
    last = {step.message_id: i for i, step in enumerate(steps)}
    texts = []
    for i, step in enumerate(steps):
        text = split_thought(step.text)[1] or ""
        # of an assistant message only the reply: its last step, unless it is a tool call without text
        reply = split_thought(replies.get(step.message_id, ""))[1] or ""
        if step.role != "assistant" or (last[step.message_id] == i and text == reply):
            texts.append((step.role, text))
    yield from merge_turns((role, text) for role, text in texts if role != "system")


def merge_turns(messages: Iterable[tuple[str, str]]) -> Iterator[Turn]:
    """Merge (role, text) pairs into alternating user and assistant turns. Skips empty texts; tools are the user."""
    texts = [(role == "assistant", text) for role, text in messages if text.strip()]
    for is_assistant, group in groupby(texts, key=lambda pair: pair[0]):
        yield Turn(role="assistant" if is_assistant else "user", content="\n\n".join(text for _, text in group))


def _numbers(sample: EvalSample) -> dict[str, float]:
    """All finite numbers in a sample's scores by key; for scorers with one number or letter, by the scorer's name."""
    numbers: dict[str, float] = {}
    letters = value_to_float()
    for name, score in (sample.scores or {}).items():
        values = score.value if isinstance(score.value, dict) else {name: score.value}
        for key, value in values.items():
            number = letters(value) if value in (CORRECT, PARTIAL, INCORRECT, NOANSWER) and value is not None else value
            if isinstance(number, int | float) and math.isfinite(number):
                numbers[key] = float(number)
    return numbers


def _of_row(where: str, row: dict[str, object]) -> Example:
    try:
        return Example.model_validate(row)
    except ValidationError as error:
        raise bad_fields(where, error, list(Example.model_fields)) from None
