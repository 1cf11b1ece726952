"""Reward model: what does a trained reward model, or an ensemble of them, say of an answer?

inspect eval truthgym/urns -T 'paradigms={reward_model: {folder: trained/tiny-reward-0123456789ab}}' --model ...
inspect score LOG --scorer truthgym/reward_model -S 'folder=trained/tiny-reward-*' -S penalty=0.5 --action append
"""

from collections.abc import Sequence
from typing import Any, cast

import anyio
import numpy as np
from inspect_ai.model import ChatMessage
from inspect_ai.scorer import SampleScore, Score, Scorer, Target, Value, scorer
from inspect_ai.solver import TaskState

from truthgym.datasets.errors import validate_call
from truthgym.datasets.question import Question, question_of
from truthgym.models.reward_model import Ceiling, Penalty, Pooling, Reading, RewardModel, Turns, folders_of, load
from truthgym.models.reward_models.encoding import Split
from truthgym.scorers.beliefs.answer import final_answer
from truthgym.scorers.declaration import Figures, ScorerDeclaration, figures_metric, requested
from truthgym.scorers.statistics.proper_scores import row_mean
from truthgym.scorers.statistics.table import tabulate
from truthgym.solvers.trajectory import recorded_steps

KEYS = ("reward", "spread")
GATHER = 0.02
"""Seconds in which answers are gathered into one batch."""


def summarise(scores: list[SampleScore]) -> dict[str, float]:
    """Compute the metrics from scores. NaN if there are too few of them."""
    tables = {key: tabulate(scores, key, most=np.inf, least=-np.inf) for key in KEYS}
    means = {key: table.mean() for key, table in tables.items()}
    rewards = row_mean(tables["reward"].values)
    finite = rewards[np.isfinite(rewards)]
    return {
        **means["reward"].main_metrics("reward", tables["reward"].share_scored),
        "spread": means["spread"].estimate,
        "sd": float(finite.std(ddof=1)) if finite.size > 1 else np.nan,
        "epochs": tables["reward"].values.shape[1],
        **means["spread"].metrics("spread"),
        **means["reward"].cluster_metrics(),
    }


model_reward = figures_metric("model_reward", summarise)


