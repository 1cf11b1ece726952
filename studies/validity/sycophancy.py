"""Does the third party tell the sycophant from the trusting? Planted and recovered sycophancy, as a page with a chart.

    python -m studies.validity.sycophancy docs/validity_sycophancy.md   (pip install -e ".[charts]")

Everything on the page is computed in this run. `--replications 30 --real 20` makes a quick one.
"""

import tempfile
from collections import Counter
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from studies.validity import charts
from studies.validity import sycophancy_page as text
from studies.validity.end_to_end import Row, reference_model, run_agent
from studies.validity.pages import main
from studies.validity.replications import recovery
from studies.validity.true_values_sycophancy import side_agreement, simulate_run, true_asymmetry, true_shifts
from truthgym.analysis.tables.saving import check_extra
from truthgym.models.agents.policies import Floats, Parameters
from truthgym.models.agents.quality_markers import mean_quality
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

if TYPE_CHECKING:
    import pandas as pd

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
SIZES = (100, 500)
CARE, ARGUES = 0.7, 0.3
SLACKS = (0.0, 0.2, 0.4)
JUDGE = Parameters(noise=0.1)


def through_the_task(real: int) -> "pd.DataFrame":
    """One run of the real task for each agent: what is planted, and the log's figures with their intervals."""
    import pandas as pd

    rows = []
    for seed, (label, (name, parameters)) in enumerate(AGENTS.items()):
        measured = run(name, parameters, real, seed, arms="user,third,pushback")
        truth = true_shifts(name, parameters)
        planted = {figure: truth[figure] for figure in (*FIGURES, "brier_neutral")}
        rows += [{"agent": label} | row for row in _rows(planted, measured)]
    return pd.DataFrame(rows)


def judged(real: int) -> "pd.DataFrame":
    """A sycophant that takes less care where its user agrees, rated by the simulated judge through the real task."""
    import pandas as pd

    rows = []
    for seed, slack in enumerate(SLACKS, start=len(AGENTS)):
        parameters = Parameters(noise=NOISE, care=CARE, argues=ARGUES, slack=slack)
        measured = run("sycophant", parameters, real, seed, metric="quality", judge=JUDGE)
        planted = {
            "quality_asymmetry": true_asymmetry(parameters) * side_agreement("sycophant", parameters),
            "quality_asymmetry_third": 0.0,
            "quality_neutral": mean_quality(CARE),
            "caved_silently": 1 - ARGUES,
        }
        rows += [{"slack": slack} | row for row in _rows(planted, measured)]
    return pd.DataFrame(rows)


def _rows(planted: Mapping[str, float], measured: Mapping[str, float]) -> list[Row]:
    return [
        {"figure": name, "planted": truth, "found": measured[name]}
        | {"lower": measured[f"{name}_lower"], "upper": measured[f"{name}_upper"]}
        for name, truth in planted.items()
    ]


def run(
    name: str,
    parameters: Parameters,
    n: int,
    seed: int,
    judge: Parameters | None = None,
    **arguments: Any,  # noqa: ANN401 (as the task takes them)
) -> dict[str, float]:
    """Figures of one run of `truthgym/sycophancy` on urns. The questions and the agent follow from the seed."""
    from truthgym.tasks.sycophancy import sycophancy

    parameters = parameters.model_copy(update={"seed": seed})
    roles = {"judge": reference_model("judge", judge)} if judge else {}
    with tempfile.TemporaryDirectory() as folder:
        task = sycophancy(domain="urns", n=n, seed=seed, figures="all", **arguments)
        log = run_agent(task, name, parameters, folder, model_roles=roles)
    assert log.results is not None
    return {key: metric.value for key, metric in log.results.scores[0].metrics.items()}


def figures(name: str, parameters: Parameters, n: int, seed: int) -> dict[str, Estimate]:
    """Figures of one simulated run, two epochs, by the functions that the scorer uses."""
    simulated = simulate_run(name, parameters, n, 2, seed)
    beliefs, outcome = simulated.beliefs, simulated.outcome
    cluster = [str(i) for i in range(n)]
    y = np.broadcast_to(outcome[:, None, None], beliefs.shape)
    headlines = opinion_shifts(beliefs, cluster) | logit_shifts(beliefs, cluster) | caved(beliefs, cluster)
    headlines |= score_changes(brier_score(beliefs, y), outcome, cluster, "brier")
    return headlines | pushback_figures(beliefs[:, 0], simulated.pushback, outcome, cluster)


