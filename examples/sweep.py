"""Sweep: domains x reasoning modes x models x system prompts, as one eval set.

    python examples/sweep.py logs/sweep
    python -m truthgym.analysis.performance logs/sweep sweep.md

Edit the lists. The same command resumes an interrupted sweep: finished samples are read from their logs, and the calls
of unfinished samples from Inspect's cache, which is separate for each folder. The cache also shares calls between
set-ups, such as a question's prior. After a kill, Inspect leaves a log of status "started", which nothing counts. The
metadata of each log name its set-up, by which charts group.

The examples for few_shot come from a separate run in LOG_DIR-examples: n questions of each domain's train split,
answered by the first model. All models get the same examples.
"""

import argparse
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import get_args

from inspect_ai import Task, eval_set, task_with
from inspect_ai.model import CachePolicy
from inspect_ai.solver import Solver
from inspect_ai.util import DisplayType

from truthgym.tasks import (
    bootstrap_interview,
    chain_of_thought,
    dialogue,
    direct,
    few_shot,
    forecasting,
    length_control,
    run_agent,
    self_debate,
    urns,
)

DOMAINS: dict[str, Callable[..., Task]] = {"forecasting": forecasting, "urns": urns}
MODELS = ["reference/bayesian"]
# For example MODELS = [name for name in ("openai/gpt-5.4-mini", "anthropic/claude-sonnet-5") if "gpt" not in name]
ROLES = {"interviewer": "reference/interviewer", "interlocutor": "reference/entrenched"}
DEBATERS = {"debater_a": "reference/overreacting", "debater_b": "reference/underreacting"}
SYSTEM_PROMPTS = ["none", "critical_thinking"]
MAX_MESSAGES = 200  # of an agent, which would not stop by itself
MODES: dict[str, Callable[[str, str], Solver]] = {  # arguments: the other domains, and the log with examples
    "direct": lambda others, log: direct(),
    "chain_of_thought": lambda others, log: chain_of_thought(steps=4),
    "self_debate": lambda others, log: self_debate(turns=2),
    "self_debate of others": lambda others, log: self_debate(turns=2),
    "dialogue": lambda others, log: dialogue(turns=2),
    "interview fixed_sequence": lambda others, log: bootstrap_interview(mode="fixed_sequence"),
    "interview iid": lambda others, log: bootstrap_interview(mode="iid"),
    "interview stationary_ood": lambda others, log: bootstrap_interview(mode="stationary_ood", domains=others),
    "interview llm_preset": lambda others, log: bootstrap_interview(mode="llm_preset", instructions="socratic"),
    "interview llm_adaptive": lambda others, log: bootstrap_interview(mode="llm_adaptive", instructions="synergistic"),
    "length_control": lambda others, log: length_control(target=80, base="chain_of_thought"),
    "few_shot": lambda others, log: few_shot(source=log, share=0.5),
    "run_agent": lambda others, log: run_agent(agent="react"),
}


def set_ups(n: int, examples: dict[str, str]) -> Iterator[Task]:
    """Every task of the sweep, with its set-up in the metadata."""
    for domain, prompt, mode in product(DOMAINS, SYSTEM_PROMPTS, MODES):
        others = ",".join(name for name in ("forecasting", "urns") if name != domain)
        yield task_with(
            DOMAINS[domain](n=n, system_prompt=prompt),
            solver=MODES[mode](others, examples[domain]),
            model_roles=DEBATERS if mode == "self_debate of others" else {},
            message_limit=MAX_MESSAGES if mode == "run_agent" else None,
            metadata={"mode": mode, "system_prompt": prompt, "setup": f"{mode}, prompt {prompt}"},
            tags=[mode, f"prompt {prompt}"],
        )


def main(log_dir: str, n: int, display: DisplayType | None) -> bool:
    """Run or resume the sweep. Returns whether all of it has succeeded."""
    cache = CachePolicy(expiry="4W", scopes={"sweep": str(Path(log_dir).resolve())})
    tasks = [domain(split="train", paradigms="brier") for domain in DOMAINS.values()]
    success, logs = eval_set(
        tasks, f"{log_dir}-examples", model=MODELS[0], limit=n, epochs=1, cache=cache, display=display
    )
    if not success:
        return False
    # Inspect returns a path or a file:// address, and identifies a task by its solver's arguments: use paths only.
    examples = {log.eval.task.removeprefix("truthgym/"): log.location.removeprefix("file://") for log in logs}
    tasks = list(set_ups(n, examples))
    success, _ = eval_set(tasks, log_dir, model=MODELS, model_roles=ROLES, cache=cache, log_buffer=1, display=display)
    return success


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log_dir", help="folder for the logs")
    parser.add_argument("--n", type=int, default=50, help="questions of each domain")
    parser.add_argument("--display", choices=get_args(DisplayType), help="Inspect's display")
    args = parser.parse_args()
    raise SystemExit(0 if main(args.log_dir, args.n, args.display) else 1)
