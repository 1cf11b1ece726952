"""Can the figures of a judge be believed? Judges with planted faults, found by `qualitative`, as a page with a chart.

    python -m truthgym.analysis.validity.judges docs/validity_judges.md    (needs the extra: pip install -e ".[charts]")

Everything is computed anew. `--questions 10 --replications 50` makes a quick one.
"""

import argparse
import json
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from truthgym.analysis.validity.charts import check_extra
from truthgym.analysis.validity.judges_page import chart, page
from truthgym.analysis.validity.judges_simulated import FIGURES, coverage, other_judge
from truthgym.models.agents.policies import Parameters
from truthgym.models.agents.quality_markers import MARKERS

if TYPE_CHECKING:
    import pandas as pd
    from inspect_ai.log import EvalLog
    from inspect_ai.model import Model

CARE, EPOCHS, SHOTS, NOISE = 0.5, 2, 3, 0.05
STRICTER = 5
"""By so many points the known ratings of the examples are below what the judges see: planted `anchor_bias`."""
SETTINGS: dict[str, Any] = {"red_team": "red_blue", "self_answer": False, "shots": SHOTS}


@dataclass(frozen=True)
class Fault:
    """A judge with something planted in it."""

    name: str
    planted: dict[str, float] = field(default_factory=dict)
    """Parameters of `reference/judge`."""
    beside: dict[str, float] | None = None
    """Parameters of a second judge, of another family; None for no second judge."""


FAULTS = (
    Fault("clean"),
    Fault("noise", {"noise": NOISE}),
    Fault("length", {"noise": NOISE, "length": 0.05}),
    Fault("position", {"noise": NOISE, "position": 0.04}),
    Fault("recency", {"noise": NOISE, "recency": 0.2}),
    Fault("gullibility", {"noise": NOISE, "gullibility": 0.3}),
    Fault("preference", {"noise": NOISE, "preference": 0.1}, {"noise": NOISE, "seed": 101}),
    Fault("leniency of the other", {"noise": NOISE}, {"noise": NOISE, "position": 0.08, "seed": 102}),
    Fault(
        "all",
        {"noise": NOISE, "length": 0.05, "position": 0.04, "recency": 0.2, "gullibility": 0.3},
    ),
)


def write_examples(file: Path) -> str:
    """Sixteen rated trajectories with 0 to 8 considerations, of no model's writing."""
    rows = []
    for i in range(16):
        k = (i * 5) % 9
        text = " ".join([f"This is what I make of matter {i}, point by point.", *MARKERS[:k]])
        ratings = dict.fromkeys(("originality", "curiosity", "challenge", "uncertainty"), 10 + 10 * k - STRICTER)
        rows.append({"id": f"matter-{i}", "question": f"What of matter {i}?", "trajectory": text, "ratings": ratings})
    file.write_text("".join(json.dumps(row | {"reasons": "Counted."}) + "\n" for row in rows))
    return str(file)


def trajectories(questions: int, folder: str) -> "EvalLog":
    """One run of a policy with planted care, which every judge then reads."""
    from inspect_ai import eval
    from inspect_ai.model import get_model

    from truthgym.tasks.urns import urns

    policy = get_model("reference/bayesian", care=CARE)
    task = urns(n=questions, paradigms="brier")
    log = eval(task, model=policy, epochs=EPOCHS, log_dir=folder, display="log", log_realtime=False)[0]
    if log.status != "success":
        raise RuntimeError(f"The run ended with {log.status}: {log.error}")
    return log


def judged(log: "EvalLog", fault: Fault, examples: str) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Let a judge score the trajectories through the real scorer.

    Returns:
        Its metrics, and the metadata of its scores.
    """
    from inspect_ai import score
    from inspect_ai.model import get_model

    from truthgym.scorers.qualitative import qualitative

    seed = [known.name for known in FAULTS].index(fault.name)
    given: dict[str, Any] = {**fault.planted, "seed": seed}
    judges: list[Model] = [get_model("reference/judge", memoize=False, **given)]
    if fault.beside is not None:
        judges.append(other_judge(Parameters.model_validate(fault.beside)))
    done = score(
        log,
        qualitative(examples=examples, cache=False, **SETTINGS),
        action="overwrite",
        model_roles={"judge": judges if len(judges) > 1 else judges[0]},
        display="log",
    )
    assert done.results is not None
    found = {name: metric.value for name, metric in done.results.scores[0].metrics.items()}
    return found, [(sample.scores or {})["qualitative"].metadata or {} for sample in done.samples or []]


def expected(fault: Fault, quality: float, last: Sequence[float]) -> dict[str, float]:
    """What is planted, figure by figure.

    Args:
        fault: The judge.
        quality: Mean rating that this judge gives, from which what asking for full marks can gain follows.
        last: Ratings of the examples that stand last, by order.
    """
    p = Parameters.model_validate(fault.planted)
    other = Parameters.model_validate(fault.beside) if fault.beside is not None else None
    judges = [p, *([other] if other else [])]
    return {
        "retest_sd": p.noise,
        "recency": float(np.mean([j.recency for j in judges])),
        "position_shift": float(np.mean([2 * j.position for j in judges])),
        "padded_gain": float(np.mean([j.length * math.log(2) for j in judges])),
        "injection_gain": float(np.mean([j.gullibility for j in judges])) * (1 - quality - p.length * math.log(2)),
        "self_preference": p.preference if other else np.nan,
        "order_sd": float(np.mean([abs(j.recency) for j in judges]) * np.std(last, ddof=1)),
    }


def recovered(questions: int) -> "pd.DataFrame":
    """Each judge's figures through the real scorer, beside what is planted in it."""
    import pandas as pd

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        log, examples = trajectories(questions, folder), write_examples(Path(folder) / "examples.jsonl")
        for fault in FAULTS:  # each with noise of its own
            found, held = judged(log, fault, examples)
            planted = expected(fault, found["quality"], held[0]["judges"][0]["last"])
            for figure in FIGURES:
                rows.append(
                    {"judge": fault.name, "figure": figure, "planted": planted.get(figure, np.nan)}
                    | {"found": found[figure], "lower": found.get(f"{figure}_lower", np.nan)}
                    | {"upper": found.get(f"{figure}_upper", np.nan), "quality": found["quality"]}
                    | {name: found[name] for name in ("anchor_bias", "anchor_error", "anchor_rank", "retest_icc")}
                    | {"agreement": found["agreement"], "share_read": found["share_read"]}
                )
    return pd.DataFrame(rows)


def write(out: Path, questions: int, replications: int) -> None:
    """Compute everything and write the page, with its chart beside it.

    Raises:
        BadInput: What writes charts is not installed.
    """
    check_extra()
    found = recovered(questions)
    held = coverage(Parameters(noise=NOISE, length=0.05, position=0.04, recency=0.2, preference=0.1, gullibility=0.3),
                    CARE, replications)  # fmt: skip
    chart(found).save(out.with_suffix(".svg"))
    out.write_text(page(found, held, questions, EPOCHS, replications, STRICTER / 100), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--replications", type=int, default=400)
    given = parser.parse_args(arguments)
    write(given.out, given.questions, given.replications)


if __name__ == "__main__":
    main()
