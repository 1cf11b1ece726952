"""Does mutual predictability rank models by what they know? Simulated answers of planted accuracy, and attacks on it.

    python -m studies.validity.mutual_prediction docs/validity_mutual_prediction.md

The predictor is that of `reference/predictor`, with its exact probabilities. Runs take their trials from the task's own
code (`draw_trials`); the planted values come from independent draws from many questions.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from studies.study import Study, recovered
from truthgym.analysis.tables.markdown import table
from truthgym.datasets.question import Question
from truthgym.models.agents.policies import FAMILIARITY
from truthgym.models.agents.predictor import predict
from truthgym.scorers.mutual_predictability import NAME, contrasts
from truthgym.scorers.mutual_prediction.answers import Answer, Answers, Respondent
from truthgym.scorers.mutual_prediction.trials import Design, Trial, draw_trials
from truthgym.scorers.statistics.interval import Estimate, mean_estimate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
BASE_RATES = (0.4, 0.8)
"""Of the two kinds of question. Half of the events are of each kind."""
EVENT = 2
"""Questions of an event. The second has the outcome of the first, or with probability one half its own."""
PEER = 0.75
"""Accuracy of the other model, whose answers are predicted in the design `peers`."""
SKILL = 1.0
"""d' of what the predictor knows itself, as `reference/predictor -M skill=1`."""
LIARS = 0.1
Runs = dict[tuple[str, int], tuple[pd.DataFrame, float]]
SIZES = (100, 400, 1600)
"""Questions of a run."""
K = 3
SAME = {"target_question": "evaluated_question", "k_context": K, "behavior_examples": 0, "same_family": "flag"}
DESIGNS: dict[str, dict[str, Any]] = {
    "own": {"predicted": "evaluated", "context_questions": "k_random_non_evaluated", "trials": 3, **SAME},
    "peers": {"predicted": "random_non_evaluated", "context_questions": "evaluated_question", "trials": 1, **SAME},
}
"""Arguments of the task, by design."""


@dataclass(frozen=True)
class World:
    """Questions, and what the predictor and the other model say of them."""

    truth: Floats
    often: NDArray[np.bool_]
    """Whether a question is of the kind with the higher base rate."""
    known: Floats
    """The predictor's own probability of yes. Calibrated, if it knows the base rates of the kinds."""
    peer: Floats


@dataclass(frozen=True)
class Drawn:
    """Trials, as the numbers of questions."""

    target: Ints
    """Whose answer is predicted (trials)."""
    context: Ints
    """Whose answers of the evaluated model are shown (trials x answers)."""
    null: Ints
    """Whose answers are shown in their place."""


