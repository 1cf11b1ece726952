"""The page on which a run is composed."""

import re
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from threading import Lock
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from markdown_it import MarkdownIt
from starlette.concurrency import run_in_threadpool

from truthgym.analysis.tables.cost_estimate import TOO_SMALL
from truthgym.datasets.errors import BadInput
from truthgym.datasets.redaction import redact
from truthgym.tasks.domain_task import SCORER_BY_NAME
from truthgym.training.trainers.options import METHODS
from truthgym.ui import jobs, setups
from truthgym.ui.forms import registry
from truthgym.ui.forms.checks import needed_roles, problems, warnings
from truthgym.ui.forms.commands import (
    FIRST,
    FRESH,
    VERBS,
    Fields,
    Option,
    arguments_of,
    eval_options,
    model_names,
    options_of,
    role_words,
    selected,
    solver_words,
    task_words,
    train_options,
    value_of,
    verb_of,
)
from truthgym.ui.pages.rendering import folder_of, form_fields, page
from truthgym.ui.setups import Setup, setup_of

VERB_LABELS = {
    "eval": ("Evaluate", "Ask models questions and score their answers."),
    "score": ("Score", "Score a finished log again, with another scorer."),
    "convert": ("Convert", "Make a dataset for training from logs."),
    "train": ("Train", "Train a model on a dataset, or by rollouts."),
    "loop": ("Loop", "Evaluate, convert, train and evaluate again."),
    "report": ("Report", "Write a site from logs: scores, differences, costs and caveats."),
    "sweep": ("Sweep", "Run a setup of several evals on many workers."),
}
"""What each verb is called on the page, and what it does."""
HIDDEN = {"score": ("-S", "--scorer", "--display", "--log-level"), "train": (), "convert": ("--quiet",)}
"""Options of a verb that other fields of the form give, or that mean nothing here."""
PLACES = {"logs": "logs/*", "data": "data/*", "trained": "trained/*", "setups": "setups/*.py"}
SECONDS = 300
"""After which an estimate is given up."""
SHOWN_LOGS = 100
"""Most log files that are suggested."""
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
router = APIRouter()
estimating = Lock()


@dataclass(frozen=True)
class CostEstimate:
    """What `truthgym cost` printed."""

    command: list[str]
    text: str
    """Markdown. "" if it failed."""
    error: str = ""

    @property
    def too_small(self) -> str:
        """The line that says that the run is too small for the difference to detect. "" if it is not."""
        lines = [line.removeprefix("- ") for line in self.text.splitlines()]
        return next((line for line in lines if line.startswith(TOO_SMALL)), "")


def cost_commands(fields: Fields) -> Iterator[list[str]]:
    """The command for each task, reasoning mode and model; one model for all, without prices."""
    prices, limit = value_of(fields, "--model-cost-config"), value_of(fields, "--limit")
    words = [*task_words(fields), *role_words(fields), *(["--limit", limit] if limit.isdecimal() else [])]
    for option, field in (("--epochs", "--epochs"), ("--prices", "--model-cost-config"), ("--effect", "effect"),
                          ("--reply-tokens", "reply_tokens")):  # fmt: skip
        if value := value_of(fields, field):
            words += [option, value]
    tasks, solvers = selected(fields, "tasks", "other tasks"), selected(fields, "solvers", "other solvers") or [""]
    for task, solver, model in product(tasks, solvers, model_names(fields)[: None if prices else 1]):
        yield ["truthgym", "cost", task, *solver_words(fields, solver), "--model", model, *words]


