"""Judging: a verdict in a fixed form, read strictly or not at all; what providers are sent; what is computed once."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai import Task
from inspect_ai.event import ModelEvent, SpanBeginEvent
from inspect_ai.log import EvalLog
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageUser,
    GenerateConfig,
    Model,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import TaskState

from tests.fixtures import Fails, Request, Run, Server, rain, samples, says, serving
from truthgym.scorers.judges.asking import (
    Answer,
    AsyncOnce,
    ReasonedForm,
    ask,
    form_instruction,
    model_vendor,
    models_in,
    parse_form,
    rating_field,
)
from truthgym.solvers.direct import direct
from truthgym.solvers.trajectory import REPAIR, user_message


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
        f"```JSON\n{RIGHT}\n```",
        f"Sure! Of {{blue, red}} it is:\n\n```json\n{RIGHT}\n```\nI hope that helps.",
        f"Here it is: {RIGHT}, as asked.",
        f"[{RIGHT}]",
        f'{{"city": "Paris"}} is the evidence. {RIGHT}',
        '{"score": 90, "reasons": "It is the sky."}',
        '{"score": 90.0, "reasons": "It is the sky."}',
        '{"score": " 90 ", "reasons": "It is the sky."}',
        '{"score": 90, "reasons": "It is the sky.", "colour": {"name": "blue"}}',
    ],
)
def test_a_filled_form_is_read(text: str) -> None:
    assert parse_form(text, Colour) == Colour(reasons="It is the sky.", score=90)


def test_a_line_break_or_a_number_within_a_text_stays() -> None:
    assert parse_form('{"reasons": "One.\nTwo.", "score": 9}', Colour) == Colour(reasons="One.\nTwo.", score=9)
    assert parse_form('{"reasons": "70", "score": 9}', Colour) == Colour(reasons="70", score=9)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{RIGHT}\n{RIGHT}", "2 JSON objects"),
        (f'{RIGHT} No: {{"reasons": "It is grey.", "score": 900}}', "2 JSON objects"),
        ('{"reasons": "It is the sky.", "score": 10, "score": 90}', "a key stands twice"),
        (f'{{"draft": {RIGHT}, "final": {{"reas', "Unterminated"),
        (f'{{"draft": {RIGHT}}}', "field reasons: Field required"),
        ("{'reasons': 'It is the sky.', 'score': 90}", "property name"),
        ('{"reasons": "It is the sky.", "score": NaN}', "field score"),
        ('{"reasons": 3, "score": 90}', "field reasons"),
        ('{"reasons": "It is the sky.", "score": 90.5}', "field score"),
        ('{"reasons": "It is the sky.", "score": "90 %"}', "field score"),
        ('{"reasons": "It is the sky.", "score": true}', "not true or false"),
        ('{"reasons": "It is the sky.", "score": null}', "field score"),
        ('{"reasons": "It is the sky.", "score": 101}', "field score"),
        ('{"reasons": "It is the sky.", "score": -1}', "field score"),
        ('{"reasons": "It is the sky."}', "field score: Field required"),
        ("90", "no JSON object"),
        ('{"a":' * 100_000, "recursion"),
        ("", "begins: ''"),
    ],
    ids=range(18),
)
def test_what_is_not_in_form_is_none_with_its_reason(text: str, why: str) -> None:
    problem = parse_form(text, Colour)
    assert isinstance(problem, str)
    assert why in problem


@given(st.text(max_size=80))
def test_no_text_raises(text: str) -> None:
    parse_form(text, Colour)


def test_the_instruction_shows_every_field() -> None:
    text = form_instruction(Colour)
    assert '"reasons": "<two or three sentences>"' in text
    assert '"score": <whole number from 0 to 100: how blue it is>' in text


def heard_by(
    reply: str | ModelOutput | Callable[[list[ChatMessage]], str],
) -> tuple[Model, list[tuple[list[ChatMessage], GenerateConfig]]]:
    heard: list[tuple[list[ChatMessage], GenerateConfig]] = []

    def output(messages: list[ChatMessage], tools: Any, choice: Any, config: GenerateConfig) -> ModelOutput:
        heard.append((list(messages), config))
        said = reply(messages) if callable(reply) else reply
        result = ModelOutput.from_content("mockllm/model", said) if isinstance(said, str) else said
        result.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return result

    return get_model("mockllm/model", custom_outputs=output, memoize=False), heard


Judged = tuple[EvalLog, list[Answer[Any]]]


@pytest.fixture
def judged(run: Run) -> Callable[..., Judged]:
    """Have one question's answer judged, and return the log and what was read."""

    def judge(
        draws: tuple[int, ...] = (0,), cache: bool = True, form: type[ReasonedForm] = Colour, **roles: Any
    ) -> Judged:
        answers: list[Answer[Any]] = []

        @scorer(metrics=[mean()])
        def blue() -> Scorer:
            async def score(state: TaskState, target: Target) -> Score:
                for model in models_in("judge"):
                    for draw in draws:
                        answers.append(
                            await ask(model, "How blue?", form, epoch=state.epoch, name="blue", draw=draw, cache=cache)
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
    assert "judging: blue" in [e.name for e in samples(log)[0].events if isinstance(e, SpanBeginEvent)]
    assert [e.role for e in samples(log)[0].events if isinstance(e, ModelEvent)][-1] == "judge"


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
    (first, first_calls), (second, second_calls) = heard_by(RIGHT), heard_by("I would rather not.")
    _, answers = judged(cache=False, judge=[first, second])
    assert len(first_calls) == len(second_calls) == 1
    assert [answer.form is None for answer in answers] == [False, True]
    assert answers[1].raw == "I would rather not."
    assert "not in form" in (answers[1].reason or "")


UNREAD = "It is 90 of 100."


def repairs(messages: list[ChatMessage]) -> str:
    return RIGHT if len(messages) > 1 else UNREAD


def test_a_reply_that_is_not_in_form_is_asked_for_once_more(judged: Callable[..., Judged]) -> None:
    model, heard = heard_by(repairs)
    assert judged(judge=model)[1] == [Answer(Colour(reasons="It is the sky.", score=90), RIGHT, None, repaired=True)]
    conversation = heard[1][0]
    assert [(m.role, m.text) for m in conversation[:2]] == [("user", "How blue?"), ("assistant", UNREAD)]
    assert conversation[2].text.startswith(
        "Your last reply could not be read. The judge's reply is not in form (it has no JSON object)."
    )
    assert conversation[2].text.endswith(form_instruction(Colour))
    assert heard[1][1].response_schema
    judged(judge=model)
    assert len(heard) == 2, "both replies are cached"


@pytest.mark.parametrize(
    ("reply", "calls", "reason"),
    [
        (UNREAD, 2, "not in form (it has no JSON object)"),
        ("I'm sorry, but I can't rate 1 of these.", 1, "not in form"),
        ("I have no view.", 1, "not in form"),
        ("", 1, "empty reply"),
    ],
)
def test_what_remains_unread_is_asked_for_again_by_the_next_pass(
    judged: Callable[..., Judged], reply: str, calls: int, reason: str
) -> None:
    model, heard = heard_by(reply)
    for number in (1, 2):
        _, answers = judged(judge=model)
        assert len(heard) == number * calls
        assert answers[0].form is None
        assert reason in (answers[0].reason or "")
        assert ((answers[0].reason or "").endswith(" (asked twice)"), answers[0].repaired) == (calls == 2,) * 2
    model, heard = heard_by(RIGHT)
    assert judged(judge=model)[1][0].form
    assert len(heard) == 1


def test_a_simulated_judge_that_is_asked_again_answers_the_first_request() -> None:
    judge = get_model("reference/judge")
    request: list[Any] = [user_message(f"Rate it.\n\n{form_instruction(Colour)}", 1)]
    again = [*request, ChatMessageAssistant(content="90"), ChatMessageUser(content=f"{REPAIR}: it has no JSON object.")]
    replies = [
        anyio.run(lambda messages: judge.generate(messages), messages).completion for messages in (request, again)
    ]
    assert replies[0] == replies[1]
    assert isinstance(parse_form(replies[0], Colour), Colour)


@pytest.mark.parametrize("stop", ["content_filter", "model_length", "stop"])
def test_what_is_no_reply_is_not_read(judged: Callable[..., Judged], stop: Any) -> None:
    output = ModelOutput.from_content("mockllm/model", RIGHT if stop != "stop" else " ", stop_reason=stop)
    _, answers = judged(judge=heard_by(output)[0])
    assert answers[0].form is None
    assert answers[0].raw is None
    assert (answers[0].reason or "").startswith("The judge")


def test_without_a_judge_the_remedy_is_named(fails: Fails) -> None:
    @scorer(metrics=[mean()])
    def judged_by_none() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score:
            models_in("judge")
            return Score(value=1)

        return score

    task = Task(dataset=[rain()], solver=direct(), scorer=judged_by_none())
    assert "--model-role judge=MODEL" in fails(task, says("Blue."))


VENDORS = {
    "openai/gpt-5-mini": "openai",
    "openai/o3": "openai",
    "azureai/gpt-4o": "openai",
    "openrouter/anthropic/claude-opus-4.1": "anthropic",
    "hf/meta-llama/Llama-3.1-8B": "meta",
    "together/Qwen/Qwen3-8B": "qwen",
    "reference/judge": "reference",
    "hf/orca/o3x": "hf",
}


@pytest.mark.parametrize("model", VENDORS)
def test_the_vendor_of_a_model(model: str) -> None:
    assert model_vendor(model) == VENDORS[model]


class Weather(ReasonedForm):
    """A form with a number that may be absent."""

    score: int = rating_field("how blue it is")
    probability: int | None = rating_field("that it stays so, or null where nothing is said of that")


FILLED = '{"reasons": "It is the sky.", "score": 90, "probability": null}'
REPLIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "loopback",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": FILLED}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    },
    "/v1/messages": {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": [{"type": "text", "text": FILLED}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
}


@pytest.fixture
def server() -> Iterator[Server]:
    """A loopback server that speaks the providers' protocols."""

    def answer(request: Request) -> tuple[int, dict[str, str], bytes]:
        return 200, {"Content-Type": "application/json"}, json.dumps(REPLIES[request.path]).encode()

    with serving(answer) as server:
        yield server


def test_an_openai_compatible_judge_is_held_to_the_form(server: Server, judged: Callable[..., Judged]) -> None:
    model = get_model("openai-api/loopback/judge", base_url=f"{server.address}/v1", api_key="none", memoize=False)
    assert judged(judge=model, form=Weather)[1][0].form == Weather(reasons="It is the sky.", score=90, probability=None)
    body = json.loads(server.asked[0].body)
    response_format = body["response_format"]
    assert (response_format["type"], response_format["json_schema"]["strict"]) == ("json_schema", True)
    schema = response_format["json_schema"]["schema"]
    assert schema["required"] == ["reasons", "score", "probability"]
    assert schema["additionalProperties"] is False
    assert body["messages"] == [{"role": "user", "content": "How blue?"}]


def test_claude_gets_the_form_without_bounds(server: Server, judged: Callable[..., Judged]) -> None:
    config = GenerateConfig(max_tokens=100)  # more, and its client insists on streaming
    options: dict[str, Any] = {"base_url": server.address, "api_key": "none", "streaming": False, "memoize": False}
    model = get_model("anthropic/claude-sonnet-5", config=config, **options)
    assert judged(judge=model, form=Weather)[1][0].form == Weather(reasons="It is the sky.", score=90, probability=None)
    schema = json.loads(server.asked[0].body)["output_format"]["schema"]
    assert schema["properties"]["score"]["type"] == "integer"
    assert "minimum" not in json.dumps(schema)
    assert schema["additionalProperties"] is False


def at_once(once: AsyncOnce[int], compute: Callable[[], Any], callers: int) -> list[int]:
    """What several callers get who ask for one result at the same time; -1 for an error."""

    async def main() -> list[int]:
        results: list[int] = []

        async def caller() -> None:
            try:
                results.append(await once.get("key", compute))
            except RuntimeError:
                results.append(-1)

        async with anyio.create_task_group() as group:
            for _ in range(callers):
                group.start_soon(caller)
        return results

    return anyio.run(main)


@pytest.mark.parametrize(("fails_first", "results"), [(False, [1] * 5), (True, [-1] + [2] * 4)])
def test_callers_share_a_result_and_no_failure(fails_first: bool, results: list[int]) -> None:
    calls, once = [], AsyncOnce[int]()

    async def compute() -> int:
        calls.append(1)
        await anyio.sleep(0.01)
        if fails_first and len(calls) == 1:
            raise RuntimeError("cut off")
        return len(calls)

    assert sorted(at_once(once, compute, 5)) == results
    assert at_once(once, compute, 5) == [results[-1]] * 5, "another event loop finds it too"
    assert len(calls) == results[-1]


def test_a_cancelled_caller_leaves_the_computation_to_the_next() -> None:
    calls, once = [], AsyncOnce[int]()

    async def compute() -> int:
        calls.append(1)
        await anyio.sleep(10 if len(calls) == 1 else 0)
        return len(calls)

    async def main() -> int:
        async def cancelled() -> None:
            with anyio.move_on_after(0.01):
                await once.get("key", compute)

        async with anyio.create_task_group() as group:
            group.start_soon(cancelled)
            await anyio.sleep(0)
            return await once.get("key", compute)
        raise AssertionError

    assert anyio.run(main) == 2
