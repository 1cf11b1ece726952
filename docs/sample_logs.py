"""Writes examples/logs: small logs of simulated agents in every mode and most paradigms, for docs/gallery.md.

    python docs/sample_logs.py
    python docs/sample_logs.py hf/smollm2:135m --model-path trained/smollm2

Models on the command line also answer the core questions, and some by token probability. The logs keep their events:
without them the viewer shows no transcript, and Inspect's `messages_df` and `events_df` find nothing. (The three logs
of SmolLM2 that are there were written without.) Not in them: tasks of agents, preferences, reward models, and
progress_coevolve.
"""

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from inspect_ai import Task, eval, task_with
from inspect_ai.log import list_eval_logs, read_eval_log, write_eval_log
from inspect_ai.model import GenerateConfig, Model, get_model
from inspect_ai.solver import Solver

from truthgym.tasks import (
    best_of_n,
    bootstrap_interview,
    chain_of_thought,
    critique_revise,
    dialogue,
    few_shot,
    forecasting,
    intellectual,
    length_control,
    mutual_prediction,
    progress_follow,
    run_agent,
    self_debate,
    sycophancy,
    urns,
    world_in_the_loop,
)

OUT = Path(__file__).resolve().parent.parent / "examples" / "logs"
MOST = 6_000_000
"""Bytes of all logs together."""
AGENTS: dict[str, dict[str, Any]] = {
    "bayesian": {"noise": 0.1},
    "entrenched": {"strength": 0.5, "noise": 0.05},
    "overreacting": {"strength": 0.5, "noise": 0.05},
}
EXAMPLES = "examples.eval"
"""Answers that few_shot shows, of the train split."""


def modes() -> dict[str, Solver]:
    """Every reasoning mode but `direct`, which is the default."""
    return {
        "chain_of_thought": chain_of_thought(steps=2),
        "self_debate": self_debate(turns=2),
        "dialogue": dialogue(turns=2),
        "bootstrap_interview": bootstrap_interview(mode="fixed_sequence"),
        "length_control": length_control(target=80, base="chain_of_thought"),
        "few_shot": few_shot(source=EXAMPLES, share=0.5),
        "run_agent": run_agent(agent="react"),
        "critique_revise": critique_revise(),
        "best_of_n": best_of_n(n=3, scorer="rubric"),
    }


def core(models: Sequence[Model], n: int, epochs: int) -> Iterator[tuple[Task, Sequence[Model], int]]:
    """The questions that all models answer: tasks with their models and epochs."""
    yield urns(n=n, paradigms={"brier": {"figures": "all"}, "martingale": {}}), models, epochs
    yield forecasting(n=n, paradigms="brier"), models, 1


def small(models: Sequence[Model]) -> Iterator[tuple[Task, Sequence[Model], int]]:
    """What small language models answer: few questions in words, more by token probability."""
    yield from core(models, 12, 1)
    token = {"brier": {"read": "token"}, "martingale": {"elicitor": "token", "paraphrases": 2}}
    yield task_with(urns(n=40, paradigms=token), config=GenerateConfig(max_tokens=1)), models, 1


def others() -> Iterator[tuple[Task, Sequence[Model], int]]:
    """The other modes and paradigms, on few questions."""
    first = agents("bayesian")
    scored = {"brier": {"figures": "all"}, "martingale": {"per": "step"}}
    yield task_with(urns(n=30, paradigms=scored), solver=modes()["chain_of_thought"]), agents("entrenched"), 2
    yield urns(n=30, paradigms="brier"), [get_model("reference/bayesian", min_confidence=0.2)], 1
    for name, solver in modes().items():
        if name != "chain_of_thought":
            paradigms = "brier,length" if name == "length_control" else "brier"
            yield task_with(urns(n=8, paradigms=paradigms), solver=solver), first, 1
    yield urns(n=30, paradigms="brier,rubric"), first, 4
    yield sycophancy(domain="urns", n=6), [get_model("reference/sycophant", noise=0.05)], 1
    yield intellectual(n=8), agents("bayesian", "entrenched"), 1
    yield forecasting(n=8, paradigms={"graded": {"grader": "python_brier"}}), first, 1
    yield world_in_the_loop(domain="urns", n=30, budgets=20), agents("bayesian", "entrenched"), 1
    yield progress_follow(n=4), [get_model("reference/values")], 1


def agents(*names: str) -> list[Model]:
    """Simulated agents with their arguments."""
    return [get_model(f"reference/{name}", **AGENTS[name]) for name in names]


def main(models: Sequence[Model]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # logs name relative paths only
        run(urns(n=8, split="train", paradigms="brier"), agents("bayesian"), "train", 1)
        next(Path("train").iterdir()).rename(EXAMPLES)
        for task, some, epochs in core(agents(*AGENTS), 30, 2):
            run(task, some, "logs", epochs)
        run(mutual_prediction(answers="logs", n=60), [get_model("reference/predictor")], "logs", 1)
        for task, some, epochs in (*others(), *small(models)):
            run(task, some, "logs", epochs)
        shutil.rmtree(OUT, ignore_errors=True)
        OUT.mkdir(parents=True)
        for file in list_eval_logs("logs"):
            log = read_eval_log(file)
            log.eval.dataset.location = None
            log.eval.revision = None
            write_eval_log(log, str(OUT / Path(file.name).name))
    size = sum(path.stat().st_size for path in OUT.iterdir())
    print(f"{OUT.name}: {len(list(OUT.iterdir()))} logs, {size / 1e6:.2f} MB")
    if size > MOST:
        raise SystemExit(f"more than {MOST / 1e6} MB: ask fewer questions")


def run(task: Task, models: Sequence[Model], folder: str, epochs: int) -> None:
    if models:
        roles: dict[str, str | Model] = {
            "forecaster": "reference/forecaster",
            "interviewer": "reference/interviewer",
            "interlocutor": "reference/entrenched",
            "judge": get_model("reference/judge", noise=0.05),
        }
        settings: dict[str, Any] = {"log_dir": folder, "log_realtime": False, "display": "none", "message_limit": 200}
        logs = eval(task, model=list(models), model_roles=roles, epochs=epochs, **settings)
        assert all(log.status == "success" for log in logs), [log.error for log in logs]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="*", help="names of models, as in inspect eval --model")
    parser.add_argument("--model-path", help="folder of an hf/ model")
    args = parser.parse_args()
    place = {"model_path": args.model_path} if args.model_path else {}
    short = GenerateConfig(max_tokens=96)  # a small model does not stop by itself
    main([get_model(name, config=short, **place) for name in args.model])
