"""Makes the rows of each kind of dataset from logged trajectories: TRL's messages, the trainable replies, columns."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from truthgym.evallog.schema import LoggedSample, Message
from truthgym.solvers.thoughts import TAG_IN_JSON, split_thought
from truthgym.training.conversion.options import Form, Reasoning
from truthgym.training.conversion.selection import Candidate, finite_numbers, on_correct_side
from truthgym.training.conversion.writer import MESSAGES

Row = dict[str, Any]
RESERVED_COLUMNS = (
    "prompt", "completion", "messages", "chosen", "rejected", "target", "tools", "images", "split", "event",
)  # fmt: skip
"""Columns that trainers interpret. Metadata of other projects under these names is not copied into rows."""

ORIGIN = ("model", "uuid")
"""What a labelled pair records of where each reply comes from."""
NO_REPLY, NO_REASONING = "no reply that may be learned from", "no reply with reasoning"
NO_SOURCE = (
    "answers with no `source`, as agents outside Inspect write them: nothing says that the evaluated model wrote them "
    '(if it did, let the solver set source="generate" on its messages, or set it in the log)'
)
TrlMessage = dict[str, Any]
"""`role` and `content`; with tools `tool_calls`, `name`, `tool_call_id`. The content is a text as JSON (`msgspec.Raw`),
which is copied into the row as it is, a text, or blocks if there are images."""
THOUGHT_START = "<think>\n"
THOUGHT = THOUGHT_START + "{thought}\n</think>\n\n{text}"
"""How reasoning models' chat templates write reasoning before the reply."""
SUPPORTED_PARTS = ("text", "reasoning", "image", "audio")
"""Parts of a message that a row can hold. TRL's trainers support no others, such as videos."""
EMPTY = msgspec.Raw(b'""')


class Turn(NamedTuple):
    """A message of a trajectory."""

    message: TrlMessage
    """Without separate reasoning, as the model sees it later. A thought between `<think>` tags in its text stays: the
    chat template then drops or keeps it, as when the conversation was sampled."""
    trainable: bool
    kind: str
    """`auxiliary`, `reasoning` or `answer`."""
    thought: str = ""
    """The provider's separate reasoning, or the thought in the text. Empty if there is none, only a summary of it, or a
    thought without an end."""
    without_thought: TrlMessage | None = None
    """The message without the thought in its text. None if its text has none."""

    @property
    def reply(self) -> TrlMessage:
        """The message without any thought."""
        return self.without_thought or self.message


def is_broken_call(message: Message) -> bool:
    """Whether a message has a tool call that could not be parsed: the log holds arguments that no model wrote."""
    return any(call.get("parse_error") for call in message.tool_calls or ())


def turns_of(sample: LoggedSample) -> list[Turn]:
    """A sample's messages, marked by whether they are trainable."""
    # Plain loops for speed: this runs for every sample of a log.
    kinds: dict[str | None, str] = {}
    trainable: set[str | None] = set()
    redacted: set[str | None] = set()
    for step in sample.store.steps:
        kinds[step.message_id] = step.kind
        if step.trainable:
            trainable.add(step.message_id)
        if step.redacted:
            redacted.add(step.message_id)
    if not sample.store.steps:
        replies = [message for message in sample.messages if message.role == "assistant"]
        trainable = {message.id for message in replies if message.source == "generate"}
        kinds = {message.id: "answer" if message is replies[-1] else "reasoning" for message in replies}
    turns = []
    for message in sample.messages:
        may_train = message.role == "assistant" and message.id in trainable and not is_broken_call(message)
        kind = kinds.get(message.id, "auxiliary")
        if sample.plain:
            turn = Turn({"role": message.role, "content": message.content}, may_train, kind)
        else:
            thought = "" if message.id in redacted else _thought(message)
            turn = Turn(trl_message(message), may_train, kind, thought)
        if message.role == "assistant" and TAG_IN_JSON.search(bytes(message.content)):
            turn = _with_thought_split_off(turn)
        turns.append(turn)
    return turns


