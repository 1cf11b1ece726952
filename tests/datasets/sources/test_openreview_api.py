"""The reader of OpenReview's API 2 on a loopback server that answers in its shape, and misbehaves as it does."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.fixtures import Answer, Request, Serve, Server
from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.row_files import Row
from truthgym.datasets.openreview import openreview
from truthgym.datasets.sources import openreview_api
from truthgym.datasets.sources.openreview_api import abstract_of, api, event_of, outcome_of, review_of, venue_name

ICLR_2024 = {
    "summary": "The paper trains a small network to sort lists and compares it with two older ones.",
    "soundness": "3 good",
    "presentation": "4 excellent",
    "contribution": "2 fair",
    "strengths": "1. It is clearly written, and the code runs.\n2. The baselines are tuned as well as the method.",
    "weaknesses": "Only one kind of list is tried, and no interval is given for any of the figures.",
    "questions": "How long does training take when the lists are ten times as long?",
    "flag_for_ethics_review": ["No ethics review needed."],
    "rating": "6: marginally above the acceptance threshold",
    "confidence": "4: You are confident in your assessment, but not absolutely certain.",
    "code_of_conduct": "Yes",
}
ICLR_2020 = {
    "title": "Official Blind Review #2: a nice paper that I would like to see accepted",
    "experience_assessment": "I have published one or two papers in this area.",
    "rating": "3: Weak Reject",
    "review_assessment:_checking_correctness_of_derivations_and_theory": "I did not assess the derivations or theory.",
    "review": "This work sorts lists with a network. I find the comparison with earlier work too short.",
}


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        ("Accept (Poster)", "yes"),
        ("accept as oral", "yes"),
        ("Reject", "no"),
        ("Reject, Desk Reject", None),
        ("Accept, withdrawn by the authors", None),
        ("Invite to Workshop Track", None),
        ("", None),
    ],
)
def test_what_a_decision_says(words: str, outcome: str | None) -> None:
    assert outcome_of(words) == outcome


def test_a_title_is_one_event_wherever_it_is_sent() -> None:
    assert (
        event_of("Sorting, with <1MB: a Study")
        == event_of("Sorting with <1mb — A study")
        == ("paper-sorting-with-1mb-a-study")
    )
    assert event_of("Sorting, a Study") != event_of("Sorting, another Study")
    assert event_of("排序网络") == "paper-排序网络"
    assert len(event_of("long " * 100)) <= len("paper-") + 80


def test_the_prose_of_a_review_is_evidence_and_its_marks_are_not() -> None:
    text = review_of(ICLR_2024)
    assert text is not None
    assert text.startswith("Summary: The paper trains a small network")
    assert "Strengths: 1. It is clearly written" in text, "a numbered list is no mark"
    assert [part.split(":")[0] for part in text.split("\n\n")] == ["Summary", "Strengths", "Weaknesses", "Questions"]
    assert not [word for word in ("threshold", "confident", "good", "ethics", "Yes") if word in text]


def test_marks_stand_first_where_they_are_asked_for_and_a_review_without_prose_is_none() -> None:
    parts = (review_of(ICLR_2024, ratings=True) or "").split("\n\n")
    assert parts[:2] == [f"Rating: {ICLR_2024['rating']}", f"Confidence: {ICLR_2024['confidence']}"]
    assert review_of(ICLR_2020) == f"Review: {ICLR_2020['review']}", "a form of another year"
    assert (review_of({"rating": 6, "review": ICLR_2020["review"]}, ratings=True) or "").startswith("Rating: 6\n\n")
    assert review_of({"rating": "6: marginally above the acceptance threshold", "review": "N/A"}, ratings=True) is None


def test_links_of_an_abstract_are_masked() -> None:
    text = "We sort lists. Code: https://github.com/anna/sorting (see www.example.org/demo)."
    assert abstract_of(text) == "We sort lists. Code: [link] (see [link])."


VENUE = "ICLR.cc/2025/Conference"
ABSTRACT = "We train a small network to sort lists. Code: https://github.com/anna/sorting."


def at(day: str) -> int:
    return int(datetime.fromisoformat(f"{day}T12:00:00").replace(tzinfo=UTC).timestamp() * 1000)


def reply(form: str, day: str, **content: Any) -> dict[str, Any]:
    return {
        "id": f"reply-{form}-{day}",
        "cdate": at(day),
        "invitations": [f"{VENUE}/Submission7/-/{form}", f"{VENUE}/-/Edit"],
        "signatures": [f"{VENUE}/Submission7/Reviewer_x"],
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
        "cdate": at("2024-09-28"),
        "mdate": at("2025-03-02"),
        "odate": at("2024-10-04"),
        "invitations": [f"{VENUE}/-/Submission", f"{VENUE}/-/Post_Submission"],
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


Papers = Callable[..., Server]


@pytest.fixture
def papers(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> Papers:
    """Serve notes as the API does."""
    for name in ("TOKEN", "USERNAME", "PASSWORD"):
        monkeypatch.delenv(f"OPENREVIEW_{name}", raising=False)

    def start(notes: list[dict[str, Any]], *first: Answer) -> Server:
        def answer(request: Request) -> Answer:
            assert (request.query["invitation"], request.query["sort"]) == (f"{VENUE}/-/Submission", "id")
            listed = [paper for paper in notes if paper["id"] > request.query.get("after", "")]
            return 200, {}, json.dumps({"notes": listed[: int(request.query["limit"])]}).encode()

        server = serve(answer)
        server.first = list(first)
        return server

    return start


def read(server: Server, **options: Any) -> tuple[list[Row], Counter[str]]:
    skipped: Counter[str] = Counter()
    return list(api(skipped, None, venue=VENUE, location=server.address, **options)), skipped


def test_what_was_decided_is_read_and_the_rest_counted(papers: Papers) -> None:
    rows, skipped = read(papers(NOTES))
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


def test_a_row_is_a_question_whose_evidence_is_reviews_alone(papers: Papers) -> None:
    where, row = read(papers(NOTES))[0][0]
    asked = openreview.parse(where, row)
    assert asked.target == "yes"
    assert asked.metadata is not None
    assert asked.metadata["proposition"] == 'The paper "Sorting a" was accepted at ICLR 2025.'
    assert asked.metadata["opened_on"] == "2024-09-28"
    evidence = asked.metadata["evidence"]
    assert [text.split("\n")[0] for text in evidence] == [
        f"Summary: {review['content']['summary']['value']}" for review in (FIRST, SECOND)
    ], "in the order in which they were written"
    shown = " ".join([str(asked.input), *evidence])
    told = ("Poster", "accepted here", "glad of", "Rating", "onfidence", "Anna", "github")
    assert not [word for word in told if word in shown]
    assert "[link]" in shown


def test_ratings_are_evidence_where_they_are_asked_for(papers: Papers) -> None:
    rows, _ = read(papers(NOTES), ratings=True)
    assert rows[0][1]["reviews"][0].startswith("Rating: 6\n\nConfidence: 4\n\nSummary: ")


def test_pages_follow_each_other(papers: Papers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openreview_api, "PAGE", 3)
    server = papers(NOTES)
    assert len(read(server)[0]) == 3
    assert [request.query.get("after") for request in server.asked] == [None, "c", "f", "i", "j"]


@pytest.mark.parametrize(("status", "body"), [(403, "ChallengeRequiredError"), (200, '{"error": "down"}'), (200, "[]")])
def test_another_answer_is_one_error(papers: Papers, status: int, body: str) -> None:
    with pytest.raises(BadInput, match='OPENREVIEW_USERNAME.*source="bundled"') as refused:
        read(papers(NOTES, (status, {}, body.encode())))
    assert body[2:7] in str(refused.value)


def test_a_venue_of_the_older_api_is_explained(papers: Papers) -> None:
    with pytest.raises(BadInput, match="API 2 shows no submissions of this venue; check the id"):
        read(papers([]))


def test_a_note_of_the_older_api_is_left_out(papers: Papers) -> None:
    older = {"id": "a", "cdate": at("2024-09-28"), "content": {"title": "Sorting"}, "details": {}}
    assert read(papers([older])) == ([], {"without a title or an abstract": 1})


@pytest.mark.parametrize(
    "change", [{"cdate": "soon"}, {"content": []}, {"details": {"directReplies": 7}}, {"details": {}}]
)
def test_bad_fields_are_one_error(papers: Papers, change: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="paper a: not in the published shape"):
        read(papers([NOTES[0] | change]))


@pytest.mark.parametrize("venue", [None, "ICLR 2025", "ICLR.cc", "ICLR.cc/25/Conference", 2025])
def test_a_venue_is_named_as_openreview_names_it(venue: Any) -> None:
    with pytest.raises(BadInput, match=r"venue=.* is not (?:the id of a venue; .* venue=ICLR.cc/2025/Conference|text)"):
        api(Counter(), None, venue=venue)


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


def test_a_token_is_sent(papers: Papers, monkeypatch: pytest.MonkeyPatch) -> None:
    server = papers(NOTES)
    monkeypatch.setenv("OPENREVIEW_TOKEN", "abc\n")
    read(server)
    assert {request.headers["Authorization"] for request in server.asked} == {"Bearer abc"}


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch, papers: Papers) -> None:
    monkeypatch.setenv("OPENREVIEW_USERNAME", "anna@example.org")
    monkeypatch.setenv("OPENREVIEW_PASSWORD", "secret")


def test_an_account_logs_in_once(papers: Papers, account: None) -> None:
    server = papers(NOTES, (200, {}, b'{"token": "xyz"}'))
    read(server)
    first, *later = server.asked
    assert (first.method, first.path, json.loads(first.body)["id"]) == ("POST", "/login", "anna@example.org")
    assert [request.headers["Authorization"] for request in later] == ["Bearer xyz"] * 2


@pytest.mark.parametrize(
    ("status", "body", "match"),
    [
        (400, '{"message": "Invalid username or password"}', "400 Bad Request"),
        (200, '{"mfaPending": true}', "second factor"),
        (200, '{"token": "a b"}', "is not a token"),
        (200, "<html>", "not JSON"),
    ],
)
def test_a_failed_login_is_one_error(papers: Papers, account: None, status: int, body: str, match: str) -> None:
    with pytest.raises(BadInput, match=match) as refused:
        read(papers(NOTES, (status, {}, body.encode())))
    assert "secret" not in str(refused.value)
