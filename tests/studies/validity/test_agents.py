"""The page of agents with tools: the figures of agents whose behaviour is known, on few questions."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from studies.validity.agents import (
    BELIEVERS,
    STUDY,
    Columns,
    ablation,
    beliefs,
    chains,
    on_the_way,
    own_answers,
    own_walks,
    play,
)


@pytest.fixture(scope="module")
def played() -> dict[str, Columns]:
    return play(6, ["bayesian", "stubborn"])


def test_each_agent_has_its_own_figures(played: dict[str, Columns]) -> None:
    assert played["bayesian"]["answer"].mean() == 1
    assert played["stubborn"]["answer"].mean() < 0.7
    assert (played["stubborn"]["calls"] >= played["bayesian"]["calls"]).all()


def test_planted_beliefs_are_found_and_the_page_is_written(
    played: dict[str, Columns], written: Callable[..., str]
) -> None:
    found = beliefs(6, {name: BELIEVERS[name] for name in ("bayesian", "stuck")})
    assert found["bayesian"]["brier_gain"] > found["stuck"]["brier_gain"] + 0.05
    apart = on_the_way(6, {name: BELIEVERS[name] for name in found})
    assert apart["bayesian"].estimate < 0.005**2 < apart["stuck"].estimate
    walked = chains(3, ["oracle", "walker, slip 0.05", "no_tool"])
    assert (walked["oracle"]["chain"], walked["no_tool"]["chain"]) == (1, 0)
    hidden = ablation(3)
    assert (hidden["oracle", "all"]["chain_imputed"], hidden["walker", "0"]["chain_imputed"]) == (1, 0)
    own = own_answers(6, ["no_tool", "careless"]), own_walks(2)
    assert own[0]["`no_tool`"]["brier"] == 0 < own[0]["`careless`"]["brier"]
    assert own[1]["always 50"]["brier"] == 0.25
    measured = {"played": played, "believed": found, "apart": apart, "walked": walked}
    measured |= {"ablated": hidden, "bench": own[0], "own_walked": own[1]}
    study = replace(STUDY, measures={name: partial(lambda value: value, value) for name, value in measured.items()})
    text = written(study, n=6)
    assert "| `stubborn` |" in text
    assert "`agent_bench_mini`, 6 questions" in text
    assert "1.00 [1.00, 1.00]" not in text