def _with_thought_split_off(turn: Turn) -> Turn:
    text = text_of(turn.message)
    thought, reply = split_thought(text)
    if reply == text or isinstance(turn.message["content"], list):
        return turn
    thought = "" if reply is None else thought
    return turn._replace(thought=turn.thought or thought, without_thought=turn.message | {"content": reply or ""})


def replies(turns: Sequence[Turn], reasoning: Reasoning) -> Iterator[tuple[list[TrlMessage], TrlMessage]]:
    """The trainable replies of a trajectory, each after the messages before it."""
    messages = [turn.message for turn in turns]
    for i, turn in enumerate(turns):
        if turn.trainable and i and (completion := reply_message(turn, reasoning)):
            yield messages[:i], completion


def reply_message(turn: Turn, reasoning: Reasoning) -> TrlMessage | None:
    """A reply as training uses it. None if nothing of it is left."""
    if reasoning == "only":
        return {"role": "assistant", "content": turn.thought} if turn.thought else None
    if reasoning == "keep" and turn.thought:
        text = text_of(turn.reply)
        return turn.reply | {"content": THOUGHT.format(thought=turn.thought, text=text).rstrip()}
    content = turn.reply["content"]
    return turn.reply if (content and content != EMPTY) or "tool_calls" in turn.reply else None


def trl_message(message: Message) -> TrlMessage:
    """A message of a log in the format of TRL and chat templates. No value is None."""
    converted: TrlMessage = {"role": message.role, "content": _content(message)}
    if message.tool_calls:
        converted["tool_calls"] = [
            {
                "type": "function",
                "id": call["id"],
                "function": {"name": call["function"], "arguments": call.get("arguments") or {}},
            }
            for call in message.tool_calls
        ]
    if message.role == "tool":
        if message.function:
            converted["name"] = message.function
        if message.tool_call_id:
            call_id = message.tool_call_id
            converted["tool_call_id"] = call_id if isinstance(call_id, str) else call_id[0]
    return converted


def text_of(message: TrlMessage) -> str:
    """The text of a message, without its images and other parts."""
    content = message["content"]
    if isinstance(content, msgspec.Raw):
        content = msgspec.json.decode(content)
    if isinstance(content, list):
        content = "\n".join(block["text"] for block in content if block["type"] == "text")
    return str(content)


def check_parts(sample: LoggedSample) -> None:
    """Skip a sample with a part in its messages that no row can hold, such as a video."""
    for message in () if sample.plain else sample.messages:
        for part in message.parts:
            if part.type not in SUPPORTED_PARTS:
                raise SkipSample(f"trajectories with a {part.type} in them")
            if part.type in ("image", "audio") and not str(getattr(part, part.type)).startswith("data:"):
                raise SkipSample(f"trajectories with a {part.type} outside the log in them")


def _content(message: Message) -> object:
    if message.is_text:
        return message.content
    parts = message.parts
    if all(part.type in ("text", "reasoning") for part in parts):
        return "\n".join(part.text or "" for part in parts if part.type == "text")
    return [{"type": part.type, part.type: getattr(part, part.type)} for part in parts if part.type != "reasoning"]


def _thought(message: Message) -> str:
    thoughts = [part for part in message.parts if part.type == "reasoning"]
    if any(part.redacted or not part.reasoning for part in thoughts):
        return ""
    return "\n\n".join(part.reasoning or "" for part in thoughts)


class SkipSample(Exception):
    """No row can be made of a trajectory. The text is the reason to count it under."""


def sft_rows(sample: LoggedSample, form: Form, reasoning: Reasoning) -> Iterator[Row]:
    """Rows for `SFTTrainer`: one for each reply, or one for the whole trajectory."""
    turns = turns_of(sample)
    if form == "messages":
        yield with_tools({"messages": _conversation(sample, turns, reasoning)}, sample)
        return
    any_reply = False
    for prompt, completion in replies(turns, reasoning):
        any_reply = True
        yield with_tools({"prompt": prompt, "completion": [completion], **_thinking(completion)}, sample)
    if not any_reply:
        raise _no_reply(sample, reasoning)


