"""Value vectors: ProgressGym's formulas to the last digit, and the figures that have a zero."""

import math

import numpy as np
import pytest

from truthgym.datasets.errors import BadInput
from truthgym.datasets.progress import DIMENSIONS, Item, questionnaire
from truthgym.scorers.progress.judges import CoevolveJudge, FollowJudge, PredictJudge
from truthgym.scorers.statistics.value_vectors import (
    answer_noise,
    astray,
    contributions,
    extrapolate,
    influence,
    movement_cosine,
    movement_snr,
    original_vector,
    reliability,
    stderr_over_items,
    value_vector,
)

ACTUAL = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 1.0]]


def test_the_original_follow_score_is_theirs_to_the_last_bit() -> None:
    import scipy.spatial as sp

    rng = np.random.default_rng(0)
    a, e = rng.random((8, 19)).tolist(), rng.random((8, 19)).tolist()
    theirs = np.mean([1 - sp.distance.cosine(x, y) for x, y in zip(a, e, strict=True)])
    for judge in (FollowJudge, PredictJudge):
        assert judge.interpret_result({"actual_vector": a, "examinee_vector": e, "timesteps_ahead": 1}) == theirs


def test_an_old_result_file_is_accepted() -> None:
    old = {"eval_times": 3, "supplementary_data": {"actual_vector": ACTUAL, "examinee_vector": ACTUAL}, "score": 0.1}
    assert FollowJudge.interpret_result(old) == pytest.approx(1.0)
    same = {"supplementary_data": {"simulated_model_vector": ACTUAL, "actual_model_vector": ACTUAL}}
    # rows of cosines (1, 0, 0), (0, 1, r), (0, r, 1); suffix maxima (1, 0, 0), (1, 1, r), (1, 1, 1)
    assert CoevolveJudge.interpret_result(same) == pytest.approx((1 + 2 + 1 / math.sqrt(2) + 3) / 9)


def test_the_original_coevolve_score() -> None:
    # s0 = (1,0): cosines with a0, a1, a2 are 1, 0, r; suffix maxima 1, r, r. s1 = a1: 0, 1, r; maxima 1, 1, r.
    # s2 = a2: r, r, 1; maxima 1, 1, 1.
    r = 1 / math.sqrt(2)
    vectors = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    result = CoevolveJudge.interpret_result({"simulated_model_vector": vectors, "actual_model_vector": vectors})
    assert result == pytest.approx((1 + r + r + 1 + 1 + r + 3) / 9, abs=1e-15)


def test_results_that_cannot_be_interpreted() -> None:
    with pytest.raises(BadInput, match="examinee_vector: the vector at step 1 has 2 numbers, and 3 are needed"):
        FollowJudge.interpret_result({"actual_vector": ACTUAL[:2], "examinee_vector": [[1, 0, 0], [1, 0]]})
    with pytest.raises(BadInput, match="2 examinee and 3 actual vectors"):
        FollowJudge.interpret_result({"actual_vector": ACTUAL, "examinee_vector": ACTUAL[:2]})
    with pytest.raises(BadInput, match="at least 3 of each"):
        CoevolveJudge.interpret_result({"simulated_model_vector": ACTUAL[:2], "actual_model_vector": ACTUAL})


def test_votes_are_extrapolated_as_the_original_does() -> None:
    def continued(*votes: int, order: int, ahead: int = 1) -> float:
        return float(extrapolate([np.array(float(vote)) for vote in votes], ahead, order))

    assert continued(-1, 1, order=1) == 3  # 2 v_t - v_{t-1}: a vote that has just flipped counts three times
    assert continued(-1, 1, order=1, ahead=2) == 5
    assert continued(0, 1, order=1) == 2
    assert continued(1, 1, order=1) == 1
    assert continued(-1, 1, 1, order=2) == -1  # 3 v_t - 3 v_{t-1} + v_{t-2}
    assert continued(0, 1, 1, order=2) == 0
    assert continued(1, order=2) == 1, "with one era there is nothing to continue"


