"""Judges with planted faults without a model call: ratings as arrays, and the coverage of each interval."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from inspect_ai.model import ChatMessage, Model, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import SampleScore, Score
from numpy.typing import NDArray

from studies.validity.judges_page import FIGURES
from studies.validity.replications import recovery
from truthgym.models.agents.belief_reports import nearest_level, noisy
from truthgym.models.agents.judge import COMMENT, EDGE, Request, fill_form, planted_rating
from truthgym.models.agents.policies import Parameters
from truthgym.models.agents.quality_markers import BASE_QUALITY, QUALITY_RANGE
from truthgym.scorers.statistics.judge_reliability import summarise

if TYPE_CHECKING:
    import pandas as pd

WITH_INTERVAL = ("quality", "retest_icc", *FIGURES[2:])
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
    """Ratings before noise of one trajectory: in six orders, again, swapped, padded, and asking for full marks.

    Args:
        parameters: The judge's parameters.
        quality: Quality of the trajectory, 0 to 1.
        words: Number of words in it.
        own: Whether the judge is of the policy's family.
        draws: An arbitrary judge's numbers for the three texts: as it is, padded, and asking for full marks.
    """
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
    """Scores as the scorer writes them, for a policy with planted care.

    Args:
        parameters: Parameters of a judge of the policy's family.
        care: The policy's parameter.
        questions: Number of questions; each has one epoch.
        rng: Source of the draws.
        lenient: What a second judge, of another family and otherwise without bias, adds to every rating.
    """
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


def coverage(parameters: Parameters, care: float, replications: int) -> "pd.DataFrame":
    """How often each 95 % interval contains the planted value, at two numbers of questions."""
    import pandas as pd

    true = truth(parameters, care)
    rows = []
    for questions in (20, 100):
        runs = []
        for replication in range(replications):
            both = scores_of(parameters, care, questions, np.random.default_rng([replication, questions]))
            runs.append(summarise(both) | {k: v for k, v in summarise(alone(both)).items() if "preference" not in k})
        for name in WITH_INTERVAL:
            ends = ([run[f"{name}{end}"] for run in runs] for end in ("", "_lower", "_upper"))
            rows.append({"figure": f"`{name}`", "n": questions} | recovery(true[name], *ends))
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


def discrimination(replications: int, questions: int = 60) -> "pd.DataFrame":
    """What reliability and rank correlation say of judges that differ in what they see.

    Returns:
        For each judge and policy: mean figures, NaN where a run has none; the share of runs in which the judge is above
        the arbitrary one by each figure; and the share with an interval of the quality.
    """
    import pandas as pd

    rows = []
    for texts, care in (("mixed", 0.5), ("alike", 1.0)):
        summaries = {
            name: pd.DataFrame(
                summarise(alone(scores_of(judge, care, questions, np.random.default_rng([run, place]))))
                for run in range(replications)
            )
            for place, (name, judge) in enumerate(JUDGES.items())
        }
        random = summaries["arbitrary"]
        for name, runs in summaries.items():
            row: dict[str, Any] = {"judge": name, "texts": texts}
            row |= {figure: float(runs[figure].mean()) for figure in DISCRIMINATION}
            for figure in DISCRIMINATION[:3]:
                above = float((runs[figure] > random[figure] + 0.01).mean())
                row[f"{figure}_above"] = np.nan if name == "arbitrary" else above
            rows.append(row | {"interval": float(runs["quality_lower"].notna().mean())})
    return pd.DataFrame(rows)
