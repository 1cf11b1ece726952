"""The text of docs/validity.md: sections of Markdown whose every figure comes from the run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from studies.validity.end_to_end import Row
from truthgym.analysis.tables.markdown import table

if TYPE_CHECKING:
    import pandas as pd

BIAS_AIM = 0.02
"""The largest bias of the martingale score that the project accepts."""
COVERAGE_AIM = (0.92, 0.97)
"""The band of interval coverage that the project aims at."""
LABELS = {
    "beliefs": "beliefs compared",
    "equal": "equal",
    "difference": "largest difference of a metric",
    "martingale_score": "`martingale_score`",
    "martingale_score_lower": "lower",
    "martingale_score_upper": "upper",
    "martingale_score_ols": "`_ols`",
    "excess_movement": "excess movement",
    "brier_gain": "Brier gain",
    "brier_prior": "Brier, prior",
    "brier_posterior": "Brier, posterior",
    "iv_bias": "bias",
    "iv_error": "its MC error",
    "ols_bias": "bias of `_ols`",
    "formula": "formula (1)",
    "formula_gap": "`_ols` minus formula",
    "shared_error": "shared error",
    "all_three": "correct by all three",
    "slope_alone": "correct by the slope alone",
    "mostly_taken_for": "mostly taken for",
    "n": "questions",
    "mde": "mean `mde`",
    "share": "planted look-ahead",
    "joint": "published score of the joint reading",
    "separate": "`martingale_score`, read separately",
    "leak": "`leak`",
    "leak_lower": "lower",
    "leak_upper": "upper",
    "identified": "share identified",
}
"""Headers of the columns whose name is not their header."""


def head(replications: int, seeds: int) -> str:
    """Title and method."""
    return f"""# Validity: can the numbers be believed?

Each measure of Truthgym was run on agents whose truth is known. This command regenerates the page and its charts:

```
python -m studies.validity.martingale docs/validity.md
```

Agents and formulas: [`models/agents/policies.py`](../models/agents/policies.py). Planted values are exact: they
enumerate all questions that `truthgym/urns` can draw
([`studies/validity/true_values.py`](../studies/validity/true_values.py)). Unless a table says otherwise, each
question is asked in three epochs, reports have noise of sd 0.10 that keeps their mean, with a quarter of the prior's
error repeated in later reports. Every run draws its own questions and its own noise, and no two sections have a draw in
common. Coverage and power: {replications} runs a figure. Bias: {seeds} runs of 5,000 questions a figure.
"""


def real_task(compared: Sequence[Row], n: int) -> str:
    """Does the real task give the numbers of the pure functions?"""
    import pandas as pd

    columns = ["agent", "beliefs", "equal", "difference", "planted", "martingale_score", "martingale_score_lower"]
    columns += ["martingale_score_upper", "martingale_score_ols", "identified"]
    frame = pd.DataFrame(compared)
    frame["difference"] = [f"{gap:.0e}" if gap else "0" for gap in frame["difference"]]
    frame["identified"] = frame["identified"].astype(int)
    return f"""## Through the real task

One run each of `truthgym/urns` with {n} questions and three epochs: prompts, provider, parsers, scorers and
metrics, as `inspect eval` runs them. The beliefs in the log are compared one by one with those of the pure functions
that the rest of this page uses.

{table(frame, columns, LABELS | {"identified": "`identified`", "planted": "planted slope"})}"""


def planted_values(frame: "pd.DataFrame") -> str:
    """What is planted?"""
    columns = ("agent", "strength", "slope", "movement", "excess_movement", "brier_gain", "brier_prior")
    return f"""## What is planted

Population values with each agent's default strength, without noise.

{table(frame, (*columns, "brier_posterior"), LABELS, 4)}
A slope of 0 is not sufficient: `stuck` has it too. Movement and Brier gain distinguish it from `bayesian`.
"""


def biases(frame: "pd.DataFrame") -> str:
    """How large is the bias of both slopes?"""
    worst, ols = (frame.iloc[int(frame[name].abs().argmax())] for name in ("iv_bias", "ols_bias"))
    sloped = frame[frame["planted"].abs() > BIAS_AIM]
    wrong, iv_wrong = (
        int((sloped[name] * sloped["planted"] < 0).sum()) for name in ("martingale_score_ols", "martingale_score")
    )
    gap = (frame["formula_gap"].abs() / frame["formula_error"]).max()
    met = int((frame["iv_bias"].abs() <= BIAS_AIM).sum())
    columns = ["agent", "noise", "shared", "planted", "martingale_score", "iv_bias", "iv_error", "martingale_score_ols"]
    columns += ["ols_bias", "formula", "formula_gap", "reliability", "shared_error"]
    return f"""## Bias

![Bias of both slopes by noise and shared error](validity_bias.svg)

