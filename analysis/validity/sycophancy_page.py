"""The words of `analysis.validity_sycophancy`: sections of a page whose every figure comes from the run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from truthgym.analysis.validity.martingale_page import table

if TYPE_CHECKING:
    import pandas as pd

HEAD = """# Validity: sycophancy

Can `sycophantic_reasoning` distinguish a sycophant from an agent that gives weight to anyone's opinion? It was run on
agents whose true values are known. This command regenerates the page and its chart:

```
python -m truthgym.analysis.validity.sycophancy docs/validity_sycophancy.md
```

Agents and formulas: [`models/agents/policies.py`](../models/agents/policies.py) and
[`models/agents/opinions.py`](../models/agents/opinions.py). Planted values are exact: they enumerate all questions that
`truthgym/urns` can draw ([`models/agents/true_values_sycophancy.py`](../models/agents/true_values_sycophancy.py)).
Reports err by a noise of sd 0.10, and every question is asked twice in each arm.
"""
SHIFTS = ("user_shift", "third_shift", "net_sycophancy")
BRIERS = ("brier_neutral", "brier_random", "brier_wrong", "brier_right", "brier_random_net")
PRESSED = ("doubt_shift", "argument_shift")


def page(sections: Sequence[str]) -> str:
    """Put the page together."""
    return "\n".join([HEAD, *sections])


def real_task(frame: "pd.DataFrame", n: int, chart: str) -> str:
    """The table of measures.md 4.2, planted and found."""
    return f"""## Through the real task

One run each of `truthgym/sycophancy` on {n} questions of urns: prompts, provider, parsers, scorer and metrics, as
`inspect eval` runs them. Each cell is what is planted, then what was found with its 95 % interval.

{_wide(frame, SHIFTS)}
{_wide(frame, BRIERS)}
![Planted (red) and found shifts]({chart})

By the plain shift to the user the second agent looks sycophantic, but it moves as far for a stranger.
Its net is 0. {_held(frame, (*SHIFTS, *BRIERS))}
"""


def pushback(frame: "pd.DataFrame") -> str:
    """After the answer."""
    return f"""## Pushback

In the same runs the answers of the neutral arm were doubted, and contradicted by the user; the shift is what the belief
moved away from its own side beyond what it moved on being asked again.

{_wide(frame, PRESSED)}
{_held(frame, PRESSED)} A trusting agent gives way to the user who contradicts it, as it would to anybody:
`argument_shift` has no third party beside it, and must not be read as sycophancy alone. A mere doubt moves the
sycophant only.
"""


def qualities(frame: "pd.DataFrame", care: float, noise: float) -> str:
    """Judged quality."""
    columns = {"slack": "slack", "measure": "figure", "planted": "planted", "found": "found", "lower": "lower"}
    return f"""## Quality of reasoning

A sycophant with care {care:g}, which is less by `slack` where its user is on the side to which it leans itself,
rated by `reference/judge` with a noise of sd {noise:g}: quality is 0.8 times care and 0.1. `caved_silently` is planted
as the share of its replies without a reason of its own.

{table(frame, columns | {"upper": "upper"})}
{_held(frame, tuple(frame["measure"].unique()))} The agent goes by its own belief, the scorer by the side
that the neutral answers state, and noise puts some of these on different sides: the planted asymmetry, 0.8 times the
slack, is given as it is to be seen through that noise. The simulated judge recognises sentences, so this shows that
pairing, masking and arithmetic are right, not that a language model is a good judge of reasoning.
"""


def coverages(frame: "pd.DataFrame", replications: int) -> str:
    """Bias and coverage."""
    worst = frame.iloc[int((frame["bias"].abs() / frame["error"]).to_numpy().argmax())]
    columns = {"agent": "agent", "n": "n", "measure": "figure", "planted": "planted", "bias": "bias", "sd": "sd"}
    low, high = frame["coverage"].min(), frame["coverage"].max()
    return f"""## Bias and coverage

{replications} simulated runs a row, two epochs, with the functions that the scorer uses. `mde` is the mean minimum
detectable effect. Coverage of the 95 % intervals lies between {low:.3f} and {high:.3f} (Monte-Carlo error
{(0.95 * 0.05 / replications) ** 0.5:.3f}), mean {frame["coverage"].mean():.3f}. The bias that stands out most from its
Monte-Carlo error is {worst["bias"]:.4f} ({worst["measure"]}, {worst["agent"]}, n = {worst["n"]}: {
        abs(worst["bias"] / worst["error"]):.1f}
errors, the largest of {len(frame)}).

{table(frame, columns | {"coverage": "coverage", "mde": "mde"})}"""


def failures(frame: "pd.DataFrame") -> str:
    """What it does not do."""
    columns = {"agent": "agent", "noise": "noise", "net_sycophancy": "`net_sycophancy`"}
    columns |= {"net_sycophancy_logit": "`_logit`", "caved_user": "`caved_user`", "caved": "`caved`"}
    return f"""## Where it fails

One simulated run of 20,000 questions a row.

{table(frame, columns | {"doubt_shift": "`doubt_shift`"})}
- **Probabilities are bounded.** Trust that is the same for everyone makes `net_sycophancy` a little smaller, for a
  belief that has moved already has less room. In log-odds both sycophants have the planted 1.6, without noise and but
  for the hold at 0.005 and 0.995.
- **The logit scale amplifies noise.** Reports near 0 and 1 are held at 0.005 and 0.995, and noise in them is large in
  log-odds: the logit figure drifts with noise where the probability figure does not. Read the logit figure only where
  answers repeat closely.
- **`caved_user` is not 0 for one who ignores opinions.** Noise alone carries answers near one half over to the other
  side. The third party's share holds the same noise, so `caved` is 0.
- **Noise weakens `doubt_shift`**: what is stated is at times not the side that is believed. The planted values above
  hold this; a model's own value without noise would be larger.
- **Deference to an expert is not distinguished from flattery.** The design makes both speakers equally ignorant;
  a model that takes its user for an expert is called sycophantic by as much.
- **Order and wording are balanced over questions, not within one**: in eight questions each wording stands once, in
  sixteen in both orders.
"""


def _wide(frame: "pd.DataFrame", measures: Sequence[str]) -> str:
    rows = ["| agent | " + " | ".join(f"`{name}`" for name in measures) + " |", "|---" * (len(measures) + 1) + "|"]
    for agent, held in frame.groupby("agent", sort=False):
        of = held.set_index("measure")
        cells = [
            f"{of.planted[name] + 0:.3f}: {of.found[name]:.3f} [{of.lower[name]:.3f}, {of.upper[name]:.3f}]"
            for name in measures
        ]
        rows.append(f"| {agent} | " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def _held(frame: "pd.DataFrame", measures: Sequence[str]) -> str:
    among = frame[frame["measure"].isin(measures)].dropna()
    inside = ((among["lower"] - 1e-9 <= among["planted"]) & (among["planted"] <= among["upper"] + 1e-9)).sum()
    return f"Of {len(among)} intervals {inside} hold the planted value."
