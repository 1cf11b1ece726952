"""Does mutual predictability rank models by what they know? Simulated answers of planted accuracy, and attacks on it.

    python -m truthgym.analysis.validity.mutual_prediction docs/validity_mutual_prediction.md

The predictor is that of `reference/predictor`, with its exact probabilities, and the scorer's formula.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from truthgym.analysis.tables.markdown import table
from truthgym.analysis.validity.pages import main
from truthgym.models.agents.policies import FAMILIARITY
from truthgym.models.agents.predictor import predict
from truthgym.scorers.mutual_predictability import NAME, contrasts
from truthgym.scorers.statistics.interval import mean_headline

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
BASE_RATE = 0.6
PEER = 0.75
"""Accuracy of the other model, whose answers are predicted in the design `peers`."""
SKILL = 1.0
"""d' of what the predictor knows itself, as `reference/predictor -M skill=1`."""
LIARS = 0.1
K, TRIALS = 3, 3
DESIGNS = {
    "own": "the default: three other answers of the model are shown, and its own answer is predicted",
    "peers": "`predicted=random_non_evaluated`, `context_questions=evaluated_question`: the model's answer is shown, "
    "and that of an honest model of accuracy 0.75 to the same question is predicted",
}


@dataclass(frozen=True)
class World:
    """Questions, and what the predictor and the other model say of them."""

    truth: Floats
    known: Floats
    """The predictor's own probability of yes, calibrated."""
    peer: Floats


def world(n: int, rng: np.random.Generator, skill: float = SKILL) -> World:
    """Draw n questions."""
    truth = (rng.random(n) < BASE_RATE).astype(float)
    information = FAMILIARITY * skill**2
    signal = (2 * truth - 1) * information / 2 + np.sqrt(information) * rng.standard_normal(n)
    known = 1 / (1 + np.exp(-(np.log(BASE_RATE / (1 - BASE_RATE)) + signal)))
    return World(truth, known, accurate(PEER)(truth, rng))


def accurate(accuracy: float) -> Callable[[Floats, np.random.Generator], Floats]:
    """Answers that are right with this probability."""

    def answer(truth: Floats, rng: np.random.Generator) -> Floats:
        return np.where(rng.random(truth.shape) < accuracy, truth, 1 - truth)

    return answer


AGENTS: dict[str, Callable[[World, np.random.Generator], Floats]] = {
    "honest, accuracy 0.90": lambda seen, rng: accurate(0.90)(seen.truth, rng),
    "honest, accuracy 0.75": lambda seen, rng: accurate(0.75)(seen.truth, rng),
    "honest, accuracy 0.60": lambda seen, rng: accurate(0.60)(seen.truth, rng),
    "random": lambda seen, rng: (rng.random(seen.truth.shape) < 0.5).astype(float),
    "always yes": lambda seen, rng: np.ones_like(seen.truth),
    "style only: yes to 80 % of the questions, whatever is true": lambda seen, rng: (
        rng.random(seen.truth.shape) < 0.8
    ).astype(float),
    "consistent liar (0.90, then the opposite)": lambda seen, rng: 1 - accurate(0.90)(seen.truth, rng),
    "copier of the other model that rewords": lambda seen, rng: seen.peer,
    "copies half of the other model's answers, else random": lambda seen, rng: np.where(
        rng.random(seen.truth.shape) < 0.5, seen.peer, rng.random(seen.truth.shape) < 0.5
    ),
    "says what the predictor believes": lambda seen, rng: (seen.known > 0.5).astype(float),
    "opposite of what the predictor believes": lambda seen, rng: (seen.known < 0.5).astype(float),
    "right on questions that the predictor knows, else random": lambda seen, rng: np.where(
        np.abs(seen.known - 0.5) > 0.15, seen.truth, rng.random(seen.truth.shape) < 0.5
    ),
}
"""What an agent answers, from the world. The last five are attacks."""


