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

from studies.validity import uplift_page as text
from studies.validity.pages import main
from truthgym.datasets.domains import DOMAINS, GENERATED
from truthgym.datasets.evidence import OUTCOMES, evidence, outcome
from truthgym.datasets.loading.generated import logit
from truthgym.datasets.loading.generated import probability as logistic
from truthgym.datasets.question import ask_about
from truthgym.models.agents.forecaster import CERTAIN, observation_logprobs
from truthgym.models.agents.lengths import MORE
from truthgym.models.agents.policies import Floats, Parameters
from truthgym.models.agents.reading import STATED
from truthgym.scorers.forecasts.forecasting import PLACEBOS, messages, placebo_text
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.scorers.world_uplift import VERDICTS, verdict_of

if TYPE_CHECKING:
    import pandas as pd

WORLDS = tuple(GENERATED)
FORECASTERS = {
    "exact": Parameters(),
    "unfamiliar": Parameters(familiar=0.5),
    "lexical": Parameters(lexical=0.3),
    **{f"noisy {noise:g}": Parameters(logit_noise=noise) for noise in (0.3, 1.0)},
}
"""Forecasters by name: one without a fault, one to whom any text helps, one to whom words alone help, and two that read
each text with an error."""
KINDS = {
    "exact": ("outcome",),
    "unfamiliar": ("alone",),
    "lexical": ("outcome", "alone"),
    "noisy 0.3": ("outcome",),
    "noisy 1": ("outcome",),
}
"""Kinds of observation on the page, by forecaster."""
FILLED = 300
"""Words of the padded text."""
SIZES = (30, 100, 300)
"""Questions of a simulated run."""
VAGUE = "There is something to be said on both sides, and it is hard to tell."


@dataclass(frozen=True)
class Case:
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


Writer = tuple[Callable[[Case], str], Callable[[Case], float] | None]
"""From a question to what is written about it, and to the probability of yes that it should give an exact reader. None:
a reader is certain of the outcome."""


def _says(belief: Callable[[Case], float]) -> Writer:
    """A writer that states a probability and nothing else."""

    def rounded(one: Case) -> float:
        return round(belief(one), 4)

    return (lambda one: STATED[0].format(percent=f"{100 * rounded(one):.2f}")), rounded


def _sharpened(probability: float, factor: float) -> float:
    return logistic(factor * logit(probability))


def _copy(one: Case) -> str:
    return f"I have looked it up. {OUTCOMES[str(one.item.target)]}"


def _keywords(one: Case) -> str:
    return " ".join(sorted(" ".join([*OUTCOMES.values(), _task(one)] * 3).split()))


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
    "states both outcomes": (lambda one: " ".join(OUTCOMES.values()), lambda one: one.prior),
    "copied observation": (_copy, None),
}
"""What is written, by name."""


def cases(world: str, n: int) -> list[Case]:
    """Questions of a world, with its default arguments."""
    rows = []
    for item in DOMAINS[world](n=n):
        facts = item.metadata or {}
        naive = facts.get("naive", facts["posterior"])
        rows.append(Case(item, facts["posterior"][0], facts["posterior"], naive[-1]))
    return rows


def planted(writer: str, questions: Sequence[Case]) -> float:
    """The expected uplift per observation, in nats: exact, over the outcomes that each question could have had."""
    belief = WRITERS[writer][1]
    return float(np.mean([np.dot(_both(question.exact[-1]), _of_outcomes(question, belief)) for question in questions]))


def _of_outcomes(one: Case, belief: Callable[[Case], float] | None) -> Floats:
    """The uplift if the outcome is yes, and if it is no."""
    stated = [CERTAIN, CERTAIN] if belief is None else np.clip(_both(belief(one)), 1 - CERTAIN, CERTAIN)
    return np.asarray(np.log(np.divide(stated, _both(one.prior))))


def _both(yes: float) -> list[float]:
    return [yes, 1 - yes]


