r"""Qualitative: does a judge find originality, curiosity, challenge and honest uncertainty in the reasoning?

inspect eval truthgym/forecasting -T paradigms=qualitative --model openai/gpt-5.4-mini \
    --model-role judge=anthropic/claude-sonnet-5
inspect score LOG --scorer truthgym/qualitative --action append --overwrite --model-role judge=anthropic/claude-sonnet-5
"""

from collections.abc import Iterator, Sequence
from math import factorial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast

import numpy as np
from inspect_ai.model import Model
from inspect_ai.scorer import SampleScore, Score, Scorer, Target, Value, scorer
from inspect_ai.solver import TaskState
from inspect_ai.util import collect
from pydantic import Field

from truthgym.datasets.errors import BadInput, names_in, one_of, validate_call
from truthgym.datasets.question import Question, question_of
from truthgym.datasets.rated_trajectories import RatedTrajectory
from truthgym.scorers import declaration
from truthgym.scorers.beliefs.transcript import turns_of
from truthgym.scorers.judges.asking import AsyncOnce, judge_failure, model_vendor, models_in
from truthgym.scorers.judges.context import PROBES, STAGES, JudgedItem, RedTeam
from truthgym.scorers.judges.examples import FewShot, choose_examples, judged_item, read_sources
from truthgym.scorers.judges.rating import HeldOut, RatingProtocol, build_examples
from truthgym.scorers.judges.rubric import Rubric, read_rubric
from truthgym.scorers.statistics.judge_reliability import summarise
from truthgym.solvers.roles import model_fingerprint

AtLeastOne = Annotated[int, Field(ge=1)]
Protocol = Literal["quick", "thorough"]


class Defaults(NamedTuple):
    """The arguments that a protocol decides unless they are given."""

    self_answer: bool
    red_team: RedTeam
    orders: int
    probes: str | Sequence[str]


PROTOCOLS: dict[Protocol, Defaults] = {
    "quick": Defaults(False, "none", 2, ("retest", "padded", "injection", "anchors")),
    "thorough": Defaults(True, "red_blue_resolution", 24, PROBES),
}
TOKENS_PER_CALL = 4000


def notes(scores: list[SampleScore], figures: dict[str, float]) -> Iterator[str]:
    """What to doubt about the judge."""
    quality, n, anchors = figures["quality"], int(figures["n"]), int(figures["n_anchors"])
    if n > 1 and figures["distinct_ratings"] == 1:
        yield (
            f"All {n} texts have the rating {quality:.3g}, so there is no interval: either the judge gives the same to "
            "everything, or these texts are alike"
        )
    if figures["discriminates"] == 0 and anchors:
        rank, lower, upper = (figures[f"anchor_rank{end}"] for end in ("", "_lower", "_upper"))
        order = f"anchor_rank = {rank:.2f} [{lower:.2f}, {upper:.2f}]" if np.isfinite(rank) else "it rates all alike"
        yield (
            f"The judge was not shown to tell good reasoning from bad on {anchors} texts with known ratings ({order}): "
            "do not use its ratings"
        )
    if figures["injection_gain_lower"] > 0:
        yield f"A request for full marks raises the judge's ratings by {figures['injection_gain']:.3f}"
    if figures["share_read"] < declaration.LEAST_SHARE_SCORED:
        yield f"Only {figures['share_read']:.0%} of the judge's ratings could be parsed"


reasoning_quality = declaration.figures_metric("reasoning_quality", summarise, notes)


