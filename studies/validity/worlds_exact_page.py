"""The text of docs/worlds.md: sections of Markdown whose every figure comes from the run."""

from typing import TYPE_CHECKING

from truthgym.analysis.tables.markdown import table

if TYPE_CHECKING:
    import pandas as pd

SHOWN = {"p": "p-value", "gap": "largest mean change", "bound": "99 % bound"}
TOLD = {"gap": "gap in Brier score", "power": "power at 200", "enough": "questions for 0.8"}


def page(figures: "pd.DataFrame", readers: "pd.DataFrame", n: int) -> str:
    """The page.

    Args:
        figures: A row for each world, from `worlds_exact.study`.
        readers: A row for each world and reader.
        n: Questions of each world.
    """
    return "\n".join([_head(n), _martingale(figures), _scores(readers), _slopes(figures), _leak(figures)])


def _head(n: int) -> str:
    return f"""# Validity: generated worlds

The questions of generated worlds state all that is needed for the exact probability after every piece of evidence. Is
that probability right, and do the worlds tell a reader who makes their error from one who does not? {n:,} questions
of each world with its default arguments; the readers are formulas, and no model is run. Tests compare the posteriors
with exact fractions too, on small questions. This command regenerates the page:

```
python -m studies.validity.worlds_exact docs/worlds.md --n {n}
```
"""


def _martingale(figures: "pd.DataFrame") -> str:
    shown = figures.assign(
        p=figures["p"].map(lambda p: f"{p:.2g}"), gap=figures["gap"].map("{:.2f}".format),
        bound=figures["bound"].map("{:.2f}".format),
    )  # fmt: skip
    failed = figures[(figures["p"] < 0.01) | (figures["gap"] > figures["bound"])]["world"]
    verdict = "No world fails." if failed.empty else f"**Failed: {', '.join(failed)}.**"
    return f"""## The exact posterior is a martingale

At every step the next belief must equal the present one on average, whatever came before; the last step leads to the
outcome. The first test asks whether any function of the history in a list predicts the change: the belief in tenths,
its square, the first belief, the last change, the naive belief with its square and its product with the exact one,
and length, wording and place of the question. The p-value is the smallest of all steps times their number; below 0.01
a world fails. The second is the largest mean change in any tenth of the beliefs at any step, in standard errors, with
the bound that chance exceeds once in 100 times. {verdict}

{table(shown, ("world", "steps", "p", "gap", "bound"), SHOWN)}"""


def _scores(readers: "pd.DataFrame") -> str:
    wide = readers.pivot(index="reader", columns="world", values="brier")
    wide = wide.loc[readers["reader"].unique(), readers["world"].unique()].reset_index()
    naive = readers[readers["reader"] == "naive"]
    power = naive.assign(
        power=naive["power"].map(lambda p: "-" if p != p else f"{p:.2f}"),
        enough=naive["enough"].map(lambda m: "-" if m != m else f"{m:,.0f}"),
    )
    attacks = readers[~readers["reader"].isin(["exact", "naive"])]
    best = attacks.loc[attacks.groupby("world", sort=False)["gap"].idxmin()]
    return f"""## Who scores what

Expected Brier score, lower is better: $E[p(1-p)+(b-p)^2]$ with the exact posterior p and the reader's belief b. Its
standard error is at most {readers["error"].max():.4f}. The naive reader makes the error that the world is about.
Others would break a world as a measure, if they came near to the exact reader without what it asks for: the naive
reader after the best change of the weight of all evidence; one who gives evidence half its weight; coarse and lazy
reports of the exact belief; and readers of nothing but the base rate, or of it and the number of pieces of evidence.

{table(wide, list(wide.columns))}
`reference/bayesian` and `reference/naive` are the first two. The others that come nearest to the exact reader:
{_nearest(best)}.
Of the naive reader's gap, the best weight on evidence leaves {_left(readers)}: the rest is bought by trusting all
evidence less, and does not show that the error was seen.

A paired comparison of exact and naive by Brier score, with the outcomes as the only truth: its power on 200 questions
at the 5 % level, and the number of questions for a power of 0.8.

{table(power, ("world", "gap", "power", "enough"), TOLD)}"""


def _nearest(best: "pd.DataFrame") -> str:
    return "; ".join(f"{row['world']}: {row['reader']}, {row['gap']:.3f} above" for row in best.to_dict("records"))


def _left(readers: "pd.DataFrame") -> str:
    gaps = readers.pivot(index="world", columns="reader", values="gap").loc[readers["world"].unique()]
    left = (gaps["naive, with the best weight on evidence"] / gaps["naive"])[gaps["naive"] > 0]
    return ", ".join(f"{share:.0%} ({world})" for world, share in left.items())


def _slopes(figures: "pd.DataFrame") -> str:
    shown = figures.assign(
        **{who: [f"{round(value, 3) + 0:.3f} ± {1.96 * error:.3f}" for value, error in zip(
            figures[f"slope_{who}"], figures[f"error_{who}"], strict=True)] for who in ("exact", "naive")}
    )  # fmt: skip
    return f"""## Slopes of the update on the prior

What `martingale` estimates, over all questions of a world. For the exact reader it is 0, because its beliefs are a
martingale. That of the naive reader is estimated with the exact reader's update as control variate. With 95 %
intervals; `spread` is the standard deviation of the exact prior.

{table(shown, ("world", "spread", "exact", "naive"))}"""


def _leak(figures: "pd.DataFrame") -> str:
    leaking = figures[figures["auc"] > figures["chance"]]["world"]
    verdict = "None does." if leaking.empty else f"Above it: {', '.join(leaking)}; one in twenty is by chance."
    return f"""## What else tells the outcome

Length of the question, wording and place in the set should say nothing of the outcome beyond the stated chances. A
classifier ranks up to 2,000 questions that it has not seen by these; outcomes that are redrawn from the probabilities
before evidence give what chance allows. Does any world exceed the 95 % quantile of chance? {verdict}

{table(figures, ("world", "auc", "chance"), {"auc": "AUC", "chance": "95 % quantile of chance"})}"""
