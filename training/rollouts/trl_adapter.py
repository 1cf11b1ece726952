"""The adapter between TRL's trainers and rollouts: GRPOTrainer and RLOOTrainer on samples that Inspect has run.

GRPOTrainer has a hook for it (`rollout_func`, experimental in TRL 1.16). RLOOTrainer does not, so its two methods that
make prompts and completions are overridden. A contract test fails if a TRL release changes either.
"""

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from truthgym.datasets.errors import BadInput
from truthgym.training.reward_functions.formulas import impute_group_mean
from truthgym.training.rollouts.runner import Key, Rollouts, TrainingSample
from truthgym.training.rollouts.sampling import Engine, LocalEngine, Request, VLLMEngine
from truthgym.training.rollouts.turn_advantages import token_advantages, turn_advantages, turn_rewards
from truthgym.training.trainers.training_run import Run

if TYPE_CHECKING:
    from transformers import Trainer, TrainerCallback

    from truthgym.training.reward_functions.formulas import Rewards
    from truthgym.training.reward_functions.rollout import Reward, Rollout

Generate = Callable[[list[list[int]], Request], tuple[list[list[int]], list[Any]]]
SAMPLE = "sample"
"""Key in a prompt's message that identifies its sample: TRL passes only the prompt to the adapter."""


def prompt_of(key: Key, question: str) -> list[dict[str, str]]:
    """The prompt of a sample in TRL's dataset."""
    return [{"role": "user", "content": question, SAMPLE: f"{key[0]}:{key[1]}"}]


@dataclass
class RolloutAdapter:
    """Runs rollouts for a trainer, and passes it their tokens and rewards."""

    rollouts: Rollouts
    rewards: "Sequence[Reward]"
    on_rewards: "Callable[[Sequence[Rollout], Sequence[Rewards]], None]" = lambda rollouts, rewards: None
    """Called with each run's rollouts, those of all processes, and the values of each reward for them."""
    turn_rewards: str | None = None
    """A key of `TURN_REWARDS`: turns get advantages of their own."""
    samples: list[TrainingSample] = field(default_factory=list, init=False)
    """Samples of the last run."""
    values: "list[Rewards]" = field(default_factory=list, init=False)
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
        self.values = [one[process * len(rollouts) : (process + 1) * len(rollouts)] for one in values]
        if self.turn_rewards:
            self._score_turns(rollouts, trainer.reward_weights.tolist(), process)
        self.on_rewards(everyone, values)

    def _score_turns(self, rollouts: "Sequence[Rollout]", weights: Sequence[float], process: int) -> None:
        from accelerate.utils import gather_object

        kind = str(self.turn_rewards)
        final = [weighted_sum(values, weights) for values in zip(*self.values, strict=True)]
        turns = [turn_rewards(kind, *one) for one in zip(rollouts, final, strict=True)]
        known = gather_object([(rollout.sample, one) for rollout, one in zip(rollouts, turns, strict=True)])
        of_turns = turn_advantages([one for _, one in known], [group for group, _ in known])
        own = of_turns[process * len(rollouts) : (process + 1) * len(rollouts)]
        self.token_advantages = [
            token_advantages(sample.row.mask, turns) for sample, turns in zip(self.samples, own, strict=True)
        ]
        if rollouts and all(one is None for _, one in known):
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

    def _function(self, reward: "Reward", place: int) -> Callable[..., list[float | None]]:
        def function(
            prompts: Sequence[Any],
            completions: Sequence[Any],
            **columns: Any,  # noqa: ANN401
        ) -> list[float | None]:
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
                log("share_read", reward.read(rollouts))
                log("failed_rollouts", sum(rollout.error is not None for rollout in rollouts))
            return self.values[place]

        function.__name__ = reward.name
        return function


def complete(values: "Sequence[Rewards]", groups: Sequence[Hashable]) -> "list[Rewards]":
    """The values of several rewards, so that one that is missing beside others gives no advantage.

    TRL leaves a rollout out of its group's statistics if all of its rewards are None, and counts a single None as 0,
    which can be the best value or the worst. That one becomes the mean of the question's other rollouts.
    """
    some = [any(value is not None for value in row) for row in zip(*values, strict=True)]
    return [
        impute_group_mean(one, [has and value is None for has, value in zip(some, one, strict=True)], groups)
        for one in values
    ]


