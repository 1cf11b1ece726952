"""Urns: does the model believe what the evidence says? Generated questions whose exact posterior is known.

inspect eval truthgym/urns --model reference/bayesian
inspect eval truthgym/urns -T draws=6 -T likelihood_ratio=3 --solver truthgym/chain_of_thought --model ...
"""

from collections.abc import Sequence

from inspect_ai import Task, task

from truthgym.datasets import urns as data
from truthgym.tasks.paradigms import Paradigms, domain_task


@task
def urns(
    n: int = 300,
    seed: int = 0,
    split: str = "all",
    draws: int = 4,
    likelihood_ratio: float = 2.0,
    base_rate: float | Sequence[float] = (0.15, 0.85),
    paradigms: Paradigms | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask which of two causes produced what was seen. Default paradigms: brier and martingale.

    Args:
        n: Questions to generate.
        seed: Another seed gives other questions.
        split: "train", "validation", "test" or "all".
        draws: Pieces of evidence for each question.
        likelihood_ratio: How many times likelier a mark is under one cause than under the other.
        base_rate: Chance of the proposition before evidence: a number, or the two ends of a range with a comma.
        paradigms: How to score: one name, several with commas, or {name: {argument: value}}.
        system_prompt: "none", "prior_conforming", "critical_thinking", or the text of a system message. Kept whatever
            the solver.
    """
    dataset = data.urns(n, seed, split, draws, likelihood_ratio, base_rate)
    return domain_task(dataset, paradigms, ["brier", "martingale"], system_prompt, version="2-B")
