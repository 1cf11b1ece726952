"""Reward functions that ask a reward server, `truthgym serve`: for `truthgym train grpo`, TRL and verl.

    truthgym train grpo ... --reward http://127.0.0.1:8080
    trl grpo ... --reward_funcs mine.reward      # in mine.py: reward = served("http://127.0.0.1:8080", digest="...")
    reward.custom_reward_function.path=.../served_rewards.py reward.custom_reward_function.name=compute_score
        +reward.custom_reward_function.reward_kwargs.server=http://127.0.0.1:8080         # verl

TRUTHGYM_SERVE_TOKEN is the token. The file needs no other file of Truthgym, so that verl can load it by its path.
"""

import asyncio
import json
import math
import os
import random
import re
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

import httpx

BATCH, BATCH_BYTES = 64, 1_500_000
"""Items and bytes of a request; the server takes 64 and 2,000,000."""
TOGETHER = 4
"""Requests at the same time."""
TRIES = 8
"""Of items that the server could not score yet."""
SHORT_WAITS, LONGEST_WAIT = (0.2, 0.4, 0.8, 1.6, 3.2, 6.4), 10.0
"""Most seconds before each further request; half of them in the mean."""
PATIENCE = 900.0
"""Seconds for which a server that is overloaded, or has not started, is asked again."""
TOLD_EVERY = 30.0
"""Seconds between two lines that say that the server is waited for."""
TIMEOUT = 170.0
"""Seconds for one request; more than the server's deadline."""
ANSWER_BYTES = 4_000_000
NO_SERVER = "this is no reward server; give the address that `truthgym serve` printed"
NOT_SENT = ("task", "scores", "completion_ids", "trainer_state", "log_extra", "log_metric", "environments")


class Overloaded(Exception):
    """The server is overloaded or cannot be reached."""


