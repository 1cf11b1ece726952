"""The figures of `martingale`, from scores as the scorer records them."""

import math
from dataclasses import asdict, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from inspect_ai.scorer import SampleScore, Score
from numpy.testing import assert_equal

from tests.scorers.main_figures import MAIN_FIGURES
from tests.scorers.scores import scored as score_of
from truthgym.scorers.beliefs.elicitation import ElicitationConfig
from truthgym.scorers.beliefs.record import Belief
from truthgym.scorers.statistics.instrumented_slope import Floats, cross_epoch_slope, ols_slope
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.scorers.statistics.martingale import belief_table, summarise
from truthgym.scorers.statistics.martingale_score import (
    REASONS,
    brier_gain,
    corrected_posterior,
    foreseen_share,
    martingale_score,
    movement,
)
from truthgym.scorers.statistics.verdict import OPEN

FIRST = list(MAIN_FIGURES["martingale"])
N, EPOCHS = 40, 3
DOMAINS = [f"d{q % 2}" for q in range(N)]
EVENTS = [f"e{q // 2}" for q in range(N)]


def even(rng: np.random.Generator, deviation: float, *shape: int) -> Floats:
    drawn: Floats = rng.uniform(-1, 1, shape) * deviation * np.sqrt(3)
    return drawn


def paths(seed: int = 0, *, slope: float = 0.1, steps: int = 2, error: float = 0.03) -> Floats:
    """Reported beliefs of one reader, questions x epochs x points. The same seed gives the same true beliefs."""
    rng = np.random.default_rng(seed)
    true = [np.broadcast_to(0.5 + even(np.random.default_rng(99), 0.12, N, 1), (N, EPOCHS))]
    for _ in range(steps):
        true.append(true[-1] + slope * (true[-1] - 0.5) + even(rng, 0.03, N, EPOCHS))
    return np.clip(np.stack(true, axis=-1) + even(rng, error, N, EPOCHS, steps + 1), 0, 1)


SETTINGS = asdict(ElicitationConfig()) | {"granularity": "trajectory", "domains": "pooled"}
OUTCOME = (np.random.default_rng(98).random(N) < paths()[:, 0, -1]).astype(float)


Path = list[float | None]


def beliefs(elicitor: str, path: Path, epoch: int = 1, saw: bool = False) -> list[dict[str, Any]]:
    """What `elicit` records of a path from prior to posterior."""
    stages = ["prior", *(f"step {k}" for k in range(1, len(path) - 1)), "posterior"]
    records = []
    for stage, value in zip(stages, path, strict=True):
        reason = "unread" if value is None else None
        seen = saw if stage == "prior" else True
        records.append(asdict(Belief(value, stage, elicitor, "read", seen, epoch, "50", reason, "digest")))
    return records


def scored(question: str, epoch: int, *paths: list[dict[str, Any]], **facts: Any) -> SampleScore:
    """A score as `martingale` gives it."""
    listed = [belief for path in paths for belief in path]
    first = [b["value"] for b in listed if b["elicitor"] == listed[0]["elicitor"] and b["stage"] != "view"]
    ends = [math.nan if value is None else value for value in (first[0], first[-1])]
    value = {"prior": ends[0], "posterior": ends[1], "change": round(ends[1] - ends[0], 4)}
    usual = {"domain": "urns", "outcome": 1.0, "base_rate": None, "crowd": None, "beliefs": listed}
    return score_of(question, value, epoch, **usual | {"settings": SETTINGS} | facts)


def scores(
    settings: dict[str, Any] | None = None, outcome: Floats | None = OUTCOME, **paths: Floats
) -> list[SampleScore]:
    """Scores of one path for each elicitor."""
    rows, settings = [], asdict(ElicitationConfig()) | (settings or {})
    for q, epoch in product(*map(range, next(iter(paths.values())).shape[:2])):
        listed = []
        for name, path in paths.items():
            values = [None if math.isnan(value) else value for value in path[q, epoch].tolist()]
            listed.append(beliefs(name, values, epoch + 1, saw=name == "joint"))
        facts = {"event": EVENTS[q], "domain": DOMAINS[q], "outcome": None if outcome is None else outcome[q]}
        rows.append(scored(f"q{q}", epoch + 1, *listed, settings=settings, **facts))
    return rows


