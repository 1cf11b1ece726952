"""The page on which a run is composed."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from markdown_it import MarkdownIt
from starlette.concurrency import run_in_threadpool

from truthgym.datasets.errors import BadInput
from truthgym.tasks.domain_task import SCORER_BY_NAME
from truthgym.training.trainers.options import METHODS
from truthgym.ui import jobs, setups
from truthgym.ui.forms import registry
from truthgym.ui.forms.checks import needed_roles, problems, warnings
from truthgym.ui.forms.commands import (
    FIRST,
    FRESH,
    arguments_of,
    chosen,
    eval_options,
    first,
    model_names,
    train_options,
    verb_of,
)
from truthgym.ui.forms.estimate import CostEstimate, cost_commands, run_cost
from truthgym.ui.forms.options import VERBS, Fields, options_of
from truthgym.ui.pages.rendering import folder_of, form_fields, page
from truthgym.ui.setups import Setup, setup_of

VERB_LABELS = {
    "eval": ("Evaluate", "Ask models questions and score their answers."),
    "score": ("Score", "Score a finished log again, with another scorer."),
    "convert": ("Convert", "Make a dataset for training from logs."),
    "train": ("Train", "Train a model on a dataset, or by rollouts."),
    "loop": ("Loop", "Evaluate, convert, train and evaluate again."),
    "report": ("Report", "Write a site from logs: scores, differences, costs and doubts."),
    "sweep": ("Sweep", "Run a set-up of several evals on many workers."),
}
"""What each verb is called on the page, and what it does."""
HIDDEN = {"score": ("-S", "--scorer", "--display", "--log-level"), "train": (), "convert": ("--quiet",)}
"""Options of a verb that other fields of the form give, or that mean nothing here."""
PLACES = {"logs": "logs/*", "data": "data/*", "trained": "trained/*", "set-ups": "setups/*.py"}
SHOWN_LOGS = 100
"""Most log files that are suggested."""
MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
router = APIRouter()
estimating = Lock()


@router.get("/")
def compose(request: Request, verb: str = "eval", setup: str = "", saved: str = "") -> HTMLResponse:
    """A new form, or that of a set-up."""
    folder = folder_of(request)
    if setup:
        opened, note = setups.read(folder, setup)
        done = f"Saved as setups/{setup}.py." if saved else ""
        return form_page(request, {**opened.fields, "name": [setup], "opened": [setup]}, note=note, done=done)
    verb_of({"verb": [verb]})
    return form_page(request, {"verb": [verb], **FRESH[verb]})


@router.post("/compose")
async def preview(request: Request) -> HTMLResponse:
    """What the form stands for now; with `parts`, also its fields that depend on what is ticked, with `whole` all."""
    given = await form_fields(request)
    if "hx-request" not in request.headers or "whole" in request.query_params:
        return form_page(request, given)
    shown = form_values(request, given)
    return page(request, "preview.html", parts=request.query_params.get("parts", ""), **shown)


@router.post("/save")
async def save(request: Request) -> Response:
    """Write the set-up's file."""
    given = await form_fields(request)
    try:
        setup = stored(folder_of(request), given)
    except BadInput as error:
        return form_page(request, given, 400, str(error.message))
    return RedirectResponse(f"/?setup={setup.name}&saved=1", 303)


@router.post("/launch")
async def launch(request: Request) -> Response:
    """Write the set-up's file and start its commands: each is one of the lists that the page shows."""
    given, folder = await form_fields(request), folder_of(request)
    try:
        setup = stored(folder, given)
        for words in setup.commands().values():  # all or none of them
            jobs.check(folder, words)
        started = [
            jobs.start(
                folder, words, f"{setup.name}-{label}" if label else setup.name, at_once=request.app.state.at_once
            )
            for label, words in setup.commands().items()
        ]
    except BadInput as error:
        return form_page(request, given, 400, str(error.message))
    return RedirectResponse(f"/runs/{started[0].id}" if len(started) == 1 else "/runs", 303)


@router.post("/estimate")
async def estimate(request: Request) -> HTMLResponse:
    """What the eval will take, as `truthgym cost` says."""
    given, folder = await form_fields(request), folder_of(request)
    setup = setup_of(given, first(given, "name"))
    wrong = problems(setup.fields, setup.name, folder)
    if setup.verb != "eval" or wrong:
        return page(request, "estimate.html", estimates=[], wrong=wrong or ["Only an eval has an estimate."])

    def all_of_them() -> list[CostEstimate]:
        with estimating:  # each is a process
            return [run_cost(command, folder) for command in cost_commands(given)]

    found = await run_in_threadpool(all_of_them)
    shown = [(shlex.join(one.command), MARKDOWN.render(one.text), one.too_small, one.error) for one in found]
    return page(request, "estimate.html", estimates=shown, wrong=[])


def stored(folder: Path, given: Fields) -> Setup:
    """Save what a form holds."""
    setup = setup_of(given, first(given, "name"))
    setups.path_of(folder, setup.name)
    if wrong := problems(setup.fields, setup.name, folder):
        raise BadInput("; ".join(wrong))
    same = first(given, "opened") == setup.name
    setups.save(folder, setup, replace=same or bool(first(given, "replace")))
    return setup


def form_page(request: Request, given: Fields, status: int = 200, problem: str = "", **shown: Any) -> HTMLResponse:  # noqa: ANN401
    """The whole page with a form's values."""
    values = {"done": "", "note": "", "parts": ""} | shown
    return page(request, "compose.html", status, problem=problem, **values, **form_values(request, given))


