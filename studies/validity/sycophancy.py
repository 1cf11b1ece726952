"""Does the third party tell the sycophant from the trusting? Planted and recovered sycophancy, as a page with a chart.

    python -m studies.validity.sycophancy docs/validity_sycophancy.md   (pip install -e ".[charts]")

Everything on the page is computed in this run. `--replications 30 --real 20` makes a quick one.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from studies.study import Row, Study, contains_planted, planted_and_found, recovered, reference_model, run_task
from studies.validity.true_values import simulate_run, true_shifts
from truthgym.analysis.tables.markdown import table
from truthgym.models.agents.belief_reports import noisy
from truthgym.models.agents.policies import Floats, Parameters
from truthgym.scorers.statistics.interval import Estimate
from truthgym.scorers.statistics.proper_scores import brier_score
from truthgym.scorers.statistics.sycophancy import (
    ARMS,
    VERDICTS,
    caved,
    logit_shifts,
    opinion_shifts,
    opinion_verdict,
    pushback_figures,
    score_changes,
)
from truthgym.tasks.sycophancy import sycophancy

NOISE = 0.1
AGENTS = {
    "ignores opinions": ("bayesian", Parameters(noise=NOISE)),
    "trusts any opinion, 0.4": ("trusting", Parameters(noise=NOISE)),
    "sycophant, 0.8": ("sycophant", Parameters(noise=NOISE)),
    "sycophant 0.8, trust 0.4": ("sycophant", Parameters(noise=NOISE, trust=0.4)),
}
REFUSING = 0.6
JUDGED = {
    "ignores opinions": ("bayesian", Parameters(noise=NOISE)),
    "never moves": ("stuck", Parameters()),
    "random answers": ("random", Parameters()),
    "trusts any opinion, 0.4": ("trusting", Parameters(noise=NOISE)),
    "caves to anybody, 3": ("trusting", Parameters(noise=NOISE, strength=3)),
    "sycophant, 0.2": ("sycophant", Parameters(noise=NOISE, strength=0.2)),
    "sycophant, 0.8": ("sycophant", Parameters(noise=NOISE)),
    "sycophant 0.8, trust 0.4": ("sycophant", Parameters(noise=NOISE, trust=0.4)),
    "ignores its user, against strangers": ("sycophant", Parameters(noise=NOISE, strength=0.9, trust=-0.9)),
    "against everybody": ("sycophant", Parameters(noise=NOISE, strength=0, trust=-0.8)),
    "ignores opinions, refuses": ("bayesian", Parameters(noise=NOISE)),
}
"""Agents of the table of verdicts. The last one leaves a share `REFUSING` of its answers to the user unread where they
would be against the user's opinion."""
FIGURES = (
    "net_sycophancy",
    "user_shift",
    "third_shift",
    "brier_random_net",
    "brier_random",
    "brier_wrong",
    "brier_right",
    "doubt_shift",
    "argument_shift",
)
Moves = Callable[[Floats, str, np.random.Generator], Floats]
"""The beliefs under an opinion from those without: of the arm, with draws that all epochs share."""


def _for(who: str, moves: Moves) -> Moves:
    """Moves for one speaker alone."""
    return lambda b, arm, rng: moves(b, arm, rng) if arm.startswith(who) else b


def _logit(b: Floats) -> Floats:
    return np.log(np.clip(b, 0.003, 0.997) / (1 - np.clip(b, 0.003, 0.997)))


def _surer(by: float) -> Moves:
    return lambda b, arm, rng: 1 / (1 + np.exp(-_logit(b) - by * np.sign(b - 0.5)))


def _hedges(by: float) -> Moves:
    return lambda b, arm, rng: b + by * (0.5 - b)


def _some(share: float, moves: Moves) -> Moves:
    """Moves in a share of the questions, the same under each opinion."""
    return lambda b, arm, rng: np.where(rng.random(len(b)) < share, moves(b, arm, rng), b)


def _opposite(b: Floats, arm: str, rng: np.random.Generator) -> Floats:
    return 1 - b


BOTH_WAYS: dict[str, tuple[Moves, float, str]] = {
    "ignores opinions": (lambda b, arm, rng: b, NOISE, "steady"),
    "hedges by a tenth": (_hedges(0.1), NOISE, "steady"),
    "says the opposite of its belief": (_opposite, NOISE, "reversed by anybody"),
    "the same, to its user alone": (_for("user", _opposite), NOISE, "reversed by its user"),
    "says 50": (_hedges(1.0), NOISE, "unsettled by anybody"),
    "doubles down, 1.5": (_surer(1.5), NOISE, "hardened by anybody"),
    "doubles down to a third party alone, 1": (_for("third", _surer(1.0)), NOISE, "hardened by a third party"),
    "hedges by 0.3": (_hedges(0.3), NOISE, "unsettled by anybody"),
    "says the opposite in a tenth of the questions": (_some(0.1, _opposite), NOISE, "unsettled by anybody"),
    "says yes further, by 0.15": (lambda b, arm, rng: np.minimum(b + 0.15, 1), NOISE, "erratic under anybody"),
    "moves anywhere, sd 0.2": (
        lambda b, arm, rng: np.clip(b + rng.normal(0, 0.2, len(b)), 0, 1), NOISE, "erratic under anybody"
    ),
    "answers with noise of 0.25": (lambda b, arm, rng: b, 0.25, "erratic under anybody"),
    "answers its user with noise of 0.2": (_for("user", lambda b, arm, rng: b), 0.2, "erratic under its user"),
}  # fmt: skip
"""Agents whose answers under an opinion of yes and of no move alike, so that no shift shows them: what they do, the
noise of their answers under an opinion, and the true verdict."""
SIZES = (100, 500)


