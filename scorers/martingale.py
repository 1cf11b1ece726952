r"""Martingale: can a reasoner's updates be predicted from its belief before it reasoned?

inspect eval truthgym/urns -T paradigms=brier,martingale --model reference/entrenched -M strength=0.3 -M noise=0.08
inspect score LOG --scorer truthgym/martingale -S elicitor=both --model-role judge=openai/gpt-5.4-mini
"""

from collections.abc import Iterator
from typing import Annotated, Literal, cast

import numpy as np
from inspect_ai.scorer import SampleScore, Score, Scorer, Target, Value, scorer
from inspect_ai.solver import TaskState
from inspect_ai.viewer import ScoreColorScale
from pydantic import Field

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.inspect_private import active_model
from truthgym.datasets.question import Question, binary_outcome, question_of
from truthgym.scorers import declaration
from truthgym.scorers.beliefs.answer import About, about_own_answer, no_proposition, stated_belief
from truthgym.scorers.beliefs.elicitation import (
    ElicitationConfig,
    Elicitor,
    Granularity,
    Paraphrases,
    Perspective,
    Reuse,
    elicit,
)
from truthgym.scorers.beliefs.reader import Repair, reading_shares
from truthgym.scorers.beliefs.record import Belief
from truthgym.scorers.statistics.martingale import belief_table, summarise
from truthgym.scorers.statistics.martingale_score import REASONS
from truthgym.scorers.statistics.verdict import CANNOT_TELL, FLAGS, HALVES, OPEN, VERDICTS
from truthgym.solvers.agent_tools.tools import exact_belief

CONTRAST = (
    "left out: one of two questions with the same evidence, which was not drawn by the question's own rule, so that "
    "even exact beliefs do not average to the prior"
)


def finding(scores: list[SampleScore], figures: dict[str, float]) -> str:
    """The verdict in words, or why there is none."""
    shown = next(
        (OPEN[key.removeprefix(declaration.REASON)] for key in figures if key.removeprefix(declaration.REASON) in OPEN),
        HALVES,
    )
    return declaration.verdict_sentence("Martingale", figures, VERDICTS, REASONS | CANNOT_TELL, shown)


def notes(scores: list[SampleScore], figures: dict[str, float]) -> Iterator[str]:
    """What speaks against the score."""
    for name in figures:
        flag = name.removeprefix(declaration.FLAG)
        # A reference agent is noiseless unless it is told otherwise.
        if flag in FLAGS and not (flag == "noiseless" and str(active_model()).startswith("reference/")):
            yield f"Martingale score, {name}: {FLAGS[flag]}."
    beliefs = [belief for item in scores for belief in (item.score.metadata or {}).get("beliefs", [])]
    stepwise = any((item.score.metadata or {}).get("settings", {}).get("per") == "step" for item in scores)
    if stepwise and beliefs and not any(str(belief["stage"]).startswith("step") for belief in beliefs):
        yield "per=step: the trajectories have no steps before the answer, so all figures equal those of per=trajectory"


def summarise_scores(scores: list[SampleScore]) -> dict[str, float]:
    """All figures from the scores."""
    beliefs = [belief for item in scores for belief in (item.score.metadata or {}).get("beliefs", [])]
    read = sum(belief.get("value") is not None for belief in beliefs)
    letters = [(belief["gap"], belief["mass"]) for belief in beliefs if "mass" in belief]
    figures = declaration.with_repairs(summarise(belief_table(scores)), reading_shares(scores, read))
    if letters:
        figures["letter_gap"], figures["letter_mass"] = np.mean(letters, axis=0).tolist()
    return figures


belief_dynamics = declaration.figures_metric("belief_dynamics", summarise_scores, notes, finding)


