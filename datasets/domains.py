"""Domains by name, for those who ask questions besides the one that is asked."""

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

from inspect_ai.dataset import Sample

from truthgym.datasets.cmv_binary import cmv_binary
from truthgym.datasets.cmv_freeform import cmv_freeform
from truthgym.datasets.conceptual import conceptual
from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.forecasting import forecasting
from truthgym.datasets.intellectual import intellectual
from truthgym.datasets.loading.row_files import read_rows
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.openreview import openreview
from truthgym.datasets.question import Question, may_be_shown_with
from truthgym.datasets.research import research
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
}
"""Each domain's loader, by the name that its questions have as `domain`. All take `split`."""
BUNDLED = [name for name in DOMAINS if name != "urns"]
"""Domains whose questions come with the project: those that are not generated."""
TRUTH_SEEKING = Path(__file__).with_name("truth_seeking.jsonl")


def other_questions(domain: str, asked: Question, n: int, *key: object) -> list[Sample]:
    """Draw questions of a domain to be asked beside another one.

    They come from the domain's own questions with its default arguments, and of these from the train split, so that no
    question of the test split is used up. They have neither the asked question's event nor its proposition, and none
    was written after the day on which that is asked. Nothing of them is to be shown but the question and its evidence.

    Args:
        domain: A key of `DOMAINS`.
        asked: The question that they stand beside.
        n: How many; fewer are drawn where there are fewer.
        key: What the draw depends on: the same key gives the same questions.

    Raises:
        BadInput: An unknown domain, or one with fewer questions than that.
    """
    check_questions(domain, n)
    pool = []
    for item in _pool(domain):
        known = item.metadata_as(Question)
        if may_be_shown_with(asked, known.event, known.proposition, known.opened_on):
            pool.append(item)
    return random.Random(repr((domain, *key))).sample(pool, min(n, len(pool)))


def check_questions(domain: str, n: int) -> None:
    """Refuse to draw more questions of a domain than it has.

    Raises:
        BadInput: An unknown domain, or one with fewer questions in its train split.
    """
    if len(_pool(domain)) < n:
        held = len(_pool(domain))
        raise BadInput(f"{domain}: {n} other questions are wanted, and its train split has {held}; ask for fewer")


@cache
def _pool(domain: str) -> list[Sample]:
    one_of("domain", domain, list(DOMAINS))
    return list(DOMAINS[domain](split="train"))


@cache
def bundled(domain: str) -> list[Sample]:
    """All bundled questions of a domain of `BUNDLED`, in the order of its file."""
    return list(DOMAINS[domain]())


@cache
def truth_seeking_questions() -> list[str]:
    """Questions that are worth asking oneself before any other. A sequence: each rests on those before it."""
    return [str(row["question"]) for _, row in read_rows(TRUTH_SEEKING)]
