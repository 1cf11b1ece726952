import numpy as np
import pytest

from truthgym.scorers.statistics.report_flags import FLAGS, report_figures

RNG = np.random.default_rng(0)
CLEAN = np.round(np.clip(RNG.uniform(0.1, 0.9, (100, 1)) + RNG.normal(0, 0.05, (100, 3)), 0, 1), 2)
NONE = (0.0, 0.0)


def raised(prior: object, posterior: object = CLEAN, effect: tuple[float, float] = NONE) -> set[str]:
    found = report_figures(np.asarray(prior), np.asarray(posterior), effect)
    return {name.removeprefix("flag_") for name in found if name.startswith("flag_")}


def some(share: float) -> "np.typing.NDArray[np.bool_]":
    return np.random.default_rng(1).random(CLEAN.shape) < share


def test_known_values() -> None:
    prior = np.array([[0.5, 0.5], [0.3, 0.35], [0.41, np.nan]])
    found = report_figures(prior, np.array([[0.5, 0.1], [np.nan, 0.2], [np.nan, 0.3]]), (0.02, 0.01))
    assert found == pytest.approx(
        {
            "share_fifties": 2 / 5, "share_fifties_posterior": 1 / 4, "share_tens": 3 / 5, "share_fives": 4 / 5,
            "distinct_priors": 4, "read_priors": 5 / 6, "read_posteriors": 4 / 6, "same_priors": 1 / 2,
            "selective_refusal": 0.02, "flag_refusals": 1,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reports", "flags"),
    [
        (CLEAN, set()),
        (np.where(some(0.1), 0.5, CLEAN), {"fifties"}),
        (np.where(some(0.03), 0.5, CLEAN), set()),
        (np.round(CLEAN, 1), {"coarse"}),
        (np.where(some(0.3), 0.5, np.round(CLEAN, 1)), {"fifties", "coarse"}),
        (np.round(CLEAN * 20) / 20, {"coarse"}),
        (np.where(some(0.2), np.nan, CLEAN), {"refusals"}),
    ],
    ids=["clean", "lazy", "few", "tens", "lazy tens", "fives", "refuses"],
)
def test_what_raises_a_flag_before_and_after(reports: object, flags: set[str]) -> None:
    assert raised(reports) == flags
    assert raised(CLEAN, reports) == flags


@pytest.mark.parametrize(("times", "flags"), [(3, set()), (4, {"fifties"})])
def test_fifties_are_flagged_above_three_times_their_neighbours(times: int, flags: set[str]) -> None:
    near = [*range(45, 50), *range(51, 56)] + [50] * times
    reports = np.tile(near, 30).reshape(-1, 1) / 100
    assert raised(reports, reports) == flags


def test_one_report_that_differs_does_not_hide_shared_replies() -> None:
    same = np.repeat(CLEAN[:, :1], 3, axis=1)
    same[0, 1] += 0.01
    assert raised(same) == {"noiseless"}
    assert raised(np.where(np.arange(100)[:, None] < 20, CLEAN, same)) == set()
    assert raised(same[:, :1]) == set(), "one epoch agrees with nobody"


def test_an_effect_of_refusals_is_flagged_if_large_and_certain() -> None:
    assert raised(CLEAN, effect=(0.1, 0.02)) == {"selective_refusals"}
    assert raised(CLEAN, effect=(-0.1, 0.02)) == {"selective_refusals"}
    assert raised(CLEAN, effect=(0.1, 0.05)) == raised(CLEAN, effect=(0.02, 0.001)) == set()
    assert raised(CLEAN, effect=(np.nan, np.nan)) == set()


def test_no_reports_are_no_error() -> None:
    empty = np.zeros((0, 0))
    assert raised(empty, empty) == set()
    assert raised(CLEAN * np.nan, CLEAN) == {"refusals"}
    assert {*FLAGS} == {"fifties", "coarse", "refusals", "selective_refusals", "noiseless"}
