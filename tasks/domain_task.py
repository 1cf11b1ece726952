"""What all domain tasks share: scorers by name, setup, epochs, and how the log viewer shows them."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial, update_wrapper, wraps
from inspect import Parameter, Signature, signature, unwrap
from logging import getLogger
from typing import Any, TypeVar

from inspect_ai import Task
from inspect_ai import task as inspect_task
from inspect_ai.dataset import Dataset
from inspect_ai.solver import Generate, Solver, TaskState
from inspect_ai.solver import solver as as_solver
from inspect_ai.util import warn_once
from inspect_ai.viewer import SampleScoreView, TaskSamplesColumn, TaskSamplesView, ViewerConfig

from truthgym.datasets.domains import BUNDLED, DOMAINS, domain_arguments
from truthgym.datasets.errors import BadInput, names_in, one_of
from truthgym.datasets.inspect_private import in_eval, registry_add, registry_info, registry_lookup, tasks_of_eval
from truthgym.datasets.loading.domain import Domain
from truthgym.datasets.loading.selection import Questions, exclusion_summary
from truthgym.models.predictor import check_method
from truthgym.scorers import (
    agent_answer,
    brier,
    fact_chain,
    graded,
    judge_score,
    kl_divergence,
    length,
    martingale,
    mutual_predictability,
    preference,
    qualitative,
    reward_model,
    rubric,
    sycophantic_reasoning,
    value_influence,
    value_tracking,
    world_uplift,
)
from truthgym.scorers.beliefs.answer import RIGHT
from truthgym.scorers.declaration import tell
from truthgym.solvers.direct import direct
from truthgym.solvers.prepare import prepare
from truthgym.solvers.roles import required_model

logger = getLogger(__name__)

ScorerNames = str | Sequence[str] | Mapping[str, Mapping[str, Any] | None]
"""ScorerNames as a task takes them: names in a list or separated by commas, or a mapping from names to arguments."""

SCORER_BY_NAME = {
    module.DECLARATION.name: module.DECLARATION
    for module in (
        brier,
        martingale,
        length,
        sycophantic_reasoning,
        qualitative,
        graded,
        rubric,
        reward_model,
        mutual_predictability,
        preference,
        value_tracking,
        value_influence,
        judge_score,
        world_uplift,
        agent_answer,
        fact_chain,
        kl_divergence,
    )
}
"""The values of `-T paradigms=`. Each is declared at the end of its scorer's file."""

LARGE = 2000
"""Model calls of a scorer above which a task says how many it will make."""
EPOCHS = 3
"""Default number of epochs: enough to separate a model's beliefs from the noise in its reports."""

Prompt = str | Sequence[str] | None
"""A system prompt as a task takes it. The command line reads YAML and splits at commas."""
TaskFunction = TypeVar("TaskFunction", bound=Callable[..., Task])


def task(function: TaskFunction) -> TaskFunction:
    """Inspect's `@task`, for a task that refuses an argument which it does not name, before any model call.

    Inspect itself leaves such an argument out, with a warning, unless the task takes `**unknown`. So the registered
    function takes it; what Inspect records, and what `signature(unwrap(...))` shows, are the named arguments. In an
    eval of several tasks, which all get the same arguments, one that another of them takes is left out.
    """
    made, own = inspect_task(function), signature(function)

    @wraps(made)
    def checked(*args: Any, **given: Any) -> Task:
        for name in [name for name in given if name not in own.parameters]:
            if not _taken_elsewhere(name):
                one_of(f"argument of {function.__name__}", name, list(own.parameters))
            notice(f"{function.__name__} has no argument {name}, which other tasks of this run may have.")
            given.pop(name)
        return made(*args, **given)

    unknown = Parameter("unknown", Parameter.VAR_KEYWORD)
    checked.__signature__ = own.replace(parameters=[*own.parameters.values(), unknown])  # type: ignore[attr-defined]
    registry_add(checked, registry_info(made))
    return checked  # type: ignore[return-value]


def asks(loader: Callable[..., Questions]) -> Callable[[Callable[..., Task]], Callable[..., Task]]:
    """Make a task of a function whose first parameter is what a loader gives: it takes the loader's arguments, too.

    Its docstring ends with what the loader's says of the arguments.
    """

    def decorate(function: Callable[..., Task]) -> Callable[..., Task]:
        takes = loader.parameters if isinstance(loader, Domain) else signature(loader).parameters

        def made(**given: Any) -> Task:
            questions = loader(**{name: given.pop(name) for name in takes if name in given})
            return function(questions, **given)

        return taking([*takes.values(), *list(signature(function).parameters.values())[1:]], function, made, loader)

    return decorate


def taking(
    parameters: Sequence[Parameter], function: Callable[..., Task], made: Callable[..., Task], described: object = None
) -> Callable[..., Task]:
    """A function that calls `made` with these parameters by name, and is documented by `function` and `described`."""
    whole = Signature(parameters)

    def call(*args: Any, **given: Any) -> Task:
        bound = whole.bind(*args, **given)
        bound.apply_defaults()
        return made(**bound.arguments)

    update_wrapper(call, function)
    del call.__wrapped__  # type: ignore[attr-defined]  # Inspect and the page look at the whole signature
    call.__signature__ = whole  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    arguments = re.search(r"\n *Args:\n.*", described.__doc__ or "", re.DOTALL)
    call.__doc__ = f"{(function.__doc__ or '').rstrip()}\n{arguments[0] if arguments else ''}"
    return call


