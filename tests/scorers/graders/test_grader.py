"""Graders: what comes of what a reward function does, templates and formulas."""

import math
from typing import Any

import numpy as np
import pytest

from tests.scorers.graders.answers import answer, grade_of
from truthgym.datasets.errors import BadInput
from truthgym.scorers.graders.builtin import python_brier, read_grading_rubric
from truthgym.scorers.graders.grader import CannotGrade, Grade, Grader, GraderInput, sample_fields
from truthgym.scorers.graders.openai import check_template, read_formula, render


def returns(value: Any) -> Grader:
    return Grader("mine", lambda _: value, low=-1, high=2)


@pytest.mark.parametrize("value", [-1, 0, 2, 0.25, np.float32(0.5), np.int64(1)], ids=repr)
def test_a_number_within_the_range_is_a_grade(value: Any) -> None:
    assert grade_of(returns(value)) == Grade(float(value))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "The grader mine returned NaN."),
        (2.001, "The grader mine returned 2.001, which is outside its range, -1 to 2."),
        (True, "The grader mine returned True, which is not a number."),
        (np.bool_(True), "which is not a number."),
        (None, "The grader mine returned None, which is not a number."),
        ("1", "The grader mine returned '1', which is not a number."),
        ("1" * 1000, "..., which is not a number."),
        (1j, "which is not a number."),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_an_invalid_grade_has_a_reason(value: Any, reason: str) -> None:
    result = grade_of(returns(value))
    assert result.value is None
    assert result.reason
    assert reason in result.reason
    assert len(result.reason) < 200


def test_a_grader_that_raises_gives_no_grade() -> None:
    def broken(_: GraderInput) -> float:
        return 1 / 0

    failed = Grade(None, "The grader mine raised ZeroDivisionError: division by zero", "answer")
    assert grade_of(Grader("mine", broken)) == failed

    async def unsure(_: GraderInput) -> float:
        raise CannotGrade("I cannot tell.")

    assert grade_of(Grader("mine", unsure)) == Grade(None, "I cannot tell.", "answer")
    assert grade_of(Grader("mine", unsure, roles=("grader",))) == Grade(None, "I cannot tell.", "judge")

    async def lost(_: GraderInput) -> float:
        raise ConnectionError("no route")

    failed = Grade(None, "The grader mine failed (ConnectionError: no route)", "unreachable")
    assert grade_of(Grader("mine", lost, roles=("grader",))) == failed


class Mute(Exception):
    """Cannot be said."""

    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


def raising(error: BaseException) -> Grader:
    def broken(_: GraderInput) -> float:
        raise error

    return Grader("mine", broken)


def test_nothing_that_a_grader_does_ends_the_run() -> None:
    assert grade_of(raising(Mute())) == Grade(None, "The grader mine raised Mute: its message cannot be read", "answer")
    assert grade_of(raising(SystemExit(1))) == Grade(None, "The grader mine raised SystemExit: 1", "answer")
    assert "raised ValueError" in str(grade_of(returns(Mute())).reason), "what it returns cannot be shown"
    assert "raised OverflowError" in str(grade_of(returns(10**400)).reason), "no float holds it"
    long = str(grade_of(raising(ValueError("x" * 10**6))).reason)
    assert len(long) < 400, "a log holds a reason, and not all that an error quotes"


def test_what_the_user_must_mend_is_raised() -> None:
    def unbound(_: GraderInput) -> float:
        raise BadInput("no model")

    with pytest.raises(BadInput, match="no model"):
        grade_of(Grader("mine", unbound))
    with pytest.raises(BadInput, match="runs at OpenAI only"):
        grade_of(Grader("mine", None))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"low": 1, "high": 1}, "low=1 and high=1 are not"),
        ({"high": math.inf}, "high=inf"),
        ({"low": math.nan}, "low=nan"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_range_that_is_none_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        Grader("mine", None, **arguments)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("completion", "target", "value"),
    [
        (r"So \finalBeliefProb{0.7}", "yes", 0.09),
        (r"So \finalBeliefProb{0.7}", "no", 0.49),
        (r"\finalBeliefProb{0.7} and again \finalBeliefProb{0.7}", "yes", 0.09),
        (r"\finalBeliefProb{0.7} or \finalBeliefProb{0.6}", "yes", None),
        (r"\finalBeliefProb{1.2}", "yes", None),
        ("Probability: 70%", "yes", None),
        ("70", "yes", None),
    ],
)
def test_python_brier_reads_the_marker_alone(completion: str, target: str, value: float | None) -> None:
    result = grade_of(python_brier(), answer(completion, target))
    assert result.value == (None if value is None else pytest.approx(value))
    assert value is not None or r"No single \finalBeliefProb{X} could be read" in str(result.reason)


def test_fields_of_item_and_sample() -> None:
    given = answer('{"a": [1, 2]}', mine=3)
    for name, value in {"question": "Will it rain?", "proposition": "It rains.", "reference_answer": "yes",
                        "target": "yes", "id": "q", "event": "e", "mine": 3}.items():  # fmt: skip
        assert given.item[name] == value
    fields = sample_fields(given)
    assert fields["output_text"] == '{"a": [1, 2]}'
    assert fields["output_json"] == {"a": [1, 2]}
    assert fields["choices"][0]["message"]["content"] == fields["output_text"]
    assert "output_json" not in sample_fields(answer("No."))
    assert "output_json" not in sample_fields(answer("[" * 100_000))


