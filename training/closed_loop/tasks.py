"""The tasks of a loop: each is built twice, with training questions and with held-out questions."""

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from truthgym.evallog.errors import bad_input
from truthgym.training.closed_loop.options import LoopConfig
from truthgym.training.rollouts.questions import create_task, shared_out, task_function

if TYPE_CHECKING:
    from inspect_ai import Task


def train_tasks(config: LoopConfig, round_: int = 1) -> "list[Task]":
    """The tasks with the questions that a round trains on."""
    return [_build(config, name, args, "train") for name, args in train_task_args(config, round_).items()]


def held_out_tasks(config: LoopConfig) -> "list[Task]":
    """The tasks with the held-out questions, the same ones in each round."""
    args_by_task = task_args(config, config.held_out_args, "test")
    return [_build(config, name, args, "test") for name, args in args_by_task.items()]


def train_task_args(config: LoopConfig, round_: int = 1) -> dict[str, dict[str, Any]]:
    """Arguments of each task for the questions that a round trains on, including `split`."""
    args_by_task = task_args(config, config.train_args, "train")
    if config.fresh:
        for name, args in args_by_task.items():
            default = inspect.signature(task_function(name)).parameters["seed"].default
            args |= {"seed": int(args.get("seed", default)) + round_ - 1} if round_ > 1 else {}
    return args_by_task


def task_args(config: LoopConfig, additional: Mapping[str, Any], split: str) -> dict[str, dict[str, Any]]:
    """Arguments of each task.

    `{argument: value}` is for all tasks that take the argument, `{task: {argument: value}}` for one of them.
    """
    parameters = {name: inspect.signature(task_function(name)).parameters for name in config.task}
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


def _build(config: LoopConfig, name: str, args: Mapping[str, Any], split: str) -> "Task":
    """Build a task. If it takes no split, keep the samples whose ids hash into this one."""
    task = create_task(name, args)
    if "split" not in args:
        _keep_split(task, split)
    if not len(task.dataset):
        raise bad_input(f"The task {name} has no question in its {split} split with {dict(args)}; use more questions")
    return task


def _keep_split(task: "Task", split: str) -> None:
    from truthgym.datasets.question import split_of

    for number, sample in enumerate(task.dataset, start=1):
        sample.id = number if sample.id is None else sample.id
    # `truthgym convert --any-task` hashes the same text.
    task.dataset = task.dataset.filter(lambda sample: split_of(f"{task.name} {sample.id}") == split)
