"""What a server refuses, what it does not give away, and what it writes down."""

import asyncio
import json
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from time import time
from typing import Any

import anyio
import pytest
from inspect_ai.model import ChatMessage, Model, ModelOutput
from uvicorn import Config
from uvicorn.server import ServerState

from tests.serve.asking import BRIER, JUDGE, MODEL_GRADER, Stub, ask, item, rewards, server, web
from truthgym.datasets.errors import BadInput
from truthgym.serve.server import Server, application
from truthgym.serve.service.access import RequestLog, Tokens, check_bind, read_tokens
from truthgym.serve.service.guard import Limits, TimedConnection
from truthgym.serve.service.pool import CANARY
from truthgym.serve.service.rates import ITEM, SETUP, limit
from truthgym.serve.service.scoring import Item, Result, Source
from truthgym.serve.spec import RewardSpec

SECRET, ADMIN = "secret-of-the-scorer", "secret-of-the-admin"
TOKENS = Tokens({sha256(SECRET.encode()).hexdigest(): "score", sha256(ADMIN.encode()).hexdigest(): "admin"})
GOOD = item(r"\finalBeliefProb{0.7}")


@pytest.mark.parametrize(
    ("header", "path", "status"),
    [
        ({}, "/score", 401),
        ({"authorization": "Bearer wrong"}, "/score", 401),
        ({"authorization": f"Basic {SECRET}"}, "/score", 401),
        ({"authorization": f"Bearer {SECRET}"}, "/score", 200),
        ({"authorization": f"Bearer {ADMIN}"}, "/score", 200),
        ({}, "/metrics", 401),
        ({}, "/livez", 200),
        ({"authorization": f"Bearer {SECRET}"}, "/admin/artifact", 403),
    ],
)
def test_tokens(header: dict[str, str], path: str, status: int) -> None:
    body = GOOD if path == "/score" else {"name": "a"} if path.startswith("/admin") else None
    (response,) = ask(server(tokens=TOKENS), (path, body), **header)
    assert response.status_code == status
    assert SECRET not in response.text
    assert not any(digest in response.text for digest in TOKENS.rights)


@pytest.mark.parametrize(
    ("host", "allowed"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False)]
)
def test_an_open_host_needs_a_token(host: str, allowed: bool) -> None:
    check_bind(host, TOKENS)
    if allowed:
        check_bind(host, Tokens())
    else:
        with pytest.raises(BadInput, match="set TRUTHGYM_SERVE_TOKEN"):
            check_bind(host, Tokens())


def test_tokens_are_read_from_a_file_and_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = sha256(SECRET.encode()).hexdigest()
    file = tmp_path / "tokens"
    file.write_text(f"# mine\nscore {digest}\n")
    monkeypatch.setenv("TRUTHGYM_SERVE_ADMIN_TOKEN", ADMIN)
    assert read_tokens(file).right_of(f"Bearer {SECRET}") == ("score", digest[:8])
    assert (read_tokens(None).right_of(f"bearer {ADMIN}") or [""])[0] == "admin"
    file.write_text(f"score {SECRET}\n")
    with pytest.raises(BadInput, match="line 1: write `score`") as error:
        read_tokens(file)
    assert SECRET not in str(error.value)


SMALL = Limits(body_bytes=2000, batch_items=2, item_characters=100)


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/score", b"{" + b" " * 2000 + b"}", 413, "too_large"),
        ("/batch_score", {"items": [GOOD] * 3}, 413, "too_many_items"),
        ("/score", item("x" * 100), 413, "item_too_long"),
        ("/score", item("y", question="x" * 100), 413, "item_too_long"),
        ("/score", {"prompt": [{"role": "user", "content": ""}] * 2, "response": "y"}, 413, "item_too_long"),
        ("/score", item("y", metadata={"note": "x" * 100}), 413, "item_too_long"),
        ("/score", b"not json", 400, "invalid_json"),
        ("/score", {"prompt": "q"}, 422, "invalid_body"),
        ("/score", item("a", epoch=0), 422, "invalid_body"),
        ("/score", b'{"prompt": "q", "response": "good", "response": "bad"}', 400, "doubled_key"),
        (
            "/batch_score",
            b'{"items": [{"prompt": "q", "response": "r", "metadata": {"a": 1, "a": 2}}]}',
            400,
            "doubled_key",
        ),
        ("/get_reward", b'{"query": ["qr"], "prompts": ["q"], "x": {"y": 1, "y": 1}}', 400, "doubled_key"),
        ("/score", b'{"prompt": "q", "response": "r", "metadata": {"a": ' + b"9" * 1500 + b"}}", 413, "item_too_long"),
    ],
)
def test_bodies_that_are_refused(path: str, body: Any, status: int, code: str) -> None:
    (response,) = ask(server(limits=SMALL), (path, body))
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"content-type": "text/plain"}, 415, "not_json"),  # as of a form of a web page
        ({f"x-{i}": "a" * 1000 for i in range(9)}, 431, "headers_too_large"),
    ],
)
def test_headers_that_are_refused(headers: dict[str, str], status: int, code: str) -> None:
    (response,) = ask(server(), ("/score", GOOD), **headers)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


