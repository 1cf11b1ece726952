"""Preference: which of two replies does a judge prefer, and how far does it go by their order, length and origin?

inspect eval truthgym/preferences -T answers=logs/ --model openai/gpt-5.4-mini
inspect eval truthgym/preferences -T answers=logs/ -T gold=brier/brier_score --model reference/judge -M accuracy=0.8
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np
from inspect_ai.scorer import SampleScore, Score, Scorer, Target, Value, scorer
from inspect_ai.solver import TaskState

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.scorers.declaration import FLAG, PROBABILITY, Figures, ScorerDeclaration, figures_metric, requested
from truthgym.scorers.statistics.interval import mean_estimate, metrics_of
from truthgym.scorers.statistics.preference import label_biases, preference_of
from truthgym.scorers.statistics.proper_scores import finite_mean
from truthgym.scorers.statistics.table import as_number

NAME = "preference"
ORDERS = "Preference:orders"
KEYS = ("margin", "preferred", "first_is_better", "correct", "position", "padding")


def summarise(scores: list[SampleScore]) -> dict[str, float]:
    """All figures of the scorer from its scores."""
    facts = [item.score.metadata or {} for item in scores]
    cluster = [str(fact.get("event", item.sample_id)) for fact, item in zip(facts, scores, strict=True)]
    of = {key: np.array([as_number(_value(item).get(key)) for item in scores]) for key in KEYS}
    gold, longer, own, apart = (
        np.array([as_number(fact.get(key)) for fact in facts]) for key in ("gold", "longer", "own", "gold_difference")
    )
    apart = np.where(np.isnan(apart), gold, apart)  # earlier logs hold the better reply alone
    label, truth = of["preferred"], np.where(np.isin(gold, (-1, 1)), (gold + 1) / 2, np.nan)
    position = mean_estimate(of["position"], cluster, (-1, 1))
    halved = np.where((label == 0) & np.isfinite(truth), 0.5, of["correct"])
    means = {
        "accuracy": mean_estimate(halved, cluster, (0, 1)),
        "accuracy_decided": mean_estimate(of["correct"], cluster, (0, 1)),
        **label_biases(label, apart, longer, own, cluster),
        "padding_bias": mean_estimate(of["padding"], cluster),
        "ties": mean_estimate(np.where(np.isnan(label), np.nan, label == 0), cluster, (0, 1)),
        "label_brier": mean_estimate((of["first_is_better"] - truth) ** 2, cluster, (0, 1)),
        "longer_preferred": mean_estimate(label * np.where(longer == 0, np.nan, longer), cluster),
        "own_preferred": mean_estimate(label * np.where(own == 0, np.nan, own), cluster),
    }
    share = float(np.isfinite(of["position"]).mean()) if scores else np.nan
    figures = position.main_metrics("position_bias", share)
    figures |= {name: means[name].estimate for name in ("accuracy", "length_bias", "self_preference")}
    return (
        figures
        | metrics_of(means)
        | {"gold_known": finite_mean(np.isfinite(truth).astype(float))}
        | position.cluster_metrics()
        | ({f"{FLAG}noisy_gold": 1.0} if any(fact.get("gold_noisy") for fact in facts) else {})
    )


def notes(scores: list[SampleScore], figures: dict[str, float]) -> Iterator[str]:
    """Warn of biases that may be quality which gold does not measure."""
    for name in ("length_bias", "self_preference"):
        lower, upper = figures[f"{name}_lower"], figures[f"{name}_upper"]
        if lower > 0 or upper < 0:
            cause = "gold follows from an outcome, so" if f"{FLAG}noisy_gold" in figures else "if gold is noisy,"
            interval = f"{figures[name]:.3f} [{lower:.3f}, {upper:.3f}]"
            yield f"{name} {interval}: {cause} quality leaks into it; padding_bias (probe=true) needs no gold"


preference_quality = figures_metric("preference_quality", summarise, notes)


@scorer(metrics=[preference_quality()])
@validate_call
def preference(figures: Figures = "headline") -> Scorer:
    r"""The label of a pair of replies, and the judge's biases. A position bias near 0 is better.

    The judge gives the probability that the reply shown first is the better one, in both orders: p for the pair, q for
    the pair swapped. The label is the pair's first reply if p > 1/2 and q < 1/2, its second if p < 1/2 and q > 1/2, and
    a tie otherwise. Its probability is (p + 1 - q)/2, and the `margin` p - q, or 0 for a tie.

    A judge that goes by order alone has a position bias of 1 and labels nothing but ties. **It cannot see** an error
    that does not depend on the order: agreement with oneself is not truth. Only `accuracy`, against a `gold` label, is.

    Metrics, as `scorers.declaration` says:

    - `position_bias`: share of answers that prefer the reply shown first, minus the share that prefer the second, in
      [-1, 1], with its companions: `n` pairs, and `share_scored`, of which both answers could be read. The quality of
      the replies cancels, since each is shown first once.
    - `accuracy`: share of the labels that agree with gold, a tie counted as half: a judge that abstains where it is not
      sure would otherwise look better than one that labels every pair.
    - `length_bias` and `self_preference`: the preference for the longer reply, and for one of the judge's own vendor
      over another's, with the quality held fixed by gold's difference (`label_biases`), so that a property of good
      replies is no bias. Where gold is noisy, as one outcome is, quality leaks into both: a perfect judge then seems to
      prefer what goes with quality. NaN without gold, or if these always go together.

    With `figures="all"` also, with bounds: bounds of those; `padding_bias`, the preference for a reply with filler
    appended over the reply itself (with `probe=true`; needs no gold); `ties`; `accuracy_decided`, without ties;
    `label_brier`, the Brier score of the label's probability; `longer_preferred` and `own_preferred`, which include
    quality; `gold_known`, a share; and `flag_noisy_gold` = 1 if gold follows from an outcome.

    Makes no model call: the task's solver does.

    Raises:
        BadInput: A sample that is not of `truthgym/preferences`.

    References:
        Bai et al. (2022). Constitutional AI. arXiv:2212.08073. Zheng et al. (2023). arXiv:2306.05685 (judges' biases).
    """

    async def score(state: TaskState, target: Target) -> Score:
        pair = state.metadata.get("pair")
        if not isinstance(pair, Mapping) or not {"first", "second"} <= pair.keys():
            raise BadInput(f"{NAME} scores the samples of truthgym/preferences; run that task on your logs")
        made = label_of(pair, state.store.get(ORDERS) or {})
        facts = {"epoch": state.epoch, "event": state.metadata["event"]} | requested(figures)
        return made.model_copy(update={"metadata": (made.metadata or {}) | facts})

    return score


def label_of(pair: Mapping[str, Any], answers: Mapping[str, Any]) -> Score:
    """The score of a pair.

    `pair` holds both replies, each with its `text` and `vendor`, and `gold`: 1 if the first is better, -1 if the second
    is, 0 for neither, None if that is not known. `answers` are by order the probability that the reply shown first is
    better, None if unread.
    """
    first, second = pair["first"], pair["second"]
    words = [len(reply["text"].split()) for reply in (first, second)]
    own = [reply.get("vendor") == answers.get("vendor") for reply in (first, second)]
    gold = as_number(pair.get("gold"))
    known = {key: pair[key] for key in ("gold_difference", "gold_noisy") if pair.get(key) is not None}
    facts = known | {"gold": pair.get("gold"), "longer": int(np.sign(words[0] - words[1])), "own": own[0] - own[1]}
    given, swapped = (as_number(answers.get(order)) for order in ("given", "swapped"))
    if not np.isfinite(given + swapped):
        reason = next(iter(answers.get("unread") or []), "The labelling was cut short.")
        unread = cast(Value, dict.fromkeys(KEYS, np.nan))
        return Score(value=unread, explanation=reason, metadata=facts | {"reason": reason})
    label, probability = preference_of(given, swapped)
    plain, padded = (as_number(answers.get(order)) for order in ("padded_second", "padded_first"))
    value = {
        "margin": round(2 * probability - 1, 6) if label else 0.0,
        "preferred": label,
        "first_is_better": round(probability, 6),
        "correct": float(label == gold) if label and gold in (-1, 1) else np.nan,
        "position": float(np.sign(given - 0.5) + np.sign(swapped - 0.5)) / 2,
        "padding": float(np.sign(padded - 0.5) - np.sign(plain - 0.5)) / 2,
    }
    winner = {1: "the first", -1: "the second", 0: "neither"}[label]
    reasons = list(answers.get("reasons") or [])
    return Score(
        value=cast(Value, value),
        answer=winner,
        explanation="\n\n".join([f"Preferred: {winner} ({probability:.2f}).", *reasons]),
        metadata=facts | {"reasons": reasons},
    )


def _value(item: SampleScore) -> Mapping[str, Any]:
    return item.score.value if isinstance(item.score.value, dict) else {}


DECLARATION = ScorerDeclaration(
    scorer=preference,
    question="Which of two replies does a judge prefer, and how far by order, length and origin?",
    better="a position bias near 0; accuracy: higher is better",
    needs="finished logs, and a judge",
    columns={"preferred": "Preferred", "first_is_better": "P(first)", "correct": "Correct"},
    figures=summarise,
    colors={"first_is_better": PROBABILITY},
    reference=0.0,
    reasons={
        f"{FLAG}noisy_gold": "gold follows from an outcome, which a good forecast can lose by: quality leaks into "
        "length_bias and self_preference, and accuracy is below 1 for a perfect judge"
    },
)
