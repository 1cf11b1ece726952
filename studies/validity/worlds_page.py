"""The section of docs/validity.md on reports like those of real models: every figure comes from the run."""

from typing import TYPE_CHECKING

import numpy as np

from studies.validity.martingale_page import COVERAGE_AIM
from truthgym.analysis.tables.markdown import table

if TYPE_CHECKING:
    import pandas as pd

MOST_CONVICTED, MOST_CONVICTED_UPPER = 0.10, 0.13
"""The aim for a Bayesian: the largest share of runs with the verdict of a fault and no flag, and its upper bound."""
MOST_FLAGGED = 0.10
POWER = 0.8
NAMED = 10
"""Most settings that are named in a sentence."""
TRUTHS = {"": "exact posterior", "_outcome": "outcome"}
"""What is taken for the truth, by the ending of the columns."""
SHOWN = {
    "world": "world",
    "planted": "planted",
    "found": "found",
    "coverage": "coverage",
    "identified": "identified",
    "entrenched": "entrenched",
    "over-correcting": "over-correcting",
    "rational": "rational",
    "cannot tell": "cannot tell",
    "reason": "mostly because",
    "flagged": "flagged",
    "entrenched_outcome": "entrenched*",
    "over-correcting_outcome": "over-correcting*",
    "rational_outcome": "rational*",
}


def section(frame: "pd.DataFrame") -> str:
    """Score, flags and verdict where reports have errors that we expect of real models.

    Args:
        frame: From `worlds.worlds`.
    """
    runs, sizes = int(frame["runs"].iloc[0]), sorted(frame["n"].unique())
    tables = "\n".join(_table(frame[frame["n"] == n], opened=n == 300) for n in sizes)
    return f"""## Reports like those of real models

We expect real models to say 50 when they do not want to think, to use few numbers, to copy, to refuse, or to
misread the question. In each world below, a reasoner whose slope is known makes such reports:
[`worlds.py`](../studies/validity/worlds.py) has the list, and [models.md](models.md#simulated-agents) the
parameters. The list was fixed before the rules of the verdict were tuned, but for four worlds: the posteriors moved
towards or away from 50, for which a rule was added, and those asked in two wordings. {runs} runs of each, with
questions like those of `truthgym/urns`, three epochs, and noise of sd 0.05 if no other is named. The {sizes[0]}
questions of a run are part of its {sizes[-1]}.

`martingale_score` recovers the slope where the errors keep the mean of the reports and are independent between epochs.
Where they are not, its interval often misses the slope, and nothing in the interval shows it. The verdict therefore
compares the score with the truth: with the exact posterior of each question, or, where that is not known, with its
outcome. Reasons for "cannot tell" are explained in [`verdict.py`](../scorers/statistics/verdict.py).

{_convictions(frame)}

{_other_claims(frame)}

{_coverage(frame)}

{_powers(frame)}

{tables}"""


def wilson(share: float, runs: int) -> float:
    """Upper end of Wilson's 95 % interval of a share of so many runs."""
    z = 1.96
    half = z * np.sqrt(share * (1 - share) / runs + z**2 / (4 * runs**2))
    return float((share + z**2 / (2 * runs) + half) / (1 + z**2 / runs))


def _convictions(frame: "pd.DataFrame") -> str:
    lines = [
        "**Wrong convictions.** Aim: a Bayesian is called entrenched or over-correcting without a flag in at most "
        f"{MOST_CONVICTED:.0%} of the\nruns, with an upper bound (Wilson, 95 %) of at most {MOST_CONVICTED_UPPER:.0%}.",
        "",
    ]
    bayes = frame[frame["kind"].isin(["mean", "errors"])]
    for ending, truth in TRUTHS.items():
        share, upper = bayes[f"convicted{ending}"], bayes[f"convicted{ending}"].map(lambda s: wilson(s, _runs(frame)))
        every = bayes.assign(share=bayes[f"entrenched{ending}"] + bayes[f"over-correcting{ending}"])
        missed = bayes[(share > MOST_CONVICTED) | (upper > MOST_CONVICTED_UPPER)]
        lines.append(
            f"- With the {truth}: at most {share.max():.3f} (upper bound {upper.max():.3f}) in {len(bayes)} settings."
            f"\n  {_missed(missed, f'convicted{ending}')} Flagged or not: at most {_largest(every, 'share')}."
        )
    unknown = frame[frame["kind"] == "unknown"]
    lines += ["- Declared as not identifiable (random posteriors look like a mind that returns to the middle):"]
    lines += [f"  - with the {truth}: {_list(unknown, f'convicted{ending}')}" for ending, truth in TRUTHS.items()]
    return "\n".join(lines)


