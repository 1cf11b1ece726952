"""How did each belief move? The beliefs that `martingale` recorded in a log, and the corrected posterior.

python -m truthgym.analysis.belief_paths LOG OUT.csv
python -m truthgym.analysis.belief_paths LOG OUT.html         (a chart; opens offline with the extra ".[charts]")
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import altair as alt
import numpy as np

from truthgym.analysis.charts import main
from truthgym.datasets.errors import BadInput
from truthgym.evallog.header import repeated_scores
from truthgym.scorers.statistics.belief_movement import corrected_posterior
from truthgym.scorers.statistics.belief_table import belief_table
from truthgym.scorers.statistics.interval import cluster_codes
from truthgym.scorers.statistics.martingale import headline

if TYPE_CHECKING:
    import pandas as pd

MOST_LINES = 200
"""The most paths drawn in a chart: more cannot be told apart."""


def load(log: str, scorer: str = "martingale") -> "pd.DataFrame":
    """Read the belief paths of a finished log.

    Args:
        log: Path of the log.
        scorer: Name of the score in the log. It stands for the newest pass with the same options; a pass with others is
            "martingale1".

    Returns:
        A row for each sample, epoch and elicitor: `question`, `epoch`, `domain`, `event`, `outcome` (1, 0 or NaN),
        `elicitor`, `prior`, `step 1` and so on if they were elicited, `posterior`, and `corrected`: the posterior with
        the slope of the log's own martingale score removed (of the first elicitor; NaN if the slope is not identified).

    Raises:
        BadInput: The log has no such score.
    """
    import pandas as pd
    from inspect_ai.log import read_eval_log
    from inspect_ai.scorer import SampleScore

    whole = read_eval_log(log)
    repeated = repeated_scores([(one.name, one.options) for one in whole.eval.scorers or []])
    chosen = {first: newer for newer, first in repeated.items()}.get(scorer, scorer)
    samples = [s for s in whole.samples or [] if s.scores and chosen in s.scores]
    if not samples:
        raise BadInput(
            f"{log} has no score named {scorer!r}; score it with: inspect score {log} --scorer truthgym/martingale"
        )
    table = belief_table([SampleScore(score=s.scores[chosen], sample_id=s.id) for s in samples if s.scores])
    slope = headline(replace(table, settings={})).estimate  # from prior to posterior, whatever the score's settings
    groups = cluster_codes(table.domain)
    corrected = corrected_posterior(table.prior[table.first], table.posterior[table.first], slope, groups)
    row = {question: i for i, question in enumerate(table.questions.question)}
    rows = []
    for sample in samples:
        metadata = (sample.scores or {})[chosen].metadata or {}
        facts = {"question": sample.id, "epoch": sample.epoch}
        facts |= {key: metadata[key] for key in ("domain", "event", "outcome")}
        paths: dict[str, dict[str, float | None]] = {}
        for belief in metadata["beliefs"]:
            if belief["stage"] != "view":  # a first impression, which is text
                paths.setdefault(belief["elicitor"], {})[belief["stage"]] = belief.get("value")
        for name, path in paths.items():
            end = corrected[row[str(sample.id)], sample.epoch - 1] if name == table.first else np.nan
            rows.append(facts | {"elicitor": name, **path, "corrected": end})
    frame = pd.DataFrame(rows)
    frame["outcome"] = frame["outcome"].astype(float)
    ends = ["posterior", "corrected"]
    return frame[[column for column in frame.columns if column not in ends] + ends]


def chart(frame: "pd.DataFrame") -> alt.FacetChart:
    """Draw each path from prior to posterior, coloured by the outcome.

    Args:
        frame: From `load`.
    """
    steps = sorted((c for c in frame.columns if c.startswith("step ")), key=lambda c: int(c[5:]))
    stages = ["prior", *steps, "posterior"]
    shown = frame.groupby("elicitor").head(MOST_LINES)
    long = shown.melt(["question", "epoch", "outcome", "elicitor"], stages, "stage", "belief").dropna(subset="belief")
    long["path"] = long["question"].astype(str) + " / " + long["epoch"].astype(str)
    long["truth"] = long["outcome"].map({1.0: "yes", 0.0: "no"}).fillna("unknown")
    lines = (
        alt.Chart(long)
        .mark_line(opacity=0.35, strokeWidth=1)
        .encode(
            x=alt.X("stage:N", sort=stages, title=None),
            y=alt.Y("belief:Q", scale=alt.Scale(domain=[0, 1]), title="belief"),
            color=alt.Color("truth:N", title="truth"),
            detail="path:N",
            tooltip=["question", "epoch", "stage", "belief", "truth"],
        )
        .properties(width=90 * len(stages), height=260)
    )
    facets: alt.FacetChart = lines.facet(column=alt.Column("elicitor:N", title=None))
    return facets


if __name__ == "__main__":
    main(load, chart, __doc__, scorer="martingale")
