"""What a scorer declares for tasks, viewer and training, and what all scorers share: their metric, and what it holds.

Metrics begin with the estimate and its companions: `stderr`; 95 % bounds (`_lower`, `_upper`); `mde`, the smallest
distance from a fixed reference that the run could have detected (5 %, power 0.8); `n` questions; and `share_scored`,
the share of answers that could be scored, of those that reached the scorer (a sample that failed is an error, which
Inspect counts). Epochs of a question are averaged first, and bounds are clustered by `event`: questions about one event
resolve together. What cannot be scored is NaN under every key of the sample's value, with the `reason` in the metadata,
never 0. The means leave it out, and with a `share_scored` below 0.9 the log warns. Where beliefs are read,
`share_repaired` and `share_read_by_model` are the shares of those that were read after a repair, and by the `reader`
role; the first stands behind `share_scored` where it is above 5 %.

Args:
    figures: "headline" writes the first ten metrics to the log, "all" every one. Old logs can be scored again.
    reader: Whether the role `reader` reads replies that are not in a form that Truthgym reads: `--model-role
        reader=MODEL`. What it reads is marked in the metadata.
    repair: How often a reply that cannot be read is asked for again, in the same conversation: once, or 0. Refusals are
        not asked again. What was read after a repair is marked in the metadata (`repaired`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from logging import getLogger
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import rich
from inspect_ai.scorer import Metric, SampleScore, Scorer, Value, metric
from inspect_ai.util import display_type, sample_limits
from inspect_ai.viewer import ScoreColorScale

from truthgym.datasets.inspect_private import active_model
from truthgym.scorers.statistics.interval import MIN_CLUSTERS

logger = getLogger(__name__)

Figures = Literal["headline", "all"]
"""The argument `figures` of every scorer: at most ten figures in the log's results, or all of them."""
MAX_FIGURES = 10
FEW_QUESTIONS = 30
"""With fewer questions a log gets a warning with its estimate."""
FEW_CLUSTERS = 10
"""The same for the effective number of independent clusters of questions."""
LEAST_SHARE_SCORED = 0.9
"""With a smaller share of scored answers a log gets a warning: those that are left out may differ from the rest."""
NOTABLE_REPAIRS = 0.05
"""With a larger share of beliefs that needed a repair a scorer reports that share, and a log gets a warning."""
Summarise = Callable[[list[SampleScore]], dict[str, float]]
Notes = Callable[[list[SampleScore], dict[str, float]], Iterable[str]]
REASON = "reason_"
"""Before the name of a metric that is 1 where there is no score or no verdict: why there is none."""
FLAG = "flag_"
"""Before the name of a metric that is 1 where a score or a verdict stands, but may mislead: what to doubt about it."""

PROBABILITY = ScoreColorScale(palette="neutral", min=0, max=1)
"""Colours of a belief in [0, 1], where neither end is better."""
LOWER_IS_BETTER = ScoreColorScale(palette="good-low", min=0, max=1)
HIGHER_IS_BETTER = ScoreColorScale(palette="good-high", min=0, max=1)


def figures_metric(
    name: str,
    summarise: Summarise,
    notes: Notes = lambda scores, figures: (),
    finding: Callable[[list[SampleScore], dict[str, float]], str] = lambda scores, figures: "",
) -> Callable[[], Metric]:
    """Make the metric of a scorer: its figures, the estimate first, and only the first ten unless all were requested.

    Once a run is complete it also says in a sentence or two what was found, how sure it is, and what to do next.
    """

    @metric(name=name, scores="unreduced")
    def create() -> Metric:
        def compute(scores: list[SampleScore]) -> Value:
            figures = summarise(scores)
            if scores and not _in_a_sample():
                said = [*_general_notes(scores, figures), *notes(scores, figures)]
                tell(f"{_run_of(scores)}: {finding(scores, figures) or _estimate_in_words(figures)} {_next(said)}")
                for note in said[1:]:
                    logger.info(note)
            every = any((item.score.metadata or {}).get("figures") == "all" for item in scores)
            return cast(Value, dict(islice(figures.items(), None if every else MAX_FIGURES)))

        return compute

    return create


def tell(message: str, quietly: Callable[[str], None] = logger.info) -> None:
    """Print a message in the full width of the terminal; with `--display log` or `none` say it `quietly`."""
    if display_type() in ("log", "none"):
        quietly(message)
    else:
        rich.get_console().print(message, markup=False, highlight=False)


