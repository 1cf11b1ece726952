"""Sweep: domains x reasoning modes x models x system prompts, as one eval set.

    python examples/sweep.py logs/sweep
    python examples/sweep.py logs/sweep --domains urns,testimony --models openai/gpt-5.4-mini --modes direct,few_shot \
        --prompts none --scorers brier,martingale --n 50 --then mutual_prediction,world_in_the_loop
    python examples/sweep.py logs/sweep --config sweep.yaml
    truthgym report logs/sweep --out report

`--models models.yaml` reads a list, `models: [...]`. The options may stand in a YAML file of the same names, where
`modes` may be a mapping that adds modes of your own: `{long debate: {solver: self_debate, turns: 4}}`, `then` a mapping
of tasks to their arguments and their `model`: `{mutual_prediction: {model: openai/gpt-5.4, trials: 5}}`, and
`model_roles` gives the roles' models. What the command line says replaces what the file says. A mode NAME without
arguments is the solver `truthgym/NAME`.

The size of the sweep and its model calls are printed first; `--cost` then stops. The same command resumes an
interrupted sweep: finished samples are read from their logs, and the calls of unfinished samples from Inspect's cache,
which is separate for each folder. The cache also shares calls between setups, such as a question's prior. After a kill,
Inspect leaves a log of status "started", which nothing counts. The metadata of each log name its setup, by which charts
group.

The examples for few_shot come from a separate run in LOG_DIR-examples: n questions of each domain's train split,
answered by the first model. All models get the same examples. `--then` runs tasks on the answers of the sweep, into
LOG_DIR-TASK; without a `model` of their own, the models of the sweep predict and forecast.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, get_args

import yaml
from inspect_ai import Task, eval_set, task_with
from inspect_ai.model import CachePolicy
from inspect_ai.solver import Solver
from inspect_ai.util import DisplayType, registry_create

from truthgym import tasks
from truthgym.analysis.tables.cost_estimate import estimate
from truthgym.solvers.roles import models_named

DEFAULTS: dict[str, Any] = {
    "domains": ["forecasting", "urns"],
    "models": ["reference/bayesian"],
    "prompts": ["none", "critical_thinking"],
    "scorers": ["brier", "martingale"],
    "n": 50,
    "then": {},
    "model_roles": {"interviewer": "reference/interviewer", "interlocutor": "reference/entrenched"},
    "modes": {
        "direct": {},
        "chain_of_thought": {"steps": 4},
        "self_debate": {"turns": 2},
        "self_debate of others": {"solver": "self_debate", "turns": 2},
        "dialogue": {"turns": 2},
        "interview fixed_sequence": {"solver": "bootstrap_interview", "mode": "fixed_sequence"},
        "interview iid": {"solver": "bootstrap_interview", "mode": "iid"},
        "interview stationary_ood": {"solver": "bootstrap_interview", "mode": "stationary_ood", "domains": "OTHERS"},
        "interview llm_preset": {"solver": "bootstrap_interview", "mode": "llm_preset", "instructions": "socratic"},
        "interview llm_adaptive": {"solver": "bootstrap_interview", "mode": "llm_adaptive",
                                   "instructions": "synergistic"},
        "length_control": {"target": 80, "base": "chain_of_thought"},
        "few_shot": {"source": "EXAMPLES", "share": 0.5},
        "run_agent": {"agent": "react"},
    },
}  # fmt: skip
"""OTHERS stands for the other domains, EXAMPLES for the log with examples of the domain."""
DEBATERS = {"debater_a": "reference/overreacting", "debater_b": "reference/underreacting"}
MAX_MESSAGES = 200  # of an agent, which would not stop by itself
AFTER: dict[str, Callable[..., Task]] = {
    "mutual_prediction": tasks.mutual_prediction,
    "world_in_the_loop": tasks.world_in_the_loop,
}
LISTS = ("domains", "models", "modes", "prompts", "scorers", "then")


def setups(options: dict[str, Any], examples: dict[str, str]) -> Iterator[Task]:
    """Every task of the sweep, with its setup in the metadata."""
    for domain, prompt, (mode, arguments) in product(options["domains"], options["prompts"], options["modes"].items()):
        yield task_with(
            task_of(domain, options, n=options["n"], system_prompt=prompt),
            solver=solver_of(mode, arguments, domain, options, examples),
            model_roles=DEBATERS if mode == "self_debate of others" else {},
            message_limit=MAX_MESSAGES if arguments.get("solver", mode) == "run_agent" else None,
            metadata={"mode": mode, "system_prompt": prompt, "setup": f"{mode}, prompt {prompt}"},
            tags=[mode, f"prompt {prompt}"],
        )


def task_of(domain: str, options: dict[str, Any], **arguments: object) -> Task:
    made: Task = registry_create("task", f"truthgym/{domain}", paradigms=",".join(options["scorers"]), **arguments)
    return made


def solver_of(
    mode: str, arguments: dict[str, Any], domain: str, options: dict[str, Any], examples: dict[str, str]
) -> Solver:
    others = [name for name in options["domains"] if name != domain] or sorted({*DEFAULTS["domains"]} - {domain})
    stands = {"OTHERS": ",".join(others), "EXAMPLES": examples[domain]}
    passed = {name: stands.get(value, value) if isinstance(value, str) else value for name, value in arguments.items()}
    made: Solver = registry_create("solver", f"truthgym/{passed.pop('solver', mode)}", **passed)
    return made


def needs_examples(options: dict[str, Any]) -> bool:
    return any("EXAMPLES" in arguments.values() for arguments in options["modes"].values())


def print_cost(options: dict[str, Any]) -> None:
    """Print the size of the sweep and the calls of each mode, counted where simulated agents answer a question."""
    repeated = len(options["prompts"]) * len(options["models"])
    print(
        f"{len(options['domains'])} domains x {len(options['modes'])} modes x {len(options['prompts'])} prompts x "
        f"{len(options['models'])} models = {len(options['domains']) * len(options['modes']) * repeated} logs"
    )
    roles = {role: [model] for role, model in options["model_roles"].items()}
    total = 0.0
    for mode, arguments in options["modes"].items():
        if "EXAMPLES" in arguments.values():
            arguments = {"solver": "direct"}  # as many calls
        calls = 0.0
        for domain in options["domains"]:
            solver = solver_of(mode, arguments, domain, options, dict.fromkeys(options["domains"], ""))
            task = task_of(domain, options, n=options["n"])
            frame = estimate(task, {"model": options["models"]} | roles, solver=solver, questions=1)
            calls += frame["calls"].sum() * repeated
        total += calls
        print(f"{mode:28}{calls:12,.0f} calls")
    print(f"{'all':28}{total:12,.0f} calls, without those of --then; `truthgym cost` has tokens and prices")


def main(log_dir: str, options: dict[str, Any], display: DisplayType | None) -> bool:
    """Run or resume the sweep. Returns whether all of it has succeeded."""
    cache = CachePolicy(expiry="4W", scopes={"sweep": str(Path(log_dir).resolve())})
    examples = dict.fromkeys(options["domains"], "")
    if needs_examples(options):
        train = [task_of(domain, {"scorers": ["brier"]}, split="train") for domain in examples]
        success, logs = eval_set(train, f"{log_dir}-examples", model=options["models"][0], limit=options["n"], epochs=1,
                                 cache=cache, display=display)  # fmt: skip
        if not success:
            return False
        # Inspect returns a path or a file:// address, and identifies a task by its solver's arguments: use paths only.
        examples |= {log.eval.task.removeprefix("truthgym/"): log.location.removeprefix("file://") for log in logs}
    success, _ = eval_set(list(setups(options, examples)), log_dir, model=options["models"],
                          model_roles=options["model_roles"], cache=cache, log_buffer=1, display=display)  # fmt: skip
    for name, given in options["then"].items() if success else ():
        passed = {"model": options["models"]} | given
        models = passed.pop("model")
        after = AFTER[name](answers=log_dir, **passed)
        success, _ = eval_set(after, f"{log_dir}-{name}", model=models, cache=cache, display=display)
    return success


def choose(given: dict[str, Any]) -> dict[str, Any]:
    """The defaults with what was given. Ends the program if a name is unknown."""
    options = DEFAULTS | given
    for name in LISTS:
        if isinstance(options[name], str):
            options[name] = options[name].split(",")
    options["models"] = models_named(options["models"])
    for name in ("modes", "then"):
        if not isinstance(options[name], dict):
            options[name] = {key: DEFAULTS[name].get(key, {}) for key in options[name]}
    solvers = {arguments.get("solver", mode) for mode, arguments in options["modes"].items()}
    wrong = {*options} - {*DEFAULTS} | {*options["then"]} - {*AFTER} | solvers.union(options["domains"]) - {*dir(tasks)}
    if wrong:
        raise SystemExit(f"unknown: {', '.join(sorted(wrong))}; `inspect list tasks` has domains, docs/modes.md has "
                         f"modes; the options are {', '.join(DEFAULTS)}")  # fmt: skip
    return options


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log_dir", help="folder for the logs")
    parser.add_argument("--config", type=Path, help="YAML file of the options below")
    for name in LISTS:
        names = [f"--{name}", *(["--paradigms"] if name == "scorers" else [])]
        parser.add_argument(
            *names, dest=name, type=lambda text: text.split(","), help=f"{name}, with commas between them"
        )
    parser.add_argument("--n", type=int, help="questions of each domain")
    parser.add_argument("--cost", action="store_true", help="print the size and the model calls, and stop")
    parser.add_argument("--display", choices=get_args(DisplayType), help="Inspect's display")
    return parser.parse_args(words)


if __name__ == "__main__":
    args = arguments()
    written = yaml.safe_load(args.config.read_text(encoding="utf-8")) if args.config else {}
    line = {name: getattr(args, name) for name in (*LISTS, "n") if getattr(args, name) is not None}
    options = choose(written | line)
    if args.cost or not Path(args.log_dir).exists():
        print_cost(options)
    raise SystemExit(0 if args.cost or main(args.log_dir, options, args.display) else 1)
