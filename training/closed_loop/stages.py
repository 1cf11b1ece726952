"""The stages of a loop: evaluate, convert, train. A stage that is complete is not repeated, an incomplete one resumes.

0-held-out/     logs of the start model on held-out questions
1a-asked/       logs of round 1 on training questions
1b-data/        the dataset converted from them
1c-trained/     the folder of the trained model
1d-held-out/    logs of the trained model on the questions of 0-held-out
2a-asked/       and so on
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.datasets.errors import one_of
from truthgym.datasets.loading.inspect_tasks import task_parameters
from truthgym.evallog.errors import bad_input
from truthgym.training.closed_loop.measures import START_NLL_FILE, has_reply_nll, write_reply_nll
from truthgym.training.closed_loop.options import WITH_REFERENCE, LoopConfig
from truthgym.training.files import card_metadata
from truthgym.training.providers.job import fine_tune, get_provider
from truthgym.training.providers.provider import OPTIONS, JobSpec
from truthgym.training.rollouts.questions import load_questions, shared_out
from truthgym.training.train import TRAINERS, few_shot
from truthgym.training.trainers.base_model import LOCAL_PREFIXES
from truthgym.training.trainers.model_card import is_finished, read_card
from truthgym.training.trainers.options import BY_ROLLOUTS

if TYPE_CHECKING:
    from inspect_ai import Task
    from inspect_ai.log import EvalLog
    from inspect_ai.model import Model

RETRY_ATTEMPTS = 1
"""Retries of a failed evaluation before the loop stops. The same command resumes it."""


@dataclass(frozen=True)
class Subject:
    """The model that a round evaluates and trains."""

    model: str
    """Inspect's name of it."""
    base: str
    """The trainer's name of it: a folder, a name on the Hub, or a provider's model."""
    solver: str | None = None
    solver_args: dict[str, Any] | None = None


def start_subject(config: LoopConfig) -> Subject:
    """The model that the loop starts from. With few_shot, which trains no weights, any Inspect model will do."""
    name = config.model_name_or_path
    if config.provider or config.method != "few_shot" or Path(name).is_dir():
        return Subject(f"{config.provider or 'hf'}/{name}", name, config.solver, config.solver_args)
    base = name.partition("/")[2] if name.startswith(LOCAL_PREFIXES) else name
    return Subject(name, base, config.solver, config.solver_args)


def trained_subject(config: LoopConfig, before: Subject, folder: Path) -> Subject:
    """The model that a round's training wrote into a folder."""
    if config.method == "few_shot":
        selection = card_metadata(folder / "data").get("selection") or {}
        args: dict[str, Any] = {"source": str(folder / "data" / "train.jsonl"), "share": 1.0}
        args["best"] = selection.get("best") or "lowest"
        if config.solver:
            args["base"] = {config.solver: config.solver_args}
        return Subject(before.model, before.base, "truthgym/few_shot", args)
    if config.trains_at_provider:
        model = read_card(folder).model
        return Subject(model, model.partition("/")[2], config.solver, config.solver_args)
    return Subject(f"{config.provider or 'hf'}/{folder}", str(folder), config.solver, config.solver_args)


def train_tasks(config: LoopConfig, round_: int = 1) -> "list[Task]":
    """The tasks with the questions that a round trains on."""
    return [_build(name, args, "train") for name, args in train_task_args(config, round_).items()]


def held_out_tasks(config: LoopConfig) -> "list[Task]":
    """The tasks with the held-out questions, the same ones in each round."""
    return [_build(name, args, "test") for name, args in task_args(config, config.held_out_args, "test").items()]


def train_task_args(config: LoopConfig, round_: int = 1) -> dict[str, dict[str, Any]]:
    """Arguments of each task for the questions that a round trains on, including `split`."""
    args_by_task = task_args(config, config.train_args, "train")
    if config.fresh:
        for name, args in args_by_task.items():
            default = task_parameters(name)["seed"].default
            args |= {"seed": int(args.get("seed", default)) + round_ - 1} if round_ > 1 else {}
    return args_by_task


