"""GRPO and RLOO on rollouts: Inspect runs the samples, TRL computes the gradient.

`train_on_rollouts` makes each part of a run in order: options, model, questions, rewards, the run's folder, trainer.
"""

import math
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from inspect import signature
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tqdm import tqdm
from transformers import Trainer, TrainerCallback, TrainerState

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import registry_info, registry_lookup, registry_params, registry_unqualified_name
from truthgym.datasets.loading.inspect_tasks import task_parameters
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.solvers import chat_template
from truthgym.training.files import card_metadata
from truthgym.training.reward_functions.formulas import Rewards
from truthgym.training.reward_functions.resolve import check_scaling, check_weights, resolve_rewards
from truthgym.training.reward_functions.rollout import Reward, Rollout
from truthgym.training.reward_functions.scorer_reward import ScorerReward
from truthgym.training.reward_functions.sources import sources_of
from truthgym.training.reward_functions.user_function import FunctionReward
from truthgym.training.rollouts.questions import (
    Questions,
    check_names,
    check_solver,
    dataset_sample_ids,
    load_questions,
    shared_out,
    short_name,
    shuffled_by_event,
)
from truthgym.training.rollouts.runner import Key, Rollouts, Sampling, archive_steps_from
from truthgym.training.rollouts.sampling import MAX_BATCH, open_engine
from truthgym.training.rollouts.trl_adapter import (
    RolloutAdapter,
    check_turn_rewards,
    prompt_of,
    rollout_trainer,
    weighted_sum,
)
from truthgym.training.trainers.accelerate_launch import launched_configuration
from truthgym.training.trainers.base_model import base_tokenizer, check_model
from truthgym.training.trainers.dataset import TrainingData
from truthgym.training.trainers.memory import shape_of
from truthgym.training.trainers.options import RawOptions, build_options, lora_config, roles_by_name
from truthgym.training.trainers.step_lines import StepLines
from truthgym.training.trainers.training_run import (
    Run,
    acquire_folder,
    is_main_process,
    log_main,
    make_ready,
    name_run,
    options_and_model,
    steps_done,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from truthgym.training.rollouts.hacking_monitor import HackingMonitor


LOW_PARSE_RATE = 0.5
"""Below this share of answers that can be parsed the run prints a warning."""
WARNING_STEPS = 5
"""The warning is given in this many first steps only."""


class RolloutLines(StepLines):
    """A line for each step, a sign of life in long ones, and the end of a run whose answers cannot be parsed."""

    left_out = ("reward", "loss")

    def __init__(
        self,
        rewards: Sequence[Reward],
        weights: Sequence[float] | None,
        *,
        interval: float,
        min_share_read: float = 0.0,
        rollouts_per_step: int = 0,
    ) -> None:
        super().__init__()
        self.rewards = rewards
        self.weights = weights or [1.0] * len(rewards)
        self.interval = interval
        self.min_share_read = min_share_read
        self.rollouts_per_step = rollouts_per_step
        self._ended = 0
        self._spoke = time.monotonic()
        self._warned = False

    def sample_ended(self) -> None:
        """Count a finished rollout, and say so if the last line was long ago."""
        self._ended += 1
        if time.monotonic() - self._spoke >= self.interval:
            self.say(f"step {self.step + 1} of {self.max_steps}: {self._ended} of {self.rollouts_per_step} rollouts")

    def step_rewarded(self, rollouts: Sequence[Rollout], rewards: Sequence[Rewards]) -> None:
        """Keep the reward of a step's rollouts."""
        totals = [weighted_sum(values, self.weights) for values in zip(*rewards, strict=True)]
        found = [(total, rollout.sample) for total, rollout in zip(totals, rollouts, strict=True) if total is not None]
        mean = mean_estimate([total for total, _ in found], [sample for _, sample in found])
        constant = weighted_sum([reward.baseline(rollouts) for reward in self.rewards], self.weights)
        interval = "" if math.isnan(mean.lower) else f" [{mean.lower:.3f}, {mean.upper:.3f}]"
        best = "" if constant is None else f" (best constant {constant:.4f})"
        self.first = [f"reward {mean.estimate:.4f}{interval}{best}" if found else "no reward"]
        self._ended = 0
        self._check_share_read(self.rewards[0].read(rollouts), rollouts[0].answer)

    def _check_share_read(self, share: float, answer: str) -> None:
        if share < self.min_share_read:
            raise BadInput(
                f"Only {share:.0%} of the answers of step {self.step + 1} could be parsed, and --min_share_read is "
                f"{self.min_share_read:.0%}. One of them: {answer[:200]!r}. Train the model on the answer format "
                "first, for instance with `truthgym train sft`"
            )
        if share < LOW_PARSE_RATE and self.step < WARNING_STEPS and not self._warned:
            self._warned = True
            log_main(
                f"WARNING: only {share:.0%} of the answers can be parsed, so the model will learn their format first. "
                f"One of them: {answer[:200]!r}. Train the format first (`truthgym train sft`), or stop such runs with "
                "--min_share_read"
            )

    def say(self, line: str) -> None:
        super().say(line)
        self._spoke = time.monotonic()

    def on_train_begin(self, args: object, state: TrainerState, control: object, **_: object) -> None:
        super().on_train_begin(args, state, control)
        self._spoke = time.monotonic() if state.is_world_process_zero else math.inf


class ValidationCallback(TrainerCallback):  # type: ignore[misc]
    """Evaluates the model on questions that are not trained on: before the first step, at intervals, and at the end."""

    def __init__(
        self, trainer: Trainer, rollouts: Rollouts, rewards: Sequence[Reward], *, steps: float, max_samples: int
    ) -> None:
        self.trainer = trainer
        self.rollouts = rollouts
        self.rewards = rewards
        self.steps = steps
        self.keys = _interleaved(rollouts.questions, max_samples)

    def on_train_begin(self, args: object, state: TrainerState, control: object, **_: object) -> None:
        if state.global_step == 0:
            self._evaluate(state)

    def on_step_end(self, args: object, state: TrainerState, control: object, **_: object) -> None:
        steps = max(1, math.ceil(self.steps * state.max_steps) if self.steps < 1 else int(self.steps))
        if state.global_step % steps == 0 or state.global_step == state.max_steps:
            self._evaluate(state)

    def _evaluate(self, state: TrainerState) -> None:
        """Each process asks its share of the questions: waiting for one of them would exceed NCCL's timeout."""
        from accelerate.utils import gather_object  # type: ignore[import-untyped]

        accelerator = self.trainer.accelerator
        place, processes = accelerator.process_index, accelerator.num_processes
        with open_engine(self.trainer) as engine:
            rank = (place,) if processes > 1 else ()
            samples = self.rollouts.run(self.keys[place::processes], engine, state.global_step, rank)
        rollouts = gather_object([sample.rollout for sample in samples])
        if not state.is_world_process_zero:
            return
        read = self.rewards[0].read(rollouts)
        figures, parts = ({}, []) if math.isnan(read) else ({"eval_share_read": read}, [f"read {read:.1%}"])
        for reward in self.rewards:
            values = [value for value in reward(rollouts) if value is not None]
            mean = figures[f"eval_rewards/{reward.name}"] = sum(values) / len(values) if values else math.nan
            constant = reward.baseline(rollouts)
            if constant is not None:
                figures[f"eval_rewards/{reward.name}/best_constant"] = constant
            best = "" if constant is None else f" (best constant {constant:.4f})"
            parts.append(f"{reward.name} {mean:.4f}{best}")
        tqdm.write(f"validation at step {state.global_step}: {', '.join(parts)}, {len(self.keys)} questions")
        should_log = self.trainer.control.should_log
        Trainer.log(self.trainer, figures)  # TRL's own `log` would mix in the training figures of these steps
        self.trainer.control.should_log = should_log  # those are still to be logged


def _interleaved(questions: Sequence[Questions], max_samples: int) -> list[Key]:
    """The first samples of each task in turn."""
    by_task = [[(task, name) for name in task_questions.samples] for task, task_questions in enumerate(questions)]
    return [key for turn in zip_longest(*by_task) for key in turn if key is not None][:max_samples]


REPLIES = {"steps": 1, "attempts": 1, "questions": 1, "turns": 2}
"""Replies for each unit of an argument of a solver."""
FEW_QUESTIONS = 200
"""Below this number of training questions the run prints a warning."""
HASHED_SPLIT = (
    "Evaluate on questions that were not trained on: {names} split their samples by a hash of the id, so an evaluation "
    "of all samples includes those trained on. The logs of the rollouts list them."
)


def train_on_rollouts(method: str, options: RawOptions) -> Path:
    """Train with GRPO or RLOO: see `grpo` and `rloo`."""
    from truthgym.training.rollouts.hacking_monitor import kind_of_run, monitor_of

    # Options and model. Its shape is read before TRL's options are built: from then on ZeRO-3 shards every model.
    parsed, config = options_and_model(method, options)
    shape = shape_of(config, "words", lora_config(parsed))
    arguments = build_options(method, parsed, False)
    training = arguments.training
    _check_sampling(training)
    tokenizer = load_tokenizer(
        method,
        parsed.model_name_or_path,
        parsed.model_revision,
        parsed.trust_remote_code,
        parsed.chat_template_path,
        enable_thinking(training),
    )
    for role_model in roles_by_name(parsed.model_role).values():
        check_model(role_model)

    # Questions.
    questions = _load_questions(parsed)
    keys = list(shuffled_by_event(questions, training.seed))[: parsed.max_samples]
    needed = training.generation_batch_size // training.num_generations
    if len(keys) < needed:
        raise BadInput(
            f"{len(keys)} questions cannot be trained on, since a step needs {needed}; give more, or use a lower "
            "--per_device_train_batch_size or --gradient_accumulation_steps for fewer rollouts a step"
        )

    # Rewards, which the trainer's options must leave proper.
    rewards = resolve_rewards(parsed.reward, {question.registered: question.scorers for question in questions})
    check_scaling(rewards, training, parsed.allow_group_scaling)
    check_weights(rewards, training.reward_weights)
    check_turn_rewards(parsed.turn_rewards, method, {question.registered: question.scorers for question in questions})
    steps = training.max_steps if training.max_steps > 0 else int(training.num_train_epochs * len(keys) / needed)

    # The run.
    data = _dataset(questions, keys, parsed.dataset_name)
    run = name_run(method, arguments, parsed, data, tokenizer, ", ".join(parsed.task))
    logging_steps = training.logging_steps
    monitor = monitor_of(
        parsed.monitor, parsed.monitor_signals, parsed.monitor_alpha, steps // max(1, int(logging_steps)),
        kind_of_run(run.dataset, run.base_hash, logging_steps, run.settings),
    )  # fmt: skip
    with ExitStack() as lock:
        if not acquire_folder(run, lock):
            return run.folder
        replies = _replies(parsed.solver, parsed.solver_args)
        length = _longest(questions, tokenizer) + replies * int(training.max_completion_length)
        sampled = 0 if training.use_vllm else min(MAX_BATCH, training.generation_batch_size // training.world_size)
        make_ready(run, parsed, shape, length, sampled)
        for question in questions:
            reasons = ", ".join(f"{number} {why}" for why, number in question.left_out.items())
            left_out = f"; left out: {reasons}" if reasons else ""
            log_main(f"{question.name}: {len(question.samples)} questions of the train split{left_out}")
        for note in _hash_notes(questions):
            log_main(note)
        if len(keys) < FEW_QUESTIONS:
            epochs = training.max_steps * needed / len(keys) if training.max_steps > 0 else training.num_train_epochs
            log_main(
                f"WARNING: {len(keys)} questions, {epochs:.1f} times each. An outcome is one bit: from so few, a model "
                f"learns the outcomes by heart, and not how to answer. Give {FEW_QUESTIONS} questions or more"
            )
        log_main(f"Training {run.folder} on {len(keys)} questions")
        run.lock = lock.pop_all()
    with run:
        run.rewards = _sources(rewards, questions)
        return _train(run, parsed, questions, rewards, monitor)


def _sources(rewards: Sequence[Reward], questions: Sequence[Questions]) -> dict[str, str]:
    """What gives the rewards, by name with its digest: files of scorers and of functions, and what a server says."""
    digests: dict[str, str] = {}
    scorers = [scorer for question in questions for scorer in question.task.scorer or []]
    for reward in rewards:
        if isinstance(reward, FunctionReward):
            digests |= reward.sources
        if isinstance(reward, ScorerReward):
            for scorer in scorers:
                info = registry_info(scorer)
                if registry_unqualified_name(info) == reward.scorer:
                    for sources in sources_of(info.name, registry_params(scorer)).values():
                        digests |= sources
    return digests


def _train(
    run: Run,
    parsed: Namespace,
    questions: Sequence[Questions],
    rewards: Sequence[Reward],
    monitor: "HackingMonitor | None",
) -> Path:
    """Make the trainer, and train from the last checkpoint if there is one."""
    training = run.arguments.training
    lines = RolloutLines(
        rewards,
        training.reward_weights,
        interval=parsed.heartbeat,
        min_share_read=parsed.min_share_read,
        rollouts_per_step=training.generation_batch_size // training.world_size,
    )
    rollouts = _rollouts(run, parsed, questions, lines)
    held_out = _validation_questions(questions) if parsed.validation_steps else []
    adapter = RolloutAdapter(rollouts, rewards, lines.step_rewarded, parsed.turn_rewards)
    trainer = rollout_trainer(run, adapter)
    if monitor:  # before those that write what is logged to dashboards
        trainer.callback_handler.callbacks.insert(0, monitor)
    if held_out:
        validation = replace(rollouts, questions=held_out, folder=run.folder / "validation", on_sample_end=lambda: None)
        trainer.add_callback(
            ValidationCallback(
                trainer, validation, rewards, steps=parsed.validation_steps, max_samples=parsed.validation_samples
            )
        )
    step = steps_done(run.resume_from) if run.resume_from else 0
    # A checkpoint is saved after the validation of its step, which is therefore not repeated.
    for folder, first in (("rollouts", step), ("validation", step + (step > 0))):
        if is_main_process() and (moved := archive_steps_from(run.folder / folder, first)):
            log_main(f"Moved the logs of {len(moved)} steps that will be repeated to {run.folder / folder}/set_aside")

    def notes() -> list[str]:
        logged = [
            entry["frac_reward_zero_std"] for entry in trainer.state.log_history if "frac_reward_zero_std" in entry
        ]
        share = f"{sum(logged) / max(len(logged), 1):.0%} of the groups had no gradient"
        return [f"{share}: all of their rollouts had the same reward.", *_hash_notes(questions),
                *([monitor.note()] if monitor else [])]  # fmt: skip

    return run.train(trainer, notes, lines)


def load_tokenizer(
    method: str,
    base: str,
    revision: str = "main",
    trusted: bool = False,
    template: str | None = None,
    thinking: bool | None = None,
) -> "PreTrainedTokenizerBase":
    """The base model's tokenizer, with the user's template, or for GRPO TRL's if its own drops earlier reasoning."""
    from trl.chat_template_utils import get_training_chat_template

    from truthgym.training.rollouts.policy import keeps_reasoning

    tokenizer = base_tokenizer(base, revision, trusted, conversational=template is None)
    if template:
        if not Path(template).is_file():
            raise BadInput(f"--chat_template_path {template}: there is no such file")
        tokenizer.chat_template = Path(template).read_text(encoding="utf-8")
    elif method == "grpo" and not keeps_reasoning(tokenizer, thinking):
        own = tokenizer.chat_template
        with suppress(ValueError):  # TRL has no variant of this template
            tokenizer.chat_template = get_training_chat_template(tokenizer) or own
        if not keeps_reasoning(tokenizer, thinking):
            tokenizer.chat_template = own
        elif tokenizer.chat_template != own:
            log_main(f"{base}: TRL's chat template replaces the model's, which drops the reasoning of earlier turns")
    tokenizer.chat_template = chat_template.fit(tokenizer, tokenizer.chat_template)
    if refusal := chat_template.problem(tokenizer, chat_template.TALK[:1], add_generation_prompt=True):
        raise BadInput(f"The chat template of {template or base} {refusal}, a question alone; {chat_template.REMEDY}")
    return tokenizer


def enable_thinking(training: Any) -> bool | None:  # noqa: ANN401
    """What `--chat_template_kwargs` says about thinking; None leaves it to the chat template."""
    return cast("bool | None", (training.chat_template_kwargs or {}).get("enable_thinking"))


def _check_sampling(training: Any) -> None:  # noqa: ANN401
    """Refuse options with which rollouts cannot be sampled."""
    problems = []
    if training.temperature <= 0:
        problems.append(
            f"--temperature {training.temperature}: all rollouts of a question would be the same; give more than 0"
        )
    configuration = launched_configuration(training.world_size)
    sharded = configuration == "fsdp2" or (configuration == "zero3" and not training.ds3_gather_for_generation)
    if sharded and not training.use_vllm:
        problems.append(
            "The model's weights are sharded over the GPUs, so each would wait for the others at every token; sample "
            "from a server with --use_vllm, or start with --accelerate_config multi_gpu or zero2"
        )
    if unknown := set(training.chat_template_kwargs or {}) - {"enable_thinking"}:
        problems.append(
            f"--chat_template_kwargs {sorted(unknown)}: only enable_thinking is passed on by Inspect; omit the others"
        )
    if problems:
        raise BadInput("; ".join(problems))


def _load_questions(parsed: Namespace) -> list[Questions]:
    """The training questions of each task, and the arguments that each takes."""
    if parsed.solver:
        check_solver(parsed.solver, parsed.solver_args)
    only = dataset_sample_ids(Path(parsed.dataset_name)) if parsed.dataset_name else None
    args: Mapping[str, Mapping[str, Any]] = {parsed.task[0]: parsed.task_args}
    if len(parsed.task) > 1 or {parsed.task[0], short_name(parsed.task[0])} & parsed.task_args.keys():
        args = shared_out({name: task_parameters(name) for name in parsed.task}, parsed.task_args)
    questions = [load_questions(name, args[name], only=only) for name in parsed.task]
    check_names(questions)
    return questions


def _dataset(questions: Sequence[Questions], keys: Sequence[Key], dataset: str | None) -> TrainingData:
    """TRL's dataset: a prompt per question, which identifies the sample to run."""
    from datasets import Dataset

    def text(key: Key) -> str:
        sample = questions[key[0]].samples[key[1]]
        return sample.input if isinstance(sample.input, str) else sample.input[-1].text

    facts = card_metadata(Path(dataset)) if dataset else {}
    return TrainingData(
        train=Dataset.from_list([{"prompt": prompt_of(key, text(key))} for key in keys]),
        validation=None,
        conversational=True,
        steps=False,
        hashes={question.name: question.sha256 for question in questions},
        metadata={"questions": len(keys), **facts},
    )


def _replies(solver: str | None, args: Mapping[str, Any]) -> int:
    """Replies of the model in one sample, from the arguments of Truthgym's solvers; 1 for a task's own solver."""
    function = registry_lookup("solver", solver or "")
    parameters = signature(cast(Callable[..., Any], function)).parameters if function else {}
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    counts = {name: value for name, value in (defaults | dict(args)).items() if name in REPLIES}
    return 1 + sum(REPLIES[name] * value for name, value in counts.items() if isinstance(value, int))


def _longest(questions: Sequence[Questions], tokenizer: "PreTrainedTokenizerBase") -> int:
    """Tokens of the longest question with its evidence: a lower bound, since solvers add instructions."""
    samples = [sample for question in questions for sample in question.samples.values()]
    texts = [f"{sample.input} {(sample.metadata or {}).get('evidence', '')}" for sample in samples]
    return max(len(tokenizer(text)["input_ids"]) for text in sorted(texts, key=len)[-8:])


def _rollouts(run: Run, parsed: Namespace, questions: Sequence[Questions], lines: RolloutLines) -> Rollouts:
    training = run.arguments.training
    return Rollouts(
        questions=questions,
        sampling=Sampling(
            name=run.folder.name,
            tokenizer=run.tokenizer,
            seed=training.seed,
            max_tokens=training.max_completion_length,
            temperature=training.temperature,
            top_p=training.top_p,
            top_k=training.top_k or 0,
            enable_thinking=enable_thinking(training),
        ),
        folder=run.folder / "rollouts",
        solver=parsed.solver,
        solver_args=parsed.solver_args,
        roles=roles_by_name(parsed.model_role),
        whole_conversations=run.method == "grpo",
        on_sample_end=lines.sample_ended,
    )


def _validation_questions(questions: Sequence[Questions]) -> list[Questions]:
    """The validation split of each task that has one."""
    held_out = []
    for question in questions:
        args = {key: value for key, value in question.args.items() if key != "split"}
        try:
            held_out.append(load_questions(question.name, args, "validation"))
        except BadInput:  # no sample of the validation split
            log_main(f"{question.name} has no questions for validation")
    return held_out


def _hash_notes(questions: Sequence[Questions]) -> list[str]:
    """A warning if a hash of the samples' ids made the split."""
    by_hash = [question.name for question in questions if question.by_hash]
    return [HASHED_SPLIT.format(names=", ".join(by_hash))] if by_hash else []
