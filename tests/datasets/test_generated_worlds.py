"""What holds for every generated world."""

import math
from pathlib import Path

import numpy as np
import pytest
from inspect_ai.dataset import Sample

from tests.datasets.reading_back import WORLDS
from truthgym.datasets.domains import DOMAINS, GENERATED
from truthgym.datasets.loading.generated import GeneratedQuestion
from truthgym.datasets.question import Question

OWN_TESTS = ("urns", "almanac", "cruxes")
"""Worlds whose files of tests have these."""
World = tuple[str, list[Sample]]


@pytest.fixture(scope="module", params=[world for world in GENERATED if world not in OWN_TESTS])
def world(request: pytest.FixtureRequest) -> World:
    return request.param, list(DOMAINS[request.param](n=600))


@pytest.mark.parametrize("name", GENERATED)
def test_the_text_holds_what_the_metadata_say(name: str) -> None:
    made = list(DOMAINS[name](n=60))
    for item in made:
        known = item.metadata_as(Question)
        for pieces in {0, 1, len(known.evidence)}:
            text = WORLDS[name]([str(item.input), *known.evidence[:pieces]])
            assert text
            assert text.proposition == known.proposition
            assert text.exact == pytest.approx(known.posterior[: pieces + 1])
            assert text.naive == pytest.approx((item.metadata or {}).get("naive", known.posterior)[: pieces + 1])
    assert len({(item.metadata or {})["surface"] for item in made}) >= 4


def test_a_longer_set_begins_with_the_shorter_one(world: World) -> None:
    name, made = world
    assert [s.model_dump() for s in DOMAINS[name](n=10)] == [s.model_dump() for s in made[:10]]
    assert not {str(s.input) for s in DOMAINS[name](n=10, seed=1)} & {str(s.input) for s in made}
    assert {s.metadata_as(GeneratedQuestion).split for s in DOMAINS[name](n=5, split="test")} == {"test"}


def test_the_card_shows_the_first_question(root: Path, world: World) -> None:
    name, made = world
    card = (root / "datasets" / f"{name}.md").read_text()
    known = made[0].metadata_as(GeneratedQuestion)
    for text in (str(made[0].input), *known.evidence, str(known.proposition)):
        assert text in card
    for reader, path in (("exact", known.posterior), ("naive", known.naive)):
        assert f"{reader}: {', '.join(f'{p:.4f}' for p in path)}" in card


def test_outcomes_follow_the_posteriors(world: World) -> None:
    """A reader whose beliefs are right on average, whatever is known, has z-values of standard deviation 1."""
    known = [item.metadata_as(GeneratedQuestion) for item in world[1]]
    yes = np.array([item.target == "yes" for item in world[1]], float)
    first, exact, naive = np.array([[q.posterior[0], q.posterior[-1], q.naive[-1]] for q in known]).T

    def z(belief: np.ndarray, weight: np.ndarray) -> float:
        return float(np.sum((yes - belief) * weight) / math.sqrt(np.sum(belief * (1 - belief) * weight**2)))

    assert abs(z(first, np.ones(len(yes)))) < 4
    assert abs(z(first, first - 0.5)) < 4
    for weight in (np.ones(len(yes)), exact - 0.5, exact - first, naive - exact):
        assert abs(z(exact, weight)) < 4
    assert z(naive, naive - exact) < -4, "the naive reader is found out"
    assert abs(z(1 - exact, exact - 0.5)) > 4, "outcomes the wrong way round are found out"
