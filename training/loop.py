"""The closed loop: evaluate, convert, train and evaluate again, for one or more rounds.

truthgym loop --model_name_or_path trained/tiny --task truthgym/urns --task_args '{n: 2000}' --method sft --out loops/a
"""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from truthgym.evallog.errors import bad_input
from truthgym.training.closed_loop import stages
from truthgym.training.closed_loop.options import LoopConfig, open_folder, parse_config
from truthgym.training.evaluations import add_evaluations
from truthgym.training.files import folder_lock
from truthgym.training.trainers.base_model import LOCAL_PREFIXES, check_model


def loop(options: Mapping[str, Any]) -> Path:
    """Run a loop. The same call resumes an interrupted one, also with more rounds.

    Args:
        options: Options by name, see `LoopConfig`: `{"model_name_or_path": ..., "task": ..., "out": ...}`.

    Returns:
        The loop's folder. Its `report.md` tells what each round has changed on held-out questions.

    Raises:
        BadInput: Options, tasks or a model cannot be used (checked before any model is evaluated), or a stage fails.
    """
    config = parse_config(options)
    subject = stages.start_subject(config)
    _check_model(config, subject)
    check_model(subject.model, config.model_args)
    for model in config.model_role.values():
        check_model(str(model))
    names = [task.name for task in stages.held_out_tasks(config)]
    stages.train_tasks(config, config.rounds)  # only to check that they can be built
    if repeated := {name for name in names if names.count(name) > 1}:
        raise bad_input(f"--task: {', '.join(sorted(repeated))} is named twice; give each task once")
    with folder_lock(Path(config.out)):
        _run(config, subject, open_folder(config))
    return Path(config.out)


def _run(config: LoopConfig, subject: stages.Subject, out: Path) -> None:
    from truthgym.training.closed_loop.report import HeldOut, write_report

    evaluations: list[HeldOut] = []

    def hold_out(folder: Path, subject: stages.Subject, trained: Path | None) -> None:
        # The tasks are built for each evaluation, since Inspect changes a task that it runs.
        logs = stages.evaluate(config, subject, stages.held_out_tasks(config), folder, held_out=True)
        if trained and not config.trains_at_provider:
            stages.compare_with_start(config, subject, logs, folder)
        evaluations.append(HeldOut(folder, subject, logs))
        if trained:  # add both evaluations to the card of the trained model
            base = evaluations[0 if config.method == "few_shot" else -2]
            add_evaluations(trained, [log.location.removeprefix("file://") for log in (*base.logs, *logs)])
        print(write_report(config, out, evaluations), flush=True)

    hold_out(out / "0-held-out", subject, None)
    for round_ in range(1, config.rounds + 1):
        logs, data, folder = (out / f"{round_}{name}" for name in ("a-asked", "b-data", "c-trained"))
        trained = stages.trained_folder(folder)
        if trained is None:
            stages.evaluate(config, subject, stages.train_tasks(config, round_), logs, held_out=False)
            buffer = [out / f"{number}a-asked" for number in config.buffered_rounds(round_)]
            source = logs if config.method == "few_shot" else stages.convert(config, buffer, data)
            trained = stages.train(config, subject, source, folder, round_)
        subject = stages.trained_subject(config, subject, trained)
        hold_out(out / f"{round_}d-held-out", subject, trained)


def _check_model(config: LoopConfig, subject: stages.Subject) -> None:
    """Check the solver, the model and the training options."""
    from truthgym.training.rollouts.questions import check_solver

    if config.solver:
        check_solver(config.solver, config.solver_args)
    if subject.model.startswith(LOCAL_PREFIXES):
        _require("transformers")
        from truthgym.training.trainers.base_model import base_config, base_tokenizer

        base_config(subject.base)
        base_tokenizer(subject.base)
    if config.method == "few_shot":
        if config.train:
            raise bad_input("--train: few_shot trains no weights; leave it out")
    elif config.trains_at_provider:
        stages.check_provider(config)
    else:
        _check_trainer(config, subject)


def _require(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise bad_input(f'truthgym loop: {package} is not installed; run `pip install -e ".[train]"`')


def _check_trainer(config: LoopConfig, subject: stages.Subject) -> None:
    from truthgym.training.trainers.options import parse_options

    _require("trl")
    for name in ("model_name_or_path", "dataset_name", "output_dir", "log", "task", "task_args"):
        if name in config.train:
            raise bad_input(f"--train: the loop sets {name} itself; leave it out")
    parse_options(config.method, stages.trainer_options(config, subject.base, Path("data"), Path("trained"), 1))
