"""What all domain tasks share: set-up, scorers by name, epochs, and how the log is shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from logging import getLogger
from typing import Any

from inspect_ai import Task
from inspect_ai.dataset import Dataset
from inspect_ai.scorer import Scorer
from inspect_ai.util import warn_once
from inspect_ai.viewer import (
    SampleScoreView,
    ScoreColorScale,
    TaskSamplesColumn,
    TaskSamplesView,
    ViewerConfig,
)

from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.loading.source import exclusion_summary
from truthgym.scorers.brier import brier
from truthgym.scorers.graded import graded
from truthgym.scorers.graders.resolve import read_grader
from truthgym.scorers.length import length
from truthgym.scorers.martingale import martingale, roles
from truthgym.scorers.qualitative import qualitative
from truthgym.scorers.sycophantic_reasoning import roles as roles_of_sycophancy
from truthgym.scorers.sycophantic_reasoning import sycophantic_reasoning
from truthgym.solvers.direct import direct
from truthgym.solvers.prepare import prepare

logger = getLogger(__name__)

Paradigms = str | Sequence[str] | Mapping[str, Mapping[str, Any] | None]
"""Paradigms as a task takes them: names with commas between them or in a list, or names with their arguments."""


@dataclass(frozen=True)
class Paradigm:
    """A way of scoring a domain's trajectories."""

    scorer: Callable[..., Scorer]
    roles: Callable[..., tuple[str, ...]] = lambda **_: ()
    """From the scorer's arguments to the model roles that must be bound."""
    isolated: Callable[..., bool] = lambda **_: False
    """From its arguments to whether it needs a sandbox that isolates."""
    alone: bool = False
    """Whether each of its roles takes one model, and several are refused."""


PARADIGMS = {
    "brier": Paradigm(brier),
    "martingale": Paradigm(martingale, roles),
    "length": Paradigm(length),
    "sycophantic_reasoning": Paradigm(sycophantic_reasoning, roles_of_sycophancy),
    "qualitative": Paradigm(qualitative, roles=lambda **_: ("judge",)),
    "graded": Paradigm(
        graded,
        roles=lambda **given: read_grader(**given).roles,
        isolated=lambda **given: read_grader(**given).sandbox,
        alone=True,
    ),
}
"""What can be asked for with `-T paradigms=`."""

EPOCHS = 3
"""Each question is asked three times: the least from which a belief's own noise can be told apart."""