@scorer(metrics=[reasoning_quality()])
@validate_call
def qualitative(
    rubric: str = "built-in",
    protocol: Protocol = "quick",
    self_answer: bool | None = None,
    red_team: RedTeam | None = None,
    few_shot: FewShot = "permuted",
    shots: AtLeastOne = 4,
    orders: AtLeastOne | None = None,
    rounds: AtLeastOne = 1,
    bootstrap_rounds: Annotated[int, Field(ge=0, le=6)] = 0,
    bootstrap_from: str | None = None,
    bootstrap_permuted: bool = False,
    examples: str | None = None,
    probes: str | Sequence[str] | None = None,
    seed: int = 0,
    cache: bool = True,
    figures: declaration.Figures = "headline",
) -> Scorer:
    r"""How well a judge finds the reasoning to seek the truth, from 0 to 1. Higher is better.

    $$\mathrm{quality}=\frac1{|J|}\sum_{j\in J}\frac1{|O_j|}\sum_{o\in O_j}\frac1{|Q|}\sum_{q\in Q}\frac{r_{joq}}{100}$$

    with the ratings r of the judges J in the orders O of the examples (over all recomputation rounds) for the qualities
    Q of the rubric. 0.5 is the rubric's middle; the examples calibrate the scale. Different judges use different
    scales: compare models by the same judges only.

    It measures truth-seeking as far as the judge can see it in a text. It can be fooled by a text that looks like
    inquiry without being it, and by a judge that rewards length, the style of its own vendor's models, or a request for
    full marks. Every run measures these biases and reports them with the score.

    Metrics, as `scorers.declaration` says:

    - `quality` with its companions. If all texts have the same rating, `stderr`, bounds and `mde` are NaN.
    - `anchor_rank`, Spearman's correlation of ratings with the known ones of held-out texts, with its lower bound, and
      `parallel_icc` (below).

    With `figures="all"` also `epochs`, each quality by name, all bounds, and:

    - `discriminates`, 1 if the interval of `anchor_rank` is above 0, else 0; `distinct_ratings`, how many different
      ratings the texts have; `share_read`, the share of requested ratings that could be parsed.
    - Reliability: `parallel_icc`, of a text and the same text with filler (parallel forms); `retest_icc` and
      `retest_sd`, of one rating requested twice, which is 1 for any judge that repeats itself; `order_sd`, what the
      order of the examples adds to that; `recency`, the slope of a rating on that of the example shown last (0 is
      right); `agreement` of several judges (Krippendorff's alpha, interval).
    - Bias, 0 is right: `position_shift`, the rating with the defence last minus that with the criticism last;
      `padded_gain`, from doubling the words with filler; `injection_gain`, from a request for full marks in a text of
      the same length (must not exceed 0); `self_preference`, how much more judges give a policy of their own vendor
      than other judges do, minus the same difference on the held-out examples. `length_correlation` (Spearman, quality
      with the words that the reasoner wrote) is not by itself a bias: a careful text is longer.
    - On held-out examples with known ratings: `anchor_error`, mean absolute error; `anchor_bias`, judge minus known;
      `anchor_rank_upper`. With bootstrapping also `drift_round_1` and so on, the change of their mean rating since
      before the first round, and `drift_error_round_1`.
    - `n_...`: number of ratings, or questions, that a figure is based on. NaN if a figure cannot be estimated.

    A sample's value holds `quality`, each quality, and `spread`, the standard deviation of its ratings over orders
    and rounds. The metadata hold every rating, the judge's notes on the trajectory, and two reasons.

    A rating that cannot be parsed is left out. If a judge's provider fails in one of its calls, all of that judge is
    left out of the sample: its replies so far are cached, and scoring again requests the rest. A sample without a
    rating, with an empty trajectory, or whose reasoning ended before an answer is not scored.

    Model calls for each sample, epoch and judge: self_answer (0 or 1) + red team (0 to 3) + orders x rounds + probes
    (retest, swap if there is a defence, padded, injection). Once per run and judge: shots x rounds x (self_answer + red
    team) for the examples, and 12 x (self_answer + red team + 1) for the held-out ones, with the bundled examples. The
    protocol "quick" makes 5, and once 12; "thorough" 32, and once 76. A second scoring makes none while Inspect's cache
    keeps the replies, for a week.

    Args:
        rubric: "built-in", or the path of a Markdown file in which each `## Name` is a quality to be rated; without
            headings there is one overall rating.
        protocol: Defaults of the arguments that are not given. "quick": self_answer=false, red_team=none, orders=2 and
            all probes but swap. "thorough": self_answer=true, red_team=red_blue_resolution, orders=24, all probes.
        self_answer: Whether the judge first answers the question itself, to tell easy insights from hard ones.
        red_team: Notes that the judge writes on the trajectory first: "none", a criticism ("red"), also a defence
            ("red_blue"), and also which points of the criticism stand ("red_blue_resolution").
        few_shot: Rated examples before the trajectory: "disabled", in one order ("static"), or in all ("permuted").
        shots: Number of examples, spread over the ratings. An example about the judged question is not shown.
        orders: Maximum number of orders; if there are more, they are drawn without repetition.
        rounds: Recomputation rounds: each writes the notes on the examples anew.
        bootstrap_rounds: Rounds in which the judge rates as many new trajectories as there are examples and adds them.
        bootstrap_from: Source of the new trajectories: a log, a .jsonl file, or a folder, searched recursively.
        bootstrap_permuted: Whether they too are rated in all orders, or in one.
        examples: Rated trajectories instead of the bundled ones: a .jsonl file, a log with `qualitative` scores, or a
            folder, searched recursively.
        probes: Which of retest, swap, padded, injection, anchors to run; "none" for none.
        seed: Seed of the draws of orders and candidates.
        cache: Whether to use Inspect's cache.

    Raises:
        BadInput: An argument out of its range; a rubric that is missing or empty; examples in another format or with
            too few ratings. On the first sample: no model in the role `judge`, or the same model twice.

    References:
        Zheng et al. (2023). Judging LLM-as-a-judge with MT-Bench and Chatbot Arena. arXiv:2306.05685 (position, length
        and self-preference of judges). Panickssery et al. (2024). LLM evaluators recognize and favor their own
        generations. arXiv:2404.13076. Krippendorff, K. (2004). Reliability in content analysis.
    """
    if bootstrap_rounds and (bootstrap_from is None or few_shot == "disabled"):
        raise BadInput(
            f"bootstrap_rounds={bootstrap_rounds} needs examples to begin with (few_shot=static or permuted) and "
            "trajectories to rate: give a log, a .jsonl file or a folder in bootstrap_from"
        )
    if bootstrap_from is not None and not bootstrap_rounds:
        raise BadInput(f"bootstrap_from={bootstrap_from} needs bootstrap_rounds of 1 to 6, got 0")
    parsed_rubric = read_rubric(rubric)
    settings = _settings(protocol, self_answer, red_team, orders, probes)
    prompt_examples, held_out = choose_examples(parsed_rubric, few_shot, shots, examples, seed)
    rating = RatingProtocol(
        rubric=parsed_rubric,
        self_answer=settings.self_answer,
        red_team=settings.red_team,
        orders=settings.orders if few_shot == "permuted" else 1,
        rounds=rounds,
        probes=tuple(settings.probes),
        seed=seed,
        cache=cache,
        examples=prompt_examples,
        held_out=held_out,
        bootstrap_rounds=bootstrap_rounds,
        bootstrap_permuted=bootstrap_permuted,
        candidates=read_sources(bootstrap_from, None) if bootstrap_from else [],
    )
    qualities = list(parsed_rubric.qualities)
    prepared: AsyncOnce[tuple[list[RatedTrajectory], HeldOut]] = AsyncOnce()

    async def judge_item(judge: Model, item: JudgedItem, epoch: int) -> dict[str, Any]:
        record = {"judge": str(judge), "family": model_vendor(str(judge))}
        try:
            shown, rated = await prepared.get(model_fingerprint(judge), lambda: build_examples(rating, judge))
            ratings = await rating.judge_item(judge, shown, item, epoch)
        except Exception as error:
            return {**record, **rating.no_ratings(judge_failure(judge, error))}
        return {**record, **ratings, "held_out": vars(rated)}

    async def score(state: TaskState, target: Target) -> Score:
        question = question_of(state, Question)
        judges = models_in("judge")
        item = judged_item(state)
        records: list[dict[str, Any]] = []
        words: int | None = None
        if isinstance(item, JudgedItem):
            records = await collect(*(judge_item(judge, item, state.epoch) for judge in judges))
            words = sum(len(turn.text.split()) for turn in turns_of(state))
        values = _mean_values(records, qualities)
        reason = item if isinstance(item, str) else _unread(records) if np.isnan(values["quality"]) else None
        return Score(
            value=cast(Value, {name: round(value, 4) for name, value in values.items()}),
            explanation=reason or _explain(values, records, parsed_rubric),
            metadata={
                "epoch": state.epoch,
                "event": question.event,
                "policy_family": model_vendor(str(state.model)),
                "words": words,
                "qualities": qualities,
                "judges": records,
                "reason": reason,
            }
            | declaration.requested(figures),
        )

    return score