def _run_of(scores: list[SampleScore]) -> str:
    """The domain and the model of a run."""
    domains = {str((item.sample_metadata or {}).get("domain", "")) for item in scores}
    return ", ".join(filter(None, [domains.pop() if len(domains) == 1 else "", str(active_model() or "")]))


def _estimate_in_words(figures: Mapping[str, float]) -> str:
    name = next(iter(figures))
    if np.isnan(figures[name]):
        return f"{name}: no score."
    return f"{with_bounds(name, figures)} on {figures['n']:,.0f} questions."


def with_bounds(key: str, figures: Mapping[str, float]) -> str:
    """A figure by its name, with its interval if it has one."""
    ends = [figures.get(f"{key}_{end}", np.nan) for end in ("lower", "upper")]
    return f"{key} {figures[key]:.3f}" + (f" [{ends[0]:.3f}, {ends[1]:.3f}]" if np.isfinite(ends).all() else "")


def _next(notes: Sequence[str]) -> str:
    """What to do next: the remedy of the first note, with the number of the others."""
    if not notes:
        return "Next: the same questions with another model or mode, then truthgym compare."
    more = f" {len(notes) - 1} more with --log-level info." if notes[1:] else ""
    return f"{notes[0].rstrip('.')}.{more}"


def requested(figures: Figures) -> dict[str, Any]:
    """The metadata from which the metric knows that all figures are requested. The default adds nothing to a log."""
    return {"figures": figures} if figures == "all" else {}


def with_repairs(figures: dict[str, float], shares: dict[str, float]) -> dict[str, float]:
    """A scorer's figures and these shares, that of repairs behind the share scored where it is worth a look."""
    if not shares["share_repaired"] > NOTABLE_REPAIRS:
        return figures | shares
    place = list(figures).index("share_scored") + 1
    repaired = {"share_repaired": shares["share_repaired"]}
    return dict(list(figures.items())[:place]) | repaired | figures | shares


def verdict_sentence(
    name: str,
    figures: Mapping[str, float],
    verdicts: Mapping[float, str],
    reasons: Mapping[str, str],
    shown: Sequence[str] = (),
) -> str:
    """The verdict in one sentence: its meaning, or why there is none, and the figures that are `shown` beside it."""
    code = figures.get("verdict", np.nan)
    why = next((key.removeprefix(REASON) for key in figures if key.startswith(REASON)), None)
    if code not in verdicts and why is None:
        return ""
    beside = [with_bounds(key, figures) for key in shown if np.isfinite(figures.get(key, np.nan))]
    no_score = ", and there is no score" if np.isnan(next(iter(figures.values()))) else ""
    meaning = verdicts[code] if code in verdicts else f"cannot tell{no_score}, because {reasons[str(why)]}"
    questions = f"n = {figures['n']:,.0f}"
    return f"{name} verdict: {meaning} ({', '.join([*beside, questions])})."


def _general_notes(scores: list[SampleScore], figures: dict[str, float]) -> Iterable[str]:
    name, n, share = next(iter(figures)), int(figures["n"]), figures["share_scored"]
    reasons = ((item.score.metadata or {}).get("reason") for item in scores)
    reason = next(filter(None, reasons), "The samples' scores hold the reasons.")
    if share == 0:
        yield f"{name}: none of the {len(scores)} answers could be read, so there is no score. The first: {reason}"
    elif share < LEAST_SHARE_SCORED:
        imputed = f"{name}_imputed"
        remedy = f"read {imputed} = {figures[imputed]:.3g}" if imputed in figures else "compare it with no other run"
        yield (
            f"{name} = {figures[name]:.3g} is of those {round(share * len(scores))} of {len(scores)} answers "
            f"({share:.0%}) that could be scored, and the rest may be harder: {remedy}. The first left out: {reason}"
        )
    if (repaired := figures.get("share_repaired", 0)) > NOTABLE_REPAIRS:
        yield (
            f"{name}: {repaired:.0%} of the beliefs could be read only after the model was asked again "
            "(share_repaired); compare it with no run in which other shares were"
        )
    effective = figures.get("effective_clusters", np.inf)
    if n >= FEW_QUESTIONS and effective < FEW_CLUSTERS:
        shared = figures["clusters"] < n
        why = "many share an event and resolve together" if shared else "a few of them dominate"
        yield (
            f"{name}: the interval rests on about {effective:.1f} independent observations, not on {n}, because {why}"
            f"{', so there is none' if effective < MIN_CLUSTERS else ''}; ask "
            f"{'about more events' if shared else 'questions whose priors differ more'}"
        )
    if 0 < n < FEW_QUESTIONS:
        few = f"{n} question{'s' if n > 1 else ''}"
        yield (
            f"{name}: {few} cannot support a conclusion; ask 100 or more"
            if np.isnan(figures["mde"])
            else (
                f"{name} = {figures[name]:.3g} is from only {few}: do not conclude anything from it. "
                f"The smallest effect that this run could detect (mde) is {figures['mde']:.2g}; ask 100 or more"
            )
        )