def run_cost(command: list[str], folder: Path) -> CostEstimate:
    """Run one of `cost_commands` in the folder."""
    try:
        process = subprocess.run(
            [sys.executable, "-m", "truthgym.cli.main", *command[1:]], cwd=folder, capture_output=True, text=True,
            timeout=SECONDS, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return CostEstimate(command, "", f"No estimate after {SECONDS} seconds; give the task fewer questions.")
    if process.returncode:
        return CostEstimate(command, "", redact(process.stderr.strip()[-1500:], folder) or "The estimate failed.")
    return CostEstimate(command, redact(process.stdout, folder))


@router.get("/")
def compose(request: Request, verb: str = "eval", setup: str = "", saved: str = "") -> HTMLResponse:
    """A new form, or that of a setup."""
    folder = folder_of(request)
    if setup:
        opened, note = setups.read(folder, setup)
        message = f"Saved as setups/{setup}.py." if saved else ""
        return form_page(request, {**opened.fields, "name": [setup], "opened": [setup]}, note=note, done=message)
    verb_of({"verb": [verb]})
    return form_page(request, {"verb": [verb], **FRESH[verb]})


@router.post("/compose")
async def preview(request: Request) -> HTMLResponse:
    """What the form stands for now; with `parts`, also its fields that depend on what is ticked, with `whole` all."""
    form = await form_fields(request)
    if "hx-request" not in request.headers or "whole" in request.query_params:
        return await run_in_threadpool(form_page, request, form)
    context = await run_in_threadpool(form_values, request, form)
    return page(request, "preview.html", parts=request.query_params.get("parts", ""), **context)


@router.post("/save")
async def save(request: Request) -> Response:
    form = await form_fields(request)
    try:
        setup = await run_in_threadpool(checked, folder_of(request), form)
        setups.save(folder_of(request), setup)
    except BadInput as error:
        return form_page(request, form, 400, str(error))
    return RedirectResponse(f"/?setup={setup.name}&saved=1", 303)


@router.post("/launch")
async def launch(request: Request) -> Response:
    """Write the setup's file and start its commands: each is one of the lists that the page shows."""
    form, folder = await form_fields(request), folder_of(request)
    try:
        setup = await run_in_threadpool(checked, folder, form)
        for words in setup.commands().values():  # all or none of them
            jobs.check(folder, words)
        setups.save(folder, setup)
        names = {f"{setup.name}-{label}" if label else setup.name: words for label, words in setup.commands().items()}
        started = [jobs.start(folder, names[name], name, at_once=request.app.state.at_once) for name in names]
    except BadInput as error:
        return form_page(request, form, 400, str(error))
    return RedirectResponse(f"/runs/{started[0].id}" if len(started) == 1 else "/runs", 303)


@router.post("/estimate")
async def estimate(request: Request) -> HTMLResponse:
    """What the eval will take, as `truthgym cost` says."""
    form, folder = await form_fields(request), folder_of(request)
    setup = setup_of(form, value_of(form, "name"))
    wrong = problems(setup.fields, setup.name, folder)
    if setup.verb != "eval" or wrong:
        return page(request, "estimate.html", estimates=[], wrong=wrong or ["Only an eval has an estimate."])

    def all_of_them() -> list[CostEstimate]:
        with estimating:  # each is a process
            return [run_cost(command, folder) for command in cost_commands(form)]

    estimates = await run_in_threadpool(all_of_them)
    rows = [(shlex.join(cost.command), MARKDOWN.render(cost.text), cost.too_small, cost.error) for cost in estimates]
    return page(request, "estimate.html", estimates=rows, wrong=[])


def checked(folder: Path, form: Fields) -> Setup:
    """The setup that a form stands for, under the name under which it is saved."""
    setup = setup_of(form, value_of(form, "name"))
    setups.path_of(folder, setup.name)
    if wrong := problems(setup.fields, setup.name, folder):
        raise BadInput("; ".join(wrong))
    return setups.free_name(folder, setup, value_of(form, "opened"), value_of(form, "replace"))


def form_page(request: Request, form: Fields, status: int = 200, problem: str = "", **messages: Any) -> HTMLResponse:
    """The whole page with a form's values."""
    values = {"done": "", "note": "", "parts": ""} | messages
    return page(request, "compose.html", status, problem=problem, **values, **form_values(request, form))


def form_values(request: Request, form: Fields) -> dict[str, Any]:
    """What the templates need to show a form with these values, and what it stands for."""
    folder, verb = folder_of(request), verb_of(form)
    name = value_of(form, "name")
    setup = setup_of(form, name)
    wrong = problems(setup.fields, setup.name, folder)
    if name and not setups.NAME.fullmatch(name):
        wrong.append(f"{name!r} is no name of a setup: use letters, digits, - and _.")
    wished = setup
    setup = wished if wrong else setups.free_name(folder, wished, value_of(form, "opened"), value_of(form, "replace"))
    commands = {} if wrong else setup.commands()
    return {
        "verbs": VERB_LABELS,
        "verb": verb,
        "values": form,
        "setup": setup,
        "setup_names": setups.names(folder),
        "wrong": wrong,
        "warned": warnings(setup.fields, folder),
        "keys": registry.keys_that_are_set(folder),
        "commands": {label: shlex.join(words) for label, words in commands.items()},
        "script": "" if wrong else setup.script(),
        "taken": wished.name if setup is not wished or value_of(form, "replace") == wished.name else "",
        "places": places(folder),
        **(eval_values(form) if verb == "eval" else verb_values(verb, form)),
    }


def eval_values(form: Fields) -> dict[str, Any]:
    """The choices of an eval, with the arguments of what is chosen."""
    tasks, solvers = registry.choices(registry.TASKS), registry.choices(registry.SOLVERS)
    scorers = registry.choices(registry.SCORERS)
    ticked = selected(form, "tasks", "other tasks")
    scorer_names = [name for name in selected(form, "paradigms") if name in SCORER_BY_NAME]
    needed: dict[str, list[str]] = {}
    for name in scorer_names:
        for role in needed_roles(name, arguments_of(form, "P", name)):
            needed.setdefault(role, []).append(name)
    own = registry.own_defaults(ticked)
    options = [
        replace(option, default=own[option.name], help=re.sub(r" \(defaults? to [^)]*\)", "", option.help))
        if option.name in own else option for option in eval_options()
    ]  # fmt: skip
    groups = [("T", "", argument_list(registry.shared(ticked), form, "T", hide=("paradigms",)))]
    groups += [(f"S {name}", name, list(solvers[name].arguments))
               for name in selected(form, "solvers", "other solvers") if name in solvers]  # fmt: skip
    groups += [(f"P {name}", name, list(scorers[f"truthgym/{name}"].arguments)) for name in scorer_names]
    return {
        "tasks": selected_first(tasks, form.get("tasks", ())),
        "solvers": selected_first(solvers, form.get("solvers", ())),
        "paradigms": selected_first(SCORER_BY_NAME, form.get("paradigms", ())),
        "models": registry.reference_models(),
        "providers": registry.KEYS,
        "model_arguments": sorted(
            {argument for name in model_names(form) for argument in registry.reference_models().get(name, ())}
        ),
        "roles": sorted(registry.role_names(), key=lambda role: role not in needed),
        "needed": needed,
        "with_roles": any(value_of(form, key) for key in form if key.startswith("role ")),
        "docs": {
            "T": [(name, tasks[name].doc) for name in ticked if name in tasks],
            **{f"S {name}": [(name, choice.doc)] for name, choice in solvers.items()},
            **{f"P {name}": [(name, scorers[f"truthgym/{name}"].doc)] for name in scorer_names},
        },
        "groups": groups,
        "usual": [option for option in options if option.name in FIRST],
        "others": [choice for choice in options if choice.name not in FIRST],
    }


def selected_first(choices: Mapping[str, Any], ticked: Collection[str]) -> dict[str, Any]:
    """What can be ticked, with what is at the top, so that nobody has to look for it."""
    return dict(sorted(choices.items(), key=lambda choice: choice[0] not in ticked))


def argument_list(arguments: Sequence[Option], form: Fields, letter: str, hide: Sequence[str] = ()) -> list[Option]:
    """The arguments to show: those that are known, and what was typed for one that no longer is."""
    listed = [argument for argument in arguments if argument.name not in hide]
    typed = [name for name in arguments_of(form, letter) if name not in {argument.name for argument in arguments}]
    return [*listed, *(Option(name, "", "text") for name in typed)]


def verb_values(verb: str, form: Fields) -> dict[str, Any]:
    """The fields of any other verb, from its own parser."""
    options = [option for option in options_of(verb) if option.name not in HIDDEN.get(verb, ())]
    options = train_options(value_of(form, "method")) if verb == "train" else options
    scorers, name = registry.choices(registry.SCORERS), value_of(form, "--scorer") * (verb == "score")
    arguments = argument_list(scorers[name].arguments if name in scorers else (), form, "A") if verb == "score" else []
    return {
        "options": sorted(options, key=lambda option: (not option.required, option.name.startswith("-"))),
        "methods": METHODS,
        "scorers": scorers,
        "docs": {"A": [(name, scorers[name].doc)]} if name in scorers else {},
        "groups": [("A", name, arguments)] * bool(arguments),
        "command_name": " ".join(VERBS[verb]),
    }


def places(folder: Path) -> Mapping[str, list[str]]:
    """What is in the folder, as suggestions: logs and their folders, datasets, models and setups."""
    by_kind = {kind: sorted(str(path.relative_to(folder)) for path in folder.glob(pattern))
             for kind, pattern in PLACES.items()}  # fmt: skip
    files = (path for path in (folder / "logs").rglob("*.eval") if path.is_file())  # no link to nothing
    logs = sorted(files, key=lambda path: path.stat().st_mtime, reverse=True)
    return by_kind | {"log files": [str(path.relative_to(folder)) for path in logs[:SHOWN_LOGS]]}
