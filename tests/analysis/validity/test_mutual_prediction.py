"""The validity study of mutual prediction on few questions, and its page."""

from typing import TYPE_CHECKING

import numpy as np
import pytest

from truthgym.analysis.validity.mutual_prediction import AGENTS, planted, replicate
from truthgym.models.agents.predictor import predict, types
from truthgym.scorers.mutual_predictability import NAME

if TYPE_CHECKING:
    import pandas as pd

HONEST = [f"honest, accuracy 0.{share}" for share in (60, 75, 90)]
STYLE, LIAR, COPIER = (next(name for name in AGENTS if word in name) for word in ("style", "liar", "copier"))


@pytest.fixture(scope="module")
def peers() -> "pd.DataFrame":
    return planted(5000, "peers")


def test_peers_come_out_as_planted(peers: "pd.DataFrame") -> None:
    frame = peers.set_index("agent")
    found, error = frame[NAME], frame["error"]
    assert list(found[HONEST]) == sorted(found[HONEST])
    assert found[HONEST[0]] > 2 * error[HONEST[0]]
    assert found["always yes"] == pytest.approx(0, abs=1e-12)
    assert abs(found["random"]) < 4 * error["random"]
    assert abs(found[STYLE]) < 4 * error[STYLE]
    assert found[LIAR] < -10 * error[LIAR], "this predictor expects honesty"
    assert found[COPIER] == found.max()


def test_a_predictor_without_a_view_of_liars_cannot_tell_them_apart() -> None:
    found = planted(500, "peers", liars=0.45).set_index("agent")[NAME]
    assert found.to_numpy() == pytest.approx(0, abs=1e-9)


def test_own_answers_do_not_show_a_liar_and_the_null_takes_away_style() -> None:
    frame = planted(3000, "own").set_index("agent")
    found = frame[NAME]
    assert found[LIAR] > 0
    assert frame["uplift"]["always yes"] > 0.15
    assert found["always yes"] == pytest.approx(0, abs=1e-9)
    assert abs(found[STYLE]) < 4 * frame["error"][STYLE]


def test_intervals_cover_the_planted_value(peers: "pd.DataFrame") -> None:
    frame = replicate(100, 20, "peers", peers)
    assert frame["coverage"].mean() > 0.9
    copier = frame.set_index("agent").loc[COPIER]
    assert copier["above 0"] == 1


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
