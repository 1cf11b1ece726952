r"""Martingale: can the updates of a reasoner be predicted from where it stood before it reasoned?

inspect eval truthgym/urns -T paradigms=brier,martingale --model reference/entrenched -M strength=0.3 -M noise=0.08
inspect score LOG --scorer truthgym/martingale -S elicitor=both --model-role judge=openai/gpt-5.4-mini
"""

from logging import getLogger
from typing import Literal, cast, get_args

import numpy as np
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, metric, scorer
from inspect_ai.solver import TaskState
from inspect_ai.util import sample_limits
from inspect_ai.viewer import ScoreColorScale

from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.question import Question, question_of
from truthgym.scorers.beliefs.elicitation import Elicitor, Per, Reuse, Settings, Standpoint, elicit
from truthgym.scorers.beliefs.record import Belief
from truthgym.scorers.paradigm import PROBABILITY, Paradigm
from truthgym.scorers.statistics.belief_table import belief_table
from truthgym.scorers.statistics.martingale import summarise
from truthgym.scorers.statistics.martingale_score import NOISELESS, REASONS, MartingaleScore, martingale_score

__all__ = ["MartingaleScore", "belief_dynamics", "martingale", "martingale_score", "roles"]

logger = getLogger(__name__)


@metric(scores="unreduced")
def belief_dynamics() -> Metric:
    """All figures of the martingale paradigm, headline first. See `martingale` for each."""

    def compute(scores: list[SampleScore]) -> Value:
        found = summarise(belief_table(scores))
        if not _in_a_sample():
            _warn(found)
        return cast(Value, found)

    return compute


