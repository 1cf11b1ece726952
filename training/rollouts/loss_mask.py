"""Rows of tokens for the trainer: the replies of a rollout, with a mask of the tokens that get gradient."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inspect_ai.log import EvalSample
from inspect_ai.util import Store

from truthgym.solvers.trajectory import recorded_steps

if TYPE_CHECKING:
    from truthgym.training.rollouts.policy import SampledReply


@dataclass(frozen=True)
class TokenRow:
    """One row of a training batch."""

    prompt_ids: list[int]
    completion_ids: list[int]
    mask: list[int]
    """1 for tokens that get gradient: those of the model's trainable replies. One entry per token of the completion."""
    logprobs: list[float]
    """Log-probability of each token when it was drawn; 0 where the mask is 0."""


def trainable_turns(sample: EvalSample, turns: Mapping[str, "SampledReply"]) -> list["SampledReply"]:
    """The replies that training may use, in the order in which they were generated.

    If a solver recorded a trajectory, these are its trainable steps; otherwise all replies in the sample's
    conversation. Replies to a scorer are never among them.
    """
    steps = recorded_steps(Store(sample.store))
    if steps:
        trainable = {step.message_id for step in steps if step.trainable}
    else:
        trainable = {message.id for message in sample.messages if message.role == "assistant"}
    return [turn for turn in turns.values() if turn.message_id in trainable and turn.completion_ids]


def conversation_rows(turns: Sequence["SampledReply"]) -> list[TokenRow]:
    """One row per conversation: all its trainable replies, with the messages in between masked."""
    trainable = {turn.message_id for turn in turns}
    chains = {turn.message_id: _chain(turn) for turn in turns}
    continued = {earlier.message_id for chain in chains.values() for earlier in chain[:-1]}
    return [_row(chain, trainable) for last, chain in chains.items() if last not in continued]


def reply_rows(turns: Sequence["SampledReply"]) -> list[TokenRow]:
    """One row per trainable reply, with the whole conversation before it as the prompt."""
    return [_row([turn], {turn.message_id}) for turn in turns]


def masked_row(prompt_ids: Sequence[int], end_id: int) -> TokenRow:
    """A row without gradient, for a rollout without a trainable reply."""
    return TokenRow(list(prompt_ids) or [end_id], [end_id], [0], [0.0])


def _chain(turn: "SampledReply") -> list["SampledReply"]:
    """The replies of a conversation up to this one, first to last."""
    chain = [turn]
    while chain[0].previous is not None:
        chain.insert(0, chain[0].previous)
    return chain


def _row(chain: Sequence["SampledReply"], trainable: set[str]) -> TokenRow:
    first = next(turn for turn in chain if turn.message_id in trainable)
    start = len(first.prompt_ids)
    ids = [*chain[-1].prompt_ids, *chain[-1].completion_ids]
    mask, logprobs = [0] * len(ids), [0.0] * len(ids)
    for turn in chain:
        if turn.message_id in trainable:
            reply = slice(len(turn.prompt_ids), len(turn.prompt_ids) + len(turn.completion_ids))
            mask[reply] = [1] * len(turn.completion_ids)
            logprobs[reply] = turn.logprobs
    return TokenRow(ids[:start], ids[start:], mask[start:], logprobs[start:])
