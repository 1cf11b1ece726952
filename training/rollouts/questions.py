"""Questions: the samples of Inspect tasks that a model is trained on by reinforcement, and no others."""

import ast
import copy
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from hashlib import sha256
from inspect import signature
from pathlib import Path
from typing import Any

from inspect_ai import Task, task_with
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.solver import SolverSpec
from inspect_ai.util import registry_create

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import (
    create_file_tasks,
    load_file_tasks,
    parse_decorators,
    registry_info,
    registry_lookup,
    registry_unqualified_name,
    solver_from_spec,
)
from truthgym.datasets.question import split_of
from truthgym.evallog.errors import bad_input


@dataclass
class Questions:
    """A task and those of its samples that may be trained on."""

    name: str
    """As the user gave it."""
    task: Task
    samples: dict[str, Sample]
    """By id."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Why samples are not among them, with how many."""
    by_hash: bool = False
    """Whether the samples name no split, so that a hash of their ids decided it."""

    @property
    def registered(self) -> str:
        """The task's name as a log has it."""
        return str(self.task.registry_name or self.task.name)

    @property
    def scorers(self) -> list[str]:
        """Names of the task's scorers, without their packages."""
        return [registry_unqualified_name(registry_info(one)) for one in self.task.scorer or []]

    def some(self, ids: Sequence[str]) -> Task:
        """The task with some of its samples."""
        return task_with(
            copy.copy(self.task), dataset=MemoryDataset([self.samples[one] for one in ids], name=self.name)
        )

    @property
    def sha256(self) -> str:
        """Over what is asked and what is right, the same wherever and whenever the samples are loaded."""
        told = [[_asked(one), one.model_dump(exclude={"input"})] for one in self.samples.values()]
        # What JSON does not know could be another text each time, such as an object's address.
        plain = json.dumps(told, default=lambda value: type(value).__name__, skipkeys=True)
        return sha256(plain.encode()).hexdigest()


def load_questions(
    name: str, args: Mapping[str, Any], split: str = "train", only: frozenset[str] | None = None
) -> Questions:
    """Load a task and choose the samples of one split.

    A task that takes `split` is asked for that one. Samples that name no split are divided by a hash of their ids, as
    `truthgym convert --any-task` does.

    Args:
        name: A registered task, or a file as `inspect eval` takes it (`FILE.py`, `FILE.py@TASK`).
        args: The task's arguments.
        split: "train" or "validation".
        only: Ids of the samples to choose from, or None for all.

    Raises:
        BadInput: No such task, an argument that it does not take, the test split, or no sample that is left.
    """
    given = args.get("split", split)
    asked = {str(one).strip() for one in (given if isinstance(given, list | tuple) else str(given).split(","))}
    if asked != {split}:
        why = "what models are evaluated on, and is never trained on" if "test" in asked else "not what is trained on"
        raise bad_input(f"{name}: split={given} is {why}; leave `split` out of the task's arguments")
    task = _loaded(name, args, split)
    kept, left, by_hash = {}, Counter[str](), False
    for place, sample in enumerate(task.dataset, 1):
        sample.id = place if sample.id is None else sample.id  # as Inspect numbers them
        told = (sample.metadata or {}).get("split")
        by_hash = by_hash or told is None
        found = told if told is not None else split_of(f"{task.name} {sample.id}")
        if found != split:
            left[f"of the {found} split"] += 1
        elif only is not None and str(sample.id) not in only:
            left["not in the dataset"] += 1
        else:
            kept[str(sample.id)] = sample
    if not kept:
        told = ", ".join(f"{count} {why}" for why, count in left.items()) or "it has none at all"
        raise bad_input(f"{name}: no sample is left to train on ({told}); give other arguments, or another task")
    return Questions(name, task, kept, left, by_hash)


def check_apart(questions: Sequence[Questions]) -> None:
    """Refuse tasks of one name: their samples have the same ids, and nothing else tells their rollouts apart.

    Raises:
        BadInput: Two have the same name.
    """
    by_name: dict[str, str] = {}
    for one in questions:
        if one.registered in by_name:
            raise bad_input(
                f"--task {by_name[one.registered]} {one.name}: both are named {one.registered}; name each task once, "
                "and give the tasks of two files two names"
            )
        by_name[one.registered] = one.name


def check_solver(name: str, args: Mapping[str, Any]) -> None:
    """Refuse a solver that there is not, or arguments that it does not take.

    Raises:
        BadInput: It cannot be made.
    """
    try:
        solver_from_spec(SolverSpec(name, dict(args), dict(args)))
    except BadInput:
        raise
    except Exception as error:  # each fails in its own way
        raise bad_input(f"--solver {name} cannot be made with {dict(args)}: {error}") from error


