"""Servers on loopback that answer as vLLM 0.16 and llama.cpp of October 2026 do. Each character is a token."""

import asyncio
import json
import math
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from inspect_ai.model import ChatMessageUser, Model, get_model
from tenacity import wait_none

from tests.fixtures import Answer, Request, Server, serving
from truthgym.datasets.errors import BadInput
from truthgym.models.predictor import Method, ReplyLogprob, check_method, reply_logprobs

VLLM_TOO_LONG = "This model's maximum context length is 40 tokens. However, you requested 41 tokens."
LLAMA_TOO_LONG = "request (41 tokens) exceeds the available context size (40 tokens), try increasing it"
PROMPT = "<user>Well?<assistant>"
HALVES = {"é": [900, 901]}
"""A character of two tokens."""


def encode(text: str) -> list[int]:
    return [token for character in text for token in HALVES.get(character, [ord(character)])]


def logprob(ids: list[int], at: int) -> float:
    """What the model thinks of a token: of its place, of itself and of the one before."""
    return -(ids[at] % 7) - 0.1 * at - 0.01 * (ids[at - 1] % 5)


def expected(reply: str) -> float:
    ids = [*encode(PROMPT), *encode(reply)]
    return sum(logprob(ids, at) for at in range(len(encode(PROMPT)), len(ids)))


def vllm(request: dict[str, Any], path: str) -> dict[str, Any] | None:
    if path == "/tokenize":
        chat = "messages" in request
        assert request.get("add_generation_prompt") if chat else request["add_special_tokens"] is False
        assert not chat or request["chat_template_kwargs"] == {"enable_thinking": False}
        text = PROMPT if chat else request["prompt"]
        return {"count": len(text), "max_model_len": 40, "tokens": encode(text), "token_strs": None}
    if path != "/v1/completions":
        return None
    ids = request["prompt"]
    assert request["max_tokens"] == 1
    listed = [
        {
            str(token): {"logprob": logprob(ids, at), "rank": 3, "decoded_token": chr(token)},
            "32": {"logprob": -0.1, "rank": 1, "decoded_token": " "},
        }
        for at, token in enumerate(ids)
    ]
    generated = {"tokens": ["x"], "token_logprobs": [-0.5], "text_offset": [0], "top_logprobs": [{"x": -0.5}]}
    choice = {"index": 0, "text": "x", "finish_reason": "length", "logprobs": generated}
    return {"id": "1", "choices": [choice | {"prompt_logprobs": [None, *listed[1:]]}]}


def echo(request: dict[str, Any], path: str) -> dict[str, Any] | None:
    """OpenAI's legacy completions: the prompt in front of the text, and null for its first token."""
    reply = vllm(request, path)
    if reply is None or "choices" not in reply:
        return reply
    assert request["echo"]
    ids = request["prompt"]
    numbers = [None, *(logprob(ids, at) for at in range(1, len(ids))), -0.5]
    texts = [*map(chr, ids), "x"]
    logprobs = {"tokens": texts, "token_logprobs": numbers, "text_offset": list(range(len(texts)))}
    return {"choices": [{"index": 0, "text": "".join(texts), "finish_reason": "length", "logprobs": logprobs}]}


def llama_cpp(request: dict[str, Any], path: str) -> dict[str, Any] | None:
    if path == "/props":
        return {"total_slots": 1, "build_info": "b11549"}
    if path == "/apply-template":
        assert request["chat_template_kwargs"] == {"enable_thinking": False}
        return {"prompt": PROMPT}
    if path == "/tokenize":
        special = request["content"] == PROMPT
        assert (request["add_special"], request["parse_special"]) == (special, special)
        halves = {900: [195], 901: [169]}
        return {"tokens": [{"id": one, "piece": halves.get(one, chr(one))} for one in encode(request["content"])]}
    if path != "/completion":
        return None
    ((token, bias),) = request["logit_bias"]
    assert bias > 1000
    ids = [*request["prompt"], token]
    top = [{"id": 900, "token": "", "bytes": [195], "logprob": logprob([*ids[:-1], 900], len(ids) - 1)}]
    sampled = {"id": token, "token": chr(token), "bytes": [], "logprob": logprob(ids, len(ids) - 1)}
    if token == 900:  # no probabilities of a token that is part of a character
        return {"content": "\ufffd", "stop_type": "limit"}
    return {"content": chr(token), "completion_probabilities": [sampled | {"top_logprobs": top[: request["n_probs"]]}]}


Kind = Callable[[dict[str, Any], str], dict[str, Any] | None]


