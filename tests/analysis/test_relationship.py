import gc
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.analysis.answer_tables import Values, rows_of
from truthgym.analysis.relationship import by_setup, chart, relations, report
from truthgym.datasets.errors import BadInput
from truthgym.scorers.statistics.regression import cross_epoch_correlation

SLOPE = 0.5
MODES = ("direct", "self_debate")
BEST = {"martingale": "zero", "brier": "lowest", "qualitative": "highest", "value_tracking": "highest", "length": ""}


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "collect", lambda: 0)  # statsmodels collects garbage with every correction


def estimates(slope: float = SLOPE, models: int = 12, seed: int = 0) -> pd.DataFrame:
    """Models in four setups, whose Brier score rises with the size of their martingale score, of either sign."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for model, size in enumerate(np.linspace(0.02, 0.4, models)):
        for setup in range(4):
            here = size + 0.1 * rng.random()
            scores = {"martingale": here * rng.choice([-1, 1]), "brier": 0.15 + slope * here + rng.normal(0, 0.02)}
            facts = {"model": f"m{model}", "domain": "urns", "mode": f"s{setup}", "setup": f"urns, s{setup}"}
            rows += [
                {**facts, "scorer": scorer, "best": BEST[scorer], "score": score}
                | {"lower": score - 0.04, "upper": score + 0.04}
                for scorer, score in scores.items()
            ]
    return pd.DataFrame(rows)


def answers(
    effect: float = 0.0, strength: float = 1.0, direct: float = 0.0, n: int = 40, epochs: int = 2
) -> pd.DataFrame:
    """Words that a mode moves, and a Brier score that words move. Something else moves both of an answer's numbers."""
    rng = np.random.default_rng(3)
    words: dict[tuple[str, str], Values] = {}
    scores: dict[tuple[str, str], Values] = {}
    for mode in MODES:
        hidden, difficulty = rng.normal(size=(n, epochs)), rng.normal(size=(n, 1))
        words["a", mode] = 100 + strength * (mode == "self_debate") + 0.5 * hidden + rng.normal(size=(n, epochs))
        scores["a", mode] = effect * words["a", mode] + direct * (mode == "self_debate") + hidden + difficulty
    return pd.concat([rows_of(scores), rows_of(words, scorer="length", key="words")], ignore_index=True)


def by_kind(frame: pd.DataFrame, level: str, x: str, y: str) -> dict[Any, Any]:
    rows = frame[(frame["level"] == level) & (frame["x"] == x) & (frame["y"] == y)]
    return {(row["kind"], row["controls"]): row for _, row in rows.iterrows()}


def test_the_published_link_is_found_in_form() -> None:
    frame = relations(estimates(), answers())
    link = by_kind(frame, "setups", "|martingale|", "brier")["link", ""]
    assert link["lower"] < SLOPE < link["upper"]
    assert (link["n"], link["clusters"]) == (48, 12)
    at = next(note for note in frame.attrs["notes"] if "passes 0.25" in note)
    estimate, lower, upper = map(float, re.findall(r"[=\[ ](0\.\d+)", at.partition("martingale")[2]))
    assert lower < (0.25 - 0.15) / SLOPE < upper
    assert lower < estimate < upper
    small = estimates()
    small.loc[small["scorer"] == "brier", "score"] -= 0.2  # 0.25 is passed at 0.6, where there are no models
    assert not any("passes 0.25" in note for note in relations(small, answers()).attrs["notes"])
    models = by_kind(frame, "models", "brier", "|martingale|")
    assert models["correlation", ""]["lower"] > 0.8
    assert ("corrected correlation", "") not in models  # the error of a slope between models is not known
    none = by_kind(relations(estimates(slope=0), answers()), "setups", "|martingale|", "brier")["link", ""]
    assert none["lower"] < 0 < none["upper"]


