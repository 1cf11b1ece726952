"""Rated trajectories that a judge is shown: where they come from, which are chosen, and in what orders they stand."""

import math
import random
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

from inspect_ai.log import EvalLog, EvalSample, read_eval_log
from inspect_ai.solver import TaskState

from truthgym.datasets.errors import BadInput
from truthgym.datasets.rated_trajectories import RatedTrajectory, rated_trajectories, read_rated
from truthgym.datasets.sycophancy import NEUTRAL, without_opinion
from truthgym.scorers.beliefs.answer import asked_text
from truthgym.scorers.beliefs.transcript import as_text, turns_of
from truthgym.scorers.judges.context import Case
from truthgym.scorers.judges.rubric import OVERALL, Rubric
from truthgym.solvers.trajectory import STEPS, recorded_answer, recorded_end

SCORER = "qualitative"
HELD_OUT = 12
"""So many trajectories are held out at most, to see how far the judge is from ours."""


def question_text(state: TaskState) -> str:
    """The question as a judge is told it: with the evidence that belongs to it."""
    return _with_evidence(state, asked_text(state))


def _with_evidence(state: TaskState, asked: str) -> str:
    evidence = (state.metadata or {}).get("evidence") or []
    return "\n\n".join([asked, *(["\n".join(str(piece) for piece in evidence)] if evidence else [])])


def case_of(state: TaskState) -> Case | str:
    """What is judged of a finished sample: the whole trajectory. Or why nothing can be."""
    ended = recorded_end(state.store)
    if ended:
        return ended
    if STEPS in state.store and recorded_answer(state.store) is None:
        return "The reasoning was cut short before an answer."
    turns = turns_of(state)
    if not turns:
        return "The trajectory is empty."
    plainly = without_opinion(asked_text(state), (state.metadata or {}).get("opinion"))
    return Case(question_text(state), as_text(turns), _with_evidence(state, plainly))


def read_sources(given: str, rubric: Rubric | None) -> list[RatedTrajectory]:
    """Read trajectories of a file, a log or a folder, which is searched through.

    Of a log of `truthgym/sycophancy` the neutral arm is taken: no example is about an opinion.

    Args:
        given: Path of a .jsonl file in the shape of `rated_trajectories.jsonl`, of a log, or of a folder with such.
        rubric: Take those with ratings by this rubric. None takes all, rated or not: a log's trajectories then have no
            ratings that mean anything.

    Raises:
        BadInput: There is nothing, it has another shape, or nothing in it has ratings by the rubric.
    """
    path = Path(given)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in (".jsonl", ".eval"))
        found = [item for file in files for item in _of_folder(file, rubric)]
        if not found:
            raise BadInput(
                f"{given}: none of its {len(files)} .jsonl and .eval files holds a trajectory"
                f"{_rated_by(rubric)}; name another folder, or a file"
            )
        return _distinct(found)
    if not path.is_file():
        raise BadInput(f"There is no {given}; give the path of a .jsonl file, of an .eval log, or of a folder of them")
    found = _of_rows(path, rubric) if path.suffix == ".jsonl" else _of_log(path, rubric)
    if not found:
        raise BadInput(f"{given} holds no trajectory{_rated_by(rubric)}; name another, or score it first")
    return _distinct(found)


def _rated_by(rubric: Rubric | None) -> str:
    return f" with ratings for {', '.join(rubric.qualities)}" if rubric else ""


def _distinct(found: Sequence[RatedTrajectory]) -> list[RatedTrajectory]:
    return list({item.trajectory: item for item in reversed(found)}.values())[::-1]


def _of_folder(file: Path, rubric: Rubric | None) -> list[RatedTrajectory]:
    try:
        return _of_rows(file, rubric) if file.suffix == ".jsonl" else _of_log(file, rubric)
    except BadInput:
        return []  # a folder may hold other files: what is none of ours is passed over


def _of_rows(path: Path, rubric: Rubric | None) -> list[RatedTrajectory]:
    rows = read_rated(path)
    return rows if rubric is None else fitting(rows, rubric, str(path))


def _of_log(path: Path, rubric: Rubric | None) -> list[RatedTrajectory]:
    try:
        log = read_eval_log(str(path), exclude_fields={"events", "attachments"})
    except Exception as error:  # Inspect raises what its file systems and parsers raise
        raise BadInput(f"{path} cannot be read as a log ({type(error).__name__}: {error})") from None
    made = [_of_sample(log, sample, rubric) for sample in log.samples or []]
    return [item for item in made if item]


