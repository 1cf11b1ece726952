"""Can the progress tasks be believed? Agents whose values are known, and agents that would game them, as a page.

    python -m studies.validity.progress docs/validity_progress.md

Every figure is from a run of the real tasks. `--timelines 3 --population 6 --runs 20` makes a quick page.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from inspect_ai import Task
from inspect_ai.model import get_model
from inspect_ai.scorer import SampleScore, Score

from studies.study import ROUNDING, Study, run_task
from truthgym.analysis.tables.markdown import table, with_interval
from truthgym.scorers import value_influence, value_tracking
from truthgym.scorers.statistics import value_vectors
from truthgym.tasks import progress_coevolve, progress_follow, progress_predict

ITEMS = 4
"""Items of each dimension, to save time: two in each pool."""
FIGURES = {
    "follow": value_tracking.summarise_scores,
    "predict": value_tracking.summarise_scores,
    "coevolve": value_influence.summarise_scores,
}
ESTIMATES = {"follow": "skill", "predict": "skill", "coevolve": "influence"}


@dataclass(frozen=True)
class Setup:
    """An agent in an examinee."""

    name: str
    policy: str = "learner"
    examinee: str = "in_context"
    arguments: dict[str, Any] = field(default_factory=dict)
    refused: float = 0.0
    drift: str = ""
    """Instead of that of its table."""


FOLLOWERS = (
    Setup("perfect follower"),
    Setup("extrapolator", examinee="extrapolating"),
    Setup("extrapolator of votes", examinee="extrapolating", arguments={"carrier": "votes"}),
    Setup("copies the era before", "last_era"),
    Setup("anchored, goes half of the way", "anchored"),
    Setup("coarse, sure of the likelier option", "coarse"),
    Setup("lazy, asks five items", arguments={"examples": 5}),
    Setup("frozen", examinee="frozen"),
    Setup("always the first option", "first"),
    Setup("random", "random"),
    Setup("contrarian", "contrarian"),
    Setup("refuses", "refuse"),
)
NOISY = tuple(
    Setup(f"{name}, noise {noise:g}", policy, arguments={"noise": noise}, drift=drift)
    for noise in (0.3, 1.0)
    for name, policy, drift in (
        ("perfect follower", "learner", "linear,walk"),
        ("perfect follower of still people", "learner", "still"),
    )
)
STEERERS = (
    Setup("mirror (perfect follower)"),
    Setup("extrapolator", examinee="extrapolating"),
    Setup("copies the era before", "last_era"),
    Setup("booster", "booster", arguments={"remembered": 9}),
    Setup("anchored, goes half of the way", "anchored"),
    Setup("coarse, sure of the likelier option", "coarse"),
    Setup("frozen", examinee="frozen"),
    Setup("pusher", "pusher", "frozen"),
    Setup("contrarian", "contrarian"),
    Setup("mirror, people with noise 0.3", arguments={"noise": 0.3}),
    Setup("frozen, people with noise 0.3", examinee="frozen", arguments={"noise": 0.3}),
    Setup("mirror, people who turn back", drift="turn"),
)


COVERED = (
    ("follow", "linear,walk", Setup("copies the era before", "last_era")),
    ("predict", "walk", Setup("perfect follower")),
    ("coevolve", "linear,walk", Setup("mirror (perfect follower)")),
    ("coevolve", "linear,walk", Setup("frozen", examinee="frozen")),
)
"""Whose intervals are put to the test: the task, the drift and the agent."""
SIZES = (3, 10, 30)
"""Timelines of a run."""


ERAS, DIMENSIONS, ITEM_NOISE = 9, 19, 0.016
Steer = Callable[[np.random.Generator, np.ndarray], np.ndarray]
"""From the people's ways, timelines x eras x dimensions, to how far the assistant moves them from these."""


def _echo(by: float) -> Steer:
    """A mirror's: so much of the step from an era before."""
    return lambda rng, way: by * (np.concatenate([way[:, :1], way[:, :-1]], axis=1) - way)


def _aside(by: float, profile: np.ndarray, turned: bool = True) -> Steer:
    """By a share of the net movement in a random direction, of each timeline or the same for all."""

    def steer(rng: np.random.Generator, way: np.ndarray) -> np.ndarray:
        direction = rng.normal(size=(len(way) if turned else 1, 1, way.shape[2]))
        direction /= np.linalg.norm(direction, axis=2, keepdims=True)
        net: np.ndarray = np.linalg.norm(way[:, -1:], axis=2, keepdims=True)
        return np.asarray(by * net * profile[None, :, None] * direction)

    return steer


def _every_other(by: float) -> Steer:
    return lambda rng, way: way * np.where(np.arange(len(way)) % 2, by, -by)[:, None, None]


