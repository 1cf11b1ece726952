"""The stages of a loop: ask, convert, train. Each is done once, whenever it was cut off, and leaves what can be opened.

0-held-out/     logs of the model to start from, on held-out questions
1a-asked/       logs of round 1: the questions to train on
1b-data/        the dataset made of them
1c-trained/     the folder of the trained model
1d-held-out/    logs of the trained model, on the questions of 0-held-out
2a-asked/       and so on
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.evallog.errors import bad_input
from truthgym.training.artifacts import card_metadata
from truthgym.training.closed_loop.likelihood import is_measured, measure
from truthgym.training.closed_loop.options import Loop
from truthgym.training.closed_loop.tasks import train_args
from truthgym.training.trainers.clients import LOCAL
from truthgym.training.trainers.defaults import BY_ROLLOUTS
from truthgym.training.trainers.model_card import is_finished, read_card

if TYPE_CHECKING:
    from inspect_ai import Task
    from inspect_ai.log import EvalLog
    from inspect_ai.model import Model
    from inspect_ai.solver import SolverSpec

ATTEMPTS = 1
"""How often an evaluation that failed is tried anew before the loop stops; the same command goes on."""


@dataclass(frozen=True)
class Subject:
    """A model as it is asked and trained."""

    model: str
    """As Inspect names it."""
    base: str
    """As trainers name it."""
    solver: str | None = None
    solver_args: dict[str, Any] | None = None


def first_subject(asked: Loop) -> Subject:
    """The model that the loop starts from. Where none is trained, Inspect's name for it will do."""
    name = asked.model_name_or_path
    if asked.provider or asked.method != "few_shot" or Path(name).is_dir():
        return Subject(f"{asked.provider or 'hf'}/{name}", name, asked.solver, asked.solver_args)
    base = name.partition("/")[2] if name.startswith(LOCAL) else name
    return Subject(name, base, asked.solver, asked.solver_args)


def trained_subject(asked: Loop, before: Subject, folder: Path) -> Subject:
    """The model that a round's training has left in a folder."""
    if asked.method == "few_shot":
        told = card_metadata(folder / "data").get("selection") or {}
        args: dict[str, Any] = {"source": str(folder / "data" / "train.jsonl"), "share": 1.0}
        args["best"] = told.get("best") or "lowest"
        if asked.solver:
            args["base"] = {asked.solver: asked.solver_args}
        return Subject(before.model, before.base, "truthgym/few_shot", args)
    if asked.vendor:
        model = read_card(folder).model
        return Subject(model, model.partition("/")[2], asked.solver, asked.solver_args)
    return Subject(f"{asked.provider or 'hf'}/{folder}", str(folder), asked.solver, asked.solver_args)


def ask(asked: Loop, subject: Subject, tasks: "Sequence[Task]", place: Path, held_out: bool) -> "list[EvalLog]":
    """Ask a model, or take the logs that are there. Finished answers of a run that was cut off are kept.

    Returns:
        The headers of the logs, one a task.

    Raises:
        BadInput: The evaluation did not come to its end.
    """
    measures = held_out and subject.model.startswith("hf/")
    found = finished_logs(place, tasks)
    if found and (is_measured(place) or not measures):
        return found
    from inspect_ai import eval_set

    print(f"{place}: {subject.model} is asked", flush=True)
    with opened(asked, subject, held_out) as model:
        done, logs = eval_set(
            list(tasks),
            str(place),
            model=model,
            solver=_solver(subject),
            model_roles=asked.model_role or None,
            epochs=asked.held_out_epochs if held_out else asked.answers,
            limit=asked.held_out_limit if held_out else asked.limit,
            max_samples=asked.max_connections,
            retry_attempts=ATTEMPTS,
            display=asked.display,
            log_level="warning",
        )
        if not done:
            failed = next(log for log in logs if log.status != "success")
            told = failed.error.message if failed.error else failed.status
            raise bad_input(f"{failed.location}: it did not finish: {told}. The same command goes on from here")
        found = finished_logs(place, tasks)
        assert found
        if measures:
            measure(model, found, place)
    return found


def _solver(subject: Subject) -> "SolverSpec | None":
    from inspect_ai.solver import SolverSpec

    args = subject.solver_args or {}
    return SolverSpec(solver=subject.solver, args=args, args_passed=args) if subject.solver else None


