"""What holds for every generated world."""

import math
from pathlib import Path

import numpy as np
import pytest
from inspect_ai.dataset import Sample

from truthgym.datasets.domains import DOMAINS, GENERATED
from truthgym.datasets.loading.generated import GeneratedQuestion, logit, probability

OWN_TESTS = ("urns", "almanac", "cruxes")
"""Worlds whose files of tests have these."""
World = tuple[str, list[Sample]]


@pytest.fixture(scope="module", params=[world for world in GENERATED if world not in OWN_TESTS])
def world(request: pytest.FixtureRequest) -> World:
    return request.param, list(DOMAINS[request.param](n=600))


def test_a_question_is_read_back_from_any_text_that_holds_it(world: World) -> None:
    name, made = world
    find = GENERATED[name]
    for item in made[:60]:
        known = item.metadata_as(GeneratedQuestion)
        whole = "\n".join([str(item.input), *known.evidence])
        seen = find(f"{whole}\nAs said, {known.evidence[0]} The end.")
        assert seen is not None
        assert (seen.asked, seen.proposition) == (item.input, known.proposition)
        assert whole[: seen.evidence_ends] == whole
        for prior, found, path in (
            (seen.prior, seen.log_likelihood_ratios, known.posterior),
            (seen.naive_prior, seen.naive_log_likelihood_ratios, known.naive),
        ):
            assert prior is not None
            beliefs = [probability(logit(prior) + math.fsum(found[:k])) for k in range(len(found) + 1)]
            assert beliefs == pytest.approx(path)
        part = find("\n".join([known.evidence[0], str(item.input)]))
        assert part is not None
        assert len(part.log_likelihood_ratios) == 1
    assert find("Did the ferry sail?") is None
    assert len({item.metadata_as(GeneratedQuestion).surface for item in made[:60]}) == 4


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
