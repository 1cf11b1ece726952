from collections import Counter
from typing import Any

import pytest
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.event import ModelEvent
from inspect_ai.log import EvalLog
from inspect_ai.model import get_model
from inspect_ai.scorer import match

from tests.fixtures import Run, write_rows
from truthgym.analysis.tables.cost_estimate import estimate, estimate_text
from truthgym.datasets.errors import BadInput
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.dialogue import dialogue
from truthgym.tasks.sycophancy import sycophancy
from truthgym.tasks.worlds import urns

STEPS = {"brier": {}, "martingale": {"per": "step", "elicitor": "both"}}


def calls(log: EvalLog) -> dict[str, int]:
    events = [event for sample in log.samples or [] for event in sample.events if isinstance(event, ModelEvent)]
    return dict(Counter(event.role or "model" for event in events if event.cache != "read"))


@pytest.mark.parametrize(
    ("task", "solver", "roles"),
    [
        (lambda: urns(n=9, paradigms=STEPS), lambda: chain_of_thought(2), {"judge": "reference/judge"}),
        (lambda: urns(n=5, paradigms="brier"), lambda: dialogue(1), {"interlocutor": "reference/entrenched"}),
        (lambda: urns(n=4, paradigms="qualitative"), None, {"judge": "reference/judge"}),
        (lambda: sycophancy(domain="urns", n=5, arms="user,pushback"), None, {}),
    ],
)
def test_the_calls_are_those_of_the_run(task: Any, solver: Any, roles: dict[str, str], run: Run) -> None:
    solvers = {"solver": solver()} if solver else {}
    models = {"model": ["openai/m"]} | {role: [name] for role, name in roles.items()}
    frame = estimate(task(), models, questions=2, **solvers)
    bound = {role: get_model(name, seed=7) for role, name in roles.items()}
    log = run(task(), "reference/overreacting", model_roles=bound, **solvers)
    assert dict(zip(frame["role"], frame["calls"], strict=True)) == pytest.approx(calls(log))
    answers = frame.attrs["samples"] * frame.attrs["epochs"]
    assert answers == len(log.samples or [])
    usage = log.stats.model_usage["reference/overreacting"]
    assert frame["tokens_in"].iloc[0] == pytest.approx(usage.input_tokens, rel=0.1)


def test_money_and_longer_replies(tmp_path: Any) -> None:
    prices = write_rows(tmp_path / "prices.json", {
        "openai/m": {"input": 1, "output": 8, "input_cache_write": 1, "input_cache_read": 0.1}})  # fmt: skip
    short = estimate(urns(n=40, paradigms="martingale"), {"model": ["openai/m"]}, prices=prices, questions=2, epochs=1)
    long = estimate(
        urns(n=40, paradigms="martingale"), {"model": ["openai/m"]}, questions=2, epochs=1, reply_tokens=500, limit=20
    )
    row = short.iloc[0]
    assert row["money"] == pytest.approx((row["tokens_in"] + 8 * row["tokens_out"]) / 1e6, rel=0.001)
    # 20 replies of 500 tokens, each read again by the probe after it, and 40 probes of one number.
    assert 20 * 500 <= long["tokens_out"].iloc[0] < 20 * 520 + 40 * 20
    assert long["tokens_in"].iloc[0] > 20 * 500
    page = estimate_text(short)
    assert "40 samples x 1 epochs = 40 answers: 120 calls, about" in page
    assert "| dollars |" in page
    assert "give --reply-tokens" in page
    assert "reply-tokens" not in estimate_text(long)


def test_other_projects_tasks_are_rehearsed_too() -> None:
    task = Task(dataset=[Sample(input="Which?", target="so"), Sample(input="Who?", target="so")], scorer=match())
    frame = estimate(task, {"model": ["m"]}, reply_tokens=10)
    assert frame[["role", "calls"]].to_numpy().tolist() == [["model", 2]]


def test_what_a_run_would_refuse_is_refused(tmp_path: Any) -> None:
    with pytest.raises(BadInput, match="The rehearsal failed: .*needs the role judge"):
        estimate(urns(n=2, paradigms="qualitative"), {"model": ["m"]})
    with pytest.raises(BadInput, match="does not hold prices"):
        estimate(urns(n=2), {"model": ["m"]}, prices=write_rows(tmp_path / "p.json", {"m": 3}))
