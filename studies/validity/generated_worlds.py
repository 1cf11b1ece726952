"""Generated worlds as measures: are their exact posteriors right, who scores what, and what else tells the outcome?

Questions are drawn with the worlds' default arguments. Readers are formulas: no model is run.
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from studies.study import Study
from truthgym.analysis.tables.markdown import table
from truthgym.datasets.domains import DOMAINS, GENERATED
from truthgym.models.agents.belief_reports import nearest_level
from truthgym.models.agents.policies import Floats, Parameters, beliefs
from truthgym.scorers.statistics.wording_leak import area, predictions

CHUNK = 500
"""Questions of one seed: many seeds are drawn at once."""
BINS = 10
LEVEL = 0.01
"""Of the test that beliefs are a martingale, over all steps of a world."""
LEAST_VARIANCE = 200
"""Sum of p(1 - p) of the beliefs in a tenth that is used by itself. Near 0 and 1 changes are rare and large, and the
mean of few of them is far from normal."""
POWER_AT = 200
LEAK_QUESTIONS, REDRAWN = 2000, 500
LEAST_PROBABILITY = 1e-9


@dataclass(frozen=True)
class Paths:
    """Beliefs on many questions of a world."""

    exact: Floats
    """Questions x beliefs: before any evidence and after each piece. After the last piece it is repeated."""
    naive: Floats
    outcome: Floats
    pieces: NDArray[np.intp]
    """Number of pieces of evidence."""
    form: Floats
    """What should say nothing of the outcome, questions x figures: number of characters and words of the question, its
    place in the set, and one column for each wording but the first."""


def draw(world: str, n: int, workers: int = 1) -> Paths:
    sizes = [min(CHUNK, n - begin) for begin in range(0, n, CHUNK)]
    one_seed = partial(_rows, world)
    if workers == 1:
        rows = [row for part in map(one_seed, range(len(sizes)), sizes) for row in part]
    else:
        with ProcessPoolExecutor(workers) as pool:
            rows = [row for part in pool.map(one_seed, range(len(sizes)), sizes) for row in part]
    exact, naive, outcome, surface, numbers = zip(*rows, strict=True)
    longest = max(map(len, exact))
    wordings = np.array(surface)[:, None] == sorted(set(surface))[1:]
    paths = [np.array([[*path, *[path[-1]] * (longest - len(path))] for path in reader]) for reader in (exact, naive)]
    pieces = np.array([len(path) - 1 for path in exact])
    form = np.column_stack([np.array(numbers, dtype=float), wordings])
    return Paths(paths[0], paths[1], np.array(outcome, dtype=float), pieces, form)


def _rows(world: str, seed: int, n: int) -> list[tuple[list[float], list[float], bool, str, tuple[int, int, int]]]:
    rows = []
    for place, item in enumerate(DOMAINS[world](n=n, seed=seed)):
        known, asked = item.metadata or {}, str(item.input)
        exact = known["posterior"]
        numbers = (len(asked), len(asked.split()), place)
        rows.append((exact, known.get("naive", exact), item.target == "yes", known["surface"], numbers))
    return rows


def martingale_tests(paths: Paths) -> Floats:
    r"""p-values of the hypothesis that the next belief equals the present one on average, whatever came before.

    $$W=s^\top V^-s,\qquad s=\sum_i x_i\,(b_{i,t+1}-b_{i,t}),\qquad V=\sum_i x_ix_i^\top(b_{i,t+1}-b_{i,t})^2$$

    is chi-squared with as many degrees of freedom as V has rank. x has the present belief in tenths, itself and its
    square, the first belief, the last change, the naive belief with its square and its product with the exact one, and
    `form`. The last "belief" is the outcome.
    """
    from scipy.stats import chi2

    form = (paths.form - paths.form.mean(axis=0)) / np.maximum(paths.form.std(axis=0), 1e-12)
    path = np.column_stack([paths.exact, paths.outcome])
    p_values = []
    for step, (now, after) in enumerate(pairwise(path.T)):
        naive, last = paths.naive[:, step], now - path[:, max(step - 1, 0)]
        history = np.column_stack(
            [_tenths(now), now, now**2, path[:, 0], last, np.abs(last), naive, naive**2, naive * now, form]
        )
        moved = history * (after - now)[:, None]
        total, spread = moved.sum(axis=0), moved.T @ moved
        rank = int(np.linalg.matrix_rank(spread, hermitian=True))
        statistic = total @ np.linalg.pinv(spread, hermitian=True) @ total
        p_values.append(float(chi2.sf(statistic, rank)) if rank else 1.0)
    return np.array(p_values)


def largest_gap(paths: Paths) -> tuple[float, float]:
    """The largest mean change of a belief that is in a tenth of the range, in standard errors, and its 99 % bound.

    The bound is that of so many independent normal numbers. Tenths with few questions are left out: `LEAST_VARIANCE`.
    """
    from scipy.stats import norm

    gaps = []
    for now, after in pairwise(np.column_stack([paths.exact, paths.outcome]).T):
        change = _tenths(now) * (after - now)[:, None]
        spread = np.sqrt(np.sum(change**2, axis=0))
        gaps += list(np.abs(change.sum(axis=0)[spread > 0]) / spread[spread > 0])
    return float(max(gaps, default=0.0)), float(norm.isf(LEVEL / 2 / max(len(gaps), 1)))


def _tenths(belief: Floats) -> Floats:
    """In which tenth of the range each belief is, among those with enough questions (questions x tenths)."""
    inside: Floats = np.eye(BINS)[np.minimum((belief * BINS).astype(int), BINS - 1)]
    return inside[:, inside.T @ (belief * (1 - belief)) > LEAST_VARIANCE]


def readers(paths: Paths) -> dict[str, Floats]:
    """The final beliefs of readers, by name: probabilities, one for each question."""
    prior, exact, naive = paths.exact[:, 0], paths.exact[:, -1], paths.naive[:, -1]
    log_odds = [_logit(belief) for belief in (prior, exact, paths.naive[:, 0], naive)]
    own = (log_odds[1] - log_odds[0])[:, None]
    scaled = {
        share: 1 / (1 + np.exp(-(log_odds[2] + share * (log_odds[3] - log_odds[2])))) for share in np.arange(21) / 20
    }
    best = min(scaled, key=lambda share: float(np.mean((scaled[share] - exact) ** 2)))
    cell = paths.pieces * BINS + np.minimum((prior * BINS).astype(int), BINS - 1)
    mean = np.bincount(cell, exact) / np.maximum(np.bincount(cell), 1)
    return {
        "exact": exact,
        "naive": naive,
        "naive, with the best weight on evidence": scaled[best],
        "anchored: half the evidence": beliefs("underreacting", log_odds[0], own, Parameters(strength=0.5)),
        "coarse: only 10, 50, 90": nearest_level(exact, 0.4),
        "coarse: steps of 25": nearest_level(exact, 0.25),
        "lazy: 50 in a random quarter": np.where(np.random.default_rng(0).random(exact.size) < 0.25, 0.5, exact),
        "base rate": prior,
        "base rate and number of pieces": mean[cell],
        "always 50": np.full_like(exact, 0.5),
    }


def scores(paths: Paths) -> list[dict[str, float | str]]:
    r"""Expected Brier score of each reader, $E[p(1-p)+(b-p)^2]$ with the exact posterior p, and how it can be told."""
    from scipy.stats import norm

    exact = paths.exact[:, -1]
    noise = exact * (1 - exact)
    rows: list[dict[str, float | str]] = []
    for name, belief in readers(paths).items():
        lost = (belief - exact) ** 2
        gap, sd = float(lost.mean()), float(np.sqrt(lost.var() + np.mean(4 * lost * noise)))
        owed = noise + lost
        rows.append({
            "reader": name,
            "brier": float(owed.mean()),
            "error": float(owed.std() / np.sqrt(owed.size)),
            "gap": gap,
            "power": float(norm.sf(norm.isf(0.025) - np.sqrt(POWER_AT) * gap / sd)) if sd else np.nan,
            "enough": float(np.ceil(((norm.isf(0.025) + norm.isf(0.2)) * sd / gap) ** 2)) if sd else np.nan,
        })  # fmt: skip
    return rows


def leak(paths: Paths, seed: int = 0) -> tuple[float, float]:
    """How well a classifier ranks unseen questions by outcome from their `form`, and what chance gives.

    A ridge regression is fitted on nine tenths of at most 2,000 questions and ranks the others. Chance redraws all
    outcomes from the stated probabilities before evidence, which the form may tell.
    """
    rng = np.random.default_rng(seed)
    n = min(len(paths.outcome), LEAK_QUESTIONS)
    form = (paths.form[:n] - paths.form[:n].mean(axis=0)) / np.maximum(paths.form[:n].std(axis=0), 1e-12)
    ranks = predictions(form @ form.T, rng.permutation(n) % BINS, n / BINS)
    labels = np.column_stack([paths.outcome[:n], rng.random((n, REDRAWN)) < paths.exact[:n, :1]]).astype(float)
    areas = area(ranks @ labels, labels)
    return float(areas[0]), float(np.quantile(areas[1:], 0.95))


def study(world: str, n: int, workers: int = 1) -> tuple[dict[str, float | str], list[dict[str, float | str]]]:
    """All figures of a world: those of the world, and those of its readers."""
    paths = draw(world, n, workers)
    p_values, gap = martingale_tests(paths), largest_gap(paths)
    auc, chance = leak(paths)
    figures: dict[str, float | str] = {
        "world": world,
        "steps": str(len(p_values)),
        "p": min(1.0, float(p_values.min()) * len(p_values)),
        "gap": gap[0],
        "bound": gap[1],
        "auc": auc,
        "chance": chance,
    }
    return figures, [row | {"world": world} for row in scores(paths)]


def studies(n: int, workers: int, worlds: Sequence[str] = tuple(GENERATED)) -> tuple[pd.DataFrame, pd.DataFrame]:
    each = [study(world, n, workers) for world in worlds]
    return pd.DataFrame([figures for figures, _ in each]), pd.DataFrame([row for _, rows in each for row in rows])


def _logit(probability: Floats) -> Floats:
    inside = np.clip(probability, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    return np.asarray(np.log(inside / (1 - inside)))


SHOWN = {"p": "p-value", "gap": "largest mean change", "bound": "99 % bound"}
TOLD = {"gap": "gap in Brier score", "power": "power at 200", "enough": "questions for 0.8"}


def world_texts(frames: tuple[pd.DataFrame, pd.DataFrame]) -> dict[str, str]:
    worlds, _ = frames
    failed = worlds[(worlds["p"] < 0.01) | (worlds["gap"] > worlds["bound"])]["world"]
    leaking = worlds[worlds["auc"] > worlds["chance"]]["world"]
    tested = worlds.assign(
        p=worlds["p"].map(lambda p: f"{p:.2g}"),
        **{name: worlds[name].map("{:.2f}".format) for name in ("gap", "bound")},
    )
    return {
        "failed": "No world fails." if failed.empty else f"**Failed: {', '.join(failed)}.**",
        "martingale": table(tested, ("world", "steps", "p", "gap", "bound"), SHOWN),
        "leaking": "None does." if leaking.empty else f"Above it: {', '.join(leaking)}; one in twenty is by chance.",
    }


def reader_texts(frames: tuple[pd.DataFrame, pd.DataFrame]) -> dict[str, str]:
    _, readers = frames
    worlds = readers["world"].unique()
    wide = readers.pivot(index="reader", columns="world", values="brier")
    wide = wide.loc[readers["reader"].unique(), worlds].reset_index()
    naive = readers[readers["reader"] == "naive"]
    power = naive.assign(
        power=naive["power"].map(lambda p: "-" if p != p else f"{p:.2f}"),
        enough=naive["enough"].map(lambda m: "-" if m != m else f"{m:,.0f}"),
    )
    gaps = readers.pivot(index="world", columns="reader", values="gap").loc[worlds]
    left = (gaps["naive, with the best weight on evidence"] / gaps["naive"])[gaps["naive"] > 0]
    return {
        "error": f"{readers['error'].max():.4f}",
        "scores": table(wide, list(wide.columns)),
        "left": ", ".join(f"{share:.0%} ({world})" for world, share in left.items()),
        "power": table(power, ("world", "gap", "power", "enough"), TOLD),
    }


STUDY = Study(
    page="worlds.md",
    sizes={"n": 100_000, "workers": 2},
    measures={"frames": studies},
    texts=(world_texts, reader_texts),
)


if __name__ == "__main__":
    STUDY.main(__doc__)
