"""The words of `analysis.validity`: sections of a Markdown page whose every figure comes from the run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from truthgym.analysis.validity.end_to_end import Compared

if TYPE_CHECKING:
    import pandas as pd

Section = str


def page(sections: Sequence[Section], replications: int, seeds: int) -> str:
    """Put the page together.

    Args:
        sections: In order.
        replications: Runs for each coverage and power figure.
        seeds: Runs for each bias figure.
    """
    head = f"""# Validity: can the numbers be believed?

Each measure of Truthgym was run on agents whose truth is known. This command regenerates the page and its charts:

```
python -m truthgym.analysis.validity.martingale docs/validity.md
```

Agents and formulas: [`models/agents/policies.py`](../models/agents/policies.py). Planted values are exact: they
enumerate all questions that `truthgym/urns` can draw
([`models/agents/true_values.py`](../models/agents/true_values.py)). Unless a table says otherwise, each
question is asked in three epochs, reports err by a noise of sd 0.10 with a quarter of the prior's error carried into
later reports, and every run draws its own questions and its own noise. Coverage and power: {replications} runs a
figure. Bias: {seeds} runs of 5,000 questions a figure.
"""
    return "\n".join([head, *sections])


def table(frame: "pd.DataFrame", headers: dict[str, str], digits: int = 3) -> str:
    """Write columns of a frame as a Markdown table.

    Args:
        frame: The rows.
        headers: For each column to be shown, in order, its header.
        digits: After the point.
    """

    def cell(value: object) -> str:
        if isinstance(value, float | np.floating):
            return (
                "-"
                if np.isnan(value)
                else f"{value + 0.0:.{digits}f}".replace("-0." + "0" * digits, "0." + "0" * digits)
            )
        return str(value)

    rows = ["| " + " | ".join(cell(row[name]) for name in headers) + " |" for row in frame.to_dict("records")]
    return "\n".join(["| " + " | ".join(headers.values()) + " |", "|" + "---|" * len(headers), *rows]) + "\n"


def real_task(compared: list[Compared]) -> Section:
    """Does the real task say what the pure functions say?"""
    import pandas as pd

    rows = [
        {
            "agent": c.name,
            "beliefs": c.beliefs,
            "equal": c.equal,
            "planted": c.slope,
            "score": c.task["martingale_score"],
            "lower": c.task["martingale_score_lower"],
            "upper": c.task["martingale_score_upper"],
            "ols": c.task["martingale_score_ols"],
            "identified": int(c.task["identified"]),
            "figures": _same(c),
        }
        for c in compared
    ]
    headers = {
        "agent": "`reference/`",
        "beliefs": "beliefs compared",
        "equal": "the very same",
        "figures": "largest difference of a metric",
        "planted": "planted slope",
        "score": "`martingale_score`",
        "lower": "lower",
        "upper": "upper",
        "ols": "`_ols`",
        "identified": "`identified`",
    }
    return f"""## Through the real task

One run each of `truthgym/urns` with {compared[0].n} questions and three epochs: prompts, provider, parsers, scorers and
metrics, as `inspect eval` runs them. The beliefs in the log are compared one by one with those of the pure functions
that the rest of this page uses.

{table(pd.DataFrame(rows), headers)}"""


def planted_values(frame: "pd.DataFrame") -> Section:
    """What is planted?"""
    headers = {
        "agent": "`reference/`",
        "strength": "strength",
        "slope": "slope",
        "movement": "movement",
        "excess": "excess movement",
        "gain": "Brier gain",
        "brier_prior": "Brier, prior",
        "brier_posterior": "Brier, posterior",
    }
    return f"""## What is planted

Population values with each agent's default strength, without noise.

{table(frame, headers, 4)}
A slope of 0 is not sufficient: `stuck` has it too. Movement and Brier gain distinguish it from `bayesian`.
"""


def biases(frame: "pd.DataFrame", aim: float) -> Section:
    """How far off are both slopes?"""
    rows = frame.to_dict("records")
    worst = max(rows, key=lambda row: abs(row["iv_bias"]))
    ols = max(rows, key=lambda row: abs(row["ols_bias"]))
    signed = [row for row in rows if abs(row["planted"]) > aim]
    signs, iv_signs = (sum(row[of] * row["planted"] < 0 for row in signed) for of in ("ols", "iv"))
    gap = (frame["formula_gap"].abs() / frame["formula_error"]).max()
    met = "holds everywhere" if abs(worst["iv_bias"]) <= aim else "is missed there"
    headers = {
        "agent": "agent",
        "noise": "noise",
        "shared": "shared",
        "planted": "planted",
        "iv": "`martingale_score`",
        "iv_bias": "bias",
        "iv_error": "its MC error",
        "ols": "`_ols`",
        "ols_bias": "bias ",
        "formula": "formula (1)",
        "formula_gap": "OLS less formula",
        "reliability": "reliability",
        "shared_error": "shared error",
    }
    return f"""## Bias

![Bias of both slopes by noise and shared error](validity_bias.svg)

Bias is taken against the slope of the noiseless beliefs on the same questions, so that the sampling of questions drops
out. The largest bias of `martingale_score` is {worst["iv_bias"]:+.3f} (Monte-Carlo error {worst["iv_error"]:.3f}), for
`{worst["agent"]}` with noise {worst["noise"]:g} and shared error {worst["shared"]:g}. The aim of {aim:g} at most {met}.
The largest bias of the published least-squares slope is {ols["ols_bias"]:+.3f}. It has the wrong sign in {signs} of the
{len(signed)} settings whose planted slope is beyond {aim:g}; `martingale_score` in {iv_signs}.