def task_args(config: LoopConfig, additional: Mapping[str, Any], split: str) -> dict[str, dict[str, Any]]:
    """Arguments of each task."""
    parameters = {name: task_parameters(name) for name in config.task}
    args_by_task = shared_out(parameters, config.task_args, additional)
    problems = []
    for name, args in args_by_task.items():
        if "split" in parameters[name]:
            args["split"] = split
        elif not config.any_task:
            problems.append(
                f"The task {name} takes no split, so training and held-out questions could overlap; with --any_task a "
                "hash of each sample's id makes the split"
            )
        if config.fresh and "seed" not in parameters[name]:
            problems.append(f"--fresh: the task {name} takes no seed, so it has no other questions; leave it out")
    if problems:
        raise bad_input("; ".join(problems))
    return args_by_task


def _build(name: str, args: Mapping[str, Any], split: str) -> "Task":
    """Build a task of the samples of a split; where they name none, as `truthgym convert --any-task` parts them."""
    questions = load_questions(name, args, split)
    task = questions.task
    task.dataset = task.dataset.filter(lambda sample: str(sample.id) in questions.samples)
    return task


def evaluate(
    config: LoopConfig, subject: Subject, tasks: "Sequence[Task]", folder: Path, held_out: bool
) -> "list[EvalLog]":
    """Evaluate a model, or read the logs that are there. Samples finished before an interruption are kept."""
    from inspect_ai import eval_set
    from inspect_ai.solver import SolverSpec

    needs_nll = held_out and subject.model.startswith("hf/")
    finished = finished_logs(folder, tasks)
    if finished and (has_reply_nll(folder) or not needs_nll):
        return finished
    print(f"{folder}: evaluating {subject.model}", flush=True)
    args = subject.solver_args or {}
    with open_model(config, subject, held_out) as model:
        success, logs = eval_set(
            list(tasks),
            str(folder),
            model=model,
            solver=SolverSpec(solver=subject.solver, args=args, args_passed=args) if subject.solver else None,
            model_roles=config.model_role or None,
            epochs=config.held_out_epochs if held_out else config.train_epochs,
            limit=config.held_out_limit if held_out else config.limit,
            max_samples=config.max_connections,
            retry_attempts=RETRY_ATTEMPTS,
            display=config.display,
            log_level="warning",
            log_realtime=False,  # a third of the time of a tiny model
            log_buffer=1,  # else a kill would lose up to ten finished answers
        )
        if not success:
            failed = next(log for log in logs if log.status != "success")
            reason = failed.error.message if failed.error else failed.status
            raise bad_input(f"{failed.location}: did not finish: {reason}. The same command resumes it")
        finished = finished_logs(folder, tasks)
        assert finished
        if needs_nll:
            write_reply_nll(model, finished, folder)
    return finished


def compare_with_start(config: LoopConfig, subject: Subject, logs: "Sequence[EvalLog]", folder: Path) -> None:
    """Score a local model's held-out replies by the model that the loop started from, for the KL divergence from it."""
    start = start_subject(config)
    local = subject.model.startswith("hf/") and start.model.startswith("hf/")
    if not local or subject.base == start.base or has_reply_nll(folder, START_NLL_FILE):
        return
    with open_model(config, start, held_out=True) as model:
        write_reply_nll(model, logs, folder, START_NLL_FILE)


def finished_logs(folder: Path, tasks: "Sequence[Task]") -> "list[EvalLog] | None":
    """The headers of the logs of a finished evaluation, one for each task in their order."""
    from inspect_ai.log import list_eval_logs, read_eval_log

    if not folder.is_dir():
        return None
    headers = [read_eval_log(log, header_only=True) for log in list_eval_logs(str(folder))]
    by_task = {log.eval.task: log for log in headers if log.status == "success"}
    names = [task.name for task in tasks]
    return [by_task[name] for name in names] if set(names) <= by_task.keys() else None


@contextmanager
def open_model(config: LoopConfig, subject: Subject, held_out: bool) -> "Iterator[Model]":
    """Make the model. The memory of a local one is freed afterwards."""
    from inspect_ai.model import GenerateConfig, ModelInfo, get_model, set_model_info

    # hf seeds torch with the seed of this configuration, when it is made.
    options: dict[str, Any] = {
        "max_tokens": config.max_tokens,
        "max_connections": config.max_connections,
        "seed": config.seed,
    }
    generate = {name: value for name, value in options.items() if value is not None} | config.generate
    if held_out and subject.model.startswith("vllm/"):
        generate = {"logprobs": True} | generate
    args = config.model_args
    if subject.model.startswith("hf/"):  # as in training: the chat template writes the special tokens
        args = {"tokenizer_call_args": {"add_special_tokens": False}} | args
    model = get_model(subject.model, config=GenerateConfig(**generate), memoize=False, **args)
    if not subject.model.startswith(LOCAL_PREFIXES):  # Inspect closes API clients itself, inside its event loop
        yield model
        return
    # Without this, Inspect would load a second copy to look up the context length, and keep it.
    set_model_info(subject.model, ModelInfo())
    with model:
        yield model