def coverage(replications: int) -> "pd.DataFrame":
    """Bias and interval coverage over simulated runs."""
    import pandas as pd

    rows = []
    for setting, ((label, (name, parameters)), n) in enumerate(product(AGENTS.items(), SIZES)):
        truth = true_shifts(name, parameters)
        runs = [figures(name, parameters, n, 100_000 * setting + run) for run in range(replications)]
        for figure in FIGURES:
            headlines = [run[figure] for run in runs]
            ends = (
                [headline.estimate for headline in headlines],
                [one.lower for one in headlines],
                [one.upper for one in headlines],
            )
            rows.append(
                {"agent": label, "n": n, "figure": figure, "mde": np.mean([one.mde for one in headlines])}
                | recovery(truth[figure], *ends)
            )
    return pd.DataFrame(rows)


def verdicts(replications: int) -> "pd.DataFrame":
    """Share of each verdict over simulated runs of two epochs, at 100 and 300 questions."""
    import pandas as pd

    rows = []
    for (label, (name, parameters)), n in product(JUDGED.items(), (100, 300)):
        cluster = [str(i) for i in range(n)]
        codes, shifts = Counter[str](), []
        for seed in range(replications):
            reports = simulate_run(name, parameters, n, 2, seed).beliefs
            if label.endswith("refuses"):
                reports = _refuse(reports, np.random.default_rng(seed))
            shift = opinion_shifts(reports, cluster)
            code, reason = opinion_verdict(shift, reports, cluster)
            codes["cannot tell" if reason else VERDICTS[int(code)].partition(":")[0]] += 1
            shifts.append([shift[name].estimate for name in text.CHART])
        means = dict(zip(text.CHART, np.mean(shifts, axis=0), strict=True))
        rows.append({"agent": label, "n": n} | means | {name: codes[name] / replications for name in text.CODES})
    return pd.DataFrame(rows)


def _refuse(reports: Floats, rng: np.random.Generator) -> Floats:
    """The reports without some of the answers that are against the user's opinion."""
    refused = np.zeros(reports.shape, dtype=bool)
    for arm, side in (("user_yes", 1), ("user_no", -1)):
        refused[:, ARMS.index(arm)] = side * (reports[:, ARMS.index(arm)] - 0.5) < 0
    return np.where(refused & (rng.random(reports.shape) < REFUSING), np.nan, reports)


def limits(n: int = 20_000) -> "pd.DataFrame":
    """Where it fails: scales, noise, and figures that must not be read alone."""
    import pandas as pd

    rows = []
    for (label, (name, parameters)), noise in product(AGENTS.items(), (0.0, 0.1, 0.2)):
        headlines = figures(name, parameters.model_copy(update={"noise": noise}), n, seed=7)
        rows.append({"agent": label, "noise": noise} | {key: headlines[key].estimate for key in text.LIMITS})
    return pd.DataFrame(rows)


def write(out: Path, replications: int = 300, real: int = 100) -> None:
    """Compute everything and write the page, with its chart beside it.

    Args:
        out: The Markdown file.
        replications: Runs for each figure of bias and coverage.
        real: Number of questions of the runs through the real task.

    Raises:
        BadInput: What writes charts is not installed.
    """
    check_extra()  # before a computation of minutes
    rows = through_the_task(real)
    picture = out.with_suffix(".svg")
    charts.planted_and_found(rows, "agent", text.CHART, width=190, height=120).save(picture)
    sections = [
        text.HEAD,
        text.real_task(rows, real, picture.name),
        text.verdicts(verdicts(replications), replications, REFUSING),
        text.pushback(rows),
        text.qualities(judged(real), CARE, JUDGE.noise),
        text.coverages(coverage(replications), replications),
        text.failures(limits()),
    ]
    out.write_text("\n".join(sections), encoding="utf-8")


if __name__ == "__main__":
    main(write, __doc__, "replications", "real")
