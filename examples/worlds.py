"""The generated worlds as one eval set, and one table: how far a model's answers are from the exact posteriors.

    python examples/worlds.py logs/worlds
    python examples/worlds.py logs/worlds openai/gpt-5.4-mini --n 200
    python examples/worlds.py logs/worlds hf/smollm2:135m --model-path trained/smollm2 --read token

The first command takes no key and no download: it asks the two readers that each world is made to tell apart,
reference/bayesian, which is exact, and reference/naive. They are part of every table. No question can be remembered:
another `--seed` gives other ones. The same command resumes an interrupted run.

`excess` is the mean squared distance of an answer from the exact posterior: the part of the expected Brier score that
the reader could have avoided, without the chance in the outcomes. Lower is better, and 0 is exact. It rewards caution
too. What the answers follow is in the columns after it: the least-squares weights of the two readers' updates, and the
reader that leads by the rule in scorers/statistics/reader_weights.py. In `urns` both readers are one.
"""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
from inspect_ai import eval_set, task_with
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import GenerateConfig, Model, get_model
from inspect_ai.util import DisplayType

from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.scorers.statistics.reader_weights import reader_weights
from truthgym.tasks import almanac, cruxes, disclosure, interventions, testimony, urns

WORLDS = (urns, testimony, disclosure, interventions, almanac, cruxes)
READERS = ("reference/bayesian", "reference/naive")
HEAD = ("world", "model", "n", "read", "Brier", "excess", "weight of exact", "weight of naive", "follows")


def main(
    log_dir: str, models: Sequence[Model], n: int, seed: int, epochs: int, read: str, display: DisplayType | None
) -> bool:
    """Run or resume the eval set and print the table. Returns whether all of it has succeeded."""
    config = GenerateConfig(max_tokens=1) if read == "token" else GenerateConfig()
    tasks = [task_with(world(n=n, seed=seed, paradigms={"brier": {"read": read}}), config=config) for world in WORLDS]
    readers = [task_with(world(n=n, seed=seed, paradigms="brier")) for world in WORLDS]
    done, logs = eval_set(
        readers, f"{log_dir}/readers", model=list(READERS), epochs=1, retry_attempts=1, display=display
    )
    if models and done:
        done, others = eval_set(
            tasks, f"{log_dir}/models", model=list(models), epochs=epochs, retry_attempts=1, display=display
        )
        logs += others
    order = [world.__name__ for world in WORLDS]
    logs.sort(key=lambda log: order.index(log.eval.task.removeprefix("truthgym/")))
    table = [HEAD, ("---",) * len(HEAD), *(row(read_eval_log(log.location)) for log in logs if log.status == "success")]
    print("\n".join(f"| {' | '.join(cells)} |" for cells in table))
    return done


def row(log: EvalLog) -> tuple[str, ...]:
    """A row of the table, from the beliefs in a log."""
    beliefs: dict[str, list[float]] = defaultdict(list)
    questions = {str(sample.id): sample for sample in log.samples or []}
    for sample in log.samples or []:
        score = (sample.scores or {}).get("brier")  # none where the sample failed
        if score and score.metadata and score.metadata["belief"] is not None:
            beliefs[str(sample.id)].append(score.metadata["belief"])
    known = {key: item.metadata or {} for key, item in questions.items()}
    posteriors = {key: metadata["posterior"] for key, metadata in known.items()}
    brier, excess = (
        mean_estimate([np.mean((np.array(some) - truth[key]) ** 2) for key, some in beliefs.items()])
        for truth in (
            {key: item.target == "yes" for key, item in questions.items()},
            {key: path[-1] for key, path in posteriors.items()},
        )
    )
    paths = [(posteriors[key], known[key].get("naive") or [], some) for key, some in beliefs.items()]
    weights = reader_weights(
        [np.mean(some) for _, _, some in paths],
        [exact[0] for exact, _, _ in paths],
        [exact[-1] for exact, _, _ in paths],
        [naive[-1] for _, naive, _ in paths] if all(naive for _, naive, _ in paths) else None,
    )
    figures = [*((one.estimate, one.lower, one.upper) for one in (brier, excess)), weights.exact, weights.naive]
    cells = [f"{estimate:.3f} [{lower:.3f}, {upper:.3f}]" for estimate, lower, upper in figures]
    read = f"{sum(map(len, beliefs.values())) / max(1, len(log.samples or [])):.0%}"
    return log.eval.task.removeprefix("truthgym/"), log.eval.model, str(brier.n), read, *cells, weights.follows or "-"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log_dir", help="folder for the logs")
    parser.add_argument("model", nargs="*", help="names of models, as in inspect eval --model")
    parser.add_argument("--model-path", help="folder of an hf/ model")
    parser.add_argument("--n", type=int, default=200, help="questions of each world")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other questions")
    parser.add_argument("--epochs", type=int, default=1, help="answers to each question")
    parser.add_argument(
        "--read", choices=["stated", "token"], default="stated", help="how answers are read: docs/brier.md"
    )
    parser.add_argument("--display", choices=get_args(DisplayType), help="Inspect's display")
    args = parser.parse_args()
    place: dict[str, Any] = {"model_path": args.model_path} if args.model_path else {}
    named = [get_model(name, **place) for name in args.model]
    done = main(args.log_dir, named, args.n, args.seed, args.epochs, args.read, args.display)
    raise SystemExit(0 if done else 1)
