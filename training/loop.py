"""The closed loop: ask, convert, train, ask again, for one or more rounds.

truthgym loop --model_name_or_path trained/tiny --task truthgym/urns --task_args '{n: 2000}' --method sft --out loops/a
"""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from truthgym.evallog.errors import bad_input
from truthgym.training.artifacts import folder_lock
from truthgym.training.closed_loop.options import Loop, read_loop, settle
from truthgym.training.closed_loop.stages import (
    Subject,
    ask,
    convert,
    first_subject,
    name_of_task,
    train,
    trained_folder,
    trained_subject,
    trainer_options,
)
from truthgym.training.closed_loop.tasks import tasks_held_out, tasks_to_train_on
from truthgym.training.evaluations import add_evaluations
from truthgym.training.trainers.clients import LOCAL, check_client


def loop(given: Mapping[str, Any]) -> Path:
    """Run a loop, or what is left of it: the same call goes on where it was cut off, also with more rounds.

    Args:
        given: Options by name, see `loop_options.Loop`: `{"model_name_or_path": ..., "task": ..., "out": ...}`.

    Returns:
        The loop's folder. `report.md` in it says what each round has changed on held-out questions.

    Raises:
        BadInput: Options, tasks or a model that cannot be used: before any model is asked. Later, what a stage refuses.
    """
    asked = read_loop(given)
    subject = first_subject(asked)
    _check_model(asked, subject)
    check_client(subject.model, asked.model_args)
    for model in asked.model_role.values():
        check_client(str(model))
    held_out = tasks_held_out(asked)
    tasks_to_train_on(asked, asked.rounds)  # whether they can be made
    names = [name_of_task(task) for task in held_out]
    if twice := {name for name in names if names.count(name) > 1}:
        raise bad_input(f"--task: {', '.join(sorted(twice))} is named twice; give each task once")
    with folder_lock(Path(asked.out)):
        _run(asked, subject, settle(asked))
    return Path(asked.out)


def _run(asked: Loop, subject: Subject, out: Path) -> None:
    from truthgym.training.closed_loop.report import Stage, report

    stages: list[Stage] = []

    def hold_out(place: Path, subject: Subject, trained: Path | None) -> None:
        # Made anew for each evaluation: Inspect writes into a task that it runs.
        logs = ask(asked, subject, tasks_held_out(asked), place, held_out=True)
        stages.append(Stage(place, subject, logs, trained))
        if trained:  # the card of what was trained: it and its base
            before = stages[0 if asked.method == "few_shot" else -2]
            add_evaluations(trained, [log.location.removeprefix("file://") for log in (*before.logs, *logs)])
        print(report(asked, out, stages), flush=True)

    hold_out(out / "0-held-out", subject, None)
    for number in range(1, asked.rounds + 1):
        logs, data, place = (out / f"{number}{name}" for name in ("a-asked", "b-data", "c-trained"))
        trained = trained_folder(place)
        if trained is None:
            ask(asked, subject, tasks_to_train_on(asked, number), logs, held_out=False)
            source = logs if asked.method == "few_shot" else convert(asked, logs, data)
            trained = train(asked, subject, source, place, number)
        subject = trained_subject(asked, subject, trained)
        hold_out(out / f"{number}d-held-out", subject, trained)


def _check_model(asked: Loop, subject: Subject) -> None:
    """Refuse a model, a solver, a method or options of training that cannot be used."""
    from truthgym.training.rollouts.questions import check_solver
    from truthgym.training.trainers.options import parse_options

    if asked.solver:
        check_solver(asked.solver, asked.solver_args)
    if subject.model.startswith(LOCAL):
        from truthgym.training.trainers.base_model import base_config, base_tokenizer

        try:
            import transformers  # noqa: F401
        except ImportError:
            raise bad_input('truthgym loop: transformers is not there; run `pip install "truthgym[train]"`') from None
        base_config(subject.base)
        base_tokenizer(subject.base)
    if asked.method == "few_shot":
        if asked.train:
            raise bad_input("--train: few_shot trains nothing; leave it out")
        return
    if asked.vendor:
        from truthgym.training.closed_loop.vendor import check_vendor

        check_vendor(asked)
        return
    if importlib.util.find_spec("trl") is None:
        raise bad_input('truthgym loop: TRL is not installed; run `pip install "truthgym[train]"`')
    for name in ("model_name_or_path", "dataset_name", "output_dir", "log", "task", "task_args"):
        if name in asked.train:
            raise bad_input(f"--train: {name} is the loop's to say; leave it out")
    parse_options(asked.method, trainer_options(asked, subject.base, Path("data"), Path("trained"), 1))