def _in_a_sample() -> bool:
    """Whether a sample is running: Inspect also computes metrics as each sample ends, to show them during a run."""
    try:
        sample_limits()
    except RuntimeError:
        return False
    return True


@dataclass(frozen=True)
class ScorerDeclaration:
    """A scorer with what the tasks, the log viewer and training must know of it. Each scorer's file ends with one.

    Which end of a sample's values is better stands in `statistics/direction.py`, which training reads without Inspect.
    """

    scorer: Callable[..., Scorer]
    question: str
    """What it asks of the model, for the table in docs/measures.md."""
    better: str
    """How to read its estimate: which direction is better, and a reference value."""
    needs: str
    """What it needs besides answers: "" for nothing."""
    columns: Mapping[str, str]
    """Columns of the viewer's sample list: keys of `Score.value`, in order, with their headers."""
    figures: Summarise
    """From unreduced scores to all figures, the estimate first, for readers of logs that hold only ten."""
    colors: Mapping[str, ScoreColorScale] = field(default_factory=dict)
    reference: float | None = None
    """The value with which the estimate is compared. None: there is none."""
    verdicts: Mapping[float, str] = field(default_factory=dict)
    """Legend of the metric `verdict`: a short name, a colon, what it means. Empty if it gives none.

    0 is shown to have no fault, NaN is "cannot tell", and every other code means the same in all scorers: those of
    `martingale` are 1 and -1, of `sycophantic_reasoning` 11 to 19 and 141 to 189, of `value_influence` 21 to 29, of
    `world_uplift` 31 to 39.
    """
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Legend of the metrics `REASON` and `FLAG`, by their whole name."""
    show_answer: bool = False
    """Whether the sample list also shows `Score.answer`."""
    forecasting_roles: tuple[str, ...] = ()
    """Those of its roles whose one model must give the log-probability of a given reply."""
    one_model_per_role: bool = False
    """Whether several models in one of its roles are an error."""
    tokens_per_call: int = 500
    """Rough number of tokens read and written in one call."""

    # What depends on the scorer's arguments, which each of these takes as keywords.
    roles: Callable[..., tuple[str, ...]] = lambda **arguments: ()
    asks_model: Callable[..., bool] = lambda **arguments: False
    """Whether it needs the evaluated model itself, or what a log holds of its replies to the scorer."""
    calls: Callable[..., tuple[int, int]] = lambda **arguments: (0, 0)
    """Its model calls for one answer, and once per run: those of each judge, if there are several."""
    files: Callable[..., Mapping[str, Sequence[Path]]] = lambda **arguments: {}
    """The files and folders that each argument names."""
    needs_of_questions: Callable[..., Literal["", "proposition", "outcome"]] = lambda **arguments: ""
    """What a question must have to be scored."""
    needs_sandbox: Callable[..., bool] = lambda **arguments: False
    """Whether it runs code that a sandbox must isolate."""

    def cost(self, answers: int, **arguments: object) -> tuple[int, int]:
        """Estimate the model calls and tokens of scoring so many answers, with one model in each role."""
        each, once = self.calls(**arguments)
        total = each * answers + once
        return total, total * self.tokens_per_call

    def verdict_in_words(self, figures: Mapping[str, float]) -> str:
        """The verdict of a run in one sentence, or why there is none; "" where its figures hold neither."""
        reasons = {key.removeprefix(REASON): text for key, text in self.reasons.items()}
        shown = tuple(figures)[:1]
        return verdict_sentence(self.name.capitalize(), figures, self.verdicts, reasons, shown)

    @property
    def name(self) -> str:
        """The name in `-T paradigms=` and, behind `truthgym/`, in Inspect's registry."""
        return str(self.scorer.__name__)
