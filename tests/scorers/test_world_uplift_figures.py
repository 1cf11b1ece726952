"""Figures of world uplift, from scores whose figures follow by arithmetic."""

import numpy as np
import pytest
from inspect_ai.scorer import SampleScore, Score

from tests.scorers.main_figures import MAIN_FIGURES
from truthgym.scorers.forecasts.forecasting import Per, copied_share
from truthgym.scorers.world_uplift import summarise


def answer(
    question: int,
    uplift: float,
    *,
    text: float = 0,
    shuffled: float = 0,
    tokens: float = 1000,
    copied: float = 0,
    model: str | None = None,
    per: Per = "observation",
    epoch: int = 1,
) -> SampleScore:
    placebos = {"placebo_text": text, "placebo_shuffled": shuffled, "placebo_question": -9.0}
    value = {"uplift": uplift, **placebos, "observation_tokens": 10, "tokens": tokens, "copied": copied}
    metadata = {"question": f"q{question}", "model": model, "per": per, "epoch": epoch, "event": f"q{question}"}
    return SampleScore(score=Score(value=value, metadata=metadata), sample_id=f"q{question}/{model}/{epoch}")


def test_the_headline_is_net_of_the_stronger_placebo() -> None:
    found = summarise([answer(1, 1, text=0.5), answer(2, 2, shuffled=1.5), answer(3, 3, text=-1), answer(4, 4)])
    assert found["world_uplift"] == pytest.approx((0.5 + 0.5 + 3 + 4) / 4)
    assert found["uplift_over_text"] == pytest.approx((0.5 + 2 + 4 + 4) / 4)
    assert found["uplift_over_shuffled"] == pytest.approx((1 + 0.5 + 3 + 4) / 4)


@pytest.mark.parametrize(("text", "shuffled", "verdict"), [(0, 0, 1), (0, 2, 0), (3, 0, 0), (3, 2, 0), (12, 12, 0)])
def test_a_verdict_needs_all_placebos(text: float, shuffled: float, verdict: float) -> None:
    rows = [answer(i, 1 + 0.1 * (i % 2), text=text, shuffled=shuffled) for i in range(8)]
    assert summarise(rows)["verdict"] == verdict, "the third placebo is at -9, so nothing here misleads"


def test_an_answer_misleads_if_every_placebo_does_better() -> None:
    assert summarise([answer(i, -20 - 0.1 * (i % 2)) for i in range(8)])["verdict"] == -1


def test_copied_answers_are_counted_and_left_out_of_a_second_mean() -> None:
    found = summarise([answer(1, 9, copied=1), answer(2, 1), answer(3, 2), answer(4, 3, copied=np.nan)])
    assert found["world_uplift"] == pytest.approx(15 / 4)
    assert found["world_uplift_not_copied"] == pytest.approx(6 / 3)
    assert found["share_copied"] == pytest.approx(1 / 3)
    assert "share_copied" in MAIN_FIGURES["world_uplift"]


def test_per_1000_tokens_is_a_ratio_for_each_model_too() -> None:
    short, long = answer(1, 1, tokens=10, per="1000_tokens"), answer(2, 3, tokens=1990, per="1000_tokens")
    assert summarise([short, long])["world_uplift"] == pytest.approx(1000 * 4 / 2000)
    both = [answer(q, u, tokens=t, per="1000_tokens", model=m) for m in "ab" for q, u, t in ((1, 1, 10), (2, 3, 1990))]
    found = summarise(both)
    assert found["world_uplift a"] == found["world_uplift b"] == pytest.approx(1000 * 4 / 2000)


def test_of_several_models_n_counts_questions() -> None:
    rows = [answer(q, q, model="a", epoch=epoch) for q in (1, 2, 3, 4) for epoch in (1, 2)]
    rows += [answer(q, 3 * q, model="b") for q in (1, 2, 3)]
    found = summarise(rows)
    assert found["n"] == 3, "questions that both answered"
    assert found["world_uplift"] == pytest.approx(np.mean([2, 4, 6]))
    assert found["world_uplift a"] == pytest.approx(2.5)
    assert found["world_uplift b"] == pytest.approx(6)
    assert found["epochs"] == 2


@pytest.mark.parametrize(
    ("text", "known", "share"),
    [
        ("It was 84.6 percent of the voters, I read.", "", 4 / 6),
        ("THE TURNOUT WAS 84.6 PERCENT OF THE VOTERS!", "", 1.0),
        ("I would say it is about 80.", "", 0.0),
        ("The turnout was 84.6 percent of the voters.", "The turnout was 84.6 percent of the voters.", np.nan),
    ],
)
def test_copied_share(text: str, known: str, share: float) -> None:
    # The, turnout, was, 84, 6, percent, of, the, voters: six runs of four words.
    found = copied_share(text, "The turnout was 84.6 percent of the voters.", known)
    assert found == pytest.approx(share, nan_ok=True)