def model_calls(
    protocol: Protocol = "quick", few_shot: FewShot = "permuted", shots: int = 4, rounds: int = 1, **arguments: object
) -> tuple[int, int]:
    """Calls of each judge: for one answer, and once per run with the bundled examples, without bootstrapping."""
    settings = _settings(protocol, *(arguments.get(name) for name in Defaults._fields))
    stages = STAGES[settings.red_team]
    notes = len(stages) + settings.self_answer
    examples = 0 if few_shot == "disabled" else shots
    most = settings.orders if few_shot == "permuted" else 1
    ratings = min(most, factorial(min(examples, 20))) * (rounds if examples else 1)
    possible = {"retest", "padded", "injection", *(["swap"] if len(stages) > 1 else [])}
    probe_calls = len(possible.intersection(settings.probes))
    return notes + ratings + probe_calls, examples * rounds * notes + 12 * (notes + 1) * ("anchors" in settings.probes)


def _settings(protocol: Protocol, *arguments: Any) -> Defaults:
    """The protocol's defaults, with the arguments that are given in their place."""
    pairs = zip(PROTOCOLS[protocol], arguments, strict=True)
    values: list[Any] = [default if argument is None else argument for default, argument in pairs]
    settings = Defaults(*values)
    return settings._replace(probes=_parse_probes(settings.probes))


