"""What is wrong with a setup before it starts, in whole sentences."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from math import inf, isfinite
from pathlib import Path
from typing import Any

import yaml
from inspect_ai.model import get_model

from truthgym import tasks as registered_tasks
from truthgym.datasets.domains import DOMAINS
from truthgym.datasets.errors import BadInput, did_you_mean, shown, validate_call
from truthgym.datasets.inspect_private import PrerequisiteError, parse_cli_args, parse_decorators
from truthgym.tasks.domain_task import SCORER_BY_NAME
from truthgym.ui.forms.commands import (
    VERBS,
    Fields,
    arguments_of,
    check_words,
    commands_of,
    eval_options,
    lines,
    model_names,
    script_of,
    selected,
    short,
    solver_words,
    task_words,
    value_of,
    verb_of,
)
from truthgym.ui.forms.registry import SOLVERS, TASKS, Choice, choices, is_set, variables_of
from truthgym.ui.jobs import refuse_keys

FREE_TEXT = ("--system-message",)
"""Options whose text is for a model and holds no path."""
MOST_BRACKETS = 100
"""Brackets in a value, since the time to read YAML grows with the square of its depth."""
BOUNDS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("--epochs", "--max-tokens", "--max-connections", "--max-samples", "--max-tasks", "--log-buffer",
                     "--message-limit", "--turn-limit", "--time-limit", "--working-limit", "--num-choices"), (1, inf)),
    "--temperature": (0, 2), "--top-p": (0, 1), "--frequency-penalty": (-2, 2), "--presence-penalty": (-2, 2),
    "--top-logprobs": (0, 20), "--prompt-logprobs": (0, 20), "--seed": (-(2**63), inf),
}  # fmt: skip
"""Least and most value of an eval's options that are numbers; of others 0 and no limit."""
ADDRESS = re.compile(r"https?://[^\s,;\[\]{}\"']*")


def problems(fields: Fields, name: str, folder: Path) -> list[str]:
    """What keeps a setup from being started. Empty if nothing does."""
    if nested := next((line for line in typed(fields) if re.subn(r"[\[{]", "", line)[1] > MOST_BRACKETS), ""):
        return [f"{shown(nested)} has more than {MOST_BRACKETS} brackets; give a list or mapping that is less deep."]
    try:
        refuse_keys([*typed(fields)], folder)
    except BadInput as error:
        return [str(error)]
    problems_found: list[str] = []
    try:
        problems_found += (eval_problems if verb_of(fields) == "eval" else missing)(fields, folder)
        commands = commands_of(fields, name)
        for words in commands.values():
            problems_found += outside(words, folder)
            if not problems_found:
                check_words(verb_of(fields), words[len(VERBS[verb_of(fields)]) :])
        if not problems_found:
            script_of(commands)
            problems_found += refusals(fields, folder)
    except Exception as error:  # as the parser or YAML says it
        problems_found.append(str(error))
    return list(dict.fromkeys(problems_found))


def warnings(fields: Fields, folder: Path) -> list[str]:
    """What a reader should know before a start. It keeps nothing from being started."""
    if verb_of(fields) != "eval":
        return []
    roles = [part.strip() for key in fields if key.startswith("role ") for part in value_of(fields, key).split(",")]
    return [
        f"{model} needs a key: neither the environment of this server nor {folder}/.env sets {' or '.join(variables)}."
        for model in dict.fromkeys([*model_names(fields), *filter(None, roles)])
        if (variables := variables_of(model)) and not any(is_set(variable, folder) for variable in variables)
    ]


def typed(fields: Fields) -> Iterator[str]:
    """All that was typed, line by line, as NAME=VALUE where the field is an argument's."""
    for field, values in fields.items():
        start = f"{field.rpartition(' ')[2]}=" if " " in field else ""
        yield from (f"{start}{line}" for text in values for line in text.splitlines())


def eval_problems(fields: Fields, folder: Path) -> Iterator[str]:
    tasks, solvers = selected(fields, "tasks", "other tasks"), selected(fields, "solvers", "other solvers")
    if not tasks:
        yield "No task is chosen; tick one."
    if not model_names(fields):
        yield "No model is given; reference/bayesian needs no key."
    for kind, names, what in ((TASKS, tasks, "task"), (SOLVERS, solvers, "reasoning mode")):
        yield from (problem for name in names for problem in unknown(choices(kind), name, what, folder))
    for name in selected(fields, "paradigms"):
        for role in needed_roles(name, arguments_of(fields, "P", name)):
            if not value_of(fields, f"role {role}"):
                yield f"The scorer {name} needs a model in the role {role}; give one below Roles."
    for model in model_names(fields):
        if "/" not in model:
            yield f"The model {model!r} has no provider; write PROVIDER/MODEL, such as openai/{model}."


def needed_roles(scorer: str, arguments: dict[str, str]) -> tuple[str, ...]:
    """The model roles that a scorer needs with these arguments."""
    try:
        return tuple(SCORER_BY_NAME[scorer].roles(**{key: yaml.safe_load(value) for key, value in arguments.items()}))
    except Exception:  # arguments that it does not take are another problem
        return ()