def figures_of(
    settings: dict[str, Any] | None = None, outcome: Floats | None = OUTCOME, **beliefs: Floats
) -> dict[str, float]:
    return summarise(belief_table(scores(settings, outcome, **beliefs)))


def test_the_headline_comes_first_in_this_order() -> None:
    plain = figures_of(self=paths())
    assert list(plain)[:8] == FIRST
    everything = figures_of(
        {"domains": "each", "information_weight": 0.5, "granularity": "step", "belief_change": "logit"},
        self=paths(0),
        judge=paths(1),
        joint=paths(2),
    )
    assert list(everything)[:8] == FIRST
    assert set(plain) < set(everything)


def test_the_figures_are_those_of_their_functions() -> None:
    path = paths()
    x, y = path[:, :, 0], path[:, :, -1]
    result = figures_of(self=path)
    score = martingale_score(x, y, cluster=EVENTS, group=DOMAINS)
    assert score.identified
    for name, value in {
        "martingale_score": score.estimate,
        "martingale_score_lower": score.lower,
        "martingale_score_upper": score.upper,
        "identified": 1,
        "martingale_score_ols": score.ols,
        "martingale_score_ols_lower": score.ols_lower,
        "martingale_score_ols_upper": score.ols_upper,
        "martingale_score_ols_half": score.ols_half,
        "reliability": score.reliability,
        "shared_error": score.shared_error,
        "r_squared": score.r_squared,
        "mde": score.mde,
        "p": score.p,
        "n": N,
        "epochs": EPOCHS,
        "share_scored": 1,
        "brier_prior": np.mean((x - OUTCOME[:, None]) ** 2),
        "brier_posterior": np.mean((y - OUTCOME[:, None]) ** 2),
        "movement": np.mean(movement(x, y).movement),
        "uncertainty_reduction": np.mean(movement(x, y).reduction),
    }.items():
        assert result[name] == pytest.approx(value), name
    excess = mean_estimate(movement(x, y).excess, EVENTS).metrics("excess_movement")
    gain = mean_estimate(brier_gain(x, y, OUTCOME), EVENTS).metrics("brier_gain")
    assert {name: result[name] for name in excess | gain} == pytest.approx(excess | gain)
    assert result["brier_gain"] == pytest.approx(result["brier_prior"] - result["brier_posterior"])
    assert result["excess_movement"] == pytest.approx(result["movement"] - result["uncertainty_reduction"])
    group = np.array([name == "d1" for name in DOMAINS]).astype(np.intp)
    corrected = corrected_posterior(x, y, score.estimate, group)
    assert result["brier_corrected"] == pytest.approx(np.mean((corrected - OUTCOME[:, None]) ** 2))
    assert result["brier_corrected"] != result["brier_posterior"]
    assert [name for name in result if name.startswith("reason_")] == ["reason_imprecise_posteriors"]
    assert "flag_noiseless" not in result
    assert {name for shown in OPEN.values() for name in shown} <= set(result), "printed with their reason"


@pytest.mark.parametrize("number", [0, 1, 2, 3, 5, 29, 31])
def test_a_part_of_the_scores_is_no_exception(number: int) -> None:
    rows = scores({"domains": "each", "information_weight": 1}, self=paths(0), judge=paths(1), joint=paths(2))
    part = [rows[i] for i in np.random.default_rng(1).permutation(len(rows))[:number]]
    result = summarise(belief_table(part))
    assert list(result)[:8] == FIRST
    assert result["n"] <= number
    if number == 0:
        assert result["n"] == result["epochs"] == result["identified"] == 0
        assert result["reason_one_epoch"] == 1
        assert math.isnan(result["share_scored"])
    if number < 10:
        assert result["identified"] == 0