def _without_source(sample: LoggedSample) -> list[int]:
    """The places of replies of which the log does not say who wrote them."""
    if sample.store.steps:
        return []
    return [i for i, message in enumerate(sample.messages) if message.role == "assistant" and message.source is None]


def _no_reply(sample: LoggedSample, reasoning: Reasoning) -> SkipSample:
    """Why a trajectory has no reply to learn from."""
    if any(message.source == "generate" for message in sample.messages) or not _without_source(sample):
        return SkipSample(NO_REASONING if reasoning == "only" else NO_REPLY)
    return SkipSample(NO_SOURCE)


def _conversation(sample: LoggedSample, turns: Sequence[Turn], reasoning: Reasoning) -> list[TrlMessage]:
    """All messages. Each reply must be trainable."""
    messages: list[TrlMessage] = []
    trainable = 0
    for turn in turns:
        message: TrlMessage | None = turn.message
        if turn.trainable and turn.thought and reasoning == "drop":
            raise SkipSample("conversations whose reasoning cannot be dropped (use --form prompt-completion)")
        if turn.message["role"] == "assistant":
            message = reply_message(turn, reasoning) if turn.trainable and messages else None
            trainable += message is not None
        messages.append(turn.message if message is None else message)
    if not trainable:
        raise _no_reply(sample, reasoning)
    if trainable < sum(turn.message["role"] == "assistant" for turn in turns):
        raise SkipSample("conversations with replies that are not trainable (use --form prompt-completion)")
    return messages


def prompt_row(sample: LoggedSample) -> Row:
    """A row for reinforcement learning: the messages before the model's first reply, and the question's metadata."""
    turns = turns_of(sample)
    written = [i for i, turn in enumerate(turns) if turn.trainable] + _without_source(sample)
    first = min(written, default=len(turns))
    if not first:
        raise SkipSample("no message before the first reply")
    prompt = [turn.message for turn in turns[:first]]
    metadata: Row = msgspec.json.decode(sample.metadata)
    if sample.facts and _question_text(sample) is not None and _reasons_in_turns(turns, first, metadata):
        prompt = _direct_prompt(sample)
    target = sample.target if isinstance(sample.target, str) else "\n".join(sample.target)
    columns = {key: value for key, value in metadata.items() if key not in RESERVED_COLUMNS}
    return {**with_tools({"prompt": prompt}, sample), "target": target, **columns}


def step_row(sample: LoggedSample) -> Row:
    """A row for process rewards: the steps of the reasoning, and whether each moved the belief towards the outcome.

    The beliefs are those that `martingale` with `per=step` elicited from the model itself. Messages between two steps
    are prepended to the second.
    """
    turns = turns_of(sample)
    steps = [i for i, turn in enumerate(turns) if turn.message["role"] == "assistant" and turn.kind != "auxiliary"]
    if not all(turns[i].trainable for i in steps):
        raise SkipSample(NO_SOURCE if _without_source(sample) else "trajectories with steps that another model wrote")
    if not steps or not steps[0]:
        raise SkipSample(NO_REPLY)
    from truthgym.datasets.question import binary_outcome

    outcome = binary_outcome(sample.target, msgspec.json.decode(sample.metadata))
    if outcome is None:
        raise SkipSample("no known outcome")
    beliefs = _beliefs(sample)
    if len(beliefs) != len(steps) + 1 or None in beliefs:
        raise SkipSample("no belief after every step (score with truthgym/martingale -S per=step)")
    errors = [(belief - outcome) ** 2 for belief in beliefs if belief is not None]
    completions = []
    for previous, i in zip([steps[0] - 1, *steps], steps, strict=False):
        texts = [text_of(turn.reply) for turn in turns[previous + 1 : i + 1]]
        completions.append("\n\n".join(text for text in texts if text))
    return {
        **with_tools({"prompt": [turn.message for turn in turns[: steps[0]]]}, sample),
        "completions": completions,
        "labels": [after <= before for before, after in pairwise(errors)],
        "step_scores": [round(before - after, 6) for before, after in pairwise(errors)],
    }