@dataclass
class RewardClient:
    """Asks a reward server. Failures that may pass are tried again; scores are never made up."""

    url: str = field(repr=False)
    digest: str = ""
    """What must do the scoring: the server refuses if it has another one, and each answer is compared. Empty: any."""
    token: str = field(default_factory=lambda: os.environ.get("TRUTHGYM_SERVE_TOKEN", ""), repr=False)
    transport: httpx.AsyncBaseTransport | None = None
    told_at: float = field(default=-math.inf, init=False, repr=False)
    """When somebody was last told that the server is waited for, on the monotonic clock."""

    @property
    def place(self) -> str:
        """The address without user and password."""
        return _without_user(self.url)

    async def score(self, items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """One result for each item, in order, as `/batch_score` gives them. One that failed has the reward None."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        headers |= {"X-Artifact-Digest": self.digest} if self.digest else {}
        slots = asyncio.Semaphore(TOGETHER)
        async with httpx.AsyncClient(
            base_url=self.url, headers=headers, timeout=TIMEOUT, transport=self.transport
        ) as http:

            async def score_batch(batch: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
                async with slots:
                    return await self._batch(http, batch)

            results = await asyncio.gather(*map(score_batch, _batches(list(map(_sendable, items)))))
        return [result for batch in results for result in batch]

    async def health(self) -> dict[str, Any]:
        """What `/healthz` says: the scorer, its digest, and the digests of what it is made of."""
        async with httpx.AsyncClient(base_url=self.url, timeout=10, transport=self.transport) as http:
            try:
                status, content = await _ask(http, "GET", "/healthz")
                readiness, why = await _ask(http, "GET", "/readyz")
            except Overloaded as error:
                raise RuntimeError(f"The reward server at {self.place} cannot be reached: {error}") from None
        health = _parsed(content)
        made = health.get("made_of", {}) if isinstance(health, dict) else None
        whole = isinstance(made, dict) and all(
            isinstance(value, str) for value in (*made.values(), health.get("scorer"))
        )
        if status != 200 or not whole:
            raise RuntimeError(f"{self.place}/healthz does not say what scores (status {status}): {NO_SERVER}")
        self._check(health)
        if readiness == 503:
            raise RuntimeError(f"The reward server at {self.place} is not ready: {why.decode(errors='replace')[:300]}")
        return dict(health)

    def _check(self, answer: Mapping[str, Any]) -> None:
        """Refuse an answer that does not come from what is pinned, also of a server that ignores the header."""
        artifact = answer.get("artifact")
        if self.digest and artifact != self.digest:
            raise RuntimeError(
                f"The reward server at {self.place} scores with {str(artifact)[:64]!r}, not with {self.digest!r}, "
                "which is pinned; start it with that specification, or pin what it has"
            )

    async def _batch(self, http: httpx.AsyncClient, items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Ask for a batch until no item fails for a reason that may pass; the server keeps what it has scored."""
        began, tries, results = time.monotonic(), 0, list[dict[str, Any]]()
        for longest in chain(SHORT_WAITS, repeat(LONGEST_WAIT)):
            try:
                status, content = await _ask(http, "POST", "/batch_score", {"items": list(items)})
                if status >= 500:
                    raise Overloaded(f"status {status}")
            except Overloaded as error:
                waited = time.monotonic() - began
                if waited > PATIENCE and not results:
                    raise RuntimeError(f"The reward server at {self.place} gave no rewards: {error}") from None
                if waited > PATIENCE:
                    break
                self._tell(waited, error)
            else:
                if status != 200:
                    raise RuntimeError(f"The reward server refused the request ({status}): {content[:300]!r}")
                results = _results(answer := _parsed(content), len(items))
                self._check(answer)
                tries += 1
                if tries == TRIES or not any(result["error"] and result["error"]["retryable"] for result in results):
                    break
            await asyncio.sleep(random.uniform(0, longest))
        return results

    def _tell(self, waited: float, error: Overloaded) -> None:
        """Say now and then what is waited for: a trainer that waits in silence looks as if it hung."""
        if time.monotonic() >= self.told_at + TOLD_EVERY:
            self.told_at = time.monotonic()
            about = f"the reward server at {self.place} since {waited:.0f} s, at most {PATIENCE:.0f} s: {error}"
            print(f"Waiting for {about}", file=sys.stderr, flush=True)


def served(url: str, digest: str = "") -> Callable[..., Coroutine[Any, Any, list[float | None]]]:
    """Make TRL's reward function of a server: one reward per completion, higher is better; None without a score.

    The dataset's columns go along as the item's metadata; `target` is the truth.

    Args:
        url: The server's address.
        digest: The digest of what must do the scoring; empty for whatever the server has.
    """
    client = RewardClient(url, digest)

    async def reward(prompts: Sequence[object], completions: Sequence[object], **columns: Any) -> list[float | None]:
        return await rewards_of(client, prompts, completions, columns)

    def sources() -> dict[str, str]:
        """What scores, by name with its digest, which the rewards must come from from now on."""
        health = asyncio.run(client.health())
        client.digest = client.digest or health["artifact"]
        return made_of(health)

    reward.sources = sources  # type: ignore[attr-defined]
    return reward


def made_of(health: Mapping[str, Any]) -> dict[str, str]:
    """What a server scores with, for a lineage: its specification, and the artifacts and files in it."""
    return {f"scorer:{health['scorer']}": health["artifact"], **health.get("made_of", {})}


async def rewards_of(
    client: RewardClient, prompts: Sequence[object], completions: Sequence[object], columns: Mapping[str, Any]
) -> list[float | None]:
    """The rewards of completions from a client. Result as of `served`."""
    rows = {name: values for name, values in columns.items()
            if name not in NOT_SENT and isinstance(values, list) and len(values) == len(prompts)}  # fmt: skip
    items = []
    for i, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
        metadata = {name: values[i] for name, values in rows.items() if values[i] is not None and _is_json(values[i])}
        target, identity, epoch = (metadata.pop(name, None) for name in ("target", "sample_id", "epoch"))
        text = _text(completion[-1]) if isinstance(completion, list) else completion
        item = _item(prompt, text if isinstance(text, str) else "", target, metadata)
        item |= {"id": str(identity)} if identity is not None else {}
        items.append(item | ({"epoch": epoch} if isinstance(epoch, int) else {}))
    return [result["reward"] for result in await client.score(items)]


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: object,
    extra_info: Mapping[str, Any] | None = None,
    server: str = "http://127.0.0.1:8080",
    digest: str = "",
    **_: Any,
) -> dict[str, float]:
    """Verl's reward function, for one reply.

    Args:
        data_source: Name of the data set, sent as metadata.
        solution_str: The reply.
        ground_truth: The truth, or None.
        extra_info: `prompt` or `question` is the prompt; JSON values of other fields are metadata.
        server: The server's address, from verl's `reward_kwargs`.
        digest: The digest of what must do the scoring; empty for whatever the server has.

    Raises:
        RuntimeError: The reply could not be scored. verl has no value for that, and 0.0 would be a reward.
    """
    extra = {name: value for name, value in dict(extra_info or {}).items() if _is_json(value)}
    prompt = extra.pop("prompt", None) or extra.pop("question", "")
    item = _item(prompt, solution_str, ground_truth, {**extra, "data_source": data_source})
    (result,) = asyncio.run(RewardClient(server, digest).score([item]))
    if result["reward"] is None:
        raise RuntimeError(f"The reply could not be scored: {result['error']}")
    return {"score": float(result["reward"])}


