"""The reader of OpenReview's API 2 on a loopback server that answers in its shape, and misbehaves as it does."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.row_files import Row
from truthgym.datasets.openreview import openreview, sample_of
from truthgym.datasets.snapshot import fetch
from truthgym.datasets.sources import openreview_api
from truthgym.datasets.sources.openreview_api import api, venue_name

VENUE = "ICLR.cc/2025/Conference"
ABSTRACT = "We train a small network to sort lists. Code: https://github.com/anna/sorting."


def at(day: str) -> int:
    return int(datetime.fromisoformat(f"{day}T12:00:00").replace(tzinfo=UTC).timestamp() * 1000)


def reply(form: str, day: str, **content: Any) -> dict[str, Any]:
    return {
        "id": f"reply-{form}-{day}",
        "forum": "p",
        "replyto": "p",
        "cdate": at(day),
        "tcdate": at(day),
        "mdate": at(day),
        "invitations": [f"{VENUE}/Submission7/-/{form}", f"{VENUE}/-/Edit"],
        "signatures": [f"{VENUE}/Submission7/Reviewer_x"],
        "readers": ["everyone"],
        "content": {name: {"value": value} for name, value in content.items()},
    }


def review(day: str, text: str) -> dict[str, Any]:
    return reply(
        "Official_Review",
        day,
        summary=text,
        soundness=3,
        strengths="The text is clear, the code runs, and the baselines are tuned well.",
        flag_for_ethics_review=["No ethics review needed."],
        rating=6,
        confidence=4,
    )


def decision(words: str, day: str = "2025-01-22") -> dict[str, Any]:
    return reply(
        "Decision", day, title="Paper Decision", decision=words, comment="The reviewers agree with each other."
    )


def note(identity: str, listed: str, *replies: dict[str, Any], **content: Any) -> dict[str, Any]:
    given = {
        "title": f"Sorting {identity}",
        "authors": ["Anna Author"],
        "abstract": ABSTRACT,
        "venue": "ICLR 2025 Poster",
        "venueid": f"{VENUE}{listed}",
        "_bibtex": "@inproceedings{anonymous}",
    } | content
    return {
        "id": identity,
        "forum": identity,
        "number": 7,
        "cdate": at("2024-09-28"),
        "tcdate": at("2024-09-28"),
        "mdate": at("2025-03-02"),
        "odate": at("2024-10-04"),
        "invitations": [f"{VENUE}/-/Submission", f"{VENUE}/-/Post_Submission"],
        "domain": VENUE,
        "license": "CC BY 4.0",
        "version": 2,
        "content": {name: {"value": value} for name, value in given.items() if value is not None},
        "details": {"directReplies": list(replies)},
    }


FIRST = review("2024-11-02", "The paper trains a small network to sort lists, and it seems sound to me.")
SECOND = review("2024-11-05", "A network is trained to sort lists; I miss a comparison with older networks.")
META = reply("Meta_Review", "2025-01-10", metareview="All reviewers recommend that this paper should be accepted here.")
COMMENT = reply("Official_Comment", "2024-11-20", comment="We thank the reviewer, and we are glad of the rating of 8.")
REJECTED = "/Rejected_Submission"
NOTES = [
    note("a", "", SECOND, META, decision("Accept (Poster)"), FIRST, COMMENT),
    note("b", REJECTED, decision("Reject"), FIRST, venue="Submitted to ICLR 2025"),
    note("c", "/Withdrawn_Submission", FIRST),
    note("d", "/Desk_Rejected_Submission"),
    note("e", "/Submission", FIRST, venue="ICLR 2025 Conference Submission"),
    note("f", REJECTED, decision("Accept (Oral)")),
    note("g", "", decision("Accept (Oral)"), abstract=None),
    note("h", REJECTED, venue="Submitted to ICLR 2025"),
    note("i", "", decision("Invite to Workshop")),
    note("j", "", decision("Accept (Poster)", "2024-09-28")),
]


Answer = tuple[int, dict[str, str], bytes]
Serve = Callable[..., tuple[str, list[str]]]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Serve notes as the API does, after some other answers. Gives its address, and what was asked of it."""
    started = []
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    for name in ("TOKEN", "USERNAME", "PASSWORD"):
        monkeypatch.delenv(f"OPENREVIEW_{name}", raising=False)

    def start(notes: list[dict[str, Any]], *first: Answer, login: Any = None) -> tuple[str, list[str]]:
        asked: list[str] = []
        waiting = list(first)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(f"{self.path} {self.headers.get('Authorization', '')}".strip())
                if waiting:
                    return self.answer(*waiting.pop(0))
                query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
                assert query["invitation"] == f"{VENUE}/-/Submission"
                assert query["sort"] == "id"
                held = [one for one in notes if one["id"] > query.get("after", "")]
                body = {"notes": held[: int(query["limit"])], "count": len(notes)}
                return self.answer(200, {"Content-Type": "application/json"}, json.dumps(body).encode())

            def do_POST(self) -> None:
                given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked.append(f"{self.path} {given['id']}")
                status, body = login
                self.answer(status, {}, json.dumps(body).encode())

            def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        started.append(server)
        return f"http://127.0.0.1:{server.server_port}", asked

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


