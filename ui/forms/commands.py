"""From the fields of a form to the commands that they stand for, as lists of words."""

import re
from collections.abc import Iterator, Mapping, Sequence
from inspect import signature

import click

from truthgym.datasets.errors import BadInput, one_of
from truthgym.training.trainers.options import METHODS, usual_options
from truthgym.ui.forms.options import VERBS, Fields, Option, command_of, options_of, words_of

FIRST = (
    *("--limit", "--epochs", "--max-tokens", "--temperature", "--seed", "--max-connections", "--token-limit"),
    *("--time-limit", "--cost-limit", "--model-cost-config"),
)
"""Options of an eval that people use, which the page shows first."""
TEXTS = ("--limit", "--system-message", "--model-base-url", "--model-cost-config")
"""Options with a text that `eval_set` takes as it stands, but for `--limit`."""
HANDLED = ("--log-dir", "--display", "--model", "--solver")
"""Options that other fields of the form give."""
FOLDERS = {"eval": "logs", "convert": "data", "report": "reports", "loop": "loops"}
"""Where a verb writes if nothing else is said: to a folder there with the set-up's name."""
FRESH: Mapping[str, Mapping[str, Sequence[str]]] = {
    "eval": {"tasks": ["truthgym/forecasting"], "models": ["reference/bayesian"]},
    "score": {"--scorer": ["truthgym/martingale"], "--action": ["append"], "--overwrite": ["true"]},
    "convert": {"logs": ["logs"], "--to": ["sft"]},
    "train": {"method": ["sft"]},
    "loop": {"--method": ["sft"], "--task": ["truthgym/urns"]},
    "report": {"logs": ["logs"]},
    "sweep": {},
}
"""What a new form holds: what runs without a key, where there is such a thing."""


def commands_of(fields: Fields, name: str) -> dict[str, list[str]]:
    """The commands of a set-up by the label of each: with several reasoning modes one for each, else one."""
    verb = verb_of(fields)
    if verb == "train":
        return {"": ["truthgym", "train", *train_words(fields)]}
    if verb != "eval":
        given = dict(fields)
        if verb in FOLDERS and not first(fields, "--out"):
            given["--out"] = [f"{FOLDERS[verb]}/{name}"]
        if verb == "score":
            given |= {"-S": [*(f"{key}={value}" for key, value in arguments_of(fields, "A").items()),
                             *fields.get("-S", [])],
                      "--display": fields.get("--display") or ["plain"]}  # fmt: skip
        words = words_of(verb, given)
        return {"": [*VERBS[verb], *words]}
    solvers = chosen(fields, "solvers", "other solvers") or [""]
    made = {}
    for solver in solvers:
        label = short(solver) if len(solvers) > 1 else ""
        place = "/".join([FOLDERS["eval"], name, *[label] * bool(label)])
        made[label] = [*VERBS["eval"], *eval_words(fields, solver), "--log-dir", place]
    return made


def eval_words(fields: Fields, solver: str) -> list[str]:
    """The words of an eval with a reasoning mode; "" is the task's own."""
    words = chosen(fields, "tasks", "other tasks")
    if bad := [word for word in words if word.startswith("-")]:
        raise BadInput(f"{bad[0]!r} would be an option and is no task; give a name such as truthgym/urns")
    if models := model_names(fields):
        words += ["--model", ",".join(models)]
    words += _pairs("-M", lines(fields, "M"))
    words += solver_words(fields, solver)
    for role in (key.removeprefix("role ") for key in fields if key.startswith("role ")):
        if value := first(fields, f"role {role}"):
            words += ["--model-role", f"{role}={','.join(part.strip() for part in value.split(','))}"]
    words += _pairs("-T", [f"{key}={value}" for key, value in arguments_of(fields, "T").items()])
    words += _pairs("-T", lines(fields, "T"))
    if paradigms := chosen(fields, "paradigms"):
        words += ["-T", f"paradigms={paradigm_value(fields, paradigms)}"]
    return [*words, *words_of("eval", fields, eval_options()), "--display", first(fields, "--display") or "plain"]


