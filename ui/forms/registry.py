"""What can be chosen: tasks, reasoning modes, scorers and models, read from their signatures and docstrings."""

import inspect
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from truthgym import tasks
from truthgym.models.reference import TAKES
from truthgym.scorers import declaration
from truthgym.tasks.domain_task import SCORER_BY_NAME
from truthgym.ui.forms.commands import Option


@dataclass(frozen=True)
class Kind:
    """A kind of registered function: its section, the option that passes arguments, and the room that defines it."""

    title: str
    option: str
    room: str


TASKS = Kind("Tasks", "-T", "truthgym.tasks.")
SOLVERS = Kind("Solvers", "-S", "truthgym.solvers.")
SCORERS = Kind("Scorers", "-S", "truthgym.scorers.")
KINDS = (TASKS, SOLVERS, SCORERS)
PARTS = ("prepare", "prepare_tools", "label_pair", "predict_answers")
"""Solvers that are registered so that Inspect can rebuild a task from its log. Users do not name them."""
KEYS = {
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "grok": ("XAI_API_KEY", "GROK_API_KEY"),
    "hf-inference-providers": ("HF_TOKEN",),
    **{
        name: (f"{name.upper()}_API_KEY",)
        for name in (
            *("openai", "anthropic", "mistral", "groq", "together", "openrouter", "fireworks", "deepseek"),
            *("sambanova", "perplexity", "moonshot"),
        )
    },
}
"""For a provider of Inspect, the variables of which one must hold its key."""


@dataclass(frozen=True)
class Choice:
    name: str
    """As it is written on a command line."""
    summary: str
    """The first sentence of its docstring."""
    doc: str
    arguments: tuple[Option, ...]


@cache
def choices(kind: Kind) -> dict[str, Choice]:
    """All of a kind by name, which is `truthgym/NAME`."""
    return {
        f"truthgym/{name}": Choice(f"truthgym/{name}", summary(function), inspect.getdoc(function) or "",
                                   arguments(function))
        for of_kind, name, function in registered() if of_kind is kind
    }  # fmt: skip


def registered() -> Iterator[tuple[Kind, str, Callable[..., Any]]]:
    """Kind, name and function of all tasks, solvers and scorers."""
    functions = {name: getattr(tasks, name) for name in tasks.__all__ if name not in PARTS}
    functions |= {name: declaration.scorer for name, declaration in sorted(SCORER_BY_NAME.items())}
    unwrapped = {name: inspect.unwrap(function) for name, function in functions.items()}
    for kind in KINDS:
        for name, function in unwrapped.items():
            if function.__module__.startswith(kind.room):
                yield kind, name, function


def summary(function: Callable[..., Any]) -> str:
    """The first sentence of a docstring."""
    paragraph = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    return paragraph.split(". ")[0].rstrip(".") + "."


def arguments(function: Callable[..., Any]) -> tuple[Option, ...]:
    """The arguments of a function that can be given on a command line."""
    hints = get_type_hints(function)
    listed = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            values, required = _choices(hints.get(parameter.name)), parameter.default is parameter.empty
            kind = "choice" if values else "text"
            docs = (inspect.getmodule(function).__doc__, declaration.__doc__)
            text = help_of(parameter.name, inspect.getdoc(function), *docs)
            listed.append(Option(parameter.name, text, kind, values, required, default(parameter)))
    return tuple(listed)


def help_of(name: str, *docs: str | None) -> str:
    """What the docstrings say of an argument: its own paragraph, or else the first sentence that names it."""
    paragraph = re.compile(rf"^ +{re.escape(name)}: (.+(?:\n {{5,}}.+)*)", re.MULTILINE)
    own = [found[1] for doc in docs if (found := paragraph.search(doc or ""))]
    sentences = re.split(r"(?<=\.)\s", " ".join((docs[0] or "").split()))
    return " ".join(next(iter([*own, *(text for text in sentences if f"`{name}`" in text)]), "").split())


