"""What is wrong with a set-up before it starts, in whole sentences."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from truthgym.datasets.errors import BadInput, did_you_mean
from truthgym.datasets.inspect_private import PrerequisiteError, parse_decorators
from truthgym.evallog.discovery import every_log
from truthgym.tasks.domain_task import SCORER_BY_NAME
from truthgym.ui.forms.commands import (
    FOLDERS,
    VERBS,
    Fields,
    arguments_of,
    check_words,
    commands_of,
    model_names,
    options_of,
    script_of,
    selected,
    short,
    value_of,
    verb_of,
)
from truthgym.ui.forms.registry import SCORERS, SOLVERS, TASKS, Choice, choices, is_set, reference_models, variables_of
from truthgym.ui.jobs import refuse_keys

FREE_TEXT = ("--system-message",)
"""Options whose text is for a model and holds no path."""
LOOKED_AT = 20
"""Most logs in the folder of a set-up that are looked at for what they are of."""
ADDRESS = re.compile(r"https?://[^\s,;\[\]{}\"']*")


def problems(fields: Fields, name: str, folder: Path) -> list[str]:
    """What keeps a set-up from being started. Empty if nothing does."""
    try:
        refuse_keys([*typed(fields)], folder)
    except BadInput as error:
        return [str(error.message)]
    problems_found = [*eval_problems(fields, folder)] if verb_of(fields) == "eval" else [*missing(fields)]
    problems_found += [*scorer_problems(fields)] if verb_of(fields) == "score" else []
    try:
        commands = commands_of(fields, name)
        for words in commands.values():
            problems_found += outside(words, folder)
            if not problems_found:
                check_words(verb_of(fields), words[len(VERBS[verb_of(fields)]) :])
        if not problems_found:
            script_of(commands)
    except Exception as error:  # as the parser or YAML says it
        problems_found.append(str(getattr(error, "message", error)).replace("\\[", "["))
    return list(dict.fromkeys(problems_found))


def warnings(fields: Fields, name: str, folder: Path) -> list[str]:
    """What a reader should know before a start. It keeps nothing from being started."""
    if verb_of(fields) != "eval":
        return []
    roles = [part.strip() for key in fields if key.startswith("role ") for part in value_of(fields, key).split(",")]
    keys = [
        f"{model} needs a key: neither the environment of this server nor {folder}/.env sets {' or '.join(variables)}."
        for model in dict.fromkeys([*model_names(fields), *filter(None, roles)])
        if (variables := variables_of(model)) and not any(is_set(variable, folder) for variable in variables)
    ]
    return [*keys, *other_logs(fields, folder / FOLDERS["eval"] / name)]


def other_logs(fields: Fields, place: Path) -> Iterator[str]:
    """That the folder of the set-up's logs holds one of another task or model, which `inspect eval-set` refuses."""
    tasks = {short(name) for name in selected(fields, "tasks", "other tasks")}
    for path in sorted(place.rglob("*.eval"))[:LOOKED_AT]:
        try:
            (log,) = every_log([path])
        except (PrerequisiteError, OSError):
            continue  # it is being written
        if short(log.header.eval.task) not in tasks or log.header.eval.model not in model_names(fields):
            yield (
                f"{place.relative_to(place.parent.parent)} holds a log of {log.header.eval.task} on "
                f"{log.header.eval.model}, which is no part of this set-up: inspect eval-set will refuse the folder. "
                "Give the set-up another name."
            )
            return


def typed(fields: Fields) -> Iterator[str]:
    """All that was typed, line by line, as NAME=VALUE where the field is an argument's."""
    for field, values in fields.items():
        start = f"{field.rpartition(' ')[2]}=" if " " in field else ""
        yield from (f"{start}{line}" for text in values for line in text.splitlines())


def eval_problems(fields: Fields, folder: Path) -> Iterator[str]:
    tasks, solvers = selected(fields, "tasks", "other tasks"), selected(fields, "solvers", "other solvers")
    scorers = selected(fields, "paradigms")
    if not tasks:
        yield "No task is chosen; tick one."
    if not model_names(fields):
        yield "No model is given; reference/bayesian needs no key."
    for kind, names, what in ((TASKS, tasks, "task"), (SOLVERS, solvers, "reasoning mode")):
        yield from (problem for name in names for problem in unknown(choices(kind), name, what, folder))
    task_arguments = arguments_of(fields, "T")
    for choice in (choices(TASKS)[name] for name in tasks if name in choices(TASKS)):
        yield from argument_problems(choice, [*task_arguments, *(["paradigms"] if scorers else [])], tasks)
    for choice in (choices(SOLVERS)[name] for name in solvers if name in choices(SOLVERS)):
        yield from argument_problems(choice, list(arguments_of(fields, "S", choice.name)), [])
    for name in scorers:
        scorer = choices(SCORERS).get(f"truthgym/{name}")
        if scorer is None:
            yield f"There is no scorer {name!r}; {did_you_mean(name, list(SCORER_BY_NAME))}tick one of the list."
            continue
        arguments = arguments_of(fields, "P", name)
        yield from argument_problems(scorer, list(arguments), [])
        for role in needed_roles(name, arguments):
            if not value_of(fields, f"role {role}"):
                yield f"The scorer {name} needs a model in the role {role}; give one below Roles."
    for model in (name for name in model_names(fields) if name.startswith("reference/")):
        if model not in reference_models():
            near = did_you_mean(model, list(reference_models()))
            yield f"There is no simulated agent {model}; {near}the list of models names them."
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


def argument_problems(choice: Choice, names: Sequence[str], among: Sequence[str]) -> Iterator[str]:
    accepted = [argument.name for argument in choice.arguments]
    for name in names:
        if name not in accepted:
            also = " (arguments go to all chosen tasks: choose those that take them, or start them apart)"
            near = f"{did_you_mean(name, accepted)}it takes: {', '.join(accepted)}."
            yield f"{choice.name} takes no argument {name!r}{also * (len(among) > 1)}; {near}"
    for argument in choice.arguments:
        if argument.required and argument.name not in names:
            yield f"{choice.name} needs the argument {argument.name!r}."


def scorer_problems(fields: Fields) -> Iterator[str]:
    scorer = choices(SCORERS).get(value_of(fields, "--scorer"))
    if scorer:
        yield from argument_problems(scorer, list(arguments_of(fields, "A")), [])


def missing(fields: Fields) -> Iterator[str]:
    """The options that the command requires and the form leaves empty."""
    for option in options_of(verb_of(fields)):
        if option.required and not value_of(fields, option.name) and option.name not in ("--out", "arguments"):
            yield f"{option.name.strip('-').replace('_', ' ')} is empty, and the command needs it."
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
    except yaml.YAMLError:
        return []