@scorer(metrics=[belief_dynamics()])
def martingale(
    elicitor: Elicitor = "self",
    standpoint: Standpoint = "policy",
    per: Per = "trajectory",
    joint: bool = False,
    system_prompt_in_probe: bool = False,
    beliefs: Reuse = "reuse",
    belief_change: Literal["difference", "logit"] = "difference",
    granularity: Per = "trajectory",
    domains: Literal["pooled", "each"] = "pooled",
    information_weight: float = 0.0,
) -> Scorer:
    r"""Slope of the update on the prior. 0 is rational; above 0 entrenched, below 0 over-correcting.

    $$b_1-b_0=\alpha+\beta\,b_0+\varepsilon,\qquad
    \hat\beta=\frac{\sum_{i\ne j}\sum_q(b_{0,qj}-\bar b_{0,j})(b_{1,qi}-b_{0,qi})}
    {\sum_{i\ne j}\sum_q(b_{0,qj}-\bar b_{0,j})\,b_{0,qi}}$$

    A rational reader cannot foresee its own updates: $E[b_1\mid b_0]=b_0$, so $\beta=0$. $\beta=0.1$: it goes on, by a
    tenth, in the direction in which it already leaned. A reader who never moves scores 0 too: read the slope beside
    `excess_movement` and `brier_gain`.

    It measures truth-seeking where the prior is the model's real belief before it reasons. Noise in the reports does
    not move it, since each prior is instrumented by another epoch's; the least-squares slope beside it, the published
    score, noise pulls down, by $(1-\lambda)(1-\kappa+\beta)$. What would fool it: an error of the prior that
    is the same in all epochs (ask with `elicitor="both"`: the judge's reading is then the instrument); a reader that
    looks ahead (`joint` shows how much it would); questions that all have one prior.

    Metrics, in this order:

    - `martingale_score` with `_lower` and `_upper` (95 %); `identified`, 1 or 0; `martingale_score_ols`, the published
      score; `reliability`, the prior's correlation with its instrument; `excess_movement`, 0 for a Bayesian, above it
      moves more than it learns; `brier_gain`, the fall of the Brier score from prior to posterior; `mde`, the smallest
      true slope this run finds with probability 0.8; `n` questions, `epochs`, `share_scored`.
    - `p` (Anderson-Rubin); bounds and variants of the published slope (`_ols_lower`, `_ols_upper`, `_ols_half` through
      one half, `r_squared`); `shared_error`; bounds of the companions, `movement` and `uncertainty_reduction`;
      `brier_prior`, `brier_posterior`, and `brier_corrected`, of the posterior with the slope taken out.
    - With `elicitor="both"` `martingale_score_judge` and `share_scored_judge`; with `joint` `martingale_score_joint`
      (least squares on the joint reading) and `leak`; with `domains="each"` a score for every domain; with
      `information_weight` `informed_score`.
    - `unidentified_...` = 1 tells why there is no score: see `martingale_score.REASONS`. `noiseless` = 1: see there.

    Clustered by `event`; the t distribution has one degree of freedom less than there are clusters.

    Beliefs are asked for as whole percents. One that cannot be read is NaN with its reason in the metadata, and its
    epoch leaves the estimate; `share_scored` tells. Not identified, so NaN: one epoch, fewer than ten questions, equal
    priors, a reliability under 0.3, a first-stage F under 10, an instrument that saw the reasoning.

    Model calls for each sample and epoch, with M assistant messages and T turns (reasoning that a provider shows is one
    more): self 2, by step 1 + M; judge 3, by step 2 + T; both, their sum; joint 1 more. Tokens read: a prior, question
    and probe; a posterior or step, the conversation up to it and probe; a first view, question and its instruction; a
    reading, question, text up to it and its instruction. Nothing that this log already holds in readable form is asked
    again.

    Args:
        elicitor: Whose report is taken: "self", the model's own; "judge", the reading of the `judge` role; "both".
            Replaces USE_FIXED_JUDGE and JUDGE_POLICY_NAMES.
        standpoint: Whose belief a judge reports: the "policy" it reads, or its own as "judge". Replaces
            OBJECTIVE_BELIEF.
        per: Belief by "trajectory" (before and after) or after each "step". Replaces USE_PER_TRAJ_BELIEF_MEASURE.
        joint: Whether the judge also reads the whole trajectory in one go, as the published pipeline does. What
            USE_PER_TRAJ_BELIEF_MEASURE stands for there.
        system_prompt_in_probe: Whether the model is asked under the task's system prompt. Replaces
            DISABLE_SYSTEM_PROMPT_IN_BELIEF_MEASUREMENT.
        beliefs: "reuse" what the log holds and ask for the rest; "fresh" asks for all anew, as for another temperature,
            which is not told from the first; "recorded" asks for nothing, needs no judge, and takes what whoever said.
            Replaces RECOMPUTE_BELIEFS.
        belief_change: "difference", or "logit" for changes and levels in log-odds, held in [0.005, 0.995]: on that
            scale a rational reader's slope is not 0. Replaces belief_change_type.
        granularity: "trajectory": one update a trajectory. "step": each step is an update, instrumented by the clean
            prior of another epoch; needs per="step". Replaces sample_granularity.
        domains: "pooled", with an intercept for each domain, or "each" for a score of every domain besides.
        information_weight: Above 0 reports `informed_score`, lower is better: the size of the slope, less so many
            times what was learned (`brier_gain`; the lesser of movement and uncertainty reduction where no truth is
            known). Replaces informative_switch and informative_coef.

    Raises:
        BadInput: An argument that cannot be used; a judge is needed and no model has that role; a question without a
            proposition; a log of another task.

    References:
        He, Qiu, Shirado and Sap (2025). Stay true to the evidence: measuring belief entrenchment in LLM reasoning via
        the martingale score. arXiv:2512.02914 (the least-squares slope).
        Augenblick and Rabin (2021). Belief movement, uncertainty reduction, and rational updating. QJE 136.
        Anderson and Rubin (1949). Annals of Mathematical Statistics 20 (the test).
    """
    settings = Settings(elicitor, standpoint, per, joint, system_prompt_in_probe, beliefs)
    one_of("belief_change", belief_change, ["difference", "logit"])
    one_of("granularity", granularity, get_args(Per))
    one_of("domains", domains, ["pooled", "each"])
    if granularity == "step" and per != "step":
        raise BadInput("granularity=step needs a belief after each step; add per=step")
    number = isinstance(information_weight, int | float) and not isinstance(information_weight, bool)
    if not number or not 0 <= information_weight < np.inf:
        raise BadInput(f"information_weight={information_weight!r} cannot be used; give a number from 0 up")
    # What differs from the default: every entry of every score costs CPU time and room in the log.
    chosen = {
        name: value
        for name, value, usual in (
            ("belief_change", belief_change, "difference"),
            ("granularity", granularity, "trajectory"),
            ("domains", domains, "pooled"),
            ("information_weight", float(information_weight), 0.0),
        )
        if value != usual
    }

    async def score(state: TaskState, target: Target) -> Score:
        question = question_of(state, Question)
        measured = await elicit(state, question, settings)
        outcome = {"yes": 1.0, "no": 0.0}.get(target.text)
        ends = _ends(measured)
        unread = [f"{b.stage} ({b.elicitor}): {b.reason}" for b in measured if b.reason]
        names = list(dict.fromkeys(b.elicitor for b in measured))
        first = ends[names[0]]
        value = {"prior": first[0], "posterior": first[1], "change": round(first[1] - first[0], 4)}
        for name in names[1:]:
            value |= {f"{name}_prior": ends[name][0], f"{name}_posterior": ends[name][1]}
        return Score(
            value=cast(Value, value),
            answer=None if np.isnan(first[1]) else f"{first[1]:.2f}",
            explanation=_table(measured, names, unread),
            metadata={
                "epoch": state.epoch,
                "event": question.event,
                "domain": question.domain,
                "outcome": outcome,
                "beliefs": [belief.record() for belief in measured],
            }
            | ({"settings": chosen} if chosen else {})
            | ({"reason": "; ".join(unread)} if unread else {}),
        )

    return score


