"""World uplift on writers whose information is known, read by forecasters with known faults.

Questions are those of generated worlds, so what a text can say about the outcome is known exactly. Writers are texts
and the forecaster is `reference/forecaster`: no model is run.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from inspect_ai.dataset import Sample

from studies.study import Study, recovered
from truthgym.analysis.tables.markdown import table
from truthgym.datasets.domains import DOMAINS, GENERATED
from truthgym.datasets.evidence import OUTCOMES, evidence, outcome
from truthgym.datasets.loading.generated import logit
from truthgym.datasets.loading.generated import probability as logistic
from truthgym.datasets.question import ask_about
from truthgym.datasets.rated_trajectories import rated_trajectories
from truthgym.models.agents.forecaster import CERTAIN, observation_logprobs
from truthgym.models.agents.lengths import MORE
from truthgym.models.agents.policies import Floats, Parameters
from truthgym.models.agents.reading import STATED
from truthgym.scorers.forecasts.forecasting import (
    COPIED,
    PLACEBOS,
    copied_runs,
    copied_share,
    log_odds,
    messages,
    over_exchanged,
    placebo_text,
)
from truthgym.scorers.statistics.interval import Estimate, mean_estimate
from truthgym.scorers.world_uplift import HELPS, MISLEADS, VERDICTS, verdict_of

WORLDS = tuple(GENERATED)
FORECASTERS = {
    "exact": Parameters(),
    "unfamiliar": Parameters(familiar=0.5),
    "lexical": Parameters(lexical=0.3),
    "slanted": Parameters(slant=1.5),
    **{f"noisy {noise:g}": Parameters(logit_noise=noise) for noise in (0.3, 1.0)},
}
"""Forecasters by name: one without a fault, one to whom any text helps, one to whom words alone help, one that leans to
yes until it reads a number, and two that read each text with an error."""
KINDS = {
    "exact": ("outcome",),
    "unfamiliar": ("alone",),
    "lexical": ("outcome", "alone"),
    "slanted": ("outcome",),
    "noisy 0.3": ("outcome",),
    "noisy 1": ("outcome",),
}
"""Kinds of observation on the page, by forecaster."""
REPEATED = ("exact", "slanted", "noisy 0.3", "noisy 1")
"""Forecasters whose runs are drawn again and again."""
FILLED = 300
"""Words of the padded """
SIZES = (30, 100, 300)
"""Questions of a simulated run."""
FILLERS = ("reportedly", "about", "then", "overall", "indeed", "roughly", "also", "finally")
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
        return list((self.item.metadata or {})["evidence"])


Writer = tuple[Callable[[Case], str], Callable[[Case], float] | None]
"""From a question to what is written about it, and to the probability of yes that it should give an exact reader. None:
a reader is certain of the outcome."""


def _says(belief: Callable[[Case], float]) -> Writer:
    """A writer that states a probability and nothing else."""

    def rounded(case: Case) -> float:
        return round(belief(case), 4)

    return (lambda case: STATED[0].format(percent=f"{100 * rounded(case):.2f}")), rounded


def _sharpened(probability: float, factor: float) -> float:
    return logistic(factor * logit(probability))


def _copy(case: Case) -> str:
    return f"I have looked it up. {OUTCOMES[str(case.item.target)]}"


def _keywords(case: Case) -> str:
    return " ".join(sorted(" ".join([*OUTCOMES.values(), _task(case)] * 3).split()))


WRITERS: dict[str, Writer] = {
    "exact": _says(lambda case: case.exact[-1]),
    "quotes all evidence": (lambda case: "\n".join(case.evidence), lambda case: case.exact[-1]),
    "half of the evidence": _says(lambda case: case.exact[len(case.evidence) // 2]),
    "naive": _says(lambda case: case.naive),
    "hedging": _says(lambda case: 0.5 + 0.2 * (case.exact[-1] - 0.5)),
    "overconfident": _says(lambda case: _sharpened(case.exact[-1], 3)),
    "liar": _says(lambda case: 1 - case.exact[-1]),
    "states the base rate": _says(lambda case: case.prior),
    "states one half": _says(lambda case: 0.5),
    "empty": (lambda case: VAGUE, lambda case: case.prior),
    "padded": (
        lambda case: " ".join((f"{VAGUE} {' '.join(MORE)} " * FILLED).split()[:FILLED]),
        lambda case: case.prior,
    ),
    "keywords": (_keywords, lambda case: case.prior),
    "states both outcomes": (lambda case: " ".join(OUTCOMES.values()), lambda case: case.prior),
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


def _of_outcomes(case: Case, belief: Callable[[Case], float] | None) -> Floats:
    """The uplift if the outcome is yes, and if it is no."""
    stated = [CERTAIN, CERTAIN] if belief is None else np.clip(_both(belief(case)), 1 - CERTAIN, CERTAIN)
    return np.asarray(np.log(np.divide(stated, _both(case.prior))))


def _both(yes: float) -> list[float]:
    return [yes, 1 - yes]


def _task(case: Case) -> str:
    return outcome(str(case.item.id), (case.item.metadata or {})["proposition"], str(case.item.target)).task


def uplifts(writer: str, questions: Sequence[Case], forecaster: str, contrast: bool = True) -> dict[str, Floats]:
    """What the task would record for each question, by key."""
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

    with_note, without = logprob(note), logprob(None)
    over: dict[str, float] = {
        kind: with_note - logprob(placebo_text(kind, note, question, item.id)) for kind in PLACEBOS
    }
    said_yes = item.target == "yes"
    pair = [(2 * said_yes - 1) * log_odds(each) if len(replies) > 1 else np.nan for each in (without, with_note)]
    facts = dict(zip(("log_odds", "log_odds_with"), pair, strict=True)) | {"outcome": float(said_yes)}
    return {"raw": with_note - without, **over, "net": min(over.values())} | facts


BUNDLED_WRITERS = ("calibrated", "empty", "words of the observation", "copied observation")
"""What is written about bundled questions. "calibrated" states 60, 70, 80 or 90 percent and is right as often."""


def bundled_uplifts(writer: str, forecaster: str, seed: int = 0) -> tuple[dict[str, Floats], list[str], float]:
    """What the task would record for each bundled question with evidence, its event, and the expected uplift."""
    rng = np.random.default_rng(seed)
    rows, events, expected = [], [], []
    for item in (*DOMAINS["forecasting"](part="all"), *DOMAINS["research"]()):
        if str(item.id) not in evidence():
            continue
        piece = evidence()[str(item.id)][0]
        right = rng.choice([0.6, 0.7, 0.8, 0.9])
        stated = right if (rng.random() < right) == (item.target == "yes") else 1 - right
        note = {
            "calibrated": STATED[0].format(percent=f"{100 * stated:.2f}"),
            "empty": VAGUE,
            "words of the observation": " ".join(sorted(piece.observation.split())),
            "copied observation": piece.observation,
        }[writer]
        rows.append(_read(item, piece.task, [piece.observation], note, forecaster))
        events.append(str((item.metadata or {}).get("event", item.id)))
        gain = {"calibrated": np.dot(_both(right), np.log(_both(right))) - np.log(0.5), "copied observation": np.log(2)}
        expected.append(gain.get(writer, 0.0))
    return {key: np.array([row[key] for row in rows]) for key in rows[0]}, events, float(np.mean(expected))


COPIES: dict[str, Callable[[str, str, np.random.Generator], str]] = {
    "the observation": lambda observation, question, rng: observation,
    "every fifth word replaced": lambda observation, question, rng: _every(5, observation),
    "every fourth word replaced": lambda observation, question, rng: _every(4, observation),
    "every third word replaced": lambda observation, question, rng: _every(3, observation),
    "a word added after every second": lambda observation, question, rng: " ".join(
        word + " indeed" * (place % 2) for place, word in enumerate(observation.split())
    ),
    "its halves exchanged": lambda observation, question, rng: _exchanged(observation.rstrip(".").split()),
    "every fourth word replaced, within a long text": lambda observation, question, rng: " ".join(
        [_trajectory(rng), _every(4, observation), _trajectory(rng)]
    ),
    "other figures in its sentence": lambda observation, question, rng: re.sub(
        r"\d+", lambda number: str(round(1.15 * int(number[0])) + 1), observation
    ),
    "the question, and a guess": lambda observation, question, rng: f"{question} {VAGUE} I would say about 40 percent.",
    "a long text about something else": lambda observation, question, rng: _trajectory(rng),
    "all other observations": lambda observation, question, rng: " ".join(
        piece.observation for pieces in evidence().values() for piece in pieces if piece.observation != observation
    ),
}
"""Texts made from an observation and its question: copies that were edited, then texts that did not see it."""


def _every(k: int, text: str) -> str:
    """A text with another word for each k-th, but for figures."""
    words = enumerate(text.split(), start=1)
    return " ".join(word if n % k or word[0].isdigit() else FILLERS[n % len(FILLERS)] for n, word in words)


def _exchanged(words: list[str]) -> str:
    return " ".join(words[len(words) // 2 :] + words[: len(words) // 2])


def _trajectory(rng: np.random.Generator) -> str:
    rows = rated_trajectories()
    return rows[rng.integers(len(rows))].trajectory


def copies(seed: int = 0) -> pd.DataFrame:
    """Share of the bundled observations of which each text counts as a copy, and which runs of words alone would."""
    rng = np.random.default_rng(seed)
    items = [*DOMAINS["forecasting"](part="all"), *DOMAINS["research"]()]
    known = [(str(item.input), evidence()[str(item.id)][0]) for item in items if str(item.id) in evidence()]
    rows = []
    for name, write in COPIES.items():
        texts = [(write(piece.observation, question, rng), question, piece) for question, piece in known]
        shares = {
            by.__name__: [by(text, piece.observation, f"{question} {piece.task}") for text, question, piece in texts]
            for by in (copied_runs, copied_share)
        }
        rows.append({"text": name} | {by: float(np.mean(np.array(share) > COPIED)) for by, share in shares.items()})
    return pd.DataFrame(rows)


def copies_texts(copied: pd.DataFrame) -> dict[str, str]:
    columns = {"text": "text", "copied_runs": "by runs of four words alone", "copied_share": "counted as copied"}
    return {"copies": table(copied, tuple(columns), columns, digits=2)}


def replicate(values: dict[str, Floats], truth: float, n: int, runs: int, seed: int = 0) -> dict[str, float]:
    """Coverage and power of runs of n questions, drawn from many, and the shares of verdicts.

    `placebos helps` is the share that the placebos alone would call so.
    """
    rng = np.random.default_rng(seed)
    drawn = [rng.integers(values["net"].size, size=n) for _ in range(runs)]
    over = [controls({key: column[indices] for key, column in values.items()}) for indices in drawn]
    verdicts = np.array([verdict_of(means) for means in over])
    placebos = np.array([verdict_of({kind: means[kind] for kind in PLACEBOS}) for means in over])
    shares = {
        "verdict helps": verdicts == HELPS,
        "verdict misleads": verdicts == MISLEADS,
        "placebos helps": placebos == HELPS,
    }
    means = [mean_estimate(values["net"][indices]) for indices in drawn]
    return recovered(truth, means) | {name: float(share.mean()) for name, share in shares.items()}


def controls(values: dict[str, Floats], events: list[str] | None = None) -> dict[str, Estimate]:
    """The uplift over each control."""
    clusters = events or [str(row) for row in range(values["net"].size)]
    before, after = values["log_odds"][:, None], values["log_odds_with"][:, None]
    exchanged = over_exchanged(before, after, values["outcome"], clusters)[:, 0]
    columns = {kind: values[kind] for kind in PLACEBOS} | {"exchanged": exchanged}
    return {kind: mean_estimate(column, events) for kind, column in columns.items()}


def study(n: int, runs: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All writers in all worlds, and some about the bundled questions."""
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
                    if world == "urns" and forecaster in REPEATED:
                        mean = float(values["net"].mean())
                        each = [{"n": n} | replicate(values, mean, n, runs) for n in SIZES]
                        facts: dict[str, float | str] = {"writer": writer, "forecaster": forecaster}
                        facts |= {"planted": truth, "truth": mean}
                        power += [{**row, **facts} for row in each]
    for writer in BUNDLED_WRITERS:
        for forecaster in ("exact", "lexical"):
            values, events, truth = bundled_uplifts(writer, forecaster)
            about = {"world": "bundled", "writer": writer, "forecaster": forecaster, "observation": "bundled"}
            rows.append(about | {"planted": truth, "n": len(events)} | _row(values, events))
    return pd.DataFrame(rows), pd.DataFrame(power)


