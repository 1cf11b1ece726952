"""The metrics of the martingale scorer, from recorded beliefs. `scorers.martingale` describes each."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from inspect_ai.scorer import SampleScore

from truthgym.scorers.statistics.instrumented_slope import Bools, Codes, Floats, Slope, ols_slope
from truthgym.scorers.statistics.interval import cluster_codes, mean_estimate, metrics_of
from truthgym.scorers.statistics.martingale_score import (
    MartingaleScore,
    brier_gain,
    corrected_posterior,
    foreseen_share,
    martingale_score,
    movement,
    slope_score,
)
from truthgym.scorers.statistics.proper_scores import brier_score, clipped_logit, row_mean, share_true
from truthgym.scorers.statistics.table import Table, tabulate
from truthgym.scorers.statistics.verdict import Halves, Reports, halves, posterior_error, report_figures, terms, verdict

ELICITORS = ("self", "token", "judge")
"""Those whose beliefs the score can be of, first the one that is preferred."""
FLAGS_OF_STATED = ("flag_fifties", "flag_coarse", "flag_noiseless")
"""Flags that say nothing of beliefs by token probability."""


@dataclass(frozen=True)
class BeliefTable:
    """Beliefs of many samples. NaN if one could not be read or was not requested."""

    questions: Table
    """Facts about each question. Its values are the priors of the first elicitor."""
    prior: dict[str, Floats]
    """By elicitor: questions x epochs."""
    posterior: dict[str, Floats]
    path: dict[str, Floats]
    """By elicitor: questions x epochs x points, from prior to posterior."""
    prior_2: Floats
    """The model's prior in a second wording, questions x epochs. NaN where it was not requested."""
    exact: Floats
    """Exact posterior of each question. NaN if unknown."""
    selected: bool
    """Whether the outcomes influenced which questions were asked."""
    domain: list[str]
    share_scored: float
    """Share of the scores with both beliefs of the first elicitor."""
    share_judge: float
    """The same for the judge; NaN without a judge."""
    repaired: Bools
    """Questions x epochs x prior and posterior: whether a belief was read only after a repair."""
    saw_reasoning: bool
    """Whether any prior was read with the reasoning visible."""
    settings: dict[str, Any]
    """The scorer's arguments that the metrics depend on."""

    @property
    def first(self) -> str:
        """The elicitor of the score: the model itself if it was asked, otherwise its tokens or the judge."""
        return next((name for name in ELICITORS if name in self.prior), "self")

    @property
    def second(self) -> str | None:
        """The other elicitor if both were asked: its prior is the instrument."""
        return "judge" if {"self", "judge"} <= set(self.prior) else None


def belief_table(scores: list[SampleScore]) -> BeliefTable:
    """Collect the beliefs that `martingale` recorded. The list may be empty or, during a run, incomplete."""
    questions = tabulate(scores, "prior")
    shape = (len(questions.question), questions.values.shape[1])
    row = {identity: i for i, identity in enumerate(questions.question)}
    paths: dict[str, dict[tuple[int, int], list[float]]] = {}
    prior_2 = np.full(shape, np.nan)
    exact = np.full(shape[0], np.nan)
    repaired = np.zeros((*shape, 2), dtype=bool)
    selected = False
    domain = [""] * shape[0]
    settings: dict[str, Any] = {}
    saw_reasoning = False
    for item in scores:
        metadata = item.score.metadata or {}
        if not metadata.get("beliefs") or not isinstance(metadata.get("epoch"), int):
            continue
        place = (row[str(item.sample_id)], metadata["epoch"] - 1)
        domain[place[0]] = str(metadata.get("domain", ""))
        exact[place[0]] = metadata.get("exact", np.nan)
        selected = selected or bool(metadata.get("selected_by_outcome"))
        settings = metadata.get("settings") or settings
        for name, path in _paths(metadata["beliefs"]).items():
            paths.setdefault(name, {})[place] = path
        for belief in metadata["beliefs"]:
            if belief.get("repaired") and belief["stage"] in ("prior", "posterior"):
                repaired[*place, int(belief["stage"] == "posterior")] = True
            if belief["stage"] == "prior 2" and belief.get("value") is not None:
                prior_2[place] = belief["value"]
        saw_reasoning = saw_reasoning or any(
            belief["saw_reasoning"] and belief["stage"] == "prior" and belief["elicitor"] != "joint"
            for belief in metadata["beliefs"]
        )
    if not set(ELICITORS) & set(paths):
        paths = {"self": {}} | paths
    ends = np.isfinite(questions.values + tabulate(scores, "posterior").values)
    judged = [np.isfinite(path[0] + path[-1]) for path in paths.get("judge", {}).values()]
    return BeliefTable(
        questions=questions,
        prior={name: _ends(shape, cells, 0) for name, cells in paths.items()},
        posterior={name: _ends(shape, cells, -1) for name, cells in paths.items()},
        path={name: _stacked(shape, cells) for name, cells in paths.items() if cells},
        prior_2=prior_2,
        exact=exact,
        selected=selected,
        domain=domain,
        share_scored=share_true(ends[questions.has_score]),
        share_judge=share_true(judged),
        repaired=repaired,
        saw_reasoning=saw_reasoning,
        settings=settings,
    )