@pytest.mark.parametrize("settings", [{}, {"granularity": "step"}, {"belief_change": "logit"}, {"domains": "each"}])
@pytest.mark.parametrize("unread", [True, False])
def test_without_beliefs_there_is_no_score(settings: dict[str, Any], unread: bool) -> None:
    rows = scores(settings, self=np.full((20, 2, 3), np.nan)) if unread else []
    result = summarise(replace(belief_table(rows), settings=settings))
    assert list(result)[:8] == FIRST
    for name in ("martingale_score", "martingale_score_lower", "martingale_score_upper", "mde", "excess_movement"):
        assert math.isnan(result[name]), name
    assert result["n"] == result["identified"] == 0
    assert result[f"reason_{'unread' if unread else 'one_epoch'}"] == 1


def test_why_there_is_no_score_is_a_metric() -> None:
    random = np.random.default_rng(2).random((N, EPOCHS, 3))
    cases = {
        "one_epoch": paths()[:, :1],
        "few_questions": paths()[:8],
        "equal_priors": np.full((N, EPOCHS, 3), 0.5),
        "low_reliability": random,
        "weak_instrument": paths(15, error=0.15)[:24, :2],
    }
    for reason, path in cases.items():
        result = figures_of(self=path)
        assert [name for name in result if name.startswith("reason_")] == [f"reason_{reason}"]
        assert math.isnan(result["martingale_score"])
        assert math.isnan(result["brier_corrected"])
        assert math.isfinite(result["brier_posterior"]), "what does not hang on the score is there"
        assert result["identified"] == 0
    for change in ("difference", "logit"):
        leaky = belief_table(scores({"belief_change": change}, self=paths()))
        assert summarise(leaky)["identified"] == 1
        assert summarise(replace(leaky, saw_reasoning=True))["reason_saw_reasoning"] == 1
        own = belief_table(scores({"belief_change": change}, token=paths()))
        result = summarise(own)
        assert result["reason_no_second_wording"] == 1
        assert math.isnan(result["posterior_inefficiency"])
        reworded = replace(own, prior_2=own.prior["token"])
        assert summarise(reworded)["martingale_score"] == summarise(leaky)["martingale_score"]
    assert set(cases) | {"saw_reasoning", "no_second_wording", "unread", "few_clusters"} == set(REASONS)


def test_noiseless_priors_are_told() -> None:
    path = paths()[:, :2]
    path[:, 1, 0] = path[:, 0, 0]
    assert figures_of(self=path)["flag_noiseless"] == 1
    assert math.isfinite(figures_of(self=path)["martingale_score"])


def test_steps_as_updates() -> None:
    path = paths(steps=3)
    result = figures_of({"granularity": "step"}, self=path)
    by_step = martingale_score(path[:, :, :-1], path[:, :, 1:], path[:, :, 0], EVENTS, group=DOMAINS)
    assert result["martingale_score"] == pytest.approx(by_step.estimate)
    assert result["martingale_score_upper"] == pytest.approx(by_step.upper)
    assert result["martingale_score_ols"] == pytest.approx(by_step.ols)
    whole = figures_of(self=path)
    assert whole["martingale_score"] == pytest.approx(
        martingale_score(path[:, :, 0], path[:, :, -1], cluster=EVENTS, group=DOMAINS).estimate
    )
    # Three steps of .1 each are one of 1.1³ - 1
    assert result["martingale_score"] == pytest.approx(0.1, abs=0.08)
    assert whole["martingale_score"] == pytest.approx(1.1**3 - 1, abs=0.12)
    assert whole["movement"] == result["movement"], "the companions are of whole trajectories"


