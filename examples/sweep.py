"""Sweep: domains x reasoning modes x models x system prompts, as one eval set.

    python examples/sweep.py logs/sweep
    python -m truthgym.analysis.brier_by_model logs/sweep sweep.html

Edit the lists. Killed or interrupted, the same command goes on where it stopped: finished samples are read from their
logs, and calls of samples that were cut off in the middle from Inspect's cache, which is kept apart for each folder.
What set-ups have in common, such as a question's prior in a context of its own, is asked once. Inspect leaves a log of
status "started" beside the finished one where it was killed; nothing counts it. Every log carries the name of its
set-up, by which charts group.

The examples of few_shot come from a run of their own, in LOG_DIR-examples: n questions of each domain's train split,
answered by the first model. All models are shown the same ones.
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
# Such as MODELS = [name for name in ("openai/gpt-5.4-mini", "anthropic/claude-sonnet-5") if "gpt" not in name]
ROLES = {"interviewer": "reference/interviewer", "interlocutor": "reference/entrenched"}
DEBATERS = {"debater_a": "reference/overreacting", "debater_b": "reference/underreacting"}
SYSTEM_PROMPTS = ["none", "critical_thinking"]
MOST_MESSAGES = 200  # of an agent, which has no end of its own; few_shot may show as many
MODES: dict[str, Callable[[str, str], Solver]] = {  # made with the other domains and the path of a log of examples
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
    """Every task of the sweep, named by what sets it apart."""
    for domain, prompt, mode in product(DOMAINS, SYSTEM_PROMPTS, MODES):
        others = ",".join(name for name in ("forecasting", "urns") if name != domain)
        yield task_with(
            DOMAINS[domain](n=n, system_prompt=prompt),
            solver=MODES[mode](others, examples[domain]),
            model_roles=DEBATERS if mode == "self_debate of others" else {},
            message_limit=MOST_MESSAGES if mode == "run_agent" else None,
            metadata={"mode": mode, "system_prompt": prompt, "setup": f"{mode}, prompt {prompt}"},
            tags=[mode, f"prompt {prompt}"],
        )


def main(log_dir: str, n: int, display: DisplayType | None) -> bool:
    """Run the sweep, or what is left of it. Returns whether all of it is done."""
    cache = CachePolicy(expiry="4W", scopes={"sweep": str(Path(log_dir).resolve())})
    asked = [ask(split="train", paradigms="brier") for ask in DOMAINS.values()]
    done, logs = eval_set(
        asked, f"{log_dir}-examples", model=MODELS[0], limit=n, epochs=1, cache=cache, display=display
    )
    if not done:
        return False
    # A log's place comes as a path or as an address; a task is known by its solver's arguments, so: one spelling.
    examples = {log.eval.task.removeprefix("truthgym/"): log.location.removeprefix("file://") for log in logs}
    tasks = list(set_ups(n, examples))
    done, _ = eval_set(tasks, log_dir, model=MODELS, model_roles=ROLES, cache=cache, log_buffer=1, display=display)
    return done


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log_dir", help="folder of the eval set's logs")
    parser.add_argument("--n", type=int, default=50, help="questions of each domain")
    parser.add_argument("--display", choices=get_args(DisplayType), help="Inspect's display")
    given = parser.parse_args()
    raise SystemExit(0 if main(given.log_dir, given.n, given.display) else 1)
