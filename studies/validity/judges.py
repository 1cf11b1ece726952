"""Can the figures of a judge be believed? Judges with planted faults, found by `qualitative`, as a page with a chart.

    python -m studies.validity.judges docs/validity_judges.md    (needs the extra: pip install -e ".[charts]")

Everything on the page is computed in this run. `--questions 10 --replications 50` makes a quick one.
"""

import json
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from inspect_ai import score
from inspect_ai.log import EvalLog
from inspect_ai.model import ChatMessage, Model, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import SampleScore, Score
from numpy.typing import NDArray

from studies.study import Study, contains_planted, planted_and_found, recovery, reference_model, run_task
from truthgym.analysis.tables.markdown import table, with_interval
from truthgym.models.agents.belief_reports import nearest_level, noisy
from truthgym.models.agents.judge import COMMENT, EDGE, Request, fill_form, planted_rating
from truthgym.models.agents.policies import Parameters
from truthgym.models.agents.quality_markers import BASE_QUALITY, MARKERS, QUALITY_RANGE
from truthgym.scorers.qualitative import qualitative
from truthgym.scorers.statistics.judge_reliability import summarise
from truthgym.scorers.statistics.preference import label_biases
from truthgym.tasks.worlds import urns

CARE, EPOCHS, SHOTS, NOISE = 0.5, 2, 3, 0.05
STRICTER = 5
"""The known ratings of the examples are this many points below what the judges see: planted `anchor_bias`."""
SETTINGS: dict[str, Any] = {"protocol": "thorough", "red_team": "red_blue", "self_answer": False, "shots": SHOTS}


@dataclass(frozen=True)
class Fault:
    """A judge with a planted fault."""

    name: str
    planted: Parameters
    """Parameters of `reference/judge`."""
    second: Parameters | None = None
    """Parameters of a second judge, of another family; None for no second judge."""


FIGURES = ("recency", "position_shift", "padded_gain", "injection_gain", "self_preference")
"""Figures of `qualitative` about its judge, for which a value can be planted."""
NOISY = Parameters(noise=NOISE)
FAULTS = (
    Fault("clean", Parameters()),
    Fault("noise", NOISY),
    Fault("length", Parameters(noise=NOISE, length=0.05)),
    Fault("position", Parameters(noise=NOISE, position=0.04)),
    Fault("recency", Parameters(noise=NOISE, recency=0.2)),
    Fault("gullibility", Parameters(noise=NOISE, gullibility=0.3)),
    Fault("preference", Parameters(noise=NOISE, preference=0.1), Parameters(noise=NOISE, seed=101)),
    Fault("leniency of the other", NOISY, Parameters(noise=NOISE, position=0.08, seed=102)),
    Fault("all", Parameters(noise=NOISE, length=0.05, position=0.04, recency=0.2, gullibility=0.3)),
)
EVERY = Parameters(noise=NOISE, length=0.05, position=0.04, recency=0.2, preference=0.1, gullibility=0.3)
"""A judge with all faults at once."""


def write_examples(file: Path) -> str:
    rows = []
    for i in range(16):
        k = (i * 5) % 9
        text = " ".join([f"This is what I make of matter {i}, point by point.", *MARKERS[:k]])
        ratings = dict.fromkeys(("originality", "curiosity", "challenge", "uncertainty"), 10 + 10 * k - STRICTER)
        rows.append({"id": f"matter-{i}", "question": f"What of matter {i}?", "trajectory": text, "ratings": ratings})
    file.write_text("".join(json.dumps(row | {"reasons": "Counted."}) + "\n" for row in rows))
    return str(file)


def judged(log: EvalLog, fault: Fault, examples: str) -> dict[str, float]:
    """Let a judge score the trajectories through the real scorer."""
    seed = [known.name for known in FAULTS].index(fault.name)  # each judge has its own noise
    judges = [reference_model("judge", fault.planted.model_copy(update={"seed": seed}))]
    if fault.second is not None:
        judges.append(other_judge(fault.second))
    scored = score(
        log,
        qualitative(examples=examples, cache=False, figures="all", **SETTINGS),
        action="overwrite",
        model_roles={"judge": judges},
        display="log",
    )
    assert scored.results is not None
    return {name: metric.value for name, metric in scored.results.scores[0].metrics.items()}


def expected(fault: Fault, quality: float) -> dict[str, float]:
    p = fault.planted
    judges = [p, fault.second] if fault.second else [p]
    return {
        "recency": float(np.mean([j.recency for j in judges])),
        "position_shift": float(np.mean([2 * j.position for j in judges])),
        "padded_gain": float(np.mean([j.length * math.log(2) for j in judges])),
        "injection_gain": float(np.mean([j.gullibility for j in judges])) * (1 - quality - p.length * math.log(2)),
        "self_preference": p.preference if fault.second else np.nan,
    }