def test_steps_of_trajectories_of_different_lengths() -> None:
    path = paths(steps=3)
    rows = scores({"granularity": "step"}, self=path)
    cut = scores({"granularity": "step"}, self=path[:, :, [0, 1, 3]])
    mixed = [cut[i] if i % 2 else rows[i] for i in range(len(rows))]
    attempts = path.copy().reshape(-1, 4)
    attempts[1::2, 2:] = np.column_stack([attempts[1::2, 3], np.full(len(attempts) // 2, np.nan)])
    expected: Floats = attempts.reshape(path.shape)
    score = martingale_score(expected[:, :, :-1], expected[:, :, 1:], path[:, :, 0], EVENTS, group=DOMAINS)
    assert summarise(belief_table(mixed))["martingale_score"] == pytest.approx(score.estimate)


def test_changes_in_log_odds() -> None:
    path = paths()
    path[0, 0, -1], path[1, 0, -1] = 0.0, 1.0
    result = figures_of({"belief_change": "logit"}, self=path)
    x, y = (np.log(p / (1 - p)) for p in (np.clip(path[:, :, at], 0.005, 0.995) for at in (0, -1)))
    cluster, group = np.arange(N) // 2, np.arange(N) % 2
    slope = cross_epoch_slope((y - x)[:, :, None], x[:, :, None], x, cluster, group)
    plain = ols_slope((y - x)[:, :, None], x[:, :, None], cluster, group)
    assert result["martingale_score"] == pytest.approx(slope.estimate)
    assert (result["martingale_score_lower"], result["p"]) == pytest.approx((slope.lower, slope.p))
    assert result["martingale_score_ols"] == pytest.approx(plain.estimate)
    assert result["martingale_score_ols_half"] == pytest.approx(np.sum(x * (y - x)) / np.sum(x**2))
    assert result["martingale_score"] != pytest.approx(figures_of(self=path)["martingale_score"], rel=1e-3)
    assert result["brier_posterior"] == pytest.approx(figures_of(self=path)["brier_posterior"])


def test_a_score_for_every_domain() -> None:
    path = paths()
    result = figures_of({"domains": "each"}, self=path)
    for name in ("d0", "d1"):
        rows = np.array([domain == name for domain in DOMAINS])
        alone = martingale_score(path[rows, :, 0], path[rows, :, -1], cluster=[EVENTS[q] for q in np.flatnonzero(rows)])
        assert result[f"martingale_score_in_{name}"] == pytest.approx(alone.estimate)
        assert result[f"martingale_score_lower_in_{name}"] == pytest.approx(alone.lower)
        assert result[f"martingale_score_upper_in_{name}"] == pytest.approx(alone.upper)
        assert (result[f"identified_in_{name}"], result[f"n_in_{name}"]) == (1, N / 2)
    pooled = figures_of(self=path)
    assert {name: result[name] for name in pooled} == pytest.approx(pooled, nan_ok=True)
    assert set(result) - set(pooled) == {
        f"{what}{bound}_in_{name}"
        for name in ("d0", "d1")
        for what, bounds in (("martingale_score", ("", "_lower", "_upper")), ("identified", ("",)), ("n", ("",)))
        for bound in bounds
    }


def test_what_was_learned_is_weighed_against_the_slope() -> None:
    plain = figures_of(self=paths())
    assert "informed_score" not in plain
    weighed = figures_of({"information_weight": 2.0}, self=paths(slope=-0.2))
    assert weighed["martingale_score"] < 0
    assert weighed["informed_score"] == pytest.approx(-weighed["martingale_score"] - 2 * weighed["brier_gain"])
    for slope, least in ((0.3, "movement"), (-0.2, "uncertainty_reduction")):
        unknown = figures_of({"information_weight": 2.0}, None, self=paths(slope=slope))
        assert math.isnan(unknown["brier_gain"])
        assert unknown[least] == min(unknown["movement"], unknown["uncertainty_reduction"])
        assert unknown["informed_score"] == pytest.approx(abs(unknown["martingale_score"]) - 2 * unknown[least])


def test_two_elicitors_are_each_others_instruments() -> None:
    own, judge = paths(0), paths(1)
    result = figures_of(self=own, judge=judge)
    x, y, z = own[:, :, 0], own[:, :, -1], judge[:, :, 0]
    first = martingale_score(x, y, z, EVENTS, group=DOMAINS)
    other = martingale_score(z, judge[:, :, -1], x, EVENTS, group=DOMAINS)
    assert (result["martingale_score"], result["reliability"]) == pytest.approx((first.estimate, first.reliability))
    assert [result[f"martingale_score_judge{bound}"] for bound in ("", "_lower", "_upper")] == pytest.approx(
        [other.estimate, other.lower, other.upper]
    )
    assert result["martingale_score"] != figures_of(self=own)["martingale_score"]
    for name in ("martingale_score_ols", "excess_movement", "brier_gain"):
        assert result[name] == figures_of(self=own)[name], "the other figures are the model's own"
    alone = figures_of(judge=judge)
    assert alone["martingale_score"] == pytest.approx(
        martingale_score(z, judge[:, :, -1], cluster=EVENTS, group=DOMAINS).estimate
    )
    assert "martingale_score_judge" not in alone


@pytest.mark.parametrize("with_judge", [False, True])
def test_a_joint_reading_has_its_published_slope_and_its_leak(with_judge: bool) -> None:
    beliefs: dict[str, Any] = {"self": paths(0), **({"judge": paths(1)} if with_judge else {})}
    separate = beliefs["judge" if with_judge else "self"]
    rng = np.random.default_rng(3)
    # An end that all epochs have in common, of which the joint prior knows 0.4 of the way.
    end = 0.5 + even(rng, 0.2, N, 1)
    for path in beliefs.values():
        path[:, :, -1] = end + even(rng, 0.01, N, EPOCHS)
    start = 0.5 + even(np.random.default_rng(99), 0.12, N, 1)
    joint = np.stack([start + 0.4 * (end - start) + even(rng, 0.01, N, EPOCHS), separate[:, :, -1]], axis=-1)
    result = figures_of(**beliefs, joint=joint)
    assert result["leak"] == pytest.approx(0.4, abs=0.05)
    codes = np.arange(N) // 2, np.arange(N) % 2
    seen = foreseen_share(separate[:, :, 0], separate[:, :, -1], joint[:, :, 0], *codes)
    assert [result[f"leak{bound}"] for bound in ("", "_lower", "_upper")] == pytest.approx(
        [seen.estimate, seen.lower, seen.upper]
    )
    x, y = (joint[:, :, at : at + 1] for at in (0, 1))
    published = ols_slope(y - x, x, *codes)
    assert [result[f"martingale_score_joint{bound}"] for bound in ("", "_lower", "_upper")] == pytest.approx(
        [published.estimate, published.lower, published.upper]
    )
    without = figures_of(**beliefs)
    assert {name: result[name] for name in without} == pytest.approx(without, nan_ok=True), "it changes no other figure"


def test_a_leak_needs_news_common_to_all_epochs() -> None:
    rng = np.random.default_rng(4)
    own, joint = paths(0), paths(2)
    own[:, :, -1] = own[:, :, 0] + even(rng, 0.05, N, EPOCHS)
    result = figures_of(self=own, joint=joint)
    assert np.isnan([result[f"leak{bound}"] for bound in ("", "_lower", "_upper")]).all()
    assert np.isfinite([result[f"martingale_score_joint{bound}"] for bound in ("", "_lower", "_upper")]).all()
    assert result["identified"] == 1


@pytest.mark.parametrize(
    "settings", [{"granularity": "step"}, {"belief_change": "logit"}, {"granularity": "step", "belief_change": "logit"}]
)
@pytest.mark.parametrize("with_judge", [False, True])
def test_the_corrected_posterior_uses_the_plain_slope(settings: dict[str, Any], with_judge: bool) -> None:
    beliefs: dict[str, Any] = {"self": paths(0, steps=3), **({"judge": paths(1, steps=3)} if with_judge else {})}
    plain, result = figures_of(**beliefs), figures_of(settings, **beliefs)
    assert result["martingale_score"] != pytest.approx(plain["martingale_score"], rel=1e-3)
    assert result["brier_corrected"] == plain["brier_corrected"]
    x, y = beliefs["self"][:, :, 0], beliefs["self"][:, :, -1]
    instrument = beliefs["judge"][:, :, 0] if with_judge else None
    slope = martingale_score(x, y, instrument, EVENTS, group=DOMAINS).estimate
    corrected = corrected_posterior(x, y, slope, np.arange(N) % 2)
    assert result["brier_corrected"] == pytest.approx(np.mean((corrected - OUTCOME[:, None]) ** 2))
    assert result["brier_corrected"] != pytest.approx(result["brier_posterior"], rel=1e-3)


def test_turning_every_proposition_round_changes_no_figure() -> None:
    beliefs: dict[str, Any] = {name: paths(seed, slope=0.5) for seed, name in enumerate(("self", "judge", "joint"))}
    plain = figures_of({"domains": "each"}, **beliefs)
    turned = figures_of({"domains": "each"}, 1 - OUTCOME, **{name: 1 - path for name, path in beliefs.items()})
    assert np.isfinite(plain["leak"])
    for name in ("update_mean", "update_square", "error_mean", "error_square"):
        ends = [-turned.pop(f"{name}{end}") for end in ("_upper", "_lower")]
        assert [-turned.pop(name), *ends] == pytest.approx([plain.pop(name + end) for end in ("", "_lower", "_upper")])
    assert turned == pytest.approx(plain, nan_ok=True)


def view(epoch: int = 1) -> dict[str, Any]:
    return asdict(Belief(None, "view", "judge", "separate", False, epoch, "I lean to yes.", None, "digest"))


def test_beliefs_of_one_elicitor() -> None:
    scores = [
        scored("a", 1, beliefs("self", [0.2, 0.4])),
        scored("b", 2, beliefs("self", [0.7, 0.9]), domain="other", outcome=0.0),
        scored("a", 2, beliefs("self", [0.3, 0.5])),
    ]
    table = belief_table(scores)
    assert table.questions.question == ["a", "b"]
    assert_equal(table.prior["self"], [[0.2, 0.3], [np.nan, 0.7]])
    assert_equal(table.posterior["self"], [[0.4, 0.5], [np.nan, 0.9]])
    assert_equal(table.questions.values, table.prior["self"])
    assert_equal(table.questions.outcome, [1, 0])
    assert table.questions.cluster == ["event of a", "event of b"]
    assert table.domain == ["urns", "other"]
    assert table.share_scored == 1
    assert not table.saw_reasoning
    assert table.settings == SETTINGS
    assert (table.first, table.second) == ("self", None)
    assert set(table.prior) == set(table.posterior) == {"self"}


def test_a_prior_in_a_second_wording_is_no_step_of_the_path() -> None:
    first, last = beliefs("self", [0.2, 0.4])
    second = first | {"stage": "prior 2", "value": 0.3}
    table = belief_table([scored("a", 1, [first, second, last]), scored("a", 2, beliefs("self", [0.5, 0.6]))])
    assert_equal(table.path["self"], [[[0.2, 0.4], [0.5, 0.6]]])
    assert_equal(table.prior["self"], [[0.2, 0.5]])
    assert_equal(table.prior_2, [[0.3, np.nan]])
    assert_equal(belief_table([scored("a", 1, [first, second | {"value": None}, last])]).prior_2, [[np.nan]])


def test_self_judge_and_joint() -> None:
    table = belief_table([
        scored("a", epoch, beliefs("self", [0.1 * epoch, 0.4]), [view(epoch)], beliefs("judge", [0.2 * epoch, 0.5]),
               beliefs("joint", [0.3 * epoch, 0.45, 0.6], saw=True))
        for epoch in (1, 2)
    ])  # fmt: skip
    assert list(table.prior) == list(table.posterior) == ["self", "judge", "joint"]
    for name, priors, end in (("self", [0.1, 0.2], 0.4), ("judge", [0.2, 0.4], 0.5), ("joint", [0.3, 0.6], 0.6)):
        assert table.prior[name].tolist() == [pytest.approx(priors)]
        assert table.posterior[name].tolist() == [[end, end]]
    assert table.path["joint"][0, 0] == pytest.approx([0.3, 0.45, 0.6])
    assert table.path["judge"][0, 0] == pytest.approx([0.2, 0.5]), "the text of a first view is no belief"
    assert (table.first, table.second) == ("self", "judge")
    assert not table.saw_reasoning, "a joint prior has seen the end, and is no instrument"


@pytest.mark.parametrize(("elicitor", "seen"), [("self", True), ("judge", True), ("joint", False)])
def test_a_prior_that_saw_the_reasoning_is_told(elicitor: str, seen: bool) -> None:
    clean, leaky = beliefs("self", [0.2, 0.4]), beliefs(elicitor, [0.2, 0.4], saw=True)
    assert belief_table([scored("a", 1, clean), scored("b", 1, clean, leaky)]).saw_reasoning == seen
    assert belief_table([scored("b", 1, clean, leaky), scored("a", 1, clean)]).saw_reasoning == seen


def test_paths_of_different_lengths_are_filled_up_with_nan() -> None:
    scores = [
        scored("a", 1, beliefs("self", [0.1, 0.2, 0.3, 0.4])),
        scored("a", 2, beliefs("self", [0.5, 0.6])),
        scored("b", 2, beliefs("self", [0.7, None, 0.9])),
    ]
    table = belief_table(scores)
    nan = np.nan
    assert_equal(table.path["self"], [[[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, nan, nan]], [[nan] * 4, [0.7, nan, 0.9, nan]]])
    assert_equal(table.posterior["self"], [[0.4, 0.6], [nan, 0.9]])
    assert np.isfinite(np.diff(table.path["self"])).sum() == 4, "no step leads across a belief that is missing"


def test_what_could_not_be_read_is_nan_and_counted() -> None:
    scores = [
        scored("a", 1, beliefs("self", [0.2, 0.4])),
        scored("a", 2, beliefs("self", [None, 0.4])),
        scored("b", 1, beliefs("self", [0.2, None])),
        scored("b", 2, beliefs("self", [None, None])),
    ]
    table = belief_table(scores)
    assert_equal(table.prior["self"], [[0.2, np.nan], [0.2, np.nan]])
    assert_equal(table.posterior["self"], [[0.4, 0.4], [np.nan, np.nan]])
    assert table.share_scored == 0.25


def test_order_of_scores_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    scores = [
        scored(f"q{q}", epoch, beliefs("self", rng.random(4).tolist()), domain=f"d{q % 2}")
        for q in range(6)
        for epoch in (1, 2, 3)
    ]
    plain, shuffled = belief_table(scores), belief_table([scores[i] for i in rng.permutation(len(scores))])
    order = [shuffled.questions.question.index(name) for name in plain.questions.question]
    assert_equal(shuffled.path["self"][order], plain.path["self"])
    assert [shuffled.domain[i] for i in order] == plain.domain


def test_scores_without_beliefs_are_rows_without_beliefs() -> None:
    other = SampleScore(score=Score(value={"belief": 0.7}, metadata={"epoch": 1, "event": "e"}), sample_id="x")
    table = belief_table([other, scored("a", 2, beliefs("self", [0.2, 0.4]))])
    assert_equal(table.prior["self"], [[np.nan, np.nan], [np.nan, 0.2]])
    assert table.share_scored == 0.5
    assert belief_table([other]).path == {}


def test_an_error_of_one_wording_does_not_bias_the_score() -> None:
    wording = even(np.random.default_rng(5), 0.12, N, 1)
    path = paths(slope=0.0, error=0.0)
    path[:, :, 0] += wording
    table = belief_table(scores(None, None, self=path))
    assert summarise(table)["martingale_score_upper"] < 0, "as it is in all epochs, another epoch does not reveal it"
    other = replace(table, prior_2=np.clip(paths(seed=1, slope=0.0)[:, :, 0], 0, 1))
    result = summarise(other)
    assert (
        result["martingale_score"]
        == martingale_score(path[:, :, 0], path[:, :, -1], other.prior_2, EVENTS, group=DOMAINS).estimate
    )
    assert result["martingale_score_lower"] < 0 < result["martingale_score_upper"]
    each = replace(other, settings={"domains": "each"})
    rows = np.array(DOMAINS) == "d1"
    only = [event for event, row in zip(EVENTS, rows, strict=True) if row]
    expected = martingale_score(path[rows, :, 0], path[rows, :, -1], other.prior_2[rows], only)
    assert summarise(each)["martingale_score_in_d1"] == pytest.approx(expected.estimate)


def test_a_second_wording_that_nobody_could_read_gives_no_score() -> None:
    table = replace(belief_table(scores({"paraphrases": 2}, self=paths())), prior_2=np.full((N, EPOCHS), np.nan))
    assert summarise(table)["reason_unread"] == 1
