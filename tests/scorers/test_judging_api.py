"""What providers are sent when a judge is asked for a form: a loopback server speaks their protocols."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from inspect_ai import Task
from inspect_ai.model import GenerateConfig, Model, get_model
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import TaskState

from tests.fixtures import Rain, Request, Run, Says, Server, serving
from truthgym.scorers.judges.asking import Answer, ReasonedForm, ask, models_in, rating_field
from truthgym.solvers.direct import direct


class Colour(ReasonedForm):
    """A form for these tests."""

    score: int = rating_field("how blue it is")
    probability: int | None = rating_field("that it stays so, or null where nothing is said of that")


RIGHT = '{"reasons": "It is the sky.", "score": 90, "probability": null}'
ANSWERS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "loopback",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": RIGHT}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    },
    "/v1/messages": {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": [{"type": "text", "text": RIGHT}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
}


@pytest.fixture
def server() -> Iterator[Server]:
    def answer(request: Request) -> tuple[int, dict[str, str], bytes]:
        return 200, {"Content-Type": "application/json"}, json.dumps(ANSWERS[request.path]).encode()

    with serving(answer) as server:
        yield server


def judged(run: Run, rain: Rain, says: Says, judge: Model) -> list[Answer[Colour]]:
    answers: list[Answer[Colour]] = []

    @scorer(metrics=[mean()])
    def blue() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score:
            answers.append(await ask(models_in("judge")[0], "How blue?", Colour, epoch=state.epoch, name="blue"))
            return Score(value=1)

        return score

    run(Task(dataset=[rain()], solver=direct(), scorer=blue()), says("Blue."), model_roles={"judge": judge}, epochs=1)
    return answers


def test_an_openai_compatible_judge_is_held_to_the_form(server: Server, run: Run, rain: Rain, says: Says) -> None:
    model = get_model("openai-api/loopback/judge", base_url=f"{server.address}/v1", api_key="none", memoize=False)
    assert judged(run, rain, says, model)[0].form == Colour(reasons="It is the sky.", score=90, probability=None)
    body = json.loads(server.asked[0].body)
    sent = body["response_format"]
    assert (sent["type"], sent["json_schema"]["strict"]) == ("json_schema", True)
    schema = sent["json_schema"]["schema"]
    assert schema["required"] == ["reasons", "score", "probability"]
    assert schema["additionalProperties"] is False
    assert body["messages"] == [{"role": "user", "content": "How blue?"}]


def test_claude_gets_the_form_without_bounds(server: Server, run: Run, rain: Rain, says: Says) -> None:
    config = GenerateConfig(max_tokens=100)  # more, and its client insists on streaming
    options: dict[str, Any] = {"base_url": server.address, "api_key": "none", "streaming": False, "memoize": False}
    model = get_model("anthropic/claude-sonnet-5", config=config, **options)
    assert judged(run, rain, says, model)[0].form == Colour(reasons="It is the sky.", score=90, probability=None)
    schema = json.loads(server.asked[0].body)["output_format"]["schema"]
    assert schema["properties"]["score"]["type"] == "integer"
    assert "minimum" not in json.dumps(schema)
    assert schema["additionalProperties"] is False
