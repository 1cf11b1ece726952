"""Reward functions that ask a reward server: for TRL and `truthgym train grpo`, and for verl.

    TRUTHGYM_SERVE_URL=http://127.0.0.1:8080 truthgym train grpo ... --reward truthgym.serve.client.reward
    trl grpo ... --reward_funcs truthgym.serve.client.reward
    reward.custom_reward_function.path=.../serve/client.py reward.custom_reward_function.name=compute_score   # verl

TRUTHGYM_SERVE_TOKEN is the token, and TRUTHGYM_SERVE_DIGEST the digest of what must do the scoring.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

BATCH = 64
TRIES = 8
TIMEOUT = 170.0
"""Seconds for one request; more than the server's deadline."""
NOT_SENT = ("task", "scores", "completion_ids", "trainer_state", "log_extra", "log_metric", "environments")


class TryAgain(Exception):
    """The server is overloaded or cannot be reached."""


@dataclass
class RewardClient:
    """Asks a reward server. Failures that may pass are tried again; scores are never made up."""

    url: str = field(default_factory=lambda: os.environ.get("TRUTHGYM_SERVE_URL", "http://127.0.0.1:8080"))
    token: str = field(default_factory=lambda: os.environ.get("TRUTHGYM_SERVE_TOKEN", ""), repr=False)
    digest: str = field(default_factory=lambda: os.environ.get("TRUTHGYM_SERVE_DIGEST", ""))
    """What must do the scoring; the server refuses if it has another one. Empty: whatever it has."""
    transport: httpx.AsyncBaseTransport | None = None

    async def score(self, items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Score items as `/batch_score` takes them.

        Returns:
            One result per item, in order. One that failed has the reward None.

        Raises:
            RuntimeError: The server cannot be reached, refuses the request, or scores with something else.
        """
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        headers |= {"X-Artifact-Digest": self.digest} if self.digest else {}
        results: list[dict[str, Any]] = []
        async with httpx.AsyncClient(
            base_url=self.url, headers=headers, timeout=TIMEOUT, transport=self.transport
        ) as http:
            for start in range(0, len(items), BATCH):
                results += await self._batch(http, items[start : start + BATCH])
        return results

    async def health(self) -> dict[str, Any]:
        """What `/healthz` says: the scorer and its digest.

        Raises:
            RuntimeError: The server cannot be reached.
        """
        async with httpx.AsyncClient(base_url=self.url, timeout=10, transport=self.transport) as http:
            try:
                found: dict[str, Any] = (await http.get("/healthz")).raise_for_status().json()
            except httpx.HTTPError as error:
                raise RuntimeError(f"The reward server at {self.url} cannot be reached: {error!r}") from None
        return found

    async def _batch(self, http: httpx.AsyncClient, items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Ask for a batch until no item fails for a reason that may pass; the server keeps what it has scored."""
        found: list[dict[str, Any]] = []

        async def ask() -> None:
            nonlocal found
            try:
                response = await http.post("/batch_score", json={"items": list(items)})
            except httpx.TransportError as error:
                raise TryAgain(repr(error)) from None
            if response.status_code >= 500:
                raise TryAgain(f"status {response.status_code}")
            if response.status_code != 200:
                raise RuntimeError(
                    f"The reward server refused the request ({response.status_code}): {response.text[:300]}"
                )
            found = response.json()["results"]
            if any(one["error"] and one["error"]["retryable"] for one in found):
                raise TryAgain("an item could not be scored yet")

        attempts = AsyncRetrying(
            retry=retry_if_exception_type(TryAgain),
            stop=stop_after_attempt(TRIES),
            wait=wait_random_exponential(multiplier=0.2, max=10),
            reraise=True,
        )
        try:
            await attempts(ask)
        except TryAgain as error:
            if not found:
                raise RuntimeError(
                    f"The reward server at {self.url} gave no rewards in {TRIES} tries: {error}"
                ) from None
        return found


async def reward(
    prompts: Sequence[object],
    completions: Sequence[object],
    **columns: Any,  # noqa: ANN401
) -> list[float | None]:
    """TRL's reward function: one reward per completion, higher is better; None if it could not be scored.

    The dataset's columns go along as the item's metadata; `target` is the truth.

    Raises:
        RuntimeError: As `RewardClient.score`.
    """
    return await rewards_of(RewardClient(), prompts, completions, columns)


async def rewards_of(
    client: RewardClient, prompts: Sequence[object], completions: Sequence[object], columns: Mapping[str, Any]
) -> list[float | None]:
    """The rewards of completions from a client. Arguments and result as of `reward`."""
    rows = {name: values for name, values in columns.items()
            if name not in NOT_SENT and isinstance(values, list) and len(values) == len(prompts)}  # fmt: skip
    items = []
    for i, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
        metadata = {name: values[i] for name, values in rows.items() if values[i] is not None and _is_json(values[i])}
        target, identity, epoch = (metadata.pop(name, None) for name in ("target", "sample_id", "epoch"))
        text = (
            completion if isinstance(completion, str) else _text(completion[-1]) if isinstance(completion, list) else ""
        )
        item: dict[str, Any] = {
            "prompt": _prompt(prompt),
            "response": text,
            "target": str(target or ""),
            "metadata": metadata,
        }
        item |= {"id": str(identity)} if identity is not None else {}
        items.append(item | ({"epoch": epoch} if isinstance(epoch, int) else {}))
    return [one["reward"] for one in await client.score(items)]


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: object,
    extra_info: Mapping[str, Any] | None = None,
    **_: Any,  # noqa: ANN401
) -> dict[str, float]:
    """Verl's reward function, for one reply.

    Args:
        data_source: Name of the data set, sent as metadata.
        solution_str: The reply.
        ground_truth: The truth, or None.
        extra_info: `prompt` or `question` is the prompt; JSON values of other fields are metadata.

    Raises:
        RuntimeError: The reply could not be scored. verl has no value for that, and 0.0 would be a reward.
    """
    import asyncio

    extra = {name: value for name, value in dict(extra_info or {}).items() if _is_json(value)}
    prompt = extra.pop("prompt", None) or extra.pop("question", "")
    item = {
        "prompt": _prompt(prompt),
        "response": solution_str,
        "target": "" if ground_truth is None else str(ground_truth),
        "metadata": {**extra, "data_source": data_source},
    }
    (result,) = asyncio.run(RewardClient().score([item]))
    if result["reward"] is None:
        raise RuntimeError(f"The reply could not be scored: {result['error']}")
    return {"score": float(result["reward"])}


def _prompt(prompt: object) -> object:
    if not isinstance(prompt, list):
        return str(prompt)
    return [{"role": one["role"], "content": _text(one)} for one in prompt]


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text") or "") for part in content)
    return str(content or "")


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