def world(n: int, rng: np.random.Generator, skill: float = SKILL, kinds: bool = True) -> World:
    """Draw n questions, two an event."""
    often = np.repeat(rng.random(n // EVENT) < 0.5, EVENT)
    base = np.where(often, max(BASE_RATES), min(BASE_RATES))
    truth = (rng.random(n) < base).astype(float)
    truth[1::EVENT] = np.where(rng.random(n // EVENT) < 0.5, truth[::EVENT], truth[1::EVENT])
    information = FAMILIARITY * skill**2
    signal = (2 * truth - 1) * information / 2 + np.sqrt(information) * rng.standard_normal(n)
    prior = base if kinds else np.full(n, np.mean(BASE_RATES))
    known = 1 / (1 + np.exp(-(np.log(prior / (1 - prior)) + signal)))
    return World(truth, often, known, right(truth, PEER, rng))


def right(truth: Floats, accuracy: float, rng: np.random.Generator) -> Floats:
    """Answers that are right with this probability."""
    return np.where(rng.random(truth.shape) < accuracy, truth, 1 - truth)


def accurate(accuracy: float) -> Callable[[World, np.random.Generator], Floats]:
    """An agent whose answers are right with this probability."""
    return lambda seen, rng: right(seen.truth, accuracy, rng)


HONEST = {f"honest, accuracy {accuracy:.2f}": accurate(accuracy) for accuracy in (0.60, 0.75, 0.90)}
AGENTS: dict[str, Callable[[World, np.random.Generator], Floats]] = {
    **HONEST,
    "random": lambda seen, rng: (rng.random(seen.truth.shape) < 0.5).astype(float),
    "always yes": lambda seen, rng: np.ones_like(seen.truth),
    "style only: yes to 80 % of the questions, whatever is true": lambda seen, rng: (
        rng.random(seen.truth.shape) < 0.8
    ).astype(float),
    "style of the kind: yes to one kind of question, no to the other": lambda seen, rng: seen.often.astype(float),
    "consistent liar (0.90, then the opposite)": lambda seen, rng: 1 - accurate(0.90)(seen, rng),
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
"""What an agent answers, from the world. The last six are attacks."""


@lru_cache(maxsize=8)
def _questions(n: int) -> dict[str, tuple[str, Question]]:
    """Questions whose text is their number, an event a day."""
    fields: dict[str, Any] = {"domain": "forecasting", "kind": "binary", "split": "test"}

    def one(i: int) -> Question:
        day = date(2000, 1, 1) + timedelta(days=i // EVENT)
        return Question(event=f"e{i // EVENT}", proposition=f"It is {i}.", opened_on=day, **fields)

    return {str(i): (str(i), one(i)) for i in range(n)}


def trials_of_task(
    n: int, design: str, seed: int, replies: tuple[list[Answer], list[Answer]] | None = None
) -> list[Trial]:
    """The trials that the task draws for the answers of an evaluated model, beside another one."""
    questions = _questions(n)
    models = [Respondent("x/evaluated", "x/evaluated"), Respondent("y/other", "y/other")]
    numbers = [Answer(name, name) for name in questions]
    for model, answers in zip(models, replies or (numbers, numbers), strict=True):
        for name, answer in zip(questions, answers, strict=True):
            model.answers[name].append(answer)
    everything, options = Answers(models, questions, Counter()), Design(**DESIGNS[design], seed=seed)
    skipped = Counter[str]()
    return [trial for name in questions for trial in draw_trials(everything, models[0], name, options, skipped)]


def drawn_by_task(n: int, design: str, seed: int) -> Drawn:
    """The trials of a run of n questions, as the task draws them. The earliest questions have none."""
    trials = trials_of_task(n, design, seed)
    context, null = (
        np.array([[int(answer) for _, answer in getattr(trial, arm)] for trial in trials])
        for arm in ("context", "null")
    )
    return Drawn(np.array([int(trial.question_id) for trial in trials]), context, null)


def drawn_from_all(n: int, design: str, rng: np.random.Generator) -> Drawn:
    """One trial of each question, whose context and null are of any other questions, drawn independently."""
    target = np.arange(n)
    size = (n, K if design == "own" else 1)
    context, null = ((rng.integers(EVENT, n - EVENT, size) + target[:, None]) % n for _ in range(2))
    return Drawn(target, context if design == "own" else target[:, None], null)


def values(seen: World, answers: Floats, design: str, drawn: Drawn, liars: float = LIARS) -> dict[str, Floats]:
    """The figures of each trial, by the scorer's formula."""
    target, missing = drawn.target, np.full((drawn.target.size, 1), np.nan)
    shown = {"context": answers[drawn.context], "null": answers[drawn.null]}
    shown["base"] = np.full_like(shown["null"], np.nan)
    if design == "own":  # answers of one respondent, of which the last is missing
        arms = {name: np.column_stack([part, missing])[:, None, :] for name, part in shown.items()}
        known, asked, said = seen.known[np.column_stack([drawn.context, target])], 0, answers[target]
    else:  # of two respondents to one question
        arms = {name: np.stack([part, missing], axis=1) for name, part in shown.items()}
        known, asked, said = seen.known[target][:, None], 1, seen.peer[target]
    chances = {name: predict(part, known, asked, liars) for name, part in arms.items()}
    logs = {name: np.log(np.where(said == 1, p, 1 - p)) for name, p in chances.items()}
    return contrasts(logs["context"], logs["null"], logs["base"])


def planted(n: int, design: str, seed: int = 0, liars: float = LIARS, **options: Any) -> pd.DataFrame:
    """Each agent's expected figures, from n questions, with the Monte-Carlo error of the main figure."""
    rows = []
    for number, (agent, answer) in enumerate(AGENTS.items()):
        rng = np.random.default_rng([seed, number])
        seen = world(n, rng, **options)
        figures = values(seen, answer(seen, rng), design, drawn_from_all(n, design, rng), liars)
        means = {key: float(part.mean()) for key, part in figures.items()}
        rows.append({"agent": agent, **means, "error": float(figures[NAME].std() / np.sqrt(n))})
    return pd.DataFrame(rows)


def run(n: int, design: str, seed: int) -> dict[str, Estimate]:
    """The main figure of each agent in one run of n questions, whose trials the task draws."""
    drawn = drawn_by_task(n, design, seed)
    questions, place = np.unique(drawn.target, return_inverse=True)
    rng = np.random.default_rng([1, seed])
    seen = world(n, rng)
    estimates = {}
    for agent, answer in AGENTS.items():
        uplifts = values(seen, answer(seen, rng), design, drawn)[NAME]
        means = np.bincount(place, uplifts) / np.bincount(place)
        estimates[agent] = mean_estimate(means, [str(question // EVENT) for question in questions])
    return estimates


def replicate(n: int, replications: int, design: str, truth: pd.DataFrame) -> tuple[pd.DataFrame, float]:
    """Runs of n questions: bias, coverage of the 95 % interval, and how often it lies above and below 0."""
    runs = [run(n, design, seed) for seed in range(replications)]
    rows = [
        {"agent": agent, "n": n} | recovered(expected, [estimates[str(agent)] for estimates in runs])
        for agent, expected in truth.set_index("agent")[NAME].items()
    ]
    honest = np.array([[estimates[name].estimate for name in HONEST] for estimates in runs])
    return pd.DataFrame(rows), float((np.diff(honest) > 0).all(axis=1).mean())


def replicated(replications: int, truth: Mapping[str, pd.DataFrame]) -> Runs:
    """`replicate` by design and number of questions; of the largest a quarter of the runs."""
    return {
        (design, size): replicate(size, replications // (4 if size == max(SIZES) else 1), design, truth[design])
        for design in DESIGNS
        for size in SIZES
    }


LEFT_OUT = ("copies half", "opposite of", "right on questions", "style only")
"""Agents, by the beginnings of their names, that the table leaves out."""
SHOWN_SIZE = 400
"""Of the runs whose intervals the page shows."""


def design_texts(truth: Mapping[str, pd.DataFrame], runs: Runs) -> dict[str, str]:
    texts: dict[str, str] = {}
    cells = pd.DataFrame({"agent": next(iter(truth.values()))["agent"]})
    for design, planted_values in truth.items():
        sizes = {size: frames for (name, size), frames in runs.items() if name == design}
        found = sizes[SHOWN_SIZE if SHOWN_SIZE in sizes else max(sizes)][0]
        cells[f"`{design}`: planted"] = planted_values[NAME].map(lambda value: f"{round(value, 3) + 0.0:.3f}")
        for name in ("coverage", "above 0", "below 0"):
            cells[f"`{design}`: {name}"] = found[name].map("{:.2f}".format)
        shares = ", ".join(f"{share:.0%} of runs of {size}" for size, (_, share) in sizes.items())
        texts[f"order in {design}"] = f"{shares} questions"
    rows = cells[~cells["agent"].str.startswith(LEFT_OUT)]
    return texts | {"designs": table(rows, [str(column) for column in rows])}


STUDY = Study(
    page="validity_mutual_prediction.md",
    sizes={"n": 50_000, "replications": 200},
    measures={"truth": lambda n: {design: planted(n, design) for design in DESIGNS}, "runs": replicated},
    texts=(design_texts,),
)


if __name__ == "__main__":
    STUDY.main(__doc__)