def default(parameter: inspect.Parameter) -> str:
    """The default of an argument as it is written on a command line. "" for None and for a required one."""
    value = parameter.default
    if value is inspect.Parameter.empty or value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _choices(annotation: object) -> tuple[str, ...]:
    """The values that an annotation lists, if it allows no others."""
    if annotation is bool:
        return ("true", "false")
    if get_origin(annotation) is Literal:
        return tuple(str(value).lower() if isinstance(value, bool) else str(value) for value in get_args(annotation))
    if get_origin(annotation) in (Union, UnionType):
        parts = [get_arg for get_arg in get_args(annotation) if get_arg is not type(None)]
        listed = [_choices(part) for part in parts]
        return tuple(value for values in listed for value in values) if all(listed) else ()
    return ()


def reference_models() -> dict[str, tuple[str, ...]]:
    """Simulated agents, which need no key, with the arguments (`-M`) that they take."""
    return {f"reference/{name}": tuple(sorted(takes)) for name, takes in TAKES.items()}


def role_names() -> tuple[str, ...]:
    """The model roles of all scorers and solvers, as docs/models.md describes them."""
    return (
        *("judge", "grader", "reader", "interviewer", "interlocutor", "debater_a", "debater_b"),
        *("predictor", "investigator", "forecaster", "human_proxy", "base"),
    )


def variables_of(model: str) -> tuple[str, ...]:
    """The variables of which one must hold the key of a model's provider. None for one that needs no key."""
    provider, _, rest = model.partition("/")
    if provider in ("openai-api", "openai-api-completions"):
        return (f"{rest.partition('/')[0].upper().replace('-', '_')}_API_KEY",)
    return KEYS.get(provider, ())


def is_set(variable: str, folder: Path) -> bool:
    """Whether a variable is in the environment, or in the folder's `.env`, which Inspect reads."""
    from dotenv import dotenv_values

    return bool(os.environ.get(variable) or dotenv_values(folder / ".env").get(variable))


def keys_that_are_set(folder: Path) -> dict[str, str]:
    """For each provider with a key, the name of the variable that holds it."""
    keys = {provider: [name for name in variables if is_set(name, folder)] for provider, variables in KEYS.items()}
    return {provider: names[0] for provider, names in sorted(keys.items()) if names}


def shared(names: Sequence[str]) -> tuple[Option, ...]:
    """The arguments that all of these tasks take; those of a task that is not ours are unknown."""
    tasks_arguments = [choices(TASKS)[name].arguments for name in names if name in choices(TASKS)]
    by_task = [{argument.name: argument for argument in arguments} for arguments in tasks_arguments] or [{}]
    common = [argument for name, argument in by_task[0].items() if all(name in other for other in by_task)]
    return tuple(
        argument if len({other[argument.name].default for other in by_task}) == 1
        else replace(argument, default="each task's own") for argument in common
    )  # fmt: skip


LIMITS = ("epochs", "message_limit", "token_limit", "turn_limit", "time_limit", "working_limit", "cost_limit")
"""What a task may set itself, which an option of the eval replaces."""


def own_defaults(names: Sequence[str]) -> dict[str, str]:
    """By option, what the tasks set themselves: "3", or "3 in urns, 1 in code_repair" where they differ."""
    by_task = {name.partition("/")[2]: _limits(name) for name in names if name in choices(TASKS)}
    texts: dict[str, str] = {}
    for limit in LIMITS:
        values = {name: str(limits[limit]) for name, limits in by_task.items() if limits.get(limit)}
        alike = len({*values.values()}) == 1 and len(values) == len(by_task)
        text = (
            next(iter(values.values())) if alike else ", ".join(f"{value} in {name}" for name, value in values.items())
        )
        texts |= {f"--{limit.replace('_', '-')}": text} if values else {}
    return texts


@cache
def _limits(name: str) -> dict[str, Any]:
    """What a task sets with its default arguments; nothing if it needs one."""
    try:
        task = getattr(tasks, name.partition("/")[2])()
    except Exception:  # as each task refuses its arguments
        return {}
    return {limit: getattr(task, limit, None) for limit in LIMITS}
