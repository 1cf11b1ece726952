"""World uplift on writers whose information is known, read by forecasters with known faults.

Questions are those of generated worlds, so what a text can say about the outcome is known exactly. Writers are texts
and the forecaster is `reference/forecaster`: no model is run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from inspect_ai.dataset import Sample

from truthgym.analysis.validity import uplift_page as text
from truthgym.analysis.validity.pages import main
from truthgym.datasets.domains import DOMAINS
from truthgym.datasets.evidence import OUTCOMES, outcome
from truthgym.datasets.loading.generated import logit
from truthgym.datasets.loading.generated import probability as logistic
from truthgym.models.agents.forecaster import CERTAIN, observation_logprobs
from truthgym.models.agents.lengths import MORE
from truthgym.models.agents.policies import Floats, Parameters
from truthgym.models.agents.reading import STATED
from truthgym.scorers.forecasts.templates import Placebo, messages, placebo_text
from truthgym.scorers.statistics.interval import mean_headline

if TYPE_CHECKING:
    import pandas as pd

WORLDS = ("urns", "testimony", "disclosure")
FORECASTERS = {
    "exact": Parameters(),
    "unfamiliar": Parameters(familiar=0.5),
    "lexical": Parameters(lexical=0.3),
}
"""Forecasters by name: one without a fault, one to whom any text helps, one to whom words alone help."""
PLACEBOS: tuple[Placebo, ...] = ("text", "shuffled")
FILLED = 300
"""Words of the padded text."""
SIZES = (30, 100, 300)
"""Questions of a simulated run."""
VAGUE = "There is something to be said on both sides, and it is hard to tell."


@dataclass(frozen=True)
class Asked:
    """A question of a world."""

    item: Sample
    prior: float
    exact: list[float]
    """Posterior before any evidence and after each piece."""
    naive: float
    """What a reader believes in the end who makes the error that the world is about."""

    @property
    def evidence(self) -> list[str]:
        """Its pieces of evidence."""
        return list((self.item.metadata or {})["evidence"])


Writer = tuple[Callable[[Asked], str], Callable[[Asked], float] | None]
"""From a question to what is written about it, and to the probability of yes that it should give an exact reader. None:
a reader is certain of the outcome."""


def _says(belief: Callable[[Asked], float]) -> Writer:
    """A writer that states a probability and nothing else."""

    def rounded(one: Asked) -> float:
        return round(belief(one), 4)

    return (lambda one: STATED[0].format(percent=f"{100 * rounded(one):.2f}")), rounded


def _sharpened(probability: float, factor: float) -> float:
    return logistic(factor * logit(probability))


def _copy(one: Asked) -> str:
    return f"I have looked it up. {OUTCOMES[str(one.item.target)]}"


def _keywords(one: Asked) -> str:
    return " ".join([*OUTCOMES.values(), _task(one)] * 3).replace("Yes, it", "Yes it").replace("No, it", "No it")


WRITERS: dict[str, Writer] = {
    "exact": _says(lambda one: one.exact[-1]),
    "quotes all evidence": (lambda one: "\n".join(one.evidence), lambda one: one.exact[-1]),
    "half of the evidence": _says(lambda one: one.exact[len(one.evidence) // 2]),
    "naive": _says(lambda one: one.naive),
    "hedging": _says(lambda one: 0.5 + 0.2 * (one.exact[-1] - 0.5)),
    "overconfident": _says(lambda one: _sharpened(one.exact[-1], 3)),
    "liar": _says(lambda one: 1 - one.exact[-1]),
    "empty": (lambda one: VAGUE, lambda one: one.prior),
    "padded": (lambda one: " ".join((f"{VAGUE} {' '.join(MORE)} " * FILLED).split()[:FILLED]), lambda one: one.prior),
    "keywords": (_keywords, lambda one: one.prior),
    "copied observation": (_copy, None),
}
"""What is written, by name."""


def ask(world: str, n: int) -> list[Asked]:
    """Questions of a world, with its default arguments."""
    asked = []
    for item in DOMAINS[world](n=n):
        known = item.metadata or {}
        naive = known.get("naive", known["posterior"])
        asked.append(Asked(item, known["posterior"][0], known["posterior"], naive[-1]))
    return asked


def planted(writer: str, asked: Sequence[Asked]) -> float:
    """The expected uplift per observation, in nats: exact, over the outcomes that each question could have had."""
    belief = WRITERS[writer][1]
    return float(np.mean([np.dot(_both(one.exact[-1]), _known(one, belief)) for one in asked]))


def _known(one: Asked, belief: Callable[[Asked], float] | None) -> Floats:
    """The uplift if the outcome is yes, and if it is no."""
    said = [CERTAIN, CERTAIN] if belief is None else np.clip(_both(belief(one)), 1 - CERTAIN, CERTAIN)
    return np.asarray(np.log(np.divide(said, _both(one.prior))))


def _both(yes: float) -> list[float]:
    return [yes, 1 - yes]


def _task(one: Asked) -> str:
    return outcome(str(one.item.id), (one.item.metadata or {})["proposition"], str(one.item.target)).task


def uplifts(writer: str, asked: Sequence[Asked], forecaster: str) -> dict[str, Floats]:
    """What the task would record for each question, by key.

    Args:
        writer: A key of `WRITERS`.
        asked: The questions.
        forecaster: A key of `FORECASTERS`.

    Returns:
        `raw`, the uplift without a placebo; `text` and `shuffled`, net of that placebo; `known`, what is known in
        advance of this outcome, all in nats per observation.
    """
    rows: dict[str, list[float]] = {key: [] for key in ("raw", *PLACEBOS, "known")}
    belief = WRITERS[writer][1]
    for one in asked:
        note, observed = WRITERS[writer][0](one), OUTCOMES[str(one.item.target)]

        def read(note: str | None, one: Asked = one, observed: str = observed) -> float:
            context = messages("vanilla", str(one.item.input), _task(one), note)
            return sum(logprob for _, logprob in observation_logprobs(context, observed, FORECASTERS[forecaster]))

        with_note = read(note)
        rows["raw"].append(with_note - read(None))
        for kind in PLACEBOS:
            rows[kind].append(with_note - read(placebo_text(kind, note, one.item.id)))
        rows["known"].append(_known(one, belief)[int(one.item.target == "no")])
    return {key: np.array(values) for key, values in rows.items()}


def replicate(values: Floats, truth: float, n: int, runs: int, seed: int = 0) -> dict[str, float]:
    """Coverage and power of runs of n questions, drawn from many.

    Args:
        values: The uplift of each question.
        truth: Their mean.
        n: Questions of a run.
        runs: How many runs.
        seed: Seed of the draws.

    Returns:
        `coverage`, the share of 95 % intervals that contain the truth; `helps` and `misleads`, the shares of runs with
        these verdicts; `mde`, its mean.
    """
    rng = np.random.default_rng(seed)
    found = [mean_headline(values[rng.integers(values.size, size=n)]) for _ in range(runs)]
    lower, upper = np.array([one.lower for one in found]), np.array([one.upper for one in found])
    return {
        "coverage": float(np.mean((lower <= truth + 1e-12) & (truth - 1e-12 <= upper))),
        "helps": float(np.mean(lower > 0)),
        "misleads": float(np.mean(upper < 0)),
        "mde": float(np.mean([one.mde for one in found])),
    }


def study(n: int, runs: int) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """All writers in all worlds.

    Returns:
        A row for each world, writer and forecaster, with what is planted and found; and a row for each writer on `urns`
        with an exact forecaster and size of a run.
    """
    import pandas as pd

    rows, power = [], []
    for world in WORLDS:
        asked = ask(world, n)
        for writer in WRITERS:
            truth = planted(writer, asked)
            for forecaster in FORECASTERS if world == "urns" else ("exact",):
                found = uplifts(writer, asked, forecaster)
                about = {"world": world, "writer": writer, "forecaster": forecaster, "planted": truth}
                for key in ("raw", *PLACEBOS):
                    mean = mean_headline(found[key])
                    about |= {key: mean.estimate, f"{key}_lower": mean.lower, f"{key}_upper": mean.upper}
                rows.append(about | {"gap": float(np.abs(found["raw"] - found["known"]).max())})
                if world == "urns" and forecaster == "exact":
                    values = found["text"]
                    each = [{"n": size} | replicate(values, float(values.mean()), size, runs) for size in SIZES]
                    power += [{"writer": writer, "truth": float(values.mean())} | row for row in each]
    return pd.DataFrame(rows), pd.DataFrame(power)


def write(out: Path, n: int = 500, runs: int = 1000) -> None:
    """Compute everything and write the page.

    Args:
        out: The Markdown file.
        n: Questions of each world.
        runs: Simulated runs of each size.
    """
    found, power = study(n, runs)
    out.write_text(text.page(found, power, n, runs), encoding="utf-8")


if __name__ == "__main__":
    main(write, __doc__, "n", "runs")