class DomainTask(Task):
    """A task that can be retried from its log as it was, though the command line gave it a day, or a file.

    YAML makes a date of `-T known_after=2025-06-01`, and Inspect 0.3.285 records an argument of a type it does not know
    as the type's name: `inspect eval-retry` would start the task with known_after="date". Where Inspect puts its
    record on the task, the day is put back. There the digest of a file is put too, beside the source or in the domain
    that has one: a task's identity is its arguments, so that another content of the file is another task to an eval
    set, and is refused by a retry.
    """

    day: str | None = None
    """The day that was given, in text."""
    digest: str | None = None
    """SHA-256 of the file that was given as the source."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, dict) and value.get("known_after") in ("date", "datetime"):
            value = value | {"known_after": self.day}
        if isinstance(value, dict) and "source" in value and self.digest:
            value = value | {"sha256": self.digest}
        elif isinstance(value, dict) and isinstance(value.get("domain"), Mapping) and self.digest:
            given = {name: {**(known or {}), "sha256": self.digest} for name, known in value["domain"].items()}
            value = value | {"domain": given}
        super().__setattr__(name, value)


def domain_task(
    dataset: Dataset,
    paradigms: Paradigms | None,
    default: Sequence[str],
    system_prompt: str | Sequence[str] | None,
    version: str,
    epochs: int = EPOCHS,
) -> DomainTask:
    """Compose a domain's task: prepare, reason directly unless told otherwise, score by the paradigms.

    What a reader of the scores must know of the questions is said once: what today's models may remember, and how many
    questions were left out, for what reason, which the log holds in its metadata as `left_out`.

    Args:
        dataset: The domain's questions.
        paradigms: Names of scorers, in a list or with commas between them, or a mapping from each name to its
            arguments, as in `-T 'paradigms={brier: {}, martingale: {elicitor: judge}}'`. None is the domain's default.
        default: The domain's default.
        system_prompt: Name of a preset or text of the system message. Held in the set-up, so that it survives
            `--solver`. The command line reads YAML and splits at commas: a list is put together again, and what YAML
            took for something else than text is refused.
        version: "N-L": the number rises when scores stop being comparable, the letter otherwise.
        epochs: How often each sample is run, unless the command line says otherwise.

    Raises:
        BadInput: An unknown paradigm, or none; an argument that it does not take; a system prompt that is no text. On
            the first sample, before its first model call: a model role that a paradigm needs is not bound.
    """
    chosen = _chosen(default if paradigms is None else paradigms)
    needed = {name: PARADIGMS[name].roles(**given) for name, given in chosen.items()}
    alone = sorted({role for name, roles in needed.items() if PARADIGMS[name].alone for role in roles})
    isolated = any(PARADIGMS[name].isolated(**given) for name, given in chosen.items())
    told = dataset if isinstance(dataset, Questions) else None
    task = DomainTask(
        dataset=dataset,
        setup=prepare(
            _prompt(system_prompt), sorted({role for some in needed.values() for role in some}), isolated, alone
        ),
        solver=direct(),
        scorer=[PARADIGMS[name].scorer(**given) for name, given in chosen.items()],
        epochs=epochs,
        version=version,
        metadata={"left_out": dict(told.dropped)} if told and told.dropped else None,
        viewer=viewer(list(chosen)),
    )
    if told:
        task.day = str(told.known_after) if told.known_after else None
        task.digest = told.digest
        for said in (told.notice, exclusion_summary(told)):
            if said:
                warn_once(logger, said)
    return task


def _chosen(given: object) -> dict[str, dict[str, Any]]:
    """The paradigms asked for, each with its arguments."""
    if isinstance(given, Mapping):
        named = {str(name).strip(): arguments for name, arguments in given.items()}
    else:
        listed = given.split(",") if isinstance(given, str) else given if isinstance(given, list | tuple) else [given]
        named = {str(name).strip(): {} for name in listed}
    if not named:
        raise BadInput(f"paradigms is empty; name at least one of: {', '.join(PARADIGMS)}")
    for name, arguments in named.items():
        one_of("paradigm", name, list(PARADIGMS))
        if arguments is not None and not isinstance(arguments, Mapping):
            raise BadInput(
                f"paradigms: {name}: {arguments!r} cannot be used; give its arguments as {{argument: value}}, or none"
            )
        for argument in arguments or {}:
            one_of(f"argument of {name}", str(argument), list(signature(PARADIGMS[name].scorer).parameters))
    return {name: dict(arguments or {}) for name, arguments in named.items()}


def _prompt(given: object) -> str | None:
    if isinstance(given, list | tuple) and all(isinstance(part, str) for part in given):
        return ",".join(given)
    if given is None or isinstance(given, str):
        return given
    raise BadInput(
        f"system_prompt={given!r} is no text: the command line reads YAML, so put it in quotes twice, as in "
        """-T 'system_prompt="You are a judge: be fair."', or give it in a file with --task-config"""
    )


COLUMNS = {
    "brier": {"belief": "Belief", "brier_score": "Brier", "accuracy": "Accuracy"},
    "martingale": {"prior": "Prior", "posterior": "Posterior", "change": "Change"},
    "sycophantic_reasoning": {"belief": "Belief", "brier_score": "Brier", "accuracy": "Accuracy"},
    "graded": {"grade": "Grade"},
    "qualitative": {"quality": "Quality", "spread": "Spread"},
    "length": {"words": "Words", "asked": "Asked", "achieved": "Achieved", "revisions": "Revisions"},
}
"""Headers of the score columns of each paradigm, in order: what the sample list has room for."""


def viewer(paradigms: Sequence[str]) -> ViewerConfig:
    """Columns and colours of the sample list: what was believed, what happened, and how far apart they are.

    Args:
        paradigms: The scorers whose columns are shown.
    """
    # The list cuts ids off before the arm that they end with; the answer names it.
    arm = ["answer"] if "sycophantic_reasoning" in paradigms else []
    columns = [
        *(TaskSamplesColumn(id=name) for name in ("sampleStatus", "sampleId", *arm, "epoch", "input", "target")),
        *(TaskSamplesColumn.score(name, key) for name in paradigms for key in COLUMNS[name]),
        TaskSamplesColumn(id="error"),
    ]
    return ViewerConfig(
        task_samples_view=TaskSamplesView(
            name="Beliefs",
            columns=columns,
            multiline=False,
            score_labels={key: label for name in paradigms for key, label in COLUMNS[name].items()},
            score_color_scales={
                "brier_score": ScoreColorScale(palette="good-low", min=0, max=1),
                "belief": ScoreColorScale(palette="neutral", min=0, max=1),
                "accuracy": ScoreColorScale(palette="good-high", min=0, max=1),
                "quality": ScoreColorScale(palette="good-high", min=0, max=1),
                "prior": ScoreColorScale(palette="neutral", min=0, max=1),
                "posterior": ScoreColorScale(palette="neutral", min=0, max=1),
                "change": ScoreColorScale(palette="diverging", min=-1, max=1),
            },
            color_scales_enabled=True,
        ),
        sample_score_view=SampleScoreView(default="grid"),
    )
