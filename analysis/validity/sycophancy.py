"""Does the third party tell the sycophant from the trusting? Planted and recovered sycophancy, as a page with a chart.

    python -m truthgym.analysis.validity.sycophancy docs/validity_sycophancy.md   (pip install -e ".[charts]")

Everything on the page is computed anew. `--replications 30 --real 20` makes a quick one.
"""

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np

from truthgym.analysis.validity import sycophancy_page as text
from truthgym.analysis.validity.charts import check_extra
from truthgym.models.agents.policies import Parameters
from truthgym.models.agents.quality_markers import mean_quality
from truthgym.models.agents.true_values_sycophancy import side_agreement, simulate_run, true_asymmetry, true_shifts
from truthgym.scorers.statistics.interval import Headline
from truthgym.scorers.statistics.proper_scores import brier_score
from truthgym.scorers.statistics.sycophancy_shifts import (
    caved,
    logit_shifts,
    opinion_shifts,
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
MEASURES = (
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
    """One run of the real task for each agent: what is planted, and what the log says with its interval."""
    import pandas as pd

    rows = []
    for label, (name, given) in AGENTS.items():
        found = run(name, given, real, arms="user,third,pushback")
        truth = true_shifts(name, given)
        for measure in (*MEASURES, "brier_neutral"):
            rows.append(
                {"agent": label, "measure": measure, "planted": truth[measure], "found": found[measure]}
                | {"lower": found[f"{measure}_lower"], "upper": found[f"{measure}_upper"]}
            )
    return pd.DataFrame(rows)


def judged(real: int) -> "pd.DataFrame":
    """A sycophant that takes less care where its user agrees, rated by the simulated judge through the real task."""
    import pandas as pd

    rows = []
    for slack in SLACKS:
        given = Parameters(noise=NOISE, care=CARE, argues=ARGUES, slack=slack)
        found = run("sycophant", given, real, metric="quality", judge=JUDGE)
        for measure, truth in (
            ("quality_asymmetry", true_asymmetry(given) * side_agreement("sycophant", given)),
            ("quality_asymmetry_third", 0.0),
            ("quality_neutral", mean_quality(CARE)),
            ("caved_silently", 1 - ARGUES),
        ):
            rows.append(
                {"slack": slack, "measure": measure, "planted": truth, "found": found[measure]}
                | {"lower": found[f"{measure}_lower"], "upper": found[f"{measure}_upper"]}
            )
    return pd.DataFrame(rows)


def run(
    name: str,
    given: Parameters,
    n: int,
    judge: Parameters | None = None,
    **task: Any,  # noqa: ANN401 (as the task takes them)
) -> dict[str, float]:
    """Figures of one run of `truthgym/sycophancy` on urns.

    Raises:
        RuntimeError: The run did not succeed.
    """
    from inspect_ai import eval
    from inspect_ai.model import Model, get_model

    from truthgym.tasks.sycophancy import sycophancy

    def model(name: str, parameters: Parameters) -> Model:
        planted: dict[str, Any] = parameters.model_dump(exclude_defaults=True)
        return get_model(f"reference/{name}", memoize=False, **planted)

    roles = {"judge": model("judge", judge)} if judge else {}
    with tempfile.TemporaryDirectory() as logs:
        (log,) = eval(
            sycophancy(domain="urns", n=n, **task), model=model(name, given),
            model_roles=roles, log_dir=logs, display="log", log_realtime=False,
        )  # fmt: skip
        if log.status != "success" or not log.results:
            raise RuntimeError(f"The run of reference/{name} ended with {log.status}: {log.error}")
        return {key: held.value for key, held in log.results.scores[0].metrics.items()}


def figures(name: str, parameters: Parameters, n: int, seed: int) -> dict[str, Headline]:
    """Figures of one simulated run, two epochs, by the functions that the scorer uses."""
    made = simulate_run(name, parameters, n, 2, seed)
    cluster = [str(i) for i in range(n)]
    y = np.broadcast_to(made.outcome[:, None, None], made.beliefs.shape)
    found = opinion_shifts(made.beliefs, cluster) | logit_shifts(made.beliefs, cluster) | caved(made.beliefs, cluster)
    found |= score_changes(brier_score(made.beliefs, y), made.outcome, cluster, "brier")
    return found | pushback_figures(made.beliefs[:, 0], made.pushback, made.outcome, cluster)


def coverage(replications: int) -> "pd.DataFrame":
    """Bias and interval coverage over simulated runs."""
    import pandas as pd

    rows = []
    for (label, (name, given)), n in ((agent, n) for agent in AGENTS.items() for n in SIZES):
        truth = true_shifts(name, given)
        made = [figures(name, given, n, seed) for seed in range(replications)]
        for measure in MEASURES:
            estimates = np.array([found[measure].estimate for found in made])
            held = [found[measure].lower <= truth[measure] <= found[measure].upper for found in made]
            rows.append(
                {"agent": label, "n": n, "measure": measure, "planted": truth[measure]}
                | {"bias": float(estimates.mean() - truth[measure]), "sd": float(estimates.std(ddof=1))}
                | {"error": float(estimates.std(ddof=1)) * replications**-0.5, "coverage": float(np.mean(held))}
                | {"mde": float(np.mean([found[measure].mde for found in made]))}
            )
    return pd.DataFrame(rows)


def limits(n: int = 20_000) -> "pd.DataFrame":
    """Where it fails: scales, noise, and figures that must not be read alone."""
    import pandas as pd

    rows = []
    for label, (name, given) in AGENTS.items():
        for noise in (0.0, 0.1, 0.2):
            found = figures(name, given.model_copy(update={"noise": noise}), n, seed=7)
            names = ("net_sycophancy", "net_sycophancy_logit", "caved_user", "caved", "doubt_shift")
            rows.append({"agent": label, "noise": noise} | {key: found[key].estimate for key in names})
    return pd.DataFrame(rows)


def chart(frame: "pd.DataFrame") -> alt.FacetChart:
    """Does the plain shift to the user tell who is a sycophant, and does the net one?

    Args:
        frame: From `through_the_task`.
    """
    labels = {"user_shift": "shift to the user", "third_shift": "shift to a third party", "net_sycophancy": "net"}
    data = frame[frame["measure"].isin(labels)].assign(figure=lambda held: held["measure"].map(labels))
    base = alt.Chart(data).encode(y=alt.Y("agent:N", title=None, sort=list(AGENTS), axis=alt.Axis(labelLimit=200)))
    interval = base.mark_rule(strokeWidth=2).encode(x=alt.X("lower:Q", title="belief"), x2="upper:Q")
    found = base.mark_point(filled=True, size=60).encode(x="found:Q")
    truth = base.mark_tick(color="#d62728", thickness=3, size=18).encode(x="planted:Q")
    facets: alt.FacetChart = (
        alt.layer(interval, found, truth)
        .properties(width=190, height=120)
        .facet(column=alt.Column("figure:N", title=None, sort=list(labels.values())))
    )
    return facets


def write(out: Path, replications: int, real: int) -> None:
    """Compute everything and write the page, with its chart beside it.

    Args:
        out: The Markdown file.
        replications: Runs for each figure of bias and coverage.
        real: Questions of the runs through the real task.

    Raises:
        BadInput: What writes charts is not installed.
    """
    check_extra()
    ran = through_the_task(real)
    picture = out.with_suffix(".svg")
    chart(ran).save(picture)
    sections = [
        text.real_task(ran, real, picture.name),
        text.pushback(ran),
        text.qualities(judged(real), CARE, JUDGE.noise),
        text.coverages(coverage(replications), replications),
        text.failures(limits()),
    ]
    out.write_text(text.page(sections), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--replications", type=int, default=300)
    parser.add_argument("--real", type=int, default=100)
    given = parser.parse_args()
    write(given.out, given.replications, given.real)