def _item(prompt: object, response: str, target: object, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """An item as the server takes it."""
    turns = prompt if isinstance(prompt, list) else []
    messages = [{"role": message["role"], "content": _text(message)} for message in turns]
    return {
        "prompt": messages if isinstance(prompt, list) else str(prompt),
        "response": response,
        "target": "" if target is None else str(target),
        "metadata": metadata,
    }


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text") or "") for part in content)
    return str(content or "")


def _without_user(text: str) -> str:
    """A text whose addresses have no user and password."""
    return re.sub(r"(?<=://)[^/\s'\"]*@", "", text)


def _sendable(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item without lone surrogates, which no request can carry: a model may write half a character."""
    text = json.dumps(item, ensure_ascii=False)
    whole: dict[str, Any] = json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return whole


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def _batches(items: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    batches: list[list[Mapping[str, Any]]] = []
    room = 0
    for item in items:
        size = len(json.dumps(item, ensure_ascii=False).encode())
        if not batches or len(batches[-1]) == BATCH or size > room:
            batches.append([])
            room = BATCH_BYTES
        batches[-1].append(item)
        room -= size
    return batches


async def _ask(http: httpx.AsyncClient, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    """The status and body of an answer, which is read up to a limit."""
    content = b""
    try:
        async with http.stream(method, path, json=body) as response:
            async for part in response.aiter_bytes():
                content += part
                if len(content) > ANSWER_BYTES:
                    raise RuntimeError(f"The answer is longer than {ANSWER_BYTES} bytes: {NO_SERVER}")
            return response.status_code, content
    except httpx.TransportError as error:
        raise Overloaded(_without_user(repr(error))) from None
    except httpx.DecodingError as error:
        raise RuntimeError(f"The answer cannot be decoded ({error}): {NO_SERVER}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose keys are all different."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a key is given twice")
    return content


def _parsed(content: bytes) -> Any:  # noqa: ANN401
    """JSON, or None for what is none: also what is nested too deep or has a key twice."""
    try:
        return json.loads(content, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None


def _is_result(result: Mapping[str, Any]) -> bool:
    """Whether a result has a finite number or None, and says of a failure whether it may pass."""
    reward, error = result["reward"], result["error"]
    is_number = type(reward) in (int, float) and abs(reward) <= sys.float_info.max
    return (reward is None or is_number) and (error is None or isinstance(error["retryable"], bool))


def _results(answer: Any, count: int) -> list[dict[str, Any]]:  # noqa: ANN401
    try:
        results: list[dict[str, Any]] = answer["results"]
        whole = [result["index"] for result in results] == list(range(count)) and all(map(_is_result, results))
    except (KeyError, TypeError):
        whole = False
    if not whole:
        raise RuntimeError(f"The answer is not one result for each of {count} items: {NO_SERVER}")
    return results
