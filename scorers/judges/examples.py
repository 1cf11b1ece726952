"""Rated trajectories that a judge is shown: loading them, choosing among them, and the orders to show them in."""

import math
import random
from collections.abc import Sequence
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from typing import Literal

from inspect_ai.log import EvalLog, EvalSample, read_eval_log
from inspect_ai.solver import TaskState

from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import NEUTRAL, arm_of, question_text, without_opinion
from truthgym.datasets.rated_trajectories import RatedTrajectory, rated_trajectories, read_rated
from truthgym.scorers.beliefs.transcript import as_text, turns_of
from truthgym.scorers.judges.context import JudgedItem
from truthgym.scorers.judges.rubric import OVERALL, Rubric
from truthgym.solvers.trajectory import STEPS, recorded_answer, recorded_end

FewShot = Literal["disabled", "static", "permuted"]
SCORER = "qualitative"
MAX_HELD_OUT = 12
"""Maximum number of trajectories held out to compare the judge's ratings with known ones."""
MIN_HELD_OUT = 3
"""With fewer trajectories left over in the user's file, bundled ones are held out instead."""


def choose_examples(
    rubric: Rubric, few_shot: FewShot, shots: int, source: str | None, seed: int
) -> tuple[list[RatedTrajectory], list[RatedTrajectory]]:
    """Choose the examples that judges are shown, and the held-out trajectories."""
    examples, held_out = split_examples(read_sources(source, rubric), shots, seed) if source else ([], [])
    if not (source and source.endswith(".jsonl") and len(held_out) >= MIN_HELD_OUT):
        try:
            bundled = with_ratings_by(rubric, rated_trajectories(), "The bundled examples")
        except BadInput:
            if not source and few_shot != "disabled":
                raise
            bundled = []  # the rubric has other qualities than the bundled ratings
        count = min(shots, len(bundled)) if source or few_shot == "disabled" else shots
        first, held_out = split_examples(bundled, count, seed)
        examples = examples if source else first
    return ([] if few_shot == "disabled" else examples), held_out


def _with_evidence(state: TaskState, question: str) -> str:
    """The question as a judge sees it: with its evidence."""
    evidence = (state.metadata or {}).get("evidence")
    evidence = evidence if isinstance(evidence, list) and all(isinstance(piece, str) for piece in evidence) else []
    return "\n\n".join([question, *(["\n".join(evidence)] if evidence else [])])


def judged_item(state: TaskState) -> JudgedItem | str:
    """The whole trajectory of a finished sample, as a judge sees it; or the reason why it cannot be judged."""
    ended = recorded_end(state.store)
    if ended:
        return ended
    if STEPS in state.store and recorded_answer(state.store) is None:
        return "The reasoning was cut short before an answer."
    turns = turns_of(state)
    if not turns:
        return "The trajectory is empty."
    neutral = without_opinion(question_text(state), (state.metadata or {}).get("opinion"))
    return JudgedItem(_with_evidence(state, question_text(state)), as_text(turns), _with_evidence(state, neutral))


def read_sources(source: str, rubric: Rubric | None) -> list[RatedTrajectory]:
    """Read trajectories from a file, a log or a folder (searched recursively), without duplicates."""
    path = Path(source)
    if path.is_dir():
        trajectories = []
        for file in sorted(file for file in path.rglob("*") if file.suffix in (".jsonl", ".eval")):
            with suppress(BadInput):  # a folder may hold other files as well
                trajectories += _read_file(file, rubric)
    elif path.is_file():
        trajectories = _read_file(path, rubric)
    else:
        raise BadInput(f"There is no file {source!r}; give the path of a .jsonl file, an .eval log, or a folder")
    if not trajectories:
        ratings = f" with ratings for {', '.join(rubric.qualities)}" if rubric else ""
        raise BadInput(f"{source} holds no trajectory{ratings}; give another, or score it with qualitative first")
    return list({item.trajectory: item for item in reversed(trajectories)}.values())[::-1]


def _read_file(path: Path, rubric: Rubric | None) -> list[RatedTrajectory]:
    if path.suffix == ".jsonl":
        rows = read_rated(path)
        return rows if rubric is None else with_ratings_by(rubric, rows, str(path))
    try:
        log = read_eval_log(str(path), exclude_fields={"events", "attachments"})
    except Exception as error:  # whatever Inspect's file systems and parsers raise
        raise BadInput(f"{path} cannot be read as a log ({type(error).__name__}: {error})") from None
    items = [_from_sample(log, sample, rubric) for sample in log.samples or []]
    return [item for item in items if item]


