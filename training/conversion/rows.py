"""Rows: what a trajectory becomes for each kind of trainer. Every row tells which sample of which log it is from."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from truthgym.evallog.schema import LoggedSample
from truthgym.training.conversion.messages import Reasoning, TrlMessage, Turn, replies, spoken, turns_of, without_images
from truthgym.training.conversion.scored import aligned, numbers
from truthgym.training.conversion.selection import Candidate
from truthgym.training.conversion.writer import MESSAGES

Row = dict[str, Any]
Form = Literal["prompt-completion", "messages"]
TAKEN = ("prompt", "completion", "messages", "chosen", "rejected", "target", "tools", "images", "split", "event")
"""Columns that mean something to trainers: a field of that name in other projects' metadata is no such thing."""


NOTHING = ("no reply that may be learned from", "no reply with reasoning")


class Unfit(Exception):
    """A trajectory of which no row can be made. Its text says why, as a reason to be counted."""


def sft_rows(sample: LoggedSample, form: Form, reasoning: Reasoning) -> Iterator[Row]:
    """For `SFTTrainer`: a row a reply, or a row a trajectory.

    Args:
        sample: The trajectory.
        form: `prompt-completion` makes a row of each reply that may be learned from, with all before it as `prompt`:
            the loss is on the completion alone. `messages` makes one row, for `assistant_only_loss=True`; it takes only
            trajectories of which every reply may be learned from.
        reasoning: See `trajectories.replies`.

    Raises:
        Unfit: There is nothing in it to learn from, or it does not go into one row.
    """
    turns = turns_of(sample)
    if form == "messages":
        yield _whole({"messages": _conversation(turns, reasoning)}, sample)
        return
    found = False
    for reply in replies(turns, reasoning):
        found = True
        yield _whole({"prompt": reply.prompt, "completion": [reply.completion]}, sample)
    if not found:
        raise Unfit(NOTHING[reasoning == "only"])


def _conversation(turns: Sequence[Turn], reasoning: Reasoning) -> list[TrlMessage]:
    """All messages, of which every reply is learned."""
    messages: list[TrlMessage] = []
    learned = 0
    for turn in turns:
        message: TrlMessage | None = turn.message
        if turn.message["role"] == "assistant":
            message = spoken(turn, reasoning) if turn.trainable and messages else None
            learned += message is not None
        messages.append(turn.message if message is None else message)
    if not learned:
        raise Unfit(NOTHING[reasoning == "only"])
    if learned < sum(turn.message["role"] == "assistant" for turn in turns):
        raise Unfit("replies among them that are not to be learned from (--form prompt-completion takes the others)")
    return messages


def unpaired_rows(sample: LoggedSample, label: bool, reasoning: Reasoning) -> Iterator[Row]:
    """For `KTOTrainer`: a row a reply, with whether its trajectory was a good one.

    Raises:
        Unfit: There is nothing in it to learn from.
    """
    for row in sft_rows(sample, "prompt-completion", reasoning):
        yield {**row, "label": label}


def prompt_row(sample: LoggedSample) -> Row:
    """For reinforcement: what the model was asked until it first spoke, with all that is known of the question.

    A reward is for an answer: where the first reply is none, but a turn of reasoning, the question is asked as `direct`
    asks it.

    Raises:
        Unfit: The model was asked nothing before it spoke.
    """
    turns = turns_of(sample)
    prompt = _asked(turns)
    if not prompt:
        raise Unfit("nothing asked before the first reply")
    if sample.facts and isinstance(sample.input, str) and _reasons_in_turns(turns, len(prompt), sample):
        prompt = _as_direct_asks(sample)
    target = sample.target if isinstance(sample.target, str) else "\n".join(sample.target)
    known = {key: value for key, value in (sample.metadata or {}).items() if key not in TAKEN}
    return {**_whole({"prompt": prompt}, sample), "target": target, **known}


def step_row(sample: LoggedSample) -> Row:
    """For process rewards: the steps of the reasoning, each with whether it brought the belief to the truth.

    `labels` holds for each step whether the belief after it is at least as close to the outcome as the one before it,
    `step_scores` by how much its Brier score fell (above 0 is better). The beliefs are those that `martingale` with
    `per=step` measured of the model itself. What the model was told between two steps stands before the second.

    Raises:
        Unfit: The outcome or a belief is not known.
    """
    turns = turns_of(sample)
    own = [i for i, turn in enumerate(turns) if turn.message["role"] == "assistant" and turn.kind != "auxiliary"]
    if not all(turns[i].trainable for i in own):
        raise Unfit("steps among them that another model wrote")
    if not own or not own[0]:
        raise Unfit("no reply that may be learned from")
    outcome = {"yes": 1.0, "no": 0.0}.get(sample.target if isinstance(sample.target, str) else "")
    if outcome is None:
        raise Unfit("no known outcome")
    beliefs = _beliefs(sample)
    if len(beliefs) != len(own) + 1 or any(belief is None for belief in beliefs):
        raise Unfit("no belief after every step (score with truthgym/martingale -S per=step)")
    errors = [(float(belief or 0.0) - outcome) ** 2 for belief in beliefs]
    steps = []
    for before, i in zip([own[0] - 1, *own], own, strict=False):
        said = [_words(turn.message) for turn in turns[before + 1 : i + 1]]
        steps.append("\n\n".join(text for text in said if text))
    return {
        **_whole({"prompt": [turn.message for turn in turns[: own[0]]]}, sample),
        "completions": steps,
        "labels": [after <= before for before, after in pairwise(errors)],
        "step_scores": [round(before - after, 6) for before, after in pairwise(errors)],
    }