def _of_sample(log: EvalLog, sample: EvalSample, rubric: Rubric | None) -> RatedTrajectory | None:
    state = TaskState(
        model=log.eval.model,  # type: ignore[arg-type]
        sample_id=sample.id,
        epoch=sample.epoch,
        input=sample.input,
        messages=sample.messages,
        metadata=sample.metadata,
        store=sample.store,
    )
    case = case_of(state)
    if (sample.metadata or {}).get("arm", NEUTRAL) != NEUTRAL:
        return None
    if isinstance(case, str) or not case.question.strip() or not case.trajectory.strip():
        return None
    ratings, reasons = {OVERALL: 0}, "Not rated."
    if rubric is not None:
        held = [score for name, score in (sample.scores or {}).items() if name.startswith(SCORER)]
        value = held[-1].value if held else None
        given = value if isinstance(value, dict) else {}
        numbers = {name: given.get(name) for name in rubric.qualities}
        ratings = {
            name: round(100 * number)
            for name, number in numbers.items()
            if isinstance(number, int | float) and 0 <= number <= 1
        }
        if len(ratings) < len(numbers):
            return None
        reasons = _reasons((held[-1].metadata or {}).get("judges"))
    identity = f"{sample.id} epoch {sample.epoch}"
    return RatedTrajectory(
        id=identity, question=case.question, trajectory=case.trajectory, ratings=ratings, reasons=reasons
    )


def _reasons(judges: object) -> str:
    for judge in judges if isinstance(judges, list) else []:
        for reason in (judge.get("reasons") if isinstance(judge, dict) else None) or []:
            if isinstance(reason, str) and reason.strip():
                return reason
    return "No reasons were recorded."


def fitting(rows: Sequence[RatedTrajectory], rubric: Rubric, where: str) -> list[RatedTrajectory]:
    """Rated trajectories with ratings by the rubric's qualities, in their order.

    Of a rubric without headings, the mean of whatever they are rated for is the rating.

    Raises:
        BadInput: They are rated for something else.
    """
    if list(rubric.qualities) == [OVERALL]:
        return [
            row.model_copy(update={"ratings": {OVERALL: round(sum(row.ratings.values()) / len(row.ratings))}})
            for row in rows
        ]
    for row in rows:
        lacking = [name for name in rubric.qualities if name not in row.ratings]
        if lacking:
            raise BadInput(
                f"{where}: these are rated for {', '.join(row.ratings)}, and not for {', '.join(lacking)}, which "
                "the rubric asks for; give examples with these ratings in examples=, or write few_shot=disabled"
            )
    return [row.model_copy(update={"ratings": {name: row.ratings[name] for name in rubric.qualities}}) for row in rows]


def bundled(rubric: Rubric) -> list[RatedTrajectory]:
    """The bundled examples, with ratings by the rubric. Raises BadInput, as `fitting`."""
    return fitting(rated_trajectories(), rubric, "The bundled examples")


def mean_rating(item: RatedTrajectory) -> float:
    """Mean over the qualities, on the scale from 0 to 1."""
    return sum(item.ratings.values()) / len(item.ratings) / 100


def choose(
    pool: Sequence[RatedTrajectory], shots: int, seed: int
) -> tuple[list[RatedTrajectory], list[RatedTrajectory]]:
    """Choose examples spread evenly over the ratings, and what is held out.

    Args:
        pool: Rated trajectories.
        shots: How many are shown.
        seed: Of the order in which they stand, which does not follow the ratings.

    Returns:
        Those that are shown, in their first order; and at most twelve others, spread over the ratings too.

    Raises:
        BadInput: There are fewer than asked for.
    """
    if shots > len(pool):
        raise BadInput(f"shots={shots}: there are {len(pool)} examples with ratings; ask for fewer, or give more")
    ranked = sorted(pool, key=lambda item: (mean_rating(item), item.id))
    shown = spread(ranked, shots)
    others = [item for item in ranked if item not in shown]
    random.Random(seed).shuffle(shown)
    return shown, spread(others, min(HELD_OUT, len(others)))


def spread(ranked: Sequence[RatedTrajectory], count: int) -> list[RatedTrajectory]:
    """So many of a ranked list, at even distances: the first of each of so many equal parts' middles."""
    return [ranked[int((i + 0.5) * len(ranked) / count)] for i in range(count)]


def orders_of(count: int, most: int, seed: int) -> list[tuple[int, ...]]:
    """Orders of so many examples: all permutations, or as many as asked for, drawn without repetition.

    The first is that in which they stand.
    """
    if math.factorial(min(count, 20)) <= most:
        return list(permutations(range(count)))
    rng = random.Random(seed)
    found = {tuple(range(count)): None}
    while len(found) < most:
        found.setdefault(tuple(rng.sample(range(count), count)))
    return list(found)


def same_question(item: RatedTrajectory, case: Case) -> bool:
    """Whether an example is about the question that is judged: one of the two may hold its evidence too."""
    one, other = (" ".join(text.lower().split()) for text in (item.question, case.plainly or case.question))
    return one.startswith(other) or other.startswith(one)
