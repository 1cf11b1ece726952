"""Studies of reward models: their replies, labels and figures on cases whose answer is known."""

import csv
from pathlib import Path

import numpy as np
import pytest

from studies.training import reward_studies
from studies.training.reward_studies import flat, make_replies

GROUPS = make_replies(40, 8, 0, "known")
REPLIES = flat(GROUPS)
QUALITY = np.array([one.quality for one in REPLIES])


def test_a_judge_without_noise_gives_the_quality(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reward_studies, "NOISE", 0.0)
    assert 0.1 + 0.8 * reward_studies.judged(REPLIES, 0).mean(axis=1) == pytest.approx(QUALITY)


def test_pairs_go_by_the_scores() -> None:
    pairs = reward_studies.pairs_of(GROUPS[:3], QUALITY[:24])
    assert len(pairs) == 3 * 28
    assert all(pair.chosen.quality >= pair.rejected.quality for pair in pairs)
    assert {pair.chosen.prompt == pair.rejected.prompt for pair in pairs} == {True}


def test_shifted_replies_are_longer_by_what_adds_no_quality() -> None:
    shifted = flat(make_replies(40, 8, 0, "shifted"))
    assert np.mean([one.quality for one in shifted]) == pytest.approx(QUALITY.mean(), abs=0.05)
    words = [np.mean([len(one.text.split()) for one in some]) for some in (REPLIES, shifted)]
    assert words[1] > words[0] + 10
    assert not {one.text for one in REPLIES} & {one.text for one in shifted}


def test_best_of_takes_the_highest_and_shares_ties() -> None:
    best = np.mean([max(one.quality for one in group) for group in GROUPS])
    assert reward_studies.best_of(GROUPS, QUALITY) == pytest.approx(best)
    assert reward_studies.best_of(GROUPS, np.zeros(len(QUALITY))) == pytest.approx(QUALITY.mean())


def test_each_study_has_a_row_for_each_arm(tmp_path: Path) -> None:
    reward_studies.main(["all", str(tmp_path), "--tables", str(tmp_path), "--seeds", "1", "--models", "words"])
    found = {}
    for name in reward_studies.STUDIES:
        with (tmp_path / f"{name}.csv").open(encoding="utf-8") as file:
            found[name] = list(csv.DictReader(file))
    proxies = {row["proxy"]: row for row in found["rubric"]}
    assert list(proxies) == ["preferences", "rubric"]
    assert float(proxies["rubric"]["in order, known"]) > 0.9
    assert float(proxies["preferences"]["filler, share up"]) > 0.5
    spread = {row["replies"]: float(row["spread"]) for row in found["ensemble"]}
    assert spread["shifted"] > spread["known"], "members disagree about what they were not trained on"
    arms = {row["arm"]: row for row in found["filter"]}
    assert float(arms["top half"]["wrong kept"]) < float(arms["random half"]["wrong kept"])