def form_values(request: Request, given: Fields) -> dict[str, Any]:
    """What the templates need to show a form with these values, and what it stands for."""
    folder, verb = folder_of(request), verb_of(given)
    name = first(given, "name")
    setup = setup_of(given, name)
    wrong = problems(setup.fields, setup.name, folder)
    if name and not setups.NAME.fullmatch(name):
        wrong.append(f"{name!r} is no name of a set-up: use letters, digits, - and _.")
    commands = {} if wrong else setup.commands()
    there = setups.NAME.fullmatch(setup.name) and setups.path_of(folder, setup.name).is_file()
    taken = bool(there) and first(given, "opened") != setup.name
    return {
        "verbs": VERB_LABELS,
        "verb": verb,
        "values": given,
        "setup": setup,
        "setup_names": setups.names(folder),
        "wrong": wrong,
        "warned": warnings(setup.fields, setup.name, folder),
        "keys": registry.keys_that_are_set(folder),
        "commands": {label: shlex.join(words) for label, words in commands.items()},
        "script": "" if wrong else setup.script(),
        "taken": taken,
        "places": places(folder),
        **(eval_values(given) if verb == "eval" else verb_values(verb, given)),
    }


def eval_values(given: Fields) -> dict[str, Any]:
    """The choices of an eval, with the arguments of what is chosen."""
    tasks, solvers = registry.choices(registry.TASKS), registry.choices(registry.SOLVERS)
    scorers = registry.choices(registry.SCORERS)
    ticked = chosen(given, "tasks", "other tasks")
    paradigms = [name for name in chosen(given, "paradigms") if name in SCORER_BY_NAME]
    needed: dict[str, list[str]] = {}
    for name in paradigms:
        for role in needed_roles(name, arguments_of(given, "P", name)):
            needed.setdefault(role, []).append(name)
    options = eval_options()
    groups = [("T", "", argument_list(registry.shared(ticked), given, "T", hide=("paradigms",)))]
    groups += [(f"S {name}", name, list(solvers[name].arguments))
               for name in chosen(given, "solvers", "other solvers") if name in solvers]  # fmt: skip
    groups += [(f"P {name}", name, list(scorers[f"truthgym/{name}"].arguments)) for name in paradigms]
    return {
        "tasks": chosen_first(tasks, given.get("tasks", ())),
        "solvers": chosen_first(solvers, given.get("solvers", ())),
        "paradigms": chosen_first(SCORER_BY_NAME, given.get("paradigms", ())),
        "models": registry.reference_models(),
        "providers": registry.KEYS,
        "model_arguments": sorted(
            {argument for name in model_names(given) for argument in registry.reference_models().get(name, ())}
        ),
        "roles": sorted(registry.role_names(), key=lambda role: role not in needed),
        "needed": needed,
        "with_roles": any(first(given, key) for key in given if key.startswith("role ")),
        "docs": {
            "T": [(name, tasks[name].doc) for name in ticked if name in tasks],
            **{f"S {name}": [(name, one.doc)] for name, one in solvers.items()},
            **{f"P {name}": [(name, scorers[f"truthgym/{name}"].doc)] for name in paradigms},
        },
        "groups": groups,
        "usual": [option for option in options if option.name in FIRST],
        "others": [one for one in options if one.name not in FIRST],
    }


def chosen_first(known: Mapping[str, Any], ticked: Collection[str]) -> dict[str, Any]:
    """What can be ticked, with what is at the top, so that nobody has to look for it."""
    return dict(sorted(known.items(), key=lambda one: one[0] not in ticked))


def argument_list(known: Sequence[registry.Argument], given: Fields, letter: str,
                  hide: Sequence[str] = ()) -> list[registry.Argument]:  # fmt: skip
    """The arguments to show: those that are known, and what was typed for one that no longer is."""
    shown = [one for one in known if one.name not in hide]
    kept = [name for name in arguments_of(given, letter) if name not in {one.name for one in known}]
    return [*shown, *(registry.Argument(name, "", False, ()) for name in kept)]


def verb_values(verb: str, given: Fields) -> dict[str, Any]:
    """The fields of any other verb, from its own parser."""
    options = [one for one in options_of(verb) if one.name not in HIDDEN.get(verb, ())]
    arguments: list[registry.Argument] = []
    scorer = None
    if verb == "train":
        options = train_options(first(given, "method"))
    if verb == "score":
        scorer = registry.choices(registry.SCORERS).get(first(given, "--scorer"))
        arguments = argument_list(scorer.arguments if scorer else (), given, "A")
    return {
        "options": sorted(options, key=lambda one: (not one.required, one.name.startswith("-"))),
        "methods": METHODS,
        "scorers": registry.choices(registry.SCORERS),
        "docs": {"A": [(scorer.name, scorer.doc)]} if scorer else {},
        "groups": [("A", first(given, "--scorer"), arguments)] * bool(arguments),
        "command_name": " ".join(VERBS[verb]),
    }


def places(folder: Path) -> Mapping[str, list[str]]:
    """What is in the folder, as suggestions: logs and their folders, datasets, models and set-ups."""
    found = {kind: sorted(str(path.relative_to(folder)) for path in folder.glob(pattern))
             for kind, pattern in PLACES.items()}  # fmt: skip
    logs = sorted((folder / "logs").rglob("*.eval"), key=lambda path: path.stat().st_mtime, reverse=True)
    return found | {"log files": [str(path.relative_to(folder)) for path in logs[:SHOWN_LOGS]]}
