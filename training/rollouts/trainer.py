"""GRPO and RLOO on rollouts: Inspect runs the samples, TRL computes the gradient.

`train_on_rollouts` makes each part of a run in order: options, model, questions, rewards, the run's folder, trainer.
"""

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import registry_info, registry_lookup, registry_params, registry_unqualified_name
from truthgym.datasets.loading.inspect_tasks import task_parameters
from truthgym.solvers import chat_template
from truthgym.training.files import card_metadata
from truthgym.training.reward_functions.resolve import check_scaling, check_weights, resolve_rewards
from truthgym.training.reward_functions.rollout import Reward
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
from truthgym.training.rollouts.sampling import MAX_BATCH
from truthgym.training.rollouts.trl_adapter import RolloutAdapter, check_turn_rewards, prompt_of, rollout_trainer
from truthgym.training.trainers.accelerate_launch import launched_configuration
from truthgym.training.trainers.base_model import base_tokenizer, check_model
from truthgym.training.trainers.dataset import TrainingData
from truthgym.training.trainers.memory import shape_of
from truthgym.training.trainers.options import RawOptions, build_options, lora_config, roles_by_name
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

    from truthgym.training.rollouts.callbacks import RolloutLines
    from truthgym.training.rollouts.hacking_monitor import HackingMonitor

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
    from truthgym.training.rollouts.callbacks import RolloutLines, ValidationCallback

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


def _rollouts(run: Run, parsed: Namespace, questions: Sequence[Questions], lines: "RolloutLines") -> Rollouts:
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
