"""Judging: a verdict in a fixed form, read strictly or not at all."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai import Task
from inspect_ai.event import ModelEvent, SpanBeginEvent
from inspect_ai.log import EvalLog
from inspect_ai.model import ChatMessage, GenerateConfig, Model, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import TaskState

from tests.fixtures import Fails, Rain, Run, Says
from truthgym.scorers.judges.asking import (
    Answer,
    ReasonedForm,
    ask,
    form_instruction,
    models_in,
    parse_form,
    rating_field,
)
from truthgym.solvers.direct import direct


class Colour(ReasonedForm):
    """A form for these tests."""

    score: int = rating_field("how blue it is")


RIGHT = '{"reasons": "It is the sky.", "score": 90}'


@pytest.mark.parametrize(
    "text",
    [
        RIGHT,
        f"\n {RIGHT}\n",
        f"```json\n{RIGHT}\n```",
        f"```\n{RIGHT}\n```",
        '{"score": 90, "reasons": "It is the sky."}',
    ],
    ids=["bare", "space", "fenced", "plain fence", "other order"],
)
def test_a_filled_form_is_read(text: str) -> None:
    assert parse_form(text, Colour) == Colour(reasons="It is the sky.", score=90)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"Here it is: {RIGHT}", "begins: 'Here it is"),
        (f"{RIGHT} I hope that helps.", "trailing characters"),
        (f"Sure!\n```json\n{RIGHT}\n```", "begins: 'Sure!"),
        (f"{RIGHT}\n{RIGHT}", "trailing"),
        (f"[{RIGHT}]", "object"),
        ('{"reasons": "It is the sky.", "score": 90.5}', "field score"),
        ('{"reasons": "It is the sky.", "score": "90"}', "field score"),
        ('{"reasons": "It is the sky.", "score": true}', "field score"),
        ('{"reasons": "It is the sky.", "score": null}', "field score"),
        ('{"reasons": "It is the sky.", "score": 101}', "field score"),
        ('{"reasons": "It is the sky.", "score": -1}', "field score"),
        ('{"reasons": "It is the sky."}', "field score: Field required"),
        ('{"reasons": "It is the sky.", "score": 90, "colour": "blue"}', "field colour"),
        ("90", "object"),
        ("", "begins: ''"),
    ],
    ids=range(15),
)
def test_what_is_not_in_form_is_none_with_its_reason(text: str, why: str) -> None:
    read = parse_form(text, Colour)
    assert isinstance(read, str)
    assert why in read


@given(st.text(max_size=80))
def test_no_text_raises(text: str) -> None:
    parse_form(text, Colour)


def test_the_instruction_shows_every_field() -> None:
    text = form_instruction(Colour)
    assert '"reasons": "<two or three sentences>"' in text
    assert '"score": <whole number from 0 to 100: how blue it is>' in text


def heard_by(reply: str | ModelOutput) -> tuple[Model, list[tuple[list[ChatMessage], GenerateConfig]]]:
    heard: list[tuple[list[ChatMessage], GenerateConfig]] = []

    def output(messages: list[ChatMessage], tools: Any, choice: Any, config: GenerateConfig) -> ModelOutput:
        heard.append((list(messages), config))
        result = ModelOutput.from_content("mockllm/model", reply) if isinstance(reply, str) else reply
        result.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return result

    return get_model("mockllm/model", custom_outputs=output, memoize=False), heard


Judged = tuple[EvalLog, list[Answer[Colour]]]


@pytest.fixture
def judged(run: Run, rain: Rain, says: Says) -> Callable[..., Judged]:
    """Have one question's answer judged, and return the log and what was read."""

    def judge(draws: tuple[int, ...] = (0,), cache: bool = True, **roles: Any) -> Judged:
        answers: list[Answer[Colour]] = []

        @scorer(metrics=[mean()])
        def blue() -> Scorer:
            async def score(state: TaskState, target: Target) -> Score:
                for model in models_in("judge"):
                    for draw in draws:
                        answers.append(
                            await ask(
                                model, "How blue?", Colour, epoch=state.epoch, name="blue", draw=draw, cache=cache
                            )
                        )
                return Score(value=1)

            return score

        task = Task(dataset=[rain()], solver=direct(), scorer=blue())
        return run(task, says("Blue."), model_roles=roles, epochs=1), answers

    return judge