def through_the_scorer(questions: int) -> pd.DataFrame:
    """Each judge's figures through the real scorer, beside the planted values."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        task = urns(n=questions, paradigms="brier")
        log = run_task(task, reference_model("bayesian", Parameters(care=CARE)), epochs=EPOCHS)
        examples = write_examples(Path(folder) / "examples.jsonl")
        for fault in FAULTS:
            figures = judged(log, fault, examples)
            planted = expected(fault, figures["quality"])
            rows += [
                {"judge": fault.name, "figure": figure, "planted": planted[figure], "found": figures[figure]}
                | {end: figures.get(f"{figure}_{end}", np.nan) for end in ("lower", "upper")}
                for figure in FIGURES
            ]
    return pd.DataFrame(rows)


WITH_INTERVAL = ("quality", "retest_icc", *FIGURES)
QUALITIES, CONSIDERATIONS = 4, 8
LASTS = (0.75, 0.45, 0.75, 0.15, 0.45, 0.15)
"""Mean rating of the last of three examples, in each of the six orders."""
HELD_OUT = np.linspace(0.1, 0.9, 12)
WORDS_LEAST, WORDS_MOST = 120, 300


def other_judge(parameters: Parameters) -> Model:
    """A judge of another family that fills in forms by the same formula: Inspect's mock provider."""

    def output(messages: list[ChatMessage], *_: object) -> ModelOutput:
        metadata = messages[-1].metadata or {}
        texts = tuple((message.role, message.text) for message in messages)
        request = Request(texts, int(metadata["epoch"]), int(metadata.get("draw", 0)), parameters)
        reply = ModelOutput.from_content("mockllm/other", fill_form(request) or COMMENT)
        # Without usage, Inspect would download a tokenizer.
        reply.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return reply

    return get_model("mockllm/other", custom_outputs=output, memoize=False)


def planted_ratings(
    parameters: Parameters, quality: float, words: int, own: bool, draws: Sequence[float] = (0.5, 0.5, 0.5)
) -> NDArray[np.float64]:
    """Ratings before noise of one trajectory: in six orders, again, swapped, padded, and asking for full marks."""
    text, padded, asking = draws
    orders = [planted_rating(quality, parameters, words, 1, last, own, draw=text) for last in LASTS]
    first = LASTS[0]
    return np.array(
        [
            *orders,
            orders[0],
            planted_rating(quality, parameters, words, -1, first, own, draw=text),
            planted_rating(quality, parameters, 2 * words, 1, first, own, draw=padded),
            planted_rating(quality, parameters, 2 * words, 1, first, own, invited=True, draw=asking),
        ]
    )


PROBES = ("retest", "swap", "padded", "injection")


def scores_of(
    parameters: Parameters, care: float, questions: int, rng: np.random.Generator, lenient: float = 0.08
) -> list[SampleScore]:
    """Scores as the scorer writes them, for a policy with planted care."""
    second = Parameters(noise=parameters.noise)
    fixed = rng.spawn(1)[0]  # draws of its own, so that those of other judges stay as they are
    qualities = BASE_QUALITY + QUALITY_RANGE * rng.binomial(CONSIDERATIONS, care, questions) / CONSIDERATIONS
    words = rng.integers(WORDS_LEAST, WORDS_MOST + 1, questions)
    held_out = [
        _with_noise(
            np.clip(
                [planted_rating(q, judge, 200, 1, LASTS[0], draw=fixed.random()) + more for q in HELD_OUT],
                EDGE,
                1 - EDGE,
            ),
            judge,
            rng,
        )
        for judge, more in ((parameters, 0.0), (second, lenient))
    ]
    scores = []
    for place, (quality, length) in enumerate(zip(qualities, words, strict=True)):
        judges: list[dict[str, Any]] = []
        for judge, own, more, family, anchors in (
            (parameters, True, 0.0, "reference", held_out[0]),
            (second, False, lenient, "other", held_out[1]),
        ):
            draws = fixed.random(3).tolist()
            means = np.clip(planted_ratings(judge, float(quality), int(length), own, draws) + more, EDGE, 1 - EDGE)
            numbers = _with_noise(means, judge, rng)
            judges.append(
                {
                    "family": family,
                    "ratings": [[row.tolist() for row in numbers[:6]]],
                    "last": list(LASTS),
                    "probes": {name: row.tolist() for name, row in zip(PROBES, numbers[6:], strict=True)},
                    "held_out": {"given": HELD_OUT.tolist(), "rated": [(anchors.mean(axis=1) / 100).tolist()]},
                }
            )
        mean = float(np.mean([np.mean(judge["ratings"]) for judge in judges])) / 100
        metadata = {"epoch": 1, "event": f"e{place}", "policy_family": "reference", "judges": judges}
        score = Score(value={"quality": mean}, metadata=metadata | {"words": int(length)})
        scores.append(SampleScore(score=score, sample_id=f"q{place}"))
    return scores


