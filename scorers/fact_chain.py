"""Fact chain: how many hops of a chain are right, what share of hops goes wrong, and does that grow along the chain?

inspect eval truthgym/fact_chains --model reference/walker -M slip=0.1
inspect score LOG --scorer truthgym/fact_chain -S figures=all
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from inspect_ai.scorer import SampleScore, Score, Scorer, Target, scorer
from inspect_ai.solver import TaskState
from numpy.typing import NDArray

from truthgym.datasets.agent_worlds import Call
from truthgym.datasets.errors import validate_call
from truthgym.datasets.fact_chains import ChainQuestion
from truthgym.datasets.question import question_of
from truthgym.scorers.agent_answer import is_right, read_answer
from truthgym.scorers.declaration import FLAG, HIGHER_IS_BETTER, Figures, ScorerDeclaration, figures_metric, requested
from truthgym.scorers.statistics.interval import UNKNOWN, Estimate, clopper_pearson, mean_estimate, ratio_estimate
from truthgym.scorers.statistics.proper_scores import finite_mean, row_mean
from truthgym.scorers.statistics.table import tabulate
from truthgym.solvers.agent_tools.tools import recorded_calls

EARLY = 4
CHAINS_DIFFER = (
    "the first hop goes wrong more often than the others: chains differ, or hops get easier. Chains with many errors "
    "end early and count less in hop_error; hop_error_first, which figures=all has, counts each chain once"
)


def hops_right(question: ChainQuestion, calls: Sequence[Call], answer: str | None) -> int:
    """How many hops from the start are right: each led to a record that was read after it, the last to the answer.

    A path that went wrong and comes upon the chain again has left it: there the record before is a wrong one that
    itself names the next.
    """
    place, read, before = question.archive().world, 0, ""
    for name in (call.shown[0] for call in calls if call.tool == "retrieve" and call.shown):
        if read < len(question.needs) and name == question.needs[read]:
            if (
                read
                and before != question.needs[read - 1]
                and name in {place.facts[before, relation].object for relation in place.relations(before)}
            ):
                break
            read += 1
        before = name
    if read == len(question.needs) and answer is not None and is_right(question, answer, calls):
        return read
    return max(read - 1, 0)


def summarise(scores: list[SampleScore]) -> dict[str, float]:
    """Compute the metrics from scores, the estimate first; NaN where there are too few."""
    table, answer = tabulate(scores, "chain"), tabulate(scores, "answer")
    chain, chain_imputed = table.mean(), row_mean(table.imputed(0.0))
    hops = _tried(scores)
    lengths = hops.walks
    imputed = _tried(scores, unread_fail=True)
    error = _share_wrong(hops)
    early, late = (ratio_estimate(hops.wrong[:, i], hops.tried[:, i], hops.cluster, (0.0, 1.0)) for i in (0, 1))
    change = _change(hops.cluster, hops.wrong, hops.tried)
    first = ratio_estimate(hops.first[:, 0], hops.first[:, 1], hops.cluster, (0.0, 1.0))
    wrong, tried = (
        np.stack([every.sum(axis=1), hops.first[:, i]], axis=1) for i, every in enumerate((hops.wrong, hops.tried))
    )
    differ = _change(hops.cluster, wrong, tried).lower > 0
    figures = chain.main_metrics("chain", table.share_scored) | {
        "hop_error": error.estimate,
        "hop_error_lower": error.lower,
        "hop_error_upper": error.upper,
        **({"flag_chains_differ": 1.0} if differ else {}),
        **first.metrics("hop_error_first"),
        "hop_error_imputed": ratio_estimate(
            imputed.wrong.sum(axis=1), imputed.tried.sum(axis=1), imputed.cluster
        ).estimate,
        "chain_imputed": finite_mean(chain_imputed),
        "chain_if_constant": float(np.mean([(1 - error.estimate) ** k for k in lengths])) if lengths else math.nan,
        "hop_error_early": early.estimate,
        "hop_error_late": late.estimate,
        **change.metrics("hop_error_change"),
        "hop_error_change_stderr": change.stderr,
        "answer": answer.mean().estimate,
    }
    hops_of = {item.sample_id: int((item.score.metadata or {}).get("hops", 0)) for item in scores}
    for length in sorted(set(hops_of.values()) - {0}):
        with_length = table.mean_of([hops_of.get(name) == length for name in table.question])
        figures |= with_length.metrics(f"chain_{length:02d}_hops")
    return figures | chain.cluster_metrics()


@dataclass(frozen=True)
class _Hops:
    """The hops of each chain, over its epochs: the early ones, up to `EARLY`, and the late ones."""

    wrong: NDArray[np.float64]
    """Chains x 2: how many went wrong."""
    tried: NDArray[np.float64]
    """Chains x 2: how many were tried."""
    first: NDArray[np.float64]
    """Chains x 2: how many walks went wrong at the first hop, and how many tried it."""
    cluster: list[str]
    walks: list[int]
    """The length of the chain of each sample."""


def _tried(scores: Sequence[SampleScore], unread_fail: bool = False) -> _Hops:
    wrong, tried, first = dict[str, Any](), dict[str, Any](), dict[str, Any]()
    cluster, walks = dict[str, str](), []
    for item in scores:
        facts, name = item.score.metadata or {}, str(item.sample_id)
        if "right" not in facts:
            continue
        right, failed = int(facts["right"]), int(facts["failed"])
        if unread_fail:
            failed = int(right < int(facts["hops"]))
        walks.append(int(facts["hops"]))
        cluster[name] = str(facts.get("event", name))
        early = min(right + failed, EARLY)
        tried[name] = tried.get(name, 0) + np.array([early, right + failed - early], dtype=float)
        first[name] = first.get(name, 0) + np.array([failed * (right == 0), right + failed > 0], dtype=float)
        wrong[name] = wrong.get(name, 0) + failed * np.array([right < EARLY, right >= EARLY], dtype=float)
    failures, attempts, firsts = (
        np.array(list(some.values()), dtype=float).reshape(len(cluster), 2) for some in (wrong, tried, first)
    )
    return _Hops(failures, attempts, firsts, list(cluster.values()), walks)


def _share_wrong(hops: _Hops) -> Estimate:
    """The share of the tried hops that went wrong: of sums over chains, in the interval of a share of answers."""
    wrong, tried = hops.wrong.sum(axis=1), hops.tried.sum(axis=1)
    ratio = ratio_estimate(wrong, tried, hops.cluster, (0.0, 1.0))
    if not 0 < ratio.estimate < 1 or math.isnan(ratio.stderr):
        return ratio
    return clopper_pearson(replace(ratio, n=int(tried.sum())))


def _change(cluster: list[str], wrong: NDArray[np.float64], tried: NDArray[np.float64]) -> Estimate:
    """The error of the second column minus that of the first, linearised: a chain counts in both."""
    if not (tried.size and (tried.sum(axis=0) > 0).all()):
        return UNKNOWN
    errors = wrong.sum(axis=0) / tried.sum(axis=0)
    moves = (wrong - errors * tried) / tried.sum(axis=0)
    return mean_estimate(errors[1] - errors[0] + len(cluster) * (moves[:, 1] - moves[:, 0]), cluster, (-1.0, 1.0))


def notes(scores: list[SampleScore], figures: dict[str, float]) -> Iterator[str]:
    """Warn where hop_error counts some chains less than others."""
    if FLAG + "chains_differ" in figures:
        first = ", ".join(f"{figures[f'hop_error_first{end}']:.3f}" for end in ("", "_lower", "_upper"))
        yield f"Fact chain: {CHAINS_DIFFER} (with its bounds {first})."


chain_figures = figures_metric("chain_figures", summarise, notes)


@scorer(metrics=[chain_figures()])
@validate_call
def fact_chain(figures: Figures = "headline") -> Scorer:
    r"""Share of chains whose every hop is right, and the share of hops that go wrong.

    A hop is right if the record that it leads to is read after the one before it (others may be read in between), and
    the last one if the answer is right. A chain is right if all of its hops are. A right answer without them, which
    `answer` counts, is a guess, or a path that went wrong and met the right one again: in a world with 20 entities of
    each kind that is not rare. With a constant error e of each hop

    $$P(\text{all }k\text{ hops are right})=(1-e)^k$$

    and the estimate of e by maximum likelihood is the share of the tried hops that went wrong, since a chain ends with
    its first wrong hop. `chain_if_constant` is the mean of $(1-\hat e)^k$ over the chains: `chain` above it means that
    errors come in the same chains, or late in them. `hop_error_change` is the error after the fourth hop minus that up
    to it, above 0 if a longer context makes hops harder. Only some chains get so far: an agent that fails some of them
    entirely seems to improve. The bounds of `hop_error` are those of Clopper and Pearson with the effective number of
    hops (Korn and Graubard, as in `mean_estimate`), since hops of one chain may err alike; those of the change are of a
    ratio of sums over chains, too narrow with one or two failed chains.

    Metrics, as `scorers.declaration` says: `chain` with its companions; `hop_error` with its bounds, and the flag. With
    `figures="all"` `hop_error_first` with bounds; `hop_error_imputed`, where a chain without a read answer failed at
    the hop after its right ones; `chain_imputed`, with unread answers as wrong; `chain_if_constant`; `hop_error_early`,
    `_late`, and `_change` with bounds and its standard error; `answer`; and `chain` at each length.

    Without a line `Answer: X` `chain` is NaN; its right hops are counted, and what came after them is not: who answers
    only where it is sure lowers `hop_error`, and not `hop_error_imputed`. Makes no model call.

    Raises:
        BadInput: The sample's question is no chain.
    """

    async def score(state: TaskState, target: Target) -> Score:
        question = question_of(state, ChainQuestion)
        answer, reason = read_answer(state)
        calls, hops = recorded_calls(state.store), len(question.needs)
        right = hops_right(question, calls, answer)
        return Score(
            value={
                "chain": np.nan if answer is None else float(right == hops),
                "hops": right,
                "answer": np.nan if answer is None else float(is_right(question, answer, calls)),
            },
            answer=answer,
            explanation=f"{right} of {hops} hops are right. {reason or ''}".strip(),
            metadata={
                "epoch": state.epoch,
                "event": question.event,
                "kind": question.kind,
                "hops": hops,
                "right": right,
                "failed": int(answer is not None and right < hops),
            }
            | requested(figures)
            | ({"reason": reason} if reason else {}),
        )

    return score


DECLARATION = ScorerDeclaration(
    scorer=fact_chain,
    question="How many hops of a chain of facts are right, and does the error grow along it?",
    better="1 is perfect; without tools 0, `answer` about 0",
    needs="`truthgym/fact_chains`",
    columns={"chain": "Chain", "hops": "Hops"},
    figures=summarise,
    colors={"chain": HIGHER_IS_BETTER},
    reasons={FLAG + "chains_differ": CHAINS_DIFFER},
    show_answer=True,
)