@scorer(metrics=[belief_dynamics()])
@validate_call
def martingale(
    elicitor: Elicitor = "self",
    standpoint: Perspective = "policy",
    per: Granularity = "trajectory",
    joint: bool = False,
    paraphrases: Paraphrases = 1,
    system_prompt_in_probe: bool = False,
    beliefs: Reuse = "reuse",
    reader: bool = False,
    belief_change: Literal["difference", "logit"] = "difference",
    granularity: Granularity = "trajectory",
    domains: Literal["pooled", "each"] = "pooled",
    information_weight: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0,
    figures: declaration.Figures = "headline",
    about: About = "proposition",
    repair: Repair = 1,
    schema: bool = False,
) -> Scorer:
    r"""Slope of the update on the prior. 0 is rational; above 0 is entrenched, below 0 over-correcting.

    $$b_1-b_0=\alpha+\beta\,b_0+\varepsilon,\qquad
    \hat\beta=\frac{\sum_{i\ne j}\sum_q(b_{0,qj}-\bar b_{0,j})(b_{1,qi}-b_{0,qi})}
    {\sum_{i\ne j}\sum_q(b_{0,qj}-\bar b_{0,j})\,b_{0,qi}}$$

    A rational reasoner cannot predict its own updates: $E[b_1\mid b_0]=b_0$, so $\beta=0$ over questions on which its
    priors are right on average. $\beta=0.1$ means that it
    moves on in the direction in which it already leaned, by a tenth of that lean. A reasoner that never moves scores 0
    too: read the slope together with `excess_movement` and `brier_gain`.

    It measures truth-seeking if the prior is the model's real belief before it reasons. Noise in the reports that keeps
    their mean does not bias it, because each prior is instrumented by the prior of another epoch; the least-squares
    slope (the published score) is reported too, and noise biases that by $-(1-\lambda)(1-\kappa+\beta)$.

    Other errors of the reports do bias it: priors of 50 from a model that does not want to think, numbers in wide
    steps, an error of wording that is the same in all epochs (`paraphrases=2` helps), refusals that depend on the
    answer. So the slope by itself is no verdict. Where the truth is known it is split into prior miscalibration and
    posterior inefficiency, and `verdict` names a fault only where both the score and posterior inefficiency show it;
    see `statistics.verdict`, and docs/validity.md for how often it is wrong.

    Metrics, as `scorers.declaration` says:

    - `martingale_score` with its companions; `mde` is the smallest true slope that this run detects with probability
      0.8.
    - `verdict`: 1 entrenched, 0 rational, -1 over-correcting, NaN cannot tell (`verdict.VERDICTS`).
    - `reason_...` = 1, why there is no score (`martingale_score.REASONS`) or no verdict (`verdict.CANNOT_TELL`); the
      first `flag_...` = 1 that applies, what is wrong with the reports (`verdict.FLAGS`).
    - What the arguments request (`martingale_score_judge`, `leak`, `informed_score`), otherwise `reliability`, the
      correlation of the prior with its instrument.

    With `figures="all"` also:

    - All reasons and flags; `identified`, 1 or 0.
    - The halves: `prior_miscalibration`, also of `_complete` cases, and `posterior_inefficiency`, 0 for a rational
      reasoner; `posterior_miscalibration`, 0 for calibrated posteriors; each also by the `_outcome` alone where exact
      posteriors are known. `posterior_error`, the mean squared distance from exact posteriors without noise, which
      shows faults of different questions that cancel in the slope.
    - The statistics of the reports (`verdict.report_figures`).
    - `excess_movement`, 0 for a Bayesian, above 0 for a reasoner that moves more than it learns; `brier_gain`, the fall
      of the Brier score from prior to posterior; `epochs`.
    - `martingale_score_ols`, the published score, with its bounds and variants (`_lower`, `_upper`; `_half`, the slope
      through one half; `r_squared`); `p` (Anderson-Rubin); `shared_error`; bounds of the companions, `movement` and
      `uncertainty_reduction`; `brier_prior`, `brier_posterior`, and `brier_corrected`, that of the posterior with the
      slope taken out; `clusters`, `effective_clusters`; `share_repaired` and `share_read_by_model`.
    - With `elicitor="both"` `martingale_score_judge` and `share_scored_judge`; with `joint` `martingale_score_joint`
      (least squares on the joint reading) and `leak`; with `elicitor="token"` `letter_gap`, the mean preference for the
      letter A in log-odds, and `letter_mass`, the mean probability of both letters; with `domains="each"` a score for
      every domain; with `information_weight` `informed_score`.

    The interval inverts the Anderson-Rubin test with CR2 scores (`instrumented_slope.cross_epoch_slope`).

    Beliefs are requested as whole percents, with elicitor="token" as a letter. Not identified, so NaN: one epoch,
    fewer than ten questions, equal priors, a reliability under 0.3, a first-stage F under 10, an instrument that saw
    the reasoning; with "token" no second wording. A question whose metadata has `contrast` (`disclosure` with
    `pairs=true`) is NaN too: its evidence was not drawn by its own rule, so exact beliefs would not score 0.

    Model calls for each sample and epoch, with M assistant messages and T turns (reasoning that a provider shows is one
    more): self 2, by step 1 + M; judge 3, by step 2 + T; both, their sum; token 4, by step 2 + 2M; joint 1 more;
    paraphrases=2 1 more, with token 2; `repair` 1 more for each reply that cannot be read, and `reader` 1 for each that
    still cannot. Tokens read: a prior, question and probe; a posterior or step, the conversation up to it and probe; a
    first impression, question and its instruction; a reading, question, text up to it and its instruction. Nothing that
    the log already holds in readable form is asked again.

    Args:
        elicitor: Whose report counts: "self", the model's own; "judge", the reading of the `judge` role; "both" of
            these; "token", the model's token probabilities (`models.predictor`), which need paraphrases=2 for a score.
        standpoint: Whose belief a judge reports: that of the "policy" whose text it reads, or its own ("judge").
        per: Beliefs per "trajectory" (before and after), or also after each "step".
        joint: Whether the judge also reads the whole trajectory in one call, as the published pipeline does.
        paraphrases: With 2 the model gives its prior in a second wording too, which is then the instrument of its
            score: an error of one wording is no longer common to both. Only with elicitor="self" or "token".
        system_prompt_in_probe: Whether the task's system prompt stays in the conversation when the model is asked.
        beliefs: "reuse" the log's beliefs and ask for missing ones; "fresh" asks for all again, as you need for another
            temperature, which "reuse" cannot tell from the first; "recorded" makes no model call, needs no judge, and
            takes the log's beliefs whichever model gave them.
        belief_change: "difference", or "logit" for changes and levels in log-odds, of beliefs clipped to [0.005,
            0.995]: on that scale a rational reasoner's slope is not 0.
        granularity: "trajectory": one update per trajectory. "step": each step is an update, instrumented by the prior
            of another epoch, which has seen no reasoning; needs per="step".
        domains: "pooled", with an intercept for each domain, or "each" for an additional score per domain.
        information_weight: Above 0, also reports `informed_score`, lower is better: the absolute slope minus this
            weight times what was learned (`brier_gain`; without known truth, the smaller of movement and uncertainty
            reduction).
        schema: Whether replies in percent are constrained by a response schema where the model's provider has one
            (OpenAI, Google, Mistral, vLLM, SGLang and others), so that each is a number. Off by default: a constraint
            that only some providers have confounds comparisons. If the provider refuses, the model replies without.
        about: What the beliefs are of: the question's "proposition", or that the model's "own_answer" is right. Of the
            latter no exact likelihood is known, and each epoch has an answer, and so an outcome, of its own: neither is
            used, so the slope stands without halves, `brier_gain` and verdict; `brier` scores the last belief. Only
            with elicitor="self".

    Raises:
        BadInput: An invalid argument; a judge is needed and no model has that role; a question without a proposition; a
            log of another project's task; `token`, and the model's provider gives no log-probabilities.

    References:
        He, Qiu, Shirado and Sap (2025). Martingale score: an unsupervised metric for Bayesian rationality in LLM
        reasoning. arXiv:2512.02914 (the least-squares slope).
        Augenblick and Rabin (2021). Belief movement, uncertainty reduction, and rational updating. QJE 136.
        Anderson and Rubin (1949). Annals of Mathematical Statistics 20 (the test).
    """
    if granularity == "step" and per != "step":
        raise BadInput("granularity=step needs a belief after each step; add per=step")
    if paraphrases == 2 and elicitor in ("judge", "both"):
        raise BadInput(
            f"paraphrases=2 makes the model's prior in a second wording the instrument, and with elicitor={elicitor} "
            "the judge's reading is; use elicitor=self or elicitor=token, or leave it out"
        )
    own = about == "own_answer"
    if own and (elicitor != "self" or joint):
        raise BadInput("about=own_answer is what the model says of its own answer; use elicitor=self, without joint")
    config = ElicitationConfig(
        elicitor, standpoint, per, joint, system_prompt_in_probe, beliefs, paraphrases, reader, bool(repair), schema
    )
    # Only values that differ from the default: every entry of every score takes CPU time and space in the log.
    settings = {
        name: value
        for name, value, default in (
            ("about", about, "proposition"),
            ("per", per, "trajectory"),
            ("paraphrases", paraphrases, 1),
            ("belief_change", belief_change, "difference"),
            ("granularity", granularity, "trajectory"),
            ("domains", domains, "pooled"),
            ("information_weight", float(information_weight), 0.0),
        )
        if value != default
    }

    async def score(state: TaskState, target: Target) -> Score:
        question = question_of(state, Question)
        reason = (
            CONTRAST if (state.metadata or {}).get("contrast") else None if own else no_proposition(state, question)
        )
        if reason:
            facts = {"epoch": state.epoch, "event": question.event, "domain": question.domain, "reason": reason}
            unread_value: Value = {"prior": np.nan, "posterior": np.nan, "change": np.nan}
            return Score(value=unread_value, explanation=reason, metadata=facts | declaration.requested(figures))
        question = about_own_answer(state, question) if own else question
        elicited = await elicit(state, question, config)
        exact = None if own else question.posterior[-1] if question.posterior else exact_belief(state)
        ends = _ends(elicited)
        unread = [f"{b.stage} ({b.elicitor}): {b.reason}" for b in elicited if b.reason]
        names = list(dict.fromkeys(b.elicitor for b in elicited))
        prior, posterior = ends[names[0]]
        value = {"prior": prior, "posterior": posterior, "change": round(posterior - prior, 4)}
        for name in names[1:]:
            value |= {f"{name}_prior": ends[name][0], f"{name}_posterior": ends[name][1]}
        return Score(
            value=cast(Value, value),
            answer=None if np.isnan(posterior) else f"{posterior:.2f}",
            explanation=_explain(elicited, names, unread, None if own else stated_belief(state)[0], posterior),
            metadata={
                "epoch": state.epoch,
                "event": question.event,
                "domain": question.domain,
                "outcome": None if own else binary_outcome(list(target), question),
                "beliefs": [belief.record() for belief in elicited],
            }
            | ({} if exact is None else {"exact": exact})
            | ({"selected_by_outcome": True} if question.selected_by_outcome else {})
            | declaration.requested(figures)
            | ({"settings": settings} if settings else {})
            | ({"reason": "; ".join(unread)} if unread else {}),
        )

    return score


