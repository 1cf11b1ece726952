"""Questions: the samples of Inspect tasks that a model is trained on by rollouts."""

import copy
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from inspect_ai import Task, task_with
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.solver import SolverSpec

from truthgym.datasets.errors import BadInput, names_in, one_of
from truthgym.datasets.inspect_private import registry_info, registry_unqualified_name, solver_from_spec
from truthgym.datasets.loading.inspect_tasks import create_task, task_parameters
from truthgym.datasets.question import split_of


@dataclass
class Questions:
    """A task, and those of its samples that belong to one split."""

    name: str
    """The task's name as the user gave it."""
    args: Mapping[str, Any]
    """The task's arguments as the user gave them."""
    task: Task
    samples: dict[str, Sample]
    """By id."""
    left_out: Counter[str] = field(default_factory=Counter)
    by_hash: bool = False
    """Whether the samples do not name a split, so that a hash of their ids decided it."""

    @property
    def registered(self) -> str:
        """The task's name in a log."""
        return str(self.task.registry_name or self.task.name)

    @property
    def scorers(self) -> list[str]:
        """Names of the task's scorers, without their packages."""
        return [registry_unqualified_name(registry_info(scorer)) for scorer in self.task.scorer or []]

    def subset(self, ids: Sequence[str]) -> Task:
        """The task with some of its samples."""
        samples = [self.samples[name] for name in ids]
        return task_with(copy.copy(self.task), dataset=MemoryDataset(samples, name=self.name))

    @property
    def sha256(self) -> str:
        """Hash of inputs, targets and metadata: the same wherever and whenever the samples are loaded."""
        contents = [[_input(sample), sample.model_dump(exclude={"input"})] for sample in self.samples.values()]
        # An object that JSON does not support may have another text each time, such as its address.
        plain = json.dumps(contents, default=lambda value: type(value).__name__, skipkeys=True)
        return sha256(plain.encode()).hexdigest()


def load_questions(
    name: str, args: Mapping[str, Any], split: str = "train", only: frozenset[str] | None = None
) -> Questions:
    """Load a task, and select the samples of one split: by a hash of the ids of those that name none."""
    argument = args.get("split", split)
    splits = set(names_in(argument))
    if splits != {split}:
        why = "what models are evaluated on, and is never trained on" if "test" in splits else "not the training split"
        raise BadInput(f"{name}: split={argument} is {why}; omit `split` from the task's arguments")
    takes_split = {"split": split} if "split" in task_parameters(name) else {}
    task = create_task(name, {**args, **takes_split})
    selected, left_out, by_hash = {}, Counter[str](), False
    for place, sample in enumerate(task.dataset, 1):
        sample.id = place if sample.id is None else sample.id  # as Inspect numbers them
        sample_split = (sample.metadata or {}).get("split")
        if sample_split is None:
            by_hash, sample_split = True, split_of(f"{task.name} {sample.id}")
        if sample_split != split:
            left_out[f"of the {sample_split} split"] += 1
        elif only is not None and str(sample.id) not in only:
            left_out["not in the dataset"] += 1
        else:
            selected[str(sample.id)] = sample
    if not selected:
        reasons = ", ".join(f"{count} {why}" for why, count in left_out.items()) or "it has none at all"
        raise BadInput(
            f"{name}: no sample is left of the {split} split ({reasons}); give other arguments or another task"
        )
    return Questions(name, args, task, selected, left_out, by_hash)


def check_names(questions: Sequence[Questions]) -> None:
    """Refuse two tasks of the same name: their samples have the same ids, so their rollouts could not be separated."""
    name, count = Counter(question.registered for question in questions).most_common(1)[0]
    if count > 1:
        raise BadInput(f"--task: {count} tasks are named {name}; name each task once, and rename one of two in files")


def check_solver(name: str, args: Mapping[str, Any]) -> None:
    """Refuse an unknown solver, or arguments that it does not take."""
    try:
        solver_from_spec(SolverSpec(name, dict(args), dict(args)))
    except BadInput:
        raise
    except Exception as error:  # each solver fails in its own way
        raise BadInput(f"--solver {name} cannot be created with {dict(args)}: {error}") from error


def dataset_sample_ids(dataset: Path) -> frozenset[str]:
    """Ids of the samples in a dataset of `truthgym convert --to prompts`."""
    from datasets import load_dataset

    remedy = f"make one with `truthgym convert LOGS --to prompts --out {dataset}`"
    if not dataset.is_dir():
        raise BadInput(f"There is no folder {dataset}; {remedy}")
    try:
        return frozenset(map(str, load_dataset(str(dataset), split="train")["sample_id"]))
    except Exception as error:  # each file format fails in its own way; a missing column is a KeyError
        raise BadInput(f"The dataset {dataset} has no rows with a sample_id ({error}); {remedy}") from None


def shuffled_by_event(questions: Sequence[Questions], seed: int) -> Iterator[tuple[int, str]]:
    """All samples as (task index, id) in random order, those of one event together, since some rewards compare them."""
    events: dict[tuple[int, str], list[str]] = {}
    for place, question in enumerate(questions):
        for name, sample in question.samples.items():
            events.setdefault((place, str((sample.metadata or {}).get("event", name))), []).append(name)
    order = sorted(events)
    Random(seed).shuffle(order)
    for event in order:
        yield from ((event[0], name) for name in events[event])


def shared_out(taken: Mapping[str, Collection[str]], *arguments: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Distribute {argument: value} to all tasks that take it, and {task: {argument: value}} to that one."""
    full_names = {short_name(name): name for name in taken}
    by_task: dict[str, dict[str, Any]] = {name: {} for name in taken}
    for key, value in (entry for some in arguments for entry in some.items()):
        if (task := full_names.get(key, key)) in taken and isinstance(value, Mapping):
            for name in value:
                one_of(f"argument of {task}", name, list(taken[task]))
            by_task[task] |= value
            continue
        one_of(
            f"argument of {', '.join(taken)}", key, sorted({argument for names in taken.values() for argument in names})
        )
        for name in taken:
            if key in taken[name]:
                by_task[name][key] = value
    return by_task


def short_name(task: str) -> str:
    """A task's name without its package or file."""
    return task.rpartition("@")[2].rpartition("/")[2].removesuffix(".py")


def _input(sample: Sample) -> str | list[dict[str, Any]]:
    """A sample's input without the ids of its messages, which are random each time it is loaded."""
    if isinstance(sample.input, str):
        return sample.input
    return [message.model_dump(exclude={"id"}) for message in sample.input]
