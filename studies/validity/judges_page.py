"""The text of docs/validity_judges.md, whose every figure comes from the run."""

from typing import TYPE_CHECKING

from studies.validity.pages import contains_planted, planted_and_found
from truthgym.analysis.tables.markdown import table

if TYPE_CHECKING:
    import pandas as pd

FIGURES = (
    "retest_sd",
    "order_sd",
    "recency",
    "position_shift",
    "padded_gain",
    "injection_gain",
    "self_preference",
)
"""Figures of `qualitative` about its judge, for which a value can be planted."""
ANCHOR = ("anchor_rank", "anchor_rank_lower", "anchor_rank_upper")
SEEN = {
    "judge": "judge",
    "texts": "texts",
    "retest_icc": "`retest_icc`",
    "retest_icc_above": "above",
    "parallel_icc": "`parallel_icc`",
    "parallel_icc_above": "above",
    "anchors": "`anchor_rank`",
    "anchor_rank_above": "above",
    "discriminates": "`discriminates`",
    "interval": "interval",
}
LABELS = {"n": "questions", "mean": "mean estimate", "coverage": "coverage", "width": "mean width"}


def discriminating(frame: "pd.DataFrame", replications: int) -> str:
    """What tells a judge that sees the quality from one that does not.

    Args:
        frame: From `judges_simulated.discrimination`.
        replications: Runs of each row.
    """
    cells = frame.assign(
        anchors=[
            f"{r:.2f} [{low:.2f}, {high:.2f}]" if r == r else "-" for r, low, high in frame[list(ANCHOR)].to_numpy()
        ]
    )
    least = frame.loc[~frame["judge"].isin(("arbitrary", "constant")), "anchor_rank_above"].min()
    return f"""## Does the judge see the quality?

{replications} simulated runs a row with 60 texts, rated once each; 12 texts of known ratings. The texts are *mixed* (a
policy with `care=0.5`) or all *alike* (`care=1`). `arbitrary` gives each text a random number that is fixed by its
words; `constant` gives 70 to every text; `quarters` uses only 0, 25, 50, 75 and 100; `length 0.3` adds 0.21 for twice
the words. Shown are means over the runs that have the figure, of `anchor_rank` with its mean bounds. *Above* is the
share of runs in which the judge has at least 0.01 more than `arbitrary`, by the figure before it; *interval*, the share
of runs with an interval of the quality.

{table(cells, tuple(SEEN), SEEN, digits=2)}
`retest_icc` is 1 for the arbitrary judge, so no judge is above it: it says nothing of validity. `parallel_icc`, from a
text and the same text with filler, is near 0 for it. But where all texts are alike it is low for good judges too, and a
bias that both forms share, as for length, does not lower it. `anchor_rank` is from texts of known ratings, and has each
judge that sees something above the arbitrary one in {least:.0%} of the runs or more. Twelve texts are few: a single run
shows it (`discriminates`) surely for the clear cases only.
"""


def page(
    found: "pd.DataFrame",
    covered: "pd.DataFrame",
    seen: str,
    questions: int,
    epochs: int,
    replications: int,
    stricter: float,
) -> str:
    """The page in Markdown.

    Args:
        found: From `judges.recovered`.
        covered: From `judges_simulated.coverage`.
        seen: From `discriminating`.
        questions: Number of questions of each run.
        epochs: Epochs of each run.
        replications: Runs of each coverage figure.
        stricter: By how much the known ratings are below a clean judge's.
    """
    intervals = found.dropna(subset=["planted", "lower"])
    inside = contains_planted(intervals)
    nothing = intervals["planted"] == 0
    by_judge = found.groupby("judge").first()
    clean, noisy = by_judge.loc["clean"], by_judge.loc["noise"]
    return f"""# Validity: judges

[`qualitative`](qualitative.md) lets a judge rate reasoning, and measures the judge as well. Here the judge is
`reference/judge` with planted faults, so the true value of each figure is known. The policy is `reference/bayesian`
with `care=0.5`; the formula of a rating is in [`models/agents/judge.py`](../models/agents/judge.py). This
command regenerates the page and its chart, in a few minutes on a CPU and without a key:

```
python -m studies.validity.judges docs/validity_judges.md
```

## Planted and recovered, through the real scorer

{questions} questions of `truthgym/urns`, {epochs} epochs, three examples in six orders, a criticism and a defence, all
probes: prompts, forms, parsers and metrics as in any run. Each row is a judge. Each cell is the planted value (bold if
it is not 0), then the estimate with its 95 % interval. {inside.sum()} of {len(intervals)} intervals contain the planted
value, and {(inside & nothing).sum()} of the {nothing.sum()} whose planted value is 0.

{planted_and_found(found, "judge", FIGURES)}
![Planted and found](validity_judges.svg)

The planted values, in terms of the judge's parameters: twice `position`; `length` times ln 2, because the padded text
has twice as many words (to the nearest sentence); `gullibility` times the distance to full marks; `preference`;
`recency`; `noise`; and for `order_sd`, `recency` times the standard deviation of the ratings of the last examples. With
two judges it is their mean. The judge called *leniency of the other* is fair. Beside it, a judge of another family
gives 0.08 more where the defence is last, which is everywhere except in the swap. `self_preference` stays 0, because
the held-out examples show the same difference.

The known ratings of the held-out examples are {stricter:.2f} below what a clean judge sees: its `anchor_bias` is
{clean.anchor_bias:.3f}, `anchor_error` {clean.anchor_error:.3f}, `anchor_rank` {
        clean.anchor_rank:.3f}. Its `retest_icc`
is {clean.retest_icc:.3f}; with noise of 0.05 it is {noisy.retest_icc:.3f}. The lowest `share_read` is {
        found["share_read"].min():.3f}.

## Coverage of the 95 % intervals

With the scorer's pure functions, {replications} runs at each size, one epoch, of a judge with all faults at once (noise
0.05, length 0.05, position 0.04, recency 0.2, preference 0.1, gullibility 0.3) beside a lenient one of another family.
The planted values are exact: they enumerate qualities and lengths.

{table(covered, ("figure", "n", "planted", "mean", "coverage", "width"), LABELS)}
{seen}
## What these figures cannot show

- A judge that misjudges quality shows no bias of form: only `anchor_rank` and people's ratings can detect that.
- `self_preference` is corrected for leniency as measured on the held-out examples. A judge that is lenient to all good
  texts, or to all long ones, looks like one that prefers its own family if the policy writes better or longer texts.
- `length_correlation` is not a bias: careful texts are longer. `padded_gain` is the gain from length alone.
- `injection_gain` is measured with one sentence. A judge that ignores it may follow another.
- `order_sd` is above 0 by chance about half the time where nothing is planted: it is a standard deviation minus a noise
  that is itself estimated.
"""
