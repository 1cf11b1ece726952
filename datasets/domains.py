"""Domains by name, and the draw of other questions for solvers that ask several."""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, get_args

from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser
from pydantic import ValidationError

from truthgym.datasets.almanac import almanac
from truthgym.datasets.cmv_binary import cmv_binary
from truthgym.datasets.cmv_freeform import cmv_freeform
from truthgym.datasets.conceptual import conceptual
from truthgym.datasets.cruxes import cruxes
from truthgym.datasets.disclosure import disclosure
from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.forecasting import forecasting
from truthgym.datasets.intellectual import intellectual
from truthgym.datasets.interventions import interventions
from truthgym.datasets.loading.domain import file_of
from truthgym.datasets.loading.inspect_tasks import create_task
from truthgym.datasets.loading.row_files import FILE_SUFFIXES, read_rows
from truthgym.datasets.loading.selection import Questions, select
from truthgym.datasets.openreview import openreview
from truthgym.datasets.question import Question, Split, may_be_shown_with, plain_question
from truthgym.datasets.questions import questions
from truthgym.datasets.research import research
from truthgym.datasets.testimony import testimony
from truthgym.datasets.urns import urns
from truthgym.datasets.wildchat import wildchat

DOMAINS: dict[str, Callable[..., Questions]] = {
    "forecasting": forecasting,
    "research": research,
    "openreview": openreview,
    "cmv_binary": cmv_binary,
    "cmv_freeform": cmv_freeform,
    "conceptual": conceptual,
    "intellectual": intellectual,
    "wildchat": wildchat,
    "urns": urns,
    "testimony": testimony,
    "disclosure": disclosure,
    "interventions": interventions,
    "almanac": almanac,
    "cruxes": cruxes,
}
"""Each domain, by the name that its questions have as `domain`. Calling it loads them; all take `split`."""
LOADERS = DOMAINS | {"questions": questions}
"""All of them, and one's own questions, which are in a file."""
OWN = ("FILE.jsonl", "FILE.csv", "FILE.parquet", "FILE.py@TASK")
Domain = str | Mapping[str, Mapping[str, Any] | None]
"""A domain as a task takes it: a key of `LOADERS`, one of `OWN`, or {one of these: {argument: value}}."""
NAIVE = {
    "urns": "",
    "testimony": "counts each report as that of a witness of its own",
    "disclosure": "takes what somebody chose to show for a random sample",
    "interventions": "takes what was set for something that was seen",
    "almanac": "takes the last figure for the state of the world in that week",
    "cruxes": "counts reasons as if all of them weighed the same",
}
"""What the naive reader does wrong in each domain whose questions are generated; in `urns` there is none."""
GENERATED = tuple(NAIVE)
"""Domains whose questions are generated, with the exact posterior after each piece of evidence."""
BUNDLED = [name for name in DOMAINS if name not in GENERATED]
TRUTH_SEEKING = Path(__file__).with_name("truth_seeking.jsonl")


def other_questions(domain: str, asked: Question, n: int, *key: object) -> list[Sample]:
    """Draw questions of a domain to be asked together with another one."""
    file = None if domain in DOMAINS else file_of(domain, asked.event)
    check_questions(domain, n, file)
    pool = []
    for item in _train_split(domain, file):
        facts = item.metadata_as(Question)
        if may_be_shown_with(asked, facts.event, facts.proposition, facts.opened_on):
            pool.append(item)
    return random.Random(repr((domain, *key))).sample(pool, min(n, len(pool)))


def check_questions(domain: str, n: int, file: str | None = None) -> None:
    """Check that a domain, or a file of its rows, has enough questions to draw n from its train split."""
    available = len(_train_split(domain, file))
    if available < n:
        raise BadInput(
            f"{file or domain}: {n} other questions were requested, but its train split has {available}; use fewer"
        )


