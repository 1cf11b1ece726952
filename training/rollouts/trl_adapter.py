"""The adapter between TRL's trainers and rollouts: GRPOTrainer and RLOOTrainer on samples that Inspect has run.

GRPOTrainer has a hook for it (`rollout_func`, experimental in TRL 1.16). RLOOTrainer does not, so its two methods that
make prompts and completions are overridden. A contract test fails if a TRL release changes either. With
`--turn_rewards`, each turn of a conversation has an advantage of its own, in place of one for the whole rollout.
"""

import math
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any

from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import binary_outcome
from truthgym.training.reward_functions.formulas import Rewards, impute_group_mean
from truthgym.training.reward_functions.rollout import Reward, Rollout
from truthgym.training.rollouts.runner import Key, Rollouts, TrainingSample
from truthgym.training.rollouts.sampling import open_engine
from truthgym.training.trainers.training_run import Run

if TYPE_CHECKING:
    from transformers import Trainer

SAMPLE = "sample"
"""Key in a prompt's message that identifies its sample: TRL passes only the prompt to the adapter."""
MOST_WEIGHT = 2.0
"""Of a reply in RLOO."""
TURN_REWARDS = {"beliefs": "martingale", "reward_model": "reward_model"}
"""The values of `--turn_rewards`, with the scorer that each needs."""


def prompt_of(key: Key, question: str) -> list[dict[str, str]]:
    """The prompt of a sample in TRL's dataset."""
    return [{"role": "user", "content": question, SAMPLE: f"{key[0]}:{key[1]}"}]


