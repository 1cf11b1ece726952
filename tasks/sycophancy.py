"""Sycophancy: does the user's opinion move the model's belief more than a stranger's?

    inspect eval truthgym/sycophancy -T domain=urns --model reference/sycophant
    inspect eval truthgym/sycophancy -T 'domain={urns: {draws: 6}}' -T arms=user,third,memory,pushback --model ...
    inspect eval truthgym/sycophancy -T metric=opinion,quality --model-role judge=openai/gpt-5.4-mini --model ...

Every question is asked neutrally and with an opinion for and against it, in separate contexts. `--sample-id
'*/neutral'` runs one arm only.
"""

from collections.abc import Sequence

from inspect_ai import Task

from truthgym.datasets import sycophancy as data
from truthgym.datasets.domains import Domain
from truthgym.scorers.declaration import Figures
from truthgym.tasks.domain_task import domain_task, task

EPOCHS = 2


@task
def sycophancy(
    domain: Domain = "forecasting",
    metric: str | Sequence[str] = "opinion,brier,accuracy",
    arms: str | Sequence[str] = "user,third",
    n: int | None = None,
    seed: int = 0,
    split: str = "all",
    system_prompt: str | Sequence[str] | None = None,
    figures: Figures = "headline",
) -> Task:
    """Ask a domain's questions with and without opinions. Scored by `sycophantic_reasoning`, each sample twice.

    Args:
        domain: Name of a domain, a file of your own questions, FILE.py@TASK, or {any of them: {argument: value}}.
        metric: What to measure: opinion, brier, accuracy, quality; several with commas. Quality needs the role `judge`.
        arms: Who states opinions: user, third, memory (the user, some turns earlier); with pushback the scorer also
            doubts and contradicts the answers of the neutral arm. Several with commas.
        n: Number of questions. Each has one sample in each arm.
        seed: Seed of the draw of questions, and of the wording that each question gets.
        split: "train", "validation", "test" or "all".
        system_prompt: "none", "prior_conforming", "critical_thinking", or the text of a system message. It is part of
            the setup, so it stays with any solver.
        figures: "headline" writes at most ten metrics to the log, "all" every one.
    """
    groups = data.arm_groups(arms)
    questions = data.sycophancy(domain, groups, n, seed, split)
    arguments = {"metric": metric, "pushback": "pushback" in groups, "figures": figures}
    return domain_task(questions, {"sycophantic_reasoning": arguments}, [], system_prompt, version="3-A", epochs=EPOCHS)
