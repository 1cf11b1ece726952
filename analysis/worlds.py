"""How far are a model's answers from the exact posteriors of the generated worlds, and which reader do they follow?

    truthgym worlds logs/worlds --model reference/naive --n 20
    truthgym worlds logs/worlds --model openai/gpt-5.4-mini --n 200 --out worlds.html
    truthgym worlds logs/worlds --model hf/smollm2:135m --model-path trained/smollm2 --read token

No question can be remembered: another `--seed` gives other ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from truthgym.datasets.domains import GENERATED
from truthgym.scorers.brier import reading_in_words, reading_of, summarise_scores
from truthgym.scorers.declaration import with_bounds
from truthgym.tasks import almanac, cruxes, disclosure, interventions, testimony, urns

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd
    from inspect_ai import Task
    from inspect_ai.log import EvalLog
    from inspect_ai.model import Model
    from rich.console import RenderableType

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
    """Ask the readers and the models, or resume: whether all succeeded, and the logs in the order of the worlds."""
    from inspect_ai import eval_set
    from inspect_ai.model import get_model

    place: dict[str, Any] = {"model_path": model_path} if model_path else {}
    named = [get_model(name, **place) for name in models if name not in READERS]
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


def readings(logs: "Iterable[EvalLog]") -> "pd.DataFrame":
    """A row for each finished log of a generated world: its Brier score, the `excess` of it, and `reader_weights`."""
    import pandas as pd
    from inspect_ai.log import read_eval_log

    return pd.DataFrame([row(read_eval_log(log.location)) for log in logs if log.status == "success"])


def row(log: "EvalLog") -> dict[str, Any]:
    from inspect_ai.scorer import SampleScore

    scores = [
        SampleScore(score=sample.scores["brier"], sample_id=sample.id, sample_metadata=sample.metadata)
        for sample in log.samples or []
        if sample.scores and "brier" in sample.scores  # none where the sample failed
    ]
    figures, (excess, weights) = summarise_scores(scores), reading_of(scores)
    world = log.eval.task.removeprefix("truthgym/")
    intervals = {
        "brier": (figures["brier"], figures["brier_lower"], figures["brier_upper"]),
        "excess": (excess.estimate, excess.lower, excess.upper),
        "exact": weights.exact,
        "naive": weights.naive,
    }
    said = reading_in_words(world, excess, weights, f"{with_bounds('brier', figures)}, n = {figures['n']:.0f}")
    return {
        "world": world,
        "model": log.eval.model,
        "n": int(figures["n"]),
        "read": figures["share_scored"],
        **{f"{name}{end}": value for name, ends in intervals.items()
           for end, value in zip(("", "_lower", "_upper"), ends, strict=True)},
        "follows": weights.follows or "-",
        "sentence": f"{world}, {log.eval.model}: {said}",
    }  # fmt: skip


def cells(row: "Mapping[Any, Any]", digits: int = 3) -> list[str]:
    """A row of the table as texts, under `HEAD`."""
    numbers = [
        "{:.{d}f} [{:.{d}f}, {:.{d}f}]".format(*(row[name + end] for end in ("", "_lower", "_upper")), d=digits)
        if np.isfinite(row[name])
        else "-"
        for name in ("brier", "excess", "exact", "naive")
    ]
    return [row["world"], row["model"], str(row["n"]), f"{row['read']:.0%}", *numbers, row["follows"]]


def printed(frame: "pd.DataFrame") -> "RenderableType":
    """Which reader each model follows, for a terminal, and a sentence for each (of readers if none was asked)."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    shown = [HEAD.index(name) for name in ("world", "model", "weight of exact", "weight of naive", "follows")]
    grid = Table(*(HEAD[i] for i in shown), box=None, pad_edge=False, header_style="bold underline")
    for row in frame.to_dict("records"):
        texts = [Text(cells(row, 2)[i].replace("-0.00", "0.00")) for i in shown]
        grid.add_row(*texts, style={"exact": "green", "naive": "yellow"}.get(row["follows"]))
    models = frame[~frame["model"].isin(READERS)]
    return Group(grid, "", *map(Text, (models if len(models) else frame)["sentence"]))


def chart(frame: "pd.DataFrame") -> "alt.TopLevelMixin":
    """The weight of the naive reader against that of the exact reader, with intervals, for each world and model."""
    import altair as alt

    long = frame.melt(["world", "model"], ["exact", "naive"], "reader", "weight")
    for end in ("lower", "upper"):
        long[end] = frame.melt(["world", "model"], [f"exact_{end}", f"naive_{end}"])["value"]
    base = alt.Chart(long.dropna(subset="weight")).encode(
        y=alt.Y("model:N", title=None), color=alt.Color("reader:N", title="reader"), yOffset="reader:N"
    )
    marks = base.mark_point(filled=True, size=60).encode(x=alt.X("weight:Q", title="weight in the answers"))
    bars = base.mark_rule().encode(x="lower:Q", x2="upper:Q")
    panels: alt.TopLevelMixin = (bars + marks).facet(row=alt.Row("world:N", title=None, sort=list(GENERATED)))
    return panels