def _row(values: dict[str, Floats], events: list[str] | None = None) -> dict[str, float | str]:
    row: dict[str, float | str] = {}
    over = controls(values, events)
    means = {key: mean_estimate(values[key], events) for key in ("raw", "net")} | over
    for key, mean in means.items():
        row |= {key: mean.estimate, f"{key}_lower": mean.lower, f"{key}_upper": mean.upper}
    verdict = verdict_of(over)
    return row | {"mde": means["net"].mde, "verdict": VERDICTS.get(verdict, "cannot tell").split(":")[0]}


FIGURES = {"writer": "writer", "planted": "known", "measured": "net of the strongest placebo"}
SILENT = ("states the base rate", "empty", "padded", "keywords", "states both outcomes")
"""Writers that say nothing about the outcome."""
COLUMNS = {
    "writer": "writer",
    "planted": "known",
    "without": "no placebo",
    "other": "net of other text",
    "words": "net of shuffled words",
    "of_question": "net of the question's words",
    "of_others": "net of exchanged answers",
    "measured": "net of the strongest",
    "verdict": "verdict",
}


def uplift_texts(frames: tuple[pd.DataFrame, pd.DataFrame]) -> dict[str, str]:
    results, _ = frames
    columns = {"without": "raw", "other": "text", "words": "shuffled", "of_question": "question"}
    columns |= {"of_others": "exchanged", "measured": "net"}
    cells = results.assign(
        **{name: _cells(results, key) for name, key in columns.items()}, detects=results["mde"].map("{:.3f}".format)
    )
    exact = cells[(cells["forecaster"] == "exact") & (cells["observation"] == "outcome")]
    urns = cells[(cells["world"] == "urns") & (cells["writer"] != "naive")]
    bundled = cells[cells["world"] == "bundled"]
    known = exact[exact["world"] == "urns"].set_index("writer")["planted"]
    faults = {
        f"{forecaster} {kind}": table(rows, tuple(COLUMNS), COLUMNS)
        for (forecaster, kind), rows in urns.groupby(["forecaster", "observation"])
        if forecaster in ("lexical", "unfamiliar", "slanted")
    }
    with_mde = COLUMNS | {"detects": "mde"}
    return {
        "gap": f"{exact['gap'].max():.0e}",
        "worlds": "\n".join(
            f"### {world}\n\n{table(rows, tuple(FIGURES), FIGURES)}"
            for world, rows in exact.groupby("world", sort=False)
        ),
        **faults,
        "bundled": str(int(bundled["n"].iloc[0])),
        **{f"bundled {name}": table(rows, tuple(with_mde), with_mde) for name, rows in bundled.groupby("forecaster")},
        "copied": f"{known['copied observation']:.3f}",
        "known": f"{known['exact']:.3f}",
    }


