"""Reward models: trained classifiers that give a reply, or each step of a reasoning, a number. Higher is better."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageUser
from numpy.typing import NDArray
from pydantic import Field

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.models.logprobs.local import FORWARD, MAX_POSITIONS, length_batches
from truthgym.models.reward_models.encoding import (
    NOTE,
    STEP,
    Split,
    as_message,
    encode_steps,
    steps_of,
    vocabulary_hash,
)
from truthgym.solvers.thoughts import split_thought

KINDS = {"ForSequenceClassification": "reward", "ForTokenClassification": "process_reward"}
"""Of a configuration's `architectures`, the end of the name: the method that trained it."""
Pooling = Literal["min", "mean", "product"]
"""One reward from the probabilities of all steps: of the weakest step, their mean, or that all are right."""
Turns = Literal["all", "last"]
"""What a model of preferences reads: the whole conversation, or the last request and its reply."""
Penalty = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Ceiling = Annotated[float, Field(allow_inf_nan=False)] | None
NO_REPLY = "The conversation has no reply to score."


@dataclass(frozen=True)
class Reading:
    """What a reward model says of one conversation."""

    reward: float
    """Higher is better. NaN if there is nothing to score."""
    spread: float = nan
    """Standard deviation over the members of an ensemble (n - 1); NaN for a single model."""
    steps: tuple[float, ...] = ()
    """Of a process model, the probability that each step is right, averaged over members."""
    criteria: tuple[float, ...] = ()
    """Of a rubric regression, the predicted score of each criterion, averaged over members."""
    left_out: int = 0
    """Tokens at the beginning that did not fit into the context of a model of preferences."""
    reason: str | None = None


class RewardModel:
    """One trained reward model, or an ensemble of several of the same kind. See `load`."""

    def __init__(self, members: "Sequence[Member]", penalty: float, ceiling: float | None, pooling: Pooling,
                 turns: Turns, split: Split) -> None:  # fmt: skip
        self.members, self.penalty, self.ceiling = members, penalty, ceiling
        self.pooling, self.turns, self.split = pooling, turns, split
        self.kind = members[0].kind

    def score(self, conversations: Sequence[Sequence[ChatMessage]]) -> list[float]:
        """The reward of each conversation's last reply, or of a process model of all its replies; NaN without one."""
        return [reading.reward for reading in self.read(conversations)]

    def read(
        self, conversations: Sequence[Sequence[ChatMessage]], starts: Sequence[int] | None = None
    ) -> list[Reading]:
        """What the model says of each conversation, whose last message is the reply, in batches."""
        pairs = zip(conversations, starts or [0] * len(conversations), strict=True)
        prepared = [self._prepare(conversation, start) for conversation, start in pairs]
        scored = [turns for turns in prepared if turns is not None]
        readings = iter(zip(*(member.read(scored) for member in self.members), strict=True) if scored else ())
        return [
            Reading(nan, reason=NO_REPLY) if tokens is None else self._combine(next(readings)) for tokens in prepared
        ]

    def _prepare(self, conversation: Sequence[ChatMessage], start: int) -> tuple[list[ChatMessage], list[str]] | None:
        """The prompt and the steps of a process model; of a model of preferences, the prompt and the reply as one."""
        if self.kind == "process_reward":
            prompt, steps = steps_of(conversation, start, self.split)
            return (prompt, steps) if steps else None
        last = next((i for i in reversed(range(len(conversation))) if conversation[i].role == "assistant"), None)
        reply = "" if last is None else split_thought(conversation[last].text)[1] or ""
        if last is None or not reply.strip():
            return None
        prompt = list(conversation[:last])
        if self.turns == "last":
            asked = next((i for i in reversed(range(last)) if isinstance(prompt[i], ChatMessageUser)), 0)
            prompt = [message for message in prompt[:asked] if message.role == "system"] + prompt[asked:]
        return prompt, [reply]

    def _combine(self, readings: "Sequence[Reading]") -> Reading:
        """One reading of those of all members: mean - penalty x standard deviation, at most the ceiling."""
        if any(reading.reason for reading in readings):
            return next(reading for reading in readings if reading.reason)
        steps = np.mean([reading.steps for reading in readings], axis=0)
        rewards = [pool(r.steps, self.pooling) if self.kind == "process_reward" else r.reward for r in readings]
        reward, spread = penalised(np.array(rewards)[:, None], self.penalty, self.ceiling)
        left_out = max(reading.left_out for reading in readings)
        criteria = np.mean([reading.criteria for reading in readings], axis=0)
        return Reading(float(reward[0]), float(spread[0]), tuple(steps.tolist()), tuple(criteria.tolist()), left_out)


ROLES: dict[str, Any] = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}


