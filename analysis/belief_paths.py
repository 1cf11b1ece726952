"""How did each belief move? The beliefs that `martingale` recorded in a log, and the posterior it would correct to.

python -m truthgym.analysis.belief_paths LOG OUT.csv
python -m truthgym.analysis.belief_paths LOG OUT.html         (a chart; .svg needs ".[charts]")
"""

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

import altair as alt
import numpy as np

from truthgym.scorers.statistics.belief_movement import corrected_posterior
from truthgym.scorers.statistics.belief_table import belief_table
from truthgym.scorers.statistics.interval import cluster_codes
from truthgym.scorers.statistics.martingale import headline

if TYPE_CHECKING:
    import pandas as pd

MOST_LINES = 200
"""Paths drawn in a chart: more cannot be told apart."""


def load(log: str, scorer: str = "martingale") -> "pd.DataFrame":
    """Read the belief paths of a finished log.

    Args:
        log: Path of the log.
        scorer: Name of the score in the log; a second pass is "martingale1".

    Returns:
        One row a sample, epoch and elicitor: `question`, `epoch`, `domain`, `event`, `outcome` (1, 0 or NaN),
        `elicitor`, `prior`, `step 1` and so on where they were asked for, `posterior`, and `corrected`: the posterior
        with the log's own martingale score taken out (NaN where that is not identified; the first elicitor only).

    Raises:
        ValueError: The log holds no such score.
    """
    import pandas as pd
    from inspect_ai.log import read_eval_log
    from inspect_ai.scorer import SampleScore

    samples = [s for s in read_eval_log(log).samples or [] if s.scores and scorer in s.scores]
    if not samples:
        raise ValueError(
            f"{log} holds no score named {scorer!r}; score it with: inspect score {log} --scorer truthgym/martingale"
        )
    table = belief_table([SampleScore(score=s.scores[scorer], sample_id=s.id) for s in samples if s.scores])
    slope = headline(replace(table, settings={})).estimate  # from prior to posterior, whatever else was asked for
    groups = cluster_codes(table.domain)
    mended = corrected_posterior(table.prior[table.first], table.posterior[table.first], slope, groups)
    row = {question: i for i, question in enumerate(table.questions.question)}
    rows = []
    for sample in samples:
        metadata = (sample.scores or {})[scorer].metadata or {}
        made = [belief for belief in metadata["beliefs"] if belief["stage"] != "view"]
        for name in dict.fromkeys(belief["elicitor"] for belief in made):
            known = {key: metadata[key] for key in ("domain", "event", "outcome")}
            path = {belief["stage"]: belief.get("value") for belief in made if belief["elicitor"] == name}
            corrected = mended[row[str(sample.id)], sample.epoch - 1] if name == table.first else np.nan
            rows.append({"question": sample.id, "epoch": sample.epoch, **known, "elicitor": name, **path})
            rows[-1]["corrected"] = corrected
    frame = pd.DataFrame(rows)
    frame["outcome"] = frame["outcome"].astype(float)
    ends = ["posterior", "corrected"]
    return frame[[column for column in frame.columns if column not in ends] + ends]


def chart(frame: "pd.DataFrame") -> alt.FacetChart:
    """Draw each path from prior to posterior, coloured by what turned out to be true.

    Args:
        frame: From `load`.
    """
    stages = [
        "prior",
        *sorted((c for c in frame.columns if c.startswith("step ")), key=lambda c: int(c[5:])),
        "posterior",
    ]
    some = frame.groupby("elicitor").head(MOST_LINES)
    long = some.melt(["question", "epoch", "outcome", "elicitor"], stages, "stage", "belief").dropna(subset="belief")
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log")
    parser.add_argument("out")
    parser.add_argument("--scorer", default="martingale")
    given = parser.parse_args()
    try:
        found = load(given.log, given.scorer)
    except (ValueError, FileNotFoundError) as error:
        parser.exit(1, f"{error}\n")
    if given.out.endswith(".csv"):
        found.to_csv(given.out, index=False)
    else:
        chart(found).save(given.out)