def _cells(frame: pd.DataFrame, key: str) -> list[str]:
    numbers = frame[[key, f"{key}_lower", f"{key}_upper"]].round(3).to_numpy() + 0.0
    return [
        "-" if np.isnan(mean) else f"{mean:.3f}" + (f" [{low:.3f}, {high:.3f}]" if low < high else "")
        for mean, low, high in numbers
    ]


def power_texts(frames: tuple[pd.DataFrame, pd.DataFrame]) -> dict[str, str]:
    _, power = frames
    exact, slanted = (power[power["forecaster"] == name] for name in ("exact", "slanted"))
    noisy = power[power["forecaster"].str.startswith("noisy")]
    cells: dict[str, Callable[[Any], str]] = {
        "coverage": lambda run: f"{run['coverage']:.3f}",
        "above / below 0": lambda run: f"{run['above 0']:.2f} / {run['below 0']:.2f}",
        "mde": lambda run: f"{run['mde']:.3f}",
    }
    verdict_cells: dict[str, Callable[[Any], str]] = {
        "helps by placebos alone": lambda run: f"{run['placebos helps']:.2f}",
        "helps": lambda run: f"{run['verdict helps']:.2f}",
    }
    noisy_cells: dict[str, Callable[[Any], str]] = {
        "coverage": cells["coverage"],
        "helps / misleads": lambda run: f"{run['verdict helps']:.2f} / {run['verdict misleads']:.2f}",
    }
    moving = exact[exact["mde"] > 0]
    least = moving.sort_values("coverage").iloc[0]
    silent = noisy[noisy["writer"].isin(SILENT)]
    return {
        "power": _by_size(exact, {"writer": "writer", "uplift": "truth"}, cells),
        "coverage": f"{moving['coverage'].min():.3f} to {moving['coverage'].max():.3f} where uplift varies, and lowest "
        f"for `{least['writer']}` with {least['n']}",
        "slanted runs": _by_size(slanted, {"writer": "writer", "known": "planted"}, verdict_cells),
        "exact runs": _by_size(exact, {"writer": "writer", "known": "planted"}, verdict_cells),
        "noisy": _by_size(noisy.assign(error=noisy["forecaster"].str.split().str[-1]), NOISY, noisy_cells),
        "silent helps": f"{silent['verdict helps'].max():.3f}",
        "silent misleads": f"{silent['verdict misleads'].max():.3f}",
    }


NOISY = {"error": "error", "writer": "writer", "known": "planted", "estimate": "truth"}


def _by_size(power: pd.DataFrame, first: Mapping[str, str], cells: Mapping[str, Callable[[Any], str]]) -> str:
    """A row for each forecaster and writer: columns of the frame by title, and then each cell of each size."""
    rows = []
    for _, group in power.groupby(["forecaster", "writer"], sort=False):
        row = {title: group[column].iloc[0] for title, column in first.items()}
        rows.append(
            row
            | {f"{title}, n={run['n']}": cell(run) for title, cell in cells.items() for run in group.to_dict("records")}
        )
    return table(pd.DataFrame(rows), list(rows[0]))


STUDY = Study(
    page="validity_uplift.md",
    sizes={"n": 200, "runs": 1000},
    measures={"frames": study, "copied": copies},
    texts=(uplift_texts, power_texts, copies_texts),
)


if __name__ == "__main__":
    STUDY.main(__doc__)
