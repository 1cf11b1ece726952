"""OpenAI's grader specifications: what is run here, what is refused, and that they are kept to the byte."""

import json
import math
from typing import Any

import pytest
from inspect_ai.log import EvalLog
from inspect_ai.model import ChatMessage, Model, ModelOutput, get_model

from tests.fixtures import Run, listens, number, reason, samples, says, score_of
from tests.scorers.graders import answers
from truthgym.datasets.errors import BadInput
from truthgym.scorers.graded import graded
from truthgym.scorers.graders.grader import Grade, Grader
from truthgym.scorers.graders.openai import openai_grader
from truthgym.scorers.graders.python import ProgramOptions
from truthgym.scorers.graders.resolve import read_grader
from truthgym.tasks.worlds import urns

SAID = "{{ sample.output_text }}"
MESSAGES = [{"role": "user", "content": f"Grade: {SAID}"}]


def check(operation: str, reference: str, given: str = SAID) -> dict[str, Any]:
    return {"type": "string_check", "name": "check", "input": given, "reference": reference, "operation": operation}


def program(value: str) -> dict[str, Any]:
    return {"type": "python", "name": "program", "source": f"def grade(sample, item):\n    return {value}"}


def multi(formula: str, **parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "multi", "name": "all", "graders": parts, "calculate_output": formula}


def score_model(**fields: Any) -> dict[str, Any]:
    return {"type": "score_model", "name": "score", "model": "gpt-4.1-mini", "input": MESSAGES} | fields


IMAGE = {"type": "input_image", "image_url": "x"}
SIMILAR = {"type": "text_similarity", "name": "alike", "input": SAID, "reference": "{{ item.reference_answer }}",
           "evaluation_metric": "fuzzy_match"}  # fmt: skip
LABEL = {"type": "label_model", "name": "label", "model": "gpt-4.1-mini", "input": MESSAGES,
         "labels": ["good", "bad"], "passing_labels": ["good"]}  # fmt: skip


def grader_of(spec: dict[str, Any], **settings: Any) -> Grader:
    return openai_grader(json.dumps(spec), ProgramOptions(**settings))


def grade_of(spec: dict[str, Any], completion: str = "Yes, 70%.", **settings: Any) -> Grade:
    return answers.grade_of(grader_of(spec, **settings), answers.answer(completion))


@pytest.mark.parametrize(
    ("operation", "reference", "completion", "value"),
    [
        ("eq", "{{ item.target }}", "yes", 1),
        ("eq", "{{ item.target }}", "Yes", 0),
        ("ne", "{{ item.target }}", "Yes", 1),
        ("ne", "{{ item.target }}", "yes", 0),
        ("like", "{{ item.target }}", "I say yes.", 1),
        ("like", "{{ item.target }}", "I say Yes.", 0),
        ("ilike", "{{ item.target }}", "I say YES.", 1),
        ("ilike", "{{ item.target }}", "No.", 0),
        ("like", "I say yes, and more", "I say yes", 0),
    ],
)
def test_string_checks(operation: str, reference: str, completion: str, value: float) -> None:
    result = grade_of(check(operation, reference), completion)
    assert result.value == value
    assert result.explanation
    assert operation in result.explanation


def test_json_answers_are_read_by_path() -> None:
    spec = check("eq", "{{ item.target }}", "{{ sample.output_json.answer[0].is }}")
    assert grade_of(spec, '{"answer": [{"is": "yes"}]}').value == 1
    unparsed = grade_of(spec, "yes")
    assert unparsed.value is None
    assert "sample.output_json" in str(unparsed.reason)


@pytest.mark.parametrize(
    ("formula", "value"),
    [("0.5 * exact + 0.5 * part", 0.5), ("max(exact, part)", 1), ("part ^ 2 - exact", 1), ("sqrt(p + p)", 1)],
)
def test_multi_graders(formula: str, value: float) -> None:
    spec = multi(formula, exact=check("eq", "no"), part=check("like", "70"), p=program("0.5"))
    result = grade_of(spec, trusted=True)
    assert result.value == pytest.approx(value)
    assert result.explanation == f"{formula} with exact 0, part 1, p 0.5."