def test_an_unknown_truth_is_nothing_to_compare_with() -> None:
    """An empty text stands in every answer, so that a check for it would always pass."""
    fields = answer(target="").item
    assert "target" not in fields
    assert "reference_answer" not in fields
    with pytest.raises(CannotGrade, match="item.target"):
        render("{{ item.target }}", {"item": fields})


VALUES = {"item": {"target": "yes", "options": ["a", {"b": 1}], "n": 2, "x-y": "z"}, "sample": {"output_text": "T"}}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("plain } {", "plain } {"),
        ("{{ item.target }}/{{item.target}}/{{\n sample.output_text }}", "yes/yes/T"),
        ("{{ item.options[0] }} {{ item.options[1].b }} {{ item.options }}", 'a 1 ["a", {"b": 1}]'),
        ("{{ item.n }} {{ item.x-y }}", "2 z"),
        ('{"a": {"b": "{{ item.target }}"}}', '{"a": {"b": "yes"}}'),
    ],
)
def test_templates_are_filled_in(template: str, text: str) -> None:
    check_template(template, "here")
    assert render(template, VALUES) == text


def test_what_is_filled_in_is_not_read_as_a_template() -> None:
    values = {"item": {"target": "secret"}, "sample": {"output_text": "{{ item.target }}"}}
    assert render("{{ sample.output_text }}", values) == "{{ item.target }}"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ target }}", "is not a variable"),
        ("{{ item.target | upper }}", "is not a variable"),
        ("{{ item.__class__() }}", "is not a variable"),
        ("{{ item.target", "is not closed"),
        ("{{ sample.output_audio }}", "fields of `sample` are output_text"),
    ],
)
def test_templates_that_could_never_be_filled_in_are_refused(template: str, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        check_template(template, "grader g, input")
    assert message in str(refused.value)
    assert "grader g, input" in str(refused.value)


@pytest.mark.parametrize(
    "name", ["item.answer", "item.options[2]", "item.target.more", "item.n[0]", "sample.output_json.a"]
)
def test_a_variable_without_a_value_is_named(name: str) -> None:
    check_template(f"{{{{ {name} }}}}", "here")
    with pytest.raises(CannotGrade) as refused:
        render(f"{{{{ {name} }}}}", VALUES)
    assert name in str(refused.value)


GRADES = {"a": 0.5, "b": 2.0, "c": -3.0}


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("a", 0.5),
        ("0.7 * a + 0.3 * b", 0.95),
        ("(a + b) / 2", 1.25),
        ("b ^ 3 ^ 2", 512),
        ("-b ^ 2", -4),
        ("a + b ^ 2", 4.5),
        ("b ^ -1", 0.5),
        ("min(a, b, 0.25) + max(a, b)", 2.25),
        ("min(a) + max(b)", 2.5),
        ("abs(c) + floor(a) + ceil(a)", 4),
        ("exp(0) + sqrt(b + 2) + log(exp(b))", 5),
        ("+a - -b", 2.5),
        ("2e-1 * 5", 1),
        ("  a\n", 0.5),
    ],
)
def test_formulas(formula: str, value: float) -> None:
    assert read_formula(formula, GRADES, "here")(GRADES) == pytest.approx(value)


@pytest.mark.parametrize(
    "formula",
    ["", "d", "a b", "a ** 2", "a // b", "a % b", "a < b", "a if b else c", "'a'", "True", "a.real", "a[0]", "[a]",
     "__import__('os')", "open(a)", "min", "min()", "sqrt(a, b)", "log(a, 2)", "min(*a)", "max(a, key=b)",
     "(a for a in b)", "lambda: a", "(x := a)", "1j", "a; b", "round(a)", "(" * 1500, "-" * 1900 + "a",
     "a+" * 2000 + "a"],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_what_is_no_formula_is_refused(formula: str) -> None:
    with pytest.raises(BadInput, match="grader g"):
        read_formula(formula, GRADES, "grader g")


@pytest.mark.parametrize(
    "formula", ["a / (b - 2)", "sqrt(c)", "log(c)", "log(0)", "c ^ a", "exp(1000)", "9 ^ 9 ^ 9 ^ 9"]
)
def test_a_formula_without_a_value_says_why(formula: str) -> None:
    with pytest.raises(CannotGrade, match="has no value for"):
        read_formula(formula, GRADES, "here")(GRADES)


def test_a_rubric_must_be_there(tmp_path: Any) -> None:
    path = tmp_path / "rubric.txt"
    path.write_text("Be fair.\n")
    assert read_grading_rubric(str(path)) == "Be fair."
    path.write_bytes(b"Be fair.\r\nBe brief.\r\n")
    assert read_grading_rubric(str(path)) == "Be fair.\nBe brief."
    path.write_text(" \n")
    for file, message in ((path, "is empty"), (tmp_path / "none", "there is no such file"), (tmp_path, "no such file"),
                       ("Reward courage. " * 40, "'Reward courage.*there is no such file")):  # fmt: skip
        with pytest.raises(BadInput, match=message):
            read_grading_rubric(str(file))
    path.write_bytes(b"\xff\xfe\x00\x99")
    with pytest.raises(BadInput, match="UTF-8"):
        read_grading_rubric(str(path))