def through_the_task(real: int) -> pd.DataFrame:
    """One run of the real task for each agent: what is planted, and the log's figures with their intervals."""
    rows = []
    for seed, (label, (name, parameters)) in enumerate(AGENTS.items()):
        measured = run(name, parameters, real, seed, arms="user,third,pushback")
        truth = true_shifts(name, parameters)
        planted = {figure: truth[figure] for figure in (*FIGURES, "brier_neutral")}
        rows += [{"agent": label} | row for row in _rows(planted, measured)]
    return pd.DataFrame(rows)


def _rows(planted: Mapping[str, float], measured: Mapping[str, float]) -> list[Row]:
    return [
        {"figure": name, "planted": truth, "found": measured[name]}
        | {"lower": measured[f"{name}_lower"], "upper": measured[f"{name}_upper"]}
        for name, truth in planted.items()
    ]


def run(name: str, parameters: Parameters, n: int, seed: int, **arguments: Any) -> dict[str, float]:
    """Figures of one run of `truthgym/sycophancy` on urns. The questions and the agent follow from the seed."""
    parameters = parameters.model_copy(update={"seed": seed})
    task = sycophancy(domain="urns", n=n, seed=seed, figures="all", **arguments)
    log = run_task(task, reference_model(name, parameters))
    assert log.results is not None
    return {key: metric.value for key, metric in log.results.scores[0].metrics.items()}


def figures(name: str, parameters: Parameters, n: int, seed: int) -> dict[str, Estimate]:
    """Figures of one simulated run, two epochs, by the functions that the scorer uses."""
    simulated = simulate_run(name, parameters, n, 2, seed)
    beliefs, outcome = simulated.beliefs, simulated.outcome
    cluster = [str(i) for i in range(n)]
    y = np.broadcast_to(outcome[:, None, None], beliefs.shape)
    estimates = opinion_shifts(beliefs, cluster) | logit_shifts(beliefs, cluster) | caved(beliefs, cluster)
    estimates |= score_changes(brier_score(beliefs, y), outcome, cluster, "brier")
    return estimates | pushback_figures(beliefs[:, 0], simulated.pushback, outcome, cluster)


def coverage(replications: int) -> pd.DataFrame:
    """Bias and interval coverage over simulated runs."""
    rows = []
    for setting, ((label, (name, parameters)), n) in enumerate(product(AGENTS.items(), SIZES)):
        truth = true_shifts(name, parameters)
        runs = [figures(name, parameters, n, 100_000 * setting + run) for run in range(replications)]
        for figure in FIGURES:
            found = recovered(truth[figure], [run[figure] for run in runs])
            rows.append({"agent": label, "n": n, "figure": figure} | found)
    return pd.DataFrame(rows)


def verdicts(replications: int) -> pd.DataFrame:
    """Share of each verdict over simulated runs of two epochs and 100 questions."""
    rows = []
    n, cluster = 100, [str(i) for i in range(100)]
    for label, (name, parameters) in JUDGED.items():
        codes, shifts = Counter[str](), []
        for seed in range(replications):
            run = simulate_run(name, parameters, n, 2, seed)
            reports = run.beliefs
            if label.endswith("refuses"):
                reports = _refuse(reports, np.random.default_rng(seed))
            shift = opinion_shifts(reports, cluster)
            code, reason = opinion_verdict(shift, reports, cluster, outcome=run.outcome, share_right=True)
            word = "cannot tell" if reason else VERDICTS[int(code)].partition(":")[0]
            codes[word if word in CODES else "other"] += 1
            shifts.append([shift[name].estimate for name in CHART])
        means = dict(zip(CHART, np.mean(shifts, axis=0), strict=True))
        rows.append({"agent": label} | means | {name: codes[name] / replications for name in CODES})
    return pd.DataFrame(rows)


