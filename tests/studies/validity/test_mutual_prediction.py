"""The validity study of mutual prediction on few questions, and its page."""

from typing import TYPE_CHECKING

import numpy as np
import pytest

from studies.validity.mutual_prediction import (
    AGENTS,
    DESIGNS,
    HONEST,
    drawn_by_task,
    planted,
    run,
    trials_of_task,
    world,
)
from truthgym.models.agents.predictor import predict, types
from truthgym.scorers.mutual_predictability import NAME
from truthgym.scorers.mutual_prediction.answers import Answer

if TYPE_CHECKING:
    import pandas as pd

STYLE, KIND, LIAR, COPIER = (
    next(name for name in AGENTS if word in name) for word in ("style only", "kind", "liar", "copier")
)


@pytest.fixture(scope="module")
def peers() -> "pd.DataFrame":
    return planted(5000, "peers")


def test_peers_come_out_as_planted(peers: "pd.DataFrame") -> None:
    frame = peers.set_index("agent")
    found, error = frame[NAME], frame["error"]
    honest = found[list(HONEST)].to_list()
    assert honest == sorted(honest)
    assert honest[0] > 2 * error["honest, accuracy 0.60"]
    assert found["always yes"] == pytest.approx(0, abs=1e-12)
    assert abs(found["random"]) < 4 * error["random"]
    assert abs(found[STYLE]) < 4 * error[STYLE]
    assert found[LIAR] < -10 * error[LIAR], "this predictor expects honesty"
    assert found[COPIER] == found.max()


@pytest.mark.parametrize("design", DESIGNS)
def test_draws_do_not_depend_on_what_is_answered(design: str) -> None:
    """Review of October: identical answers were left out trial by trial, so agreement was."""
    drawn = drawn_by_task(40, design, seed=5)
    seen = world(40, np.random.default_rng(0))
    says = [np.where(part == 1, "Yes", "No") for part in (AGENTS[LIAR](seen, np.random.default_rng(1)), seen.peer)]
    replies = tuple([Answer(str(side), f"My answer to this is now {side}.") for side in part] for part in says)
    trials = trials_of_task(40, design, 5, (replies[0], replies[1]))
    predicted = says[0] if design == "own" else says[1]
    assert len(trials) == len(drawn.target) > 30
    for trial, target, context, null in zip(trials, drawn.target, drawn.context, drawn.null, strict=True):
        assert (trial.question_id, trial.answer) == (str(target), predicted[target])
        assert trial.context == [(str(one), says[0][one]) for one in context]
        assert trial.null == [(str(one), says[0][other]) for one, other in zip(context, null, strict=True)]


@pytest.mark.parametrize("design", DESIGNS)
def test_trials_of_the_task_come_out_as_planted(design: str, peers: "pd.DataFrame") -> None:
    truth = (peers if design == "peers" else planted(5000, design)).set_index("agent")
    found = run(600, design, 0)
    for agent, one in found.items():
        planted_value, error = truth[NAME][agent], np.hypot(one.stderr, truth["error"][agent])
        assert abs(one.estimate - planted_value) <= 4 * error + 1e-9, agent
    assert found["always yes"].estimate == pytest.approx(0, abs=1e-12)
    best = next(one for name, one in found.items() if name.startswith("copier" if design == "peers" else "opposite"))
    assert best.lower > truth[NAME]["honest, accuracy 0.60"], "the check must be able to fail"


def test_a_predictor_that_expects_liars_cannot_tell_them_apart(peers: "pd.DataFrame") -> None:
    fair = planted(500, "peers", liars=0.45).set_index("agent")[NAME]
    assert fair.to_numpy() == pytest.approx(0, abs=1e-9)
    wary = planted(5000, "peers", liars=0.8).set_index("agent")[NAME]
    assert wary[LIAR] < 0 < wary["honest, accuracy 0.90"], "the other model is then a liar too"


def test_own_answers_do_not_show_a_liar_and_the_null_takes_away_style() -> None:
    frame = planted(3000, "own").set_index("agent")
    found = frame[NAME]
    assert found[LIAR] > 0
    assert frame["uplift"]["always yes"] > 0.15
    assert found["always yes"] == pytest.approx(0, abs=1e-9)
    assert abs(found[STYLE]) < 4 * frame["error"][STYLE]


def test_the_predictor_is_bayesian() -> None:
    """Against enumeration over types and truths: two shown answers of a respondent, then its third."""
    if_yes, if_no, prior = types(0.1)
    known, shown = [0.7, 0.2, 0.6], [1.0, 0.0]
    joint = {0: 0.0, 1: 0.0}
    for yes, no, weight in zip(if_yes, if_no, prior, strict=True):
        for truths in np.ndindex(2, 2, 2):
            chance = weight
            for place, truth in enumerate(truths):
                chance *= known[place] if truth else 1 - known[place]
                says = yes if truth else no
                if place < 2:
                    chance *= says if shown[place] else 1 - says
            joint[1] += chance * (yes if truths[2] else no)
            joint[0] += chance * (1 - (yes if truths[2] else no))
    found = predict(np.array([[[*shown, np.nan]]]), np.array([known]), 0, 0.1)
    assert prior.sum() == pytest.approx(1)
    assert found[0] == pytest.approx(joint[1] / (joint[0] + joint[1]), abs=1e-12)