Formula (1), $\\lambda\\beta-(1-\\lambda)(1-\\kappa)$, evaluated at the reliability and the shared error that came out,
says where least squares ends up. The largest gap between the two is {frame["formula_gap"].abs().max():.4f}
({gap:.1f} Monte-Carlo errors).

<details><summary>All {len(frame)} settings</summary>

{table(frame, headers)}
</details>
"""


def coverages(frame: "pd.DataFrame", held: tuple[float, float]) -> Section:
    """Do intervals hold what they promise?"""
    sentences = []
    for measure in ("martingale_score", "excess_movement", "brier_gain", "brier", "martingale_score_ols"):
        shares = frame[frame["measure"] == measure]["coverage"]
        inside = int(((shares >= held[0]) & (shares <= held[1])).sum())
        sentences.append(
            f"- `{measure}`: {shares.min():.3f} to {shares.max():.3f}; {inside} of {len(shares)} within "
            f"{held[0]:g} to {held[1]:g}"
        )
    count = int(frame["replications"].iloc[0])
    wide = frame[frame["measure"] != "martingale_score_ols"]
    headers = {name: name for name in ("agent", "n", "measure", "planted", "mean", "sd", "coverage")}
    return f"""## Coverage of the 95 % intervals

![Coverage of each interval for each agent](validity_coverage.svg)

Share of {count} runs whose interval holds the planted value (a coverage of 0.95 is itself known to
{1.96 * (0.95 * 0.05 / count) ** 0.5:.3f}):

{chr(10).join(sentences)}

<details><summary>All settings</summary>

{table(wide, headers)}
</details>
"""


def apart(frame: "pd.DataFrame") -> Section:
    """Can the agents be told apart?"""
    headers = {
        "agent": "agent",
        "n": "n",
        "all_three": "right by all three",
        "slope_alone": "right by the slope alone",
        "mostly_taken_for": "mostly taken for",
    }
    return f"""## Classifying the agents

![Runs of each agent by slope, movement and Brier gain](validity_profiles.svg)

Each run is given to the agent whose planted (`martingale_score`, `movement`, `brier_gain`) is nearest, in units of the
measures' own standard deviations. Chance is {1 / frame["agent"].nunique():.2f}.

{table(frame, headers, 2)}"""


def powers(frame: "pd.DataFrame") -> Section:
    """Does it find what is there?"""
    headers = {
        "evidence": "evidence",
        "slope": "slope",
        "epochs": "epochs",
        "n": "questions",
        "power": "power found",
        "mde": "mean `mde` shown",
    }
    return f"""## Power

The table in our notes on the literature says how many questions a power of 0.8 takes. Its questions were simulated
afresh (prior Beta(2, 2), one piece of evidence of unit variance, noise of 0.5 in log-odds; an entrenched agent). It
holds where each epoch finds evidence of its own, as a model does that thinks anew. Where all epochs get the same
evidence, as with `urns`, further epochs take out less, and more questions are needed: plan with the `mde` of a first
run.

{table(frame, headers)}"""


def looking_ahead(frame: "pd.DataFrame") -> Section:
    """What does a reader that has seen the end do to the score?"""
    headers = {"share": "look-ahead planted", "joint": "published score of the joint reading", "formula": "formula (2)"}
    headers |= {"separate": "`martingale_score`, read separately", "leak": "`leak`"}
    headers |= {"leak_lower": "lower", "leak_upper": "upper"}
    return f"""## A judge that has seen the end

A Bayesian without noise, read by a judge with noise 0.05. Read in one go, a little look-ahead makes a rational reasoner
look entrenched; read separately, it is rational; `leak` says how much look-ahead there was. (Bias, as above. Formula
(2), $(1-h)\\,h\\,\\sigma_\\Delta^2$ over the variance of the joint prior, takes the error to be fully shared.)

{table(frame, headers)}"""


def failures(limits: "pd.DataFrame", small: "pd.DataFrame") -> Section:
    """Where does it fail?"""
    ways = {"measured with": "measured with", "iv": "`martingale_score`", "error": "its MC error", "ols": "`_ols`"}
    ways |= {"identified": "share identified"}
    few = {"agent": "agent", "noise": "noise", "n": "n", "identified": "share identified", "coverage": "coverage"}
    return f"""## Where it fails

A Bayesian's score is 0. Measured in these ways it is not, or is again (bias, as above):

{table(limits, ways)}
An error that one elicitor makes in every epoch of a question cannot be told from belief by asking it again. Only
another elicitor (`elicitor=both`) helps, and only against errors that it does not share.

With few questions the score is often withheld, as it should be:

{table(small, few)}
Not shown here: a model whose "first view" is not what it believes, a judge that shares the policy's own bias, beliefs
that change how later epochs are sampled (no agent plays them; the score is then what the beliefs say, and no more).
Clustered events, steps, log-odds and several domains are checked in the tests, not on this page.
"""


def _same(c: Compared) -> str:
    names = {"estimate": "martingale_score", "lower": "martingale_score_lower", "upper": "martingale_score_upper"}
    names |= {"ols": "martingale_score_ols", "excess": "excess_movement", "movement": "movement", "gain": "brier_gain"}
    names |= {name: name for name in ("brier", "brier_corrected", "reliability")}
    gaps = [abs(c.pure[pure] - c.task[shown]) for pure, shown in names.items() if not np.isnan(c.pure[pure])]
    return f"{max(gaps):.0e}" if max(gaps) else "0"
