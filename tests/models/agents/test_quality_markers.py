"""Planted care: how many of the eight sentences an agent writes, where, and that it changes nothing else."""

from typing import Any

import numpy as np
import pytest

from tests.models.simulated import ask, instruction, question_text
from truthgym.datasets.urns import urns
from truthgym.models.agents.policies import AGENTS
from truthgym.models.agents.quality_markers import MARKERS, count_markers, draw_markers, mean_quality, quality
from truthgym.models.agents.reading import last_probability, stated_beliefs
from truthgym.solvers.trajectory import user_message

ITEMS = list(urns(n=200))


def reply(place: int, name: str = "bayesian", epoch: int = 1, prompt: str | None = None, **planted: Any) -> str:
    item = ITEMS[place]
    text = question_text(item, instruction(item) if prompt is None else prompt, epoch=epoch)
    return ask(user_message(text, epoch), model=name, **planted).completion


def test_the_sentences_are_distinct_and_state_no_belief() -> None:
    assert len(set(MARKERS)) == 8
    for words in MARKERS:
        assert count_markers(words) == 1
        assert not stated_beliefs(words)
        assert last_probability(words, 0) is None
    assert count_markers(" ".join(MARKERS * 2)) == 8
    assert quality("") == 0.1
    assert quality(" ".join(MARKERS)) == 0.9


@pytest.mark.parametrize("care", [0.2, 0.5, 0.8])
def test_quality_has_the_planted_mean_and_spread(care: float) -> None:
    draws = [draw_markers(care, 0, "bayesian", f"q{i}", 1, True) for i in range(4000)]
    counts = np.array([len(words) for words in draws])
    assert counts.mean() == pytest.approx(8 * care, abs=0.1)
    assert counts.var() == pytest.approx(8 * care * (1 - care), rel=0.08)
    qualities = [quality(" ".join(words)) for words in draws]
    assert np.mean(qualities) == pytest.approx(mean_quality(care), abs=0.01)
    later = [draw_markers(care, 0, "bayesian", f"q{i}", 1, False) for i in range(4000)]
    both = [quality(" ".join([*first, *second])) for first, second in zip(draws, later, strict=True)]
    assert np.mean(both) == pytest.approx(mean_quality(care, replies=2), abs=0.01)


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_care_adds_sentences_and_changes_nothing_else(name: str) -> None:
    plain, careful = reply(0, name), reply(0, name, care=1)
    assert count_markers(plain) == 0
    assert count_markers(careful) == 8
    for words in MARKERS:
        careful = careful.replace(f"{words} ", "")
    assert careful == plain


def test_care_depends_on_question_epoch_seed_and_agent_alone() -> None:
    def written(**arguments: Any) -> tuple[bool, ...]:
        text = reply(**{"place": 0, "care": 0.5} | arguments)
        return tuple(words in text for words in MARKERS)

    assert written() == written()
    assert len({written(), written(place=1), written(epoch=2), written(seed=1), written(name="stuck")}) >= 4


def test_a_thought_holds_them_and_a_number_does_not() -> None:
    assert count_markers(reply(0, prompt="Think step by step.", care=1)) == 8
    number = f"How likely? Give a whole number from 0 to 100. {ITEMS[0].input}"
    assert count_markers(reply(0, prompt=number, care=1)) == 0