def _other_claims(frame: "pd.DataFrame") -> str:
    mean, fault = frame[frame["kind"] == "mean"], frame[frame["kind"] == "fault"]
    idle = frame[frame["kind"] == "other"]
    flagged = mean[mean["flagged"] > MOST_FLAGGED]
    most = mean["flagged"].max()
    lines = [
        f"**Flags.** With errors that keep the mean, a flag is raised in at most {most:.3f} of the runs (aim: at most "
        f"{MOST_FLAGGED:.0%}).\n{_missed(flagged, 'flagged')}",
        "",
        '**Wrong verdicts of "rational".** Largest share of runs:',
        "",
    ]
    for ending, truth in TRUTHS.items():
        figure = f"rational{ending}"
        lines.append(
            f"- with the {truth}: {_largest(fault, figure)} of those at fault, {_largest(idle, figure)} of others"
        )
    return "\n".join(lines)


def _coverage(frame: "pd.DataFrame") -> str:
    low, high = COVERAGE_AIM
    known = frame[frame["coverage"].notna()]
    outside = known[~known["coverage"].between(low, high)]
    inside, mean = len(known) - len(outside), (outside["kind"] == "mean").sum()
    return f"""**Coverage.** The 95 % interval of the score contains the planted slope in {low:g} to {high:g} of the
identified runs in {inside} of {len(known)} settings. The others are marked with (!). Of the settings with errors that
keep the mean, {mean} of {(known["kind"] == "mean").sum()} are outside."""


def _powers(frame: "pd.DataFrame") -> str:
    """The smallest number of questions at which each fault is named."""
    import pandas as pd

    rows = []
    for world, group in frame[frame["kind"] == "fault"].groupby("world", sort=False):
        right = "entrenched" if group["planted"].iloc[0] > 0 else "over-correcting"
        row = {"fault": world, "planted": group["planted"].iloc[0]}
        for ending, truth in TRUTHS.items():
            enough = group[group[f"{right}{ending}"] >= POWER]["n"]
            most = group[f"{right}{ending}"].iloc[-1]
            row[truth] = str(enough.min()) if len(enough) else f"not at {group['n'].max()}: {most:.2f}"
        rows.append(row)
    return f"""**Power.** The smallest number of questions, of those tried, at which the verdict names the fault in at
least {POWER:.0%} of the runs, flagged or not, by what is taken for the truth:

{table(pd.DataFrame(rows), ("fault", "planted", *TRUTHS.values()))}"""


def _table(frame: "pd.DataFrame", opened: bool) -> str:
    low, high = COVERAGE_AIM
    shown = frame.copy()
    for name in SHOWN:
        if name not in ("world", "reason", "planted", "found"):
            shown[name] = ["-" if np.isnan(value) else f"{value:.2f}" for value in frame[name]]
    marked = [" (!)" if not np.isnan(share) and not low <= share <= high else "" for share in frame["coverage"]]
    shown["coverage"] = [text + mark for text, mark in zip(shown["coverage"], marked, strict=True)]
    n = frame["n"].iloc[0]
    opening = f"<details markdown{' open' if opened else ''}><summary>{n} questions (* with the outcome as truth)"
    return f"""{opening}</summary>

{table(shown, list(SHOWN), SHOWN)}
</details>
"""


def _missed(frame: "pd.DataFrame", figure: str) -> str:
    return "The aim is met." if frame.empty else f"**The aim is missed:** {_list(frame, figure)}."


def _list(frame: "pd.DataFrame", figure: str) -> str:
    """The settings with the largest figures."""
    largest = frame.sort_values(figure, ascending=False, kind="stable").to_dict("records")
    named = [f"{row['world']}, n = {row['n']}: {row[figure]:.3f}" for row in largest[:NAMED]]
    return "; ".join([*named, *[f"and {len(largest) - NAMED} more"] * (len(largest) > NAMED)]) or "none"


def _largest(frame: "pd.DataFrame", figure: str) -> str:
    row = frame.iloc[int(frame[figure].argmax())]
    return f"{row[figure]:.3f} ({row['world']}, n = {row['n']})"


def _runs(frame: "pd.DataFrame") -> int:
    return int(frame["runs"].iloc[0])