def chat_messages(messages: Sequence[Mapping[str, Any]], place: str) -> list[ChatMessage]:
    """The messages of a dataset's row as a reward model scores them."""
    for message in messages:
        if message["role"] not in ROLES or message.get("tool_calls"):
            raise BadInput(f"{place}: the message of {message['role']!r} uses tools and cannot be scored; leave it out")
    return [ROLES[message["role"]](content=message["content"]) for message in messages]


@validate_call
def load(
    folder: str | Path | Sequence[str | Path],
    *,
    penalty: Penalty = 0.0,
    ceiling: Ceiling = None,
    pooling: Pooling = "min",
    turns: Turns = "all",
    split: Split = "messages",
) -> RewardModel:
    """Check reward models and get them ready, by the arguments of the scorer `reward_model`.

    Their weights are loaded when they first score.

    Raises:
        BadInput: No folder, one without a reward model, a tokenizer of another base, models of different kinds, or a
            number out of range.
    """
    folders = folders_of(folder)
    if not folders:
        raise BadInput("folder is empty: name the folder of a reward model, as `truthgym train reward` wrote it")
    if penalty and len(folders) == 1:
        raise BadInput(
            f"penalty={penalty:g} has no effect on a single model, {folders[0]}: give the folders of several members, "
            "or leave it out"
        )
    members = [Member(path) for path in dict.fromkeys(folders)]
    kinds = {member.kind: member.folder for member in members}
    if len(kinds) > 1:
        raise BadInput(
            f"folder: {' and '.join(f'{path} is a {kind}' for kind, path in kinds.items())} model, whose numbers "
            "cannot be averaged; give models of one kind"
        )
    uncentred = [member.folder for member in members if member.kind == "reward" and member.mean is None]
    if uncentred and len(members) > 1:
        raise BadInput(
            f"folder: {uncentred[0]} does not say what an average reply scores, and models of preferences agree about "
            "differences only; train it again with `truthgym train reward`"
        )
    return RewardModel(members, penalty, ceiling, pooling, turns, split)


def folders_of(folder: str | Path | Sequence[str | Path]) -> list[Path]:
    """The folders of the members, with patterns resolved; a BadInput if nothing matches one."""
    places = [folder] if isinstance(folder, str | Path) else folder
    return [path for place in places for path in _matching(str(place))]


def _matching(name: str) -> list[Path]:
    if not any(letter in name for letter in "*?["):
        return [Path(name)]
    path = Path(name)
    root = Path(path.anchor) if path.anchor else Path()
    matches = root.glob(str(path.relative_to(path.anchor)))
    folders = sorted(match for match in matches if (match / "config.json").is_file())
    if not folders:
        raise BadInput(f"folder={name}: no folder with a model matches; `truthgym train reward` prints where it writes")
    return folders