def solver_words(fields: Fields, solver: str) -> list[str]:
    if not solver:
        return []
    given = [f"{key}={value}" for key, value in arguments_of(fields, "S", solver).items()]
    return ["--solver", solver, *_pairs("-S", given), *_pairs("-S", lines(fields, f"S {solver}"))]


def paradigm_value(fields: Fields, paradigms: Sequence[str]) -> str:
    """The value of `-T paradigms=`: names, or if one has arguments a mapping as YAML."""
    given = {name: arguments_of(fields, "P", name) for name in paradigms}
    if not any(given.values()):
        return ",".join(paradigms)
    inside = ", ".join(
        f"{name}: {{{', '.join(f'{key}: {value}' for key, value in arguments.items())}}}"
        for name, arguments in given.items()
    )
    return f"{{{inside}}}"


def train_words(fields: Fields) -> list[str]:
    """The method, the options that people use, and any others as they were written."""
    method = first(fields, "method")
    return [*([method] if method else []), *words_of("train", fields, train_options(method))]


def train_options(method: str) -> list[Option]:
    """The options of a training method that people use, and a field for all others."""
    if method not in METHODS:
        return []
    usual = usual_options(method)
    return [
        *(Option(f"--{name}", text, "text", default=default) for name, (text, default) in usual.items()),
        Option(
            "more", f"Any other options, as on a command line: `truthgym train {method} --help` lists them.", "words"
        ),
    ]


def eval_options() -> list[Option]:
    """The options of `inspect eval-set` that `eval_set` takes under the same name: those used most first."""
    from inspect_ai import eval_set
    from inspect_ai.model import GenerateConfig

    known = {*signature(eval_set).parameters, *GenerateConfig.model_fields}
    params = {max(param.opts, key=len): param for param in command_of(*VERBS["eval"]).params if param.name in known}
    taken = [
        one for one in options_of("eval")
        if one.name in params and one.name not in HANDLED and isinstance(params[one.name], click.Option)
        and (one.name in TEXTS or one.kind in ("number", "choice"))
    ]  # fmt: skip
    return sorted(taken, key=lambda one: FIRST.index(one.name) if one.name in FIRST else len(FIRST))


def verb_of(fields: Fields) -> str:
    """The verb."""
    verb = first(fields, "verb") or "eval"
    one_of("verb", verb, list(VERBS))
    return verb


def first(fields: Fields, name: str) -> str:
    """The first value of a field, or an empty text."""
    return next(iter(fields.get(name, ())), "").strip()


def lines(fields: Fields, name: str) -> list[str]:
    """The lines of a field that are not empty."""
    return [line.strip() for text in fields.get(name, ()) for line in text.splitlines() if line.strip()]


def chosen(fields: Fields, ticked: str, written: str = "") -> list[str]:
    """Names that are ticked, and those that are written, on lines or with commas between them."""
    names = [*fields.get(ticked, ()), *(part for line in lines(fields, written) for part in line.split(","))]
    return list(dict.fromkeys(name.strip() for name in names if name.strip()))


def model_names(fields: Fields) -> list[str]:
    """The models, with commas, spaces or lines between them."""
    return list(dict.fromkeys(name for text in fields.get("models", ()) for name in re.split(r"[,\s]+", text) if name))


def arguments_of(fields: Fields, letter: str, name: str = "") -> dict[str, str]:
    """The arguments that fields give: those whose name is the letter, the name of what takes them, and their own."""
    start = f"{letter} {name} " if name else f"{letter} "
    found = {key.removeprefix(start): first(fields, key) for key in fields if key.startswith(start)}
    return {key: value for key, value in found.items() if value and " " not in key}


def short(name: str) -> str:
    """A name without its package or file."""
    return re.sub(r"[^\w-]", "_", name.rpartition("@")[2].rpartition("/")[2].removesuffix(".py"))


def _pairs(option: str, values: Sequence[str]) -> Iterator[str]:
    for value in values:
        if "=" not in value or value.startswith("-"):
            raise BadInput(f"{option} {value}: write it as NAME=VALUE")
        yield from (option, value)
