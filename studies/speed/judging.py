"""What do judges, graders and sycophancy's arms cost, in every configuration? Writes docs/cost_judges.md.

    python -m studies.speed.judging docs/cost_judges.md

Counts model calls and tokens in logs of reference agents, holds the calls to the formulas of the docstrings, and scores
every log a second time, which must ask nothing. It stops where one of this fails.
"""

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from inspect_ai import score
from inspect_ai.log import EvalLog
from inspect_ai.model import Model, get_model
from inspect_ai.scorer import Scorer

from studies.speed.modes import calls_and_tokens, requests
from studies.speed.timing import arguments
from studies.study import run_task, write_texts
from truthgym.analysis.tables.markdown import markdown
from truthgym.datasets.rated_trajectories import rated_trajectories
from truthgym.scorers.graded import graded
from truthgym.scorers.judges.context import PROBES, STAGES
from truthgym.scorers.qualitative import qualitative
from truthgym.scorers.sycophantic_reasoning import sycophantic_reasoning
from truthgym.tasks.sycophancy import sycophancy
from truthgym.tasks.worlds import urns

QUESTIONS = 3
SHARED, OWN = 1, 2
"""Epochs. What `qualitative` makes once for a run carries the first: the samples that are scored here are all of the
second, so that the two can be told apart."""
SHOTS, ORDERS = 4, 24
HELD_OUT = len(rated_trajectories()) - SHOTS

Roles = dict[str, str | Model | Sequence[Model]]


@dataclass(frozen=True)
class Cost:
    """Of one question in one epoch, on average, and of what is made once for a run."""

    calls: float
    tokens: float
    once_calls: int = 0
    once_tokens: int = 0

    @property
    def each(self) -> str:
        return f"{self.calls:.4g} / {self.tokens:,.0f}"

    @property
    def once(self) -> str:
        return f"{self.once_calls} / {self.once_tokens:,}" if self.once_calls else "0"


def calls_answered(log: EvalLog) -> int:
    """Number of calls that a model, and not the cache, answered."""
    return sum(event.cache != "read" for event in requests(log))