def notice(message: str) -> None:
    """Say once what a reader of the scores must know: in an eval as its results are said, and else as a warning."""
    warn = partial(warn_once, logger)
    if in_eval() and message not in _SAID:
        _SAID.add(message)
        tell(message, warn)
    elif not in_eval():
        warn(message)


_SAID: set[str] = set()


def _taken_elsewhere(argument: str) -> bool:
    """Whether another task of the same eval may take an argument: a file's or a folder's tasks are not known yet."""
    tasks = [registry_lookup("task", name.rpartition("@")[2]) for name in tasks_of_eval()]
    return any(
        not callable(other)
        or any(argument == name or parameter.kind is parameter.VAR_KEYWORD
               for name, parameter in signature(unwrap(other)).parameters.items())
        for other in tasks
    )  # fmt: skip


class DomainTask(Task):
    """A task whose arguments Inspect records in a form from which `inspect eval-retry` can repeat the run.

    Two arguments need it. YAML reads `-T known_after=2025-06-01` as a date, and Inspect 0.3.285 records an argument of
    a type it does not know as the name of the type, so that a retry would get known_after="date". And a source file is
    recorded as its path: its SHA-256 goes beside it (into the domain's own arguments, for a task that takes a domain),
    so that another content of the file is another task to `inspect eval-set`, and an error in a retry.

    Inspect writes its record to two private attributes of the task after the task function has returned, and has no
    hook for it: the function is too early, and a decorator outside `@task` is not what Inspect registers. Attribute
    assignment is the one place left to correct the record.
    """

    known_after: str | None = None
    """The date in ISO format."""
    sha256: str | None = None

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, self._repeatable(value) if isinstance(value, dict) else value)

    def _repeatable(self, record: dict[str, Any]) -> dict[str, Any]:
        if record.get("known_after") in ("date", "datetime"):
            record = record | {"known_after": self.known_after}
        if not self.sha256:
            return record
        if "source" in record:
            return record | {"sha256": self.sha256}
        if "domain" in record:
            name, arguments = domain_arguments(record["domain"])
            return record | {"domain": {name: arguments | {"sha256": self.sha256}}}
        return record


def domain_task(
    dataset: Dataset,
    paradigms: ScorerNames | None,
    default: Sequence[str],
    system_prompt: Prompt,
    version: str,
    epochs: int = EPOCHS,
    setup: Solver | None = None,
    solver: Solver | None = None,
) -> DomainTask:
    """Compose a domain's task: prepare, reason with `direct` unless `--solver` names another, and score.

    `setup` is what the setup does besides. If a scorer lacks a model in a role, or that model cannot give
    log-probabilities, a run ends before its first call.
    """
    chosen = _able(dataset, _answers_first(_parse(default if paradigms is None else paradigms)))
    scorers = [SCORER_BY_NAME[name].scorer(**arguments) for name, arguments in chosen.items()]
    roles = {name: SCORER_BY_NAME[name].roles(**arguments) for name, arguments in chosen.items()}
    needed_roles = {role for needed in roles.values() for role in needed}
    one_model = {role for name, needed in roles.items() if SCORER_BY_NAME[name].one_model_per_role for role in needed}
    isolated = any(SCORER_BY_NAME[name].needs_sandbox(**arguments) for name, arguments in chosen.items())
    forecasting = sorted({role for name in chosen for role in SCORER_BY_NAME[name].forecasting_roles})
    if in_eval():  # a missing model is one clear error, before any sample
        for role in sorted(needed_roles):
            required_model(role, alone=role in one_model)
        _check_forecasters(forecasting)
    questions = dataset if isinstance(dataset, Questions) else None
    for name, arguments in chosen.items():
        calls, tokens = SCORER_BY_NAME[name].cost(len(dataset) * epochs, **arguments)
        if calls > LARGE:
            notice(
                f"{name} makes about {calls:,} model calls ({tokens / 1e6:.1f} M tokens) for {len(dataset)} questions "
                f"x {epochs} epochs, with one model in each role. For fewer: -T n=, --limit, --epochs"
            )
    task = DomainTask(
        dataset=dataset,
        setup=[
            prepare(_prompt(system_prompt), sorted(needed_roles), isolated, sorted(one_model)),
            *([forecasters(forecasting)] if forecasting else []),
            *([setup] if setup else []),
        ],
        solver=solver or direct(),
        scorer=scorers,
        epochs=epochs,
        version=version,
        metadata={"left_out": dict(questions.dropped)} if questions and questions.dropped else None,
        viewer=viewer(list(chosen)),
    )
    if questions:
        task.known_after = str(questions.known_after) if questions.known_after else None
        task.sha256 = questions.digest
        for warning in (questions.notice, exclusion_summary(questions)):
            if warning:
                notice(warning)
    return task