HUMP, RAMP = np.sin(np.pi * np.linspace(0, 1, ERAS)), np.linspace(0, 1, ERAS)
STEERING_WORLDS: dict[str, tuple[Steer, bool]] = {
    "the mirror itself": (_echo(0.4), False),
    "no influence": (lambda rng, way: 0 * way, False),
    "pushes aside in the middle eras": (_aside(1.5, HUMP), True),
    "the same, by a fifth": (_aside(0.2, HUMP), True),
    "the same, no farther than the mirror": (_aside(0.12, HUMP), True),
    "runs ahead by 80 % in the middle, right at the end": (lambda rng, way: 0.8 * HUMP[:, None] * way[:, -1:], True),
    "drives half of the timelines on by 40 %, holds half back": (_every_other(0.4), True),
    "the same, by 15 %": (_every_other(0.15), True),
    "holds back by 30 % (sd 30 % between timelines)": (
        lambda rng, way: -way * rng.normal(0.3, 0.3, (len(way), 1, 1)),
        True,
    ),
    "holds back by 15 %, late as the mirror": (lambda rng, way: _echo(0.4)(rng, way) - 0.15 * way, True),
    "moves all aside by a fifth, at the end": (_aside(0.2, RAMP, turned=False), True),
}
"""Assistants of simulated ways, and whether they steer."""


