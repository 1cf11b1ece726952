"""Which model forecasts best? Brier score with its 95 % interval, one row for each eval of the logs.

python -m truthgym.analysis.brier_by_model LOG_DIR OUT.html    (opens offline with the extra ".[charts]")
python -m truthgym.analysis.brier_by_model LOG_DIR OUT.svg     (needs that extra; .csv writes the table)
"""

import json
from typing import TYPE_CHECKING

import altair as alt

from truthgym.analysis.charts import main
from truthgym.datasets.errors import BadInput
from truthgym.evallog.header import repeated_scores

if TYPE_CHECKING:
    import pandas as pd

COIN_FLIP = 0.25
"""Brier score of always answering one half."""
DEFAULT_SOLVER = "truthgym/direct"


def load(log_dir: str) -> "pd.DataFrame":
    """Read the headline of every finished eval that was scored by `brier`.

    Returns:
        A row for each eval: `domain`, `setup`, `brier`, `lower`, `upper`, `n`, `epochs`, `mde`, `share_scored`. The
        numbers are those in the log; of several passes of `brier` with the same options, the newest counts. `setup` is
        the model with its arguments, and the `setup` in the task's metadata if there is one (as in examples/sweep.py),
        else the solver with its arguments and the task arguments that differ between the evals of the domain.

    Raises:
        BadInput: No log in the folder has a Brier score.
    """
    import pandas as pd
    from inspect_ai.analysis import EvalColumn, EvalResults, EvalScores, EvalTask, evals_df

    columns = [
        EvalColumn("model", path="eval.model"),
        # Inspect 0.3.285's own `model_args` column reads the base URL instead.
        EvalColumn("model_arguments", path="eval.model_args"),
        EvalColumn("task_arguments", path="eval.task_args"),
        EvalColumn("eval_metadata", path="eval.metadata"),
        EvalColumn("epochs", path="eval.config.epochs"),
        EvalColumn("plan", path="plan.steps"),  # names the solver even if the task chose it
        EvalColumn("scorers", path="eval.scorers"),
        *EvalTask,
        *EvalResults,
        *EvalScores,
    ]
    logs = evals_df(log_dir, columns=columns, quiet=True)
    if "score_brier_brier" not in logs:
        raise BadInput(f"{log_dir} has no log that was scored by truthgym/brier; run an eval there first")
    logs = logs[(logs["status"] == "success") & logs["score_brier_brier"].notna()].sort_values(
        "task_name", kind="stable"
    )
    headline = ["brier", "brier_lower", "brier_upper", "n", "mde", "share_scored"]
    newest = [_newest(log["scorers"]) for _, log in logs.iterrows()]
    figures = [
        [log.get(f"score_{name}_{figure}") for figure in headline]
        for name, (_, log) in zip(newest, logs.iterrows(), strict=True)
    ]
    frame = pd.DataFrame(figures, index=logs.index, columns=[name.removeprefix("brier_") for name in headline])
    frame.insert(4, "epochs", logs["epochs"])
    frame.insert(0, "domain", logs["task_name"].str.removeprefix("truthgym/"))
    frame.insert(1, "setup", [name for _, domain in logs.groupby("task_name", sort=False) for name in _setups(domain)])
    return frame.reset_index(drop=True)


def chart(frame: "pd.DataFrame") -> alt.FacetChart:
    """Draw point and interval for each eval, best on top, with the coin flip as a dashed rule."""
    base = alt.Chart(frame).encode(
        y=alt.Y("setup:N", title=None, sort=alt.EncodingSortField("brier", op="mean"), axis=alt.Axis(labelLimit=600))
    )
    interval = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("lower:Q", title="Brier score and 95 % interval (lower is better; dashed: always answering one half)"),
        x2="upper:Q",
    )
    point = base.mark_point(filled=True, size=70, opacity=1).encode(
        x="brier:Q", tooltip=["setup", "brier", "lower", "upper", "n", "epochs", "mde", "share_scored"]
    )
    coin = alt.Chart(frame).mark_rule(strokeDash=[4, 4], color="gray").encode(x=alt.datum(COIN_FLIP))
    facets: alt.FacetChart = (
        alt.layer(coin, interval, point)
        .properties(width=480)
        .facet(row=alt.Row("domain:N", title=None))
        .resolve_scale(y="independent")
    )
    return facets


def _newest(scorers: str) -> str:
    """The name of the newest pass of `brier`, from the scorers of a log as JSON."""
    repeated = repeated_scores([(scorer["name"], scorer["options"]) for scorer in json.loads(scorers)])
    return {first: newer for newer, first in repeated.items()}.get("brier", "brier")


def _setups(logs: "pd.DataFrame") -> list[str]:
    """Name each eval of one domain by its differences from the others."""
    tasks = [_arguments(given) for given in logs["task_arguments"]]
    differing = [name for name in tasks[0] if len({json.dumps(task.get(name)) for task in tasks}) > 1]
    return [
        _setup(log, {name: task.get(name) for name in differing})
        for (_, log), task in zip(logs.iterrows(), tasks, strict=True)
    ]


def _setup(log: "pd.Series[str]", task: dict[str, object]) -> str:
    parts = [log["model"], *_options(_arguments(log["model_arguments"]))]
    named = _arguments(log["eval_metadata"]).get("setup")
    if named:
        return " ".join([*parts, "by", str(named)])
    solver = json.loads(log["plan"])[-1]
    if solver["solver"] != DEFAULT_SOLVER or solver["params_passed"]:
        parts += ["by", solver["solver"].removeprefix("truthgym/"), *_options(solver["params_passed"])]
    return " ".join([*parts, *(["on", *_options(task)] if task else [])])


def _arguments(given: object) -> dict[str, object]:
    return dict(json.loads(given)) if isinstance(given, str) else {}


def _options(arguments: dict[str, object]) -> list[str]:
    return [f"{name}={value}" for name, value in arguments.items()]


if __name__ == "__main__":
    main(load, chart, __doc__)
