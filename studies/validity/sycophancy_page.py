"""The text of docs/validity_sycophancy.md: sections of Markdown whose every figure comes from the run."""

from typing import TYPE_CHECKING

from studies.validity.pages import contains_planted, planted_and_found
from truthgym.analysis.tables.markdown import table
from truthgym.scorers.statistics.sycophancy import MARGIN, VERDICTS

if TYPE_CHECKING:
    import pandas as pd

HEAD = """# Validity: sycophancy

Can `sycophantic_reasoning` distinguish a sycophant from an agent that gives weight to anyone's opinion? It was run on
agents whose true values are known. This command regenerates the page and its chart:

```
python -m studies.validity.sycophancy docs/validity_sycophancy.md
```

Agents and formulas: [`models/agents/policies.py`](../models/agents/policies.py) and
[`models/agents/policies.py`](../models/agents/policies.py). Planted values are exact: they enumerate all questions that
`truthgym/urns` can draw ([`true_values_sycophancy.py`](../studies/validity/true_values_sycophancy.py)).
Reports have noise of sd 0.10, and every question is asked twice in each arm.
"""
CHART = {"user_shift": "shift to the user", "third_shift": "shift to a third party", "net_sycophancy": "net"}
CODES = (*(words.partition(":")[0] for words in VERDICTS.values()), "cannot tell")
BRIERS = ("brier_neutral", "brier_random", "brier_wrong", "brier_right", "brier_random_net")
PUSHBACK = ("doubt_shift", "argument_shift")
LIMITS = {
    "net_sycophancy": "`net_sycophancy`",
    "net_sycophancy_logit": "`_logit`",
    "caved_user": "`caved_user`",
    "caved": "`caved`",
    "doubt_shift": "`doubt_shift`",
}


def real_task(frame: "pd.DataFrame", n: int, chart: str) -> str:
    """Shifts and Brier scores, planted and found."""
    shown = frame[frame["figure"].isin((*CHART, *BRIERS))]
    return f"""## Through the real task

One run each of `truthgym/sycophancy` on {n} questions of urns: prompts, provider, parsers, scorer and metrics, as
`inspect eval` runs them. Each cell is the planted value, then the estimate with its 95 % interval.

{planted_and_found(frame, "agent", tuple(CHART))}
{planted_and_found(frame, "agent", BRIERS)}
![Planted (red) and found shifts]({chart})

By the plain shift to the user the second agent looks sycophantic, but it moves as far for a stranger.
Its net is 0. {_covered(shown)}
"""


def verdicts(frame: "pd.DataFrame", replications: int, refusing: float) -> str:
    """Share of each verdict."""
    return f"""## The verdict

Share of {replications} simulated runs with each verdict; two epochs, noise of sd 0.10 but for agents that never move or
answer at random. Neither the net alone nor the shift to the user alone tells these agents apart: who caves to anybody
has a net of 0, and who moves against strangers has that of a sycophant.

{table(frame, ("agent", "n", *CHART, *CODES), CHART, digits=2)}
A sycophant of strength 0.2 has a true shift of about 0.06, just beyond the margin of {MARGIN:g}. The agent in the
last rows ignores opinions, and leaves {refusing:.0%} of its answers unread where they are against its user's opinion:
what it still says to the user agrees more often, so it has a shift. Leaving out the questions that lack an answer in
one arm does not remove it, for epochs are left out by their own noise. Its arms are read unequally, and the verdict is
withheld.
"""


def pushback(frame: "pd.DataFrame") -> str:
    """Shifts after the answer is doubted or contradicted."""
    return f"""## Pushback

In the same runs the answers of the neutral arm were doubted, and contradicted by the user. The shift is how far the
belief moved away from its own side, minus how far it moved when it was only asked again.

{planted_and_found(frame, "agent", PUSHBACK)}
{_covered(frame[frame["figure"].isin(PUSHBACK)])} A trusting agent gives way to the user who contradicts it, as it would
to anybody: `argument_shift` has no third-party control, and is not by itself evidence of sycophancy. Caveat alone moves
only the sycophant.
"""


def qualities(frame: "pd.DataFrame", care: float, noise: float) -> str:
    """Judged quality."""
    return f"""## Quality of reasoning

A sycophant with care {care:g}, reduced by `slack` where its user is on the side to which it leans itself,
rated by `reference/judge` with noise of sd {noise:g}: quality is 0.8 times care plus 0.1. `caved_silently` is planted
as the share of its replies without a reason of its own.

{table(frame, ("slack", "figure", "planted", "found", "lower", "upper"))}
{_covered(frame)} The agent goes by its own belief and the scorer by the side that the neutral answers state; noise puts
some of these on different sides. The planted asymmetry, 0.8 times the slack, is given as it appears through that noise.
The simulated judge recognises sentences, so this checks pairing, masking and arithmetic, and not whether a language
model is a good judge of reasoning.
"""


def coverages(frame: "pd.DataFrame", replications: int) -> str:
    """Bias and coverage."""
    errors = (frame["bias"] / frame["error"]).abs()
    worst = frame.iloc[int(errors.argmax())]
    share = frame["coverage"]
    return f"""## Bias and coverage

{replications} simulated runs a row, two epochs, with the functions that the scorer uses. `mde` is the mean minimum
detectable effect. Coverage of the 95 % intervals is between {share.min():.3f} and {share.max():.3f} (Monte-Carlo error
{(0.95 * 0.05 / replications) ** 0.5:.3f}), with mean {share.mean():.3f}. The largest bias in units of its Monte-Carlo
error is {worst["bias"]:.4f} ({worst["figure"]}, {worst["agent"]}, n = {worst["n"]}: {errors.max():.1f} errors, the
largest of {len(frame)}).

{table(frame, ("agent", "n", "figure", "planted", "bias", "sd", "coverage", "mde"))}"""


def failures(frame: "pd.DataFrame") -> str:
    """What it does not do."""
    return f"""## Where it fails

One simulated run of 20,000 questions a row.

{table(frame, ("agent", "noise", *LIMITS), LIMITS)}
- **Probabilities are bounded.** Trust that is the same for everyone makes `net_sycophancy` a little smaller, because a
  belief that has moved already has less room. In log-odds both sycophants have the planted 1.6, without noise and apart
  from the clipping at 0.005 and 0.995.
- **The logit scale amplifies noise.** Reports near 0 and 1 are clipped to 0.005 and 0.995, and their noise is large
  in log-odds: the logit figure drifts with noise where the probability figure does not. Use the logit figure only
  where answers repeat closely.
- **`caved_user` is not 0 for an agent that ignores opinions.** Noise alone carries answers near one half over to the
  other side. The third party's share has the same noise, so `caved` is 0.
- **Noise weakens `doubt_shift`**: the stated side is sometimes not the believed one. The planted values above include
  this; a model's own value without noise would be larger.
- **Deference to an expert is not distinguished from flattery.** The design makes both speakers equally ignorant;
  a model that takes its user for an expert is called sycophantic to the same degree.
- **Order and wording are balanced over questions, not within one**: in eight questions each wording appears once, in
  sixteen in both orders.
"""


def _covered(frame: "pd.DataFrame") -> str:
    intervals = frame.dropna()
    return f"{contains_planted(intervals).sum()} of {len(intervals)} intervals contain the planted value."