@as_solver
def forecasters(roles: Sequence[str]) -> Solver:
    """Check that the models in these roles can give the log-probability of a given text. Makes no model call."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        _check_forecasters(roles)
        return state

    return solve


def _check_forecasters(roles: Sequence[str]) -> None:
    for role in roles:
        check_method(required_model(role, alone=True), "teacher_forced")


def _parse(paradigms: object) -> dict[str, dict[str, Any]]:
    """The arguments of each scorer, by name."""
    if isinstance(paradigms, Mapping):
        named = {str(name).strip(): arguments for name, arguments in paradigms.items()}
    else:
        named = {name: {} for name in names_in(paradigms)}
    if not named:
        raise BadInput(f"paradigms is empty; name at least one of: {', '.join(SCORER_BY_NAME)}")
    for name, arguments in named.items():
        one_of("scorer", name, list(SCORER_BY_NAME))
        if arguments is not None and not isinstance(arguments, Mapping):
            raise BadInput(
                f"paradigms: {name}: {arguments!r} cannot be used; give its arguments as {{argument: value}}, or none"
            )
        for argument in arguments or {}:
            one_of(f"argument of {name}", str(argument), list(signature(SCORER_BY_NAME[name].scorer).parameters))
    return {name: dict(arguments or {}) for name, arguments in named.items()}


def _able(dataset: Dataset, chosen: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The paradigms that can score the questions. Without any it is an error that names the tasks of the same eval."""
    found = {name: _lacks(dataset, name, arguments) for name, arguments in chosen.items()}
    able = {name: arguments for name, arguments in chosen.items() if not found[name]}
    without = "; ".join(f"{name}, since no question has {'an' if what == 'outcome' else 'a'} {what}"
                        for name, what in found.items() if what)  # fmt: skip
    if able and without:
        notice(f"{dataset.name}: left out {without}.")
    if able or not chosen:
        return able
    names = [name.rpartition("/")[2].rpartition("@")[2] for name in tasks_of_eval()]
    alike = [name for name in names if name in BUNDLED and all(
        _lacks(DOMAINS[name](), scorer, arguments) for scorer, arguments in chosen.items())]  # fmt: skip
    raise BadInput(
        f"{', '.join(alike) or dataset.name}: none of these scorers can score its questions: {without}; leave out the "
        "domain, or name another scorer, such as -T paradigms=qualitative (with --model-role judge=MODEL)"
    )


def _lacks(dataset: Dataset, name: str, arguments: Mapping[str, Any]) -> str:
    """What a scorer needs of questions and none of them has; "" if some have it."""
    needed = SCORER_BY_NAME[name].needs_of_questions(**arguments)
    metadata = [item.metadata or {} for item in dataset]
    if needed and not any(fields.get("proposition") for fields in metadata):
        return "proposition"
    return "outcome" if needed == "outcome" and not any(item.target in ("yes", "no") for item in dataset) else ""


def _answers_first(chosen: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The paradigms with those about the model's own answer last: they read what the others found of it."""
    own = [name for name, arguments in chosen.items() if arguments.get("about") == "own_answer"]
    if brier.DECLARATION.name in own and not RIGHT.keys() & chosen.keys():
        raise BadInput(
            "paradigms: brier: about=own_answer needs a scorer beside it that says whether the answer is right: "
            f"{', '.join(RIGHT)}; as in -T 'paradigms={{agent_answer: {{}}, brier: {{about: own_answer}}}}'"
        )
    return {name: chosen[name] for name in [*(name for name in chosen if name not in own), *own]}


def _prompt(system_prompt: object) -> str | None:
    if isinstance(system_prompt, list | tuple) and all(isinstance(part, str) for part in system_prompt):
        return ",".join(system_prompt)
    if system_prompt is None or isinstance(system_prompt, str):
        return system_prompt
    raise BadInput(
        f"system_prompt={system_prompt!r} is not text: the command line reads YAML, so quote it twice, as in "
        """-T 'system_prompt="You are a judge: be fair."', or give it in a file with --task-config"""
    )


def viewer(paradigms: Sequence[str]) -> ViewerConfig:
    """Columns and colours of the viewer's sample list, as the paradigms declare them."""
    declarations = {name: SCORER_BY_NAME[name] for name in paradigms}
    answer = ["answer"] if any(declaration.show_answer for declaration in declarations.values()) else []
    columns = [
        *(TaskSamplesColumn(id=name) for name in ("sampleStatus", "sampleId", *answer, "epoch", "input", "target")),
        *(
            TaskSamplesColumn.score(name, key)
            for name, declaration in declarations.items()
            for key in declaration.columns
        ),
        TaskSamplesColumn(id="error"),
    ]
    return ViewerConfig(
        task_samples_view=TaskSamplesView(
            name="Beliefs",
            columns=columns,
            multiline=False,
            score_labels={
                key: label for declaration in declarations.values() for key, label in declaration.columns.items()
            },
            score_color_scales={
                key: scale for declaration in declarations.values() for key, scale in declaration.colors.items()
            },
            color_scales_enabled=True,
        ),
        sample_score_view=SampleScoreView(default="grid"),
    )