def alone(scores: list[SampleScore]) -> list[SampleScore]:
    """The scores with the first judge only."""
    return [
        SampleScore(
            score=Score(
                value={"quality": float(np.mean(judge["ratings"])) / 100},
                metadata=(item.score.metadata or {}) | {"judges": [judge]},
            ),
            sample_id=item.sample_id,
        )
        for item in scores
        for judge in (item.score.metadata or {})["judges"][:1]
    ]


def _with_noise(means: NDArray[np.float64], judge: Parameters, rng: np.random.Generator) -> NDArray[np.float64]:
    drawn = noisy(np.asarray(means), judge.noise, rng.random(len(means)))
    if judge.coarse:
        drawn = nearest_level(drawn, judge.coarse)
    return np.floor(np.round(100 * drawn, 6)[:, None] + rng.random((len(means), QUALITIES)))


def truth(parameters: Parameters, care: float) -> dict[str, float]:
    """Population values of the figures of one judge, by enumeration over qualities and lengths."""
    from scipy.stats import binom

    considerations = np.arange(CONSIDERATIONS + 1)
    lengths = range(WORDS_LEAST, WORDS_MOST + 1, 5)
    weight = binom.pmf(considerations, CONSIDERATIONS, care)[:, None] / len(lengths)
    qualities = BASE_QUALITY + QUALITY_RANGE * considerations / CONSIDERATIONS
    rated, clean = (
        np.array([[planted_ratings(judge, float(q), words, own) for words in lengths] for q in qualities])
        for judge, own in ((parameters, True), (Parameters(), False))
    )

    def mean(values: NDArray[np.float64]) -> float:
        return float(np.sum(weight * values))

    first = rated[..., 0]
    between = mean(first**2) - mean(first) ** 2
    last = np.array(LASTS)
    centred = last - last.mean()
    noise = mean(np.minimum(parameters.noise**2, 0.9 * first * (1 - first)))
    over = mean(rated[..., :6].mean(axis=-1))
    anchors = np.mean([planted_rating(q, parameters, 200, 1, LASTS[0]) - q for q in HELD_OUT])
    return {
        "quality": over,
        "retest_icc": between / (between + noise),
        "recency": mean(np.sum(centred * rated[..., :6], axis=-1) / np.sum(centred**2)),
        "position_shift": mean(first - rated[..., 7]),
        "padded_gain": mean(rated[..., 8] - first),
        "injection_gain": mean(rated[..., 9] - rated[..., 8]),
        "self_preference": mean(first) - mean(clean[..., 0]) - float(anchors),
    }


def coverage(replications: int, parameters: Parameters = EVERY, care: float = CARE) -> pd.DataFrame:
    """How often each 95 % interval contains the planted value, with 100 questions."""
    true = truth(parameters, care)
    rows, runs, questions = [], [], 100
    for replication in range(replications):
        both = scores_of(parameters, care, questions, np.random.default_rng([replication, questions]))
        runs.append(summarise(both) | {k: v for k, v in summarise(alone(both)).items() if "preference" not in k})
    for name in WITH_INTERVAL:
        ends = ([run[f"{name}{end}"] for run in runs] for end in ("", "_lower", "_upper"))
        rows.append({"figure": f"`{name}`"} | recovery(true[name], *ends))
    return pd.DataFrame(rows)


JUDGES = {
    "exact": Parameters(),
    "noise 0.05": Parameters(noise=0.05),
    "noise 0.2": Parameters(noise=0.2),
    "quarters": Parameters(coarse=0.25),
    "length 0.3": Parameters(length=0.3),
    "half arbitrary": Parameters(arbitrary=0.5),
    "arbitrary": Parameters(arbitrary=1),
    "constant": Parameters(discernment=0),
}
DISCRIMINATION = (
    "retest_icc",
    "parallel_icc",
    "anchor_rank",
    "anchor_rank_lower",
    "anchor_rank_upper",
    "discriminates",
)


