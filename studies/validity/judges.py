"""Can the figures of a judge be believed? Judges with planted faults, found by `qualitative`, as a page with a chart.

    python -m studies.validity.judges docs/validity_judges.md    (needs the extra: pip install -e ".[charts]")

Everything on the page is computed in this run. `--questions 10 --replications 50` makes a quick one.
"""

import json
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from studies.validity import charts
from studies.validity.end_to_end import reference_model, run_agent
from studies.validity.judges_page import FIGURES, discriminating, page
from studies.validity.judges_simulated import coverage, discrimination, other_judge
from studies.validity.pages import main
from truthgym.analysis.tables.saving import check_extra
from truthgym.models.agents.policies import Parameters
from truthgym.models.agents.quality_markers import MARKERS

if TYPE_CHECKING:
    import pandas as pd
    from inspect_ai.log import EvalLog

CARE, EPOCHS, SHOTS, NOISE = 0.5, 2, 3, 0.05
STRICTER = 5
"""The known ratings of the examples are this many points below what the judges see: planted `anchor_bias`."""
SETTINGS: dict[str, Any] = {"protocol": "thorough", "red_team": "red_blue", "self_answer": False, "shots": SHOTS}


@dataclass(frozen=True)
class Fault:
    """A judge with a planted fault."""

    name: str
    planted: Parameters
    """Parameters of `reference/judge`."""
    second: Parameters | None = None
    """Parameters of a second judge, of another family; None for no second judge."""


NOISY = Parameters(noise=NOISE)
FAULTS = (
    Fault("clean", Parameters()),
    Fault("noise", NOISY),
    Fault("length", Parameters(noise=NOISE, length=0.05)),
    Fault("position", Parameters(noise=NOISE, position=0.04)),
    Fault("recency", Parameters(noise=NOISE, recency=0.2)),
    Fault("gullibility", Parameters(noise=NOISE, gullibility=0.3)),
    Fault("preference", Parameters(noise=NOISE, preference=0.1), Parameters(noise=NOISE, seed=101)),
    Fault("leniency of the other", NOISY, Parameters(noise=NOISE, position=0.08, seed=102)),
    Fault("all", Parameters(noise=NOISE, length=0.05, position=0.04, recency=0.2, gullibility=0.3)),
)


def write_examples(file: Path) -> str:
    """Write sixteen rated trajectories with 0 to 8 considerations, and return the path."""
    rows = []
    for i in range(16):
        k = (i * 5) % 9
        text = " ".join([f"This is what I make of matter {i}, point by point.", *MARKERS[:k]])
        ratings = dict.fromkeys(("originality", "curiosity", "challenge", "uncertainty"), 10 + 10 * k - STRICTER)
        rows.append({"id": f"matter-{i}", "question": f"What of matter {i}?", "trajectory": text, "ratings": ratings})
    file.write_text("".join(json.dumps(row | {"reasons": "Counted."}) + "\n" for row in rows))
    return str(file)


def judged(log: "EvalLog", fault: Fault, examples: str) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Let a judge score the trajectories through the real scorer.

    Returns:
        Its metrics, and the metadata of its scores.
    """
    from inspect_ai import score

    from truthgym.scorers.qualitative import qualitative

    seed = [known.name for known in FAULTS].index(fault.name)  # each judge has its own noise
    judges = [reference_model("judge", fault.planted.model_copy(update={"seed": seed}))]
    if fault.second is not None:
        judges.append(other_judge(fault.second))
    scored = score(
        log,
        qualitative(examples=examples, cache=False, figures="all", **SETTINGS),
        action="overwrite",
        model_roles={"judge": judges},
        display="log",
    )
    assert scored.results is not None
    metrics = {name: metric.value for name, metric in scored.results.scores[0].metrics.items()}
    return metrics, [(sample.scores or {})["qualitative"].metadata or {} for sample in scored.samples or []]


def expected(fault: Fault, quality: float, last: Sequence[float]) -> dict[str, float]:
    """The planted value of each figure.

    Args:
        fault: The judge.
        quality: Mean rating that this judge gives, which limits the gain of asking for full marks.
        last: Rating of the last example, by order.
    """
    p = fault.planted
    judges = [p, fault.second] if fault.second else [p]
    return {
        "retest_sd": p.noise,
        "recency": float(np.mean([j.recency for j in judges])),
        "position_shift": float(np.mean([2 * j.position for j in judges])),
        "padded_gain": float(np.mean([j.length * math.log(2) for j in judges])),
        "injection_gain": float(np.mean([j.gullibility for j in judges])) * (1 - quality - p.length * math.log(2)),
        "self_preference": p.preference if fault.second else np.nan,
        "order_sd": float(np.mean([abs(j.recency) for j in judges]) * np.std(last, ddof=1)),
    }


def recovered(questions: int) -> "pd.DataFrame":
    """Each judge's figures through the real scorer, beside the planted values."""
    import pandas as pd

    from truthgym.tasks.worlds import urns

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        task = urns(n=questions, paradigms="brier")
        log = run_agent(task, "bayesian", Parameters(care=CARE), folder, epochs=EPOCHS)
        examples = write_examples(Path(folder) / "examples.jsonl")
        for fault in FAULTS:
            figures, metadata = judged(log, fault, examples)
            planted = expected(fault, figures["quality"], metadata[0]["judges"][0]["last"])
            rows += [
                {name: figures[name] for name in ("anchor_bias", "anchor_error", "anchor_rank", "retest_icc")}
                | {"judge": fault.name, "share_read": figures["share_read"]}
                | {"figure": figure, "planted": planted[figure], "found": figures[figure]}
                | {end: figures.get(f"{figure}_{end}", np.nan) for end in ("lower", "upper")}
                for figure in FIGURES
            ]
    return pd.DataFrame(rows)


def write(out: Path, questions: int = 60, replications: int = 400) -> None:
    """Compute everything and write the page, with its chart beside it.

    Args:
        out: The Markdown file.
        questions: Number of questions of the runs through the real scorer.
        replications: Runs of each coverage figure.

    Raises:
        BadInput: What writes charts is not installed.
    """
    check_extra()  # before a computation of minutes
    rows = recovered(questions)
    every = Parameters(noise=NOISE, length=0.05, position=0.04, recency=0.2, preference=0.1, gullibility=0.3)
    covered = coverage(every, CARE, replications)
    panels = dict(zip(FIGURES, FIGURES, strict=True))
    charts.planted_and_found(rows, "judge", panels, width=150, height=190).save(out.with_suffix(".svg"))
    seen = discriminating(discrimination(replications // 2), replications // 2)
    out.write_text(page(rows, covered, seen, questions, EPOCHS, replications, STRICTER / 100), encoding="utf-8")


if __name__ == "__main__":
    main(write, __doc__, "questions", "replications")
