"""The reader of Metaculus: what it refuses, and what it reads from a loopback server of the published shape."""

import json
import logging
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.datasets.sources.reading import Counted, read
from tests.fixtures import Answer, Request, Serve
from truthgym.cli.commands import fetch as command
from truthgym.datasets.errors import BadInput
from truthgym.datasets.forecasting import forecasting
from truthgym.datasets.sources.metaculus import metaculus

TOKEN = "0123456789abcdef0123456789abcdef01234567"


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def stood(begins: str, value: float) -> dict[str, Any]:
    return {"start_time": at(begins), "end_time": None, "forecaster_count": 24, "centers": [value], "means": None}


HISTORY = [
    stood("2026-01-03T04:00:00", 0.2),
    stood("2026-01-20T12:00:00", 0.35),
    stood("2026-01-31T00:00:00", 0.8),
    stood("2026-02-20T00:00:00", 0.99),
]


def post(number: int = 1, of: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A post as the interface lists it, open from 1 January to 2 March 2026 as planned."""
    times = {
        "open_time": "2026-01-01T00:00:00Z",
        "scheduled_close_time": "2026-03-02T00:00:00Z",
        "actual_close_time": "2026-02-21T03:34:00Z",
        "scheduled_resolve_time": "2026-03-10T03:34:00Z",
        "actual_resolve_time": "2026-02-21T03:34:00.123456Z",
    }
    question = {
        "id": 7000 + number,
        "title": f"Will bridge {number} open?",
        "description": "It has been built since 2019.",
        "resolution_criteria": "This question resolves as **Yes** if the ministry says so.",
        "fine_print": "A footbridge is no bridge.",
        "type": "binary",
        "resolution": "yes",
        "aggregations": {"recency_weighted": {"history": HISTORY}, "unweighted": {"history": []}},
    }
    return {
        "id": number,
        "title": f"Will bridge {number} open?",
        "slug": f"bridge-{number}",
        "projects": {"category": [{"id": 3690, "name": "Transport", "slug": "transport"}], "tag": []},
        "nr_forecasters": 25,
        "question": question | times | (of or {}),
    } | changes


class Metaculus:
    """Lists its posts, two to a page, to those who send the token."""

    def __init__(self, serve: Serve, folder: Path) -> None:
        self.posts: list[dict[str, Any]] = []
        self.server = serve(self.answer)
        token_file = folder / "token.txt"
        token_file.write_text(f"{TOKEN}\n")
        self.access: dict[str, Any] = {"token_file": str(token_file), "location": self.server.address}

    def answer(self, request: Request) -> Answer:
        if request.headers.get("Authorization") != f"Token {TOKEN}":
            return 403, {}, b'{"detail":"Authentication credentials were not provided."}'
        begin = int(request.query["offset"])
        more = f"http://elsewhere.example/?offset={begin + 2}" if begin + 2 < len(self.posts) else None
        return 200, {}, json.dumps({"next": more, "results": self.posts[begin : begin + 2]}).encode()

    def read(self, *posts: dict[str, Any], **options: Any) -> Counted:
        self.posts = list(posts)
        return read(metaculus, **self.access | {"permission": True} | options)


@pytest.fixture
def api(serve: Serve, tmp_path: Path) -> Metaculus:
    return Metaculus(serve, tmp_path)


def test_without_permission_nothing_is_read(api: Metaculus) -> None:
    with pytest.raises(BadInput) as refused:
        metaculus(Counter(), None, **api.access)
    said = str(refused.value)
    assert "forbid using its data to train or evaluate an AI model without its prior written permission" in said
    assert "-T permission=true" in said
    assert 'use source="forecastbench"' in said
    assert not api.server.asked


@pytest.mark.parametrize(
    ("written", "said"),
    [(None, "its API requires a token"), (f"Token {TOKEN}", "is not a token"), ("gehéim", "is not a token")],
)
def test_without_a_token_nothing_is_read(api: Metaculus, tmp_path: Path, written: str | None, said: str) -> None:
    path = tmp_path / "held"
    if written is not None:
        path.write_text(written, encoding="utf-8")
    with pytest.raises(BadInput) as refused:
        metaculus(Counter(), None, permission=True, token_file=written if written is None else str(path))
    assert said in str(refused.value)
    assert TOKEN not in str(refused.value)
    assert "hé" not in str(refused.value)
    with pytest.raises(BadInput, match="nowhere cannot be read \\(FileNotFoundError\\)"):
        metaculus(Counter(), None, permission=True, token_file="nowhere")
    assert not api.server.asked


def test_a_post_becomes_a_row_of_forecasting(api: Metaculus) -> None:
    row = api.read(post())[0][0]
    assert row == {
        "id": "metaculus-1",
        "question": "Will bridge 1 open?",
        "proposition": "The answer to this question is yes: Will bridge 1 open?",
        "background": "It has been built since 2019.",
        "criteria": "This question resolves as **Yes** if the ministry says so.\n\nA footbridge is no bridge.",
        "opened_on": "2026-01-31",
        "known_on": "2026-02-21",
        "outcome": "yes",
        "event": "metaculus-1",
        "field": "transport",
        "recorded": "https://www.metaculus.com/questions/1/",
        "crowd": 0.35,
    }
    assert "0.35" not in str(forecasting.parse("here", row).input)
    (request,) = api.server.asked
    assert (request.path, request.headers["Authorization"]) == ("/posts/", f"Token {TOKEN}")
    assert request.query == {
        "statuses": "resolved",
        "forecast_type": "binary",
        "with_cp": "true",
        "include_cp_history": "true",
        "include_descriptions": "true",
        "order_by": "published_at",
        "limit": "100",
        "offset": "0",
    }


def test_the_day_of_asking_does_not_reveal_the_resolution(api: Metaculus) -> None:
    for resolved in ("2026-02-01T00:00:00Z", "2026-03-09T00:00:00Z"):
        times = {"actual_resolve_time": resolved, "actual_close_time": resolved}
        assert api.read(post(of=times))[0][0]["opened_on"] == "2026-01-31"
    early = {"actual_resolve_time": "2026-01-31T09:00:00Z"}
    assert api.read(post(of=early)) == ([], {"closed by the day on which they are asked": 1})
    assert api.read(post(), asked=0.1)[0][0]["crowd"] == 0.2


@pytest.mark.parametrize(
    "aggregations",
    [
        None,
        {"recency_weighted": None},
        {"recency_weighted": {"history": None}},
        {"recency_weighted": {"history": [{"start_time": at("2026-01-20T00:00:00"), "centers": None}]}},
        {"recency_weighted": {"history": [{"start_time": None, "centers": [0.5]}, None]}},
        {"recency_weighted": {"history": HISTORY[2:], "latest": HISTORY[0]}},
    ],
)
def test_a_hidden_crowd_is_left_out(api: Metaculus, aggregations: Any) -> None:
    assert "crowd" not in api.read(post(of={"aggregations": aggregations}))[0][0]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (post(question=None, group_of_questions={"questions": []}), "with no single yes-or-no question"),
        (post(of={"type": "numeric"}), "with no single yes-or-no question"),
        (post(of={"resolution": "annulled"}), "annulled or ambiguous"),
        (post(of={"resolution": None}), "whose text or resolution is withheld"),
        (post(of={"open_time": None}), "without an id or a time"),
        (post(nr_forecasters=9), "with fewer forecasters than asked for"),
        (post(of={"scheduled_close_time": "2099-03-02T00:00:00Z"}), "planned to be resolved in the future"),
        (post(of={"fine_print": "Edit 21 February: it is open."}), "with a later edit marked in their text"),
    ],
)
def test_unusable_questions_are_counted(api: Metaculus, changed: dict[str, Any], why: str) -> None:
    rows, skipped = api.read(changed, post(2))
    assert [row["id"] for row in rows] == ["metaculus-2"]
    assert skipped == {why: 1}


FAR = {"recency_weighted": {"history": [{"start_time": 1e30, "centers": [0.5]}]}}


@pytest.mark.parametrize("changed", [post(nr_forecasters="many"), post(of={"aggregations": FAR})])
def test_bad_fields_are_one_error(api: Metaculus, changed: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="Metaculus, post 1: not in the published shape"):
        api.read(changed)


def test_pages_are_turned_and_the_token_goes_nowhere_else(api: Metaculus) -> None:
    assert len(api.read(*(post(k) for k in range(1, 6)))[0]) == 5
    assert [request.query["offset"] for request in api.server.asked] == ["0", "2", "4"]


def test_known_after_goes_by_the_day_of_asking(api: Metaculus) -> None:
    rows, skipped = api.read(post(), post(2, of={"open_time": "2026-01-11T00:00:00Z"}), known_after=date(2026, 2, 1))
    assert [row["opened_on"] for row in rows] == ["2026-02-05"]
    assert skipped == {"asked before 2026-02-01": 1}
    assert api.server.asked[0].query["scheduled_resolve_time__gt"] == "2026-02-01"


@pytest.mark.parametrize(
    "answer", [(401, b'{"detail":"Invalid token."}'), (200, b'{"detail": "later"}'), (200, b'{"results": [1]}')]
)
def test_another_answer_is_one_error_without_the_token(api: Metaculus, answer: tuple[int, bytes]) -> None:
    api.server.first = [(answer[0], {}, answer[1])]
    with pytest.raises(BadInput, match="check the token and its account's access") as refused:
        api.read(post())
    assert answer[1].decode()[2:8] in str(refused.value)
    assert TOKEN not in str(refused.value)


def test_the_command_makes_a_snapshot_that_holds_no_token(
    api: Metaculus, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    api.posts = [post(), post(2, of={"resolution": "no"}), post(3, of={"resolution": "annulled"})]
    out = tmp_path / "made" / "snap.jsonl"
    out.parent.mkdir()
    words = ["forecasting", "--source", "metaculus", "--out", str(out), "-T", "permission=true"]
    words += [word for name, value in api.access.items() for word in ("-T", f"{name}={value}")]
    with caplog.at_level(logging.DEBUG):
        done = CliRunner().invoke(command, words, catch_exceptions=False)
    assert done.exit_code == 0
    assert [item.target for item in forecasting(str(out))] == ["yes", "no"]
    card = out.with_suffix(".md").read_text()
    assert "-T permission=True" in card
    assert "prior written permission" in card
    written = out.read_text() + card + done.output + caplog.text
    assert TOKEN not in written
    assert api.access["token_file"] not in card
