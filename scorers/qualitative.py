r"""Qualitative: does a judge find originality, curiosity, challenge and honest uncertainty in the reasoning?

inspect eval truthgym/forecasting -T paradigms=qualitative --model openai/gpt-5.4-mini \
    --model-role judge=anthropic/claude-sonnet-5
inspect score LOG --scorer truthgym/qualitative --action append --overwrite --model-role judge=anthropic/claude-sonnet-5
"""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from inspect_ai.model import Model
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, metric, scorer
from inspect_ai.solver import TaskState
from inspect_ai.util import collect

from truthgym.datasets.question import Question, question_of
from truthgym.scorers.beliefs.transcript import turns_of
from truthgym.scorers.judges.asking import models_in, why_failed
from truthgym.scorers.judges.async_cache import Once
from truthgym.scorers.judges.bootstrapping import Prepared, prepared
from truthgym.scorers.judges.config import FewShot, checked_settings
from truthgym.scorers.judges.context import Case, RedTeam
from truthgym.scorers.judges.examples import case_of
from truthgym.scorers.judges.model_family import family_of
from truthgym.scorers.judges.probes import PROBES
from truthgym.scorers.judges.rating import Jury
from truthgym.scorers.judges.rubric import Rubric
from truthgym.scorers.paradigm import HIGHER_IS_BETTER, Paradigm
from truthgym.scorers.statistics.qualitative import summarise
from truthgym.solvers.roles import model_fingerprint


@metric(scores="unreduced")
def reasoning_quality() -> Metric:
    """All figures of the qualitative paradigm, headline first. See `qualitative` for each."""

    def compute(scores: list[SampleScore]) -> Value:
        return cast(Value, summarise(scores))

    return compute


@scorer(metrics=[reasoning_quality()])
def qualitative(
    rubric: str = "built-in",
    self_answer: bool = True,
    red_team: RedTeam = "red_blue_resolution",
    few_shot: FewShot = "permuted",
    shots: int = 4,
    orders: int = 24,
    rounds: int = 1,
    bootstrap_rounds: int = 0,
    bootstrap_from: str | None = None,
    bootstrap_permuted: bool = False,
    examples: str | None = None,
    probes: str | Sequence[str] = PROBES,
    seed: int = 0,
    cache: bool = True,
) -> Scorer:
    r"""How well a judge finds the reasoning to seek the truth, from 0 to 1. Higher is better.

    $$\mathrm{quality}=\frac1{|J|}\sum_{j\in J}\frac1{|O_j|}\sum_{o\in O_j}\frac1{|Q|}\sum_{q\in Q}\frac{r_{joq}}{100}$$

    with the ratings r of the judges J in the orders O of the examples (over all recomputation rounds) for the qualities
    Q of the rubric. 0.5 is what the rubric calls the middle; the examples fix the scale. One judge's scale is not
    another's: compare models by the same judges alone.

    It measures truth-seeking as far as the judge can see it in a text. What would fool it: a text that looks like
    inquiry and is none; a judge that rewards length, its own family's style, or whoever asks for full marks. These are
    measured in each run, and stand beside the score.

    Metrics, in this order (`_lower` and `_upper` are 95 % bounds, clustered by `event`, epochs averaged first):

    - `quality`; `mde`, the smallest distance from a fixed value that the run finds with probability 0.8; `n`; `epochs`;
      `share_scored`; `share_read`, the share of the ratings asked for that were in form; each quality by its name.
    - Reliability: `retest_icc`, of one rating asked twice, and `retest_sd`; `order_sd`, what the order of the examples
      adds to that; `recency`, the slope of a rating on that of the example shown last (0 is right); `agreement` of
      several judges (Krippendorff's alpha, interval).
    - Bias, 0 is right: `position_shift`, the rating with the defence last less that with the criticism last;
      `padded_gain`, for doubling the words with nothing; `injection_gain`, for asking for full marks in a text of the
      same length (must not be above 0); `self_preference`, of judges for a policy of their own family, less what they
      give the held-out examples more than others do. `length_correlation` (Spearman, quality with the words that the
      reasoner wrote) is no bias by itself: a careful text is longer.
    - On held-out examples that we rated: `anchor_error`, mean absolute; `anchor_bias`, judge less ours; `anchor_rank`,
      Spearman. With bootstrapping `drift_round_1` and so on, the change of their mean rating since before the first
      round, and `drift_error_round_1`.
    - `n_...`: how many ratings, or questions, each rests on. NaN where a figure cannot be told.

    A sample's value holds `quality`, each quality, and `spread`, the standard deviation of its ratings over orders
    and rounds. The metadata hold every rating, what was written beside the trajectory, and two reasons.

    A rating that is not in form is left out, and so is all of a judge whose provider fails in one of its calls: what it
    has said is in the cache, and scoring again asks for the rest. A sample without a rating, with an empty trajectory,
    or whose reasoning ended before an answer, is NaN under every key, with the `reason` in the metadata.

    Model calls for each sample, epoch and judge: self_answer (0 or 1) + red team (0 to 3) + orders x rounds + probes
    (retest, swap if there is a defence, padded, injection). Once a run and judge: shots x rounds x (self_answer + red
    team) for the examples, and 12 x (self_answer + red team + 1) for the held-out ones, with the bundled examples. With
    the defaults 32, and once 76. A second scoring makes none while Inspect's cache keeps the replies, a week.

    Args:
        rubric: "built-in", or the path of a Markdown file: each `## Name` is a quality that is rated; without headings
            one overall rating is asked for.
        self_answer: Whether the judge first answers the question itself, to tell easy insight from hard.
        red_team: "none", or what is written beside the trajectory: a criticism ("red"), a defence too ("red_blue"), and
            what stands of both ("red_blue_resolution").
        few_shot: Rated examples before the trajectory: "disabled", in one order ("static"), or in all ("permuted").
        shots: Examples shown, spread over the ratings. One about the question that is judged is not shown with it.
        orders: At most so many orders; drawn without repetition where there are more.
        rounds: Recomputation rounds: what stands beside the examples is written anew in each.
        bootstrap_rounds: Rounds in which the judge rates as many new trajectories as there are examples and adds them.
        bootstrap_from: Where these come from: a log, a .jsonl file, or a folder, searched through.
        bootstrap_permuted: Whether they too are rated in all orders, or in one.
        examples: Rated trajectories instead of the bundled ones: a .jsonl file, a log with `qualitative` scores, or a
            folder, searched through.
        probes: Which of retest, swap, padded, injection, anchors are made; none for none.
        seed: Of the draws of orders and candidates.
        cache: Whether Inspect's cache is used.

    Raises:
        BadInput: An argument that cannot be used, a rubric that is missing or empty, examples of another shape or with
            too few ratings; on the first sample, no model in the role `judge`, or one that is there twice.

    References:
        Zheng et al. (2023). Judging LLM-as-a-judge with MT-Bench and Chatbot Arena. arXiv:2306.05685 (position, length
        and self-preference of judges). Panickssery et al. (2024). LLM evaluators recognize and favor their own
        generations. arXiv:2404.13076. Krippendorff, K. (2004). Reliability in content analysis.
    """
    made = checked_settings(
        rubric, self_answer, red_team, few_shot, shots, orders, rounds, bootstrap_rounds, bootstrap_from,
        bootstrap_permuted, examples, probes, seed, cache,
    )  # fmt: skip
    jury = Jury(made)
    ready: Once[Prepared] = Once()

    async def judged(judge: Model, case: Case, epoch: int) -> dict[str, Any]:
        who = {"judge": str(judge), "family": family_of(str(judge))}
        try:
            shown = await ready.get(model_fingerprint(judge), lambda: prepared(jury, judge))
            said = await jury.judged(judge, shown.examples, case, epoch)
        except Exception as error:
            return {**who, **jury.nothing(why_failed(judge, error))}
        return {**who, **said, "held_out": vars(shown.held_out)}

    async def score(state: TaskState, target: Target) -> Score:
        question = question_of(state, Question)
        judges = models_in("judge")
        case = case_of(state)
        said: list[dict[str, Any]] = []
        if isinstance(case, Case):
            said = await collect(*(judged(judge, case, state.epoch) for judge in judges))
        values = _values(said, list(made.rubric.qualities))
        reason = case if isinstance(case, str) else _unread(said) if np.isnan(values["quality"]) else None
        return Score(
            value=cast(Value, {name: round(value, 4) for name, value in values.items()}),
            explanation=reason or _explained(values, said, made.rubric),
            metadata={
                "epoch": state.epoch,
                "event": question.event,
                "policy_family": family_of(str(state.model)),
                "words": sum(len(turn.wrote.split()) for turn in turns_of(state)) if isinstance(case, Case) else None,
                "qualities": list(made.rubric.qualities),
                "judges": said,
                "reason": reason,
            },
        )

    return score