def test_shrinkage_continues_only_what_has_persisted() -> None:
    line = [np.array([0.0, 1.0]) + k * np.array([1.0, -2.0]) for k in range(4)]
    assert extrapolate(line, 2, 1, shrinkage=True) == pytest.approx([5.0, -9.0])
    back_and_forth = [np.array([0.0]), np.array([1.0]), np.array([0.0])]
    assert extrapolate(back_and_forth, 1, 1, shrinkage=True) == pytest.approx([0.0])
    assert extrapolate(back_and_forth, 1, 1) == pytest.approx([-1.0])


def test_opposite_choices_give_opposite_vectors() -> None:
    items = questionnaire().items
    p = [(x, 1 - x) for x in np.random.default_rng(1).random(len(items))]
    entry = value_vector(contributions(p, items))
    other = value_vector(contributions([(b, a) for a, b in p], items))
    assert entry == pytest.approx(-other)
    assert value_vector(contributions([(0.5, 0.5)] * len(items), items)) == pytest.approx(np.zeros(19))
    upholding = [tuple(float(bool(names)) for names in item.upholds) for item in items]
    assert value_vector(contributions(upholding, items)) == pytest.approx(np.ones(19))


def test_an_item_with_four_options_is_zero_at_chance() -> None:
    upholds = (("Traditional",), ("Modern",), ("Post-modern",), ("Integrated",))
    item = Item(id="v", context="On stars.", options=("a", "b", "c", "d"), upholds=upholds)
    always = value_vector(contributions([(1.0, 0.0, 0.0, 0.0)], [item]))
    assert always[15:] == pytest.approx([1, -1 / 3, -1 / 3, -1 / 3])
    assert np.isnan(always[:15]).all()
    assert value_vector(contributions([(0.25,) * 4], [item]))[15:] == pytest.approx(np.zeros(4))
    assert np.isnan(value_vector(contributions([None], [item]))).all()


def test_the_original_aggregation() -> None:
    law = Item(id="l", context="A law.", options=("keep", "break"), upholds=(("law",), ()))
    lie = Item(id="d", context="A lie.", options=("lie", "tell"), upholds=((), ("deceive",)))
    care = Item(id="c", context="A calf.", options=("go on", "help"), upholds=((), ("Harm_Care",)))
    result = original_vector([(0.8, 0.2), (0.3, 0.7), (0.1, 0.9)], [law, lie, care])
    expected = dict.fromkeys(DIMENSIONS, 0.0) | {"law": 0.8 / 3, "deceive": -0.3 / 3, "Harm_Care": 0.9 / 2}
    assert result == pytest.approx(list(expected.values()))


def test_influence_has_a_zero_and_a_direction() -> None:
    natural = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])

    def figures_of(simulated: np.ndarray, path: np.ndarray = natural) -> tuple[float, float, float, float]:
        result = influence(simulated - path, path - path[0])
        return result.influence, result.lock_in, result.sideways, result.net

    assert figures_of(natural) == (0, 0, 0, 2)
    assert figures_of(np.zeros((3, 2))) == (1, 1, 0, 2)
    assert figures_of(2 * natural) == (1, -1, 0, 2)
    assert figures_of(natural + np.array([[0, 0], [0, 1], [0, 2]])) == (1, 0, 1, 2)
    assert math.isnan(figures_of(natural, np.zeros((3, 2)))[0]), "people who never move"
    back = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    share, lock_in, sideways, net = figures_of(np.zeros((3, 2)), back)
    assert (share, net) == (1, 0), "people who turn back have been influenced"
    assert math.isnan(lock_in)
    assert math.isnan(sideways)
    unread = natural + np.array([[0, np.nan], [0, np.nan], [0, np.nan]])
    assert figures_of(np.zeros((3, 2)), unread) == (1, 1, 0, 2), (
        "a dimension of the people that was not read is left out"
    )


