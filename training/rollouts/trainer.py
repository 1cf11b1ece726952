"""Reinforcement: what GRPO and RLOO share. Inspect runs the samples, TRL makes the gradient."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from truthgym.evallog.errors import bad_input
from truthgym.training.artifacts import card_metadata, hash_model
from truthgym.training.trainers.base_model import base_config, base_tokenizer
from truthgym.training.trainers.checkpoints import check_checkpoint, clear_folder, steps_done
from truthgym.training.trainers.data import TrainingData
from truthgym.training.trainers.launch import launched_configuration
from truthgym.training.trainers.memory import lora_config, shape_of
from truthgym.training.trainers.model_card import model_name
from truthgym.training.trainers.options import RawOptions, build_options, parse_options
from truthgym.training.trainers.rollout_options import RolloutOptions, roles_by_name
from truthgym.training.trainers.run import Run, acquire_folder, is_main_process, log_main, report_memory

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from truthgym.training.rollouts.questions import Questions
    from truthgym.training.rollouts.rollouts import Rollouts

SEEN = (
    "Evaluate on questions that were not trained on: {names} split their samples by a hash of the id, and an "
    "evaluation of all of them asks what was trained on. The logs of the rollouts tell which."
)


def reinforce(method: str, given: RawOptions) -> Path:
    """Train by reinforcement: see `grpo` and `rloo`.

    Returns:
        The trained model's folder. `rollouts/` in it holds a log for every step, `validation/` one for every
        evaluation.

    Raises:
        BadInput: Options, a model, a task or a reward that cannot be used; the test split.
    """
    parsed = parse_options(method, given)
    check_checkpoint(parsed.resume_from_checkpoint)
    base, revision, trusted = parsed.model_name_or_path, parsed.model_revision, parsed.trust_remote_code
    config = base_config(base, revision, trusted)
    tokenizer = base_tokenizer(base, revision, trusted, conversational=parsed.chat_template_path is None)
    if parsed.chat_template_path:
        tokenizer.chat_template = _template(Path(parsed.chat_template_path))

    from truthgym.training.reward_functions.properness import check_scaling, check_weights
    from truthgym.training.reward_functions.resolve import resolve_rewards
    from truthgym.training.rollouts.questions import by_event, check_apart, check_solver, load_questions, named_samples
    from truthgym.training.trainers.base_model import check_model

    if parsed.solver:
        check_solver(parsed.solver, parsed.solver_args)
    for model in roles_by_name(parsed.model_role).values():
        check_model(model)
    only = named_samples(Path(parsed.dataset_name)) if parsed.dataset_name else None
    args = _args_by_task(parsed.task, parsed.task_args)
    questions = [load_questions(name, args[name], only=only) for name in parsed.task]
    check_apart(questions)
    rewards = resolve_rewards(parsed.reward, {one.registered: one.scorers for one in questions})
    keys = list(by_event(questions, parsed.seed))[: parsed.max_samples]
    shape = shape_of(config, "words", lora_config(parsed))
    arguments = build_options(method, parsed, False)
    needed = arguments.training.generation_batch_size // arguments.training.num_generations
    if len(keys) < needed:
        raise bad_input(
            f"{len(keys)} questions cannot be trained on, since a step asks {needed} at once; give more, or say "
            "--per_device_train_batch_size or --gradient_accumulation_steps for fewer rollouts a step"
        )
    _check_sampling(arguments.training)
    check_scaling(rewards, arguments.training, parsed.allow_group_scaling)
    check_weights(rewards, arguments.training.reward_weights)
    data = _data(questions, keys, parsed.dataset_name)
    base_hash = hash_model(base, revision)
    settings = arguments.settings(arguments.training.world_size)
    folder = Path(parsed.output_dir) / model_name(method, base, base_hash, data.hashes, settings)
    run = Run(method, arguments, data, tokenizer, base, base_hash, ", ".join(parsed.task), folder, settings)
    with ExitStack() as held:
        if not acquire_folder(run, held):
            return folder
        most = int(arguments.training.max_completion_length)
        report_memory(run, parsed, shape, _longest(questions, tokenizer) + most)
        if parsed.overwrite and folder.exists() and is_main_process():
            clear_folder(folder)
        arguments.training.output_dir = str(run.checkpoints)
        _tell(run, questions, len(keys))
        run.lock = held.pop_all()
    with run:
        return _train(run, questions, rewards)


def _train(run: Run, questions: "Sequence[Questions]", rewards: Sequence[Any]) -> Path:
    from transformers.trainer_callback import PrinterCallback

    from truthgym.training.rollouts.callbacks import Heartbeat
    from truthgym.training.rollouts.rollouts import set_aside
    from truthgym.training.rollouts.trl_adapter import Hook, reinforcing_trainer
    from truthgym.training.rollouts.validation import Validation

    options, training = cast(RolloutOptions, run.arguments.options), run.arguments.training
    heart = Heartbeat(rewards, training.reward_weights, options.heartbeat, options.min_share_read)
    heart.expected = training.generation_batch_size // training.world_size
    rollouts = _rollouts(run, questions)
    rollouts.ended = heart.ended
    callbacks: list[Any] = [heart]
    held_out = _held_out(questions, options)
    if held_out:
        callbacks.append(
            Validation(replace(rollouts, questions=held_out), run.folder / "validation", rewards,
                       options.validation_steps, options.validation_samples)
        )  # fmt: skip
    trainer = reinforcing_trainer(run, Hook(rollouts, rewards, heart.seen), callbacks)
    rollouts.sampling = replace(
        rollouts.sampling, ends=tuple(cast(Any, trainer).eos_token_ids), context=_context(trainer)
    )
    for callback in callbacks[1:]:
        callback.trainer = trainer
        callback.rollouts.sampling = rollouts.sampling
    trainer.remove_callback(PrinterCallback)
    begun = run.resume_from
    step = steps_done(begun) if begun else 0
    if begun:
        heart.go_on(begun)
    if is_main_process():
        for folder in (rollouts.folder, run.folder / "validation"):
            moved = set_aside(folder, step + (folder.name == "validation" and step > 0))
            if moved:
                log_main(f"Set aside in {folder}/set_aside: logs of {len(moved)} steps that are done anew")
    try:
        return run.train(trainer, lambda: _notes(heart, questions))
    finally:
        heart.stop()


def _rollouts(run: Run, questions: "Sequence[Questions]") -> "Rollouts":
    from truthgym.training.rollouts.rollouts import Rollouts, Sampling

    options, training = cast(RolloutOptions, run.arguments.options), run.arguments.training
    kwargs = dict(training.chat_template_kwargs or {})
    thinking = kwargs.pop("enable_thinking", None)
    if kwargs:
        raise bad_input(f"--chat_template_kwargs {kwargs}: only enable_thinking is passed on by Inspect; leave it out")
    return Rollouts(
        questions=questions,
        sampling=Sampling(
            name=run.folder.name,
            tokenizer=run.tokenizer,
            ends=(),
            seed=training.seed,
            max_tokens=training.max_completion_length,
            temperature=training.temperature,
            top_p=training.top_p,
            top_k=training.top_k or 0,
            enable_thinking=thinking,
        ),
        folder=run.folder / "rollouts",
        solver=options.solver,
        solver_args=cast(Any, options.solver_args) or {},
        roles=roles_by_name(options.model_role),
        whole=run.method == "grpo",
    )


def _context(trainer: Any) -> int | None:  # noqa: ANN401
    """Tokens that the model can read and write in all, where that is known."""
    config = trainer.model.config.get_text_config()
    known = getattr(config, "max_position_embeddings", None)
    told = getattr(trainer.args, "vllm_max_model_length", None) if trainer.args.use_vllm else None
    return min((one for one in (known, told) if one), default=None)


def _args_by_task(names: Sequence[str], given: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The arguments of each task: where there are several, those that it takes."""
    from truthgym.training.rollouts.questions import task_function
    from truthgym.training.rollouts.task_args import shared_out, short_name

    if len(names) == 1 and not {names[0], short_name(names[0])} & given.keys():
        return {names[0]: given}
    return dict(shared_out({name: signature(task_function(name)).parameters for name in names}, given))


