"""The page and the chart of `analysis.validity_judges`."""

from typing import TYPE_CHECKING

import altair as alt
import numpy as np

if TYPE_CHECKING:
    import pandas as pd

HEADINGS = {
    "retest_sd": "`retest_sd`",
    "order_sd": "`order_sd`",
    "recency": "`recency`",
    "position_shift": "`position_shift`",
    "padded_gain": "`padded_gain`",
    "injection_gain": "`injection_gain`",
    "self_preference": "`self_preference`",
}
OPENING = """\
# Validity: judges

[`qualitative`](qualitative.md) lets a judge rate reasoning, and measures the judge beside it. Here the judge is
`reference/judge`, whose faults are planted: it is known what each figure must be. The policy is `reference/bayesian`
with `care=0.5`; the formula of a rating is in `models/agents/judge_forms.py`. Made by

    python -m truthgym.analysis.validity.judges docs/validity_judges.md

in a few minutes on a CPU, without a key. Nothing is copied from an earlier run.
"""
FOUND = """\
## Planted and recovered, through the real scorer

{questions} questions of `truthgym/urns`, {epochs} epochs, three examples in six orders, a criticism and a defence, all
probes: prompts, forms, parsers and metrics as in any run. Each row is a judge. A cell shows what was **planted**, what
was found, and the 95 % interval. {inside} of the {intervals} intervals hold what was planted (95 % should), and of the
{clean} where nothing was planted, {none} hold 0.

"""
CHART = """
![Planted and found]({name}.svg)

What is planted is, in the formula's terms: twice `position`; `length` times ln 2, since the padded text has twice as
many words, to the nearest sentence; `gullibility` times what was left to full marks; `preference`; `recency`; `noise`;
and for `order_sd`, `recency` times the standard deviation of the ratings of the examples that stand last. Of two judges
the mean counts. The judge called *leniency of the other* is fair, and sits beside one of another family that gives 0.08
more where the defence stands last, as it does everywhere but in the swap: `self_preference` stays 0, for the held-out
examples show the same difference.

The known ratings of the held-out examples were set {stricter:.2f} below what a clean judge sees: its `anchor_bias` is
{anchor_bias:.3f}, `anchor_error` {anchor_error:.3f}, `anchor_rank` {anchor_rank:.3f}. Its `retest_icc` is {icc:.3f},
with noise of 0.05 {noisy_icc:.3f}. `share_read` was {read:.3f} throughout.
"""
COVERAGE = """
## How often the intervals hold

By pure functions, {replications} runs at each size, one epoch, of a judge with all faults at once (noise 0.05, length
0.05, position 0.04, recency 0.2, preference 0.1, gullibility 0.3) beside a lenient one of another family. The planted
values are exact, by enumeration over qualities and lengths.

"""
ENDING = """
## What these figures cannot show

- A judge that misjudges quality shows no bias of form: only `anchor_rank` and people's ratings can detect that.
- `self_preference` takes leniency off as it is on the held-out examples. A judge that is lenient to all good texts, or
  all long ones, and a policy that writes better or longer than these, look alike.
- `length_correlation` is not a bias: careful texts are longer. `padded_gain` is what length alone earns.
- `injection_gain` is measured with one sentence. A judge that ignores it may follow another.
- `order_sd` is above 0 by chance about half the time where nothing is planted: it is a standard deviation less a noise
  that is itself estimated.
"""


def page(
    found: "pd.DataFrame", held: "pd.DataFrame", questions: int, epochs: int, replications: int, stricter: float
) -> str:
    """The page in Markdown.

    Args:
        found: From `validity_judges.recovered`.
        held: From `judges_simulated.coverage`.
        questions: Questions of each run.
        epochs: Epochs of each run.
        replications: Runs of each coverage figure.
        stricter: What the known ratings are below a clean judge's.
    """
    bounded = found.dropna(subset=["planted", "lower"])
    inside = (bounded["lower"] - 1e-9 <= bounded["planted"]) & (bounded["planted"] <= bounded["upper"] + 1e-9)
    clean = bounded["planted"] == 0
    one = found.set_index("judge")
    first, noisy = one.loc["clean"].iloc[0], one.loc["noise"].iloc[0]
    return "\n".join(
        [
            OPENING,
            FOUND.format(
                questions=questions, epochs=epochs, inside=int(inside.sum()), intervals=len(bounded),
                clean=int(clean.sum()), none=int((inside & clean).sum()),
            ),
            _matrix(found),
            CHART.format(
                name="validity_judges", stricter=stricter, anchor_bias=first["anchor_bias"],
                anchor_error=first["anchor_error"], anchor_rank=first["anchor_rank"], icc=first["retest_icc"],
                noisy_icc=noisy["retest_icc"], read=float(found["share_read"].min()),
            ),
            COVERAGE.format(replications=replications),
            _coverage(held),
            ENDING,
        ]
    )  # fmt: skip


def _matrix(found: "pd.DataFrame") -> str:
    lines = [f"| judge | {' | '.join(HEADINGS.values())} |", "|---" * (len(HEADINGS) + 1) + "|"]
    for judge, rows in found.groupby("judge", sort=False):
        cells = [_cell(rows[rows["figure"] == figure].iloc[0]) for figure in HEADINGS]
        lines.append(f"| {judge} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(row: "pd.Series[float]") -> str:
    if np.isnan(row["found"]):
        return ""
    planted = "" if np.isnan(row["planted"]) else f"{_shown(row['planted'])}: "
    planted = f"**{planted.removesuffix(': ')}**: " if planted and row["planted"] else planted
    interval = "" if np.isnan(row["lower"]) else f" ({_shown(row['lower'])} to {_shown(row['upper'])})"
    return f"{planted}{_shown(row['found'])}{interval}"


def _shown(value: float) -> str:
    return f"{value:.3f}" if abs(value) >= 0.0005 else "0"


def _coverage(held: "pd.DataFrame") -> str:
    lines = ["| figure | questions | planted | mean found | intervals that hold it | mean width |", "|---" * 6 + "|"]
    for row in held.to_dict("records"):
        lines.append(
            f"| `{row['figure']}` | {row['n']} | {row['planted']:.3f} | {row['mean']:.3f} | {row['coverage']:.3f} | "
            f"{row['width']:.3f} |"
        )
    return "\n".join(lines)


def chart(found: "pd.DataFrame") -> alt.FacetChart:
    """Does each figure find what is planted, and nothing where nothing is?

    Args:
        found: From `validity_judges.recovered`.
    """
    data = found.dropna(subset=["found", "lower"])
    base = alt.Chart(data).encode(y=alt.Y("judge:N", title=None, sort=list(found["judge"].unique())))
    intervals = base.mark_rule(color="#4c78a8").encode(x=alt.X("lower:Q", title=None), x2="upper:Q")
    points = base.mark_point(filled=True, size=35, color="#4c78a8").encode(x="found:Q")
    planted = base.mark_tick(color="#e45756", thickness=2, size=14).encode(x="planted:Q")
    facets: alt.FacetChart = (
        alt.layer(intervals, points, planted)
        .properties(width=150, height=190)
        .facet(column=alt.Column("figure:N", title="found (dot, 95 % interval) and planted (red)", sort=list(HEADINGS)))
        .resolve_scale(x="independent")
    )
    return facets
