"""Bootstrapping: examples double by the judge's own ratings, and how that drifts is seen on what is held out."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import score
from inspect_ai.log import EvalLog
from inspect_ai.model import ChatMessage, Model, get_model

from tests.fixtures import Run, listens, metrics, samples
from truthgym.models.agents.judge import fields_of
from truthgym.models.agents.quality_markers import MARKERS
from truthgym.scorers.qualitative import qualitative
from truthgym.tasks.worlds import urns

PLAIN: dict[str, Any] = {
    "protocol": "thorough",
    "figures": "all",
    "shots": 2,
    "red_team": "none",
    "self_answer": False,
    "probes": "none",
}
QUESTION = re.compile(r"<question>\n(.*?)\n</question>", re.DOTALL)
QUALITIES = ("originality", "curiosity", "challenge", "uncertainty")


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Six rated examples, and ten candidates."""

    def write(name: str, numbers: range) -> str:
        rows = [
            {
                "id": f"{name}-{i}",
                "question": f"What of {name} {i}?",
                "trajectory": " ".join([f"On {name} {i}.", *MARKERS[: i % 9]]),
                "ratings": dict.fromkeys(QUALITIES, 10 + 10 * (i % 9)),
                "reasons": "Counted.",
            }
            for i in numbers
        ]
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    return write("matter", range(6)), write("affair", range(1, 11))


def judge_record(log: EvalLog) -> dict[str, Any]:
    metadata = (samples(log)[0].scores or {})["qualitative"].metadata or {}
    record: dict[str, Any] = metadata["judges"][0]
    return record


def scored(run: Run, judge: str | Model, **given: Any) -> EvalLog:
    log = run(urns(n=2, paradigms="brier"), epochs=1, model_args={"care": 0.5})
    return score(log, qualitative(**PLAIN | given), model_roles={"judge": judge}, action="overwrite", display="log")


def test_examples_double_and_an_exact_judge_does_not_drift(run: Run, files: tuple[str, str]) -> None:
    examples, candidates = files
    log = scored(run, "reference/judge", examples=examples, bootstrap_rounds=2, bootstrap_from=candidates, orders=3)
    record = judge_record(log)
    assert record["held_out"]["shown"] == [2, 4, 8]
    assert len(record["examples"]) == 8
    assert len(record["orders"]) == 3
    assert sum(name.startswith("affair") for name in record["examples"]) == 6
    result = metrics(log)
    assert [result[f"drift_round_{k}"] for k in (1, 2)] == [0, 0]
    assert [result[f"drift_error_round_{k}"] for k in (1, 2)] == [0, 0]
    assert result["anchor_error"] == 0


def test_candidates_are_shown_with_the_judges_own_ratings(run: Run, files: tuple[str, str]) -> None:
    examples, candidates = files

    def reply(messages: list[ChatMessage]) -> str:
        names = [name for name, _ in fields_of(messages[-1].text) or []]
        return json.dumps({name: "I say." if name == "reasons" else 33 for name in names})

    judge, heard = listens(reply)
    scored(run, judge, examples=examples, bootstrap_rounds=1, bootstrap_from=candidates, orders=2)
    last = heard[-1]
    shown = [json.loads(message.text) for message in last if message.role == "assistant"]
    own = {"reasons": "I say.", **dict.fromkeys(QUALITIES, 33)}
    assert shown.count(own) == 2
    assert len(shown) == 4
    # Two candidates and twice four held-out ones, and of each sample two orders.
    assert len(heard) == 2 + 2 * 4 + 2 * 2


def test_with_all_orders_candidates_cost_more_and_get_the_mean(run: Run, files: tuple[str, str]) -> None:
    examples, candidates = files
    numbers = iter([40, 41] + [50] * 100)

    def reply(messages: list[ChatMessage]) -> str:
        prompt = messages[-1].text
        candidate = "What of affair" in prompt
        number = next(numbers) if candidate else 10
        return json.dumps({name: "I say." if name == "reasons" else number for name, _ in fields_of(prompt) or []})

    judge, heard = listens(reply)
    arguments = {"examples": examples, "bootstrap_rounds": 1, "bootstrap_from": candidates, "bootstrap_permuted": True}
    scored(run, judge, **arguments, orders=2)
    assert len(heard) == 2 * 2 + 2 * 4 + 2 * 2
    shown = [json.loads(m.text)["curiosity"] for m in heard[-1] if m.role == "assistant"]
    assert 50 in shown or 45 in shown


def test_a_judge_swayed_by_the_last_example_drifts(run: Run, files: tuple[str, str]) -> None:
    examples, candidates = files
    judge = get_model("reference/judge", memoize=False, recency=0.3)
    log = scored(run, judge, examples=examples, bootstrap_rounds=1, bootstrap_from=candidates, few_shot="static")
    before, after = judge_record(log)["held_out"]["rated"]
    moved = {round(b - a, 2) for a, b in zip(before, after, strict=True) if min(a, b) > 0.015}
    assert max(moved) - min(moved) <= 0.011, "each is moved by the same, to a rounding"
    assert moved != {0}


def test_a_candidate_that_cannot_be_read_is_left_out(run: Run, files: tuple[str, str]) -> None:
    examples, candidates = files

    def reply(messages: list[ChatMessage]) -> str:
        prompt = messages[-1].text
        if "What of affair" in prompt:
            return "No."
        return json.dumps({name: "I say." if name == "reasons" else 10 for name, _ in fields_of(prompt) or []})

    judge, _ = listens(reply)
    log = scored(run, judge, examples=examples, bootstrap_rounds=2, bootstrap_from=candidates, few_shot="static")
    assert judge_record(log)["held_out"]["shown"] == [2, 2, 2]


def test_held_out_texts_are_not_rated_beside_their_question(run: Run, files: tuple[str, str]) -> None:
    examples, candidates = files
    rows = [json.loads(line) for line in Path(candidates).read_text().splitlines()]
    for number, row in enumerate(rows):
        row["question"] = f"What of matter {number}?"  # six of them are those of the examples, shown or held out
    Path(candidates).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def reply(messages: list[ChatMessage]) -> str:
        names = [name for name, _ in fields_of(messages[-1].text) or []]
        return json.dumps({name: "I say." if name == "reasons" else 33 for name in names})

    judge, heard = listens(reply)
    scored(run, judge, examples=examples, bootstrap_rounds=2, bootstrap_from=candidates, few_shot="static")
    looks = [m for m in heard if str((m[-1].metadata or {}).get("judging", "")).startswith("held out")]
    assert len(looks) == 3 * 4
    shown = [
        [QUESTION.findall(message.text)[0] for message in messages if message.role == "user"] for messages in looks
    ]
    assert any(len(questions) > 5 for questions in shown), "some were rated beside what was added"
    assert all(questions.count(questions[-1]) == 1 for questions in shown)