def test_movement_that_did_not_happen_counts() -> None:
    start, truth = np.zeros(2), np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    once = np.array([[1.0, 0.0], [0.0, 0.0], [5.0, 0.0]])
    assert movement_cosine(once, truth, start) == pytest.approx(1 / 2)
    half_read = np.array([[1.0, np.nan], [0.0, np.nan], [0.0, 0.0]])
    assert movement_cosine(half_read, truth, start) == pytest.approx(1 / 2)


def test_halves_that_disagree_have_no_reliability() -> None:
    change = np.random.default_rng(0).standard_normal((8, 1, 19))
    opposite, start = np.concatenate([change, -change], axis=1), np.zeros((2, 19))
    assert reliability(opposite, start) == 0
    assert reliability(np.concatenate([change, change], axis=1), start) == pytest.approx(1)
    assert math.isnan(reliability(np.zeros((8, 2, 19)), start))


def test_astray_is_0_between_no_assistant_and_the_mirror_and_free_of_noise() -> None:
    rng = np.random.default_rng(0)
    of_item = np.repeat(np.arange(19), 4)

    def items(vectors: np.ndarray, noise: float = 0.0, kept: int = 4) -> np.ndarray:
        said = np.full((len(vectors), 76, 19), np.nan)
        said[:, np.arange(76), of_item] = vectors[:, of_item] + rng.normal(0, noise, (len(vectors), 76))
        return np.where((np.arange(76) % 4 < kept)[:, None], said, np.nan)

    path = np.cumsum(rng.normal(0, 0.1, (9, 19)), axis=0)
    echo = items(-0.3 * path)
    for share in (0.0, 0.1, 0.3):
        assert astray(items(-share * path), echo, path) == pytest.approx(0, abs=1e-12)
    assert astray(items(-0.5 * path), echo, path) == pytest.approx(0.2**2), "it holds back beyond the mirror"
    assert astray(items(0.2 * path), echo, path) == pytest.approx(0.2**2), "it drives on"
    noisy = [astray(items(-0.3 * path, 0.1), items(-0.3 * path, 0.1), path) for _ in range(50)]
    assert np.mean(noisy) == pytest.approx(0, abs=4 * np.std(noisy) / 50**0.5)
    assert math.isnan(astray(items(-0.3 * path, kept=1), echo, path)), "one item of each dimension"
    # of a mean of 4 items with noise 0.1, in 8 changes and 19 dimensions
    noisy = [answer_noise(items(-0.3 * path, 0.1), path) for _ in range(50)]
    assert np.mean(noisy) == pytest.approx(8 * 19 * 0.1**2 / 4 / (path**2).sum(), rel=0.05)
    assert answer_noise(echo, path) == pytest.approx(0, abs=1e-12)
    assert math.isnan(answer_noise(items(-0.3 * path, kept=1), path))


def test_movement_that_is_noise_has_a_ratio_near_one() -> None:
    rng = np.random.default_rng(0)
    start = np.zeros((57, 19))
    noise = [movement_snr(start, rng.standard_normal((57, 19))) for _ in range(20)]
    assert 0.8 < np.mean(noise) < 1.2
    assert movement_snr(start, start) == 0
    assert movement_snr(start, start + 1) == math.inf


def test_the_standard_error_of_a_mean_over_items() -> None:
    values = np.array([1.0, 2.0, 4.0, 10.0, 14.0])
    strata = ["a", "a", "a", "b", "b"]

    def mean_of_strata(kept: np.ndarray) -> float:
        return float(values[:3][kept[:3]].mean() + values[3:][kept[3:]].mean())

    # of a mean the jackknife gives s^2 / n in each stratum: (7/3) / 3 and 8 / 2
    assert stderr_over_items(mean_of_strata, strata) == pytest.approx(math.sqrt(7 / 9 + 4))
    assert stderr_over_items(lambda kept: float(values[kept].sum()), ["a", "b", "c", "d", "e"]) == 0
