"""The tasks of a loop: each made twice, of questions to train on and of questions that are held out."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import create_file_tasks, registry_info
from truthgym.evallog.errors import bad_input
from truthgym.training.closed_loop.options import Loop
from truthgym.training.rollouts.questions import nearest, task_function
from truthgym.training.rollouts.task_args import shared_out

if TYPE_CHECKING:
    from inspect_ai import Task

TRAIN, TEST = "train", "test"


def tasks_to_train_on(asked: Loop, round_: int = 1) -> "list[Task]":
    """The tasks with the questions that a round trains on."""
    return [_made(asked, name, args, TRAIN) for name, args in train_args(asked, round_).items()]


def tasks_held_out(asked: Loop) -> "list[Task]":
    """The tasks with the questions that no round trains on: the same ones in each."""
    given = arguments(asked, asked.held_out_args, TEST)
    return [_made(asked, name, args, TEST) for name, args in given.items()]


def train_args(asked: Loop, round_: int = 1) -> dict[str, dict[str, Any]]:
    """Arguments of each task for the questions that a round trains on, `split` among them."""
    given = arguments(asked, asked.train_args, TRAIN)
    for name, args in given.items() if asked.fresh and round_ > 1 else ():
        usual = inspect.signature(task_function(name)).parameters["seed"].default
        args["seed"] = int(args.get("seed", usual)) + round_ - 1
    return given


def arguments(asked: Loop, more: Mapping[str, Any], split: str) -> dict[str, dict[str, Any]]:
    """Arguments of each task.

    Those of all tasks stand as {argument: value}, those of one as {task: {argument: value}}. An argument goes to the
    tasks that take it.

    Raises:
        BadInput: No such task, an argument that no task takes, or a task without a split.
    """
    taken = {name: inspect.signature(task_function(name)).parameters for name in asked.task}
    given = shared_out(taken, asked.task_args, more, nearest=nearest)
    for name, args in given.items():
        if "split" in taken[name]:
            args["split"] = split
        elif not asked.any_task:
            raise bad_input(
                f"The task {name} takes no split, so nothing keeps what it trains on apart from what it is tested on; "
                "say --any_task: then a hash of each sample's id does"
            )
        if asked.fresh and "seed" not in taken[name]:
            raise bad_input(f"--fresh: the task {name} takes no seed, so it has no other questions; leave it out")
    return given


def _made(asked: Loop, name: str, args: Mapping[str, Any], split: str) -> "Task":
    """The task. Where it has no split, those of its samples whose ids hash into this one."""
    make, file = task_function(name), Path(name.partition("@")[0])
    try:
        if file.suffix == ".py":
            (task,) = create_file_tasks(file, [registry_info(make).name], dict(args))
        else:
            task = make(**args)
    except BadInput:
        raise
    except Exception as error:  # each task fails in its own way
        raise bad_input(f"The task {name} cannot be made with {dict(args)}: {error}") from error
    if "split" not in args:
        _keep(task, split)
    if not len(task.dataset):
        raise bad_input(
            f"The task {name} has no question in its {split} split with {dict(args)}; ask for more questions"
        )
    return task


def _keep(task: "Task", split: str) -> None:
    from truthgym.datasets.question import split_of

    for number, sample in enumerate(task.dataset, start=1):
        sample.id = number if sample.id is None else sample.id
    # The event that `truthgym convert --any-task` knows them by.
    task.dataset = task.dataset.filter(lambda sample: split_of(f"{task.name} {sample.id}") == split)
