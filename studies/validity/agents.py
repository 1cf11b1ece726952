"""Do the figures of agents with tools tell who seeks the truth from who seems to? Writes docs/validity_agents.md.

python -m studies.validity.agents docs/validity_agents.md --n 72

Each agent plays the real tasks with the real tools. `--n 72` takes about ten CPU minutes.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from inspect_ai import Task
from inspect_ai.log import EvalLog
from inspect_ai.model import get_model

from studies.study import Study, interval_cell, run_task
from truthgym.analysis.tables.markdown import markdown, with_interval
from truthgym.scorers.statistics.interval import Estimate, mean_estimate
from truthgym.tasks.agents import agent_bench_mini, fact_chains

Agents = dict[str, tuple[str, dict[str, Any]]]
"""Agents by what they are called on the page: name and parameters."""
Columns = dict[str, np.ndarray]
"""Of one agent: numbers by question."""
PLAYERS = {
    "oracle": "knows what exists, makes no needless call",
    "bayesian": "the same calls without that knowledge, beliefs by Bayes' rule",
    "careless": "one search for each source, else the first name of the last record; overreacts",
    "over_eager": "all that it needs, then every record that a record names, up to three times the budget",
    "stubborn": "the first search again and again; its belief never moves",
    "inventing": "one call, then an invented answer with 0.95",
    "no_tool": "no call, an invented answer with the stated chance",
    "refusing": "no call, `none` with 0.02",
    "looking_busy": "the calls of `bayesian`, then an invented answer with 0.5",
    "hedging": "the calls and answers of `bayesian`, always with 0.5",
}
BELIEVERS: Agents = {
    "bayesian": ("bayesian", {}),
    "overreacting": ("overreacting", {"strength": 0.5}),
    "underreacting": ("underreacting", {"strength": 0.5}),
    "entrenched": ("entrenched", {"strength": 0.5}),
    "stuck": ("stuck", {}),
    "lazy: half of all reports are 50": ("bayesian", {"lazy": 0.5}),
    "coarse: quarters alone": ("bayesian", {"coarse": 0.25}),
    "anchored: half way to 50": ("bayesian", {"hedge": 0.5}),
    "copying: a third repeat the prior": ("bayesian", {"copies": 0.33}),
    "refusing: no number if it is against the prior": ("bayesian", {"refuses": 1.0}),
    "gaming: says 50 before, and the truth after": ("bayesian", {"lazy": 1.0, "stage": "prior"}),
}
"""Agents by what they do, with name and parameters. Those after `stuck` are attacks, for which no figure was made."""
CHAINS: Agents = {
    "oracle": ("oracle", {}),
    "walker, slip 0.05": ("walker", {"slip": 0.05}),
    **{f"walker, slip 0.2, seed {seed}": ("walker", {"slip": 0.2, "seed": seed}) for seed in range(8)},
    "no_tool": ("no_tool", {}),
    "refusing": ("refusing", {}),
}
"""Agents of the chains. A walker takes a wrong turn at each hop with the planted chance."""
ABLATION: Agents = {"oracle": ("oracle", {}), "walker": ("walker", {})}
OWN: Agents = {
    "the chance that its slips leave": ("walker", {"slip": 0.2}),
    "always 100": ("walker", {"slip": 0.2, "own_belief": 1.0}),
    "always 50": ("walker", {"slip": 0.2, "own_belief": 0.5}),
    "wrong on purpose, and says 0": ("walker", {"slip": 1.0, "own_belief": 0.0}),
}
"""Walkers by what they say of their own answer."""
OWN_ANSWER = {"agent_answer": {}, "brier": {"about": "own_answer", "figures": "all"}}
NOISE = 0.03
"""Noise of the beliefs that are reported along the way."""
Read = TypeVar("Read")


def play(n: int, agents: Sequence[str]) -> dict[str, Columns]:
    """Play the task with each agent: the numbers of each question."""
    return _run(_columns, agent_bench_mini(n=n), {name: (name, {}) for name in agents})


def chains(n: int = 70, agents: Sequence[str] = tuple(CHAINS)) -> dict[str, dict[str, float]]:
    paradigms = {"fact_chain": {"figures": "all"}, "agent_answer": {}}
    return _run(_metrics, fact_chains(n=n, paradigms=paradigms), {name: CHAINS[name] for name in agents})


def ablation(n: int = 12) -> dict[tuple[str, str], dict[str, float]]:
    """The figures of two agents on chains of 2, 4 and 8 hops, by their name and the results of tools that they see."""
    paradigms = {"fact_chain": {"figures": "all"}}
    return {
        (name, shown): found
        for shown, context in (("all", None), ("1", 1), ("0", 0))
        for name, found in _run(
            _metrics, fact_chains(n=n, hops=(2, 4, 8), context=context, paradigms=paradigms), ABLATION
        ).items()
    }


def own_answers(n: int, agents: Sequence[str]) -> dict[str, dict[str, float]]:
    """The figures of each agent's belief in its own answer, on `agent_bench_mini`."""
    return _run(_metrics, agent_bench_mini(n=n, paradigms=OWN_ANSWER), {f"`{name}`": (name, {}) for name in agents})


def own_walks(n: int = 70) -> dict[str, dict[str, float]]:
    return _run(_metrics, fact_chains(n=n, paradigms=OWN_ANSWER), OWN)


def beliefs(n: int, agents: Agents) -> dict[str, dict[str, float]]:
    """The figures of `martingale` on each agent, with noisy reports in two epochs."""
    noisy = {does: (name, {"noise": NOISE} | planted) for does, (name, planted) in agents.items()}
    task = agent_bench_mini(n=n, paradigms={"martingale": {"figures": "all"}})
    return _run(_metrics, task, noisy, epochs=2)


