"""Graders as they are sent to OpenAI grade as they do here."""

import json
from pathlib import Path
from typing import Any

import pytest
from openai.types import graders as types
from pydantic import BaseModel

from tests.scorers.graders.answers import answer, grade_of
from truthgym.datasets.errors import BadInput
from truthgym.scorers.graders.builtin import RUBRIC, python_brier
from truthgym.scorers.graders.openai import openai_grader, read_formula
from truthgym.scorers.graders.openai_export import NAMES, grader, needs_target
from truthgym.scorers.graders.python import ProgramOptions
from truthgym.scorers.statistics.proper_scores import brier_score

ANSWERS = [
    r"It will. \finalBeliefProb{0.73}",
    r"\finalBeliefProb{1} or rather \finalBeliefProb{0.2}",
    r"So \finalBeliefProb{0}.",
    r"\finalBeliefProb{p}",
    "Surely 80%.",
    "",
]


def run(program: str, text: str, target: str) -> float:
    """What a program says, run as OpenAI runs it: alone, with what stands in `sample` and `item`."""
    names: dict[str, Any] = {"__name__": "grader"}
    exec(program, names)
    return float(names["grade"]({"output_text": text, "choices": []}, {"target": target}))


@pytest.mark.parametrize("target", ["yes", "no"])
@pytest.mark.parametrize("text", ANSWERS)
def test_the_program_is_one_less_the_scorer_s_brier_score(text: str, target: str) -> None:
    here = grade_of(python_brier(), answer(text, target)).value
    there = run(grader("python_brier")["source"], text, target)
    assert there == pytest.approx(0.0 if here is None else 1 - here)


def test_the_program_needs_nothing_that_is_not_in_python() -> None:
    source = grader("python_brier")["source"]
    assert "truthgym" not in source
    assert len(source.encode()) < 256 * 1024
    types.PythonGrader.model_validate(grader("python_brier"))


@pytest.mark.parametrize("outcome", [0.0, 1.0])
@pytest.mark.parametrize("belief", [0.0, 0.3, 1.0])
def test_the_formula_is_one_minus_brier(belief: float, outcome: float) -> None:
    formula = read_formula(grader("model_brier")["calculate_output"], ("belief", "outcome"), "test")
    expected = 1 - float(brier_score(belief, outcome))
    assert formula({"belief": belief, "outcome": outcome}) == pytest.approx(expected)
    assert formula({"belief": -1.0, "outcome": outcome}) == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_each_is_a_specification_that_is_read_here_too(name: str) -> None:
    spec = grader(name, "gpt-4.1-mini")
    assert openai_grader(json.dumps(spec), ProgramOptions(trusted=True)).name == name
    for part in spec.get("graders", {}).values():
        expected: dict[str, type[BaseModel]] = {
            "score_model": types.ScoreModelGrader,
            "string_check": types.StringCheckGrader,
        }
        expected[part["type"]].model_validate(part)


def test_which_need_the_truth() -> None:
    assert [needs_target(grader(name)) for name in NAMES] == [True, True, False]
    assert needs_target({"type": "python", "source": "def grade(sample, item):\n    return item['target'] == 'yes'"})


def test_the_rubric_is_the_scorer_s() -> None:
    part = grader("model")["graders"]["grade"]
    assert RUBRIC in part["input"][0]["content"]
    assert "{{ sample.output_text }}" in part["input"][0]["content"]
    assert part["range"] == [0, 100]


def test_a_user_s_grader_is_sent_as_it_is(tmp_path: Path) -> None:
    spec = {"type": "string_check", "name": "exact", "input": "{{ sample.output_text }}",
            "reference": "{{ item.target }}", "operation": "like"}  # fmt: skip
    (tmp_path / "exact.json").write_text(json.dumps(spec))
    assert grader(str(tmp_path / "exact.json")) == grader(json.dumps(spec)) == spec
    assert needs_target(spec)
    (tmp_path / "mine.py").write_text("def grade(sample, item):\n    return 1.0\n")
    assert grader(str(tmp_path / "mine.py"))["type"] == "python"


def test_graders_that_cannot_be_sent(tmp_path: Path) -> None:
    label = {"type": "label_model", "name": "l", "model": "m", "labels": ["a"], "passing_labels": ["a"],
             "input": [{"role": "user", "content": "x"}]}  # fmt: skip
    for name, message in (
        ("brier", "Unknown grader"),
        (json.dumps(label), "does not support label_model"),
        ("{", "not JSON"),
        (str(tmp_path / "none.py"), "there is no such file"),
    ):
        with pytest.raises(BadInput, match=message):
            grader(name)
