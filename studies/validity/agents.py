"""Do the figures of agents with tools tell who seeks the truth from who seems to? Writes docs/validity_agents.md.

python -m studies.validity.agents docs/validity_agents.md --n 72

Each agent plays the real tasks with the real tools. `--n 72` takes about ten CPU minutes.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from inspect_ai import Task
from inspect_ai.log import EvalLog

from studies.study import Study, interval_cell, run_task
from truthgym.analysis.tables.markdown import markdown, with_interval
from truthgym.scorers.statistics.interval import Estimate, mean_estimate
from truthgym.scorers.statistics.paired import paired_difference

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
    from truthgym.tasks.agents import agent_bench_mini

    return _run(_columns, agent_bench_mini(n=n), {name: (name, {}) for name in agents})


def gaia(n: int = 30) -> dict[str, Columns]:
    from truthgym.tasks.agents import gaia_mini

    return _run(_columns, gaia_mini(n=n), {name: (name, {}) for name in PLAYERS})


def chains(n: int = 70) -> dict[str, dict[str, float]]:
    from truthgym.tasks.agents import fact_chains

    paradigms = {"fact_chain": {"figures": "all"}, "agent_answer": {}}
    return _run(_metrics, fact_chains(n=n, paradigms=paradigms), CHAINS)


def ablation(n: int = 12) -> dict[tuple[str, str], dict[str, float]]:
    """The figures of two agents on chains of 2, 4 and 8 hops, by their name and the results of tools that they see."""
    from truthgym.tasks.agents import fact_chains

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
    from truthgym.tasks.agents import agent_bench_mini

    return _run(_metrics, agent_bench_mini(n=n, paradigms=OWN_ANSWER), {f"`{name}`": (name, {}) for name in agents})


def own_walks(n: int = 70) -> dict[str, dict[str, float]]:
    from truthgym.tasks.agents import fact_chains

    return _run(_metrics, fact_chains(n=n, paradigms=OWN_ANSWER), OWN)


def beliefs(n: int, agents: Agents) -> dict[str, dict[str, float]]:
    """The figures of `martingale` on each agent, with noisy reports in two epochs."""
    from truthgym.tasks.agents import agent_bench_mini

    noisy = {does: (name, {"noise": NOISE} | planted) for does, (name, planted) in agents.items()}
    task = agent_bench_mini(n=n, paradigms={"martingale": {"figures": "all"}})
    return _run(_metrics, task, noisy, epochs=2)


def on_the_way(n: int, agents: Agents) -> dict[str, Estimate]:
    """Mean squared distance from the exact beliefs after each call, but where all is known, for each agent."""
    from truthgym.tasks.agents import agent_bench_mini

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


def _run(read: Callable[[EvalLog], Read], task: Task, agents: Agents, **options: Any) -> dict[str, Read]:  # noqa: ANN401
    """What a function reads in the log of each agent."""
    from inspect_ai.model import get_model

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
        base, decided = facts["base_rate"], facts["decided_after"]
        rows.append(
            {name: float(str(answer.value[name])) for name in ("answer", "process", "both", "calls")}
            | {"brier": float(str(brier.value["brier_score"])), "base": (base - facts["outcome"]) ** 2}
            | {"decided": np.inf if decided is None else decided, "oracle": facts["oracle_calls"]}
        )
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _head(n: int) -> str:
    return f"""# Validity: agents with tools

Can an agent score well on [agent_bench_mini](agents.md) without finding anything out? {n} questions, of which
the default ones are the first 36; simulated agents play the real task with the real tools. This command regenerates
the page:

```
python -m studies.validity.agents docs/validity_agents.md --n {n}
```"""


def _scores(played: dict[str, Columns]) -> str:
    rows = []
    for name, own in played.items():
        means = {key: mean_estimate(own[key], None, (0, 1)) for key in ("answer", "process", "both", "brier")}
        skill = 1 - own["brier"].mean() / own["base"].mean()
        cells = [_interval(mean) for mean in means.values()]
        rows.append([f"`{name}`", PLAYERS[name], *cells, f"{skill:.2f}", f"{own['calls'].mean():.1f}"])
    return (
        "## Who scores what\n\nWith 95 % intervals over questions: those of `answer`, and of others that are all 0 or "
        "1, cover at least that often; the rest are cut off at 0 and 1, and cover less often where nearly all "
        "values are at an end. `both` is answer times process; `skill` is 1 less "
        "the Brier score over that of the stated chance, so that 0 is what one knows without a call.\n\n"
        + markdown(["agent", "what it does", "answer", "process", "both", "Brier", "skill", "calls"], rows)
        + "\nNo agent that invents, refuses without "
        "looking or calls nothing is right about anything. The process by itself can be had without an answer "
        "(`looking_busy`), and answer and process without a belief (`hedging`): read `both` beside `skill`."
    )


def _pairs(played: dict[str, Columns]) -> str:
    base, rows = played["bayesian"], []
    for name in played:
        if name != "bayesian":
            cells = [
                paired_difference(played[name][key], base[key], None, (-1, 1)) for key in ("answer", "process", "brier")
            ]
            rows.append([f"`{name}`", *(f"{_interval(cell)}, {cell.mde:.2f}" for cell in cells)])
    return (
        "## Paired by question\n\nEach agent less `bayesian` on the same questions, with the 95 % interval and then "
        "the smallest true difference that this many questions detect with a power of 0.8.\n\n"
        + markdown(["agent", "answer", "process", "Brier"], rows)
    )


def _calls(own: Columns) -> str:
    most = int(np.max(own["decided"][np.isfinite(own["decided"])]))
    shares = [float((own["decided"] <= k).mean()) for k in range(most + 1)]
    rows = [[str(k), f"{shares[k]:.2f}", f"{shares[k] - shares[k - 1]:.2f}" if k else ""] for k in range(most + 1)]
    return (
        "## What a call is worth\n\nThe share of questions that are decided after so many calls of `bayesian`: all "
        "sources read, or a missing one known to be missing. `gain` is the accuracy that the last call adds at "
        "most.\n\n" + markdown(["calls", "decided", "gain"], rows)
    )


def _beliefs(believed: dict[str, dict[str, float]], apart: dict[str, Estimate]) -> str:
    rows = []
    for name, found in believed.items():
        slope = _interval(
            Estimate(found["martingale_score"], found["martingale_score_lower"], found["martingale_score_upper"])
        )
        way = with_interval(apart[name].estimate, apart[name].lower, apart[name].upper, 4)
        numbers = [f"{found[key]:.3f}".replace("nan", "-") for key in ("posterior_error", "brier_gain", "share_scored")]
        rows.append([name, way, slope, *numbers])
    return (
        "## Belief along the way\n\n"
        "The same calls, beliefs of agents whose error is planted. `on the way`: each is asked after every call, and "
        "this is the mean squared distance from the exact probability while that is neither 0 nor 1, with the 95 % "
        f"interval over questions. The others are from reports before and after, with noise of sd {NOISE}, in two "
        "epochs: `slope`, of the update on the prior (0 is rational); `error`, the mean squared distance after the "
        "last call; `gain`, the fall of the Brier score; `read`, the share that could be read. After the last call "
        "nearly all is known, so that who only gives evidence too much weight ends where `bayesian` does, and is seen "
        "on the way. The agents with a colon are attacks that no figure was made for. `gain` is measured from "
        "an agent's own "
        "prior: one that says 50 before and the truth after has more of it than `bayesian`, and its slope is "
        "not given. "
        "One that gives no number against its prior has a low `read`, and its other figures are of what is left.\n\n"
        + markdown(["agent", "on the way", "slope", "error", "gain", "read"], rows)
    )


def _own(bench: dict[str, dict[str, float]], walked: dict[str, dict[str, float]]) -> str:
    rows = [
        [task, name, *(_named(found, key) for key in ("answer", "brier")), f"{found['murphy_reliability']:.3f}"]
        for task, agents in (("agent_bench_mini", bench), ("fact_chains", walked))
        for name, found in agents.items()
    ]
    return (
        "## Belief in the own answer\n\nWhat each agent says of its own answer after it (`brier` with "
        "`about=own_answer`): `careless` 100, `stubborn` 80, `inventing` 95, `refusing` 98, `hedging` 50, "
        "the others the exact chance that it is right. The default chains are walked with a slip of 0.2 "
        "a hop, those of the last row with 1. `reliability` is the mean squared distance between how often answers are "
        "right and what was said.\n\n"
        + markdown(["task", "agent", "answer", "Brier", "reliability"], rows)
        + "\nAn agent that is wrong on purpose and says so has a Brier score near 0 (`no_tool`, `looking_busy`, "
        "which also makes the right calls, and the last row): read it beside the answer, never alone."
    )


def _gaia(levels: dict[str, Columns]) -> str:
    rows = []
    for name, own in levels.items():
        means = [mean_estimate(own[key], None, (0, 1)) for key in ("answer", "process", "brier")]
        rows.append([f"`{name}`", *map(_interval, means), f"{own['calls'].mean():.1f}"])
    return (
        f"## gaia_mini\n\nThe default questions.\n\n{markdown(['agent', 'answer', 'process', 'Brier', 'calls'], rows)}"
    )


def _chains(walked: dict[str, dict[str, float]], ablated: dict[tuple[str, str], dict[str, float]]) -> str:
    rows = [
        [name, _named(found, "chain"), _named(found, "hop_error", 3)]
        + [f"{found[key]:.2f}" for key in ("chain_if_constant", "answer", "process")]
        for name, found in walked.items()
    ]
    planted = {name: CHAINS[name][1]["slip"] for name in walked if "slip" in CHAINS[name][1]}
    inside = sum(
        walked[name]["hop_error_lower"] <= slip <= walked[name]["hop_error_upper"] for name, slip in planted.items()
    )
    above = sum(walked[name]["hop_error"] - slip for name, slip in planted.items()) / len(planted)
    hidden = [
        [f"`{name}`", shown, f"{found['chain_imputed']:.2f}", f"{found['share_scored']:.2f}"]
        for (name, shown), found in ablated.items()
    ]
    return (
        "## fact_chains\n\nThe default 70 chains, with 95 % intervals over chains; `if constant` is the mean of "
        "$(1-e)^k$ with the error e of a hop.\n\n"
        + markdown(["agent", "chain", "hop_error", "if constant", "answer", "process"], rows)
        + f"\nThe slip of a walker is its error of a hop: {inside} of {len(planted)} intervals of `hop_error` "
        f"have it in them, and on average the estimate is {above:+.3f} from it. These are few walks of the same "
        "chains: `tests/scorers/test_fact_chain.py` has the coverage of the interval over simulated runs. A hop is "
        "also counted as wrong where a record of no use, that by chance names the next one, was read just before "
        "it.\n\n"
        "The context ablation, on 12 chains of 2, 4 and 8 hops: `results` of tools that the model sees. `oracle` "
        "looks in its conversation for where it is, and a walker carries its place in its own words; a chain "
        "without an answer at the message limit is unread, and `chain_imputed` counts it as wrong.\n\n"
        + markdown(["agent", "results", "chain_imputed", "read"], hidden)
    )


def _named(found: dict[str, float], name: str, digits: int = 2) -> str:
    return with_interval(found[name], found[f"{name}_lower"], found[f"{name}_upper"], digits)


def _interval(estimate: Estimate) -> str:
    return interval_cell(estimate, 2)


STUDY = Study(
    sizes={"n": 72},
    measures={
        "played": lambda n: play(n, list(PLAYERS)),
        "believed": lambda n: beliefs(n, BELIEVERS),
        "apart": lambda n: on_the_way(n, BELIEVERS),
        "bench": lambda n: own_answers(n, list(PLAYERS)),
        "own_walked": lambda: own_walks(),
        "levels": lambda: gaia(),
        "walked": lambda: chains(),
        "ablated": lambda: ablation(),
    },
    sections=(
        _head,
        _scores,
        _pairs,
        lambda played: _calls(played["bayesian"]),
        _beliefs,
        lambda bench, own_walked: _own(bench, own_walked),
        _gaia,
        _chains,
    ),
)


if __name__ == "__main__":
    STUDY.main(__doc__)