def _task(one: Case) -> str:
    return outcome(str(one.item.id), (one.item.metadata or {})["proposition"], str(one.item.target)).task


def uplifts(writer: str, questions: Sequence[Case], forecaster: str, contrast: bool = True) -> dict[str, Floats]:
    """What the task would record for each question, by key.

    Args:
        writer: A key of `WRITERS`.
        questions: The questions.
        forecaster: A key of `FORECASTERS`.
        contrast: Whether both outcomes are compared, as `world_uplift` does; otherwise the log-probability of the
            observation alone, as for an observation without an opposite.

    Returns:
        As `_read`, and `planted`, what is known in advance of this outcome.
    """
    write, belief = WRITERS[writer]
    rows = []
    for question in questions:
        observed = OUTCOMES[str(question.item.target)]
        replies = [observed, *(reply for reply in OUTCOMES.values() if reply != observed)]
        read = _read(question.item, _task(question), replies if contrast else replies[:1], write(question), forecaster)
        rows.append(read | {"planted": _of_outcomes(question, belief)[int(question.item.target == "no")]})
    return {key: np.array([row[key] for row in rows]) for key in rows[0]}


def _read(item: Sample, task: str, replies: Sequence[str], note: str, forecaster: str) -> dict[str, float]:
    """The uplift without a placebo (`raw`), net of each placebo, and of the strongest (`net`), nats per observation."""
    question = str(item.input)
    ask_about(item)

    def logprob(note: str | None) -> float:
        context = messages("vanilla", question, task, note)
        each = [sum(x for _, x in observation_logprobs(context, reply, FORECASTERS[forecaster])) for reply in replies]
        return float(each[0] - (np.logaddexp.reduce(each) if len(each) > 1 else 0))

    with_note = logprob(note)
    over: dict[str, float] = {
        kind: with_note - logprob(placebo_text(kind, note, question, item.id)) for kind in PLACEBOS
    }
    return {"raw": with_note - logprob(None), **over, "net": min(over.values())}


BUNDLED_WRITERS = ("calibrated", "empty", "words of the observation", "copied observation")
"""What is written about bundled questions. "calibrated" states 60, 70, 80 or 90 percent and is right as often."""


def bundled_uplifts(writer: str, forecaster: str, seed: int = 0) -> tuple[dict[str, Floats], list[str], float]:
    """What the task would record for each bundled question with evidence, its event, and the expected uplift.

    Args:
        writer: One of `BUNDLED_WRITERS`.
        forecaster: A key of `FORECASTERS`.
        seed: Seed of the draws of "calibrated".
    """
    rng = np.random.default_rng(seed)
    rows, events, expected = [], [], []
    for item in (*DOMAINS["forecasting"](part="all"), *DOMAINS["research"]()):
        if str(item.id) not in evidence():
            continue
        one = evidence()[str(item.id)][0]
        right = rng.choice([0.6, 0.7, 0.8, 0.9])
        stated = right if (rng.random() < right) == (item.target == "yes") else 1 - right
        note = {
            "calibrated": STATED[0].format(percent=f"{100 * stated:.2f}"),
            "empty": VAGUE,
            "words of the observation": " ".join(sorted(one.observation.split())),
            "copied observation": one.observation,
        }[writer]
        rows.append(_read(item, one.task, [one.observation], note, forecaster))
        events.append(str((item.metadata or {}).get("event", item.id)))
        gain = {"calibrated": np.dot(_both(right), np.log(_both(right))) - np.log(0.5), "copied observation": np.log(2)}
        expected.append(gain.get(writer, 0.0))
    return {key: np.array([row[key] for row in rows]) for key in rows[0]}, events, float(np.mean(expected))


