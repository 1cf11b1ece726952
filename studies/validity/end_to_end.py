"""Reference agents through the real tasks: prompts, parsers, scorers and metrics, as `inspect eval` runs them."""

import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np

from studies.validity.replications import figures
from studies.validity.true_values import Reports, simulate_reports, true_values, urn_cases
from truthgym.datasets.urns import urns
from truthgym.models.agents.belief_reports import wording_of
from truthgym.models.agents.policies import Parameters, is_random
from truthgym.scorers.beliefs.elicitation import PROBE

if TYPE_CHECKING:
    from inspect_ai import Task
    from inspect_ai.log import EvalLog
    from inspect_ai.model import Model

Row = dict[str, Any]
"""A row of a table, by column."""
REPORTS = (("prior", "martingale", "prior"), ("posterior", "martingale", "posterior"), ("answer", "brier", "belief"))
"""Each array of `Reports`, with the scorer and the key that hold its numbers in a log."""


def reference_model(name: str, parameters: Parameters) -> "Model":
    """A new reference agent with the given parameters."""
    from inspect_ai.model import get_model

    planted: dict[str, Any] = parameters.model_dump(exclude_defaults=True)
    return get_model(f"reference/{name}", memoize=False, **planted)


def run_agent(task: "Task", name: str, parameters: Parameters, log_dir: str, **options: Any) -> "EvalLog":  # noqa: ANN401
    """Run a task on a reference agent.

    Args:
        task: The task.
        name: A key of `policies.AGENTS`.
        parameters: The agent's parameters.
        log_dir: Folder of the log, from which its samples are read on access.
        options: Further arguments of `inspect_ai.eval`.

    Raises:
        RuntimeError: The run did not succeed.
    """
    from inspect_ai import eval

    model = reference_model(name, parameters)
    (log,) = eval(task, model=model, log_dir=log_dir, display="log", log_realtime=False, **options)
    if log.status != "success" or not log.results:
        raise RuntimeError(f"The run of reference/{name} ended with {log.status}: {log.error}")
    return log


def compare(name: str, parameters: Parameters, n: int, epochs: int = 3, seed: int = 0) -> Row:
    """Run `truthgym/urns` on an agent and compare its beliefs and metrics with those of the pure functions.

    Args:
        name: A key of `policies.AGENTS`.
        parameters: The agent's parameters.
        n: Number of questions.
        epochs: Runs of each question.
        seed: Of the questions and of the agent.

    Returns:
        `agent`; `beliefs`, the number of priors, posteriors and answers compared; `equal`, how many are the same
        number or missing in both; `difference`, the largest one of a metric; `planted`, the true slope (NaN for the
        random agent); and the log's metrics of `martingale` by their names.
    """
    from truthgym.tasks.worlds import urns as task

    parameters = parameters.model_copy(update={"seed": seed})
    dataset = urns(n=n, seed=seed)
    cases = urn_cases(dataset)
    wording = wording_of(PROBE.format(proposition=""))
    expected = simulate_reports(name, parameters, cases, range(1, epochs + 1), wording)
    row = {item.id: i for i, item in enumerate(dataset)}
    logged = Reports(*(np.full((n, epochs), np.nan) for _ in REPORTS))
    with tempfile.TemporaryDirectory() as folder:
        paradigms = {"brier": {}, "martingale": {"figures": "all"}}
        log = run_agent(task(n=n, seed=seed, paradigms=paradigms), name, parameters, folder, epochs=epochs)
        for sample in log.samples or []:
            for array, scorer, key in REPORTS:
                value = (sample.scores or {})[scorer].value
                assert isinstance(value, dict)
                getattr(logged, array)[row[sample.id], sample.epoch - 1] = value[key]
    arrays = [(getattr(logged, array), getattr(expected, array)) for array, *_ in REPORTS]
    equal = [(logged_values == right) | (np.isnan(logged_values) & np.isnan(right)) for logged_values, right in arrays]
    assert log.results is not None
    metrics = {score.name: {name: one.value for name, one in score.metrics.items()} for score in log.results.scores}
    shown = metrics["martingale"] | {"brier": metrics["brier"]["brier"]}
    gaps = [abs(value - shown[figure]) for figure, value in figures(expected, cases).items() if figure in shown]
    return metrics["martingale"] | {
        "agent": name,
        "beliefs": sum(one.size for one in equal),
        "equal": int(sum(one.sum() for one in equal)),
        "difference": float(np.nanmax(gaps)),
        "planted": np.nan if is_random(name) else true_values(name, parameters).slope,
    }