def named_samples(dataset: Path) -> frozenset[str]:
    """Ids of the samples that a dataset of `truthgym convert --to prompts` names.

    Raises:
        BadInput: It cannot be read, or its rows name no samples.
    """
    from datasets import load_dataset

    if not dataset.is_dir():
        raise bad_input(
            f"There is no folder {dataset}; make one with `truthgym convert LOGS --to prompts --out {dataset}`"
        )
    try:
        rows = load_dataset(str(dataset), split="train")
    except Exception as error:  # each file format fails in its own way
        raise bad_input(f"The dataset {dataset} cannot be loaded: {error}") from None
    if "sample_id" not in rows.column_names:
        raise bad_input(f"{dataset}: its rows name no samples; convert the logs with --to prompts")
    return frozenset(map(str, rows["sample_id"]))


def by_event(questions: Sequence[Questions], seed: int) -> Iterator[tuple[int, str]]:
    """All samples in a random order, as (task, sample): those of one event follow each other.

    Rewards that compare the arms of a question find them in one batch so.
    """
    from random import Random

    events: dict[tuple[int, str], list[str]] = {}
    for place, one in enumerate(questions):
        for name, sample in one.samples.items():
            events.setdefault((place, str((sample.metadata or {}).get("event", name))), []).append(name)
    order = sorted(events)
    Random(seed).shuffle(order)
    for event in order:
        yield from ((event[0], name) for name in events[event])


def _asked(sample: Sample) -> str | list[dict[str, Any]]:
    """A sample's input without the ids of its messages, which are drawn anew each time that it is loaded."""
    if isinstance(sample.input, str):
        return sample.input
    return [message.model_dump(exclude={"id"}) for message in sample.input]


def _loaded(name: str, args: Mapping[str, Any], split: str) -> Task:
    """A task with its arguments, and with the split where it takes one."""
    file = name.partition("@")[0]
    try:
        if Path(file).suffix == ".py":
            registered = _only(name, dict(args))
            told = _arguments(name, str(registered.registry_name or registered.name), args, split)
            return registered if told == dict(args) else _only(name, told)
        if registry_lookup("task", name) is None:
            raise bad_input(f"There is no task {name!r}; `inspect list tasks` and the README name them")
        task = registry_create("task", name, **_arguments(name, name, args, split))
    except BadInput:
        raise
    except Exception as error:  # each task fails in its own way
        raise bad_input(f"{name} cannot be loaded with {dict(args)}: {type(error).__name__}: {error}") from error
    assert isinstance(task, Task)
    return task


def _only(name: str, args: dict[str, Any]) -> Task:
    file, _, one = name.partition("@")
    path = Path(file).absolute()
    if not path.is_file():
        raise bad_input(f"{name}: there is no file {file}")
    load_file_tasks(path)
    tasks = create_file_tasks(path, [one] if one else None, args)
    if len(tasks) != 1:
        remedy = f"name one with {file}@TASK" if tasks else "write one, as a function with @task"
        raise bad_input(f"{name}: holds {len(tasks)} tasks; {remedy}")
    return tasks[0]


def _arguments(name: str, registered: str, args: Mapping[str, Any], split: str) -> dict[str, Any]:
    """The arguments, with the split where the task takes one. Inspect itself would only warn of an unknown one."""
    known = signature(registry_lookup("task", registered)).parameters  # type: ignore[arg-type]
    unknown = [key for key in args if key not in known]
    if unknown and not any(one.kind is one.VAR_KEYWORD for one in known.values()):
        raise bad_input(f"{name} takes no argument {unknown[0]!r}; it takes {', '.join(known) or 'none'}")
    return {**args, **({"split": split} if "split" in known else {})}


@cache
def task_function(name: str) -> "Callable[..., Task]":
    """The function that makes a task, found as `inspect eval` finds it.

    Args:
        name: `PACKAGE/TASK` as registered, `FILE.py@TASK`, or `FILE.py` with one task in it.

    Raises:
        BadInput: There is none.
    """
    file, _, wanted = name.partition("@")
    if file.endswith(".py"):
        wanted = _in_file(Path(file), wanted)
    found = registry_lookup("task", wanted or name)
    if found is None:
        raise bad_input(
            f"There is no task {name!r}; give one as `inspect eval` names it: truthgym/urns, or FILE.py. `inspect list "
            "tasks` shows those of a folder"
        )
    return found  # type: ignore[return-value]


def _in_file(file: Path, wanted: str) -> str:
    """Load a file, and return the name of the task in it."""
    if not file.is_file():
        raise bad_input(f"There is no file {file}; give the path of one with a task in it")
    try:
        ast.parse(file.read_text(encoding="utf-8"))  # Inspect takes what does not parse for a file without tasks
        load_file_tasks(file.absolute())
    except Exception as error:  # whatever the file does
        raise bad_input(f"{file} cannot be loaded: {type(error).__name__}: {error}") from error
    names = [name for name, _ in parse_decorators(file, "task")]
    if wanted not in names and (wanted or len(names) != 1):
        raise bad_input(f"{file}{f' has no task {wanted!r}' * bool(wanted)}: it has {', '.join(names) or 'none'}; say "
                      f"{file}@NAME")  # fmt: skip
    return wanted or names[0]


def nearest(name: str, known: Any) -> str:  # noqa: ANN401
    """What may have been meant."""
    near = get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(known))}"
