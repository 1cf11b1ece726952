"""Branches: the replies of a rollout as rows of tokens that a trainer reads, with what gets gradient marked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inspect_ai.log import EvalSample
from inspect_ai.util import Store

from truthgym.solvers.trajectory import recorded_steps

if TYPE_CHECKING:
    from truthgym.training.rollouts.policy import Turn


@dataclass(frozen=True)
class Row:
    """What a trainer reads of a rollout."""

    prompt_ids: list[int]
    completion_ids: list[int]
    mask: list[int]
    """1 where the model wrote what training may use, one a token of the completion."""
    logprobs: list[float]
    """Of each token as it was drawn; 0 where the mask is 0."""


def trainable_turns(sample: EvalSample, turns: Mapping[str, "Turn"]) -> list["Turn"]:
    """The replies that training may use, in the order in which they were written.

    Where a solver recorded a trajectory: its trainable steps. Otherwise: what the model wrote in the sample's
    conversation. What a scorer asked of the model is never among them.
    """
    steps = recorded_steps(Store(sample.store))
    if steps:
        wanted = {step.message_id for step in steps if step.trainable}
    else:
        wanted = {message.id for message in sample.messages if message.role == "assistant"}
    return [turn for turn in turns.values() if turn.message_id in wanted and turn.completion_ids]


def branches(turns: Sequence["Turn"]) -> list[Row]:
    """One row for each conversation: all its trainable replies, and unmarked between them what the model was told.

    Args:
        turns: The trainable replies of one sample.
    """
    wanted = {turn.message_id for turn in turns}
    chains = {turn.message_id: _chain(turn) for turn in turns}
    inside = {earlier.message_id for chain in chains.values() for earlier in chain[:-1]}
    return [_row(chain, wanted) for last, chain in chains.items() if last not in inside]


def single_turns(turns: Sequence["Turn"]) -> list[Row]:
    """One row for each trainable reply, after all that came before it."""
    return [_row([turn], {turn.message_id}) for turn in turns]


def no_gradient(prompt_ids: Sequence[int], end: int) -> Row:
    """A row for a rollout in which the model wrote nothing that training may use."""
    return Row(list(prompt_ids) or [end], [end], [0], [0.0])


def _chain(turn: "Turn") -> list["Turn"]:
    """The replies of a conversation up to this one, first to last."""
    chain = [turn]
    while chain[0].before is not None:
        chain.insert(0, chain[0].before)
    return chain


def _row(chain: Sequence["Turn"], wanted: set[str]) -> Row:
    first = next(turn for turn in chain if turn.message_id in wanted)
    start = len(first.prompt_ids)
    last = chain[-1]
    ids = [*last.prompt_ids, *last.completion_ids]
    mask, logprobs = [0] * len(ids), [0.0] * len(ids)
    for turn in chain:
        if turn.message_id in wanted:
            at = len(turn.prompt_ids)
            mask[at : at + len(turn.completion_ids)] = [1] * len(turn.completion_ids)
            logprobs[at : at + len(turn.completion_ids)] = turn.logprobs
    return Row(ids[:start], ids[start:], mask[start:], logprobs[start:])