def on_the_way(n: int, agents: Agents) -> dict[str, Estimate]:
    """Mean squared distance from the exact beliefs after each call, but where all is known, for each agent."""
    return _run(_distance, agent_bench_mini(n=n, paradigms={"martingale": {"per": "step"}, "agent_answer": {}}), agents)


def _distance(log: EvalLog) -> Estimate:
    means = []
    for sample in log.samples or []:
        scores = sample.scores or {}
        path = (scores["agent_answer"].metadata or {})["exact_path"][1:]
        elicited = (scores["martingale"].metadata or {})["beliefs"]
        stated = [belief.get("value", np.nan) for belief in elicited if belief["stage"].startswith("step")]
        apart = [(p - q) ** 2 for p, q in zip(stated, path, strict=False) if q not in (0, 1) and np.isfinite(p)]
        means.append(np.mean(apart) if apart else np.nan)
    return mean_estimate(means, None, (0, 1))


def _metrics(log: EvalLog) -> dict[str, float]:
    assert log.results
    return {name: metric.value for score in reversed(log.results.scores) for name, metric in score.metrics.items()}


def _run(read: Callable[[EvalLog], Read], task: Task, agents: Agents, **options: Any) -> dict[str, Read]:
    """What a function reads in the log of each agent."""
    return {
        does: read(run_task(task, get_model(f"reference/{name}", **planted), score_display=False, **options))
        for does, (name, planted) in agents.items()
    }


def _columns(log: EvalLog) -> Columns:
    rows = []
    for sample in log.samples or []:
        answer, brier = (sample.scores or {})["agent_answer"], (sample.scores or {})["brier"]
        assert isinstance(answer.value, dict)
        assert isinstance(brier.value, dict)
        facts = answer.metadata or {}
        base = facts["base_rate"]
        rows.append(
            {name: float(str(answer.value[name])) for name in ("answer", "process", "both", "calls")}
            | {"brier": float(str(brier.value["brier_score"])), "base": (base - facts["outcome"]) ** 2}
        )
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def bench_texts(played: dict[str, Columns]) -> dict[str, str]:
    rows = []
    for name, own in played.items():
        means = _means(own, ("answer", "process", "both", "brier"))
        skill = 1 - own["brier"].mean() / own["base"].mean()
        rows.append([f"`{name}`", PLAYERS[name], *means, f"{skill:.2f}", f"{own['calls'].mean():.1f}"])
    return {"scores": markdown(["agent", "what it does", "answer", "process", "both", "Brier", "skill", "calls"], rows)}


def belief_texts(
    believed: dict[str, dict[str, float]],
    apart: dict[str, Estimate],
    bench: dict[str, dict[str, float]],
    own_walked: dict[str, dict[str, float]],
) -> dict[str, str]:
    rows = []
    for name, found in believed.items():
        way = with_interval(apart[name].estimate, apart[name].lower, apart[name].upper, 4)
        numbers = [f"{found[key]:.3f}".replace("nan", "-") for key in ("posterior_error", "brier_gain", "share_scored")]
        rows.append([name, way, *numbers])
    own = [
        [task, name, *(_named(found, key) for key in ("answer", "brier"))]
        for task, agents in (("agent_bench_mini", bench), ("fact_chains", own_walked))
        for name, found in agents.items()
    ]
    return {
        "beliefs": markdown(["agent", "on the way", "error", "gain", "read"], rows),
        "own answers": markdown(["task", "agent", "answer", "Brier"], own),
    }


def chain_texts(
    walked: dict[str, dict[str, float]], ablated: dict[tuple[str, str], dict[str, float]]
) -> dict[str, str]:
    rows = [
        [name, _named(found, "chain"), _named(found, "hop_error", 3), f"{found['answer']:.2f}"]
        for name, found in walked.items()
    ]
    planted = {name: CHAINS[name][1]["slip"] for name in walked if "slip" in CHAINS[name][1]}
    inside = sum(
        walked[name]["hop_error_lower"] <= slip <= walked[name]["hop_error_upper"] for name, slip in planted.items()
    )
    above = sum(walked[name]["hop_error"] - slip for name, slip in planted.items()) / len(planted)
    hidden = [
        [f"`{name}`", results, f"{found['chain_imputed']:.2f}", f"{found['share_scored']:.2f}"]
        for (name, results), found in ablated.items()
    ]
    return {
        "chains": markdown(["agent", "chain", "hop_error", "answer"], rows),
        "slips covered": f"{inside} of {len(planted)}",
        "slip bias": f"{above:+.3f}",
        "ablation": markdown(["agent", "results", "chain_imputed", "read"], hidden),
    }


def _means(own: Columns, figures: Sequence[str]) -> list[str]:
    return [_interval(mean_estimate(own[figure], None, (0, 1))) for figure in figures]


def _named(found: dict[str, float], name: str, digits: int = 2) -> str:
    return with_interval(found[name], found[f"{name}_lower"], found[f"{name}_upper"], digits)


def _interval(estimate: Estimate) -> str:
    return interval_cell(estimate, 2)


STUDY = Study(
    page="validity_agents.md",
    sizes={"n": 72},
    measures={
        "played": lambda n: play(n, list(PLAYERS)),
        "believed": lambda n: beliefs(n, BELIEVERS),
        "apart": lambda n: on_the_way(n, BELIEVERS),
        "bench": lambda n: own_answers(n, ["bayesian", "inventing", "no_tool", "hedging"]),
        "own_walked": lambda: own_walks(),
        "walked": lambda: chains(),
        "ablated": lambda: ablation(),
    },
    texts=(bench_texts, belief_texts, chain_texts),
)


if __name__ == "__main__":
    STUDY.main(__doc__)