def preference_row(better: LoggedSample, worse: LoggedSample, reasoning: Reasoning) -> Row:
    """A row for `DPOTrainer` and `RewardTrainer`: what both trajectories share, and the replies where they diverge.

    Trajectories with different first messages are compared by their answers to the question as `direct` asks it.
    """
    first, second = turns_of(better), turns_of(worse)
    i = _divergence(first, second, reasoning)
    if i is None:
        raise SkipSample("pairs with the same replies")
    chosen, rejected = (reply_message(turns[i], reasoning) if turns[i].trainable else None for turns in (first, second))
    if i and chosen and rejected:
        prompt = [turn.message for turn in first[:i]]
        return _pair(prompt, chosen, rejected, better)

    if _question_text(better) != _question_text(worse):
        raise SkipSample("pairs whose questions are worded differently")
    chosen, rejected = _answer(first, reasoning), _answer(second, reasoning)
    if not chosen or not rejected or _same(chosen, rejected) or _question_text(better) is None or better.facts is None:
        raise SkipSample("pairs without answers to compare")
    return _pair(_direct_prompt(better), chosen, rejected, better)


def labelled_row(sample: LoggedSample, first_is_chosen: bool) -> Row:
    """A row for `DPOTrainer` and `RewardTrainer` from a pair that `truthgym/preferences` labelled."""
    pair = msgspec.json.decode(sample.metadata)["pair"]
    sides = (pair["first"], pair["second"])
    better, worse = sides if first_is_chosen else sides[::-1]
    chosen, rejected = ({"role": "assistant", "content": reply["text"]} for reply in (better, worse))
    gold = pair.get("gold")
    return {
        **_pair(pair["prompt"], chosen, rejected, sample),
        **{f"{name}_{key}": reply[key] for name, reply in (("chosen", better), ("rejected", worse)) for key in ORIGIN},
        "correct": (gold > 0) == first_is_chosen if gold else None,
    }


def _pair(prompt: list[TrlMessage], chosen: TrlMessage, rejected: TrlMessage, sample: LoggedSample) -> Row:
    return with_tools(
        {"prompt": prompt, "chosen": [chosen], "rejected": [rejected], **_thinking(chosen, rejected)}, sample
    )


def _thinking(*replies: TrlMessage) -> Row:
    """Tells the chat templates of reasoning models whether the replies have reasoning.

    Without it, they write an empty thought before a reply that has none, and a model trained on it learns not to think.
    """
    contents = [reply["content"] for reply in replies]
    thinks = any(isinstance(content, str) and content.startswith(THOUGHT_START) for content in contents)
    return {"chat_template_kwargs": {"enable_thinking": thinks}}


def _divergence(first: Sequence[Turn], second: Sequence[Turn], reasoning: Reasoning) -> int | None:
    """Index of the first turn at which two trajectories differ. None if the shorter one is a prefix of the other."""
    for i, (turn, other) in enumerate(zip(first, second, strict=False)):
        if not _same(turn.reply, other.reply):
            return i
        # Equal messages may still come with different reasoning.
        trainable = turn.trainable and other.trainable
        if trainable and not _same(reply_message(turn, reasoning), reply_message(other, reasoning)):
            return i
    return None


def _same(message: TrlMessage | None, other: TrlMessage | None) -> bool:
    """Whether two messages differ in nothing but the ids of their tool calls, which are random."""

    def without_ids(message: TrlMessage) -> TrlMessage:
        content = message["content"] if isinstance(message["content"], list) else text_of(message)
        calls = [call["function"] for call in message.get("tool_calls", ())]
        return message | {"content": content, "tool_calls": calls, "tool_call_id": None}

    if message is None or other is None:
        return message is other
    return message == other or without_ids(message) == without_ids(other)