def server(kind: Kind, refusal: str = "") -> Callable[[Request], Answer]:
    def answer(request: Request) -> Answer:
        body = json.loads(request.body) if request.body else {}
        if refusal and "completion" in request.path:
            return 400, {}, json.dumps({"error": {"message": refusal, "code": 400}}).encode()
        reply = kind(body, request.path)
        return (404, {}, b"{}") if reply is None else (200, {}, json.dumps(reply).encode())

    return answer


def model(address: str) -> Model:
    return get_model("openai-api/local/tiny", base_url=f"{address}/v1", api_key="none", memoize=False)


def ask(service: Server, *replies: str, method: Method | None = None) -> list[ReplyLogprob]:
    return asyncio.run(reply_logprobs(model(service.address), [ChatMessageUser(content="Well?")], replies, method))


@pytest.mark.parametrize("kind", [vllm, echo, llama_cpp])
def test_agrees_with_the_server(kind: Kind) -> None:
    with serving(server(kind)) as service:
        empty, *results = ask(service, "", "Yes", "No.")
    assert empty.reason == "The reply is empty."
    for reply, result in zip(("Yes", "No."), results, strict=True):
        assert result.total == pytest.approx(expected(reply))
        assert "".join(token for token, _ in result.tokens) == reply
        assert (result.count, result.method) == (3, "teacher_forced")


def test_a_character_of_two_tokens_on_llama_cpp() -> None:
    with serving(server(llama_cpp)) as service:
        (result,) = ask(service, "né")
    assert [token for token, _ in result.tokens] == ["n", "", "é"]
    assert result.total == pytest.approx(expected("né"))


@pytest.mark.parametrize(("kind", "refusal"), [(vllm, VLLM_TOO_LONG), (llama_cpp, LLAMA_TOO_LONG)])
def test_longer_than_the_context(kind: Kind, refusal: str) -> None:
    with serving(server(kind, refusal)) as service:
        (result,) = ask(service, "Yes")
    assert math.isnan(result.total)
    assert result.reason == "The conversation with the reply is longer than the server's context."


def test_a_server_without_log_probabilities_of_a_prompt() -> None:
    def generated_alone(request: dict[str, Any], path: str) -> dict[str, Any] | None:
        reply = vllm(request, path)
        for choice in (reply or {}).get("choices", []):
            del choice["prompt_logprobs"]
        return reply

    for kind in (generated_alone, lambda request, path: None):
        with serving(server(kind)) as service, pytest.raises(BadInput, match="no log-probabilities of a given text"):
            ask(service, "Yes")


def test_a_provider_that_cannot() -> None:
    with pytest.raises(BadInput, match="mockllm/model cannot give the log-probability"):
        check_method(get_model("mockllm/model"), "teacher_forced")
    assert check_method(get_model("mockllm/model")) == "top_logprobs"
    assert check_method(model("http://127.0.0.1:9")) == "teacher_forced"


def test_vllm_completions_is_a_server() -> None:
    with serving(server(vllm)) as service:
        url = f"{service.address}/v1"
        predictor = get_model("vllm-completions/some/model", base_url=url, api_key="none", memoize=False)
        assert check_method(predictor, "teacher_forced") == "teacher_forced"
        (result,) = asyncio.run(reply_logprobs(predictor, [ChatMessageUser(content="Well?")], ["Yes"]))
    assert result.total == pytest.approx(expected("Yes"))


def test_a_connection_that_breaks_is_tried_again() -> None:
    failures = [503, None, 500]
    paths = []

    def flaky(request: Request) -> Answer:
        paths.append(request.path)
        if failures and request.path != "/props":
            failed = failures.pop()
            if failed is None:
                raise ConnectionResetError
            return failed, {}, b"{}"
        return server(vllm)(request)

    with serving(flaky) as service:
        patient = model(service.address)
        patient.api.retry_wait = wait_none  # type: ignore[method-assign]
        (result,) = asyncio.run(reply_logprobs(patient, [ChatMessageUser(content="Well?")], ["Yes"]))
    assert result.total == pytest.approx(expected("Yes"))
    assert paths.count("/props") == 4
    assert not failures


def test_llama_cpp_that_is_loading_is_not_another_server() -> None:
    loading = [b"Loading model"]

    def slow(request: Request) -> Answer:
        return (503, {}, loading.pop()) if loading else server(llama_cpp)(request)

    with serving(slow) as service:
        patient = model(service.address)
        patient.api.retry_wait = wait_none  # type: ignore[method-assign]
        (result,) = asyncio.run(reply_logprobs(patient, [ChatMessageUser(content="Well?")], ["No"]))
    assert result.total == pytest.approx(expected("No"))


def test_a_refusal_is_not_tried_again() -> None:
    def refuses(request: Request) -> Answer:
        return (404, {}, b"{}") if request.path == "/props" else (401, {}, b"{}")

    with serving(refuses) as service, pytest.raises(httpx.HTTPStatusError, match="401"):
        ask(service, "Yes")