def read(location: str, **options: Any) -> tuple[list[Row], Counter[str]]:
    skipped: Counter[str] = Counter()
    return list(api(skipped, None, venue=VENUE, location=location, **options)), skipped


def test_what_was_decided_is_read_and_the_rest_counted(serve: Serve) -> None:
    rows, skipped = read(serve(NOTES)[0])
    assert [(row["id"], row["outcome"], row["decision"], row.get("known_on")) for _, row in rows] == [
        ("openreview-a", "yes", "Accept (Poster)", "2025-01-22"),
        ("openreview-b", "no", "Reject", "2025-01-22"),
        ("openreview-h", "no", "Submitted to ICLR 2025", None),
    ]
    assert skipped == {
        "withdrawn": 1,
        "rejected without review": 1,
        "not decided, or not publicly": 1,
        "whose decision and listing disagree": 1,
        "without a title or an abstract": 1,
        "with a decision that neither accepts nor rejects": 1,
        "decided before the day of submission": 1,
    }


def test_a_row_is_a_question_whose_evidence_is_reviews_alone(serve: Serve) -> None:
    where, row = read(serve(NOTES)[0])[0][0]
    asked = sample_of(where, row)
    assert asked.target == "yes"
    assert asked.metadata is not None
    assert asked.metadata["proposition"] == 'The paper "Sorting a" was accepted at ICLR 2025.'
    assert asked.metadata["opened_on"] == "2024-09-28"
    evidence = asked.metadata["evidence"]
    assert [text.split("\n")[0] for text in evidence] == [
        f"Summary: {one['content']['summary']['value']}" for one in (FIRST, SECOND)
    ], "in the order in which they were written"
    shown = " ".join([str(asked.input), *evidence])
    told = ("Poster", "accepted here", "glad of", "Rating", "onfidence", "Anna", "github")
    assert not [word for word in told if word in shown]
    assert "[link]" in shown


def test_ratings_are_evidence_where_they_are_asked_for(serve: Serve) -> None:
    rows, _ = read(serve(NOTES)[0], ratings=True)
    assert rows[0][1]["reviews"][0].startswith("Rating: 6\n\nConfidence: 4\n\nSummary: ")


def test_pages_follow_each_other(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openreview_api, "PAGE", 3)
    location, asked = serve(NOTES)
    assert len(read(location)[0]) == 3
    afters = [parse_qs(urlsplit(path).query).get("after", [None])[0] for path in asked]
    assert afters == [None, "c", "f", "i", "j"]


