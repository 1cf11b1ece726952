"""TRL's rollout hook, in one place: how GRPOTrainer and RLOOTrainer come to the rollouts that Inspect has run.

GRPOTrainer has a hook for it (`rollout_func`, experimental in TRL 1.16). RLOOTrainer has none, so its two steps that
make prompts and completions are replaced. A contract test tells when a TRL has changed either.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from truthgym.training.rollouts.rollouts import Key, Made, Rollouts
from truthgym.training.rollouts.sampling import Engine, LocalEngine, ServerEngine
from truthgym.training.trainers.run import Run

if TYPE_CHECKING:
    from transformers import Trainer, TrainerCallback

    from truthgym.training.reward_functions.formulas import Rewards
    from truthgym.training.reward_functions.rollout import Reward, Rollout

SAMPLE = "sample"
"""Key of a prompt's message under which it names its sample: TRL hands the prompt to the hook, and nothing else."""


def prompt_of(key: Key, question: str) -> list[dict[str, str]]:
    """The prompt of a sample as TRL's dataset holds it."""
    return [{"role": "user", "content": question, SAMPLE: f"{key[0]}:{key[1]}"}]


@dataclass
class Hook:
    """Runs rollouts for a trainer, and hands it their rewards."""

    rollouts: Rollouts
    rewards: "Sequence[Reward]"
    seen: "Callable[[Sequence[Rollout], Sequence[Rewards]], None]" = lambda rollouts, paid: None
    """Called with each run's rollouts, those of all processes, and what each reward paid for them."""
    made: list[Made] = field(default_factory=list)
    """Those of the last run."""
    paid: "list[Rewards]" = field(default_factory=list)
    """What each reward paid for them: counted once, for a reward may be a model that costs."""
    _last: tuple[int, int] = (-1, 0)

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:  # noqa: ANN401
        """Run the samples that the prompts name: TRL's `rollout_func`."""
        self.run(prompts, trainer)
        rows = [made.row for made in self.made]
        return {
            "prompt_ids": [row.prompt_ids for row in rows],
            "completion_ids": [row.completion_ids for row in rows],
            "logprobs": [row.logprobs for row in rows],
            "env_mask": [row.mask for row in rows],
        }

    def run(self, prompts: Sequence[Any], trainer: Any) -> None:  # noqa: ANN401
        """Run the samples that the prompts name."""
        from accelerate.utils import gather_object  # type: ignore[import-untyped]

        keys = []
        for prompt in prompts:
            task, _, sample = str(prompt[-1][SAMPLE]).partition(":")
            keys.append((int(task), sample))
        step = int(trainer.state.global_step)
        again = self._last[1] + 1 if self._last[0] == step else 0
        self._last = (step, again)
        with generating(trainer) as engine:
            self.made = self.rollouts.run(keys, engine, step, (again, int(trainer.accelerator.process_index)))
        rollouts = [made.rollout for made in self.made]
        # What the model wrote nothing of has no gradient, and no part in what the others are compared with.
        self.paid = [
            [one if any(made.row.mask) else None for one, made in zip(reward(rollouts), self.made, strict=True)]
            for reward in self.rewards
        ]
        told = gather_object(list(zip(rollouts, *self.paid, strict=True)))
        self.seen([one for one, *_ in told], [[row[place] for row in told] for place in range(1, len(self.paid) + 1)])

    def functions(self) -> list[Callable[..., list[float | None]]]:
        """The rewards as TRL's reward functions: each reads the last run."""
        return [self._function(reward, place) for place, reward in enumerate(self.rewards)]

    def _function(self, reward: "Reward", place: int) -> Callable[..., list[float | None]]:
        def function(
            prompts: Sequence[Any],
            completions: Sequence[Any],
            **columns: Any,  # noqa: ANN401
        ) -> list[float | None]:
            rollouts = [made.rollout for made in self.made]
            if len(rollouts) != len(completions):
                raise RuntimeError(f"{len(completions)} completions, but {len(rollouts)} rollouts")
            log: Callable[[str, float], None] = columns["log_metric"]
            constant = reward.baseline(rollouts)
            if constant is not None:
                log(f"rewards/{reward.name}/best_constant", constant)
            for name, figure in getattr(reward, "figures", {}).items():  # what a user's function logs
                log(name, figure)
            if place == 0:
                log("share_read", reward.read(rollouts))
                log("failed_rollouts", sum(rollout.error is not None for rollout in rollouts))
            return self.paid[place]

        function.__name__ = reward.name
        return function


@contextmanager
def generating(trainer: Any) -> Iterator[Engine]:  # noqa: ANN401
    """What generates with the trainer's weights: the model itself, or a vLLM server that has them."""
    if trainer.args.use_vllm:
        if trainer.state.global_step != trainer._last_loaded_step:
            trainer.vllm_generation.sync_weights()
            trainer._last_loaded_step = trainer.state.global_step
        yield ServerEngine(_client(trainer))
        return
    from trl.models.utils import unwrap_model_for_generation

    arguments = trainer.args
    warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)  # TRL's own call
    with unwrap_model_for_generation(
        trainer.model_wrapped,
        trainer.accelerator,
        gather_deepspeed3_params=arguments.ds3_gather_for_generation,
        gradient_checkpointing_kwargs=arguments.gradient_checkpointing_kwargs,
    ) as model:
        yield LocalEngine(model, trainer._tokenizer, trainer.eos_token_ids)


def _client(trainer: Any) -> Any:  # noqa: ANN401
    """The server's client. The first process has one, with which it also sends the weights."""
    if trainer.accelerator.is_main_process:
        return trainer.vllm_generation.vllm_client
    if not hasattr(trainer, "rollout_client"):
        from trl.generation.vllm_client import VLLMClient

        arguments = trainer.args
        url = arguments.vllm_server_base_url or f"http://{arguments.vllm_server_host}:{arguments.vllm_server_port}"
        trainer.rollout_client = VLLMClient(base_url=url, connection_timeout=arguments.vllm_server_timeout)
    return trainer.rollout_client


def reinforcing_trainer(run: Run, hook: Hook, callbacks: "Sequence[TrainerCallback]") -> "Trainer":
    """GRPOTrainer or RLOOTrainer, ready to train on what the hook runs.

    Raises:
        BadInput: It refuses the options, or a library that they need is not there.
    """
    import trl

    training = run.arguments.training
    training.model_init_kwargs = run.model_kwargs
    given: Mapping[str, Any] = {
        "model": run.base,
        "reward_funcs": hook.functions(),
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
            return trl.GRPOTrainer(**given, rollout_func=hook)
        return _rloo(trl.RLOOTrainer)(**given, hook=hook)


def _rloo(base: Any) -> Any:  # noqa: ANN401
    """RLOOTrainer on rollouts. It knows no mask, so that each of its rows is one reply, after all that came before."""

    class RLOOTrainer(base):  # type: ignore[misc]
        def __init__(self, *args: Any, hook: Hook, **kwargs: Any) -> None:  # noqa: ANN401
            super().__init__(*args, **kwargs)
            self.hook = hook

        def _tokenize_prompts(self, prompts: list[Any]) -> tuple[list[list[int]], None, dict[str, Any]]:
            self.hook.run(prompts, self)
            return [made.row.prompt_ids for made in self.hook.made], None, {}

        def _generate_single_turn(self, *args: Any) -> list[list[int]]:  # noqa: ANN401
            return [made.row.completion_ids for made in self.hook.made]

    return RLOOTrainer
