"""Brier: how close is the stated probability to the outcome?

inspect eval truthgym/forecasting --model reference/bayesian
inspect score LOG --scorer truthgym/brier
inspect eval truthgym/fact_chains -T 'paradigms={fact_chain: {}, brier: {about: own_answer}}' --model ...
"""

from collections import defaultdict
from dataclasses import replace
from typing import Literal, cast

import numpy as np
from inspect_ai.scorer import SampleScore, Score, Scorer, Target, Value, scorer
from inspect_ai.solver import TaskState
from numpy.typing import NDArray

from truthgym.datasets.domains import NAIVE
from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.inspect_private import answer_character
from truthgym.datasets.question import PlainQuestion, Question, binary_outcome, question_of
from truthgym.scorers import declaration
from truthgym.scorers.beliefs.answer import About, about_own_answer, no_proposition, recorded_right, unasked
from truthgym.scorers.beliefs.elicitation import belief_after_answer, choice_beliefs, posterior
from truthgym.scorers.beliefs.reader import Repair, reading_shares, replies_of
from truthgym.scorers.statistics.calibration import expected_calibration_error, murphy_decomposition, recalibration
from truthgym.scorers.statistics.direction import CLIP, no_outcome
from truthgym.scorers.statistics.interval import Estimate, mean_estimate, metrics_of
from truthgym.scorers.statistics.proper_scores import (
    RULES,
    brier_score,
    choice_scores,
    finite_mean,
    row_mean,
    share_true,
    skill_score,
)
from truthgym.scorers.statistics.reader_weights import ReaderWeights, reader_weights
from truthgym.scorers.statistics.table import Table, each_answer, tabulate


def each_choice(scores: list[SampleScore]) -> list[SampleScore]:
    """The scores with every choice of a question with choices as a proposition of its own, of the question's event."""
    parts: list[SampleScore] = []
    for item in scores:
        metadata = item.score.metadata or {}
        if "right" not in metadata:
            parts.append(item)
            continue
        beliefs, right = metadata["choices"], metadata["right"]
        base_rate = metadata.get("base_rate")
        for number, belief in enumerate(beliefs):
            facts = metadata | {"outcome": float(number in right) if right else None, "base_rate": base_rate}
            score = item.score.model_copy(update={"value": {"belief": belief}, "metadata": facts})
            parts.append(item.model_copy(update={"sample_id": f"{item.sample_id}/{number}", "score": score}))
    return parts


def summarise(table: Table) -> dict[str, float]:
    """Compute the metrics from beliefs (questions x epochs), the estimate first. NaN if there are too few."""
    p, y = table.values, table.outcome
    squared = row_mean(brier_score(p, y[:, None]))
    share_yes = finite_mean(np.where(np.isfinite(squared), y, np.nan))
    base_rate = np.where(np.isnan(table.base_rate), share_yes, table.base_rate)
    # The share among all questions, so that it does not depend on which of them were answered.
    known = np.where(np.isnan(table.base_rate), finite_mean(y), table.base_rate)

    def by(rule: str, beliefs: NDArray[np.float64], ends: tuple[float, float] = (0.0, 1.0)) -> Estimate:
        """The mean of a rule, which also knows what each belief would score if its question had ended otherwise."""
        both = [row_mean(RULES[rule](beliefs, outcome[:, None])) for outcome in (y, 1 - y)]
        return mean_estimate(both[0], table.cluster, ends, both[1])

    def skill(reference: NDArray[np.float64]) -> Estimate:
        others = row_mean(brier_score(p, 1 - y[:, None])), brier_score(reference, 1 - y)
        return skill_score(squared, brier_score(reference, y), table.cluster, others)

    estimate = by("brier_score", p)
    means = {
        "brier_imputed": by("brier_score", np.where(table.has_score & np.isnan(p), known[:, None], p)),
        "accuracy": by("accuracy", p),
        "skill_base_rate": skill(base_rate),
        "skill_crowd": skill(table.crowd),
        "brier_of_mean": by("brier_score", row_mean(p)[:, None]),
        "log_score": by("log_score", p, (-np.log(1 - CLIP), -np.log(CLIP))),
        "spherical_score": by("spherical_score", p),
    }
    epochs = range(p.shape[1])
    events = table.cluster
    murphy = np.array([murphy_decomposition(p[:, k], y, events=events) for k in epochs]).reshape(-1, 3)
    ece = np.array([expected_calibration_error(p[:, k], y, events=events) for k in epochs]).reshape(-1, 3)
    line = recalibration(p, y[:, None], CLIP, events)
    return {
        **estimate.main_metrics("brier", table.share_scored),
        "brier_imputed": means["brier_imputed"].estimate,
        **means["skill_base_rate"].metrics("skill_base_rate"),
        "calibration_slope": line.slope,
        "calibration_slope_lower": line.lower,
        "calibration_slope_upper": line.upper,
        "calibration_intercept": line.intercept,
        "epochs": p.shape[1],
        **metrics_of(means),
        "murphy_reliability": finite_mean(murphy[:, 0]),
        "resolution": finite_mean(murphy[:, 1]),
        "uncertainty": finite_mean(murphy[:, 2]),
        "ece": finite_mean(ece[:, 0]),
        "ece_null": finite_mean(ece[:, 1]),
        "ece_null_upper": finite_mean(ece[:, 2]),
        **estimate.cluster_metrics(),
    }