def _from_sample(log: EvalLog, sample: EvalSample, rubric: Rubric | None) -> RatedTrajectory | None:
    if sample.invalidation or arm_of(sample.metadata or {}) != NEUTRAL:
        return None
    state = TaskState(
        model=log.eval.model,  # type: ignore[arg-type]
        sample_id=sample.id,
        epoch=sample.epoch,
        input=sample.input,
        messages=sample.messages,
        metadata=sample.metadata,
        store=sample.store,
    )
    item = judged_item(state)
    if isinstance(item, str) or not item.question.strip() or not item.trajectory.strip():
        return None
    rated = ({OVERALL: 0}, "Not rated.") if rubric is None else _logged_ratings(sample, rubric)
    if rated is None:
        return None
    return RatedTrajectory(
        id=f"{sample.id} epoch {sample.epoch}",
        question=item.question,
        trajectory=item.trajectory,
        ratings=rated[0],
        reasons=rated[1],
    )


def _logged_ratings(sample: EvalSample, rubric: Rubric) -> tuple[dict[str, int], str] | None:
    """Ratings, 0 to 100, and a reason from the sample's last `qualitative` score; None if a quality is missing."""
    scores = [score for name, score in (sample.scores or {}).items() if name.startswith(SCORER)]
    value = scores[-1].value if scores else None
    if not isinstance(value, dict):
        return None
    ratings = {name: float(value.get(name, math.nan)) for name in rubric.qualities}
    if any(math.isnan(rating) for rating in ratings.values()):
        return None
    judges = (scores[-1].metadata or {}).get("judges", [])
    reasons = [reason for judge in judges for reason in judge.get("reasons", []) if reason.strip()]
    return {name: round(100 * rating) for name, rating in ratings.items()}, [*reasons, "No reasons were recorded."][0]


def with_ratings_by(rubric: Rubric, rows: Sequence[RatedTrajectory], where: str) -> list[RatedTrajectory]:
    """Keep the ratings that the rubric asks for, in its order."""
    if list(rubric.qualities) == [OVERALL]:
        return [
            row.model_copy(update={"ratings": {OVERALL: round(sum(row.ratings.values()) / len(row.ratings))}})
            for row in rows
        ]
    for row in rows:
        lacking = [name for name in rubric.qualities if name not in row.ratings]
        if lacking:
            raise BadInput(
                f"{where}: trajectories are rated for {', '.join(row.ratings)}, but the rubric also asks for "
                f"{', '.join(lacking)}; give examples with these ratings in examples=, or set few_shot=disabled"
            )
    return [row.model_copy(update={"ratings": {name: row.ratings[name] for name in rubric.qualities}}) for row in rows]


def mean_rating(item: RatedTrajectory) -> float:
    """Mean over the qualities, from 0 to 1."""
    return sum(item.ratings.values()) / len(item.ratings) / 100


def split_examples(
    pool: Sequence[RatedTrajectory], shots: int, seed: int
) -> tuple[list[RatedTrajectory], list[RatedTrajectory]]:
    """Split rated trajectories into examples and held-out ones, both spread evenly over the ratings."""
    if shots > len(pool):
        raise BadInput(f"shots={shots}: there are only {len(pool)} rated examples; ask for fewer, or add more")
    ranked = sorted(pool, key=lambda item: (mean_rating(item), item.id))
    examples = evenly_spaced(ranked, shots)
    rest = [item for item in ranked if item not in examples]
    random.Random(seed).shuffle(examples)
    return examples, evenly_spaced(rest, min(MAX_HELD_OUT, len(rest)))


def evenly_spaced(ranked: Sequence[RatedTrajectory], count: int) -> list[RatedTrajectory]:
    """`count` items at even distances in a ranked list: the middle of each of `count` equal parts."""
    return [ranked[int((i + 0.5) * len(ranked) / count)] for i in range(count)]


def orders_of(count: int, limit: int, seed: int) -> list[tuple[int, ...]]:
    """Orders of `count` examples: all permutations, or `limit` drawn without repetition. The first is sorted."""
    if math.factorial(min(count, 20)) <= limit:
        return list(permutations(range(count)))
    rng = random.Random(seed)
    orders = {tuple(range(count)): None}
    while len(orders) < limit:
        orders.setdefault(tuple(rng.sample(range(count), count)))
    return list(orders)


def same_question(example: RatedTrajectory, item: JudgedItem) -> bool:
    """Whether an example is about the judged question, even if only one of the two includes the evidence."""
    texts = (example.question, item.neutral_question or item.question)
    first, other = (" ".join(text.lower().split()) for text in texts)
    return first.startswith(other) or other.startswith(first)