def _values(said: list[dict[str, Any]], qualities: list[str]) -> dict[str, float]:
    """A sample's value from the ratings of its judges."""
    per_judge = [
        np.array([row for round in judge["ratings"] for row in round if row], dtype=float).reshape(-1, len(qualities))
        for judge in said
    ]
    per_judge = [ratings / 100 for ratings in per_judge if ratings.size]
    if not per_judge:
        return dict.fromkeys(["quality", *qualities, "spread"], np.nan)
    means = np.mean([ratings.mean(axis=0) for ratings in per_judge], axis=0)
    spread = [ratings.mean(axis=1).std(ddof=1) for ratings in per_judge if len(ratings) > 1]
    return {
        "quality": float(means.mean()),
        **{name: float(mean) for name, mean in zip(qualities, means, strict=True)},
        "spread": float(np.mean(spread)) if spread else np.nan,
    }


def _said_by(judge: dict[str, Any]) -> str:
    """One judge's rating with a reason for it, or why it gave none."""
    ratings = [number for round in judge["ratings"] for row in round if row for number in row]
    rating = f"{np.mean(ratings) / 100:.2f}" if ratings else "none"
    why = (judge["reasons"] if ratings else judge["unread"])[:1]
    return f"**{judge['judge']}**, {rating}: {(why or ['No reasons were given.'])[0]}"


def _unread(said: list[dict[str, Any]]) -> str:
    reasons = [reason for judge in said for reason in judge["unread"]]
    return reasons[0] if reasons else "No judge gave a rating."


def _explained(values: dict[str, float], said: list[dict[str, Any]], rubric: Rubric) -> str:
    rows = [f"| {heading} | {values[name]:.2f} |" for name, heading in rubric.qualities.items()]
    table = ["| Quality | Rating, 0 to 1 |", "|---|---|", *rows, f"| **All** | **{values['quality']:.2f}** |"]
    given = [_said_by(judge) for judge in said]
    return "\n".join(table) + "\n\n" + "\n\n".join(given)


PARADIGM = Paradigm(
    scorer=qualitative,
    columns={"quality": "Quality", "spread": "Spread"},
    headline=("quality", "quality_lower", "quality_upper", "mde", "n", "epochs", "share_scored", "share_read"),
    colors={"quality": HIGHER_IS_BETTER},
    directions={"quality": "highest"},
    roles=lambda **_: ("judge",),
)