def test_only_the_whole_of_a_multi_grader_has_a_range() -> None:
    assert grade_of(multi("p / 10", p=program("5")), trusted=True).value == 0.5
    assert "outside its range, 0 to 1" in str(grade_of(multi("p", p=program("5")), trusted=True).reason)


def test_a_part_that_gives_no_grade_leaves_the_whole_without() -> None:
    result = grade_of(multi("a + p", a=check("like", "70"), p=program("1 / 0")), trusted=True, time_limit=60)
    assert result == Grade(None, "p: The grader program raised ZeroDivisionError: division by zero.", "answer")
    assert "has no value for" in str(grade_of(multi("1 / a", a=check("eq", "no"))).reason)


EVERY = [check("eq", "yes"), score_model(), program("1"), multi("a", a=check("eq", "yes")), SIMILAR, LABEL]


@pytest.mark.parametrize("spec", EVERY, ids=lambda spec: spec["type"])
def test_every_kind_is_kept_to_the_byte(spec: dict[str, Any], tmp_path: Any) -> None:
    odd = f" \n{json.dumps(spec, indent=3)}  \n".replace('": ', '":\t')
    odd = odd.replace('"type"', '"pass_threshold": 0.50,\n"later_field": {"é": 1e0},  "type"', 1)
    assert openai_grader(odd).spec == read_grader(odd).spec == odd
    path = tmp_path / "grader.json"
    text = json.dumps(spec, indent=1).replace("\n", "\r\n")
    path.write_bytes(text.encode())
    assert read_grader(str(path)).spec == text
    assert json.loads(str(read_grader(spec).spec)) == spec


def test_ranges_are_those_declared() -> None:
    assert (grader_of(check("eq", "a")).low, grader_of(check("eq", "a")).high) == (0, 1)
    assert (grader_of(score_model(range=[-2, 5])).low, grader_of(score_model(range=[-2, 5])).high) == (-2, 5)
    assert (grader_of(score_model()).low, grader_of(score_model()).high) == (0, 1)
    grader = read_grader(program("1"), low=-1, high=9, higher_is_better=False)
    assert (grader.low, grader.high, grader.higher_is_better) == (-1, 9, False)


def test_roles_and_sandbox_are_those_of_the_parts() -> None:
    spec = multi("a + b + c", a=score_model(), b=program("1"), c=check("eq", "a"))
    assert grader_of(spec).roles == ("grader",)
    assert grader_of(spec).sandbox
    assert not grader_of(spec, trusted=True).sandbox
    assert grader_of(multi("c", c=check("eq", "a"))).roles == ()