def test_a_correlation_over_models_is_corrected_by_what_differs_between_them() -> None:
    """Questions that are hard for all models make the scores of all worse, and are no error of their correlation."""
    rng = np.random.default_rng(0)
    models, questions = 12, 200
    ability = rng.normal(0, 0.03, models)
    true = {"brier": ability, "qualitative": ability + rng.normal(0, 0.02, models)}
    tables, rows = [], []
    for scorer, level in true.items():
        hard, noise = rng.normal(0, 0.25, questions), rng.normal(0, 0.1, (models, questions))
        values = level[:, None] + hard + noise
        key = {"brier": "brier_score", "qualitative": "quality"}[scorer]
        tables.append(
            rows_of({(f"m{i}", "direct"): item[:, None] for i, item in enumerate(values)}, scorer=scorer, key=key)
        )
        facts = {"domain": "urns", "mode": "direct", "setup": "urns, direct", "scorer": scorer, "best": BEST[scorer]}
        width = 2 * 1.97 * values.std(axis=1, ddof=1) / np.sqrt(questions)
        rows += [
            {**facts, "model": f"m{i}", "score": mean, "lower": mean - half, "upper": mean + half}
            for i, (mean, half) in enumerate(zip(values.mean(axis=1), width / 2, strict=True))
        ]
    frame = relations(pd.DataFrame(rows), pd.concat(tables, ignore_index=True))
    related = by_kind(frame, "models", "brier", "qualitative")
    # Noise of 0.1 in 200 questions is a variance of 0.00005 of a mean: reliabilities of 0.95 and 0.96.
    variances = [np.var(frame_of, ddof=1) for frame_of in (pd.DataFrame(rows).groupby("scorer")["score"].agg(list))]
    strength = np.prod([1 - 0.1**2 / questions / variance for variance in variances])
    corrected, plain = related["corrected correlation", ""], related["correlation", ""]
    assert corrected["strength"] == pytest.approx(strength, abs=0.02)
    assert corrected["estimate"] == pytest.approx(plain["estimate"] / np.sqrt(strength), abs=0.01)
    assert "errors of both measures are independent" in report(frame)
    unread = pd.concat(tables, ignore_index=True).query("scorer == 'brier' or model != 'm3'")
    none = by_kind(relations(pd.DataFrame(rows), unread), "models", "brier", "qualitative")
    assert ("corrected correlation", "") not in none  # an error that is not known is not 0


def test_a_score_of_both_signs_counts_by_the_size_of_its_mean() -> None:
    twice = estimates(models=6)
    twice = pd.concat([twice, twice.assign(score=twice["score"].where(twice["scorer"] == "brier", -twice["score"]))])
    scores, *_ = by_setup(twice, answers())
    assert scores["|martingale|"].tolist() == pytest.approx([0.0] * 24)


@pytest.mark.parametrize("scorer", ["value_tracking", "qualitative", "length"])
def test_more_is_better_in_correlations(scorer: str) -> None:
    """A number that rises with the Brier score, of which less is better."""
    frame = estimates()
    other = frame[frame["scorer"] == "brier"]
    other = other.assign(scorer=scorer, best=BEST[scorer], score=other["score"] - 0.3)  # of both signs
    frame = relations(pd.concat([frame, other]), answers())
    x, y = sorted(["brier", scorer])
    models = by_kind(frame, "models", x, y)["correlation", ""]
    assert models["estimate"] == pytest.approx(-1.0)
    listed = "Counts as it is in correlations: length; " in " ".join(frame.attrs["notes"])
    assert listed == (scorer == "length")


def test_few_models_are_not_clustered_and_say_so() -> None:
    frame = relations(estimates(models=5), answers())
    notes = " ".join(frame.attrs["notes"])
    assert "brier and |martingale|: 5 models in 4 setups" in notes
    assert "too few to cluster by model" in notes
    assert not set(frame.loc[frame["level"] == "models", "kind"])


def test_an_error_that_an_answers_numbers_share_is_no_relation_of_questions() -> None:
    rng = np.random.default_rng(5)
    questions = list(range(60))
    for rho in (0.0, 0.7):
        related = []
        for _ in range(40):
            shared, truth = rng.normal(size=(60, 3)), rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], 60).T
            x, y = truth[:, :, None] + shared
            related.append(cross_epoch_correlation(x, y, questions, ["one"] * 60))
        inside = [item.corrected.lower <= rho <= item.corrected.upper for item in related]
        assert np.mean(inside) >= 0.85  # three standard errors below 0.95
        assert np.mean([item.plain.estimate for item in related]) > rho + 0.05
        assert np.mean([item.reliability for item in related]) == pytest.approx(0.5, abs=0.05)


def test_an_assigned_setting_finds_the_effect_that_a_correlation_misses() -> None:
    frame = relations(estimates(), answers(effect=-0.5, strength=2.0))
    related = by_kind(frame, "answers", "length/words", "brier/brier_score")
    slope = related["two-stage least squares", "instrument: mode; model and question"]
    spread = answers(strength=2.0).query("key == 'words'")["value"].std()  # effects are of 1 sd
    assert slope["lower"] < -0.5 * spread < slope["upper"]
    assert slope["upper"] < 0
    assert slope["strength"] > 10
    assert by_kind(frame, "answers", "brier/brier_score", "length/words")["correlation", ""]["estimate"] < 0.3


def test_mediated_and_direct_effects_sum_to_the_total() -> None:
    frame = answers(effect=-0.5, strength=2.0, direct=0.8)
    related = by_kind(relations(estimates(), frame), "answers", "length/words", "brier/brier_score")
    parts = [row["estimate"] for (kind, _), row in related.items() if kind in ("mediated", "direct")]
    means = frame.query("key == 'brier_score'").groupby("mode")["value"].mean()
    assert sum(parts) == pytest.approx(means["self_debate"] - means["direct"], abs=0.1)