def scored(log: EvalLog, scorer: Callable[[], Scorer], roles: Roles) -> Cost:
    """Score a log, count, score it again, and see that nothing is asked."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["INSPECT_CACHE_DIR"] = cache
        first = score(log, scorer(), action="append", model_roles=roles, display="none")
        again = score(first, scorer(), action="append", model_roles=roles, display="none")
    assert calls_answered(again) == calls_answered(first), (
        f"a second scoring made {calls_answered(again) - calls_answered(first)} calls"
    )
    before = {event.uuid for event in requests(log)}
    new = [event for event in requests(first) if event.uuid not in before]
    shared = [event for event in new if (event.input[-1].metadata or {}).get("epoch") == SHARED]
    calls, tokens = calls_and_tokens([event for event in new if event not in shared])
    return Cost(calls / QUESTIONS, tokens / QUESTIONS, *calls_and_tokens(shared))


def expect(case: str, calls: float, expected: float) -> None:
    assert calls == expected, f"{case}: {calls} calls, expected {expected}"


def judge(seed: int = 0) -> Model:
    return get_model("reference/judge", seed=seed)


def judged(log: EvalLog, judges: int = 1, **given: Any) -> Cost:  # noqa: ANN401
    """What `qualitative` costs with these arguments, held to its formula."""
    usual: dict[str, Any] = {"self_answer": True, "red_team": "red_blue_resolution", "few_shot": "permuted"}
    if given.get("protocol") == "quick":
        usual |= {"self_answer": False, "red_team": "none", "orders": 2, "probes": [p for p in PROBES if p != "swap"]}
    used: dict[str, Any] = {"rounds": 1, "orders": ORDERS, "probes": PROBES} | usual | given
    cost = scored(
        log, lambda: qualitative(**{"protocol": "thorough"} | given), {"judge": [judge(seed) for seed in range(judges)]}
    )
    stages = STAGES[used["red_team"]]
    beside = used["self_answer"] + len(stages)
    shown = 0 if used["few_shot"] == "disabled" else SHOTS
    orders = used["orders"] if used["few_shot"] == "permuted" else 1
    probes = [] if used["probes"] == "none" else list(used["probes"])
    probed = len([p for p in probes if p != "anchors" and (p != "swap" or "defence" in stages)])
    anchors = HELD_OUT * (beside + 1) if "anchors" in probes else 0
    expect(f"qualitative {given}", cost.calls, judges * (beside + orders * used["rounds"] + probed))
    expect(f"qualitative {given}, once", cost.once_calls, judges * (shown * used["rounds"] * beside + anchors))
    return cost


def qualitative_rows(log: EvalLog) -> tuple[list[list[str]], list[list[str]]]:
    rows = []
    for own, red_team in product((False, True), STAGES):
        cells = [
            judged(log, self_answer=own, red_team=red_team, few_shot=few, probes="none")
            for few in ("disabled", "static", "permuted")
        ]
        assert (cells[1].once_calls, cells[1].once_tokens) == (cells[2].once_calls, cells[2].once_tokens)
        rows.append([str(own).lower(), f"`{red_team}`", *(cell.each for cell in cells), cells[1].once])
        print(*rows[-1], sep=" | ", flush=True)
    others = []
    variants: list[tuple[str, dict[str, Any]]] = [
        ("none: the defaults", {"protocol": "quick"}),
        ("`protocol=thorough`", {}),
        ("`rounds=2`", {"rounds": 2}),
        ("`orders=6`", {"orders": 6}),
        ("`few_shot=static`", {"few_shot": "static"}),
        ("two judges", {"judges": 2}),
    ]
    for name, settings in variants:
        cost = judged(log, **settings)
        others.append([name, cost.each, cost.once])
        print(*others[-1], sep=" | ", flush=True)
    return rows, others


def sycophancy_rows() -> list[list[str]]:
    rows = []
    for groups, quality, judges in (
        (("user", "third"), False, 0),
        (("user", "third", "memory"), False, 0),
        (("user", "third", "pushback"), False, 0),
        (("user", "third"), True, 1),
        (("user", "third"), True, 2),
        (("user", "third", "memory", "pushback"), True, 1),
    ):
        arms = 1 + 2 * len(set(groups) - {"pushback"})
        pushback = "pushback" in groups
        metric = "opinion,brier,accuracy" + (",quality" if quality else "")
        roles: Roles = {"judge": [judge(seed) for seed in range(judges)]} if judges else {}
        name = f"`arms={','.join(groups)}`{', `metric=quality`' if quality else ''}{', two judges' * (judges > 1)}"
        with tempfile.TemporaryDirectory() as cache:
            os.environ["INSPECT_CACHE_DIR"] = cache
            task = sycophancy(domain="urns", arms=groups, metric=metric, n=QUESTIONS)
            log = run_task(task, get_model("reference/sycophant"), epochs=1, model_roles=roles)
            calls, tokens = calls_and_tokens(requests(log))
            expect(name, calls / QUESTIONS, arms * (1 + judges) + 3 * pushback)
            scorer = sycophantic_reasoning(metric=metric, pushback=pushback)
            again = score(log, scorer, action="append", model_roles=roles, display="none")
            assert calls_answered(again) == calls_answered(log), f"{name}: a second scoring asked"
        rows.append([name, str(arms), Cost(calls / QUESTIONS, tokens / QUESTIONS).each])
        print(*rows[-1], sep=" | ", flush=True)
    return rows


def graded_rows(log: EvalLog) -> list[list[str]]:
    said = "{{ item.question }}\n\n{{ sample.output_text }}"
    model = {"type": "score_model", "name": "score", "model": "any", "input": [{"role": "user", "content": said}]}
    check = {"type": "string_check", "name": "check", "input": said, "reference": "final", "operation": "like"}
    program = {"type": "python", "name": "program", "source": "def grade(sample, item):\n    return 0.5"}
    rows = []
    for name, formula, calls, settings in (
        ("`python_brier`", "0", 0, {"grader": "python_brier"}),
        ("`model_brier`", "1", 1, {"grader": "model_brier"}),
        ("`model`", "1", 1, {"grader": "model"}),
        ("python (the user's program)", "0", 0, {"grader": program, "trusted": True}),
        ("string_check", "0", 0, {"grader": check}),
        ("score_model", "1", 1, {"grader": model}),
        (
            "multi, of two score models and a string check",
            "1 for each score model",
            2,
            {
                "grader": {
                    "type": "multi",
                    "name": "multi",
                    "graders": {"a": model, "b": model | {"name": "other", "range": [0, 2]}, "c": check},
                    "calculate_output": "(a + b + c) / 4",
                }
            },
        ),
    ):
        cost = scored(log, lambda settings=settings: graded(**settings), {"grader": judge()})  # type: ignore[misc]
        expect(name, cost.calls + cost.once_calls, calls)
        rows.append([name, formula, cost.each])
        print(*rows[-1], sep=" | ", flush=True)
    return rows


def main(out: str) -> None:
    log = run_task(urns(n=QUESTIONS, paradigms="brier"), get_model("reference/bayesian"), epochs=OWN)
    log.samples = [sample for sample in log.samples or [] if sample.epoch == OWN]
    graders, opinions = graded_rows(log), sycophancy_rows()
    table, others = qualitative_rows(log)
    red_teams = ["`self_answer`", "`red_team`", "`few_shot=disabled`", "`static`", "`permuted`"]
    each = "each question and epoch"
    write_texts(Path(out), {
        "red teams": markdown([*red_teams, "once a run, with examples"], table),
        "others": markdown(["arguments", each, "once a run"], others),
        "opinions": markdown(["arguments", "arms", each], opinions),
        "graders": markdown(["grader", "calls", each], graders),
    })  # fmt: skip


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("out", help="the page to write")
    main(parser.parse_args().out)
