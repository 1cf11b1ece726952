"""How far are a model's answers from the exact posteriors of the generated worlds, and which reader do they follow?

    truthgym worlds logs/worlds
    truthgym worlds logs/worlds openai/gpt-5.4-mini --n 200
    truthgym worlds logs/worlds hf/smollm2:135m --model-path trained/smollm2 --read token

No question can be remembered: another `--seed` gives other ones.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from truthgym.analysis.tables.markdown import markdown
from truthgym.scorers.brier import reading_of, summarise_scores
from truthgym.tasks import almanac, cruxes, disclosure, interventions, testimony, urns

if TYPE_CHECKING:
    from inspect_ai import Task
    from inspect_ai.log import EvalLog
    from inspect_ai.model import Model
    from inspect_ai.scorer import SampleScore

WORLDS = (urns, testimony, disclosure, interventions, almanac, cruxes)
READERS = ("reference/bayesian", "reference/naive")
"""The exact reader, and the one who makes the world's error."""
HEAD = ("world", "model", "n", "read", "Brier", "excess", "weight of exact", "weight of naive", "follows")


def ask(
    log_dir: str,
    models: "Sequence[str | Model]" = (),
    model_path: str = "",
    n: int = 200,
    seed: int = 0,
    epochs: int = 1,
    read: str = "stated",
    display: Any = None,  # noqa: ANN401 (Inspect's DisplayType)
) -> tuple[bool, "list[EvalLog]"]:
    """Ask the two readers and the models the questions of all worlds, or resume.

    Args:
        log_dir: Folder for the logs.
        models: Their names, as in `inspect eval --model`, or Inspect's models.
        model_path: Folder of an hf/ model.
        n: Questions of each world.
        seed: Another one gives other questions.
        epochs: Answers of a model to each question.
        read: How answers are read: `stated`, or `token` for the probability of the next token (docs/brier.md).
        display: Inspect's display.

    Returns:
        Whether all of it has succeeded, and the headers of the logs in the order of the worlds.
    """
    from inspect_ai import eval_set
    from inspect_ai.model import get_model

    place: dict[str, Any] = {"model_path": model_path} if model_path else {}
    named = [get_model(name, **place) for name in models]
    readers = [world(n=n, seed=seed, paradigms="brier") for world in WORLDS]
    done, logs = eval_set(
        readers, f"{log_dir}/readers", model=list(READERS), epochs=1, retry_attempts=1, display=display
    )
    if named and done:
        done, others = eval_set(
            tasks_of(n, seed, read), f"{log_dir}/models", model=named, epochs=epochs, retry_attempts=1, display=display
        )
        logs += others
    order = [world.__name__ for world in WORLDS]
    return done, sorted(logs, key=lambda log: order.index(log.eval.task.removeprefix("truthgym/")))


def tasks_of(n: int, seed: int = 0, read: str = "stated") -> "list[Task]":
    """The six worlds with the scorer `brier`. A belief by token probability needs one token of a reply."""
    from inspect_ai import task_with
    from inspect_ai.model import GenerateConfig

    config = GenerateConfig(max_tokens=1) if read == "token" else GenerateConfig()
    return [task_with(world(n=n, seed=seed, paradigms={"brier": {"read": read}}), config=config) for world in WORLDS]


def table(logs: "Iterable[EvalLog]") -> str:
    """A Markdown table with a row for each finished log of a generated world.

    `excess` is the mean squared distance of an answer from the exact posterior: the part of the expected Brier score
    that the reader could have avoided, without the chance in the outcomes. Lower is better, and 0 is exact. It rewards
    caution too. What the answers follow is in the columns after it: the least-squares weights of the two readers'
    updates, and the reader that leads by the rule in `scorers/statistics/reader_weights.py`. In `urns` both readers are
    one.
    """
    from inspect_ai.log import read_eval_log

    return markdown(HEAD, [row(read_eval_log(log.location)) for log in logs if log.status == "success"])


def row(log: "EvalLog") -> tuple[str, ...]:
    """A row of the table, from the beliefs in a log."""
    scores = _scores(log)
    figures, (excess, weights) = summarise_scores(scores), reading_of(scores)
    brier = figures["brier"], figures["brier_lower"], figures["brier_upper"]
    cells = [
        f"{estimate:.3f} [{lower:.3f}, {upper:.3f}]" if np.isfinite(estimate) else "-"
        for estimate, lower, upper in (
            brier, (excess.estimate, excess.lower, excess.upper), weights.exact, weights.naive,
        )
    ]  # fmt: skip
    read = f"{figures['share_scored']:.0%}"
    return _world(log), log.eval.model, f"{figures['n']:.0f}", read, *cells, weights.follows or "-"


def _scores(log: "EvalLog") -> "list[SampleScore]":
    from inspect_ai.scorer import SampleScore

    return [
        SampleScore(score=sample.scores["brier"], sample_id=sample.id, sample_metadata=sample.metadata)
        for sample in log.samples or []
        if sample.scores and "brier" in sample.scores  # none where the sample failed
    ]


def _world(log: "EvalLog") -> str:
    return log.eval.task.removeprefix("truthgym/")
