"""A user's own questions in a file, and a user's own task of plain Inspect samples."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from inspect_ai import Task, score
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import get_model
from inspect_ai.solver import Solver, chain, generate, prompt_template

from tests.fixtures import Fails, Run, write_rows
from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import Question, question_metadata
from truthgym.scorers.brier import brier
from truthgym.scorers.martingale import martingale
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.direct import direct
from truthgym.solvers.prepare import prepare
from truthgym.tasks.domains import questions
from truthgym.tasks.sycophancy import sycophancy

ROWS = [{"id": f"bus-{k}", "question": f"Is bus {k} late?", "target": "yes" if k % 3 else "no"} for k in range(12)]


def metrics(log: EvalLog, scorer: str) -> dict[str, float]:
    assert log.results
    return {name: m.value for one in log.results.scores if one.name == scorer for name, m in one.metrics.items()}


PLAIN = [prompt_template(r"Weigh it: {prompt} End with \finalBeliefProb{{p}}."), generate()]


@pytest.mark.parametrize("solver", [None, chain_of_thought(steps=1), chain(PLAIN)])
def test_agents_play_a_file_with_outcomes(run: Run, tmp_path: Path, solver: Solver | None) -> None:
    task = questions(write_rows(tmp_path / "mine.jsonl", *ROWS))
    log = run(task, get_model("reference/bayesian", skill=3), epochs=1, solver=solver)
    assert metrics(log, "brier")["brier"] < 0.2
    assert metrics(log, "brier")["share_scored"] == metrics(log, "martingale")["share_scored"] == 1
    again = score(log, martingale(), action="overwrite", display="log")
    assert metrics(again, "martingale")["share_scored"] == 1


def test_agents_take_all_arms_for_one_question(run: Run, tmp_path: Path) -> None:
    task = sycophancy({"forecasting": {"source": write_rows(tmp_path / "mine.jsonl", *ROWS)}}, metric="opinion")
    log = run(task, get_model("reference/sycophant"), epochs=1)
    assert metrics(log, "sycophantic_reasoning")["net_sycophancy"] > 0.05


def test_a_file_may_say_more(tmp_path: Path) -> None:
    row = ROWS[0] | {"evidence": ["It snows."], "known_on": "2024-05-01", "event": "snow", "crowd": 0.4}
    (item,) = questions(write_rows(tmp_path / "mine.jsonl", row)).dataset
    known = item.metadata_as(Question)
    assert (known.evidence, known.event, known.crowd) == (["It snows."], "snow", 0.4)
    assert known.proposition == "The answer to this question is yes: Is bus 0 late?"


def test_all_bad_rows_are_in_one_list(tmp_path: Path) -> None:
    bad: list[dict[str, Any]] = [
        {"id": "a", "question": "Why?"},
        ROWS[0],
        {"question": "", "target": "maybe", "crowd": 70},
    ]
    with pytest.raises(BadInput) as error:
        questions(write_rows(tmp_path / "mine.jsonl", *bad))
    first, second = str(error.value).splitlines()
    assert first == "mine.jsonl line 1: the field `outcome` is missing; add it"
    assert all(
        part in second for part in ("line 3", "`id` is missing", "`question` must be text", "'maybe'", "write 0.7")
    )


def test_csv_and_parquet_give_the_questions_of_jsonl(tmp_path: Path) -> None:
    row = ROWS[0] | {"evidence": ["It snows, a lot."], "known_on": "2024-05-01", "crowd": 0.4}
    jsonl = questions(write_rows(tmp_path / "mine.jsonl", row, ROWS[1]))
    (tmp_path / "mine.csv").write_text(
        "id,question,target,evidence,known_on,crowd\n"
        'bus-0,Is bus 0 late?,no,"[""It snows, a lot.""]",2024-05-01,0.4\n'
        "bus-1,Is bus 1 late?,yes,,,\n"
    )
    pd.DataFrame([row, ROWS[1]]).to_parquet(tmp_path / "mine.parquet")
    for name in ("mine.csv", "mine.parquet"):
        other = questions(str(tmp_path / name))
        assert list(other.dataset) == list(jsonl.dataset)
    (tmp_path / "mine.csv").write_text("id,question,target,crowd\nbus-0,Late?,no,70\nbus-1,Late?,1,no idea\n")
    with pytest.raises(BadInput) as error:
        questions(str(tmp_path / "mine.csv"))
    first, second = str(error.value).splitlines()
    assert first == "mine.csv line 2: the field `crowd`: 70.0 is not a probability; write 0.7"
    assert all(part in second for part in ("line 3", "`target`: '1'", "`crowd`: 'no idea' is not a probability"))


def own_task(**metadata: Any) -> Task:
    samples = [Sample(id=row["id"], input=row["question"], target=row["target"], metadata=metadata) for row in ROWS]
    return Task(dataset=samples, setup=prepare(), solver=direct(), scorer=[brier(), martingale()])


@pytest.mark.parametrize("metadata", [{}, {"source": "a survey"}, {"event": "strike", "crowd": 0.5}])
def test_plain_samples_are_questions(run: Run, metadata: dict[str, Any]) -> None:
    log = run(own_task(**metadata), get_model("reference/bayesian", skill=3), epochs=1)
    for scorer in ("brier", "martingale"):
        assert metrics(log, scorer)["share_scored"] == 1


def test_a_sample_that_is_not_a_question_is_explained(fails: Fails) -> None:
    assert "`crowd`: 70 is not a probability" in fails(own_task(crowd=70))
    task = own_task()
    for sample in task.dataset:
        sample.target = "a bus"
    message = fails(task)
    assert all(part in message for part in ("Sample 'bus-", "`domain` is missing", "docs/own_task.md"))


def test_metadata_are_made_from_a_sample() -> None:
    known = question_metadata("a", "Is it so?", "yes", evidence=["It is."])
    assert Question.model_validate(known).evidence == ["It is."]
    assert (known["event"], known["form"], json.dumps(known) != "") == ("a", "binary", True)
    assert question_metadata("a", "Say it.", "some text")["form"] == "free"
    with pytest.raises(BadInput, match="sample 'a': .*`crowd`: 70"):
        question_metadata("a", "Is it so?", crowd=70)