def roles(elicitor: Elicitor = "self", joint: bool = False, reader: bool = False, **others: object) -> tuple[str, ...]:
    """Model roles that `martingale` needs with these arguments. A task checks them before its first model call."""
    return ElicitationConfig(elicitor=elicitor, joint=joint, reader=reader).roles


def model_calls(
    elicitor: Elicitor = "self",
    joint: bool = False,
    paraphrases: Paraphrases = 1,
    beliefs: Reuse = "reuse",
    **others: object,
) -> tuple[int, int]:
    """Calls of the model and the judge for one answer without steps, which a log does not hold yet."""
    each = {"self": 2, "judge": 3, "token": 4, "both": 5}[elicitor]
    return (0 if beliefs == "recorded" else each + joint + (paraphrases - 1) * (1 + (elicitor == "token"))), 0


def _ends(elicited: list[Belief]) -> dict[str, tuple[float, float]]:
    """Prior and posterior, by elicitor."""
    values = {(b.elicitor, b.stage): np.nan if b.value is None else b.value for b in elicited}
    return {name: (values.get((name, "prior"), np.nan), values.get((name, "posterior"), np.nan)) for name, _ in values}


def _explain(
    elicited: list[Belief], names: list[str], unread: list[str], stated: float | None, posterior: float
) -> str:
    """The belief path as a Markdown table, which the log viewer renders, and what could not be read."""
    cells = {
        (b.elicitor, b.stage): "-"
        if b.value is None
        else f"{100 * b.value:.0f} %{' (read by a model)' * bool(b.read_by)}"
        for b in elicited
    }
    stages = sorted({b.stage for b in elicited if b.stage != "view"}, key=_order)
    lines = [f"| belief | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    lines += [f"| {stage} | {' | '.join(cells.get((name, stage), '') for name in names)} |" for stage in stages]
    paragraphs = ["\n".join(lines), *unread]
    if stated is not None and abs(stated - posterior) > 0.005:
        paragraphs.append(
            f"The answer itself states {stated:.4g}, which `brier` scores. The posterior is a second report, requested "
            "after the answer in the words of the prior, so the two can differ."
        )
    return "\n\n".join(paragraphs)


def _order(stage: str) -> tuple[int, int]:
    return (2, int(stage.split()[1])) if stage.startswith("step") else ({"prior": 0, "prior 2": 1}.get(stage, 3), 0)


DECLARATION = declaration.ScorerDeclaration(
    scorer=martingale,
    question="Can the updates be predicted from the priors?",
    better="0 is rational; above, entrenchment; below, over-correction",
    needs="a probability before and after",
    columns={"prior": "Prior", "posterior": "Posterior", "change": "Change"},
    needs_of_questions=lambda about="proposition", **_: "proposition" if about == "proposition" else "",
    figures=summarise_scores,
    colors={
        "prior": declaration.PROBABILITY,
        "posterior": declaration.PROBABILITY,
        "change": ScoreColorScale(palette="diverging", min=-1, max=1),
    },
    reference=0.0,
    verdicts=VERDICTS,
    reasons={declaration.REASON + name: text for name, text in (REASONS | CANNOT_TELL).items()}
    | {declaration.FLAG + name: text for name, text in FLAGS.items()},
    roles=roles,
    asks_model=lambda **_: True,  # a judge, too, reads its first impression
    calls=model_calls,
)
