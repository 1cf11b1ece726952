"""A small local model on every domain, reasoning mode and scorer, as one eval set, and what could be read of it.

    truthgym models smollm2 --out trained/smollm2
    python examples/small_model.py logs/small_model hf/smollm2:135m --model-path trained/smollm2

Each setup asks n questions twice. The same command resumes an interrupted run. At the end it prints, for each setup,
the share of answers that could be scored and the first reason of those that could not.

A judge and an interlocutor are the model itself: how it fills these roles is part of the question. The examples for
few_shot come from reference/bayesian, in LOG_DIR-examples.
"""

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

from inspect_ai import Task, eval_set, task_with
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import GenerateConfig, Model, get_model
from inspect_ai.solver import Solver
from inspect_ai.util import DisplayType

from truthgym.tasks import (
    agent_bench_mini,
    almanac,
    bootstrap_interview,
    chain_of_thought,
    cmv_binary,
    cmv_freeform,
    code_repair,
    conceptual,
    critique_revise,
    cruxes,
    dialogue,
    disclosure,
    fact_chains,
    few_shot,
    forecasting,
    gaia_mini,
    intellectual,
    interventions,
    length_control,
    openreview,
    research,
    run_agent,
    self_debate,
    sycophancy,
    testimony,
    urns,
    wildchat,
    world_in_the_loop,
)

ROLES = ("judge", "grader", "reader", "interviewer", "interlocutor", "forecaster")
EPOCHS = 2
STAGE = re.compile(r"^[\w ]+ \(\w+\): ")
"""What a reason of `martingale` begins with, such as "prior (self): "."""
MAX_MESSAGES = 12  # of an agent, which would not stop by itself
ASKED = (
    cmv_binary, cmv_freeform, conceptual, forecasting, openreview, research, testimony, disclosure, interventions,
    almanac, cruxes, urns, intellectual, wildchat,
)  # fmt: skip
AGENTS = (agent_bench_mini, fact_chains, gaia_mini)
"""Tasks that are answered with tools."""


def asks(task: Callable[..., Task]) -> Callable[[int], Task]:
    """The task with so many questions."""
    return lambda n: task(n=n)


DOMAINS: dict[str, Callable[[int], Task]] = {
    **{task.__name__: asks(task) for task in ASKED},
    "sycophancy": lambda n: sycophancy(n=n, domain="urns", arms="user,third,memory,pushback"),
    "world_in_the_loop": lambda n: world_in_the_loop(n=n, template="toolcall"),
    **{task.__name__: asks(task) for task in AGENTS},
    "code_repair": lambda n: code_repair(n=n, trusted=True),
}
MODES: dict[str, Callable[[str], Solver]] = {  # from the log with examples
    "chain_of_thought": lambda log: chain_of_thought(steps=3),
    "self_debate": lambda log: self_debate(turns=1),
    "dialogue": lambda log: dialogue(turns=2),
    "interview fixed_sequence": lambda log: bootstrap_interview(mode="fixed_sequence"),
    "interview iid": lambda log: bootstrap_interview(mode="iid"),
    "interview stationary_ood": lambda log: bootstrap_interview(mode="stationary_ood", domains="forecasting"),
    "interview llm_preset": lambda log: bootstrap_interview(mode="llm_preset", instructions="socratic"),
    "interview llm_adaptive": lambda log: bootstrap_interview(mode="llm_adaptive"),
    "length_control": lambda log: length_control(target=40, tolerance=0.5),
    "critique_revise": lambda log: critique_revise(),
    "few_shot": lambda log: few_shot(source=log, count=4, share=1.0),
    "run_agent": lambda log: run_agent(agent="react"),
}
SCORER_SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "brier read=token": {"brier": {"read": "token"}},
    "brier reader": {"brier": {"reader": True}},
    "martingale token": {"martingale": {"elicitor": "token", "paraphrases": 2}},
    "martingale judge joint": {"martingale": {"elicitor": "both", "joint": True}},
    "qualitative": {"qualitative": {}},
    "graded": {"graded": {"grader": "model"}},
    "length": {"length": {}},
    "rubric": {"rubric": {}},
    "world_uplift": {"world_uplift": {"budgets": "20"}},
}


