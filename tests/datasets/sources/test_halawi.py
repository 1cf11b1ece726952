"""The loader of the set of Halawi and others, on small files of its shape, from disk and from a loopback hub."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.datasets.sources.reading import Counted, hub_of, paths_of, read
from tests.fixtures import Serve
from truthgym.datasets.errors import BadInput
from truthgym.datasets.forecasting import forecasting
from truthgym.datasets.question import Question
from truthgym.datasets.sources import halawi as source
from truthgym.datasets.sources.halawi import PARTS, halawi

NONE = "Not applicable/available for this question."


def asked(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A question as the files hold it: the crowd's history is text, and newest days may come first."""
    said = [["2023-03-20", 0.98], ["2023-03-08", 0.7], ["2023-03-07", 0.2], ["2023-03-07", 0.4], ["2023-03-02", 0.1]]
    return {
        "question": f"Will bridge {number} open?",
        "background": "It has been built since 2019.",
        "resolution_criteria": "Resolves by the ministry's record.",
        "date_begin": "2023-03-01",
        "date_close": "2023-04-01",
        "date_resolve_at": "2023-03-20",
        "is_resolved": True,
        "resolution": 1.0,
        "question_type": "binary",
        "data_source": "manifold",
        "url": f"https://manifold.markets/anna/bridge-{number}",
        "community_predictions": json.dumps(said),
        "extracted_urls": ["https://example.org/ANSWER"],
        "gpt_3p5_category": "Science & Tech",
    } | changes


def write(folder: Path, *questions: Any) -> str:
    for name in PARTS:
        held = questions if name == "test" else ()
        (folder / f"{name}.json").write_text(json.dumps(list(held), indent=1), encoding="utf-8")
    return str(folder)


def rows(folder: Path, *questions: Any, **options: Any) -> Counted:
    return read(halawi, location=write(folder, *questions), **options)


def test_a_question_becomes_a_row_of_forecasting(tmp_path: Path) -> None:
    row = rows(tmp_path, asked())[0][0]
    assert row == {
        "id": row["id"],
        "question": "Will bridge 1 open?",
        "proposition": "The answer to this question is yes: Will bridge 1 open?",
        "background": "It has been built since 2019.",
        "criteria": "Resolves by the ministry's record.",
        "opened_on": "2023-03-08",
        "known_on": "2023-03-20",
        "outcome": "yes",
        "event": "manifold-manifold.markets/anna/bridge-1",
        "field": "Science & Tech",
        "recorded": "https://manifold.markets/anna/bridge-1",
        "crowd": pytest.approx(0.3),
    }
    said = str(forecasting.parse("here", row).input)
    assert "ANSWER" not in said
    assert "0.3" not in said
    assert row["id"].startswith("halawi-")


def test_the_crowd_is_never_of_the_day_or_later(tmp_path: Path) -> None:
    options: list[tuple[int, Any]] = [(7, pytest.approx(0.3)), (8, 0.7), (1, None), (2, 0.1), (18, 0.7)]
    for days, crowd in options:
        assert rows(tmp_path, asked(), after_days=days)[0][0].get("crowd") == crowd, days
    late = json.dumps([["2023-03-20", 1.0], ["2023-03-30", 1.0], ["2023-02-20", 0.5]])
    for given in (late, "[]", "", None, "[[1, 2, 3]]", '[["2023-03-02", 70]]', "{", [["2023-03-02", None]]):
        row = rows(tmp_path, asked(community_predictions=given))[0][0]
        assert "crowd" not in row, given
    assert rows(tmp_path, asked(community_predictions=[["2023-03-02", 1]]))[0][0]["crowd"] == 1