def test_a_judge_gets_the_form_and_is_named_in_the_log(judged: Callable[..., Judged]) -> None:
    model, heard = heard_by(RIGHT)
    log, answers = judged(judge=model)
    assert answers == [Answer(Colour(reasons="It is the sky.", score=90), RIGHT, None)]
    messages, config = heard[0]
    assert config.response_schema
    assert config.response_schema.strict
    assert set(config.response_schema.json_schema.properties or {}) == {"reasons", "score"}
    assert messages[-1].metadata == {"epoch": 1, "judging": "blue"}
    assert log.samples
    assert "judging: blue" in [e.name for e in log.samples[0].events if isinstance(e, SpanBeginEvent)]
    assert [e.role for e in log.samples[0].events if isinstance(e, ModelEvent)][-1] == "judge"


def test_a_judge_may_think_in_its_reply(judged: Callable[..., Judged]) -> None:
    _, answers = judged(judge=heard_by(f'<think>\nIs it {{"score": 3}}?\n</think>\n\n{RIGHT}')[0])
    assert answers == [Answer(Colour(reasons="It is the sky.", score=90), RIGHT, None)]
    _, answers = judged(cache=False, judge=heard_by("<think>\nIs it blue?")[0])
    assert (answers[0].raw, answers[0].reason) == (None, "The judge returned an empty reply (stop reason stop).")


def test_each_draw_is_cached_separately(judged: Callable[..., Judged]) -> None:
    model, heard = heard_by(RIGHT)
    judged(draws=(0, 1, 0), judge=model)
    assert len(heard) == 2
    judged(draws=(0, 1), judge=model)
    assert len(heard) == 2
    judged(draws=(0, 1), cache=False, judge=model)
    assert len(heard) == 4


def test_every_model_of_the_role_is_asked(judged: Callable[..., Judged]) -> None:
    one, heard_one = heard_by(RIGHT)
    two, heard_two = heard_by("I would rather not.")
    _, answers = judged(cache=False, judge=[one, two])
    assert len(heard_one) == len(heard_two) == 1
    assert [answer.form is None for answer in answers] == [False, True]
    assert answers[1].raw == "I would rather not."
    assert "not in form" in (answers[1].reason or "")


@pytest.mark.parametrize("stop", ["content_filter", "model_length", "stop"])
def test_what_is_no_reply_is_not_read(judged: Callable[..., Judged], stop: Any) -> None:
    output = ModelOutput.from_content("mockllm/model", RIGHT if stop != "stop" else " ", stop_reason=stop)
    _, answers = judged(judge=heard_by(output)[0])
    assert answers[0].form is None
    assert answers[0].raw is None
    assert (answers[0].reason or "").startswith("The judge")


def test_without_a_judge_the_remedy_is_named(fails: Fails, rain: Rain, says: Says) -> None:
    @scorer(metrics=[mean()])
    def judged_by_none() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score:
            models_in("judge")
            return Score(value=1)

        return score

    task = Task(dataset=[rain()], solver=direct(), scorer=judged_by_none())
    assert "--model-role judge=MODEL" in fails(task, says("Blue."))


def test_forms_are_strict_json_schemas() -> None:
    from inspect_ai.util import json_schema

    schema = json.loads(json_schema(Colour).model_dump_json(exclude_none=True))
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["reasons", "score"]
    assert (schema["properties"]["score"]["minimum"], schema["properties"]["score"]["maximum"]) == (0, 100)