def _held_out(questions: "Sequence[Questions]", options: RolloutOptions) -> "list[Questions]":
    """The validation split of each task that has one."""
    from truthgym.datasets.errors import BadInput
    from truthgym.training.rollouts.questions import load_questions

    found = []
    by_task = _args_by_task([one.name for one in questions], cast(Any, options.task_args))
    for one in questions if options.validation_steps else []:
        args = {key: value for key, value in by_task[one.name].items() if key != "split"}
        try:
            found.append(load_questions(one.name, args, "validation"))
        except BadInput:  # no sample of the validation split
            log_main(f"{one.name} has no questions for validation")
    return found


def _data(questions: "Sequence[Questions]", keys: Sequence[tuple[int, str]], dataset: str | None) -> TrainingData:
    from datasets import Dataset

    from truthgym.training.rollouts.trl_adapter import prompt_of

    def asked(key: tuple[int, str]) -> str:
        sample = questions[key[0]].samples[key[1]]
        return sample.input if isinstance(sample.input, str) else sample.input[-1].text

    rows = Dataset.from_list([{"prompt": prompt_of(key, asked(key))} for key in keys])
    facts = card_metadata(Path(dataset)) if dataset else {}
    return TrainingData(
        train=rows,
        validation=None,
        conversational=True,
        steps=False,
        hashes={one.name: one.sha256 for one in questions},
        metadata={"questions": len(keys), **facts},
    )