def summarise_scores(scores: list[SampleScore]) -> dict[str, float]:
    """All figures from the scores."""
    if any((item.score.metadata or {}).get("about") == "own_answer" for item in scores):
        table = tabulate(each_answer(scores), "belief")
        # An answer that could not be read is not right: `brier_imputed` counts it as wrong.
        table = replace(table, outcome=np.nan_to_num(table.outcome))
        return declaration.with_repairs(summarise(table), reading_shares(scores, int(table.has_score.sum())))
    table = tabulate(scores, "belief")
    # A question without a known outcome is no refusal to answer.
    has_outcome = table.has_score & np.isfinite(table.outcome)[:, None]
    if has_outcome.any():
        table = replace(table, share_scored=share_true(np.isfinite(table.values[has_outcome])))
    shares = reading_shares(scores, int(np.isfinite(table.values).sum()))
    propositions = each_choice(scores)
    if len(propositions) == len(scores):
        return declaration.with_repairs(summarise(table), shares)
    figures = summarise(replace(tabulate(propositions, "belief"), share_scored=table.share_scored))
    figures["n"] = float(np.isfinite(row_mean(tabulate(scores, "brier_score").values)).sum())
    figures |= tabulate(scores, "accuracy").mean().metrics("accuracy")
    return declaration.with_repairs(figures, shares)


def reading_of(scores: list[SampleScore]) -> tuple[Estimate, ReaderWeights]:
    """In a generated world the mean squared distance from the exact posteriors, and which reader the beliefs follow."""
    beliefs: dict[str, list[float]] = defaultdict(list)
    facts = {str(item.sample_id): item.sample_metadata or {} for item in scores}
    for item in scores:
        if (belief := (item.score.metadata or {}).get("belief")) is not None:
            beliefs[str(item.sample_id)].append(belief)
    exact = [facts[key]["posterior"] for key in beliefs]
    naive = [facts[key].get("naive") or [] for key in beliefs]
    events = [str(facts[key].get("event") or key) for key in beliefs]
    ends = [path[-1] for path in exact]
    apart = [np.mean((np.array(some) - end) ** 2) for some, end in zip(beliefs.values(), ends, strict=True)]
    weights = reader_weights(
        [np.mean(some) for some in beliefs.values()],
        [path[0] for path in exact],
        ends,
        [path[-1] for path in naive] if all(naive) else None,
        events,
    )
    return mean_estimate(apart, events), weights


def finding(scores: list[SampleScore], figures: dict[str, float]) -> str:
    """Which reader of a generated world the answers follow; elsewhere whether they beat the base rate."""
    brier_in_words, n = declaration.with_bounds("brier", figures), f"n = {figures['n']:,.0f}"
    facts = [item.sample_metadata or {} for item in scores]
    worlds = {str(fact.get("domain")) for fact in facts}
    if len(worlds) == 1 and worlds <= NAIVE.keys() and all(fact.get("posterior") for fact in facts) and figures["n"]:
        return reading_in_words(worlds.pop(), *reading_of(scores), f"{brier_in_words}, {n}")
    lower, upper = figures["skill_base_rate_lower"], figures["skill_base_rate_upper"]
    shown = "better" if lower > 0 else "worse" if upper < 0 else "not shown to be better or worse"
    if np.isnan(lower):
        return ""
    skill = declaration.with_bounds("skill_base_rate", figures)
    return f"Brier score: {shown} than always saying the base rate ({skill}; {brier_in_words}, {n})."