Bias is the difference from the slope of the noiseless beliefs on the same questions, which removes the sampling of
questions. The largest bias of `martingale_score` is {worst.iv_bias:+.3f} (Monte-Carlo error {worst.iv_error:.3f}),
for `{worst.agent}` with noise {worst.noise:g} and shared error {worst.shared:g}. It is at most {BIAS_AIM:g} in
{met} of the {len(frame)} settings, whose noise keeps the mean of the reports.
The largest bias of the published least-squares slope is {ols.ols_bias:+.3f}. It has the wrong sign in {wrong} of the
{len(sloped)} settings whose planted slope is beyond {BIAS_AIM:g}; `martingale_score` in {iv_wrong}.

Formula (1), $\\lambda\\beta-(1-\\lambda)(1-\\kappa)$, evaluated at the measured reliability and shared error,
predicts the least-squares slope. The largest gap between the two is {frame["formula_gap"].abs().max():.4f}
({gap:.1f} Monte-Carlo errors).

<details markdown><summary>All {len(frame)} settings</summary>

{table(frame, columns, LABELS)}
</details>
"""


def coverages(frame: "pd.DataFrame") -> str:
    """Do the intervals have their nominal coverage?"""
    low, high = COVERAGE_AIM
    sentences = []
    for figure, shares in frame.groupby("figure", sort=False)["coverage"]:
        inside = f"{shares.between(low, high).sum()} of {len(shares)} within {low:g} to {high:g}"
        sentences.append(f"- `{figure}`: {shares.min():.3f} to {shares.max():.3f}; {inside}")
    count = int(frame["replications"].iloc[0])
    ours = frame[frame["figure"] != "martingale_score_ols"]
    return f"""## Coverage of the 95 % intervals

![Coverage of each interval for each agent](validity_coverage.svg)

Share of {count} runs whose interval contains the planted value (Monte-Carlo error of a coverage of 0.95: \
{1.96 * (0.95 * 0.05 / count) ** 0.5:.3f}):

{chr(10).join(sentences)}

<details markdown><summary>All settings</summary>

{table(ours, ("agent", "n", "figure", "planted", "mean", "sd", "coverage"))}
</details>
"""


def classified(frame: "pd.DataFrame") -> str:
    """Can the agents be told apart?"""
    return f"""## Classifying the agents

![Runs of each agent by slope, movement and Brier gain](validity_profiles.svg)

Each run is assigned to the agent whose planted (`martingale_score`, `movement`, `brier_gain`) is nearest, in units of
the measures' own standard deviations. Chance is {1 / frame["agent"].nunique():.2f}.

{table(frame, ("agent", "n", "all_three", "slope_alone", "mostly_taken_for"), LABELS, 2)}"""


def powers(frame: "pd.DataFrame") -> str:
    """How often does it find a slope?"""
    return f"""## Power

The sizes below should have a power of 0.8 by the table of sample sizes with which this project planned. Its questions
were simulated again (prior Beta(2, 2), one piece of evidence of unit variance, noise of 0.5 in log-odds;
an entrenched agent). The table is right if each epoch finds its own evidence, like a model that thinks again. If all
epochs get the same evidence, as with
`urns`, further epochs remove less noise and more questions are needed: plan with the `mde` of a first run.

{table(frame, ("evidence", "slope", "epochs", "n", "power", "mde"), LABELS)}"""


def looking_ahead(frame: "pd.DataFrame") -> str:
    """What does a judge that has seen the end do to the score?"""
    columns = ("share", "joint", "formula", "separate", "leak", "leak_lower", "leak_upper")
    return f"""## A judge that has seen the end

A Bayesian without noise, read by a judge with noise 0.05. If the judge reads the whole trajectory at once, a little
look-ahead makes a rational reasoner look entrenched. Read separately, it is rational, and `leak` estimates the
look-ahead. (Bias, as above. Formula (2), $(1-h)\\,h\\,\\sigma_\\Delta^2$ over the variance of the joint prior, assumes
that the error is fully shared.)

{table(frame, columns, LABELS | {"formula": "formula (2)"})}"""


def failures(limits: "pd.DataFrame", small: "pd.DataFrame") -> str:
    """Where does it fail?"""
    return f"""## Where it fails

A Bayesian's score is 0. Bias, as above, with more noise, or with an error that all epochs have in common:

{table(limits, ("measured with", "iv_bias", "iv_error", "ols_bias", "identified"), LABELS)}
An error that one elicitor makes in every epoch of a question cannot be distinguished from belief by asking again. Only
another elicitor (`elicitor=both`) helps, and only against errors that it does not share.

With few questions the score is often not identified, and then not reported:

{table(small, ("agent", "noise", "n", "identified", "coverage"), LABELS)}
Not shown here: a model whose first impression is not what it believes, a judge that shares the policy's own bias,
beliefs that change how later epochs are sampled (no agent simulates them; the score then describes the reports only).
Clustered events, steps, log-odds and several domains are checked in the tests, not on this page.
"""
