"""What holds for every generated world."""

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from inspect_ai.dataset import Sample
from numpy.typing import NDArray

from tests.datasets.reading_back import WORLDS, samples_of
from truthgym.datasets.cruxes import CruxesQuestion
from truthgym.datasets.domains import DOMAINS, GENERATED
from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.generated import GeneratedQuestion
from truthgym.datasets.question import Question

REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
    "urns": [
        ({"n": 0}, "urns: n=0 cannot be used; it must be greater than or equal to 1"),
        ({"draws": 2.5}, "draws=2.5 cannot be used"),
        ({"likelihood_ratio": 1}, "likelihood_ratio=1 cannot be used; it must be greater than 1"),
        ({"likelihood_ratio": 20}, "likelihood_ratio=20 cannot be used"),
        ({"base_rate": (0.8, 0.2)}, "base_rate=(0.8, 0.2) cannot be used"),
        ({"base_rate": float("inf")}, "base_rate=inf cannot be used"),
        ({"base_rate": "often"}, "base_rate='often' cannot be used"),
    ],
    "testimony": [
        ({"witnesses": 1}, "testimony: witnesses=1 cannot be used"),
        ({"witnesses": (2, 9)}, "witnesses=(2, 9) cannot be used; give one whole number between 2 and 8"),
        ({"witnesses": "two"}, "witnesses='two'"),
        ({"reports": (4, 3)}, "reports=(4, 3)"),
        ({"named": 1.5}, "named=1.5"),
        ({"late": -1}, "late=-1"),
    ],
    "disclosure": [
        ({"trials": 13}, "disclosure: trials=13"),
        ({"trials": 3, "shown": 3}, "shown=3 is not fewer than trials=3; lower it"),
        ({"ahead": 0}, "ahead=0"),
        ({"known": 1.1}, "known=1.1"),
        ({"pairs": 1}, "pairs=1"),
    ],
    "interventions": [
        ({"parts": 7}, "interventions: parts=7"),
        ({"parts": 4, "readings": 3}, "readings=3 is more than parts - 2 = 2; lower it"),
        ({"kind": "do"}, "kind='do'"),
        ({"kind": "counterfactual"}, "give learned=0"),
        ({"learned": 2}, "learned=2"),
        ({"cases": 3}, "cases=3"),
    ],
    "almanac": [
        ({"kind": "poll"}, "did you mean 'polls'?"),
        ({"history": 0}, "almanac: history=0 cannot be used"),
        ({"news": 13}, "news=13"),
        ({"ahead": 0}, "ahead=0"),
    ],
    "cruxes": [
        ({"reasons": 2}, "cruxes: reasons=2 cannot be used"),
        ({"rounds": 0}, "rounds=0"),
        ({"shown": 1.5}, "shown=1.5"),
    ],
}
"""Arguments that each world refuses, and what the error says. All refuse a split that there is none of."""
World = tuple[str, list[Sample]]
Floats = NDArray[np.float64]


@pytest.fixture(scope="module", params=GENERATED)
def world(request: pytest.FixtureRequest) -> World:
    return request.param, samples_of(request.param)


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
    assert {s.metadata_as(Question).split for s in DOMAINS[name](n=5, split="test")} == {"test"}


def test_the_card_shows_the_first_question(root: Path, world: World) -> None:
    name, made = world
    if name == "urns":  # its card shows an example by its numbers
        return
    card = (root / "datasets" / f"{name}.md").read_text()
    known = made[0].metadata_as(GeneratedQuestion)
    for text in (*str(made[0].input).split("\n\n"), *known.evidence, str(known.proposition)):
        assert text in card
    for reader, path in (("exact", known.posterior), ("naive", known.naive)):
        assert f"{reader}: {', '.join(f'{p:.4f}' for p in path)}" in card
    if name == "almanac":
        assert f"crowd: {known.crowd}" in card
    if name == "cruxes":
        assert f"noise floor is {made[0].metadata_as(CruxesQuestion).noise_floor:.4f}" in card


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [(name, *case) for name, cases in REFUSED.items() for case in [*cases, ({"split": "dev"}, "Unknown split 'dev'")]],
)
def test_arguments_out_of_range_are_refused(name: str, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        DOMAINS[name](**arguments)
    assert said in str(refused.value)


def final_and_outcome(items: Sequence[Sample]) -> tuple[Floats, Floats]:
    """The exact probability given all evidence, and whether the answer is yes."""
    final = np.array([item.metadata_as(Question).posterior[-1] for item in items])
    return final, np.array([item.target == "yes" for item in items], float)


def test_beliefs_are_a_martingale_in_every_wording(world: World) -> None:
    paths = [item.metadata_as(Question).posterior for item in world[1]]
    steps = max(map(len, paths))
    beliefs = np.array([[*path, *[path[-1]] * (steps - len(path))] for path in paths])
    surfaces = np.array([(item.metadata or {})["surface"] for item in world[1]])
    for now, after in pairwise(np.column_stack([beliefs, final_and_outcome(world[1])[1]]).T):
        for weight in (np.ones(len(now)), now - 0.5, np.abs(now - 0.5), *(surfaces == name for name in {*surfaces})):
            change = (after - now) * weight
            assert abs(change.sum()) <= 4 * math.sqrt(np.sum(change**2))


def test_nothing_but_the_stated_chances_tells_the_outcome(world: World) -> None:
    """No number of the metadata, length of a text or place in the set goes with what the posterior leaves open."""
    final, outcome = final_and_outcome(world[1])
    facts = pd.json_normalize([item.metadata or {} for item in world[1]]).select_dtypes("number")
    facts["place"] = range(len(facts))
    facts["length of the input"] = [len(str(item.input)) for item in world[1]]
    facts["length of the evidence"] = [len(str((item.metadata or {})["evidence"])) for item in world[1]]
    for name, sign in (facts - facts.mean()).fillna(0).items():
        spread = math.sqrt(np.sum(sign**2 * final * (1 - final)))
        assert abs(np.sum(sign * (outcome - final))) <= 4 * spread, name


def test_outcomes_follow_the_posteriors(world: World) -> None:
    """A reader whose beliefs are right on average, whatever is known, has z-values of standard deviation 1."""
    known = [item.metadata_as(Question) for item in world[1]]
    paths = [(item.metadata or {}).get("naive", q.posterior) for item, q in zip(world[1], known, strict=True)]
    yes = np.array([item.target == "yes" for item in world[1]], float)
    first, exact, naive = np.array(
        [[q.posterior[0], q.posterior[-1], path[-1]] for q, path in zip(known, paths, strict=True)]
    ).T

    def z(belief: np.ndarray, weight: np.ndarray) -> float:
        return float(np.sum((yes - belief) * weight) / math.sqrt(np.sum(belief * (1 - belief) * weight**2)))

    assert abs(z(first, np.ones(len(yes)))) < 4
    assert abs(z(first, first - 0.5)) < 4
    for weight in (np.ones(len(yes)), exact - 0.5, exact - first, *([naive - exact] if (naive != exact).any() else [])):
        assert abs(z(exact, weight)) < 4
    if world[0] != "urns":  # where the naive reader is exact
        assert z(naive, naive - exact) < -4, "the naive reader is found out"
    assert abs(z(1 - exact, exact - 0.5)) > 4, "outcomes the wrong way round are found out"
