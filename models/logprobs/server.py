"""Log-probabilities of given tokens by a server: vLLM and others whose completions echo the prompt, and llama.cpp.

The server itself encodes the conversation and the reply, so the boundary between them is a number of tokens.

- vLLM, and servers with its `/tokenize`: one request to `/v1/completions` for each reply, with tokens as the prompt.
  The log-probabilities are vLLM's `prompt_logprobs`, or those of OpenAI's `echo`.
- llama.cpp, which has no log-probabilities of a prompt: one request for each token of a reply, two where a character is
  made of several tokens. A bias makes the server sample this token, and the log-probability that it gives is the one
  without the bias.
"""

from codecs import getincrementaldecoder
from collections.abc import Sequence
from typing import Any

import httpx
from inspect_ai.model import ChatMessage

from truthgym.datasets.errors import BadInput
from truthgym.models.logprobs.local import EMPTY, TOO_LONG_FOR_SERVER, Scored
from truthgym.solvers.local_model import TOO_LONG

TIMEOUT = 600.0
"""Seconds for one request: a long prompt on a laptop takes minutes."""
BIAS = 1e5
"""Added to the logit of a token that llama.cpp is to sample."""
EVERY_TOKEN = 10**6
"""More tokens than any vocabulary has."""


async def score_server(
    api: Any,  # noqa: ANN401 - one of several provider classes
    messages: list[ChatMessage],
    replies: Sequence[str],
    template: dict[str, Any] | None = None,
) -> tuple[list[Scored], int]:
    """The log-probabilities of replies in a conversation, by the server of an Inspect provider."""
    if hasattr(api, "server_is_running"):
        await api.tokenize("a")  # Inspect starts a vLLM server with the first request
    chat = [{"role": message.role, "content": message.text} for message in messages]
    root = str(api.base_url).rstrip("/").removesuffix("/v1")
    headers = {"Authorization": f"Bearer {api.api_key}"}
    async with httpx.AsyncClient(base_url=root, headers=headers, timeout=TIMEOUT) as client:
        props = await client.get("/props")
        if props.status_code >= 500:  # llama.cpp, while it loads the model
            props.raise_for_status()
        is_llama_cpp = props.is_success
        server = (LlamaCpp if is_llama_cpp else Echo)(client, api.service_model_name())
        prompt = await server.encode_chat({"messages": chat, "chat_template_kwargs": template or {}})
        scored: list[Scored] = []
        tokens_read = len(prompt) if is_llama_cpp else 0
        for reply in replies:
            tokens = await server.encode(reply)
            tokens_read += len(tokens) if is_llama_cpp or not tokens else len(prompt) + len(tokens)
            try:
                scored.append(await server.score(prompt, tokens) if tokens else EMPTY)
            except httpx.HTTPStatusError as error:
                if not any(words in error.response.text for words in TOO_LONG):
                    raise
                scored.append(TOO_LONG_FOR_SERVER)
    return scored, tokens_read


def is_worth_a_retry(error: BaseException) -> bool:
    """Whether a request failed in a way that may pass: the connection broke, or the server is busy or starting."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in (408, 409, 429) or error.response.status_code >= 500
    return isinstance(error, httpx.NetworkError | httpx.TimeoutException | httpx.RemoteProtocolError)


class Echo:
    """A server with vLLM's `/tokenize` and completions that give the log-probabilities of the prompt."""

    def __init__(self, client: httpx.AsyncClient, model: str) -> None:
        self.client = client
        self.model = model

    async def encode_chat(self, chat: dict[str, Any]) -> list[int]:
        """The tokens of a conversation, with the beginning of the reply."""
        return await self._tokenize({**chat, "add_generation_prompt": True})

    async def encode(self, text: str) -> list[int]:
        """The tokens of a text, without special ones."""
        return await self._tokenize({"prompt": text, "add_special_tokens": False}) if text else []

    async def score(self, prompt: list[int], reply: list[int]) -> list[tuple[str, float]]:
        """The text and log-probability of each token of a reply."""
        ids = [*prompt, *reply]
        request = {"model": self.model, "prompt": ids, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1}
        choice = (await _post(self.client, "/v1/completions", request | {"prompt_logprobs": 1}))["choices"][0]
        listed = choice.get("prompt_logprobs")
        if listed:
            entries = [position[str(token)] for position, token in zip(listed[len(prompt) :], reply, strict=True)]
            return [(entry["decoded_token"], float(entry["logprob"])) for entry in entries]
        echoed = choice.get("logprobs") or {}
        texts, logprobs = echoed.get("tokens") or [], echoed.get("token_logprobs") or []
        if len(logprobs) < len(ids):  # those of the generated token alone
            raise _no_logprobs(self.client)
        places = slice(len(prompt), len(ids))
        return list(zip(texts[places], map(float, logprobs[places]), strict=True))

    async def _tokenize(self, text: dict[str, Any]) -> list[int]:
        try:
            return list((await _post(self.client, "/tokenize", {"model": self.model, **text}))["tokens"])
        except httpx.HTTPStatusError as error:
            if error.response.status_code not in (404, 405):
                raise
            raise _no_logprobs(self.client) from None