def preference_row(better: LoggedSample, worse: LoggedSample, reasoning: Reasoning) -> Row:
    """For `DPOTrainer` and `RewardTrainer`: two replies to the same conversation.

    The prompt is what both trajectories have in common, the replies are those at which they part. What came after was
    said to different conversations, and is not compared. Trajectories that were asked differently from the beginning,
    those of two solvers, are compared by their answers to the question as `direct` asks it.

    Raises:
        Unfit: They said the same, or have no answers to compare.
    """
    one, other = turns_of(better), turns_of(worse)
    for i, (first, second) in enumerate(zip(one, other, strict=False)):
        said, unsaid = (spoken(turn, reasoning) if turn.trainable else None for turn in (first, second))
        if first.message == second.message and (said == unsaid or not (first.trainable and second.trainable)):
            continue
        if said and unsaid and i:
            return _whole({"prompt": [t.message for t in one[:i]], "chosen": [said], "rejected": [unsaid]}, better)
        break
    else:
        raise Unfit("pairs that said the same")
    answers = [_answer(turns, reasoning) for turns in (one, other)]
    if better.input != worse.input:
        raise Unfit("pairs that were asked in other words")
    if not all(answers) or answers[0] == answers[1] or not isinstance(better.input, str) or better.facts is None:
        raise Unfit("pairs without answers to compare")
    return _whole({"prompt": _as_direct_asks(better), "chosen": [answers[0]], "rejected": [answers[1]]}, better)


def example_row(sample: LoggedSample, candidate: Candidate) -> Row:
    """For `few_shot`: the trajectory from its question on, as `solvers.examples.Example` holds it.

    Raises:
        Unfit: It has no answer.
    """
    from truthgym.solvers.examples import Example, merge_turns

    turns = turns_of(sample)
    interviewed = [i for i, t in enumerate(turns) if t.message["role"] == "assistant" and t.kind == "auxiliary"]
    turns = turns[interviewed[-1] + 1 :] if interviewed else turns
    said = [(turn.message["role"], turn.message["content"]) for turn in turns if turn.message["role"] != "system"]
    if sample.facts is None or not _answer(turns, "drop") or not all(isinstance(text, str) for _, text in said):
        raise Unfit("no answer in words")
    held = {
        "id": candidate.question,
        "event": candidate.event,
        "split": candidate.split,
        "proposition": sample.facts.proposition,
        "opened_on": sample.facts.opened_on,
        "score": candidate.score,
        "messages": list(merge_turns(said)),
    }
    return Example.model_validate(held).model_dump(mode="json", exclude_none=True)


def outcome_columns(sample: LoggedSample) -> Row:
    """What became of a trajectory, to filter by later: `scores`, `aligned`, `stop_reason`, `truncated`, ..."""
    return {
        "scores": numbers(sample),
        "aligned": aligned(sample),
        "stop_reason": sample.stop_reason,
        "truncated": sample.stop_reason in ("max_tokens", "model_length") or sample.limit is not None,
        "limit": sample.limit,
        "error": sample.error or sample.ended,
        "invalidated": sample.invalidated,
        "arm": (sample.metadata or {}).get("arm"),
    }


def with_images_apart(row: Mapping[str, Any]) -> Row:
    """A row as TRL reads images: places in the messages, and a column `images`."""
    images: list[str] = []
    made: Row = {}
    for column, value in row.items():
        if column in MESSAGES:
            value, found = without_images(value)
            images += found
        made[column] = value
    return made | ({"images": images} if images else {})


def _whole(row: Row, sample: LoggedSample) -> Row:
    return row | ({"tools": sample.tools} if sample.tools else {})


def _asked(turns: Sequence[Turn]) -> list[TrlMessage]:
    first = next((i for i, turn in enumerate(turns) if turn.trainable), len(turns))
    return [turn.message for turn in turns[:first]]


def _reasons_in_turns(turns: Sequence[Turn], first: int, sample: LoggedSample) -> bool:
    """Whether the first reply is neither an answer, asked for as such, nor on its way to one by tools alone."""
    rest = turns[first:]
    if rest and rest[0].kind != "answer" and any(turn.message["role"] == "user" for turn in rest):
        from truthgym.datasets.question import Question
        from truthgym.solvers.direct import answer_instruction

        asked = _words(turns[first - 1].message)
        return answer_instruction(Question.model_validate(sample.metadata)) not in asked
    return False


def _words(message: TrlMessage) -> str:
    """The text of a message, without what else is in it."""
    held = message["content"]
    return held if isinstance(held, str) else "\n".join(block["text"] for block in held if block["type"] == "text")


def _answer(turns: Sequence[Turn], reasoning: Reasoning) -> TrlMessage | None:
    last = next((turn for turn in reversed(turns) if turn.kind == "answer" and turn.trainable), None)
    return spoken(last, reasoning) if last else None


def _as_direct_asks(sample: LoggedSample) -> list[TrlMessage]:
    from truthgym.datasets.question import Question
    from truthgym.solvers.direct import answer_instruction, evidence

    question = Question.model_validate(sample.metadata)
    parts = (str(sample.input), evidence(question.evidence), answer_instruction(question))
    system: list[TrlMessage] = [
        {"role": "system", "content": message.content}
        for message in sample.messages[:1]
        if message.role == "system" and isinstance(message.content, str)
    ]
    return [*system, {"role": "user", "content": "\n\n".join(part for part in parts if part)}]


def _beliefs(sample: LoggedSample) -> list[float | None]:
    for score in sample.scores.values():
        held = [belief for belief in (score.metadata or {}).get("beliefs", []) if belief.get("elicitor") == "self"]
        if len(held) > 1 and held[0].get("stage") == "prior":
            return [belief.get("value") for belief in held]
    return []