def test_the_closing_day_does_not_change_the_question(tmp_path: Path) -> None:
    assert rows(tmp_path, asked(date_close="2024-01-01")) == rows(tmp_path, asked(date_close="2023-03-20"))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"data_source": "metaculus"}, "of Metaculus, whose terms ask for written permission"),
        ({"resolution": 0.4}, "not resolved to yes or no"),
        ({"is_resolved": False}, "not resolved to yes or no"),
        ({"question_type": "multiple_choice"}, "not resolved to yes or no"),
        ({"question": None}, "without a text, a platform or a day"),
        ({"date_resolve_at": "soon"}, "without a text, a platform or a day"),
        ({"date_resolve_at": "2023-03-08"}, "closed by the day on which they are asked"),
        ({"date_close": "2023-03-08"}, "closed by the day on which they are asked"),
        ({"background": "A bridge.\nEDIT 20 March: it opened!"}, "with a later edit marked in their text"),
    ],
)
def test_unusable_questions_are_counted(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    kept, skipped = rows(tmp_path, asked(**changes), asked(2))
    assert [row["question"] for row in kept] == ["Will bridge 2 open?"]
    assert skipped == {why: 1}


def test_metaculus_needs_permission(tmp_path: Path) -> None:
    question = asked(data_source="metaculus", url="https://www.metaculus.com/questions/578/human-extinction/")
    assert rows(tmp_path, question)[0] == []
    assert rows(tmp_path, question, permission=True)[0][0]["event"] == "metaculus-578"


@pytest.mark.parametrize("place", ["event/bridge", "market/bridge", "event/bridge?tid=17#rules"])
def test_a_market_of_polymarket_has_the_event_of_its_own_source(tmp_path: Path, place: str) -> None:
    ((row,), _) = rows(tmp_path, asked(data_source="polymarket", url=f"https://polymarket.com/{place}"))
    assert row["event"] == "polymarket-bridge"


def test_what_is_not_said_is_left_to_the_platform(tmp_path: Path) -> None:
    question = asked(background=NONE, resolution_criteria=NONE, gpt_3p5_category=None, date_close=None)
    row = rows(tmp_path, question)[0][0]
    assert "background" not in row
    assert row["criteria"] == "The platform that asked the question decides."
    assert row["field"] == "manifold"


def test_answers_of_one_question_share_an_event(tmp_path: Path) -> None:
    address = "https://www.gjopen.com/questions/2500"
    answers = [asked(k, data_source="gjopen", url=address, resolution=str(k % 2)) for k in (1, 2, 1)]
    items = forecasting("halawi", location=write(tmp_path, *answers))
    assert {item.metadata_as(Question).event for item in items} == {"gjopen-www.gjopen.com/questions/2500"}
    assert [item.target for item in items] == ["yes", "no"]
    assert items.dropped == {"with a duplicate id": 1}


def test_known_after_goes_by_the_day_of_asking(tmp_path: Path) -> None:
    kept, skipped = rows(tmp_path, asked(), asked(2, date_begin="2023-03-03"), known_after=date(2023, 3, 9))
    assert [row["opened_on"] for row in kept] == ["2023-03-10"]
    assert skipped == {"asked before 2023-03-09": 1}


def test_the_files_that_are_asked_for_are_read(tmp_path: Path) -> None:
    location = write(tmp_path, asked())
    (tmp_path / "validation.json").unlink()
    assert len(forecasting("halawi", location=location, parts="train, test")) == 1
    with pytest.raises(BadInput, match="validation.json"):
        forecasting("halawi", location=location)


@pytest.mark.parametrize(
    "text", ["", "<!DOCTYPE html><html>[Sign in]", '{"question": []}', '[{"question": "Will', "[1, 2]"]
)
def test_a_file_of_another_shape_is_one_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "test.json").write_text(text)
    with pytest.raises(BadInput, match="test.json"):
        forecasting("halawi", location=str(tmp_path), parts="test")


def test_files_come_from_the_pinned_revision(serve: Serve, tmp_path: Path) -> None:
    write(tmp_path, asked(), asked(2))
    server = hub_of(serve, tmp_path, source.REVISION)
    assert len(forecasting("halawi", location=server.address, parts="test")) == 2
    assert paths_of(server) == [f"/datasets/YuehHanChen/forecasting/resolve/{source.REVISION}/test.json"]