def _longest(questions: "Sequence[Questions]", tokenizer: "PreTrainedTokenizerBase") -> int:
    """Tokens of the longest question, roughly: a solver says more."""
    texts = [str(sample.input) for one in questions for sample in one.samples.values()]
    return max(len(tokenizer(text)["input_ids"]) for text in sorted(texts, key=len)[-8:])


def _check_sampling(training: Any) -> None:  # noqa: ANN401
    """Refuse what cannot be sampled with."""
    if training.temperature <= 0:
        raise bad_input(
            f"--temperature {training.temperature}: all rollouts of a question would be the same; give more than 0"
        )
    how = launched_configuration(training.world_size)
    if not training.use_vllm and (how == "fsdp2" or (how == "zero3" and not training.ds3_gather_for_generation)):
        raise bad_input(
            "The model's weights are shared out over the GPUs, and each would have to wait for the others at every "
            "token; sample from a server with --use_vllm, or start with --accelerate_config multi_gpu or zero2"
        )


def _template(path: Path) -> str:
    if not path.is_file():
        raise bad_input(f"--chat_template_path {path}: there is no such file")
    return path.read_text(encoding="utf-8")


def _tell(run: Run, questions: "Sequence[Questions]", count: int) -> None:
    for one in questions:
        left = ", ".join(f"{number} {why}" for why, number in one.left_out.items())
        log_main(f"{one.name}: {len(one.samples)} questions of the train split{f'; left out: {left}' if left else ''}")
        if one.by_hash:
            log_main(SEEN.format(names=one.name))
    log_main(f"Training {run.folder} on {count} questions")


def _notes(heart: Any, questions: "Sequence[Questions]") -> list[str]:  # noqa: ANN401
    by_hash = [one.name for one in questions if one.by_hash]
    return [
        f"{heart.zero_gradient} of {heart.groups} groups had no gradient: all of their rollouts had the same reward.",
        *([SEEN.format(names=", ".join(by_hash))] if by_hash else []),
    ]