def set_ups(n: int, examples: str) -> Iterator[Task]:
    """Every task of the eval set, with the name of its setup in the metadata."""
    agents = [task.__name__ for task in AGENTS]
    for name, domain in DOMAINS.items():
        limit = MAX_MESSAGES if name in agents else None
        yield task_with(domain(n), message_limit=limit, metadata={"setup": name, "part": "domain"})
    for name, mode in MODES.items():
        limit = MAX_MESSAGES if name == "run_agent" else None
        metadata = {"setup": f"urns, {name}", "part": "mode"}
        yield task_with(urns(n=n), solver=mode(examples), message_limit=limit, metadata=metadata)
    for name, paradigm in SCORER_SETTINGS.items():
        metadata = {"setup": f"urns, {name}", "part": "paradigm"}
        yield task_with(urns(n=n, paradigms=paradigm), metadata=metadata)


def main(log_dir: str, model: Model, n: int, display: DisplayType | None) -> bool:
    """Run or resume the eval set. Returns whether all of it has succeeded."""
    examples = urns(n=20, split="train", paradigms="brier")
    done, logs = eval_set(
        [examples], f"{log_dir}-examples", model="reference/bayesian", epochs=1, retry_attempts=1, display=display
    )
    if not done:
        return False
    roles = dict.fromkeys(ROLES, model)
    tasks = list(set_ups(n, logs[0].location.removeprefix("file://")))
    done, logs = eval_set(
        tasks, log_dir, model=model, model_roles=roles, epochs=EPOCHS, retry_attempts=1, display=display
    )
    print(report([read_eval_log(log.location) for log in logs]))
    return done


def report(logs: Sequence[EvalLog]) -> str:
    """A Markdown table: the share scored by each scorer of each setup, and the commonest reason of the rest."""
    rows = ["| setup | scorer | scored | commonest reason of the others |", "|---|---|---|---|"]
    for log in sorted(logs, key=lambda log: log.eval.created):
        name = (log.eval.metadata or {}).get("setup", log.eval.task)
        for scorer in log.results.scores if log.results else []:
            reasons = Counter(reason(sample.scores[scorer.name].metadata or {}) for sample in log.samples or []
                              if sample.scores and scorer.name in sample.scores)  # fmt: skip
            common = next((text for text, _ in reasons.most_common() if text), "")
            share = scorer.metrics["share_scored"].value
            rows.append(f"| {name} | {scorer.name} | {share:.0%} | {common[:120]} |")
    return "\n".join(rows)


def reason(metadata: dict[str, Any]) -> str:
    """Why a score has no value, without the stage of the belief and the words of the reply."""
    text = STAGE.sub("", str(metadata.get("reason") or ""))
    return text.partition(":")[0].replace("\n", " ").replace("|", "/")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log_dir", help="folder for the logs")
    parser.add_argument("model", help="name of the model, as in inspect eval --model")
    parser.add_argument("--model-path", help="folder of an hf/ model")
    parser.add_argument("--n", type=int, default=4, help="questions of each setup")
    parser.add_argument("--max-tokens", type=int, default=128, help="maximum tokens of a reply")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--display", choices=get_args(DisplayType), help="Inspect's display")
    args = parser.parse_args()
    place = {"model_path": args.model_path} if args.model_path else {}
    # In the model's own settings, so that they also hold where it fills a role: the run's settings do not.
    settings = GenerateConfig(max_tokens=args.max_tokens, temperature=args.temperature)
    small = get_model(args.model, config=settings, **place)
    raise SystemExit(0 if main(args.log_dir, small, args.n, args.display) else 1)
