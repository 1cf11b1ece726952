"""Two small language models on every measure, beside simulated agents whose truth is known: docs/results.md.

    python -m studies.results PAGE.md LOGS hf/smollm2:135m=trained/smollm2 hf/Qwen/Qwen2.5-Coder-0.5B-Instruct

The same command resumes an interrupted run. Without a model only the simulated agents run. A model fills the roles of
judge and forecaster itself: how it fills them is part of the question.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from studies.study import write_texts
from truthgym.analysis import performance, worlds
from truthgym.analysis.tables.markdown import intervals, table
from truthgym.analysis.tables.saving import save
from truthgym.scorers.declaration import REASON
from truthgym.tasks import forecasting, mutual_prediction, research, sycophancy, urns, world_in_the_loop

if TYPE_CHECKING:
    from inspect_ai import Task
    from inspect_ai.model import Model

TOKENS = 96
"""The longest reply in words."""
RULERS: dict[str, dict[str, Any]] = {
    "reference/bayesian": {"noise": 0.05},
    "reference/entrenched": {"strength": 0.5, "noise": 0.05},
    "reference/random": {},
}
"""Simulated agents whose truth is known, with their arguments."""
ROLES = ("judge", "forecaster")
SHOWN = ("world", "model", "read", "Brier", "excess", "weight of exact", "follows")
"""Columns of the table of worlds."""
WORLDS = [world.__name__ for world in worlds.WORLDS]


def in_words(n: int) -> "Iterator[Task]":
    """Answers in words: probabilities, their updates, and what opinions do to them."""
    yield urns(n=n, paradigms="brier")
    yield forecasting(n=n, paradigms="brier")
    yield research(n=n, paradigms="brier")
    yield urns(n=n, paradigms={"martingale": {"figures": "all"}})
    yield sycophancy(n=max(1, n // 4), domain="urns", metric="opinion,brier", figures="all")


def by_token(n: int) -> "Iterator[Task]":
    """Beliefs as the probability of the next token, which cost few tokens and can nearly always be read."""
    token = {"elicitor": "token", "paraphrases": 2, "figures": "all"}
    yield urns(n=n // 2, paradigms={"martingale": token})


def by_others(n: int) -> "Iterator[Task]":
    """Measures that need another model: a judge, and a forecaster."""
    yield urns(n=max(1, n // 25), paradigms="qualitative")
    yield world_in_the_loop(n=n // 2, domain="urns")


def run(folder: Path, models: "Sequence[Model]", n: int) -> bool:
    """Run or resume every eval: the simulated agents, then each model in a folder of its own."""
    from inspect_ai import eval_set, task_with
    from inspect_ai.model import GenerateConfig, get_model

    def run_part(
        place: Path,
        tasks: "Iterator[Task]",
        asked: "Sequence[Model]",
        max_tokens: int,
        epochs: int | None = None,
        roles: "dict[str, str | Model] | None" = None,
    ) -> bool:
        config = GenerateConfig(max_tokens=max_tokens)
        changed = [task_with(task, config=config) for task in tasks]
        place.mkdir(parents=True, exist_ok=True)
        done, _ = eval_set(
            changed, str(place), model=list(asked), model_roles=roles, epochs=epochs, retry_attempts=1, display="none"
        )
        return done

    agents = [get_model(name, **arguments) for name, arguments in RULERS.items()]
    done, _ = worlds.ask(f"{folder}/agents/worlds", n=n, display="none")
    done &= run_part(folder / "agents/token", by_token(n), agents, 1, 2)
    done &= run_part(folder / "agents/words", in_words(n), agents, TOKENS)
    for model in models:
        place = folder / re.sub(r"\W+", "-", str(model))
        done &= run_part(place / "worlds", iter(worlds.tasks_of(n, read="token")), [model], 1, 1)
        done &= run_part(place / "token", by_token(n), [model], 1, 2)
        done &= run_part(place / "others", by_others(n), [model], TOKENS, 1, dict.fromkeys(ROLES, model))
        done &= run_part(place / "words", in_words(n), [model], TOKENS)
        answers = mutual_prediction(answers=f"{folder}/agents/worlds/readers", n=n // 2, trials=1)
        done &= run_part(place / "predicted", iter([answers]), [model], 1, 1)
    return done


def scores(frame: pd.DataFrame) -> str:
    """A row for each task and scorer, and a column for each model: the estimate with its interval, and the verdict."""
    own = frame[~frame["log"].astype(str).str.contains("/worlds/")]
    own = own.assign(
        scorer=own["scorer"].map(
            lambda name: " ".join(word for word in name.split() if not re.search(r"/|\\[\\]", word))
        ),
        task=own["setup"].map(lambda setup: re.split(r"[ ,]", setup)[0]),
        cell=[
            ", ".join(filter(lambda part: part not in ("", "-"), (estimate, verdict or reason.removeprefix(REASON))))
            for estimate, verdict, reason in zip(intervals(own, "score"), own["verdict"], own["reason"], strict=True)
        ],
    )
    cells = own.pivot_table(index=["scorer", "task"], columns="label", values="cell", aggfunc="first").fillna("-")
    return table(cells.reset_index(), ["scorer", "task", *cells.columns])


def page(out: Path, folder: Path, n: int) -> None:
    """Write the tables and the chart into the page."""
    from inspect_ai.log import list_eval_logs, read_eval_log

    frame = performance.load(str(folder))
    save(frame, performance.chart, out.with_suffix(".svg"))
    logs = [read_eval_log(log) for log in list_eval_logs(str(folder), filter=lambda log: log.status == "success")]
    asked = [log for log in logs if Path(log.location).parent.name == "worlds"]
    rows = sorted(map(worlds.row, asked), key=lambda row: (WORLDS.index(row["world"]), row["model"]))
    readers = pd.DataFrame([worlds.cells(row) for row in rows], columns=list(worlds.HEAD))
    texts = {"worlds": table(readers, SHOWN), "scores": scores(frame), "n": str(n), "tokens": str(TOKENS)}
    write_texts(out, texts)


if __name__ == "__main__":
    from inspect_ai.model import GenerateConfig, get_model

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the page: docs/results.md, or a copy of it")
    parser.add_argument("logs", type=Path, help="folder for the logs")
    parser.add_argument("models", nargs="*", help="names as in inspect eval --model; NAME=FOLDER for hf/ with a folder")
    parser.add_argument("--n", type=int, default=100, help="questions of the cheap evals; the others have a part of it")
    parser.add_argument("--max-connections", type=int, default=32, help="requests at once: the size of a batch of hf/")
    args = parser.parse_args()
    places = [name.partition("=")[::2] for name in args.models]
    # In the model's own settings, so that they also hold where it fills a role: the run's settings do not.
    config = GenerateConfig(max_tokens=TOKENS, temperature=1.0, max_connections=args.max_connections)
    models = [get_model(name, config=config, **({"model_path": place} if place else {})) for name, place in places]
    done = run(args.logs, models, args.n)
    if models:
        page(args.out, args.logs, args.n)
    raise SystemExit(0 if done else 1)