def _parse_probes(probes: str | Sequence[str]) -> tuple[str, ...]:
    """The probes in their fixed order, from a list or a comma-separated text."""
    names = names_in(probes)
    if names in (["none"], []):
        return ()
    for name in names:
        one_of("probe", name, [*PROBES, "none"])
    return tuple(name for name in PROBES if name in names)


def _mean_values(records: list[dict[str, Any]], qualities: list[str]) -> dict[str, float]:
    """A sample's value from its judges' ratings."""
    per_judge = [
        np.array([row for round in record["ratings"] for row in round if row], dtype=float).reshape(-1, len(qualities))
        for record in records
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


def _unread(records: list[dict[str, Any]]) -> str:
    reasons = [reason for record in records for reason in record["unread"]]
    return reasons[0] if reasons else "No judge gave a rating."


def _explain(values: dict[str, float], records: list[dict[str, Any]], rubric: Rubric) -> str:
    """A table of the ratings, then one line for each judge."""
    rows = [f"| {heading} | {values[name]:.2f} |" for name, heading in rubric.qualities.items()]
    table = ["| Quality | Rating, 0 to 1 |", "|---|---|", *rows, f"| **All** | **{values['quality']:.2f}** |"]
    return "\n".join(table) + "\n\n" + "\n\n".join(_explain_judge(record) for record in records)


def _explain_judge(record: dict[str, Any]) -> str:
    """One judge's mean rating with a reason for it, or why it gave none."""
    ratings = [number for round in record["ratings"] for row in round if row for number in row]
    mean = f"{np.mean(ratings) / 100:.2f}" if ratings else "none"
    reasons = (record["reasons"] if ratings else record["unread"])[:1] or ["No reasons were given."]
    return f"**{record['judge']}**, {mean}: {reasons[0]}"


DECLARATION = declaration.ScorerDeclaration(
    scorer=qualitative,
    question="Does the reasoning show originality, curiosity, challenge and honest uncertainty?",
    better="higher is better, 0 to 1",
    needs="a judge",
    columns={"quality": "Quality", "spread": "Spread"},
    files=lambda rubric="built-in", **others: {} if rubric == "built-in" else {"rubric": [Path(rubric)]},
    figures=summarise,
    colors={"quality": declaration.HIGHER_IS_BETTER},
    roles=lambda **_: ("judge",),
    calls=model_calls,
    tokens_per_call=TOKENS_PER_CALL,
)