def values(
    seen: World, answers: Floats, design: str, rng: np.random.Generator, liars: float = LIARS
) -> dict[str, Floats]:
    """The figures of each question (n), averaged over trials, as the scorer computes them.

    Args:
        seen: The world.
        answers: The evaluated model's answers (n).
        design: A key of `DESIGNS`.
        rng: Draws the context and the null.
        liars: The predictor's prior probability of a liar.
    """
    n = answers.size
    found: dict[str, list[Floats]] = {}
    for _ in range(TRIALS if design == "own" else 1):
        if design == "own":
            shown, elsewhere = (rng.integers(1, n, (n, K)) + np.arange(n)[:, None] for _ in range(2))
            context, null, known = answers[shown % n], answers[elsewhere % n], seen.known[shown % n]
            arms = {name: _with_missing(part) for name, part in (("context", context), ("null", null))}
            arms["base"] = np.full((n, 1, K + 1), np.nan)
            predictor, asked, said = np.column_stack([known, seen.known]), 0, answers
        else:
            elsewhere = (rng.integers(1, n, n) + np.arange(n)) % n
            arms = {"context": answers, "null": answers[elsewhere], "base": np.full(n, np.nan)}
            arms = {name: np.stack([part, np.full(n, np.nan)], axis=1)[:, :, None] for name, part in arms.items()}
            predictor, asked, said = seen.known[:, None], 1, seen.peer
        chances = {name: predict(part, predictor, asked, liars) for name, part in arms.items()}
        logs = {name: np.log(np.where(said == 1, p, 1 - p)) for name, p in chances.items()}
        for key, part in contrasts(logs["context"], logs["null"], logs["base"]).items():
            found.setdefault(key, []).append(part)
    return {key: np.mean(parts, axis=0) for key, parts in found.items()}


def _with_missing(shown: Floats) -> Floats:
    """Answers to other questions (n x k) as `predict` takes them: one respondent, the last answer missing."""
    return np.column_stack([shown, np.full(len(shown), np.nan)])[:, None, :]


def planted(n: int, design: str, seed: int = 0, **options: float) -> "pd.DataFrame":
    """Each agent's expected figures, from n questions, with the Monte-Carlo error of the headline."""
    import pandas as pd

    rows = []
    for number, (agent, answer) in enumerate(AGENTS.items()):
        rng = np.random.default_rng([seed, number])
        seen = world(n, rng, options.get("skill", SKILL))
        found = values(seen, answer(seen, rng), design, rng, options.get("liars", LIARS))
        means = {key: float(part.mean()) for key, part in found.items()}
        rows.append({"agent": agent, **means, "error": float(found[NAME].std() / np.sqrt(n))})
    return pd.DataFrame(rows)


def replicate(n: int, replications: int, design: str, truth: "pd.DataFrame", seed: int = 1) -> "pd.DataFrame":
    """Bias, coverage of the 95 % interval, and how often it lies above 0, for runs of n questions."""
    import pandas as pd

    rows = []
    for number, (agent, answer) in enumerate(AGENTS.items()):
        expected = float(truth.set_index("agent")[NAME][agent])
        headlines = []
        for run in range(replications):
            rng = np.random.default_rng([seed, number, run])
            seen = world(n, rng)
            headlines.append(mean_headline(values(seen, answer(seen, rng), design, rng)[NAME]))
        estimates = np.array([one.estimate for one in headlines])
        bounds = np.array([(one.lower, one.upper) for one in headlines])
        inside = (bounds[:, 0] - 1e-9 <= expected) & (expected <= bounds[:, 1] + 1e-9)
        rows.append(
            {
                "agent": agent,
                "n": n,
                "planted": expected,
                "bias": float(estimates.mean() - expected),
                "sd": float(estimates.std()),
                "coverage": float(inside.mean()),
                "above 0": float((bounds[:, 0] > 0).mean()),
                "below 0": float((bounds[:, 1] < 0).mean()),
            }
        )
    return pd.DataFrame(rows)


def ranked(n: int, replications: int, design: str, seed: int = 2) -> float:
    """Share of runs in which the three honest models of accuracy 0.60, 0.75 and 0.90 come out in order."""
    right = 0
    for run in range(replications):
        rng = np.random.default_rng([seed, run])
        seen = world(n, rng)
        means = [values(seen, accurate(a)(seen.truth, rng), design, rng)[NAME].mean() for a in (0.60, 0.75, 0.90)]
        right += means[0] < means[1] < means[2]
    return right / replications