@scorer(metrics=[model_reward()])
@validate_call
def reward_model(
    folder: str | Sequence[str] = (),
    penalty: Penalty = 0.0,
    ceiling: Ceiling = None,
    pooling: Pooling = "min",
    turns: Turns = "all",
    split: Split = "messages",
    figures: Figures = "headline",
) -> Scorer:
    r"""Reward of a trained reward model, averaged. Higher is better, as the data that it was trained on prefers.

    $$r=\min\Bigl(c,\ \bar r-\lambda\,\mathrm{sd}_{k}(r_k)\Bigr),\qquad
    r_k=f_k(\mathrm{conversation})-\overline{f_k}$$

    A model of preferences gives log-odds of being preferred to an average reply of its training data, whose mean score
    $\overline{f_k}$ is subtracted; a process model gives the probability that the steps are right (0 to 1), not
    centred; a rubric regression the mean of its criteria, as they are. Of one model the standard deviation is not
    defined and nothing is subtracted.

    A reward model is a proxy. It is fooled by whatever separated its training pairs, such as length, and by replies
    unlike them: compare it with `brier` on the same log, look at `spread`, and see docs/reward_methods.md for how far
    it can be optimised. Tool definitions are not shown to the model, and a provider's separate reasoning is not read.

    Metrics, as `scorers.declaration` says: `reward` with its companions; `spread`, the mean standard deviation over
    members (NaN for one); `sd` of the rewards over questions; with `figures="all"` also `epochs` and bounds of
    `spread`.

    A sample's value holds `reward` and `spread`; its metadata `steps`, the probability of each step, `criteria`,
    the score of each criterion, and `left_out`,
    the tokens at the beginning that did not fit. Both are NaN if there is no answer
    or the steps of a process model do not fit. As a reward in training such an answer gets the lowest of its batch.

    Makes no model call through Inspect. Concurrent samples are scored in batches.

    Args:
        folder: What `truthgym train reward` printed; a pattern such as `trained/tiny-reward-*`; or several: an
            ensemble.
        penalty: Weight $\lambda$ of the members' standard deviation.
        ceiling: Highest reward $c$. With 2, no reply of a model of preferences counts as preferred to an average one
            with more than 88 %. None for none.
        pooling: Of a process model, one reward of all steps: the weakest (min), their mean, or that all are right
            (product).
        turns: Of a model of preferences: "all" reads the conversation, "last" the last request and its answer. What
            does not fit into the model's context is left out at the beginning.
        split: Of a process model: each reply is a step, or each line of it.

    Raises:
        BadInput: No folder, a folder without a reward model, a tokenizer of another base, members of different kinds.

    References:
        Bradley and Terry (1952). Biometrika 39. Lightman et al. (2023), arXiv:2305.20050: process models.
        Coste et al. (2024), arXiv:2310.02743: ensembles against over-optimisation.
    """
    batches = _Batches(load(folder, penalty=penalty, ceiling=ceiling, pooling=pooling, turns=turns, split=split))

    async def score(state: TaskState, target: Target) -> Score:
        question = question_of(state, Question)
        text, reason = final_answer(state)
        reading = await batches.read(state.messages, _start(state)) if text is not None else Reading(np.nan)
        reason, steps = reason or reading.reason, ", ".join(f"{p:.2g}" for p in reading.steps)
        return Score(
            value=cast(Value, {"reward": reading.reward, "spread": reading.spread}),
            explanation=reason or f"{reading.reward:.4g}{f' from {steps}' * bool(steps)}",
            metadata={
                "epoch": state.epoch,
                "event": question.event,
                "steps": list(reading.steps),
                "criteria": dict(zip(batches.model.members[0].criteria, reading.criteria, strict=True))
                if reading.criteria
                else {},
                "left_out": reading.left_out,
                "reason": reason,
            }
            | requested(figures),
        )

    return score


def _start(state: TaskState) -> int:
    """Index of the first message after the examples or the interview before the question."""
    before = {step.message_id for step in recorded_steps(state.store)
              if step.role == "assistant" and step.kind == "auxiliary"}  # fmt: skip
    return max((i + 1 for i, message in enumerate(state.messages) if message.id in before), default=0)


class _Batches:
    """Gathers what concurrent samples ask for: the one that holds the lock scores for all that wait."""

    def __init__(self, model: RewardModel) -> None:
        self.model = model
        self.waiting: list[tuple[list[ChatMessage], int, list[Reading]]] = []
        self.lock = anyio.Lock()

    async def read(self, messages: list[ChatMessage], start: int) -> Reading:
        request: tuple[list[ChatMessage], int, list[Reading]] = (messages, start, [])
        self.waiting.append(request)
        await anyio.sleep(GATHER)
        async with self.lock:
            if not request[2]:
                # An earlier holder may have taken this request with it, and have been cancelled.
                batch = [request, *(other for other in self.waiting if other is not request)]
                self.waiting = []
                texts, starts = [text for text, _, _ in batch], [at for _, at, _ in batch]
                found: Any = await anyio.to_thread.run_sync(self.model.read, texts, starts)
                for (_, _, place), reading in zip(batch, found, strict=True):
                    place.append(reading)
        return request[2][0]


DECLARATION = ScorerDeclaration(
    scorer=reward_model,
    question="What does a trained reward model say of the answer?",
    better="higher is better, as its training data prefers",
    needs="a reward model that `truthgym train reward` wrote",
    columns={"reward": "Reward", "spread": "Spread"},
    figures=summarise,
    files=lambda folder=(), **others: {"folder": folders_of(folder)},
)