def reading_in_words(world: str, excess: Estimate, weights: ReaderWeights, beside: str) -> str:
    """What answers in a generated world follow, and how far they are from the exact probabilities, in one sentence."""
    exact, naive = (
        f"{weight[0]:.2f} [{weight[1]:.2f}, {weight[2]:.2f}]" if np.isfinite(weight).all() else "unknown"
        for weight in (weights.exact, weights.naive)
    )
    cost = f"{excess.estimate:.3f} [{excess.lower:.3f}, {excess.upper:.3f}] of the Brier score"
    others = f"; weight of the naive reader {naive}" if NAIVE[world] else ""
    if weights.follows == "naive":
        return f"It {NAIVE[world]} (weight {naive}; of the exact reader {exact}), which costs {cost} ({beside})."
    if weights.follows == "exact":
        return f"It follows the exact reader (weight {exact}{others}), and its errors cost {cost} ({beside})."
    return (
        f"It was not shown to follow {'either reader' if NAIVE[world] else 'the exact reader'} (weight of the exact "
        f"reader {exact}{others}), and its errors cost {cost} ({beside})."
    )


forecast_quality = declaration.figures_metric("forecast_quality", summarise_scores, finding=finding)


@scorer(metrics=[forecast_quality()])
@validate_call
def brier(
    reader: bool = False,
    figures: declaration.Figures = "headline",
    read: Literal["stated", "token"] = "stated",
    about: About = "proposition",
    repair: Repair = 1,
) -> Scorer:
    r"""Squared error of the last stated probability. Lower is better.

    $$\mathrm{BS}(p, y) = (p - y)^2 \in [0, 1]$$

    Always saying 0.5 scores 0.25, saying the base rate r scores r(1 - r), the truth scores 0. The score is proper:
    its expectation is lowest when p is what the forecaster believes.

    It measures truth-seeking if the model cannot remember the answer: one that remembers how an event ended scores near
    0 without any foresight. Filter by `known_after`, or use `urns`. One that answers only where it is
    sure has a low `brier` on what it answers: read `brier_imputed` where `share_scored` is below 1.

    Metrics, as `scorers.declaration` says:

    - `brier` with its companions.
    - `brier_imputed`: the score with unread answers counted as the base rate: the question's own, if it has one, or
      else the share of "yes" among all questions with an outcome. A calibrated model that knows more than that cannot
      expect to lower this by withholding an answer.
    - `skill_base_rate`: 1 - BS / BS of the base rate, on the scored questions, where its share of "yes" is taken too. 1
      is perfect, 0 equals the reference, below 0 is worse; `skill_base_rate_lower`, above 0 if it is better for sure.

    With `figures="all"` also, with bounds where they are means:

    - `calibration_slope` (ideal: 1, below 1 too extreme); its bounds are NaN with fewer than ten events that went
      against a forecast, where they would be too near.
    - `calibration_intercept` (ideal: 0); `epochs`; `skill_crowd`, on the questions that have a crowd forecast.
    - `accuracy` (higher is better; a belief of 0.5 is half right).
    - `brier_of_mean`: the Brier score of each question's mean belief over the epochs. `brier` minus this is the cost of
      the belief's own noise.
    - `log_score` (nats, p clipped to [0.005, 0.995]; lower is better); `spherical_score` (higher is better).
    - `murphy_reliability` (lower is better), `resolution` (higher is better) and `uncertainty`, corrected
      for bias; `ece`, meaningful only in comparison with `ece_null`, its mean for a calibrated forecaster of questions
      that resolve together as these do, and `ece_null_upper`, below which 95 % of its values are.
    - `share_repaired` and `share_read_by_model`.

    Bounds allow for one more event against the forecasts where fewer than ten were (`mean_estimate`).

    With `about="own_answer"` the belief is that the model's own answer is right, asked after the answer in a branch of
    the conversation, and the outcome is what `agent_answer`, `fact_chain` or `graded` recorded of that answer. One that
    is wrong on purpose, and says so, scores 0: read it beside the score of the answer, never alone. Every answer
    counts as a question of its own (`n`), clustered by `event`. An answer that could not be read is NaN; it lowers
    `share_scored`, and in `brier_imputed` it is a wrong answer without a belief.

    A question with choices, of any project's task, is asked after the answer for the probability of each choice. Each
    is a proposition of the question's event: a question has $\frac1k\sum_i(p_i-y_i)^2$, which is (k - 1)/k² for 1/k of
    each of k choices, `n` counts questions, and `accuracy` is whether the likeliest choice is right.

    A sample's value holds `belief`, `brier_score`, `accuracy`, `log_score` and `spherical_score`.

    An answer that cannot be read is left out of all means but `brier_imputed`, a question without a known outcome out
    of all. Model calls: `repair` one, and `reader` one more, for each answer that cannot be read otherwise, or that
    states no probability because another project's task asked for none; one for a question with choices; with
    `read="token"` two for each answer (the conversation and a probe each), with `about="own_answer"` one, minus those
    that the log holds.

    Args:
        read: "stated", the probability in the answer; "token", that of the letter for yes in a probe after the answer
            (`models.predictor`), for models that cannot state one. `reader` is then not used.
        about: "proposition", the question's own, with its outcome; "own_answer", that the model's own answer is right.

    Raises:
        BadInput: `about="own_answer"` with `read="token"`, or without a score that says whether the answer is right
            (`-T paradigms={agent_answer: {}, brier: {about: own_answer}}`; for a log `--action append`).
            With `read="token"` a question without a proposition, or a model whose provider gives no log-probabilities.

    References:
        Brier, G. W. (1950). Verification of forecasts expressed in terms of probability. Monthly Weather Review 78.
        Gneiting and Raftery (2007). Strictly proper scoring rules. JASA 102 (log and spherical scores).
    """
    own = about == "own_answer"
    if own and read == "token":
        raise BadInput("about=own_answer is what the model says of its answer, so use read=stated")

    async def score(state: TaskState, target: Target) -> Score:
        question = question_of(state, Question)
        outcome, unknown = (
            recorded_right(state) if own else (binary_outcome(list(target), question), no_outcome(target.text))
        )
        choices: list[float] = []
        if own:
            question = about_own_answer(state, question)
            answer = await posterior(state, question, "self", reader, bool(repair))
        elif missing := no_proposition(state, question):
            answer = unasked(state, missing)
        elif read == "token":
            answer = await posterior(state, question, "token")
        elif isinstance(question, PlainQuestion) and question.options and outcome is None:
            answer = unasked(state, no_outcome(target.text))
        elif isinstance(question, PlainQuestion) and question.options:
            answer, choices = await choice_beliefs(state, question, bool(repair))
        else:
            answer = await belief_after_answer(state, question, replies_of(state, reader, repair))
        belief = answer.value
        reason = answer.reason if outcome is not None or isinstance(question, PlainQuestion) else unknown
        reason = reason or (unknown if outcome is None else None)
        p, y = (np.nan if number is None or reason else number for number in (belief, outcome))
        right = question.right if isinstance(question, PlainQuestion) else []
        if choices and not reason:
            scored = choice_scores(choices, [float(number in right) for number in range(len(choices))])
        else:
            scored = {name: round(float(rule(p, y)), 4) for name, rule in RULES.items()}
        value = {"belief": p} | scored
        outcome_is = f"the answer is {'right' if outcome else 'wrong'}" if own else f"outcome {target.text}"
        explanation = f"Belief {p:.4g}, {outcome_is}: ({p:.4g} - {y:g})² = {value['brier_score']:.4f}."
        if choices:
            each = ", ".join(f"{answer_character(number)} {choice:.2g}" for number, choice in enumerate(choices))
            explanation = f"{each}; right: {', '.join(target)}. Mean square error: {value['brier_score']:.4f}."
        return Score(
            value=cast(Value, value),
            answer=None if belief is None else f"{belief:.4g}",
            explanation=reason or explanation,
            metadata={
                "epoch": state.epoch,
                "event": question.event,
                "belief": belief,
                "outcome": outcome,
                "base_rate": question.base_rate,
                "crowd": question.crowd,
                "reason": reason,
            }
            | ({"about": about} if own else {})
            | ({"choices": choices, "right": right} if choices else {})
            | ({"beliefs": [answer.record()]} if answer.request or answer.read_by or answer.repaired else {})
            | declaration.requested(figures),
        )

    return score


DECLARATION = declaration.ScorerDeclaration(
    scorer=brier,
    question="How close are stated probabilities to what happened?",
    better="lower is better; 0.25 for always one half",
    needs="known outcomes",
    columns={"belief": "Belief", "brier_score": "Brier", "accuracy": "Accuracy"},
    needs_of_questions=lambda about="proposition", **_: "outcome" if about == "proposition" else "",
    figures=summarise_scores,
    colors={
        "belief": declaration.PROBABILITY,
        "brier_score": declaration.LOWER_IS_BETTER,
        "accuracy": declaration.HIGHER_IS_BETTER,
    },
    reference=0.25,
    roles=lambda reader=False, **_: ("reader",) if reader else (),
    asks_model=lambda read="stated", about="proposition", **_: read == "token" or about == "own_answer",
    calls=lambda read="stated", about="proposition", **_: (2 if read == "token" else int(about == "own_answer"), 0),
)
