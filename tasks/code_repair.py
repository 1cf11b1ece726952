"""Code repair: functions with structural faults, scored by hidden tests that the answer can neither reach nor forge.

inspect eval truthgym/code_repair --sandbox docker --model ...
inspect eval truthgym/code_repair -T tier=3 -T trusted=true --model ...
"""

from collections.abc import Sequence

from inspect_ai import Task, task

from truthgym.datasets import code_repair as data
from truthgym.tasks.domain_task import ScorerNames, domain_task


@task
def code_repair(
    source: str = "bundled",
    split: str = "all",
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    tier: int | None = None,
    trusted: bool = False,
    time_limit: int = 30,
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Repair a function. Default paradigm: graded by `hidden_tests`, the share whose every test passes.

    The answer's program runs in the sample's sandbox after the answer is given, for at most `time_limit` seconds, so
    the run needs `--sandbox docker` or another that isolates. With `trusted` it runs on this machine instead, behind a
    guard against accidents, which is not a defence against malice. `tier` keeps the functions of one tier, 1 to 3.
    docs/agents.md describes what is tested, and docs/domains.md the other arguments.
    """
    questions = data.code_repair(source, split, None, n, seed, sha256, tier=tier)
    if trusted:  # the tool python needs a sandbox
        for item in questions:
            item.metadata = {**(item.metadata or {}), "tools": []}
    grader = {"graded": {"grader": "hidden_tests", "trusted": trusted, "time_limit": time_limit}}
    return domain_task(
        questions, grader if paradigms is None else paradigms, [], system_prompt, version="1-A", epochs=1
    )
