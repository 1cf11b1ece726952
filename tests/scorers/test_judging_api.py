"""What providers are sent when a judge is asked for a form: a loopback server speaks their protocols."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import GenerateConfig, Model, get_model
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import TaskState

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
def server() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    requests: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            answer = json.dumps(ANSWERS[self.path.split("?")[0]]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None: ...

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{listening.server_address[1]}", requests
    listening.shutdown()


def judged(
    run: Callable[..., EvalLog], rain: Callable[..., Sample], says: Callable[..., Model], judge: Model
) -> list[Answer[Colour]]:
    answers: list[Answer[Colour]] = []

    @scorer(metrics=[mean()])
    def blue() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score:
            answers.append(await ask(models_in("judge")[0], "How blue?", Colour, epoch=state.epoch, name="blue"))
            return Score(value=1)

        return score

    run(Task(dataset=[rain()], solver=direct(), scorer=blue()), says("Blue."), model_roles={"judge": judge}, epochs=1)
    return answers


def test_an_openai_compatible_judge_is_held_to_the_form(
    server: tuple[str, list[dict[str, Any]]],
    run: Callable[..., EvalLog],
    rain: Callable[..., Sample],
    says: Callable[..., Model],
) -> None:
    url, requests = server
    model = get_model("openai-api/loopback/judge", base_url=f"{url}/v1", api_key="none", memoize=False)
    assert judged(run, rain, says, model)[0].form == Colour(reasons="It is the sky.", score=90, probability=None)
    sent = requests[0]["response_format"]
    assert (sent["type"], sent["json_schema"]["strict"]) == ("json_schema", True)
    schema = sent["json_schema"]["schema"]
    assert schema["required"] == ["reasons", "score", "probability"]
    assert schema["additionalProperties"] is False
    assert requests[0]["messages"] == [{"role": "user", "content": "How blue?"}]


def test_claude_gets_the_form_without_bounds(
    server: tuple[str, list[dict[str, Any]]],
    run: Callable[..., EvalLog],
    rain: Callable[..., Sample],
    says: Callable[..., Model],
) -> None:
    url, requests = server
    config = GenerateConfig(max_tokens=100)  # more, and its client insists on streaming
    model = get_model(
        "anthropic/claude-sonnet-5", config=config, base_url=url, api_key="none", streaming=False, memoize=False
    )
    assert judged(run, rain, says, model)[0].form == Colour(reasons="It is the sky.", score=90, probability=None)
    schema = requests[0]["output_format"]["schema"]
    assert schema["properties"]["score"]["type"] == "integer"
    assert "minimum" not in json.dumps(schema)
    assert schema["additionalProperties"] is False