def example_row(sample: LoggedSample, candidate: Candidate) -> Row:
    """A row for `few_shot`: the trajectory from its question on, as a `solvers.examples.Example`."""
    from truthgym.solvers.examples import Example, merge_turns

    turns = turns_of(sample)
    interview = [i for i, t in enumerate(turns) if t.message["role"] == "assistant" and t.kind == "auxiliary"]
    turns = turns[interview[-1] + 1 :] if interview else turns
    turns = [turn for turn in turns if turn.message["role"] != "system"]
    facts = sample.facts
    if not _answer(turns, "drop") or any(isinstance(t.message["content"], list) for t in turns):
        raise SkipSample("no answer in words")
    texts = [(turn.message["role"], text_of(turn.reply)) for turn in turns]
    example = {
        "id": candidate.question,
        "event": candidate.event,
        "split": candidate.split,
        "proposition": facts.proposition if facts else None,
        "opened_on": facts.opened_on if facts else None,
        "score": candidate.score,
        "messages": list(merge_turns(texts)),
    }
    return Example.model_validate(example).model_dump(mode="json", exclude_none=True)


def outcome_columns(sample: LoggedSample) -> Row:
    """Columns that describe the outcome of a trajectory, to filter rows by later."""
    return {
        "scores": finite_numbers(sample),
        "aligned": on_correct_side(sample),
        "stop_reason": sample.stop_reason,
        "truncated": sample.stop_reason in ("max_tokens", "model_length") or sample.limit is not None,
        "limit": sample.limit.type if sample.limit else None,
        "error": sample.error.message if sample.error else sample.store.ended,
        "invalidated": sample.invalidation is not None,
        "arm": sample.facts.arm if sample.facts else None,
    }


def with_image_column(row: Mapping[str, Any]) -> Row:
    """A row as TRL reads images: placeholders in the messages, and a column `images`."""
    images: list[str] = []

    def without_images(message: TrlMessage) -> TrlMessage:
        if not isinstance(message["content"], list):
            return message
        images.extend(block["image"] for block in message["content"] if "image" in block)
        return message | {"content": [{k: v for k, v in block.items() if k != "image"} for block in message["content"]]}

    columns = {name: [*map(without_images, value)] if name in MESSAGES else value for name, value in row.items()}
    return columns | ({"images": images} if images else {})


def with_tools(row: Row, sample: LoggedSample) -> Row:
    """A row with a column `tools` if the trajectory used tools."""
    return row | {"tools": sample.tools} if sample.tools else row


def _question_text(sample: LoggedSample) -> str | None:
    """The sample's input. None if it is a list of messages."""
    question = msgspec.json.decode(sample.input)
    return question if isinstance(question, str) else None


def _reasons_in_turns(turns: Sequence[Turn], first: int, metadata: Row) -> bool:
    """Whether the first reply is a turn of reasoning, rather than an answer or a tool call on the way to one."""
    rest = turns[first:]
    if rest and rest[0].kind != "answer" and any(turn.message["role"] == "user" for turn in rest):
        from truthgym.datasets.question import Question
        from truthgym.solvers.direct import asks_for_answer

        prompt = text_of(turns[first - 1].message)
        return not asks_for_answer(prompt, Question.model_validate(metadata))
    return False


def _answer(turns: Sequence[Turn], reasoning: Reasoning) -> TrlMessage | None:
    last = next((turn for turn in reversed(turns) if turn.kind == "answer" and turn.trainable), None)
    return reply_message(last, reasoning) if last else None


def _direct_prompt(sample: LoggedSample) -> list[TrlMessage]:
    """The prompt of the solver `direct` for the sample's question, after its system message."""
    from truthgym.datasets.question import Question
    from truthgym.solvers.direct import answer_instruction, evidence

    question = Question.model_validate(msgspec.json.decode(sample.metadata))
    parts = (_question_text(sample), evidence(question.evidence), answer_instruction(question))
    system: list[TrlMessage] = [
        {"role": "system", "content": message.content}
        for message in sample.messages[:1]
        if message.role == "system" and message.is_text
    ]
    return [*system, {"role": "user", "content": "\n\n".join(part for part in parts if part)}]


def _beliefs(sample: LoggedSample) -> list[float | None]:
    """The model's own beliefs, the prior first, of the first scorer that recorded more than one."""
    for score in (sample.scores or {}).values():
        beliefs = [belief for belief in score.details.get("beliefs") or [] if belief.get("elicitor") == "self"]
        if len(beliefs) > 1 and beliefs[0].get("stage") == "prior":
            return [belief.get("value") for belief in beliefs if belief.get("stage") != "prior 2"]
    return []