def domain_arguments(domain: object) -> tuple[str, dict[str, Any]]:
    """The name and the arguments of a domain that a task takes as an argument."""
    by_name = {domain: {}} if isinstance(domain, str) else domain
    if not isinstance(by_name, Mapping) or len(by_name) != 1:
        raise BadInput(f"domain={domain!r} cannot be used; give one name, or {{name: {{argument: value}}}}")
    (name, arguments), *_ = by_name.items()
    if arguments is not None and not isinstance(arguments, Mapping):
        raise BadInput(f"domain: {name}: {arguments!r} cannot be used; give its arguments as {{argument: value}}")
    named = {str(argument): value for argument, value in (arguments or {}).items()}
    return ("questions", {"source": name} | named) if str(name).endswith(FILE_SUFFIXES) else (str(name), named)


def domain_questions(domain: object, defaults: Mapping[str, Any]) -> tuple[str, Questions]:
    """The questions of a domain that a task takes as an argument, and its name."""
    name, arguments = domain_arguments(domain)
    if "/" in name or ".py" in name:
        return name, task_questions(name, arguments, **defaults)
    one_of("domain", name, [*LOADERS, *OWN])
    parameters = [p.name for p in signature(LOADERS[name]).parameters.values() if p.kind is not p.VAR_KEYWORD]
    for argument in arguments:
        one_of(f"argument of {name}", argument, parameters)
    if name == "questions" and "source" not in arguments:
        raise BadInput(
            "domain=questions needs a file; write -T domain=FILE.jsonl, or -T 'domain={questions: {source: FILE.csv}}'"
        )
    # Without `n` the domain uses its own default, which for a generator is not None.
    defaults = {key: value for key, value in defaults.items() if value is not None}
    return name, LOADERS[name](**(defaults | arguments))


def task_questions(name: str, arguments: Mapping[str, Any], n: int | None, seed: int, split: str) -> Questions:
    """The questions of an Inspect task: FILE.py@TASK, or a registered one such as inspect_evals/boolq."""

    def samples() -> Iterator[Sample]:
        for place, item in enumerate(create_task(name, arguments).dataset, 1):
            item.id = place if item.id is None else item.id  # as Inspect numbers them
            yield _as_question(item, name)

    return select(name, samples(), split=split, n=n, seed=seed)


def _as_question(item: Sample, task: str) -> Sample:
    """A sample of any task as a question of Truthgym's: of a multiple-choice question, whether one choice is right."""
    own = item.metadata or {}
    with suppress(ValidationError):
        Question.model_validate(own)
        return item
    targets = [item.target] if isinstance(item.target, str) else item.target
    messages = [ChatMessageUser(content=item.input)] if isinstance(item.input, str) else list(item.input)
    text, choices = messages[-1].text, item.choices or []
    plain = plain_question(str(item.id), text, targets, choices, domain=task)
    fields = plain.model_dump(mode="json", include=set(Question.model_fields)) | {"options": []}
    fields["form"] = "binary" if plain.proposition else "free"
    if own.get("split") in get_args(Split):
        fields["split"] = own["split"]
    asked = "\n\n".join([text, *["\n".join(plain.options)] * bool(plain.options)])
    outcome = {1.0: "yes", 0.0: "no"}.get(plain.outcome) if plain.outcome is not None else None
    other = {f"task_{key}" if key in fields else key: value for key, value in own.items()}
    return Sample(
        id=str(item.id),
        input=asked if len(messages) == 1 else [*messages[:-1], ChatMessageUser(content=asked)],
        target=outcome or ("" if plain.proposition else item.target),
        metadata=fields | other,
    )


@cache
def _train_split(domain: str, file: str | None = None) -> list[Sample]:
    if file:
        return list(LOADERS[domain](file, split="train"))
    one_of("domain", domain, list(DOMAINS))
    return list(DOMAINS[domain](split="train", **_all_parts(domain)))


def _all_parts(domain: str) -> dict[str, str]:
    return {"part": "all"} if getattr(DOMAINS[domain], "parts", None) else {}


@cache
def bundled(domain: str) -> list[Sample]:
    """All bundled questions of a domain of `BUNDLED`, of all parts, in the order of its files."""
    return list(DOMAINS[domain](**_all_parts(domain)))


@cache
def truth_seeking_questions() -> list[str]:
    """Questions worth asking oneself before any other. A sequence: each builds on those before it."""
    return [str(row["question"]) for _, row in read_rows(TRUTH_SEEKING)]