def both_ways(replications: int) -> pd.DataFrame:
    """Share of each verdict on agents that opinions of both sides move alike, in runs of 300 questions."""
    rows = []
    n, cluster = 300, [str(i) for i in range(300)]
    for label, (moves, noise, true) in BOTH_WAYS.items():
        words = Counter[str]()
        for seed in range(replications):
            reports, outcome = _reports(moves, noise, label, n, seed)
            shift = opinion_shifts(reports, cluster)
            code, reason = opinion_verdict(shift, reports, cluster, outcome=outcome, share_right=True)
            words["cannot tell" if reason else VERDICTS[int(code)].partition(":")[0]] += 1
        wrong = sum(words.values()) - words[true] - words["cannot tell"]
        shares = {"steady": words["steady"], "true": words[true], "cannot tell": words["cannot tell"], "other": wrong}
        shares["other"] -= words["steady"] * (true != "steady")
        rows.append({"agent": label, "verdict": true} | {name: count / replications for name, count in shares.items()})
    return pd.DataFrame(rows)


def _reports(moves: Moves, noise: float, label: str, n: int, seed: int) -> tuple[Floats, Floats]:
    """Reports of two epochs, and outcomes: exact beliefs from a normal prior and evidence, moved under opinions."""
    rng = np.random.default_rng([21, seed])
    start = rng.normal(0, 1.2, n)
    outcome = (rng.random(n) < 1 / (1 + np.exp(-start))).astype(float)
    belief = 1 / (1 + np.exp(-start - (2 * outcome - 1) * 0.72 - 1.2 * rng.normal(size=n)))
    reports = np.full((n, len(ARMS), 2), np.nan)
    for place, arm in enumerate(ARMS[:5]):
        moved = moves(belief, arm, np.random.default_rng([22, seed])) if place else belief
        louder = place and ("user" not in label or arm.startswith("user"))
        sd = noise if louder else min(noise, NOISE)
        reports[:, place] = np.round(noisy(np.repeat(moved[:, None], 2, axis=1), sd, rng.random((n, 2))), 2)
    return reports, outcome


def _refuse(reports: Floats, rng: np.random.Generator) -> Floats:
    """The reports without some of the answers that are against the user's opinion."""
    refused = np.zeros(reports.shape, dtype=bool)
    for arm, side in (("user_yes", 1), ("user_no", -1)):
        refused[:, ARMS.index(arm)] = side * (reports[:, ARMS.index(arm)] - 0.5) < 0
    return np.where(refused & (rng.random(reports.shape) < REFUSING), np.nan, reports)


CHART = {"user_shift": "shift to the user", "third_shift": "shift to a third party", "net_sycophancy": "net"}
CODES = ("steady", "sycophantic", "suggestible", "contrary", "other", "cannot tell")
ALIKE = {
    "agent": "agent",
    "verdict": "true verdict",
    "true": "found",
    "other": "another fault",
    "cannot tell": "cannot tell",
}
PUSHBACK = ("doubt_shift", "argument_shift")


def real_texts(rows: pd.DataFrame) -> dict[str, str]:
    doubted = rows["figure"].isin(PUSHBACK)
    return {
        "shifts": planted_and_found(rows, "agent", tuple(CHART)),
        "covered": _covered(rows[~doubted]),
        "pushback": planted_and_found(rows, "agent", PUSHBACK),
        "pushback covered": _covered(rows[doubted]),
    }


def simulated_texts(
    ruled: pd.DataFrame, alike: pd.DataFrame, covered: pd.DataFrame, replications: int
) -> dict[str, str]:
    errors = (covered["bias"] / covered["error"]).abs()
    worst = covered.iloc[int(errors.argmax())]
    share = covered["coverage"]
    said = []
    for row in ruled.to_dict("records"):
        shares = sorted(((float(row[code]), code) for code in CODES), reverse=True)
        said.append(", ".join(f"{code} {part:.2f}" for part, code in shares if part >= 0.005))
    return {
        "verdicts": table(ruled.assign(verdicts=said), ("agent", "user_shift", "third_shift", "verdicts"), CHART, 2),
        "alike": table(alike, tuple(ALIKE), ALIKE, digits=2),
        "coverage": f"{share.min():.3f} and {share.max():.3f} (Monte-Carlo error "
        f"{(0.95 * 0.05 / replications) ** 0.5:.3f}), with mean {share.mean():.3f}",
        "largest bias": f"{worst['bias']:.4f} ({worst['figure']}, {worst['agent']}, n = {worst['n']}: "
        f"{errors.max():.1f} errors, the largest of {len(covered)})",
    }


def _covered(frame: pd.DataFrame) -> str:
    intervals = frame.dropna()
    return f"{contains_planted(intervals).sum()} of {len(intervals)} intervals contain the planted value."


STUDY = Study(
    page="validity_sycophancy.md",
    sizes={"replications": 300, "real": 100},
    measures={"rows": through_the_task, "ruled": verdicts, "alike": both_ways, "covered": coverage},
    texts=(real_texts, simulated_texts),
)


if __name__ == "__main__":
    STUDY.main(__doc__)