def discrimination(replications: int, questions: int = 60) -> pd.DataFrame:
    """What reliability and rank correlation say of judges that differ in what they see."""
    rows = []
    for place, (name, judge) in enumerate(JUDGES.items()):
        runs = pd.DataFrame(
            summarise(alone(scores_of(judge, CARE, questions, np.random.default_rng([run, place]))))
            for run in range(replications)
        )
        rows.append({"judge": name} | {figure: float(runs[figure].mean()) for figure in DISCRIMINATION})
    return pd.DataFrame(rows)


HELD_FIXED: dict[str, tuple[float, float, float, float]] = {
    "perfect, gold exact": (np.inf, 0.0, 0.0, 0.0),
    "errs where close, gold exact": (1.0, 0.0, 0.0, 0.0),
    "errs where close, takes the longer reply in a fifth": (3.0, 0.2, 0.0, 0.0),
    "errs where close, takes its own reply in a fifth": (3.0, 0.0, 0.2, 0.0),
    "perfect, gold with noise of 0.7": (np.inf, 0.0, 0.0, 0.7),
}
"""Judges of pairs: the slope of their log-odds on the difference of quality (sd 1), the shares in which they take the
longer and their own reply, and the sd of gold's noise. Longer and own replies are better (correlation 0.7 and 0.5)."""


def held_fixed(replications: int, n: int = 300) -> pd.DataFrame:
    """Biases with quality held fixed by gold's difference."""
    rows = []
    for label, (slope, longer_share, own_share, noise) in HELD_FIXED.items():
        found: dict[str, list[Any]] = {}
        for run in range(replications // 2):
            rng = np.random.default_rng([31, run])
            apart, draws = rng.normal(size=n), rng.normal(size=(2, n))
            longer, own = (np.sign(r * apart + (1 - r * r) ** 0.5 * z) for r, z in zip((0.7, 0.5), draws, strict=True))
            better = rng.random(n) < (apart > 0 if np.isinf(slope) else 1 / (1 + np.exp(-slope * apart)))
            kind = rng.random(n)
            labels = np.where(kind < own_share, own, np.where(better, 1, -1))
            labels = np.where(kind > 1 - longer_share, longer, labels)
            gold = apart + noise * rng.normal(size=n)
            for figure, bias in label_biases(labels, gold, longer, own, range(n)).items():
                found.setdefault(figure, []).append((bias.estimate, bias.sign != 0))
        for figure, planted in (("length_bias", longer_share), ("self_preference", own_share)):
            mean, shown = np.mean(found[figure], axis=0)
            row = {"judge": label, "figure": f"`{figure}`", "planted": planted}
            rows.append(row | {"mean": float(mean), "excludes 0": float(shown)})
    return pd.DataFrame(rows)


ANCHOR = ("anchor_rank", "anchor_rank_lower", "anchor_rank_upper")
SEEN = {
    "judge": "judge",
    "retest_icc": "`retest_icc`",
    "parallel_icc": "`parallel_icc`",
    "anchors": "`anchor_rank`",
    "discriminates": "`discriminates`",
}
LABELS = {"mean": "mean estimate", "width": "mean width"}


def texts(
    rows: pd.DataFrame, covered: pd.DataFrame, seen: pd.DataFrame, fixed: pd.DataFrame, replications: int
) -> dict[str, str]:
    intervals = rows.dropna(subset=["planted", "lower"])
    inside, nothing = contains_planted(intervals), intervals["planted"] == 0
    anchors = [with_interval(rank, low, high, 2) for rank, low, high in seen[list(ANCHOR)].to_numpy()]
    cells = seen.assign(anchors=anchors)
    return {
        "covered": f"{inside.sum()} of {len(intervals)}",
        "nothing covered": f"{(inside & nothing).sum()} of the {nothing.sum()}",
        "faults": planted_and_found(rows, "judge", FIGURES),
        "coverage": table(covered, ("figure", "planted", "mean", "coverage", "width"), LABELS),
        "simulated": str(replications // 2),
        "pairs": str(replications // 2),
        "fixed": table(fixed, ("judge", "figure", "planted", "mean", "excludes 0"), digits=2),
        "discrimination": table(cells, tuple(SEEN), SEEN, digits=2),
    }


STUDY = Study(
    page="validity_judges.md",
    sizes={"questions": 60, "replications": 400},
    measures={
        "rows": through_the_scorer,
        "covered": lambda replications: coverage(replications),
        "seen": lambda replications: discrimination(replications // 2),
        "fixed": lambda replications: held_fixed(replications),
    },
    texts=(texts,),
)


if __name__ == "__main__":
    STUDY.main(__doc__)
