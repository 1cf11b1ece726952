"""The client of a reward server."""

import asyncio
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import Request, serving
from truthgym.training import served_rewards
from truthgym.training.served_rewards import compute_score, served


def scored(*rewards: float, **fields: Any) -> bytes:
    """A server's answer to so many items."""
    results = [{"index": i, "reward": reward, "error": None} for i, reward in enumerate(rewards)]
    return json.dumps({"results": results} | fields).encode()


def answering(request: Request) -> tuple[int, dict[str, str], bytes]:
    assert request.headers["X-Artifact-Digest"] == "a" * 64
    rewards = [len(item["response"]) / 10 for item in json.loads(request.body)["items"]]
    return 200, {}, scored(*rewards, artifact="a" * 64)


def test_verl_loads_the_file_and_calls_its_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `reward.custom_reward_function.path`, `.name` and `.reward_kwargs` say."""
    spec = importlib.util.spec_from_file_location("mine", Path(served_rewards.__file__))
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "mine", module)
    spec.loader.exec_module(module)
    with serving(answering) as server:
        score = module.compute_score("urns", "four", "yes", {"question": "Is it?"}, server.address, "a" * 64)
    assert score == {"score": 0.4}


def one(**fields: Any) -> bytes:
    return json.dumps({"artifact": "d", "results": [{"index": 0, "reward": 1, "error": None, **fields}]}).encode()


ANSWERS = {
    "page": b"<html>",
    "list": b"[]",
    "text": b'"results"',
    "number": b'{"results": 5}',
    "nested": b"[" * 100_000,
    "nested results": b'{"results": ' + b"[" * 100_000,
    "index": one(index=1),
    "infinite": one(reward=float("inf")),
    "no number": one(reward=float("nan")),
    "too large": b'{"results": [{"index": 0, "error": null, "reward": ' + b"9" * 400 + b"}]}",
    "too many digits": b'{"results": [{"index": 0, "error": null, "reward": ' + b"9" * 5000 + b"}]}",
    "reward as text": one(reward="1"),
    "truth value": one(reward=True),
    "error as text": one(error="failed"),
    "error without a field": one(error={}),
    "doubled key": b'{"results": [{"index": 0, "error": null, "reward": 0, "reward": 1}]}',
    "no text": b"\xff\xfe",
    "long": b"0" * 4_000_001,
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_that_is_none_is_refused(answer: bytes) -> None:
    with serving(lambda request: (200, {}, answer)) as server:
        with pytest.raises(RuntimeError, match="no reward server"):
            compute_score("urns", "four", None, server=server.address)
        if answer != one(index=1):
            with pytest.raises(RuntimeError, match="no reward server"):
                served(server.address).sources()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("headers", "answer", "said"),
    [
        ({}, one(reward=None, error={"code": "judge_reply", "retryable": False}), "could not be scored"),
        ({"Content-Encoding": "gzip"}, one(), "cannot be decoded"),
    ],
    ids=["failed", "packed"],
)
def test_verl_gets_an_error_and_no_zero(headers: dict[str, str], answer: bytes, said: str) -> None:
    with serving(lambda request: (200, headers, answer)) as server, pytest.raises(RuntimeError, match=said):
        compute_score("urns", "four", None, server=server.address)


@pytest.mark.parametrize("artifact", ["b" * 64, "", None, ["a" * 64]])
def test_a_server_that_scores_with_something_else_than_what_is_pinned(artifact: object) -> None:
    """It says so, or does not know the header with the digest."""
    answer = scored(1.0, artifact=artifact, scorer="brier", made_of={})
    with serving(lambda request: (200, {}, answer)) as server:
        with pytest.raises(RuntimeError, match="not with 'a{64}', which is pinned"):
            compute_score("urns", "four", None, server=server.address, digest="a" * 64)
        with pytest.raises(RuntimeError, match="not with 'a{64}', which is pinned"):
            served(server.address, "a" * 64).sources()  # type: ignore[attr-defined]
        assert compute_score("urns", "four", None, server=server.address) == {"score": 1.0}


def test_long_items_are_sent_in_several_requests() -> None:
    sizes = []

    def score(request: Request) -> tuple[int, dict[str, str], bytes]:
        items = json.loads(request.body)["items"]
        sizes.append((len(items), len(request.body)))
        return 200, {}, scored(*(float(item["response"][:2]) for item in items))

    long = [f"{i:02} " + "ü" * 60_000 for i in range(30)]
    with serving(score) as server:
        scores = asyncio.run(served(server.address)(["Why?"] * 100, [*long, *["07"] * 70]))
    assert scores == [*range(30), *[7] * 70]
    assert sum(count for count, _ in sizes) == 100
    assert max(size for _, size in sizes) < 1_600_000
    assert max(count for count, _ in sizes) <= 64


def test_half_a_character_does_not_end_a_batch() -> None:
    seen: list[str] = []

    def answer(request: Request) -> tuple[int, dict[str, str], bytes]:
        seen.extend(item["response"] for item in json.loads(request.body)["items"])
        return 200, {}, scored(*[1.0] * len(seen))

    texts = ["plain", "half \ud800 of it", "two halves \ud83d\ude00", "\udfff"]
    with serving(answer) as server:
        rewards = asyncio.run(served(server.address)(["Is it?"] * 4, texts, target=["\ud800"] * 4))
    assert rewards == [1.0] * 4
    assert seen == ["plain", "half \ufffd of it", "two halves \U0001f600", "\ufffd"]


def test_an_address_with_a_password_is_named_without_it() -> None:
    with pytest.raises(RuntimeError, match=r"server at http://127\.0\.0\.1:9 cannot be reached") as error:
        served("http://me:hush@127.0.0.1:9").sources()  # type: ignore[attr-defined]
    assert "hush" not in str(error.value)


def test_a_server_that_is_not_ready_is_refused_before_the_first_step() -> None:
    def answer(request: Request) -> tuple[int, dict[str, str], bytes]:
        if request.path == "/readyz":
            return 503, {}, b'{"status": "not ready", "until": 7}'
        return 200, {}, b'{"artifact": "d", "scorer": "brier", "made_of": {}}'

    with serving(answer) as server, pytest.raises(RuntimeError, match=r"127\.0\.0\.1:\d+ is not ready: .*until.* 7"):
        served(server.address).sources()  # type: ignore[attr-defined]


def test_a_server_that_is_waited_for_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(served_rewards, "PATIENCE", 1.0)
    with pytest.raises(RuntimeError, match="gave no rewards"):
        compute_score("urns", "four", None, server="http://me:hush@127.0.0.1:9")
    said = capsys.readouterr().err
    assert said.count("Waiting for the reward server at http://127.0.0.1:9") == 1, "every 30 s"
    assert "hush" not in said