async def send_raw(
    app: Any, path: str, body: bytes, more: bool = False, *further: tuple[bytes, bytes]
) -> list[dict[str, Any]]:
    """The messages with which an application answers. With `more`, the request's body never ends."""
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0.02 if more else 0)
        return {"type": "http.request", "body": body, "more_body": more}

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    headers = [(b"content-type", b"application/json"), (b"authorization", f"Bearer {SECRET}".encode()), *further]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""}
    await app(scope, receive, send)
    return messages


@pytest.mark.parametrize("path", ["/score", "/livez"])
def test_a_body_with_two_lengths_is_refused(path: str) -> None:
    lengths = (b"content-length", b"5"), (b"transfer-encoding", b"chunked")
    start, body = asyncio.run(send_raw(application(server()), path, b"{}", False, *lengths))
    assert start["status"] == 400
    assert (b"connection", b"close") in start["headers"]
    assert json.loads(body["body"])["error"]["code"] == "two_lengths"


def test_a_slow_client_is_cut_off() -> None:
    app = application(server(limits=Limits(body_time=0.05)))
    start, body = asyncio.run(send_raw(app, "/score", b"{", more=True))
    assert start["status"] == 408
    assert b"too_slow" in body["body"]


@pytest.mark.parametrize(
    "sent", [b"", b"POST /score HTTP/1.1\r\nX: ", b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\nGET /livez HTTP"]
)
def test_a_connection_on_which_no_header_ends_is_closed(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it sends a byte now and then, or has sent a good request before."""
    monkeypatch.setattr(Limits, "body_time", 0.3)

    async def seconds() -> float:
        config, loop = Config(application(server()), log_level="error"), asyncio.get_running_loop()
        new = partial(TimedConnection, config, ServerState(), {})
        async with await loop.create_server(new, "127.0.0.1", 0) as listening:
            begun = loop.time()
            reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
            writer.write(sent)
            drips = asyncio.create_task(drip(writer)) if sent else None
            with suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), 5)
            if drips:
                drips.cancel()
            writer.transport.abort()
            return loop.time() - begun

    async def drip(writer: asyncio.StreamWriter) -> None:
        while True:
            await asyncio.sleep(0.05)
            writer.write(b"x")

    assert 0.2 < asyncio.run(seconds()) < 3


def test_a_request_that_the_end_of_the_server_cuts_off_is_answered(tmp_path: Path) -> None:
    served = server(log=RequestLog(tmp_path / "log"))
    Stub(served, seconds=60)

    async def run() -> dict[str, Any]:
        task = asyncio.create_task(send_raw(application(served), "/score", json.dumps(GOOD).encode()))
        while not served.pool.running:
            await asyncio.sleep(0.01)
        task.cancel()
        return (await task)[0]

    start = asyncio.run(run())
    assert start["status"] == 503
    assert (b"retry-after", b"1") in start["headers"]
    assert [line["error"] for line in logged(tmp_path / "log")] == ["cancelled"]


def test_a_thousand_malformed_bodies_leak_nothing(tmp_path: Path) -> None:
    paths = ["/score", "/batch_score", "/get_reward", "/remote_rm"]
    draw = random.Random(0)
    whole = json.dumps({"items": [GOOD], **GOOD, "query": ["a"], "private": "the-clients-text"}).encode()

    def broken() -> bytes:
        body = bytearray(whole)
        match draw.randrange(4):
            case 0:
                del body[draw.randrange(1, len(body)) :]
            case 1:
                body[draw.randrange(len(body))] = draw.randrange(256)
            case 2:
                return draw.randbytes(draw.randrange(60))
            case _:
                shapes: list[Any] = [None, 3, [], {}, {"prompt": {}}, {"items": [3]}, {"query": 1}, [[[]]], "\ud800"]
                return json.dumps(draw.choice(shapes)).encode()
        return bytes(body)

    served = server(specs=tmp_path, tokens=TOKENS)

    async def send_all() -> list[list[dict[str, Any]]]:
        app = application(served)
        return [await send_raw(app, draw.choice(paths), broken()) for _ in range(1000)]

    answers = asyncio.run(send_all())
    assert {start["status"] for start, _ in answers} == {400, 422}
    together = b"".join(body["body"] for _, body in answers).decode()
    secrets = ("Traceback", "the-clients-text", SECRET, str(tmp_path), "site-packages", "/serve/")
    assert [leak for leak in secrets if leak in together] == []


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    folder = tmp_path / "specs"
    folder.mkdir()
    (folder / "judged.json").write_text(
        json.dumps({"scorer": "graded", "options": {"grader": "model"}, "roles": JUDGE})
    )
    (folder / "broken.json").write_text(json.dumps({"scorer": "graded", "options": {"grader": "modle"}}))
    (tmp_path / "outside.json").write_text(json.dumps({"scorer": "graded"}))
    return folder


@pytest.mark.parametrize(
    "name", ["../outside", "..%2foutside", "/etc/passwd", "judged.json/../judged", ".", "", "a" * 999]
)
def test_a_name_never_leaves_its_folder(specs: Path, name: str) -> None:
    (response,) = ask(server(specs=specs, tokens=TOKENS), ("/admin/artifact", {"name": name}),
                      authorization=f"Bearer {ADMIN}")  # fmt: skip
    assert response.status_code == 404
    assert str(specs) not in response.text
    (response,) = ask(server(specs=specs), ("/admin/artifact", {"name": name}))
    assert response.status_code == 403, "admin needs a token even if scoring needs none"


def test_a_swap_is_pinned_and_a_bad_one_changes_nothing(specs: Path) -> None:
    served = server(specs=specs, tokens=TOKENS)
    before = BRIER.digest
    judged = RewardSpec(scorer="graded", options={"grader": "model"}, roles=JUDGE).digest
    swap = "/admin/artifact"
    responses = ask(
        served,
        (swap, {"name": "judged", "digest": before}),
        (swap, {"name": "broken"}),
        ("/score", GOOD),
        (swap, {"name": "judged", "digest": judged}),
        ("/score", GOOD),
        authorization=f"Bearer {ADMIN}",
    )
    assert [response.status_code for response in responses] == [412, 422, 200, 200, 200]
    assert [responses[i].headers["x-artifact-digest"] for i in (2, 4)] == [before, judged]
    assert responses[3].json() == {"before": before, "artifact": judged}
    (pinned,) = ask(served, ("/score", GOOD), authorization=f"Bearer {SECRET}", **{"X-Artifact-Digest": before})
    assert pinned.status_code == 412
    assert judged in pinned.json()["error"]["message"]


def test_open_requests_end_on_the_artifact_that_they_began_with(specs: Path) -> None:
    served = server(specs=specs, tokens=TOKENS)
    Stub(served, seconds=0.1)
    requests = (("/score", GOOD), ("/admin/artifact", {"name": "judged"}))
    scored, swapped = ask(served, *requests, together=True, authorization=f"Bearer {ADMIN}")
    assert swapped.status_code == 200
    assert scored.json()["reward"] == len(GOOD["response"])
    assert scored.json()["artifact"] == scored.headers["x-artifact-digest"] == BRIER.digest


def logged(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_request_is_one_line_without_texts(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    served = server(tokens=TOKENS, log=RequestLog(path))
    requests = [("/score", GOOD), ("/score", b"{"), ("/batch_score", {"items": [GOOD, item("?")]}), ("/livez", None)]
    ask(served, *requests, authorization=f"Bearer {SECRET}")
    served.log = RequestLog(path)
    ask(served, ("/score", GOOD))
    lines = logged(path)
    assert [line["status"] for line in lines] == [200, 400, 200, 401]
    assert lines[0]["rewards"] == [pytest.approx(-0.09)]
    assert lines[2]["codes"] == [None, "unread"]
    assert lines[0]["items"] == lines[2]["items"][:1]
    assert lines[0]["artifact"] == BRIER.digest
    assert lines[3]["error"] == "unauthorised"
    assert len({line["request_id"] for line in lines}) == 4
    assert not any(text in path.read_text() for text in ("rain", "final", SECRET))
    served = server(log=RequestLog(tmp_path / "texts", texts=True))
    ask(served, ("/score", GOOD))
    assert logged(tmp_path / "texts")[0]["texts"] == [{name: GOOD[name] for name in ("prompt", "response")}]


def test_what_the_server_counts() -> None:
    served = server()
    *_, page = ask(served, ("/score", GOOD), ("/score", item("?")), ("/nothing", b"{}"), ("/metrics", None))
    lines = page.text.splitlines()
    assert 'truthgym_items_total{outcome="scored"} 1.0' in lines
    assert 'truthgym_items_total{outcome="unread"} 1.0' in lines
    assert 'truthgym_requests_total{endpoint="/score",status="200"} 2.0' in lines
    assert 'truthgym_requests_total{endpoint="other",status="404"} 1.0' in lines


def test_a_judge_that_fails_again_and_again_is_not_ready() -> None:
    served = server(limits=Limits(retries=0, breaker_failures=2, breaker_time=60))
    stub = Stub(served, failures=["a", "b"])
    scores = [("/score", item(text)) for text in "abc"]
    responses = ask(served, ("/readyz", None), *scores[:2], ("/readyz", None), scores[2])
    assert [response.status_code for response in responses] == [200, 503, 503, 503, 503]
    assert stub.calls == ["a", "b"]


def test_one_item_is_tried_after_a_while() -> None:
    served = server(limits=Limits(retries=0, breaker_failures=2, breaker_time=0.2))
    stub = Stub(served, failures=["a", "b", "c"])

    async def talk() -> list[int]:
        async with web(served) as http:

            async def score(*texts: str) -> int:
                return (await http.post("/batch_score", json={"items": [item(text) for text in texts]})).status_code

            statuses = [await score("a", "b")]
            await asyncio.sleep(0.25)
            statuses += await asyncio.gather(score("c", "d", "e"), score("f"), score("g"))  # only c is tried; it fails
            await asyncio.sleep(0.25)
            return [*statuses, await score("h"), await score("i", "j")]

    assert asyncio.run(talk()) == [503, 503, 503, 503, 200, 200]
    assert stub.calls == ["a", "b", "c", "h", "i", "j"]


def test_a_late_item_is_no_score_and_is_kept_for_the_next_request() -> None:
    served = server(limits=Limits(deadline=0.05))
    stub = Stub(served, seconds=0.1)
    late, *_, repeated = ask(served, *[("/score", item("a"))] * 4)
    assert late.status_code == 503
    assert late.json()["error"]["code"] == "deadline"
    assert late.json()["score"] is None
    assert (repeated.status_code, repeated.json()["score"]) == (200, 1)
    assert stub.calls == ["a"]


def test_partial_results() -> None:
    served = server(limits=Limits(retries=0, breaker_failures=99))
    Stub(served, failures=["b", "b"])
    batches = [("/batch_score", {"items": [item(text) for text in texts]}) for texts in ("ab", "b")]
    some, none = ask(served, *batches)
    assert some.status_code == 200
    assert [result["reward"] for result in some.json()["results"]] == [1, None]
    assert none.status_code == 503


@pytest.mark.parametrize("gullibility", [0, 0.5])
def test_the_canary_shows_a_judge_that_can_be_asked_for_full_marks(gullibility: float) -> None:
    roles = {"grader": {"model": "reference/judge", "model_args": {"gullibility": gullibility}}}
    spec = RewardSpec(scorer="graded", options={"grader": "model"}, roles=roles)
    served = Server(Source(spec), canary=1.0)
    response, page = ask(served, ("/score", item("It may rain, since there are clouds.")), ("/metrics", None))
    rise = response.json()["canary_rise"]
    assert 0.05 < rise < 0.5 if gullibility else abs(rise) <= 0.011
    assert "truthgym_canary_rise_count 1.0" in page.text


@pytest.mark.parametrize("extraction", [{"kind": "tag", "pattern": "a"}, {"kind": "regex", "pattern": "<a>(.*)</a>"}])
def test_the_canary_is_in_the_part_that_is_judged(extraction: dict[str, str]) -> None:
    roles = {"judge": {"model": "reference/judge", "model_args": {"gullibility": 0.5}}}
    options = {"rubric": "truth_seeking", "extraction": extraction}
    served = Server(Source(RewardSpec(scorer="rubric", options=options, roles=roles)), canary=1.0)
    text = "I think. <a>It may rain, since there are clouds.</a> Yours, A."
    (response,) = ask(served, ("/score", item(text)))
    assert response.json()["canary_rise"] > 0.05


def test_a_canary_that_fails_is_counted() -> None:
    served = server(limits=Limits(retries=0), canary=1.0)
    Stub(served, failures=[f"a{CANARY}"])
    response, page = ask(served, ("/score", item("a")), ("/metrics", None))
    assert (response.json()["reward"], "canary_rise" in response.json()) == (1, False)
    assert "truthgym_failed_canaries_total 1.0" in page.text


class StatusError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"Another wording of {status}")
        self.status_code = status


def with_judge(status: Callable[[str], int], **options: Any) -> Server:
    """A server whose judge's provider answers a text with a status."""
    served = server(MODEL_GRADER, **options)
    model = served.source.roles["grader"]
    assert isinstance(model, Model)
    answered = model.api.generate.__wrapped__  # type: ignore[attr-defined]

    async def generate(input: list[ChatMessage], *args: Any, **kwargs: Any) -> Any:
        code = status("".join(message.text for message in input))
        if code == 299:
            return ModelOutput.from_content("judge", "", "content_filter")
        if code != 200:
            raise StatusError(code)
        return await answered(input, *args, **kwargs)

    model.api.generate = generate  # type: ignore[method-assign]
    limit(model, served.source.rates.rate_of("reference/judge"))
    return served


@pytest.mark.parametrize("status", [400, 413, 422, 299])
def test_an_item_that_the_judge_refuses_holds_up_no_other(status: int) -> None:
    calls: list[str] = []

    def answer(text: str) -> int:
        calls.append(text)
        return status if "Too long" in text else 200

    served = with_judge(answer)
    long = [item(f"Too long {i}") for i in range(12)]
    fine = [item(f"It will rain, {i}.") for i in range(30)]
    first, second, third, ready = ask(
        served, ("/batch_score", {"items": long + fine[:1]}), ("/batch_score", {"items": fine}),
        ("/score", long[0]), ("/readyz", None),
    )  # fmt: skip
    errors = [result["error"] for result in first.json()["results"]]
    assert {(error["code"], error["retryable"]) for error in errors[:-1]} == {("judge_refused", False)}
    assert errors[-1] is None
    assert all(isinstance(reward, float) for reward in rewards(second))
    assert (third.status_code, ready.status_code) == (422, 200)
    assert sum("Too long 0" in text for text in calls) <= 3, "asked again by nobody"


@pytest.mark.parametrize(("status", "times"), [(500, 6), (408, 6), (429, 6), (400, 1), (401, 1)])
def test_how_often_a_judge_that_fails_is_called(status: int, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    pause = asyncio.sleep
    for module in (asyncio, anyio):  # Inspect waits by the second before it calls again
        monkeypatch.setattr(module, "sleep", lambda seconds: pause(0))
    served = with_judge(lambda text: calls.append(text) or status)  # type: ignore[func-returns-value]
    api = served.source.roles["grader"].api  # type: ignore[union-attr]
    monkeypatch.setattr(api, "should_retry", lambda error: status not in ITEM + SETUP)
    ask(served, ("/score", item("It will rain.")))
    assert len(calls) == times


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_setup_that_every_call_fails_is_not_ready(status: int) -> None:
    served = with_judge(lambda _: status)
    items = [item(f"It will rain, {i}.") for i in range(30)]
    *_, last, ready = ask(served, *(("/score", entry) for entry in items), ("/readyz", None))
    assert (last.status_code, ready.status_code) == (503, 503)
    assert "judge_refused" not in {result.code for result in served.pool._results.values()}


def test_a_long_pause_that_the_judge_asks_for_is_said_with_its_end() -> None:
    served = server(MODEL_GRADER)
    before = time()

    async def wait() -> dict[str, Any]:
        served.source.rates.rate_of("reference/judge").refuse(asyncio.get_running_loop().time(), 86_400.0)
        async with web(served) as http:
            answer = await http.get("/readyz")
            assert answer.status_code == 503
            return dict(answer.json())

    said = asyncio.run(wait())
    assert before + 290 < said["until"] < before + 310


def test_a_batch_of_long_texts_leaves_no_other_request_unheard() -> None:
    """Items are scored one in a turn of the event loop, which hears other requests between them."""
    served = server()
    scored: list[str] = []

    async def score(item: Item) -> Result:
        scored.append(item.response)
        return Result(score=1.0, reward=1.0)

    served.source.score = score  # type: ignore[method-assign]

    async def most_in_a_turn() -> int:
        items = [Item(prompt="q", response=str(i)) for i in range(64)]
        batch = asyncio.create_task(served.pool.score(served.source, items, 10.0))
        most = before = 0
        while not batch.done():
            await asyncio.sleep(0)
            most, before = max(most, len(scored) - before), len(scored)
        return most

    assert asyncio.run(most_in_a_turn()) == 1
    assert len(scored) == 64