def unknown(registered: dict[str, Choice], name: str, what: str, folder: Path) -> Iterator[str]:
    """Whether a name is neither registered nor in a file of the folder. Those of other packages are not looked up."""
    file, _, task = name.partition("@")
    if file.endswith(".py"):
        path = folder / file
        if not path.is_file():
            yield f"There is no file {file} in {folder}; give one with a {what} in it."
        elif what == "task" and task not in ("", *(task_name for task_name, _ in parse_decorators(path, "task"))):
            yield f"{file} has no task {task!r}."
    elif name.startswith("truthgym/") and name not in registered:
        yield f"There is no {what} {name!r}; {did_you_mean(name, list(registered))}tick one of the list."
    elif "/" not in name:
        yield f"There is no {what} {name!r}; write PACKAGE/NAME or FILE.py@NAME."


def refusals(fields: Fields, folder: Path) -> Iterator[str]:
    """What tasks, modes, scorers and agents say of their arguments when they are made; nothing is fetched."""
    if verb_of(fields) == "eval":
        arguments = parsed([word for word in task_words(fields) if word != "-T"], folder)
        for name in selected(fields, "tasks"):
            task = getattr(registered_tasks, short(name), None)
            yield from refused(name, task, arguments, types_alone=not arguments)
        for name in selected(fields, "solvers"):
            words = [word for word in solver_words(fields, name)[2:] if word != "-S"]
            yield from refused(name, getattr(registered_tasks, short(name), None), parsed(words, folder))
        for name in (name for name in model_names(fields) if name.startswith("reference/")):
            yield from refused(name, partial(get_model, name, memoize=False), parsed(lines(fields, "M"), folder))
        for option in eval_options():
            value, (least, most) = value_of(fields, option.name), BOUNDS.get(option.name, (0, inf))
            if option.kind == "number" and value and not (least <= float(value) <= most and isfinite(float(value))):
                allowed = f"{least} to {most}" if most < inf else f"{least} or more"
                yield f"{option.name} {value} cannot be used; give a number of {allowed}."
    elif verb_of(fields) == "score" and (scorer := SCORER_BY_NAME.get(short(value_of(fields, "--scorer")))):
        words = [f"{name}={value}" for name, value in arguments_of(fields, "A").items()]
        yield from refused(scorer.name, scorer.scorer, parsed(words, folder))


def parsed(words: Sequence[str], folder: Path) -> dict[str, Any]:
    """Arguments as Inspect reads them, in which a file of the folder is named by its whole path."""

    def placed(value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, dict):
            return {key: placed(item) for key, item in value.items()}
        if isinstance(value, list):
            return [placed(item) for item in value]
        return str(folder / value) if isinstance(value, str) and value and (folder / value).is_file() else value

    return {name: placed(value) for name, value in parse_cli_args(list(words)).items()}


def refused(
    name: str, function: Callable[..., object] | None, arguments: dict[str, Any], types_alone: bool = False
) -> Iterator[str]:
    """Why a function does not take the arguments."""
    if function is None:
        return
    fetched = {source for domain in DOMAINS.values() for source in getattr(domain, "sources", ())} | {
        "moralchoice",
        "moralevals",
    }
    if types_alone or fetched & {*strings_of(str(arguments))} or ".py" in str(arguments):
        function = validate_call(wraps(function)(lambda *given, **named: None))
    try:
        function(**arguments)
    except PrerequisiteError as error:
        yield f"{error}."
    except Exception as error:
        yield f"{name} cannot be made with these arguments ({type(error).__name__}: {error})."


def missing(fields: Fields, folder: Path) -> Iterator[str]:
    """The logs that are not there, and what training needs."""
    for place in (place for name in ("logs", "log_file", "--log") for place in lines(fields, name)):
        if not {*"*?["} & {*place} and not (folder / place).exists():
            yield f"There is no {place} in {folder}; run an eval first, or choose one of the list."
    if verb_of(fields) == "train":
        if not value_of(fields, "method"):
            yield "No training method is chosen."
        elif not value_of(fields, "--model_name_or_path"):
            yield "--model_name_or_path is empty: give the model to start from."


def outside(words: Sequence[str], folder: Path) -> list[str]:
    """What is wrong with the words that name a place outside of the folder."""
    outsiders, before = [], ""
    for word in words:
        is_text = before in FREE_TEXT or word.startswith((*(f"{option}=" for option in FREE_TEXT), "system_prompt="))
        before = word
        text = "" if is_text else " ".join([word, *strings_of(word.partition("=")[2])])
        for part in re.split(r"[=,\s{}\[\]\"':]+", ADDRESS.sub("", text)):
            path = Path(part.partition("@")[0])
            if part.startswith("~") or not (folder / path).resolve().is_relative_to(folder):
                outsiders.append(f"{part} is outside of {folder}; use a path below it.")
    return outsiders


def strings_of(value: str) -> list[str]:
    """The texts in a value as YAML reads it, where a path may be written with escapes."""
    try:
        return [event.value for event in yaml.parse(value) if isinstance(event, yaml.ScalarEvent)]
    except (yaml.YAMLError, ValueError, RecursionError):
        return []
