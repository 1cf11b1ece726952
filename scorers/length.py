"""Length: how long is the answer, and does it have the requested length?

inspect eval truthgym/urns -T paradigms=brier,length --solver truthgym/length_control -S target=80 --model ...
inspect score LOG --scorer truthgym/length --action append --overwrite
"""

from typing import cast

import numpy as np
from inspect_ai.scorer import SampleScore, Score, Scorer, Target, Value, scorer
from inspect_ai.solver import TaskState
from inspect_ai.util import Store

from truthgym.datasets.errors import validate_call
from truthgym.datasets.question import Question, question_of
from truthgym.scorers.beliefs.answer import final_answer
from truthgym.scorers.declaration import Figures, ScorerDeclaration, figures_metric, requested
from truthgym.scorers.statistics.table import tabulate
from truthgym.solvers.length_control import LengthControl

QUANTILES = {"p10": 0.1, "p50": 0.5, "p90": 0.9}
KEYS = ("words", "characters", "asked", "achieved", "kept", "revisions")


def summarise(scores: list[SampleScore]) -> dict[str, float]:
    """Compute the metrics from scores. NaN if there are too few of them."""
    tables = {key: tabulate(scores, key, most=np.inf) for key in KEYS}
    means = {key: table.mean() for key, table in tables.items()}
    achieved = tables["achieved"].values[np.isfinite(tables["achieved"].values)]
    return {
        **means["words"].main_metrics("words", tables["words"].share_scored),
        "asked": means["asked"].estimate,
        "achieved": means["achieved"].estimate,
        "kept": means["kept"].estimate,
        "epochs": tables["words"].values.shape[1],
        **means["achieved"].metrics("achieved"),
        **{
            f"achieved_{name}": float(np.quantile(achieved, share)) if achieved.size else np.nan
            for name, share in QUANTILES.items()
        },
        **means["kept"].metrics("kept"),
        "revisions": means["revisions"].estimate,
        **means["words"].cluster_metrics(),
    }


answer_length = figures_metric("answer_length", summarise)


@scorer(metrics=[answer_length()])
@validate_call
def length(figures: Figures = "headline") -> Scorer:
    """Length of the answer. Neither direction is better; a larger share of answers of the requested length (`kept`) is.

    Words are separated by whitespace. The answer is the trajectory's last reply, without the reasoning before it.

    By itself it says nothing about truth-seeking. Use it as a covariate when two models or reasoning modes differ in
    another score, and to check that `length_control` worked: look at `kept` before comparing scores across targets.

    Metrics, as `scorers.declaration` says:

    - `words`, the mean, with its companions.
    - If a length was requested, in its own unit, otherwise NaN: `asked`, the mean target; `achieved`, the mean length;
      `kept`, the share of answers within the tolerance.
    - With `figures="all"` also `epochs`, bounds of `achieved` and `kept`, `achieved_p10`, `_p50` and `_p90` over all
      answers, and `revisions`, the mean number of revisions requested.

    A sample's value holds `words`, `characters`, `asked`, `achieved`, `kept` (0 or 1) and `revisions`. Makes no
    model call.
    """

    async def score(state: TaskState, target: Target) -> Score:
        question = question_of(state, Question)
        text, reason = final_answer(state)
        control = _control(state.store)
        values = dict.fromkeys(KEYS, np.nan)
        if text is not None:
            values |= {"words": len(text.split()), "characters": len(text)}
            if control.target and control.achieved is not None:
                off = abs(control.achieved - control.target)
                values |= {
                    "asked": control.target,
                    "achieved": control.achieved,
                    "kept": float(off <= control.target * control.tolerance + 1e-9),
                    "revisions": control.attempts,
                }
        goal = f", asked for {control.target} {control.unit}" if control.target else ""
        return Score(
            value=cast(Value, values),
            explanation=reason or f"{values['words']:g} words, {values['characters']:g} characters{goal}.",
            metadata={"epoch": state.epoch, "event": question.event, "unit": control.unit, "reason": reason}
            | requested(figures),
        )

    return score


def _control(store: Store) -> LengthControl:
    # Read from a copy: a StoreModel writes its defaults into the store that it reads.
    return LengthControl(
        store=Store({name: value for name, value in store.items() if name.startswith("LengthControl:")})
    )


DECLARATION = ScorerDeclaration(
    scorer=length,
    question="How long are answers, and was a requested length kept?",
    better="none",
    needs="",
    columns={"words": "Words", "asked": "Asked", "achieved": "Achieved", "revisions": "Revisions"},
    figures=summarise,
)
