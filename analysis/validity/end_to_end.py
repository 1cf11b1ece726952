"""Does the real task say what the pure functions say? One run with prompts, parsers, scorers and metrics, compared."""

import tempfile
from dataclasses import dataclass

import numpy as np

from truthgym.analysis.validity.replications import figures
from truthgym.datasets.urns import urns
from truthgym.models.agents.policies import Parameters
from truthgym.models.agents.true_values import Reports, simulate_reports, true_values, urn_cases


@dataclass(frozen=True)
class Compared:
    """One agent's run."""

    name: str
    n: int
    beliefs: int
    """Beliefs compared: priors, posteriors and answers."""
    equal: int
    """Of these, how many are the very same number."""
    task: dict[str, float]
    """What the log shows."""
    pure: dict[str, float]
    """What the pure functions give."""
    slope: float
    """Planted, NaN for the random agent."""


def compare(name: str, parameters: Parameters, n: int, epochs: int = 3) -> Compared:
    """Run `truthgym/urns` on an agent and compare its beliefs and figures with those of the pure functions.

    Args:
        name: A key of `agents.AGENTS`.
        parameters: What is planted in it.
        n: Questions.
        epochs: How often each is asked.

    Raises:
        RuntimeError: The run did not succeed.
    """
    from inspect_ai import eval
    from inspect_ai.model import get_model

    from truthgym.tasks.urns import urns as task

    given = parameters.model_dump(exclude_defaults=True)
    with tempfile.TemporaryDirectory() as logs:
        model = get_model(f"reference/{name}", **given)
        log = eval(task(n=n), model=model, epochs=epochs, log_dir=logs, display="log", log_realtime=False)[0]
        samples = list(log.samples or [])  # read from the file when asked for
    if log.status != "success" or not samples or not log.results:
        raise RuntimeError(f"The run of reference/{name} ended with {log.status}: {log.error}")
    dataset = urns(n=n)
    of = urn_cases(dataset)
    expected = simulate_reports(name, parameters, of, range(1, epochs + 1))
    row = {item.id: i for i, item in enumerate(dataset)}
    found = Reports(*(np.full((n, epochs), np.nan) for _ in range(3)))
    for done in samples:
        place = (row[done.id], done.epoch - 1)
        for values, scorer, key in (
            (found.prior, "martingale", "prior"),
            (found.posterior, "martingale", "posterior"),
            (found.answer, "brier", "belief"),
        ):
            value = (done.scores or {})[scorer].value
            values[place] = value[key] if isinstance(value, dict) else np.nan
    same = [a == b for a, b in zip(vars(found).values(), vars(expected).values(), strict=True)]
    shown = {(s.name, metric): held.value for s in log.results.scores for metric, held in s.metrics.items()}
    return Compared(
        name=name,
        n=n,
        beliefs=int(sum(s.size for s in same)),
        equal=int(sum(s.sum() for s in same)),
        task={metric: value for (name, metric), value in shown.items() if name == "martingale"}
        | {"brier": shown["brier", "brier"]},
        pure=figures(expected, of),
        slope=np.nan if name == "random" else true_values(name, parameters).slope,
    )
