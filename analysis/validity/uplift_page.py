"""The text of docs/validity_uplift.md, whose every figure comes from the run."""

from typing import TYPE_CHECKING

from truthgym.analysis.validity.pages import table

if TYPE_CHECKING:
    import pandas as pd

FOUND = {"writer": "writer", "planted": "known", "net": "found"}
PLACEBOS = {
    "writer": "writer",
    "planted": "known",
    "without": "found, no placebo",
    "net": "placebo of other text",
    "shuffled": "placebo of shuffled words",
}


def page(found: "pd.DataFrame", power: "pd.DataFrame", n: int, runs: int) -> str:
    """The whole page.

    Args:
        found: From `uplift.study`, a row for each world, writer and forecaster.
        power: From `uplift.study`, a row for each writer and size of a run.
        n: Questions of each world.
        runs: Simulated runs of each size.
    """
    cells = found.assign(without=_cells(found, "raw"), net=_cells(found, "text"), shuffled=_cells(found, "shuffled"))
    exact = cells[cells["forecaster"] == "exact"]
    return "\n".join([_head(n), _information(exact), _faults(cells), _power(power, runs), _limits(exact)])


def _cells(frame: "pd.DataFrame", key: str) -> list[str]:
    numbers = frame[[key, f"{key}_lower", f"{key}_upper"]].round(3).to_numpy() + 0.0
    return [f"{mean:.3f}" + (f" [{low:.3f}, {high:.3f}]" if low < high else "") for mean, low, high in numbers]


def _head(n: int) -> str:
    return f"""# Validity of world uplift

Texts whose information is known, read by forecasters whose faults are known. Each is about {n} questions of a generated
world, whose observation is its outcome; what a text can tell an exact reader beyond the base rate follows from Bayes'
rule. `make validity` recomputes this page (`analysis/validity/uplift.py`). No language model is run: the forecaster is
`reference/forecaster`, and whether a real forecaster reads as well is another question.

All uplifts here are in nats per observation, with 95 % intervals. *Known* is the expected uplift of the writer on these
questions: for `exact` and `quotes all evidence` the information that the evidence has about the outcome.
"""


def _information(exact: "pd.DataFrame") -> str:
    sections = [
        f"### {world}\n\n{table(rows, tuple(FOUND), FOUND)}" for world, rows in exact.groupby("world", sort=False)
    ]
    moves = exact[exact["text_lower"] < exact["text_upper"]]
    inside = moves["planted"].between(moves["text_lower"], moves["text_upper"])
    return f"""## Is the uplift the information?

The forecaster reads without a fault. In each single answer the uplift without a placebo is within
{exact["gap"].max():.0e} nats of what is known of it in advance, so the intervals below are the chance of the outcomes
alone: {int(inside.sum())} of {len(moves)} contain the known value.

{chr(10).join(sections)}
- `naive` makes the error of its world (counts copies, takes disclosed evidence at face value; urns have none). It has
  read the same evidence, and its uplift is lower, since the forecaster believes what it says.
- `hedging` reports a fifth of the distance from one half. That hides what it knows, and the base rate too, so it can be
  below 0.
- `overconfident` has three times the log-odds of `exact`: it ends below it though it knows as much. `liar` misleads.
- `empty`, `padded` and `keywords` say nothing, and get nothing.
- `copied observation` gets most of all. Nothing in the log-probabilities tells it from knowledge: only `share_copied`
  does, and an investigator who works after the answer was written.
"""


def _faults(cells: "pd.DataFrame") -> str:
    urns = cells[(cells["world"] == "urns") & (cells["writer"] != "naive")]
    by_forecaster = urns.groupby("forecaster", sort=False)
    tables = {name: table(rows, tuple(PLACEBOS), PLACEBOS) for name, rows in by_forecaster}
    return f"""## What a placebo is for

A language model may find an observation likelier after any text, and words likelier that it has just read. On `urns`, a
forecaster to whom the observation costs 0.5 nats if it has read nothing (`-M familiar=0.5`):

{tables["unfamiliar"]}
A placebo of the same length takes that away. A forecaster to whom each word of the observation costs 0.3 nats if it has
not just read it (`-M lexical=0.3`):

{tables["lexical"]}
Other text is no remedy for that: what is stuffed with keywords of the observation gains, and so does what states a
belief in words that the observation has too, while quoted evidence loses. A placebo of the answer's own words in random
order (`placebo=shuffled`) takes it all away. A language model also understands something of shuffled words, such as a
name or a figure, so this placebo understates what an answer tells it. Report both where keywords could be stuffed.
"""


def _power(power: "pd.DataFrame", runs: int) -> str:
    import pandas as pd

    sizes = sorted(power["n"].unique())
    rows = []
    for writer, group in power.groupby("writer", sort=False):
        row = {"writer": writer, "uplift": float(group["truth"].iloc[0])}
        for one in group.to_dict("records"):
            n = one["n"]
            row[f"coverage, n={n}"] = f"{one['coverage']:.3f}"
            row[f"verdict, n={n}"] = f"{one['helps']:.2f} / {one['misleads']:.2f}"
            row[f"mde, n={n}"] = float(one["mde"])
        rows.append(row)
    columns = ("writer", "uplift", *(f"{what}, n={n}" for what in ("coverage", "verdict", "mde") for n in sizes))
    moving = power[power["mde"] > 0]
    least = moving.sort_values("coverage").iloc[0]
    return f"""## Coverage and power

{runs} runs of each size, drawn from the questions above (`urns`, an exact forecaster). *Coverage* is the share of 95 %
intervals that contain the mean of all questions; *verdict* the shares of runs that say *helps* and *misleads*; `mde` is
its mean.

{table(pd.DataFrame(rows), columns)}
Coverage is {moving["coverage"].min():.3f} to {moving["coverage"].max():.3f} where uplift varies, and lowest for
`{least["writer"]}` with {least["n"]} questions: rare large losses make a mean of few hard to bound. Texts that say
nothing have no spread at all with this forecaster, so their intervals are a point at 0.
"""


def _limits(exact: "pd.DataFrame") -> str:
    urns = exact[exact["world"] == "urns"].set_index("writer")["planted"]
    return f"""## What it cannot tell

- **A leak from knowledge.** A copied observation has {urns["copied observation"]:.3f} on `urns`, where all that can be
  known from the evidence has {urns["exact"]:.3f}.
- **What a text says from what the forecaster makes of it.** One that trusts every number punishes overconfidence as
  this one does; one that knows the observation already finds nothing helpful.
- **Why a text helps.** One that is trusted because it is fluent, and one that shows its evidence, can have the same
  uplift.
- **Length.** The uplift for 1,000 tokens favours short answers, that for an observation long ones: read the budgets.
"""