def test_a_third_mode_does_not_bias_mediation() -> None:
    """In the third mode something else moves both numbers of a question, which is no part of the other two."""
    rng = np.random.default_rng(1)
    hidden = 3 * rng.normal(size=(400, 1))
    x = {mode: (mode == "self_debate") + rng.normal(size=(400, 1)) for mode in MODES}
    y = {mode: 0.5 * x[mode] + rng.normal(size=(400, 1)) for mode in MODES}
    x["other"], y["other"] = hidden + rng.normal(size=(400, 1)), -2 * hidden + rng.normal(size=(400, 1))
    tables = (
        rows_of({("a", mode): item for mode, item in y.items()}),
        rows_of({("a", mode): item for mode, item in x.items()}, scorer="length", key="words"),
    )
    related = by_kind(relations(estimates(), pd.concat(tables)), "answers", "length/words", "brier/brier_score")
    pair = "mode self_debate against direct; model and question"
    assert related["mediated", pair]["estimate"] == pytest.approx(0.5, abs=0.15)
    assert related["direct", pair]["estimate"] == pytest.approx(0.0, abs=0.2)


def test_an_instrument_is_compared_within_all_other_settings() -> None:
    frame = answers(effect=-0.5, strength=2.0)
    other = frame.assign(task=frame["mode"].map({"direct": "draws=2", "self_debate": "draws=4"}))
    mixed = relations(estimates(), other)
    assert "two-stage least squares" not in set(mixed["kind"])
    assert "0 % of the answers (90 % must be to questions that were asked in every mode)" in " ".join(
        mixed.attrs["notes"]
    )
    crossed = pd.concat([frame.assign(task=f"draws={k}", eval_id=frame["eval_id"] + f" {k}") for k in (2, 4)])
    controls = relations(estimates(), crossed).query("kind == 'two-stage least squares'")["controls"]
    assert set(controls) == {"instrument: mode; model, draws and question"}


def test_a_weak_instrument_and_one_mode_say_so() -> None:
    weak = relations(estimates(), answers(strength=0.0))
    row = weak[weak["kind"] == "two-stage least squares"].iloc[0]
    assert np.isnan(row["estimate"])
    assert "length/words and brier/brier_score: F 0." in " ".join(weak.attrs["notes"])
    single = relations(estimates(), answers(epochs=1).query("mode == 'direct'"))
    notes = " ".join(single.attrs["notes"])
    assert "all answers have the same mode" in notes
    assert "One epoch" in notes


def test_a_constant_has_a_note_and_no_row() -> None:
    numbers = answers()
    numbers["value"] = numbers["value"].where(numbers["scorer"] == "brier", 1.0)
    frame = relations(estimates(), numbers)
    assert "length/words" not in {*frame["x"], *frame["y"]}
    expected = "No correlation over answers: brier/brier_score and length/words (too few have both, or one of them does"
    assert any(note.startswith(expected) for note in frame.attrs["notes"])
    with pytest.raises(BadInput, match="Nothing can be related: No correlation over models"):
        relations(estimates(models=1), numbers.query("mode == 'direct'"))


def test_what_cannot_be_related_is_refused() -> None:
    with pytest.raises(BadInput, match=r"one measure \(brier\), and two are needed"):
        relations(estimates().query("scorer == 'brier'"), answers().query("scorer == 'brier'"))
    with pytest.raises(BadInput, match="Unknown x 'length: word'; did you mean 'length/words'"):
        relations(estimates(), answers(), x="length: word")
    with pytest.raises(BadInput, match="Unknown setting 'prompt'"):
        relations(estimates(), answers(), setting="prompt")


def test_every_kind_is_printed_with_its_assumptions_and_drawn_with_a_baseline() -> None:
    frame = relations(estimates(), answers(effect=-0.5, strength=2.0))
    page = report(frame, "x.svg")
    for text in ("which cannot be checked", "it is no effect"):
        assert text in page
    panels = chart(frame).to_dict()["vconcat"]
    titles = [panel["title"]["text"] for panel in panels]
    assert titles == [*(f"over {level}" for level in ("models", "setups", "questions", "answers")),
                      "effects on brier/brier_score", "published link, in form"]  # fmt: skip
    assert panels[0]["layer"][0]["encoding"]["x"]["datum"] == 0
    assert panels[5]["layer"][0]["encoding"]["y"]["datum"] == 0.25
    assert panels[5]["title"]["subtitle"] == "48 models in setups"
    assert [layer["mark"]["type"] for layer in panels[5]["layer"]] == ["rule", "line", "point"]
    for few in (estimates(models=5), estimates(slope=0)):  # too few models to cluster, and no link
        link = chart(relations(few, answers())).to_dict()["vconcat"][-1]
        assert [layer["mark"]["type"] for layer in link["layer"]] == ["rule", "point"]