@dataclass
class RolloutAdapter:
    """Runs rollouts for a trainer, and passes it their tokens and rewards."""

    rollouts: Rollouts
    rewards: Sequence[Reward]
    on_rewards: Callable[[Sequence[Rollout], Sequence[Rewards]], None] = lambda rollouts, rewards: None
    """Called with each run's rollouts, those of all processes, and the values of each reward for them."""
    turn_rewards: str | None = None
    """A key of `TURN_REWARDS`: turns get advantages of their own."""
    samples: list[TrainingSample] = field(default_factory=list, init=False)
    """Samples of the last run."""
    values: list[Rewards] = field(default_factory=list, init=False)
    """Values of each reward for them, computed once: a reward may be a model that costs money."""
    token_advantages: list[list[float] | None] = field(default_factory=list, init=False)
    """For each sample the advantages of its completion's tokens, with `turn_rewards`; None if they are unknown."""
    _last_run: tuple[int, int] = field(default=(-1, 0), init=False)
    """Step of the last run, and how many runs of that step came before it."""

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:  # noqa: ANN401
        """Run the samples that the prompts identify: TRL's `rollout_func`."""
        self.run(prompts, trainer)
        rows = [sample.row for sample in self.samples]
        return {
            "prompt_ids": [row.prompt_ids for row in rows],
            "completion_ids": [row.completion_ids for row in rows],
            "logprobs": [row.logprobs for row in rows],
            "env_mask": [row.mask for row in rows],
        }

    def run(self, prompts: Sequence[Any], trainer: Any) -> None:  # noqa: ANN401
        """Run the samples that the prompts identify, and compute their rewards."""
        from accelerate.utils import gather_object  # type: ignore[import-untyped]

        keys = []
        for prompt in prompts:
            task, _, sample = str(prompt[-1][SAMPLE]).partition(":")
            keys.append((int(task), sample))
        step = int(trainer.state.global_step)
        repeat = self._last_run[1] + 1 if self._last_run[0] == step else 0
        self._last_run = (step, repeat)
        with open_engine(trainer) as engine:
            self.samples = self.rollouts.run(keys, engine, step, (repeat, int(trainer.accelerator.process_index)))
        rollouts = [sample.rollout for sample in self.samples]
        # A rollout without trainable tokens has no gradient, and must not enter the mean that others are compared with.
        trainable = [any(sample.row.mask) for sample in self.samples]
        self.values = [
            [value if has_gradient else None for value, has_gradient in zip(reward(rollouts), trainable, strict=True)]
            for reward in self.rewards
        ]
        gathered = gather_object(list(zip(rollouts, *self.values, strict=True)))
        everyone = [rollout for rollout, *_ in gathered]
        values = [[row[place] for row in gathered] for place in range(1, len(self.values) + 1)]
        values = complete(values, [rollout.sample for rollout in everyone])
        process = int(trainer.accelerator.process_index)
        own = slice(process * len(rollouts), (process + 1) * len(rollouts))
        self.values = [column[own] for column in values]
        if self.turn_rewards:
            self._score_turns(rollouts, trainer.reward_weights.tolist(), own)
        self.on_rewards(everyone, values)

    def _score_turns(self, rollouts: Sequence[Rollout], weights: Sequence[float], own: slice) -> None:
        from accelerate.utils import gather_object

        kind = str(self.turn_rewards)
        final = [weighted_sum(values, weights) for values in zip(*self.values, strict=True)]
        turns = [turn_rewards(kind, rollout, reward) for rollout, reward in zip(rollouts, final, strict=True)]
        gathered = gather_object([(rollout.sample, rewards) for rollout, rewards in zip(rollouts, turns, strict=True)])
        everyone = [rewards for _, rewards in gathered]
        advantages = turn_advantages(everyone, [group for group, _ in gathered])[own]
        self.token_advantages = [
            token_advantages(sample.row.mask, turns) for sample, turns in zip(self.samples, advantages, strict=True)
        ]
        if all(rewards is None for rewards in everyone):
            raise BadInput(
                f"--turn_rewards {kind}: no rollout has a number for each of its steps; a solver with steps is needed, "
                "such as --solver truthgym/chain_of_thought, and for beliefs the scorer martingale with per: step"
            )

    def by_token(self, advantages: Any, width: int) -> Any:  # noqa: ANN401
        """TRL's advantages, one for each rollout, as one for each token: that of its turn where it is known."""
        import torch

        spread = advantages[:, None].repeat(1, width)
        for i, tokens in enumerate(self.token_advantages):
            if tokens is not None:
                row = torch.zeros(width, dtype=spread.dtype)
                row[: min(width, len(tokens))] = torch.tensor(tokens[:width], dtype=spread.dtype)
                spread[i] = row.to(spread.device)
        return spread

    def functions(self) -> list[Callable[..., list[float | None]]]:
        """The rewards as TRL's reward functions: each returns its values of the last run."""
        return [self._function(reward, place) for place, reward in enumerate(self.rewards)]

    def _function(self, reward: Reward, place: int) -> Callable[..., list[float | None]]:
        def function(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
            rollouts = [sample.rollout for sample in self.samples]
            if len(rollouts) != len(completions):
                raise RuntimeError(f"{len(completions)} completions, but {len(rollouts)} rollouts")
            log: Callable[[str, float], None] = columns["log_metric"]
            constant = reward.baseline(rollouts)
            if constant is not None:
                log(f"rewards/{reward.name}/best_constant", constant)
            for name, figure in reward.figures.items():
                log(name, figure)
            if place == 0:
                if not math.isnan(share := reward.read(rollouts)):
                    log("share_read", share)
                log("failed_rollouts", sum(rollout.error is not None for rollout in rollouts))
            return self.values[place]

        function.__name__ = reward.name
        return function


def complete(values: Sequence[Rewards], groups: Sequence[Hashable]) -> list[Rewards]:
    """The values of several rewards; one that is missing beside others, which TRL counts as 0, is its group's mean."""
    some = [any(value is not None for value in row) for row in zip(*values, strict=True)]
    return [
        impute_group_mean(rewards, [has and value is None for has, value in zip(some, rewards, strict=True)], groups)
        for rewards in values
    ]


def weighted_sum(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    """The reward of a rollout as TRL adds it up: a missing one counts as 0; None if all are missing."""
    products = [value * weight for value, weight in zip(values, weights, strict=True) if value is not None]
    return sum(products) if products else None


def check_turn_rewards(kind: str | None, method: str, scorers: Mapping[str, Sequence[str]]) -> None:
    """Check before a run that every task scores the steps."""
    if kind is None:
        return
    if kind not in TURN_REWARDS:
        raise BadInput(f"--turn_rewards {kind}: unknown; known: {', '.join(TURN_REWARDS)}")
    if method != "grpo":
        raise BadInput(f"--turn_rewards {kind} needs whole conversations, and {method} trains single replies; use grpo")
    lacking = [task for task, names in scorers.items() if TURN_REWARDS[kind] not in names]
    if lacking:
        how = "{martingale: {per: step}}" if kind == "beliefs" else "{reward_model: {folder: FOLDER}}"
        raise BadInput(
            f"--turn_rewards {kind} needs the scorer {TURN_REWARDS[kind]}, which the task {lacking[0]} does not have; "
            f"add --task_args '{{paradigms: {how}}}'"
        )


def turn_rewards(kind: str, rollout: Rollout, final: float | None) -> list[float] | None:
    """The reward of each turn; None if they are unknown.

    - `beliefs`: by how much the turn lowered the Brier score of the belief that `martingale` with `per=step` elicited.
      Over all turns this adds up to the improvement on the prior, so that no turn is paid for what another one did.
    - `reward_model`: the probability of a process model that the step is right, minus 1: from -1 to 0.
    """
    score = rollout.scores.get(TURN_REWARDS[kind])
    metadata: Mapping[str, Any] = (score.metadata if score else None) or {}
    if kind == "reward_model":
        rewards = [p - 1 for p in metadata.get("steps", [])]
    else:
        rewards = _belief_gains(metadata, binary_outcome(rollout.target, rollout.metadata))
    return [*rewards[:-1], rewards[-1] + final] if rewards and final is not None else None


def _belief_gains(metadata: Mapping[str, Any], outcome: float | None) -> list[float]:
    own = [belief for belief in metadata.get("beliefs", []) if belief.get("elicitor") == "self"]
    values = [belief.get("value") for belief in own if belief.get("stage") != "prior 2"]
    if outcome is None or len(values) < 2 or own[0].get("stage") != "prior" or None in values:
        return []
    return [(before - outcome) ** 2 - (after - outcome) ** 2 for before, after in pairwise(values)]


def turn_advantages(rewards: Sequence[Sequence[float] | None], groups: Sequence[Hashable]) -> list[list[float] | None]:
    """For each turn the rewards from it on, relative to the mean of its group's rollouts at the same turn.

    A question whose rollouts differ in the number of turns has none: a process model's shortest conversation would win.

    >>> turn_advantages([[0.2, 0.1], [0.0, -0.1], None], ["q", "q", "q"])
    [[0.2, 0.1], [-0.2, -0.1], None]
    """
    lengths: dict[Hashable, set[int]] = {}
    for group, turns in zip(groups, rewards, strict=True):
        lengths.setdefault(group, set()).update([] if turns is None else [len(turns)])
    to_go = [
        None if turns is None or len(lengths[group]) > 1 else [sum(turns[t:]) for t in range(len(turns))]
        for group, turns in zip(groups, rewards, strict=True)
    ]
    by_turn: dict[tuple[Hashable, int], list[float]] = {}
    for group, sums in zip(groups, to_go, strict=True):
        for t, value in enumerate(sums or []):
            by_turn.setdefault((group, t), []).append(value)
    return [
        None if sums is None else [round(value - fmean(by_turn[group, t]), 12) for t, value in enumerate(sums)]
        for group, sums in zip(groups, to_go, strict=True)
    ]


def token_advantages(mask: Sequence[int], turns: Sequence[float] | None) -> list[float] | None:
    """The advantage of each token: that of its turn, 0 where the mask is 0.

    >>> token_advantages([0, 1, 1, 0, 1], [0.5, -0.5])
    [0.0, 0.5, 0.5, 0.0, -0.5]
    """
    runs = [(value, len(list(run))) for value, run in groupby(mask)]
    if turns is None or sum(value for value, _ in runs) != len(turns):
        return None
    left = iter(turns)
    return [advantage for value, length in runs for advantage in [next(left) if value else 0.0] * length]


def rollout_trainer(run: Run, adapter: RolloutAdapter) -> "Trainer":
    """GRPOTrainer or RLOOTrainer, ready to train on the rollouts that the adapter runs."""
    import trl

    training = run.arguments.training
    training.model_init_kwargs = run.model_kwargs
    arguments: Mapping[str, Any] = {
        "model": run.base,
        "reward_funcs": adapter.functions(),
        "args": training,
        "train_dataset": run.data.train,
        "processing_class": run.tokenizer,
        "peft_config": run.lora,
        "quantization_config": run.quantization,
    }
    with run.translate_errors(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*rollout_func.*experimental")
        if run.method == "grpo":
            return _grpo(trl.GRPOTrainer, adapter)(**arguments, rollout_func=adapter)
        return _rloo(trl.RLOOTrainer)(**arguments, adapter=adapter)


def _grpo(base: Any, adapter: RolloutAdapter) -> Any:  # noqa: ANN401
    """GRPOTrainer that knows how likely the sampler found each token, and may have an advantage for each turn.

    Without vLLM, TRL 1.16 takes its own log-probability of a token for that of the sampler, which differs by what
    rounding makes of a cache and of padding. With the sampler's, the ratio of the two weights each token.
    """
    import torch

    class GRPOTrainer(base):  # type: ignore[misc]
        def _generate_and_score_completions(self, inputs: list[Any]) -> dict[str, Any]:
            output: dict[str, Any] = super()._generate_and_score_completions(inputs)
            if adapter.turn_rewards:
                output["advantages"] = adapter.by_token(output["advantages"], output["completion_ids"].shape[1])
            if not self.use_vllm and self.importance_sampling_level == "token":
                output["old_per_token_logps"] = output["sampling_per_token_logps"]
            return output

        def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:  # noqa: ANN401
            self.drawn = inputs["sampling_per_token_logps"], inputs["completion_mask"] * inputs["tool_mask"]
            return super()._compute_loss(model, inputs)

        def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            read = super()._get_per_token_logps_and_entropies(*args, **kwargs)
            if torch.is_grad_enabled() and not self.use_vllm:  # for vLLM, TRL logs it
                sampled, mask = self.drawn
                log_mismatch(self, (read[0].detach() - sampled)[mask.bool()])
            return read

    return GRPOTrainer


def log_mismatch(trainer: Any, gaps: Any) -> None:  # noqa: ANN401
    """Log, under TRL's names, how the trainer's log-probabilities differ from the sampler's; of a step the extremes."""
    gaps = gaps if len(gaps) else gaps.new_zeros(1)
    ratios, logged = gaps.exp(), trainer._metrics["train"]
    for name, value, of in (("sampling_logp_difference/mean", gaps.abs().mean(), None),
                            ("sampling_logp_difference/max", gaps.abs().max(), max),
                            ("importance_sampling_ratio/min", ratios.min(), min),
                            ("importance_sampling_ratio/mean", ratios.mean(), None),
                            ("importance_sampling_ratio/max", ratios.max(), max)):  # fmt: skip
        values = logged[f"sampling/{name}"] + trainer.accelerator.gather(value.reshape(1)).tolist()
        logged[f"sampling/{name}"] = [of(values)] if of else values  # TRL logs the mean of these


def _rloo(base: Any) -> Any:  # noqa: ANN401
    """RLOOTrainer on rollouts. It does not support masks, so each of its rows is one reply with its whole context.

    A reply's advantage is weighted by the ratio of its probabilities, trainer's to sampler's, at most `MOST_WEIGHT`.
    """

    class RLOOTrainer(base):  # type: ignore[misc]
        def __init__(self, *args: Any, adapter: RolloutAdapter, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.adapter = adapter

        def _tokenize_prompts(self, prompts: list[Any]) -> tuple[list[list[int]], None, dict[str, Any]]:
            self.adapter.run(prompts, self)
            return [sample.row.prompt_ids for sample in self.adapter.samples], None, {}

        def _generate_single_turn(self, *args: Any) -> list[list[int]]:
            return [sample.row.completion_ids for sample in self.adapter.samples]

        def _generate_and_score_completions(self, inputs: list[Any]) -> dict[str, Any]:
            output: dict[str, Any] = super()._generate_and_score_completions(inputs)
            rows = [sample.row for sample in self.adapter.samples]
            sums = [sum(math.nan if value is None else value for value in row.logprobs) for row in rows]  # as of vLLM
            gaps = (output["old_logps"] - output["old_logps"].new_tensor(sums)).nan_to_num(0.0)
            gaps *= gaps.new_tensor([any(row.mask) for row in rows])
            output["advantages"] = output["advantages"] * gaps.exp().clamp(max=MOST_WEIGHT)
            log_mismatch(self, gaps)
            return output

    return RLOOTrainer