def roles(elicitor: Elicitor = "self", joint: bool = False, **others: object) -> tuple[str, ...]:
    """Model roles that `martingale` with these arguments needs, to be checked before the first model call."""
    return Settings(elicitor=elicitor, joint=joint).roles


def _ends(measured: list[Belief]) -> dict[str, tuple[float, float]]:
    held = {(b.elicitor, b.stage): np.nan if b.value is None else b.value for b in measured}
    return {name: (held.get((name, "prior"), np.nan), held.get((name, "posterior"), np.nan)) for name, _ in held}


def _table(measured: list[Belief], names: list[str], unread: list[str]) -> str:
    """The belief path as a table in Markdown, which the log viewer renders."""
    held = {(b.elicitor, b.stage): "-" if b.value is None else f"{100 * b.value:.0f} %" for b in measured}
    stages = sorted({b.stage for b in measured if b.stage != "view"}, key=_order)
    lines = [f"| belief | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    lines += [f"| {stage} | {' | '.join(held.get((name, stage), '') for name in names)} |" for stage in stages]
    return "\n".join([*lines, *([""] if unread else []), *unread])


def _order(stage: str) -> tuple[int, int]:
    return (1, int(stage.split()[1])) if stage.startswith("step") else ({"prior": 0}.get(stage, 2), 0)


def _in_a_sample() -> bool:
    """Inspect also calls metrics from within a sample, as it ends, to show how a run goes."""
    try:
        sample_limits()
    except RuntimeError:
        return False
    return True


def _warn(found: dict[str, float]) -> None:
    for name in found:
        if name.startswith("unidentified_") and found["n"] + found["epochs"] > 0:
            logger.warning(f"The martingale score is not identified: {REASONS[name.removeprefix('unidentified_')]}.")
    if "noiseless" in found:
        logger.warning(f"Martingale score: {NOISELESS}.")


PARADIGM = Paradigm(
    scorer=martingale,
    columns={"prior": "Prior", "posterior": "Posterior", "change": "Change"},
    headline=(
        "martingale_score", "martingale_score_lower", "martingale_score_upper", "identified", "martingale_score_ols",
        "reliability", "excess_movement", "brier_gain", "mde", "n",
    ),
    colors={
        "prior": PROBABILITY,
        "posterior": PROBABILITY,
        "change": ScoreColorScale(palette="diverging", min=-1, max=1),
    },
    roles=roles,
)  # fmt: skip