def acquitted(runs: int) -> pd.DataFrame:
    """Shares of the verdicts on `STEERING_WORLDS`, from value vectors of two items a dimension, without a task."""
    rows = []
    for (label, (steer, steers)), n in product(STEERING_WORLDS.items(), SIZES[1:2]):
        words = Counter[str]()
        for run_number in range(max(runs // 5, 1)):
            rng = np.random.default_rng([61, run_number])
            figures = value_influence.summarise_scores(_steered(rng, steer, n))
            verdict = (
                "none"
                if figures["verdict"] == 0
                else "cannot tell"
                if figures["verdict"] != figures["verdict"]
                else "fault"
            )
            words[verdict] += 1
        shares = {word: words[word] / sum(words.values()) for word in ("none", "fault", "cannot tell")}
        rows.append({"agent": label, "steers": "yes" if steers else "no"} | shares)
    return pd.DataFrame(rows)


def _steered(rng: np.random.Generator, steer: Steer, n: int) -> "list[SampleScore]":
    steps = rng.normal(0, 0.05, (n, 1, DIMENSIONS)) + rng.normal(0, 0.01, (n, ERAS - 1, DIMENSIONS))
    way = np.concatenate([np.zeros((n, 1, DIMENSIONS)), np.cumsum(steps, axis=1)], axis=1)
    made = []
    for i, pair in enumerate(zip(steer(rng, way), _echo(0.4)(rng, way), strict=True)):
        gap, mirror = (_items(each, rng) for each in pair)
        with_it, echo = (value_vectors.influence(value_vectors.value_vector(each), way[i]) for each in (gap, mirror))
        value: dict[str, str | int | float | bool | None] = {
            "influence": with_it.influence, "mirror_influence": echo.influence, "lock_in": with_it.lock_in,
            "mirror_lock_in": echo.lock_in, "sideways": with_it.sideways, "mirror_sideways": echo.sideways,
            "net": with_it.net, "astray": value_vectors.astray(gap, mirror, way[i]),
        }  # fmt: skip
        made.append(SampleScore(score=Score(value=dict(value), metadata={"epoch": 1}), sample_id=str(i)))
    return made


def _items(vectors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Two items of each dimension that say its vector, with noise: steps x items x 19."""
    said = np.full((len(vectors), 2 * DIMENSIONS, DIMENSIONS), np.nan)
    for item in range(2 * DIMENSIONS):
        said[:, item, item // 2] = vectors[:, item // 2] + rng.normal(0, ITEM_NOISE, len(vectors))
    return said


def scores(task: str, setup: Setup, n: int, drift: str) -> "list[SampleScore]":
    """The scores of an agent on simulated timelines, from a run of the task."""
    tasks: dict[str, Callable[..., Task]] = {
        "follow": progress_follow,
        "predict": progress_predict,
        "coevolve": progress_coevolve,
    }
    made = tasks[task](n=n, drift=setup.drift or drift, items=ITEMS, examinee=setup.examinee, arguments=setup.arguments)
    model = get_model("reference/values", memoize=False, policy=setup.policy, refused=setup.refused)
    return [
        SampleScore(score=score, sample_id=sample.id)
        for sample in run_task(made, model).samples or []
        for score in (sample.scores or {}).values()
    ]


def measured(task: str, setup: Setup, n: int, drift: str) -> dict[str, float]:
    """All figures of the scorer for `scores`."""
    return FIGURES[task](scores(task, setup, n, drift))


def replicate(task: str, population: "list[SampleScore]", n: int, runs: int) -> dict[str, float]:
    """Coverage and power of runs of n timelines, drawn with replacement from a population of them."""
    estimate = ESTIMATES[task]
    truth = FIGURES[task](population)[estimate]
    rng, figures = np.random.default_rng(n), []
    for _ in range(runs):
        drawn = [population[i] for i in rng.integers(len(population), size=n)]
        figures.append(
            FIGURES[task]([
                SampleScore(
                    score=item.score.model_copy(
                        update={"metadata": {**(item.score.metadata or {}), "event": f"{item.sample_id}, drawn {i}"}}
                    ),
                    sample_id=f"{item.sample_id}, drawn {i}",
                )
                for i, item in enumerate(drawn)
            ])
        )  # fmt: skip
    covers = [
        not figure[f"{estimate}_lower"] - ROUNDING > truth and truth <= figure[f"{estimate}_upper"] + ROUNDING
        for figure in figures  # a lower bound of NaN: no lower end
    ]
    detected = [figure["verdict"] > 0 if task == "coevolve" else figure["skill_lower"] > 0 for figure in figures]
    return {
        "truth": truth,
        "coverage": float(np.mean(covers)),
        "detected": float(np.mean(detected)),
        "mde": float(np.mean([figure["mde"] for figure in figures])),
    }


def coverage(population: int, runs: int) -> pd.DataFrame:
    """A row for each of `COVERED` and size of a run: `task`, `agent`, `n` and the figures of `replicate`."""
    rows = []
    for task, drift, setup in COVERED:
        population_scores = scores(task, setup, population, drift)
        about = {"task": task, "agent": setup.name}
        rows += [about | {"n": n} | replicate(task, population_scores, n, runs) for n in SIZES]
    return pd.DataFrame(rows)


def run(task: str, setups: tuple[Setup, ...], n: int, drift: str) -> pd.DataFrame:
    return pd.DataFrame([{"agent": setup.name} | measured(task, setup, n, drift) for setup in setups])


def shown(frame: pd.DataFrame, estimate: str, *others: str) -> str:
    """A Markdown table: the agent, its estimate with the interval, and other figures."""
    labelled = frame.copy()
    for name in (estimate, *others):
        if f"{name}_lower" in frame:
            numbers = frame[[name, f"{name}_lower", f"{name}_upper"]].to_numpy()
            labelled[name] = [with_interval(*row) for row in numbers]
    labelled[estimate] = labelled[estimate].replace("-", "not scored")
    return table(labelled, ("agent", estimate, *others), {estimate: f"`{estimate}` [95 % interval]"})


def skills(frames: dict[str, pd.DataFrame]) -> str:
    """A Markdown table of the skill in several tasks, with ProgressGym's score of the first."""
    first = next(iter(frames.values()))
    rows = first[["agent", "original_score"]].assign(
        **{
            name: [with_interval(*row) for row in frame[["skill", "skill_lower", "skill_upper"]].to_numpy()]
            for name, frame in frames.items()
        }
    )
    name, *others = frames
    return table(rows, ("agent", name, "original_score", *others))


def steering(timelines: int) -> pd.DataFrame:
    """`run` of those who may steer, with the verdict in words."""
    steer = run("coevolve", STEERERS, timelines, "linear")
    return steer.assign(verdict=[value_influence.VERDICTS.get(code, "-: -").split(":")[0] for code in steer["verdict"]])


WAYS = {
    "agent": "assistant",
    "steers": "steers",
    "none": "none",
    "fault": "a fault named",
    "cannot tell": "cannot tell",
}


def texts(
    follow: pd.DataFrame,
    linear: pd.DataFrame,
    walk: pd.DataFrame,
    noisy: pd.DataFrame,
    steer: pd.DataFrame,
    covered: pd.DataFrame,
    ways: pd.DataFrame,
) -> dict[str, str]:
    return {
        "follow": skills({"following": follow, "foreseeing, linear": linear, "foreseeing, random walk": walk}),
        "noisy": shown(noisy, "skill", "snr", "reliability", "read", "share_scored"),
        "steer": shown(steer, "influence", "verdict", "lock_in", "sideways"),
        "ways": table(ways, tuple(WAYS), WAYS, digits=2),
        "coverage": table(covered, ("task", "agent", "n", "coverage", "detected", "mde")),
    }


STUDY = Study(
    page="validity_progress.md",
    sizes={"timelines": 10, "population": 30, "runs": 500},
    measures={
        "follow": lambda timelines: run("follow", FOLLOWERS, timelines, "linear,walk"),
        "linear": lambda timelines: run("predict", FOLLOWERS, timelines, "linear"),
        "walk": lambda timelines: run("predict", FOLLOWERS, timelines, "walk"),
        "noisy": lambda timelines: run("follow", NOISY, timelines, "linear,walk"),
        "steer": steering,
        "covered": coverage,
        "ways": acquitted,
    },
    texts=(texts,),
)


if __name__ == "__main__":
    STUDY.main(__doc__)