def weighted_sum(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    """The reward of a rollout as TRL adds it up: a missing one counts as 0; None if all are missing."""
    known = [value * weight for value, weight in zip(values, weights, strict=True) if value is not None]
    return sum(known) if known else None


@contextmanager
def open_engine(trainer: Any) -> Iterator[Engine]:  # noqa: ANN401
    """The engine that generates with the trainer's weights: the model itself, or vLLM, to which they are sent."""
    end_ids, arguments = trainer.eos_token_ids, trainer.args
    context_length = getattr(trainer.model.config.get_text_config(), "max_position_embeddings", None)
    if arguments.use_vllm:
        if trainer.state.global_step != trainer._last_loaded_step:
            trainer.vllm_generation.sync_weights()
            trainer._last_loaded_step = trainer.state.global_step
        if arguments.vllm_mode == "server":
            client = _client(trainer)
            context_length = client.get_server_info()["model_config"]["max_model_len"]
            yield VLLMEngine(_from_server(client), end_ids, context_length, concurrent=True)
        else:
            limits = (context_length, arguments.vllm_max_model_length)
            context_length = min((limit for limit in limits if limit), default=None)
            yield VLLMEngine(_from_this_process(trainer.vllm_generation), end_ids, context_length)
        return
    from trl.models.utils import unwrap_model_for_generation

    warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)  # TRL's own call
    with unwrap_model_for_generation(
        trainer.model_wrapped,
        trainer.accelerator,
        gather_deepspeed3_params=arguments.ds3_gather_for_generation,
        gradient_checkpointing_kwargs=arguments.gradient_checkpointing_kwargs,
    ) as model:
        yield LocalEngine(model, trainer._tokenizer, end_ids, context_length, trainer.accelerator.autocast)


def _stop(request: Request) -> dict[str, Any] | None:
    return {"stop": list(request.stop), "include_stop_str_in_output": True} if request.stop else None


def _from_server(client: Any) -> Generate:  # noqa: ANN401
    """Generate with TRL's `VLLMClient`."""

    def generate(prompts: list[list[int]], request: Request) -> tuple[list[list[int]], list[Any]]:
        answer = client.generate(
            prompts=prompts,
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            top_k=request.top_k,
            logprobs=0,
            generation_kwargs=_stop(request),
        )
        return answer["completion_ids"], answer["logprobs"]

    return generate


def _from_this_process(generation: Any) -> Generate:  # noqa: ANN401
    """Generate with the engine of TRL's `VLLMGeneration`, which reads its settings from its attributes."""

    def generate(prompts: list[list[int]], request: Request) -> tuple[list[list[int]], list[Any]]:
        generation.max_completion_length = request.max_tokens
        generation.temperature, generation.top_p, generation.top_k = request.temperature, request.top_p, request.top_k
        generation.generation_kwargs = _stop(request) or {}
        generation.logprobs = 0  # of the sampled token only; RLOOTrainer does not ask for them
        _, ids, logprobs, _ = generation.generate(prompts, None, num_generations=1)
        return ids, logprobs

    return generate


def _client(trainer: Any) -> Any:  # noqa: ANN401
    """The client of the vLLM server. TRL gives one to the main process, which also sends the weights with it."""
    if trainer.accelerator.is_main_process:
        return trainer.vllm_generation.vllm_client
    if not hasattr(trainer, "rollout_client"):
        from trl.generation.vllm_client import VLLMClient

        arguments = trainer.args
        url = arguments.vllm_server_base_url or f"http://{arguments.vllm_server_host}:{arguments.vllm_server_port}"
        trainer.rollout_client = VLLMClient(base_url=url, connection_timeout=arguments.vllm_server_timeout)
    return trainer.rollout_client


def rollout_trainer(run: Run, adapter: RolloutAdapter, callbacks: "Sequence[TrainerCallback]") -> "Trainer":
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
        "callbacks": list(callbacks),
    }
    with run.translate_errors(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*rollout_func.*experimental")
        if run.method == "grpo":
            kind = _by_turn(trl.GRPOTrainer, adapter) if adapter.turn_rewards else trl.GRPOTrainer
            return kind(**arguments, rollout_func=adapter)
        return _rloo(trl.RLOOTrainer)(**arguments, adapter=adapter)


def _by_turn(base: Any, adapter: RolloutAdapter) -> Any:  # noqa: ANN401
    """GRPOTrainer with an advantage for each token, which TRL 1.16's loss takes from a subclass."""

    class GRPOTrainer(base):  # type: ignore[misc]
        def _generate_and_score_completions(self, inputs: list[Any]) -> dict[str, Any]:
            output: dict[str, Any] = super()._generate_and_score_completions(inputs)
            output["advantages"] = adapter.by_token(output["advantages"], output["completion_ids"].shape[1])
            return output

    return GRPOTrainer


def _rloo(base: Any) -> Any:  # noqa: ANN401
    """RLOOTrainer on rollouts. It does not support masks, so each of its rows is one reply with its whole context."""

    class RLOOTrainer(base):  # type: ignore[misc]
        def __init__(self, *args: Any, adapter: RolloutAdapter, **kwargs: Any) -> None:  # noqa: ANN401
            super().__init__(*args, **kwargs)
            self.adapter = adapter

        def _tokenize_prompts(self, prompts: list[Any]) -> tuple[list[list[int]], None, dict[str, Any]]:
            self.adapter.run(prompts, self)
            return [sample.row.prompt_ids for sample in self.adapter.samples], None, {}

        def _generate_single_turn(self, *args: Any) -> list[list[int]]:  # noqa: ANN401
            return [sample.row.completion_ids for sample in self.adapter.samples]

    return RLOOTrainer
