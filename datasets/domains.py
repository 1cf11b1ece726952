"""Domains by name, for those who ask questions besides the one that is asked."""

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

from inspect_ai.dataset import Dataset, Sample

from truthgym.datasets.forecasting import forecasting
from truthgym.datasets.question import BadInput, Question, one_of, read_rows
from truthgym.datasets.urns import urns

DOMAINS: dict[str, Callable[..., Dataset]] = {"forecasting": forecasting, "urns": urns}
"""Each domain's loader, by the name that its questions have as `domain`. All take `split`."""
TRUTH_SEEKING = Path(__file__).with_name("truth_seeking.jsonl")


def other_questions(domain: str, asked: Question, n: int, *key: object) -> list[Sample]:
    """Draw questions of a domain to be asked beside another one.

    They come from the train split, so that no question of the test split is used up, and have neither the asked
    question's event nor its proposition. Nothing of them is to be shown but the question and its evidence.

    Args:
        domain: A key of `DOMAINS`.
        asked: The question that they stand beside.
        n: How many.
        key: What the draw depends on: the same key gives the same questions.

    Raises:
        BadInput: An unknown domain, or too few questions in it.
    """
    pool = [
        item
        for item in _pool(domain)
        if (known := item.metadata_as(Question)).event != asked.event
        and (known.proposition is None or known.proposition != asked.proposition)
    ]
    if len(pool) < n:
        raise BadInput(f"{domain}: {n} other questions are wanted, and its train split has {len(pool)}; ask for fewer")
    return random.Random(repr((domain, *key))).sample(pool, n)


@cache
def _pool(domain: str) -> list[Sample]:
    one_of("domain", domain, list(DOMAINS))
    return list(DOMAINS[domain](split="train"))


@cache
def truth_seeking_questions() -> list[str]:
    """Questions that are worth asking oneself before any other. A sequence: each rests on those before it."""
    return [str(row["question"]) for _, row in read_rows(TRUTH_SEEKING)]