class LlamaCpp:
    """llama.cpp's server."""

    def __init__(self, client: httpx.AsyncClient, _: str) -> None:
        self.client = client
        self.bytes: dict[int, bytes] = {}

    async def encode_chat(self, chat: dict[str, Any]) -> list[int]:
        """The tokens of a conversation, with the beginning of the reply."""
        text = (await _post(self.client, "/apply-template", chat))["prompt"]
        return await self._tokenize(text, add_special=True, parse_special=True)

    async def encode(self, text: str) -> list[int]:
        """The tokens of a text, without special ones."""
        return await self._tokenize(text)

    async def score(self, prompt: list[int], reply: list[int]) -> list[tuple[str, float]]:
        """The text and log-probability of each token of a reply. A request for each, which reads only what is new."""
        scored = []
        decode = getincrementaldecoder("utf-8")("replace").decode  # a character of several tokens goes with the last
        for index, token in enumerate(reply):
            before = [*prompt, *reply[:index]]
            sampled = await self._sample(before, token, 1)
            if sampled is None:  # a token that is part of a character is not listed as sampled, but among the likeliest
                (letter,) = await self._tokenize("a")
                sampled = await self._sample(before, letter, EVERY_TOKEN)
                assert sampled is not None
                sampled = next(top_logprob for top_logprob in sampled["top_logprobs"] if top_logprob["id"] == token)
            scored.append((decode(self.bytes[token]), float(sampled["logprob"])))
        return scored

    async def _sample(self, prompt: list[int], token: int, listed: int) -> dict[str, Any] | None:
        """What the server says of one token that it is made to sample, with the likeliest ones."""
        request = {"prompt": prompt, "n_predict": 1, "temperature": 0, "cache_prompt": True}
        request |= {"n_probs": listed, "logit_bias": [[token, BIAS]]}
        sampled = (await _post(self.client, "/completion", request)).get("completion_probabilities")
        if sampled and sampled[0]["id"] != token:
            raise BadInput(
                f"{self.client.base_url} sampled token {sampled[0]['id']} in place of {token}, which was given"
            )
        return dict(sampled[0]) if sampled else None

    async def _tokenize(self, text: str, **special: bool) -> list[int]:
        request = {"content": text, "with_pieces": True, "add_special": False, "parse_special": False} | special
        tokens = (await _post(self.client, "/tokenize", request))["tokens"]
        for one in tokens:
            self.bytes[one["id"]] = one["piece"].encode() if isinstance(one["piece"], str) else bytes(one["piece"])
        return [token["id"] for token in tokens]


def _no_logprobs(client: httpx.AsyncClient) -> BadInput:
    return BadInput(
        f"The server at {client.base_url} gives no log-probabilities of a given text; serve the model with vLLM or "
        "llama.cpp, name a local one with hf/, or use -T method=top_logprobs (docs/logprobs.md)"
    )


async def _post(client: httpx.AsyncClient, path: str, request: dict[str, Any]) -> dict[str, Any]:
    reply = (await client.post(path, json=request)).raise_for_status()
    return dict(reply.json())