def convert(config: LoopConfig, logs: Sequence[Path], folder: Path) -> Path:
    """Convert the logs of all rounds in the buffer, or use the dataset that is there (it is named when complete)."""
    from truthgym.training.convert import convert as convert_logs

    if not folder.is_dir():
        dataset = convert_logs([str(log) for log in logs], config.conversion, folder, config.selection)
        rows = ", ".join(f"{number:,} rows of {name}" for name, number in dataset.rows.items())
        print(f"{folder}: {rows}, of {dataset.samples:,} answers", flush=True)
    return folder


def trained_folder(folder: Path) -> Path | None:
    """The folder of the model that a round has trained; None if training has not finished."""
    return next((path for path in sorted(folder.glob("*/")) if path.name[0] != "." and is_finished(path)), None)


def train(config: LoopConfig, subject: Subject, data: Path, folder: Path, round_: int) -> Path:
    """Train the model, resume training, or use the model that is there."""
    if trained := trained_folder(folder):
        return trained
    print(f"{folder}: training {subject.model} by {config.method}", flush=True)
    if config.method == "few_shot":
        return few_shot(subject.model, [data], config.selection, folder, any_task=config.any_task)
    if config.trains_at_provider:
        return train_at_provider(config, subject.base, data, folder)
    from truthgym.training.trainers.accelerate_launch import visible_gpus

    options = trainer_options(config, subject.base, data, folder, round_)
    if visible_gpus() > 1:
        return _launch(config, options, folder)
    return TRAINERS[config.method](options)


def trainer_options(config: LoopConfig, base: str, data: Path, folder: Path, round_: int) -> dict[str, Any]:
    """The options of the round's training, as `truthgym train METHOD --config` reads them."""
    options: dict[str, Any] = {"model_name_or_path": base, "dataset_name": str(data), "output_dir": str(folder)}
    options["seed"] = config.seed
    if config.method in WITH_REFERENCE and config.reference == "start" and round_ > 1:
        options["reference_model"] = start_subject(config).base
    if config.method in BY_ROLLOUTS:
        args = train_task_args(config, round_)
        options |= {"task": config.task, "task_args": args[config.task[0]] if len(args) == 1 else args}
        options |= {"solver": config.solver, "solver_args": config.solver_args} if config.solver else {}
        options["model_role"] = [f"{role}={model}" for role, model in config.model_role.items()]
        options |= {"max_completion_length": config.max_tokens} if config.max_tokens else {}
    return options | config.train


def _launch(config: LoopConfig, options: dict[str, Any], folder: Path) -> Path:
    """Train on several GPUs, in the processes that `truthgym train` starts."""
    import subprocess

    import yaml

    file = folder.with_suffix(".yaml")
    file.write_text(yaml.safe_dump(options, sort_keys=False), encoding="utf-8")
    command = [sys.executable, "-m", "truthgym.cli.main", "train", config.method, "--config", str(file)]
    try:
        code = subprocess.run(command, check=False).returncode
    finally:
        file.unlink()  # it may hold keys
    if code:
        raise bad_input(f"{folder}: training did not finish; the same command resumes it")
    trained = trained_folder(folder)
    assert trained
    return trained


def check_provider(config: LoopConfig) -> None:
    """Check what training at a provider needs, before any model is evaluated."""
    for name in config.train:
        one_of(f"option of {config.provider} in --train", name, list(OPTIONS[str(config.provider)][config.method]))
    if not config.yes and not sys.stdin.isatty():
        raise bad_input("There is no terminal to confirm paid jobs; add --yes to submit them without asking")
    get_provider(str(config.provider))


def train_at_provider(config: LoopConfig, base: str, data: Path, folder: Path) -> Path:
    """Train at the provider, or watch the job that was submitted before."""
    import click

    trained = fine_tune(
        JobSpec(config.method, base, data, dict(config.train)),
        get_provider(str(config.provider)),
        folder,
        lambda job: config.yes or click.confirm(f"{job} Submit it?", default=False),
    )
    if trained is None:
        raise bad_input(f"{folder}: no job was submitted, so the loop stops here; the same command asks again")
    return trained