def test_a_server_that_does_not_go_on_is_noticed(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    again: Answer = (200, {}, json.dumps({"notes": NOTES[:2]}).encode())
    with pytest.raises(BadInput, match="the page after b came twice"):
        read(serve(NOTES, again, again)[0])


LIMIT: Answer = (
    429,
    {"Retry-After": "0"},
    b'{"name":"RateLimitError","message":"Too many requests: You have made 99 requests"}',
)
CHALLENGE: Answer = (
    403,
    {},
    b'{"name":"ChallengeRequiredError","message":"Challenge verification required","status":403}',
)


def test_a_limit_of_the_rate_is_waited_out(serve: Serve) -> None:
    location, asked = serve(NOTES, LIMIT, LIMIT)
    assert len(read(location)[0]) == 3
    assert len(asked) == 4


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (CHALLENGE, "the server answered 403 Forbidden"),
        ((302, {"Location": "https://openreview.net/challenge"}, b""), "the server answered 302 Found"),
        ((404, {}, b'{"name":"NotFoundError"}'), "the server answered 404 Not Found"),
        ((200, {}, b"<!DOCTYPE html><title>OpenReview</title>"), "not JSON ("),
        ((200, {}, b'{"notes": [{"id": "a"'), "not JSON ("),
        ((200, {}, b'{"error": "down"}'), "expected a list of notes, got"),
        ((200, {}, b"[]"), "expected a list of notes, got '[]'"),
    ],
    ids=["challenge", "redirected", "not found", "web page", "truncated", "error", "list"],
)
def test_what_is_no_answer_is_refused_with_the_way_out(serve: Serve, answer: Answer, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        read(serve(NOTES, answer)[0])
    assert said in str(refused.value)
    assert "OPENREVIEW_USERNAME" in str(refused.value)
    assert 'source="bundled"' in str(refused.value)


def test_a_connection_that_breaks_off_is_tried_again(serve: Serve) -> None:
    assert len(read(serve(NOTES, (200, {"Content-Length": "5000"}, b'{"notes": ['))[0])[0]) == 3


def test_where_there_is_no_server_the_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    with pytest.raises(BadInput, match=r"http://127.0.0.1:9/notes cannot be read .* check the network"):
        read("http://127.0.0.1:9")


def test_a_venue_of_the_older_api_is_explained(serve: Serve) -> None:
    with pytest.raises(BadInput, match="API 2 shows no submissions of this venue; check the id"):
        read(serve([])[0])


def test_a_note_of_another_shape_is_refused(serve: Serve) -> None:
    older = {"id": "a", "cdate": at("2024-09-28"), "content": {"title": "Sorting"}, "details": {}}
    with pytest.raises(BadInput, match=r"not in the shape of API 2 \(KeyError: 'directReplies'\)"):
        read(serve([NOTES[0] | {"details": {}}])[0])
    rows, skipped = read(serve([older])[0])
    assert (rows, skipped) == ([], {"without a title or an abstract": 1})


@pytest.mark.parametrize("venue", [None, "", "ICLR 2025", "ICLR.cc", "ICLR.cc/25/Conference", 2025])
def test_a_venue_is_named_as_openreview_names_it(venue: Any) -> None:
    with pytest.raises(BadInput, match=r"venue=.* is not (?:the id of a venue; .* venue=ICLR.cc/2025/Conference|text)"):
        api(Counter(), None, venue=venue)


def test_ratings_are_true_or_false() -> None:
    with pytest.raises(BadInput, match="ratings='yes' cannot be used; give true or false"):
        api(Counter(), None, venue=VENUE, ratings="yes")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("venue", "name"),
    [
        (VENUE, "ICLR 2025"),
        ("NeurIPS.cc/2024/Datasets_and_Benchmarks_Track", "NeurIPS 2024 Datasets and Benchmarks Track"),
        ("robot-learning.org/CoRL/2024/Conference", "CoRL 2024"),
        ("ICLR.cc/2025/Workshop/AgenticAI", "ICLR 2025 Workshop AgenticAI"),
    ],
)
def test_a_venue_has_a_name(venue: str, name: str) -> None:
    assert venue_name(venue) == name


def test_a_token_is_sent(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    location, asked = serve(NOTES)
    monkeypatch.setenv("OPENREVIEW_TOKEN", "abc")
    read(location)
    assert asked
    assert all(path.endswith(" Bearer abc") for path in asked)


def test_an_account_is_logged_in_once(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    location, asked = serve(NOTES, login=(200, {"token": "xyz", "user": {"id": "anna@example.org"}}))
    monkeypatch.setenv("OPENREVIEW_USERNAME", "anna@example.org")
    monkeypatch.setenv("OPENREVIEW_PASSWORD", "secret")
    read(location)
    assert asked[0] == "/login anna@example.org"
    assert [path.rpartition(" ")[2] for path in asked[1:]] == ["xyz", "xyz"]


@pytest.mark.parametrize(
    ("login", "said"),
    [
        ((400, {"name": "Error", "message": "Invalid username or password"}), "HTTP 400"),
        ((200, {"mfaPending": True, "mfaMethods": ["totp"]}), "the account asks for a second factor"),
        ((200, ["?"]), "HTTP 200"),
    ],
)
def test_an_account_that_is_not_let_in_is_named(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, login: Any, said: str
) -> None:
    location, _ = serve(NOTES, login=login)
    monkeypatch.setenv("OPENREVIEW_USERNAME", "anna@example.org")
    monkeypatch.setenv("OPENREVIEW_PASSWORD", "secret")
    with pytest.raises(BadInput) as refused:
        read(location)
    assert f"logging in as anna@example.org failed ({said})" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_snapshot_is_a_file_that_is_asked(serve: Serve, tmp_path: Path) -> None:
    out = tmp_path / "iclr2025.jsonl"
    made = fetch("openreview", "api", out, venue=VENUE, location=serve(NOTES)[0])
    assert made.rows == 3
    asked = openreview(str(out), sha256=made.sha256, known_after=date(2025, 1, 1))
    assert [sample.id for sample in asked] == ["openreview-a", "openreview-b"]


def test_nothing_is_left_of_a_snapshot_that_breaks_off(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openreview_api, "PAGE", 2)
    page: Answer = (200, {}, json.dumps({"notes": NOTES[:2]}).encode())
    with pytest.raises(BadInput, match="403"):
        fetch("openreview", "api", tmp_path / "iclr2025.jsonl", venue=VENUE, location=serve(NOTES, page, CHALLENGE)[0])
    assert list(tmp_path.iterdir()) == []


def test_an_eval_reads_a_snapshot_and_not_the_api() -> None:
    with pytest.raises(BadInput, match="truthgym fetch openreview --source api"):
        openreview("api")