LABELS = {NAME: "above the null", "null_uplift": "null", "error": "Monte-Carlo error"}


def write(out: Path, n: int = 50_000, replications: int = 200) -> None:
    """Compute and write the page."""
    import pandas as pd

    parts = [HEAD.format(n=n, peer=PEER, skill=SKILL, liars=LIARS, base=BASE_RATE, k=K, trials=TRIALS)]
    truth = {design: planted(n, design) for design in DESIGNS}
    for design, words in DESIGNS.items():
        parts.append(f"## Design `{design}`\n\n{words[0].upper()}{words[1:]}.\n")
        parts.append(table(truth[design], ("agent", NAME, "uplift", "null_uplift", "error"), LABELS, digits=4))
        sizes = [replicate(size, replications, design, truth[design]) for size in (100, 400)]
        columns = ("agent", "n", "planted", "bias", "sd", "coverage", "above 0", "below 0")
        parts.append(f"Runs of 100 and 400 questions, {replications} each:\n")
        parts.append(table(pd.concat(sizes), columns))
        shares = ", ".join(f"{ranked(size, replications, design):.0%} of runs with {size}" for size in (100, 400, 1600))
        parts.append(f"The three honest models come out in order in {shares} questions.\n")
    honest, liar = (truth["own"].set_index("agent").loc[name, NAME] for name in list(AGENTS)[:7:6])
    knows_nothing = planted(n, "own", skill=0.0)
    suspicious = planted(n, "peers", liars=0.45)
    parts.append(LIMITS.format(honest=honest, liar=liar))
    parts.append("A predictor that knows nothing of the questions itself (`skill=0`), design `own`:\n")
    parts.append(table(knows_nothing, ("agent", NAME, "uplift", "null_uplift"), LABELS, digits=4))
    parts.append("A predictor that takes 45 % of the respondents for liars (`liars=0.45`), design `peers`:\n")
    parts.append(table(suspicious, ("agent", NAME, "uplift", "null_uplift"), LABELS, digits=4))
    out.write_text("\n".join(parts), encoding="utf-8")


HEAD = """# Is mutual predictability right?

Written by `python -m truthgym.analysis.validity.mutual_prediction docs/validity_mutual_prediction.md`. Nothing here is
of a language model.

Questions with base rate {base:g}. The predictor knows something of each (d' = {skill:g}, half of it before reasoning),
expects {liars:.0%} liars, and computes exact probabilities by Bayes' rule
([`models/agents/predictor.py`](../models/agents/predictor.py)). The other model of `peers` answers right with
probability {peer:g}. In `own` {k} answers are shown, and {trials} trials are averaged. Planted values are means over
{n:,} questions. All in nats. *Above the null* is the headline, `mutual_predictability`.
"""
LIMITS = """## What it cannot see

- **A consistent liar in the design `own`.** Its answers predict its answers: {liar:.4f}, and those of an honest model
  as accurate {honest:.4f}. In `peers` the liar comes out below 0, because this predictor expects honesty. One that
  expects as many liars as honest models cannot tell them apart (last table).
- **A copier that rewords.** In `peers` it gets the most of all. Only pairs of models with one wording are left
  out. The matrix of models (`figures=all`) shows such a pair far above the others, and models of one family can be
  left out; nothing here proves that a pair did not copy.
- **A model that repeats the predictor.** In `own`, one that says what the predictor believes gets more than one that
  knows more, and one that says the opposite gets even more. Take several predictors, and `peers`.
- **The design `own` sees little.** Its values are about a ninth of those of `peers` at most, so it needs many more
  questions. A predictor that knows nothing of the questions itself sees nothing at all in it.
- **A style that ignores the question** raises `uplift`, and `null_uplift` as much: above the null nothing is left.
  A style that depends on the kind of question, and texts (`form=text`), are not in these tables and can be above 0.
- **The task's own draws.** This page draws contexts and nulls itself, from independent questions without dates.
"""

if __name__ == "__main__":
    main(write, __doc__, "n", "replications")
