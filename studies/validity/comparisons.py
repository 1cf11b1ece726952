"""How often is a model called better that is not: silence, and training whose seeds differ.

python -m studies.validity.comparisons docs/compare.md      (a few minutes of one core)
"""

import numpy as np
from numpy.typing import NDArray

from studies.study import Row, Study
from truthgym.analysis.tables.markdown import markdown
from truthgym.scorers.statistics.interval import Estimate, mean_estimate
from truthgym.scorers.statistics.paired import compare_means, compare_recipes, paired_difference
from truthgym.scorers.statistics.proper_scores import brier_score

Floats = NDArray[np.float64]
EVIDENCE, MORE_EVIDENCE = 1.0, 1.3
"""The mean of a model's evidence, in its standard deviations, and that of a model which is truly better."""
SILENT = (0.0, 0.1, 0.3)
"""How near to one half a belief is not stated."""
SEEDS = (3, 5, 10)
SEED_SDS = (0.03, 0.1)
TRAINED_QUESTIONS = 100
EFFECT = 0.1


def calibrated(rng: np.random.Generator, outcome: Floats, evidence: float = EVIDENCE) -> Floats:
    """Exact posteriors from evidence of a model's own about each question: it is as sure as it may be."""
    seen = (2 * outcome - 1) * evidence + rng.standard_normal(outcome.shape)
    return np.asarray(1 / (1 + np.exp(-2 * evidence * seen)), dtype=np.float64)


def _excludes(difference: Estimate, side: float = 0) -> bool:
    """Whether an interval leaves 0 out, on a side if there is a side."""
    return bool(difference.upper < 0 and side <= 0) or bool(difference.lower > 0 and side >= 0)


def silence(runs: int, questions: int) -> list[Row]:
    """Models of one ability, and a better model, that do not say beliefs near one half, against a model that does."""
    rng = np.random.default_rng(0)
    rows = []
    for evidence in (EVIDENCE, MORE_EVIDENCE):
        for near in SILENT:
            ignored, kept, share = [], [], []
            for _ in range(runs):
                outcome = (rng.random(questions) < 0.5).astype(float)
                beliefs = calibrated(rng, outcome, evidence)
                before = brier_score(calibrated(rng, outcome), outcome)
                after = np.where(np.abs(beliefs - 0.5) < near, np.nan, brier_score(beliefs, outcome))
                share.append(np.isfinite(after).mean())
                second, first = _by_question(after), _by_question(before)
                alone = {str(i): i for i in range(questions)}
                bounds = (0.0, 1.0)
                ignored.append(_excludes(paired_difference(after, before, bounds=(-1, 1)), -1))
                kept.append(_excludes(compare_means(second, first, alone, bounds, "brier/brier").difference, -1))
            rows.append({"evidence": evidence, "near": near, "read": np.mean(share), "ignored": np.mean(ignored),
                         "kept": np.mean(kept)})  # fmt: skip
    return rows


def recipes(runs: int) -> list[Row]:
    """A recipe and its control, each trained with several seeds from one start: without an effect, and with one."""
    rng = np.random.default_rng(2)
    rows = []
    for seeds in SEEDS:
        for sd in SEED_SDS:
            rates = []
            for effect in (0.0, EFFECT):
                by_questions, by_seeds = [], []
                for _ in range(runs):
                    start = 0.3 + 0.15 * rng.standard_normal(TRAINED_QUESTIONS)
                    arms = [
                        start
                        + gain
                        + sd * rng.standard_normal((seeds, 1))
                        + 0.15 * rng.standard_normal(TRAINED_QUESTIONS)
                        + 0.1 * rng.standard_normal((seeds, TRAINED_QUESTIONS))
                        for gain in (effect, 0.0)
                    ]
                    by_questions.append(_excludes(mean_estimate(arms[0].mean(axis=0) - arms[1].mean(axis=0))))
                    before, *models = (_by_question(model) for model in (start, *arms[0], *arms[1]))
                    alone = {str(i): i for i in range(TRAINED_QUESTIONS)}
                    control = (models[seeds:], [before])
                    compared = compare_recipes(models[:seeds], [before], alone, control)
                    by_seeds.append(_excludes(compared.difference))
                rates += [np.mean(by_questions), np.mean(by_seeds)]
            rows.append({"seeds": seeds, "sd": sd, "by_questions": rates[0], "false": rates[1], "power": rates[3]})
    return rows


def _by_question(values: Floats) -> dict[str, list[float]]:
    return {str(i): [float(value)] for i, value in enumerate(values)}


def texts(silence: list[Row], recipes: list[Row]) -> dict[str, str]:
    abilities = {EVIDENCE: "equal", MORE_EVIDENCE: "truly better"}
    silent = [
        [abilities[row["evidence"]], f"{100 * row['near']:.0f}" if row["near"] else "-", f"{row['read']:.2f}",
         f"{row['ignored']:.2f}", f"{row['kept']:.2f}"]
        for row in silence
    ]  # fmt: skip
    trained = [
        [str(row["seeds"]), f"{row['sd']:g}", *(f"{row[key]:.2f}" for key in ("by_questions", "false", "power"))]
        for row in recipes
    ]
    return {
        "silence": markdown(
            ("model", "silent within points of one half", "read", "better, if silence were ignored", "better, now"),
            silent,
        ),
        "recipes": markdown(("seeds", "SD of seeds", "false, by questions", "false, now", "power, now"), trained),
    }


STUDY = Study(
    page="compare.md",
    sizes={"runs": 400, "questions": 200},
    measures={"silence": silence, "recipes": recipes},
    texts=(texts,),
)


if __name__ == "__main__":
    STUDY.main(__doc__)
