"""A real server of OpenAI's protocol, `transformers serve` as in docs/models.md, and what can go wrong with one.

Every request passes through a `Server` of the fixtures, which counts it and can drop, delay or refuse it.
"""

import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from inspect_ai import eval, eval_retry, score
from inspect_ai.model import GenerateConfig, get_model

from tests.fixtures import QUIET, Answer, Fails, Request, Run, Server, reason, samples
from truthgym.scorers.qualitative import qualitative
from truthgym.tasks.worlds import urns

for package in ("transformers", "accelerate", "fastapi", "uvicorn"):
    pytest.importorskip(package, reason=f'{package} is missing: pip install "transformers[serving]"')
pytestmark = [pytest.mark.server, pytest.mark.slow]

MODEL = "openai-api/local/tiny"
TOKENS = 8
RATED = ("originality", "curiosity", "challenge", "uncertainty")
STRICT = {"brier": {"repair": 0}, "martingale": {"repair": 0}}
LLAMA_CPP = "request (318 tokens) exceeds the available context size (256 tokens), try increasing it"
VLLM = "This model's maximum context length is 256 tokens. However, your request has 318 input tokens."
KIND = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def address(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running server. Its model has random weights."""
    place = tmp_path_factory.mktemp("served")
    shutil.copytree(tiny_model, place / "tiny")
    config = place / "tiny" / "generation_config.json"  # replies of random weights would end at a random token
    config.write_text(json.dumps(json.loads(config.read_text()) | {"min_new_tokens": TOKENS}))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url, output = f"http://127.0.0.1:{port}", place / "out.txt"
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", "tiny", "--device", "cpu"]
    with output.open("w") as out:
        process = subprocess.Popen([*command, "--port", str(port)], cwd=place, stdout=out, stderr=out)
        try:
            for _ in range(600):
                assert process.poll() is None, output.read_text()
                try:
                    httpx.get(f"{url}/health").raise_for_status()
                    break
                except httpx.ConnectError:
                    time.sleep(0.2)
            yield url
        finally:
            process.kill()
            process.wait()


class Proxy(Server):
    """Passes requests on. Can be stopped and started again at the same address."""

    running: ThreadingHTTPServer | None = None

    def up(self) -> None:
        self.running = self.start(int(self.address.rpartition(":")[2] or 0))

    def down(self) -> None:
        if self.running:
            self.running.shutdown()
            self.running.server_close()
            self.running = None


@pytest.fixture
def proxy(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    def forward(request: Request) -> Answer:
        reply = httpx.post(address + request.path, content=request.body, headers=KIND, timeout=60)
        return reply.status_code, KIND, reply.content

    monkeypatch.setenv("LOCAL_API_KEY", "none")
    proxy = Proxy(forward)
    proxy.up()
    yield proxy
    proxy.down()


def options(proxy: Proxy, **more: Any) -> dict[str, Any]:
    return {"model_base_url": f"{proxy.address}/v1", "max_tokens": TOKENS, "epochs": 1} | more


def test_an_eval(run: Run, proxy: Proxy) -> None:
    log = run(urns(n=2, paradigms=STRICT), MODEL, **options(proxy, epochs=2, temperature=1.0))
    assert len(proxy.asked) == 2 * 2 * 3
    for sample in samples(log):
        assert sample.output.usage
        assert sample.output.usage.output_tokens == TOKENS
        for scorer in ("brier", "martingale"):
            assert "cut off by the token limit after 8 tokens; raise --max-tokens" in reason(sample, scorer)
    replies = {(sample.id, sample.output.completion) for sample in samples(log)}
    assert len(replies) == 4, "epochs differ, since the server samples"


def test_a_server_without_log_probabilities_ends_the_eval(fails: Fails, proxy: Proxy) -> None:
    task = urns(n=1, paradigms={"martingale": {"elicitor": "token"}})
    assert "gives no log-probabilities" in fails(task, MODEL, **options(proxy))


def test_a_second_scoring_reads_the_judge_from_the_cache(run: Run, proxy: Proxy) -> None:
    log = run(urns(n=2, paradigms="brier"), epochs=1)
    forward = proxy.answer

    def filled_in(request: Request) -> Answer:
        status, kind, content = forward(request)
        reply = json.loads(content)
        reply["choices"][0] |= {"finish_reason": "stop"}
        reply["choices"][0]["message"]["content"] = json.dumps(dict.fromkeys(RATED, 70) | {"reasons": "Fair."})
        return status, kind, json.dumps(reply).encode()

    proxy.answer = filled_in
    judge = get_model(MODEL, base_url=f"{proxy.address}/v1", config=GenerateConfig(max_tokens=TOKENS))
    requests = []
    for _ in range(2):
        score(log, qualitative(few_shot="disabled"), model_roles={"judge": judge}, action="overwrite", display="none")
        requests.append(len(proxy.asked))
    assert 0 < requests[0] == requests[1]


def test_a_dead_server_costs_no_earlier_reply(proxy: Proxy, tmp_path: Path) -> None:
    forward = proxy.answer
    answered: list[bytes] = []

    def dies_after_four(request: Request) -> Answer:
        answer = forward(request)
        answered.append(request.body)
        if len(answered) == 4:
            threading.Thread(target=proxy.down).start()
        return answer

    proxy.answer = dies_after_four
    task = urns(n=3, paradigms=STRICT)
    settings = options(proxy, cache=True, max_retries=0, max_samples=1, max_connections=1)
    (failed,) = eval(task, model=MODEL, log_dir=str(tmp_path), display="none", **settings)
    assert failed.status == "error"
    assert failed.error
    assert "APIConnectionError" in failed.error.message
    assert len(answered) == 4
    proxy.answer = forward
    before = len(proxy.asked)
    proxy.up()
    (retried,) = eval_retry(failed, log_dir=str(tmp_path), **QUIET)
    assert retried.status == "success"
    assert len(samples(retried)) == 3
    assert len(proxy.asked) - before == 3 * 3 - 4


@pytest.mark.parametrize("words", [LLAMA_CPP, VLLM], ids=["llama.cpp", "vLLM"])
@pytest.mark.parametrize("answered", [0, 1])
def test_a_conversation_too_long_for_a_server_is_unread(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: str, answered: int
) -> None:
    """No real server: its refusal, as llama.cpp and vLLM write it, of the answer or of the first question about it."""
    monkeypatch.setenv("LOCAL_API_KEY", "none")
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "60%"}}
    reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    reply["usage"] = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    refusal = {"error": {"code": 400, "message": words, "type": "exceed_context_size_error"}}
    server = Server(lambda _: (400, KIND, json.dumps(refusal).encode()))
    server.first = [(200, KIND, json.dumps(reply).encode())] * answered
    started = server.start()
    task = urns(n=1, paradigms="martingale")
    log = run(task, MODEL, model_base_url=f"{server.address}/v1", epochs=1, max_connections=1)
    started.shutdown()
    started.server_close()
    assert "longer than its context window" in reason(samples(log)[0], "martingale")
