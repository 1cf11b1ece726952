"""World uplift on writers whose information is known, read by forecasters with known faults.

Questions are those of generated worlds, so what a text can say about the outcome is known exactly. Writers are texts
and the forecaster is `reference/forecaster`: no model is run.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from inspect_ai.dataset import Sample

from studies.study import Study, recovered
from truthgym.analysis.tables.markdown import table
from truthgym.datasets.domains import DOMAINS
from truthgym.datasets.evidence import OUTCOMES, evidence, outcome
from truthgym.datasets.loading.generated import logit
from truthgym.datasets.loading.generated import probability as logistic
from truthgym.datasets.question import ask_about
from truthgym.models.agents.forecaster import CERTAIN, observation_logprobs
from truthgym.models.agents.policies import Floats, Parameters
from truthgym.models.agents.reading import STATED
from truthgym.scorers.forecasts.forecasting import (
    COPIED,
    PLACEBOS,
    copied_share,
    log_odds,
    messages,
    over_exchanged,
    placebo_text,
)
from truthgym.scorers.statistics.interval import Estimate, mean_estimate
from truthgym.scorers.world_uplift import HELPS, MISLEADS, VERDICTS, verdict_of

WORLDS = ("urns", "testimony")
"""One whose naive reader is right, and one whose naive reader errs. The tests compute the uplift in all."""
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
BRIEF = ("naive", "hedging")
"""Writers in the first table alone."""
REPEATED = ("exact", "slanted", "noisy 0.3", "noisy 1")
"""Forecasters whose runs are drawn again and again."""
SIZES = (30, 300)
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
    "empty": (lambda case: VAGUE, lambda case: case.prior),
    "keywords": (_keywords, lambda case: case.prior),
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


COPIES: dict[str, Callable[[str, str], str]] = {
    "the observation": lambda observation, question: observation,
    "every third word replaced": lambda observation, question: _every(3, observation),
    "a word added after every second": lambda observation, question: " ".join(
        word + " indeed" * (place % 2) for place, word in enumerate(observation.split())
    ),
    "its halves exchanged": lambda observation, question: _exchanged(observation.rstrip(".").split()),
    "other figures in its sentence": lambda observation, question: re.sub(
        r"\d+", lambda number: str(round(1.15 * int(number[0])) + 1), observation
    ),
    "the question, and a guess": lambda observation, question: f"{question} {VAGUE} I would say about 40 percent.",
    "all other observations": lambda observation, question: " ".join(
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


def copies() -> pd.DataFrame:
    """Share of the bundled observations of which each text counts as a copy."""
    items = [*DOMAINS["forecasting"](part="all"), *DOMAINS["research"]()]
    known = [(str(item.input), evidence()[str(item.id)][0]) for item in items if str(item.id) in evidence()]
    rows = []
    for name, write in COPIES.items():
        shares = [
            copied_share(write(piece.observation, question), piece.observation, f"{question} {piece.task}")
            for question, piece in known
        ]
        rows.append({"text": name, "counted as copied": float(np.mean(np.array(shares) > COPIED))})
    return pd.DataFrame(rows)


def copies_texts(copied: pd.DataFrame) -> dict[str, str]:
    return {"copies": table(copied, [str(column) for column in copied], digits=2)}


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
                    rows.append(about | {"planted": truth} | _row(values))
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


CASES = {
    "lexical outcome": "`lexical=0.3`, two outcomes",
    "lexical alone": "`lexical=0.3`, one observation",
    "unfamiliar alone": "`familiar=0.5`, one observation",
    "slanted outcome": "`slant=1.5`, two outcomes",
}
"""Forecasters with a fault and what they are asked, by the title of their column."""


def uplift_texts(frames: tuple[pd.DataFrame, pd.DataFrame]) -> dict[str, str]:
    results, _ = frames
    known, raw, net, mde = (results[name].map(_number) for name in ("planted", "raw", "net", "mde"))
    cells = results.assign(known=known, interval=_intervals(results), detects=mde, case=results["forecaster"])
    cells["case"] += " " + results["observation"]
    cells["verdict"] = cells["interval"] + ", " + results["verdict"]
    cells["fault"] = raw + ", " + net + ", " + results["verdict"]
    cells = cells.set_index("writer")
    exact, bundled = cells[cells["case"] == "exact outcome"], cells[cells["world"] == "bundled"]
    by_world = {world: exact[exact["world"] == world] for world in WORLDS}
    urns = cells[(cells["world"] == "urns") & ~cells.index.isin(BRIEF)]
    without, lexical = (bundled[bundled["forecaster"] == name] for name in ("exact", "lexical"))
    return {
        "worlds": _by_writer(
            {
                f"{title} in {world}": some[column]
                for world, some in by_world.items()
                for title, column in (("known", "known"), ("net uplift", "interval"))
            }
        ),
        "faults": _by_writer(
            {"known": urns.loc[urns["case"] == "exact outcome", "known"]}
            | {title: urns.loc[urns["case"] == case, "fault"] for case, title in CASES.items()}
        ),
        "bundled": str(int(bundled["n"].iloc[0])),
        "bundled faults": _by_writer(
            {
                "known": without["known"],
                "without a fault": without["verdict"],
                "mde": without["detects"],
                "`lexical=0.3`": lexical["verdict"],
                "mde with `lexical=0.3`": lexical["detects"],
            }
        ),
        "copied": by_world["urns"]["known"]["copied observation"],
        "known": by_world["urns"]["known"]["exact"],
    }


def _number(value: float) -> str:
    return f"{round(value, 3) + 0.0:.3f}"


def _intervals(frame: pd.DataFrame) -> list[str]:
    numbers = frame[["net", "net_lower", "net_upper"]].round(3).to_numpy() + 0.0
    return [f"{mean:.3f}" + (f" [{low:.3f}, {high:.3f}]" if low < high else "") for mean, low, high in numbers]


def _by_writer(columns: Mapping[str, pd.Series]) -> str:
    """A row for each writer, with columns by title."""
    return table(pd.DataFrame(columns).rename_axis("writer").reset_index(), ["writer", *columns])


def power_texts(frames: tuple[pd.DataFrame, pd.DataFrame]) -> dict[str, str]:
    _, power = frames
    moving = power[(power["forecaster"] == "exact") & (power["mde"] > 0)]
    least = moving.sort_values("coverage").iloc[0]
    shown = power[~power["writer"].isin(BRIEF)].set_index(["forecaster", "n", "writer"])
    cells = shown[["planted", "coverage", "mde", "truth"]].map(_number)
    cells[["helps", "alone"]] = shown[["verdict helps", "placebos helps"]].map("{:.2f}".format)
    by = {key: part.droplevel([0, 1]) for key, part in cells.groupby(["forecaster", "n"], sort=False)}
    last = SIZES[-1]
    noisy = {f"error {name.split()[1]}": by[name, last] for name in REPEATED if name.startswith("noisy")}
    return {
        "power": _by_writer(
            {"known": by["exact", last]["planted"]}
            | {
                f"{title}, n={n}": by["exact", n][column]
                for title, column in (("coverage", "coverage"), ("helps", "helps"), ("mde", "mde"))
                for n in SIZES
            }
        ),
        "coverage": f"{moving['coverage'].min():.3f} to {moving['coverage'].max():.3f} where uplift varies, and lowest "
        f"for `{least['writer']}` with {least['n']}",
        "errors": _by_writer(
            {
                "known": by["exact", last]["planted"],
                "slanted: helps by placebos alone": by["slanted", last]["alone"],
                "slanted: helps": by["slanted", last]["helps"],
            }
            | {
                f"{name}: {title}": own[column]
                for name, own in noisy.items()
                for title, column in (("estimate", "truth"), ("helps", "helps"))
            }
        ),
    }


STUDY = Study(
    page="validity_uplift.md",
    sizes={"n": 200, "runs": 1000},
    measures={"frames": study, "copied": copies},
    texts=(uplift_texts, power_texts, copies_texts),
)


if __name__ == "__main__":
    STUDY.main(__doc__)