def finished_logs(place: Path, tasks: "Sequence[Task]") -> "list[EvalLog] | None":
    """The headers of the logs of a finished evaluation, one for each task in their order."""
    from inspect_ai.log import list_eval_logs, read_eval_log

    if not place.is_dir():
        return None
    headers = [read_eval_log(found, header_only=True) for found in list_eval_logs(str(place))]
    done = {log.eval.task: log for log in headers if log.status == "success"}
    names = [name_of_task(task) for task in tasks]
    return [done[name] for name in names] if set(names) <= done.keys() else None


def name_of_task(task: "Task") -> str:
    """The name that stands in the task's log."""
    return task.name


@contextmanager
def opened(asked: Loop, subject: Subject, held_out: bool) -> "Iterator[Model]":
    """The model. The memory of a local one is free again afterwards."""
    from inspect_ai.model import GenerateConfig, ModelInfo, get_model, set_model_info

    # The seed is the provider's when it is made: hf sets torch's by it.
    given: dict[str, Any] = {
        "max_tokens": asked.max_tokens,
        "max_connections": asked.max_connections,
        "seed": asked.seed,
    }
    config = GenerateConfig(**({name: value for name, value in given.items() if value is not None} | asked.generate))
    if held_out and subject.model.startswith("vllm/"):
        config.logprobs = True if config.logprobs is None else config.logprobs
    if not subject.model.startswith(LOCAL):  # a client, which Inspect closes where it closes
        yield get_model(subject.model, config=config, memoize=False, **asked.model_args)
    else:
        # Else Inspect would load a second copy, and keep it, to ask how long a context may be.
        set_model_info(subject.model, ModelInfo())
        with get_model(subject.model, config=config, memoize=False, **asked.model_args) as model:
            yield model


def convert(asked: Loop, logs: Path, place: Path) -> Path:
    """Make the round's dataset, or take the one that is there: it gets its name when it is whole."""
    from truthgym.training.convert import convert as convert_logs

    if not place.is_dir():
        made = convert_logs([str(logs)], asked.conversion, place, asked.selection)
        told = ", ".join(f"{number:,} rows of {name}" for name, number in made.rows.items())
        print(f"{place}: {told}, of {made.samples:,} answers", flush=True)
    return place


def trained_folder(place: Path) -> Path | None:
    """The folder of the model that a round has trained, where it has."""
    return next((path for path in sorted(place.glob("*/")) if path.name[0] != "." and is_finished(path)), None)


def train(asked: Loop, subject: Subject, data: Path, place: Path, round_: int) -> Path:
    """Train, go on where training was cut off, or take the model that is there. Returns its folder.

    Raises:
        BadInput: It cannot be trained, or spending was declined.
    """
    if found := trained_folder(place):
        return found
    print(f"{place}: {subject.model} learns by {asked.method}", flush=True)
    if asked.method == "few_shot":
        from truthgym.training.few_shot import few_shot

        return few_shot(subject.model, [data], asked.selection, place)
    if asked.vendor:
        from truthgym.training.closed_loop.vendor import train_at_vendor

        return train_at_vendor(asked, subject.base, data, place)
    given = trainer_options(asked, subject.base, data, place, round_)
    from truthgym.training.trainers.launch import gpus_found

    if gpus_found() > 1:
        return _launched(asked, given, place)
    folder: Path = getattr(import_module(f"truthgym.training.{asked.method}"), asked.method)(given)
    return folder


def trainer_options(asked: Loop, base: str, data: Path, place: Path, round_: int) -> dict[str, Any]:
    """The options of the round's training, as `truthgym train METHOD --config` reads them."""
    given: dict[str, Any] = {"model_name_or_path": base, "dataset_name": str(data), "output_dir": str(place)}
    given["seed"] = asked.seed
    if asked.method in BY_ROLLOUTS:
        args = train_args(asked, round_)
        given |= {"task": asked.task, "task_args": args[asked.task[0]] if len(args) == 1 else args}
        given |= {"solver": asked.solver, "solver_args": asked.solver_args} if asked.solver else {}
        given["model_role"] = [f"{role}={model}" for role, model in asked.model_role.items()]
        given |= {"max_completion_length": asked.max_tokens} if asked.max_tokens else {}
    return given | asked.train


def _launched(asked: Loop, given: dict[str, Any], place: Path) -> Path:
    """Train on several GPUs: the command itself starts the processes."""
    import subprocess
    import sys

    import yaml

    config = place.with_suffix(".yaml")
    config.write_text(yaml.safe_dump(given, sort_keys=False), encoding="utf-8")
    command = [sys.executable, "-m", "truthgym.cli.main", "train", asked.method, "--config", str(config)]
    if subprocess.run(command, check=False).returncode:
        raise bad_input(f"{place}: training did not come to its end; the same command goes on from here")
    found = trained_folder(place)
    assert found
    return found