@pytest.mark.parametrize("spec", [SIMILAR, LABEL], ids=lambda spec: spec["type"])
def test_kinds_that_run_at_openai_only_say_so(spec: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="runs at OpenAI only"):
        graded(spec)
    with pytest.raises(BadInput, match="runs at OpenAI only"):
        graded(multi("a", a=spec))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{", "is not JSON"),
        ("{}", "a JSON object with a type"),
        ('{"type": "string_chek"}', "Unknown type of grader 'string_chek'; did you mean 'string_check'"),
        ({"type": "string_check", "name": "a"}, "field input: Field required"),
        (check("neq", "a"), "field operation"),
        (check("eq", "{{ answer }}"), "'{{ answer }}' is not a variable"),
        (check("eq", "a", "{{ sample.text }}"), "fields of `sample` are output_text"),
        ({"type": "python", "name": "a", "source": "x = 1"}, "no function grade(sample, item)"),
        (score_model(input=[]), "`input` is empty"),
        (score_model(input=[{"role": "judge", "content": "a"}]), "field input.0.role"),
        (score_model(range=[1, 0]), "range=[1, 0] cannot be used"),
        (score_model(range=["0", "1"]), "range=['0', '1'] cannot be used"),
        (program("'\ud800'"), "is not Python"),
        (score_model(input=[{"role": "user", "content": [IMAGE]}]), "runs at OpenAI"),
        (multi("a + b", a=check("eq", "b")), "'b' cannot be used in a formula"),
        (multi("a", a=multi("b", b=check("eq", "b"))), "cannot be nested"),
        (multi("a", a={"type": "string_check"}), "grader all, part a: grader of type string_check, field input"),
    ],
    ids=lambda value: str(value)[:48],
)
def test_what_is_no_specification_is_refused(spec: Any, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        openai_grader(spec if isinstance(spec, str) else json.dumps(spec))
    assert message in str(refused.value).replace("\\", "")


def scored(run: Run, model: Model, spec: dict[str, Any], n: int = 1, **settings: Any) -> EvalLog:
    task = urns(n=n, paradigms={"graded": {"grader": spec}})
    return run(task, epochs=1, model_roles={"grader": model}, **settings)


def test_a_score_model_is_asked_with_its_messages_filled_in(run: Run) -> None:
    form = json.dumps({"steps": [{"description": "I look.", "conclusion": "Good."}], "result": 2.5})
    model, heard = listens(form)
    spec = score_model(
        range=[-1, 3],
        sampling_params={"temperature": 0.25, "seed": 7, "max_completions_tokens": 99, "reasoning_effort": "low"},
        input=[
            {"role": "developer", "content": "You grade."},
            {"role": "user", "content": [{"type": "input_text", "text": "{{ item.proposition }}"}, SAID]},
        ],
    )
    log = scored(run, model, spec)
    done = samples(log)[0]
    assert number(done, "graded", "grade") == 2.5
    assert score_of(done, "graded").explanation == "score: 2.5. I look.: Good."
    assert len(heard) == 1
    assert [message.role for message in heard[0]] == ["system", "user"]
    assert done.metadata["proposition"] in heard[0][1].text
    assert done.output.completion in heard[0][1].text
    assert "The score is a number from -1 to 3." in heard[0][1].text
    requests = [event for event in done.events if event.event == "model" and event.role == "grader"]
    config = requests[0].config
    assert (config.temperature, config.seed, config.max_tokens, config.reasoning_effort) == (0.25, 7, 99, "low")
    assert config.response_schema


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ('{"steps": [], "result": 1.5}', "which is outside its range, 0 to 1"),
        ('{"steps": [], "result": NaN}', "The grader score returned NaN."),
        ('{"steps": [], "result": "good"}', "not in form"),
        ("", "empty reply"),
        (ModelOutput.from_content("m", "no", stop_reason="content_filter"), "refused"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_score_that_is_none_leaves_the_sample_unscored(run: Run, reply: Any, message: str) -> None:
    log = scored(run, says(reply), score_model())
    assert message in reason(samples(log)[0], "graded")


def test_the_simulated_judge_scores_within_the_range(run: Run) -> None:
    log = scored(run, get_model("reference/judge"), score_model(range=[2, 4]), n=3)
    values = [number(done, "graded", "grade") for done in samples(log)]
    assert all(2 <= value <= 4 for value in values), values


def test_an_answer_that_holds_a_template_is_not_filled_in(run: Run) -> None:
    def policy(_: list[ChatMessage]) -> str:
        return "{{ item.target }} {{ item.reference_answer }}"

    model, heard = listens('{"steps": [], "result": 0}')
    task = urns(n=1, paradigms={"graded": {"grader": score_model()}})
    run(task, says(policy), epochs=1, model_roles={"grader": model})
    assert "Grade: {{ item.target }} {{ item.reference_answer }}\n" in heard[0][0].text


def test_a_spec_of_more_than_python_can_nest_is_refused() -> None:
    with pytest.raises(BadInput, match="is not JSON"):
        openai_grader("[" * 200_000)
    assert math.isclose(grade_of(multi("a", a=check("like", "70"))).value or 0, 1)