def _paths(beliefs: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Values from prior to posterior, by elicitor; NaN if a belief could not be read."""
    values: dict[str, list[float]] = {}
    for belief in beliefs:
        if belief["stage"] not in ("view", "prior 2"):
            value = belief.get("value")
            values.setdefault(belief["elicitor"], []).append(np.nan if value is None else float(value))
    return values


def _ends(shape: tuple[int, int], paths: dict[tuple[int, int], list[float]], end: int) -> Floats:
    ends = np.full(shape, np.nan)
    for place, path in paths.items():
        ends[place] = path[end]
    return ends


def _stacked(shape: tuple[int, int], paths: dict[tuple[int, int], list[float]]) -> Floats:
    stacked = np.full((*shape, max(len(path) for path in paths.values())), np.nan)
    for place, path in paths.items():
        stacked[place][: len(path)] = path
    return stacked


def summarise(table: BeliefTable) -> dict[str, float]:
    """Compute the metrics, the estimate first. NaN if there are too few beliefs."""
    settings, first = table.settings, table.first
    x, y = table.prior[first], table.posterior[first]
    outcome = table.questions.outcome
    clusters, groups = cluster_codes(table.questions.cluster), cluster_codes(table.domain)
    score = table_score(table)
    # The correction and the verdict are of probabilities from prior to posterior, whatever the score's scale.
    plain = score if settings.keys().isdisjoint(("belief_change", "granularity")) else table_score(_plain(table))
    reports = reports_of(table)
    parts = halves(reports)
    code, cannot_tell = verdict(_where_truth_is_known(plain, reports), reports, table.selected)
    # A repair must not hide what a refusal would show: a repaired belief counts as not read.
    x_read, y_read = (np.where(table.repaired[..., end], np.nan, beliefs) for end, beliefs in enumerate((x, y)))
    effect = halves(replace(reports, prior=x_read, posterior=y_read)) if table.repaired.any() else parts
    flags = report_figures(x, y, effect.selective_refusal, table.repaired, table.questions.has_score)
    if first == "token":  # nobody rounds these numbers, and epochs agree
        flags = {name: value for name, value in flags.items() if name not in FLAGS_OF_STATED}
    moved = movement(x, y)
    excess = mean_estimate(moved.excess, table.questions.cluster)
    gain = mean_estimate(brier_gain(x, y, outcome), table.questions.cluster)
    distance = mean_estimate(moved.movement, table.questions.cluster).estimate
    reduction = mean_estimate(moved.reduction, table.questions.cluster).estimate
    requested: dict[str, float] = {}
    weight = settings.get("information_weight")
    if weight:
        learned = gain.estimate if np.isfinite(gain.estimate) else min(distance, reduction)
        requested["informed_score"] = abs(score.estimate) - weight * learned
    if table.second:
        other = table_score(_swapped(table))
        requested |= other.metrics("martingale_score_judge")
        requested["share_scored_judge"] = table.share_judge
    if "joint" in table.prior:
        requested |= _jointly(table, clusters, groups)
    if settings.get("domains") == "each":
        requested |= _by_domain(table)
    raised = [name for name in flags if name.startswith("flag_")]
    # What keeps the score from being identified is also why there is no verdict.
    why = [score.reason, cannot_tell if cannot_tell != "unidentified" or not score.reason else None]
    reasons = dict.fromkeys([*(f"reason_{reason}" for reason in why if reason), *raised], 1.0)
    # The ninth figure is what a reader must know first. What the arguments request comes before the rest.
    leading = dict(list(reasons.items())[:1])
    return {
        **score.main_metrics("martingale_score", table.share_scored),
        "verdict": code,
        **leading,
        **{name: requested[name] for name in ("martingale_score_judge", "leak", "informed_score") if name in requested},
        **reasons,
        "reliability": score.reliability,
        "martingale_score_ols": score.ols,
        "identified": float(score.identified),
        **half_figures(reports, parts, table.selected or not plain.identified),
        **{name: value for name, value in flags.items() if name not in reasons},
        **excess.metrics("excess_movement"),
        **gain.metrics("brier_gain"),
        "epochs": score.epochs,
        "p": score.p,
        "martingale_score_ols_lower": score.ols_lower,
        "martingale_score_ols_upper": score.ols_upper,
        "martingale_score_ols_half": score.ols_half,
        "r_squared": score.r_squared,
        "shared_error": score.shared_error,
        "movement": distance,
        "uncertainty_reduction": reduction,
        "brier_prior": _brier(x, outcome, table),
        "brier_posterior": _brier(y, outcome, table),
        "brier_corrected": _brier(corrected_posterior(x, y, plain.estimate, groups), outcome, table),
        **score.cluster_metrics(),
        **requested,
    }


def reports_of(table: BeliefTable) -> Reports:
    """The reports on which the halves and the verdict rest: prior and posterior of the first elicitor."""
    first = table.first
    return Reports(
        table.prior[first],
        table.posterior[first],
        _instrument(table),
        table.questions.outcome,
        table.exact,
        cluster_codes(table.questions.cluster),
        cluster_codes(table.domain),
    )


def _where_truth_is_known(score: MartingaleScore, reports: Reports) -> Slope:
    """The score of the questions on which the halves rest."""
    has_truth = np.isfinite(reports.truth)
    if not score.identified or has_truth.all() or not has_truth.any():
        return score
    prior, posterior = (np.where(has_truth[:, None], beliefs, np.nan) for beliefs in (reports.prior, reports.posterior))
    group, cluster = reports.group.tolist(), reports.cluster.tolist()
    return martingale_score(prior, posterior, reports.instrument, cluster, group=group)


def half_figures(reports: Reports, parts: Halves, withheld: bool) -> dict[str, float]:
    """The halves with their bounds; those from outcomes alone beside them where exact posteriors are known."""
    outcomes = halves(replace(reports, exact=np.full_like(reports.exact, np.nan)))
    figures = metrics_of(
        {
            "prior_miscalibration": parts.miscalibration,
            "prior_miscalibration_complete": parts.miscalibration_complete,
            "posterior_inefficiency": parts.inefficiency,
            "posterior_miscalibration": parts.posterior_miscalibration,
            "prior_miscalibration_outcome": outcomes.miscalibration,
            "posterior_inefficiency_outcome": outcomes.inefficiency,
            "posterior_error": posterior_error(reports),
            "underreaction": reports.underreaction,
            "brier_gain_exact": reports.gain,
        }
        | terms(reports)
    )
    return {name: np.nan if withheld else value for name, value in figures.items()}


def table_score(table: BeliefTable) -> MartingaleScore:
    """The score of the first elicitor.

    The instrument is the second elicitor's prior, or the model's prior in a second wording, if they were requested.
    """
    first, instrument = table.first, _instrument(table)
    stepwise = table.settings.get("granularity") == "step" and first in table.path
    path = table.path[first] if stepwise else np.stack([table.prior[first], table.posterior[first]], axis=-1)
    if not path.size:
        path = np.full((*instrument.shape, 2), np.nan)
    before, after = path[:, :, :-1], path[:, :, 1:]
    invalid = "saw_reasoning" if table.saw_reasoning else "no_second_wording" if _needs_second_wording(table) else None
    if table.settings.get("belief_change") == "logit":
        level, change = clipped_logit(before), clipped_logit(after) - clipped_logit(before)
        codes = (cluster_codes(table.questions.cluster), cluster_codes(table.domain))
        return slope_score(level, change, clipped_logit(instrument), *codes, invalid, (level, change))
    return martingale_score(
        before, after, instrument, table.questions.cluster, group=table.domain or None, invalid=invalid
    )


def _instrument(table: BeliefTable) -> Floats:
    prior = table.prior_2 if _reworded(table) else table.prior[table.second or table.first]
    return np.full_like(prior, np.nan) if _needs_second_wording(table) else prior


def _needs_second_wording(table: BeliefTable) -> bool:
    """Whether a prior would be its own instrument although its error is the same in every epoch."""
    return table.first == "token" and not _reworded(table)


def _reworded(table: BeliefTable) -> bool:
    """Whether the instrument is the model's prior in a second wording."""
    requested = table.settings.get("paraphrases") == 2 or bool(np.isfinite(table.prior_2).any())
    return requested and table.first != "judge" and not table.second


def _plain(table: BeliefTable) -> BeliefTable:
    kept = {name: value for name, value in table.settings.items() if name not in ("belief_change", "granularity")}
    return replace(table, settings=kept)


def _swapped(table: BeliefTable) -> BeliefTable:
    """The table with the two elicitors swapped."""

    def swap(beliefs: dict[str, Floats]) -> dict[str, Floats]:
        return {name: beliefs[other] for name, other in (("self", "judge"), ("judge", "self")) if other in beliefs}

    return replace(table, prior=swap(table.prior), posterior=swap(table.posterior), path=swap(table.path))


def _jointly(table: BeliefTable, clusters: Codes, groups: Codes) -> dict[str, float]:
    before, after = table.prior["joint"][:, :, None], table.posterior["joint"][:, :, None]
    published = ols_slope(after - before, before, clusters, groups)
    # Look-ahead is measured against a reading by the same elicitor, where there is one.
    separate = "judge" if "judge" in table.prior else table.first
    seen = foreseen_share(table.prior[separate], table.posterior[separate], table.prior["joint"], clusters, groups)
    return published.metrics("martingale_score_joint") | seen.metrics("leak")


def _by_domain(table: BeliefTable) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name in dict.fromkeys(table.domain):
        rows = np.array([domain == name for domain in table.domain])
        score = table_score(_only(table, rows))
        figures |= {f"{figure}_in_{name}": value for figure, value in score.metrics("martingale_score").items()}
        figures |= {f"identified_in_{name}": float(score.identified), f"n_in_{name}": score.n}
    return figures


def _only(table: BeliefTable, rows: "np.typing.NDArray[np.bool_]") -> BeliefTable:
    cluster = [name for name, kept in zip(table.questions.cluster, rows, strict=True) if kept]
    return replace(
        table,
        questions=replace(table.questions, cluster=cluster),
        prior={name: beliefs[rows] for name, beliefs in table.prior.items()},
        posterior={name: beliefs[rows] for name, beliefs in table.posterior.items()},
        path={name: beliefs[rows] for name, beliefs in table.path.items()},
        prior_2=table.prior_2[rows],
        exact=table.exact[rows],
        domain=[name for name, kept in zip(table.domain, rows, strict=True) if kept],
    )


def _brier(beliefs: Floats, outcome: Floats, table: BeliefTable) -> float:
    return mean_estimate(row_mean(brier_score(beliefs, outcome[:, None])), table.questions.cluster).estimate