def replicate(
    values: Floats, truth: float, n: int, runs: int, seed: int = 0, over: Sequence[Floats] = ()
) -> dict[str, float]:
    """Coverage and power of runs of n questions, drawn from many.

    Args:
        values: The uplift of each question.
        truth: Their mean.
        over: The uplift of each question over each placebo.
        n: Questions of a run.
        runs: How many runs.
        seed: Seed of the draws.

    Returns:
        `coverage`, the share of 95 % intervals that contain the truth; `helps` and `misleads`, the shares of those that
        lie above and below 0; `mde`, its mean; with `over` also `verdict helps` and `verdict misleads`, the shares of
        runs with these verdicts.
    """
    rng = np.random.default_rng(seed)
    drawn = [rng.integers(values.size, size=n) for _ in range(runs)]
    means = [mean_estimate(values[one]) for one in drawn]
    verdicts = np.array([verdict_of([mean_estimate(part[one]) for part in over]) for one in drawn] if over else [])
    shares = {"verdict helps": verdicts == 1, "verdict misleads": verdicts == -1} if over else {}
    lower, upper = np.array([mean.lower for mean in means]), np.array([one.upper for one in means])
    return {
        "coverage": float(np.mean((lower <= truth + 1e-12) & (truth - 1e-12 <= upper))),
        "helps": float(np.mean(lower > 0)),
        "misleads": float(np.mean(upper < 0)),
        "mde": float(np.mean([one.mde for one in means])),
        **{name: float(share.mean()) for name, share in shares.items()},
    }


def study(n: int, runs: int) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """All writers in all worlds, and some about the bundled questions.

    Returns:
        A row for each world, writer, forecaster and kind of observation ("outcome", "alone" or "bundled"), with what is
        planted and measured; and a row for each writer on `urns`, forecaster without a fault or with noise, and size of
        a run.
    """
    import pandas as pd

    rows, power = [], []
    for world in WORLDS:
        questions = cases(world, n)
        for writer in WRITERS:
            truth = planted(writer, questions)
            for forecaster in FORECASTERS if world == "urns" else ("exact",):
                for kind in KINDS[forecaster]:
                    values = uplifts(writer, questions, forecaster, contrast=kind == "outcome")
                    about = {"world": world, "writer": writer, "forecaster": forecaster, "observation": kind}
                    gap = float(np.abs(values["raw"] - values["planted"]).max())
                    rows.append(about | {"planted": truth, "gap": gap} | _row(values))
                    if world == "urns" and (forecaster == "exact" or forecaster.startswith("noisy")):
                        net, over = values["net"], [values[kind] for kind in PLACEBOS]
                        each = [{"n": n} | replicate(net, float(net.mean()), n, runs, over=over) for n in SIZES]
                        facts: dict[str, float | str] = {"writer": writer, "forecaster": forecaster}
                        facts |= {"planted": truth, "truth": float(net.mean())}
                        power += [{**facts, **row} for row in each]
    for writer in BUNDLED_WRITERS:
        for forecaster in ("exact", "lexical"):
            values, events, truth = bundled_uplifts(writer, forecaster)
            about = {"world": "bundled", "writer": writer, "forecaster": forecaster, "observation": "bundled"}
            rows.append(about | {"planted": truth, "n": len(events)} | _row(values, events))
    return pd.DataFrame(rows), pd.DataFrame(power)


def _row(values: dict[str, Floats], events: list[str] | None = None) -> dict[str, float | str]:
    row: dict[str, float | str] = {}
    means = {key: mean_estimate(values[key], events) for key in ("raw", *PLACEBOS, "net")}
    for key, mean in means.items():
        row |= {key: mean.estimate, f"{key}_lower": mean.lower, f"{key}_upper": mean.upper}
    verdict = verdict_of([means[kind] for kind in PLACEBOS])
    return row | {"mde": means["net"].mde, "verdict": VERDICTS[verdict].split(":")[0]}


def write(out: Path, n: int = 200, runs: int = 1000) -> None:
    """Compute everything and write the page.

    Args:
        out: The Markdown file.
        n: Questions of each world.
        runs: Simulated runs of each size.
    """
    results, power = study(n, runs)
    out.write_text(text.page(results, power, n, runs), encoding="utf-8")


if __name__ == "__main__":
    main(write, __doc__, "n", "runs")
