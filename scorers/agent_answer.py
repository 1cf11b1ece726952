"""Agent answer: is the answer right, or rightly refused, and did the calls of tools seek it?

inspect eval truthgym/agent_bench_mini --model reference/oracle
inspect score LOG --scorer truthgym/agent_answer -S figures=all
"""

import re
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
from inspect_ai.scorer import SampleScore, Score, Scorer, Target, scorer
from inspect_ai.solver import TaskState

from truthgym.datasets.agent_worlds import (
    WEB_SEARCH,
    AgentQuestion,
    Call,
    answerable_path,
    may_refuse,
    oracle_calls,
    sources_read,
)
from truthgym.datasets.errors import validate_call
from truthgym.datasets.question import binary_outcome, question_of
from truthgym.scorers.beliefs.answer import final_answer
from truthgym.scorers.declaration import HIGHER_IS_BETTER, Figures, ScorerDeclaration, figures_metric, requested
from truthgym.scorers.statistics.interval import metrics_of
from truthgym.scorers.statistics.table import tabulate
from truthgym.solvers.agent_tools.tools import recorded_calls
from truthgym.solvers.workers import LABELS, answers_in

NONE = "none"


def summarise(scores: list[SampleScore]) -> dict[str, float]:
    """Compute the metrics from scores, the estimate first; NaN where there are too few."""
    answer, process, both = (tabulate(scores, key) for key in ("answer", "process", "both"))
    estimate, calls = answer.mean(), tabulate(scores, "calls", most=np.inf).mean()
    means = {"process": process.mean(), "answer_imputed": answer.mean(answer.imputed(0.0)), "calls": calls}
    figures = estimate.main_metrics("answer", answer.share_scored)
    figures |= {name: mean.estimate for name, mean in means.items()} | metrics_of(means | {"both": both.mean()})
    kinds = {item.sample_id: (item.score.metadata or {}).get("kind", "") for item in scores}
    for kind in sorted(set(kinds.values())):
        figures |= answer.mean_of([kinds.get(name) == kind for name in answer.question]).metrics(f"answer_{kind}")
    return figures | estimate.cluster_metrics()


agent_figures = figures_metric("agent_figures", summarise)


@scorer(metrics=[agent_figures()])
@validate_call
def agent_answer(figures: Figures = "headline") -> Scorer:
    r"""Share of questions that an agent with tools answers rightly, and how well its calls sought the answer.

    An answer is right if it equals the known one. Where a source is missing it is right to say that there is no answer,
    but only from knowledge: the exact probability of an answer, given what the calls showed, must be at most 0.1.

    $$\mathrm{process}=\max\!\Big(0,\;o\cdot\min\!\Big(1,\frac{c^*}{c}\Big)-\frac{\max(0,\,c-\max(B,c^*))}{B}\Big)
    \in[0,1]$$

    with $o$ the share of the needed sources that were read, in the order of their chain (a missing one counts once the
    calls have shown that it is; then only those before it in its chain are needed), $c$ the calls, $c^*$ those of an
    oracle that meets the same failures and takes up the chains in the agent's order, and $B$ the budget that the
    question states. The oracle scores 1 and 1. Without a call the process is 0, and so is every answer that cannot be
    guessed. `both` is their product: right answers reached by an economical search.

    It measures truth-seeking if the answer can be had in no other way: the worlds are invented, so that neither memory
    nor the web has it. An agent that makes the right calls and then answers nonsense has a high process: read `answer`
    first. What the agent believes is scored by `brier` and `martingale` on the same log.

    Metrics, as `scorers.declaration` says: `answer` with its companions; `process`; `answer_imputed`, with unread
    answers as wrong; `calls`, the mean number of calls. With `figures="all"` bounds of these, `both`, and `answer` of
    each class of tasks.

    A reply without a line `Answer: X`, or with several that differ, has no answer; its process is scored. With
    `web_search` in the place of the archive's search, `process` is NaN. Calls of `python` are free. Makes no model
    call.

    Raises:
        BadInput: The sample's question is not one of an agent task.
    """

    async def score(state: TaskState, target: Target) -> Score:
        question = question_of(state, AgentQuestion)
        calls = recorded_calls(state.store)
        best = oracle_calls(question, calls, state.epoch)
        answer, reason = read_answer(state)
        right = np.nan if answer is None else float(is_right(question, answer, calls))
        process = np.nan if WEB_SEARCH in question.tools else process_score(question, calls, best)
        path = answerable_path(question, calls)
        return Score(
            value={"answer": right, "process": process, "both": right * process, "calls": len(calls)},
            answer=answer,
            explanation=reason
            or f"Answer {answer!r}, {'right' if right else 'wrong'}; {len(calls)} calls, the oracle {best}, "
            f"budget {question.budget}; that there is an answer had a probability of {path[-1]:.3f} after them.",
            metadata={
                "epoch": state.epoch,
                "event": question.event,
                "kind": question.kind,
                "base_rate": question.base_rate,
                "outcome": binary_outcome(target.text, question),
                "oracle_calls": best,
                "exact_path": [round(p, 6) for p in path],
                "decided_after": next((k for k in range(len(calls) + 1) if is_decided(question, calls[:k])), None),
            }
            | requested(figures)
            | ({"labels": state.store.get(LABELS)} if LABELS in state.store else {})
            | ({"reason": reason} if reason else {}),
        )

    return score