class Member:
    """One trained reward model: its configuration and tokenizer at once, its weights when it first reads."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoConfig, AutoTokenizer

        self.folder = folder
        if not (folder / "config.json").is_file():
            adapter = (folder / "adapter_config.json").is_file()
            remedy = "give the folder above, into which the adapter is merged" if adapter else "name one that has"
            raise BadInput(f"folder={folder} has no config.json of a trained model; {remedy}")
        self.config: Any = AutoConfig.from_pretrained(folder)
        architecture = str(next(iter(self.config.architectures or []), "no architecture"))
        kinds = [kind for end, kind in KINDS.items() if architecture.endswith(end)]
        note = getattr(self.config, NOTE, None) or {}
        self.criteria: list[str] = note.get("criteria") or []
        if not kinds or (kinds == ["reward"] and self.config.num_labels != (len(self.criteria) or 1)):
            outputs = f" with {self.config.num_labels} outputs" if kinds else ""
            raise BadInput(
                f"folder={folder} is {architecture}{outputs}, and a reward model is a sequence classifier with one "
                "output or a token classifier; train one with `truthgym train reward`"
            )
        self.kind = "rubric_reward" if self.criteria else kinds[0]
        self.mean: float | None = note.get("mean")
        self.conversational: bool = note.get("conversational", True)
        self.template_arguments: dict[str, Any] = note.get("chat_template_kwargs") or {}
        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        except Exception as error:  # each kind of tokenizer fails in its own way
            raise BadInput(f"folder={folder}: its tokenizer cannot be read: {error}") from None
        size = self.config.get_text_config().vocab_size
        other = note.get("vocabulary", "") not in ("", vocabulary_hash(self.tokenizer))
        if other or len(self.tokenizer) > size:
            problem = "it is not the one that the model was trained with" if other else f"the model reads {size} tokens"
            raise BadInput(
                f"folder={folder}: its tokenizer of {len(self.tokenizer)} tokens is of another base, since {problem}; "
                "copy the tokenizer of the model's own base into the folder, or train it again"
            )
        if self.kind == "process_reward" and STEP not in self.tokenizer.get_vocab():
            raise BadInput(
                f"folder={folder}: the tokenizer has no token {STEP}, at which a process model is read; train it on "
                "rows of steps with `truthgym train reward`"
            )

    @cached_property
    def network(self) -> Any:  # noqa: ANN401
        import torch
        import transformers

        of_steps = self.kind == "process_reward"
        name = "AutoModelForTokenClassification" if of_steps else "AutoModelForSequenceClassification"
        network = getattr(transformers, name).from_pretrained(self.folder).eval()
        return network.to("cuda" if torch.cuda.is_available() else "cpu")

    def read(self, prepared: Sequence[tuple[list[ChatMessage], list[str]]]) -> list[Reading]:
        """The reading of each prompt with its reply, or with its steps."""
        limit = getattr(self.config.get_text_config(), "max_position_embeddings", None)
        rows = [self._encode(prompt, replies) for prompt, replies in prepared]
        if self.kind != "process_reward":
            left_out = [max(0, len(ids) - limit) if limit else 0 for ids, _ in rows]
            kept = [ids[lost:] for (ids, _), lost in zip(rows, left_out, strict=True)]
            logits = self._logits(kept, [[0]] * len(kept))
            mean = self.mean or 0.0
            return [Reading(float(one.mean()) - mean, criteria=tuple(one) if self.criteria else (), left_out=lost)
                    for one, lost in zip(logits, left_out, strict=True)]  # fmt: skip
        fits = [not limit or len(ids) <= limit for ids, _ in rows]
        read = [row for row, fit in zip(rows, fits, strict=True) if fit]
        readings = iter(self._logits([ids for ids, _ in read], [ends for _, ends in read]))
        too_long = f"The steps have more tokens than the {limit} of the model's context."
        return [Reading(nan, steps=tuple(float(p) for p in next(readings))) if fit else Reading(nan, reason=too_long)
                for fit in fits]  # fmt: skip

    def _encode(self, prompt: list[ChatMessage], replies: list[str]) -> tuple[list[int], list[int]]:
        messages = [as_message(message) for message in prompt]
        if self.kind == "process_reward":
            text: Any = messages if self.conversational else "".join(message["content"] for message in messages)
            return encode_steps(text, replies, self.tokenizer)
        if not self.conversational:
            plain = "".join([*(message["content"] for message in messages), replies[0]])
            return self.tokenizer(plain.removesuffix(end := self.tokenizer.eos_token or "") + end)["input_ids"], [0]
        messages.append({"role": "assistant", "content": replies[0]})
        ids = self.tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False, **self.template_arguments)
        return list(ids), [0]

    def _logits(self, rows: Sequence[list[int]], places: Sequence[list[int]]) -> list[NDArray[np.float64]]:
        """For each row its reward; of a process model, the probability of `right` at each of its places."""
        import torch

        network, outputs, of_steps = self.network, dict[int, NDArray[np.float64]](), self.kind == "process_reward"
        pad = network.config.get_text_config().pad_token_id
        with FORWARD, torch.inference_mode():
            for batch in length_batches([(row, ()) for row in rows], MAX_POSITIONS) if rows else ():
                width = max(len(rows[i]) for i in batch)
                ids = torch.full((len(batch), width), pad or 0, dtype=torch.long)
                mask = torch.zeros((len(batch), width), dtype=torch.long)
                for at, i in enumerate(batch):
                    ids[at, : len(rows[i])] = torch.tensor(rows[i])
                    mask[at, : len(rows[i])] = 1
                logits = network(input_ids=ids.to(network.device), attention_mask=mask.to(network.device)).logits
                values = (logits.float().softmax(-1)[..., 1] if of_steps else logits.float()).cpu().numpy()
                for at, i in enumerate(batch):
                    outputs[i] = np.asarray(values[at][places[i]] if of_steps else values[at], float)
        return [outputs[i] for i in range(len(rows))]


def pool(steps: Sequence[float], pooling: Pooling) -> float:
    """One number from the probabilities that each step is right.

    >>> pool([0.9, 0.5, 0.8], "min"), round(pool([0.9, 0.5, 0.8], "product"), 3)
    (0.5, 0.36)
    """
    if not len(steps):
        return nan
    return float(np.min(steps) if pooling == "min" else np.mean(steps) if pooling == "mean" else np.prod(steps))


def penalised(
    rewards: NDArray[np.float64], penalty: float = 0.0, ceiling: float | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean over the members minus `penalty` times their standard deviation, at most `ceiling`; and the deviation.

    Rewards are members x replies. The deviation (n - 1) of a single member is NaN.

    >>> penalised(np.array([[1.0], [3.0]]), penalty=0.5)[0].round(3)
    array([1.293])
    """
    single = len(rewards) == 1
    spread = np.full(rewards.shape[1], nan) if single else rewards.std(axis=0, ddof=1)
    reward = rewards.mean(axis=0) - (0.0 if single else penalty * spread)
    return (reward if ceiling is None else np.minimum(reward, ceiling)), spread
