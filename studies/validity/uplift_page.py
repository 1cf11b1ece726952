"""The text of docs/validity_uplift.md, whose every figure comes from the run."""

from typing import TYPE_CHECKING

from truthgym.analysis.tables.markdown import table

if TYPE_CHECKING:
    import pandas as pd

FIGURES = {"writer": "writer", "planted": "known", "measured": "net of the strongest placebo"}
SILENT = ("empty", "padded", "keywords", "states both outcomes")
"""Writers that say nothing about the outcome."""
PLACEBOS = {
    "writer": "writer",
    "planted": "known",
    "without": "no placebo",
    "other": "net of other text",
    "words": "net of shuffled words",
    "of_question": "net of the question's words",
    "measured": "net of the strongest",
    "verdict": "verdict",
}


def page(results: "pd.DataFrame", power: "pd.DataFrame", n: int, runs: int) -> str:
    """The whole page.

    Args:
        results: From `uplift.study`, a row for each world, writer, forecaster and kind of observation.
        power: From `uplift.study`, a row for each writer, forecaster and size of a run.
        n: Questions of each world.
        runs: Simulated runs of each size.
    """
    columns = {"without": "raw", "other": "text", "words": "shuffled", "of_question": "question", "measured": "net"}
    cells = results.assign(**{name: _cells(results, key) for name, key in columns.items()})
    exact = cells[(cells["forecaster"] == "exact") & (cells["observation"] == "outcome")]
    parts = [_head(n), _planted(exact), _faults(cells), _bundled(cells)]
    parts += [_power(power[power["forecaster"] == "exact"], runs), _noisy(power), _limits(exact)]
    return "\n".join(parts)


def _cells(frame: "pd.DataFrame", key: str) -> list[str]:
    numbers = frame[[key, f"{key}_lower", f"{key}_upper"]].round(3).to_numpy() + 0.0
    return [f"{mean:.3f}" + (f" [{low:.3f}, {high:.3f}]" if low < high else "") for mean, low, high in numbers]


def _head(n: int) -> str:
    return f"""# Validity of world uplift

Texts whose information is known, read by forecasters whose faults are known. Each is about {n} questions of a generated
world, whose observation is its outcome; what a text can tell an exact reader beyond the base rate follows from Bayes'
rule. `make validity` recomputes this page (`studies/validity/uplift.py`). No language model is run: the forecaster is
`reference/forecaster`, and whether a real forecaster reads as well is another question.

All uplifts here are in nats per observation, with 95 % intervals. *Known* is the expected uplift of the writer on these
questions: for `exact` and `quotes all evidence` the information that the evidence has about the outcome.
"""


def _planted(exact: "pd.DataFrame") -> str:
    sections = [
        f"### {world}\n\n{table(rows, tuple(FIGURES), FIGURES)}" for world, rows in exact.groupby("world", sort=False)
    ]
    return f"""## Does the measure compute what was planted?

The forecaster believes the number that a text states, so this checks the computation, and not that a language model
reads so. In each single answer the uplift without a placebo is within {exact["gap"].max():.0e} nats of what was
planted. The intervals below are the chance of the outcomes, which the writers of a world share.

{chr(10).join(sections)}
- `naive` makes the error of its world (counts copies, takes disclosed evidence at face value, as the cards of the
  worlds say; urns have none). It has
  read the same evidence, and its uplift is lower, since the forecaster believes what it says.
- `hedging` reports a fifth of the distance from one half. That hides what it knows, and the base rate too, so it can be
  below 0.
- `overconfident` has three times the log-odds of `exact`: it ends below it though it knows as much. `liar` misleads.
- `empty`, `padded`, `keywords` and `states both outcomes` say nothing. A figure below 0 there is a placebo of shuffled
  words that happens to say something.
- `copied observation` gets most of all. Nothing in the log-probabilities tells it from knowledge: only `share_copied`
  does, and an investigator who works after the answer was written.
"""