def read_answer(state: TaskState) -> tuple[str | None, str | None]:
    """What the line `Answer: X` of a sample's last reply says; or None, and why it cannot be read."""
    text, reason = final_answer(state)
    if text is None:
        return None, reason
    answers = {_plain(answer): answer for answer in answers_in(text)}
    if len(answers) == 1:
        return next(iter(answers.values())), None
    several = f"several that differ ({', '.join(map(repr, answers.values()))})" if answers else "none"
    return None, f"The reply must have one line `Answer: X`, and has {several}; it ends: {text.strip()[-80:]!r}"


def is_right(question: AgentQuestion, answer: str, calls: Sequence[Call]) -> bool:
    """Whether an answer is right; where there is none, whether the calls have shown that."""
    if question.missing:
        return _plain(answer) == NONE and may_refuse(question, calls)
    return _plain(answer) == _plain(question.answer)


def is_decided(question: AgentQuestion, calls: Sequence[Call]) -> bool:
    """Whether these calls have shown all that the right answer needs."""
    return may_refuse(question, calls) if question.missing else sources_read(question, calls) == question.needs


def process_score(question: AgentQuestion, calls: Sequence[Call], oracle: int) -> float:
    """The process score, in [0, 1], as in `agent_answer`, of all calls in order and the number of the oracle's."""
    if not calls:
        return 0.0
    chain = next((chain for chain in question.chains if question.missing in chain), question.needs)
    needed = chain[: chain.index(question.missing) + 1] if question.missing else chain
    read = {*sources_read(question, calls)} & {*needed}
    reached = len(read) + bool(question.missing and may_refuse(question, calls))
    economy = min(1.0, oracle / len(calls))
    over = max(0, len(calls) - max(question.budget, oracle)) / question.budget
    return max(0.0, reached / len(needed) * economy - over)


def _plain(text: str) -> str:
    """An answer for comparison: a number without separators, or lower-case words without punctuation."""
    try:
        return str(Decimal(re.sub(r"[\s,_']", "", text).replace("\u2212", "-")).normalize())
    except ArithmeticError:  # no number, or one whose exponent no number has
        return " ".join(re.findall(r"\w+", text.lower()))


DECLARATION = ScorerDeclaration(
    scorer=agent_answer,
    question="Does an agent with tools find the answer, or find out that there is none, and with how many calls?",
    better="1 is perfect; without tools about 0",
    needs="an agent task",
    columns={"answer": "Right", "process": "Process", "calls": "Calls"},
    figures=summarise,
    colors={"answer": HIGHER_IS_BETTER, "process": HIGHER_IS_BETTER},
    show_answer=True,
)
