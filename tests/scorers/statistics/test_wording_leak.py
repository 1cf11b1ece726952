"""The AUC with which wording tells outcomes: planted leaks are found, and events are not taken for leaks."""

import numpy as np
import pytest

from truthgym.scorers.statistics.wording_leak import area, predictions, wording_leak

MODULE = "truthgym.scorers.statistics.wording_leak"
RNG = np.random.default_rng(5)
NOUNS = [f"noun{i}" for i in range(40)]


def sentences(n: int) -> list[str]:
    return [" ".join(RNG.choice(NOUNS, 12)) + "." for _ in range(n)]


def test_independent_outcomes_are_inside_the_null() -> None:
    for result in wording_leak(sentences(100), RNG.integers(0, 2, 100)).values():
        assert result.lower < 0.5 < result.upper < 0.65
        assert not result.found
        assert result.p_value > 0.05


def test_a_word_that_stands_with_one_outcome_is_found() -> None:
    """The word stands in 40 of 100 questions, all with the outcome no: the best order has the AUC 1/2 + 40/100."""
    outcomes = np.repeat([0, 1], 100)
    texts = [text + " Otherwise it is." * (i < 40) for i, text in enumerate(sentences(200))]
    leaks = wording_leak(texts, outcomes)
    assert 0.6 < leaks["words"].auc < 0.75
    assert leaks["style"].found
    assert leaks["words"].found
    assert leaks["words"].p_value < 0.01


def test_length_is_found_by_style_alone() -> None:
    outcomes = np.tile([0, 1], 60)
    texts = [" ".join(text.split()[: 6 + 6 * y]) for text, y in zip(sentences(120), outcomes, strict=True)]
    assert wording_leak(texts, outcomes)["style"].auc > 0.95


def test_what_names_an_event_is_no_leak() -> None:
    """Questions of one event share a word and an outcome. Taken one by one they would be told by it."""
    outcomes, events = np.repeat(RNG.permutation(np.tile([0, 1], 20)), 4), np.repeat(np.arange(40), 4)
    texts = [f"{text} event{event} event{event}" for text, event in zip(sentences(160), events, strict=True)]
    assert wording_leak(texts, outcomes)["words"].auc > 0.9
    assert not wording_leak(texts, outcomes, events.tolist())["words"].found


def test_a_large_event_is_no_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty questions of one event with one outcome and one theme, twenty of another, and sixty events of one question.

    Whether their ranks fit is one event's luck: dealing their outcomes to single questions would call it a leak.
    """
    monkeypatch.setattr(f"{MODULE}.PERMUTATIONS", 100)
    monkeypatch.setattr(f"{MODULE}.REPEATS", 1)
    result = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        events = np.array([0] * 40 + [1] * 20 + list(range(2, 62)))
        outcomes, themes = rng.integers(0, 2, 62), rng.choice(NOUNS, (62, 4))
        texts = [" ".join((*themes[event], *rng.choice(NOUNS, 8))) for event in events]
        result += wording_leak(texts, outcomes[events], events.tolist(), seed=seed)["words"].found
    assert result <= 5  # P = 0.02 if one in twenty is expected


def test_base_rates_of_subjects_are_no_leak() -> None:
    """Of two subjects with a word of their own, 80 % and 20 % end in yes, and nothing else tells."""
    subjects = np.tile([0, 1], 60)
    outcomes = np.where(subjects, np.arange(120) % 10 < 8, np.arange(120) % 10 >= 8).astype(int)
    texts = [f"{text} subject{subject}" for text, subject in zip(sentences(120), subjects, strict=True)]
    assert wording_leak(texts, outcomes)["words"].found
    assert not wording_leak(texts, outcomes, strata=subjects.tolist())["words"].found


def test_groups_that_all_differ_in_size_have_no_null() -> None:
    """No outcomes can be dealt to another group, so every permutation is what was observed."""
    groups = np.repeat(np.arange(20), np.arange(1, 21))
    result = wording_leak(sentences(len(groups)), groups % 2, groups.tolist())
    assert all(np.isnan([entry.auc, entry.lower, entry.upper, entry.p_value]).all() for entry in result.values())


def test_predictions_are_those_of_ridge_regression() -> None:
    """Against least squares on features and outcomes of the training texts, centered, with the penalty as rows."""
    x, y, fold, ridge = RNG.normal(size=(30, 4)), RNG.normal(size=30), np.arange(30) % 5, 2.5
    result = predictions(x @ x.T, fold, ridge) @ y
    for number in range(5):
        train, test = fold != number, fold == number
        center = x[train].mean(axis=0)
        rows = np.vstack([x[train] - center, np.sqrt(ridge) * np.eye(4)])
        slope = np.linalg.lstsq(rows, np.append(y[train] - y[train].mean(), np.zeros(4)))[0]
        assert result[test] == pytest.approx((x[test] - center) @ slope)


def test_area_counts_pairs_and_halves_ties() -> None:
    scores, labels = np.array([[0.9], [0.5], [0.5], [0.1]]), np.array([[1.0], [0.0], [1.0], [0.0]])
    assert area(scores, labels).tolist() == [(1 + 1 + 0.5 + 1) / 4]


def test_too_little_is_nan_and_bad_arguments_are_refused() -> None:
    for texts, outcomes in ((sentences(19), np.arange(19) % 2), (sentences(40), np.ones(40)), ([], [])):
        assert all(np.isnan(entry.auc) and not entry.found for entry in wording_leak(texts, outcomes).values())
    assert wording_leak(["", "?"] * 15, np.append(np.tile([0, 1], 14), [np.nan] * 2))["words"].n == 28
    with pytest.raises(ValueError, match="2 texts, 1 outcomes"):
        wording_leak(["a", "b"], [1])
    with pytest.raises(ValueError, match="must be 0, 1 or NaN"):
        wording_leak(["a", "b"], [1, 0.5])