def _faults(cells: "pd.DataFrame") -> str:
    urns = cells[(cells["world"] == "urns") & (cells["writer"] != "naive")]
    tables = {
        key: table(rows, tuple(PLACEBOS), PLACEBOS)
        for key, rows in urns.groupby(["forecaster", "observation"], sort=False)
    }
    return f"""## What a placebo is for

A language model may find an observation likelier after any text, and words likelier that it has just read. Where both
outcomes are compared (`evidence=outcome`), the former does nothing. On `urns`, a forecaster to whom each word of an
observation costs 0.3 nats if it has not just read it (`-M lexical=0.3`):

{tables["lexical", "outcome"]}
An observation without a known opposite has only its own log-probability. The same questions as if they were such, and a
forecaster to whom the observation costs 0.5 nats if it has read nothing (`-M familiar=0.5`):

{tables["unfamiliar", "alone"]}
A placebo of the same length takes that away. The forecaster with `-M lexical=0.3`:

{tables["lexical", "alone"]}
Other text is no remedy for words: what is stuffed with words of the observation gains, and so does what states a belief
in words that the observation has too, while quoted evidence loses, since other text of its length has more of these
words. Net of the strongest placebo of each sample words gain little here; what quotes much may lose. The verdict
needs all three placebos, so it is *cannot tell* where they disagree. A language model also reads something of
shuffled words, such as a name, so the headline understates what an answer tells it. Words with a figure are no part of
the shuffled placebos, so a text stuffed with figures gains (next section).
"""


def _bundled(cells: "pd.DataFrame") -> str:
    rows = cells[cells["world"] == "bundled"].assign(detects=lambda frame: frame["mde"].map("{:.3f}".format))
    columns = PLACEBOS | {"detects": "mde"}
    tables = {name: table(group, tuple(columns), columns) for name, group in rows.groupby("forecaster", sort=False)}
    return f"""## Bundled evidence

What the default task runs: {int(rows["n"].iloc[0])} bundled questions with an observation each, which is not the
outcome and has no opposite. To `reference/forecaster` it is as likely as the outcome is. `calibrated` states 60, 70, 80
or 90 percent, and is right as often. Without a fault:

{tables["exact"]}
With `-M lexical=0.3`:

{tables["lexical"]}
`words of the observation` still helps such a forecaster: by the figures that it contains. The headline of
`empty` is below 0 though it says nothing, since the greatest of three placebos is above each; its verdict is right.

The `mde` of `calibrated` is what these questions can detect if uplift varies as it does here; a real forecaster may
vary more, and its log has its own `mde`.
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
            row[f"above / below 0, n={n}"] = f"{one['helps']:.2f} / {one['misleads']:.2f}"
            row[f"mde, n={n}"] = float(one["mde"])
        rows.append(row)
    columns = (
        "writer",
        "uplift",
        *(f"{what}, n={n}" for what in ("coverage", "above / below 0", "mde") for n in sizes),
    )
    moving = power[power["mde"] > 0]
    least = moving.sort_values("coverage").iloc[0]
    return f"""## Coverage and power

{runs} runs of each size, drawn from the questions above (`urns`, an exact forecaster). *Coverage* is the share of 95 %
intervals that contain the mean of all questions; *above / below 0* the shares of runs whose headline interval is;
`mde` is its mean. A verdict needs the intervals over all three placebos, so *misleads* is rarer than below 0.

{table(pd.DataFrame(rows), columns)}
Coverage is {moving["coverage"].min():.3f} to {moving["coverage"].max():.3f} where uplift varies, and lowest for
`{least["writer"]}` with {least["n"]} questions: rare large losses make a mean of few hard to bound. `empty` and
`padded` have no spread at all with this forecaster, so their intervals are a point at 0.
"""


def _noisy(power: "pd.DataFrame") -> str:
    rows = []
    noisy = power[power["forecaster"] != "exact"]
    for (forecaster, writer), group in noisy.groupby(["forecaster", "writer"], sort=False):
        row = {"error": str(forecaster).split()[-1], "writer": writer, "known": group["planted"].iloc[0]}
        row["headline"] = group["truth"].iloc[0]
        for one in group.to_dict("records"):
            row[f"coverage, n={one['n']}"] = f"{one['coverage']:.3f}"
            row[f"helps / misleads, n={one['n']}"] = f"{one['verdict helps']:.2f} / {one['verdict misleads']:.2f}"
        rows.append(row)
    import pandas as pd

    frame = pd.DataFrame(rows)
    sizes = [name for name in frame.columns if "n=" in name]
    columns = ("error", "writer", "known", "headline", *sorted(sizes, key=lambda name: name.split(",")[0]))
    silent = noisy[noisy["writer"].isin(SILENT)]
    return f"""## A forecaster that reads with an error

On `urns`, as above, but each conversation is read with a normal error in log-odds, independent of all others
(`-M logit_noise=0.3` and `1`). *Estimate* is the mean net uplift of all questions, and *coverage* that of it; *helps /
misleads* are the shares of runs with this verdict.

{table(frame, columns)}
The greatest of three placebos gains by such errors, so the headline understates what is known, and lies below 0 for
texts that say nothing. Those ({", ".join(f"`{name}`" for name in SILENT)}) get the verdict *helps* in at most
{silent["verdict helps"].max():.3f} of the runs, and *misleads* in at most {silent["verdict misleads"].max():.3f}.
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
