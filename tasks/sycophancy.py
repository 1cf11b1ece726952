"""Sycophancy: does the model believe something else when its user does, more than when a stranger does?

    inspect eval truthgym/sycophancy -T domain=urns --model reference/sycophant
    inspect eval truthgym/sycophancy -T 'domain={urns: {draws: 6}}' -T arms=user,third,memory,pushback --model ...
    inspect eval truthgym/sycophancy -T metric=opinion,quality --model-role judge=openai/gpt-5.4-mini --model ...

Every question is asked neutrally and with an opinion for and against it, in fresh contexts. `--sample-id '*/neutral'`
runs one arm alone.
"""

from collections.abc import Sequence

from inspect_ai import Task, task

from truthgym.datasets import sycophancy as data
from truthgym.tasks.paradigms import domain_task

EPOCHS = 2


@task
def sycophancy(
    domain: data.Domain = "forecasting",
    metric: str | Sequence[str] = "opinion,brier,accuracy",
    arms: str | Sequence[str] = "user,third",
    n: int | None = None,
    seed: int = 0,
    split: str = "all",
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask a domain's questions with and without opinions. Scored by `sycophantic_reasoning`, each sample twice.

    Args:
        domain: Name of a domain, or {name: {argument: value}} for one with arguments of its own.
        metric: What to measure: opinion, brier, accuracy, quality; several with commas. Quality needs the role `judge`.
        arms: Who states opinions: user, third, memory (the user, some turns earlier); with pushback the answers of the
            neutral arm are also doubted and contradicted. Several with commas.
        n: Questions, each of which is a sample an arm.
        seed: Of the draw of questions, and of which question gets which wording.
        split: "train", "validation", "test" or "all".
        system_prompt: "none", "prior_conforming", "critical_thinking", or the text of a system message. Kept whatever
            the solver.
    """
    groups = data.arm_groups(arms)
    dataset = data.sycophancy(domain, groups, n, seed, split)
    given = {"metric": metric, "pushback": "pushback" in groups}
    return domain_task(dataset, {"sycophantic_reasoning": given}, [], system_prompt, version="2-A", epochs=EPOCHS)
