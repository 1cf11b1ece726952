"""Files of a user's own, in every domain: the fields that are needed, those that may be left out, and refusals."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.fixtures import write_rows
from truthgym.datasets.domains import DOMAINS
from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.domain import Domain
from truthgym.datasets.question import Question
from truthgym.datasets.questions import questions as own_questions
from truthgym.datasets.research import ResearchQuestion, research
from truthgym.datasets.sources.openreview_api import event_of

ROWS: dict[str, dict[str, Any]] = {
    "forecasting": {"id": "rain", "question": "Will it rain?", "outcome": "yes"},
    "research": {"id": "moon", "question": "Which falls faster, a hammer or a feather?", "easy": "The hammer.",
                 "hard": "Neither"},
    "openreview": {"id": "sorting", "title": "Sorting", "summary": "A network sorts lists.", "venue": "ICLR 2020",
                   "outcome": "yes"},
    "cmv_binary": {"id": "cats", "view": "Cats make better pets.", "post": "Dogs need walks.",
                   "exchange": ["Reader A: They sleep.", "Author: So do dogs."], "outcome": "yes"},
    "cmv_freeform": {"id": "cats", "view": "Cats make better pets.", "post": "They sleep."},
    "conceptual": {"id": "being", "question": "Is it?", "proposition": "It is."},
    "intellectual": {"id": "explain", "prompt": "Explain it."},
    "wildchat": {"id": "eggs", "message": "how long do eggs keep"},
}  # fmt: skip
"""The least that a row needs."""
MORE: dict[str, dict[str, Any]] = {
    "forecasting": {"proposition": "It rains.", "background": "April was dry.", "criteria": "Yes if it rains.",
                    "opened_on": "2024-04-20", "field": "weather", "recorded": "a record", "crowd": 0.7},
    "research": {"asked": "hard", "first": "easy", "reason": "No air.", "science": "physics", "recorded": "Apollo 15"},
    "openreview": {"decision": "Accept (Poster)", "reviews": ["It sorts well."], "opened_on": "2019-09-25"},
    "cmv_binary": {"topic": "animals", "synthetic": True},
    "cmv_freeform": {"topic": "animals"},
    "conceptual": {"topic": "being"},
    "intellectual": {"kind": "check", "claim": "It is so.", "claim_holds": "no", "recorded": "a sum"},
    "wildchat": {"language": "English", "model": "gpt-4-0314", "turns": 2, "country": "Chile", "category": "cooking",
                 "earlier": ["hi", "Hello."]},
}  # fmt: skip
every_domain = pytest.mark.parametrize("domain", ROWS)
Refused = Callable[..., str]


@pytest.fixture
def refused(tmp_path: Path) -> Refused:
    """The message about a file whose second row has changed fields. None removes a field."""

    def load(domain: str, **change: Any) -> str:
        row = {name: value for name, value in (ROWS[domain] | {"id": "other"} | change).items() if value is not None}
        with pytest.raises(BadInput) as error:
            DOMAINS[domain](write_rows(tmp_path / "mine.jsonl", ROWS[domain], row))
        assert "mine.jsonl line 2: " in str(error.value)
        return str(error.value)

    return load


@every_domain
def test_a_row_needs_little(domain: str, tmp_path: Path) -> None:
    row = ROWS[domain]
    questions = DOMAINS[domain](write_rows(tmp_path / "mine.jsonl", row, row | {"id": "b", "event": "e"}))
    first, second = (item.metadata_as(Question) for item in questions)
    assert [item.id for item in questions] == [row["id"], "b"]
    assert questions[0].target == row.get("outcome", questions[0].target)
    assert first.event == (event_of(row["title"]) if domain == "openreview" else row["id"])
    assert second.event == "e"
    assert questions.notice is None
    assert questions.digest
    shown = [text for name, text in row.items() if name in ("question", "title", "view", "post", "prompt", "message")]
    assert all(text in str(questions[0].input) for text in shown)


@every_domain
def test_a_row_may_have_more(domain: str, tmp_path: Path) -> None:
    row = ROWS[domain] | MORE[domain] | {"known_on": "2024-05-01", "event": "e"}
    (item,) = DOMAINS[domain](write_rows(tmp_path / "mine.jsonl", row), known_after="2024-04-30")
    metadata = item.metadata or {}
    for name in {"event", "known_on", *MORE[domain]} - {"reviews", "background", "criteria"}:
        assert metadata[name] == row[name], name
    assert not any(text in str(item.input) for text in row.get("exchange", row.get("reviews", []))), "evidence"
    assert metadata["evidence"] == row.get("exchange", row.get("reviews", []))
    with pytest.raises(BadInput, match="1 known by 2024-05-01"):
        DOMAINS[domain](str(tmp_path / "mine.jsonl"), known_after="2024-05-01")


def test_common_names_of_fields_are_understood(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "mine.jsonl", {"id": "rain", "input": "Will it rain?", "target": "yes"})
    (item,) = DOMAINS["forecasting"](path)
    assert (item.input, item.target) == ("Will it rain?", "yes")
    assert item.metadata_as(Question).proposition == "The answer to this question is yes: Will it rain?"


@every_domain
def test_fields_of_a_row_are_checked(domain: str, refused: Refused, tmp_path: Path) -> None:
    for name, value in ROWS[domain].items():
        assert f"`{name}` is missing; add it" in refused(domain, **{name: None})
        if isinstance(value, str) and name != "outcome":
            assert f"`{name}` must be text in quotes, got ' '" in refused(domain, **{name: " "})
            assert f"`{name}` must be text in quotes, got 7" in refused(domain, **{name: 7})
    for name, value in {"event": "", "known_on": "soon"}.items():
        assert name in refused(domain, **{name: value})
    assert "rename it, such as to `my_split`" in refused(domain, split="train")
    assert "did you mean 'id'?" in refused(domain, id=None, idd="x")
    assert "did you mean 'known_on'?" in refused(domain, knwon_on="2024-05-01")
    with pytest.raises(BadInput, match=f"duplicate id '{ROWS[domain]['id']}', at questions 1 and 2"):
        DOMAINS[domain](write_rows(tmp_path / "mine.jsonl", ROWS[domain], ROWS[domain]))


@pytest.mark.parametrize(
    ("domain", "change", "parts"),
    [
        ("forecasting", {"crowd": 70}, ["`crowd`: 70 is not a probability", "write 0.7"]),
        ("forecasting", {"outcome": "perhaps"}, ["`outcome`: 'perhaps'", "'yes' or 'no'"]),
        ("forecasting", {"opened_on": "2024-05-02", "known_on": "2024-05-01"}, ["opened_on 2024-05-02 is not before"]),
        ("forecasting", {"question": None, "outcome": 7, "crowd": 70}, ["`question`", "`outcome`", "`crowd`"]),
        ("research", {"asked": "right"}, ["`asked`: 'right'", "'easy' or 'hard'"]),
        ("research", {"hard": "the hammer"}, ["the same answer, 'the hammer'"]),
        ("openreview", {"decision": "Reject"}, ["'Reject' and the outcome 'yes' contradict"]),
        ("openreview", {"reviews": "It sorts well."}, ["'It sorts well.' cannot be used; give a JSON list such as"]),
        ("openreview", {"reviews": ["It sorts well.", 6]}, ["`reviews.1` must be text in quotes, got 6"]),
        ("cmv_binary", {"exchange": []}, ["`exchange`: [] cannot be used", "at least 1"]),
        ("cmv_binary", {"synthetic": "perhaps"}, ["`synthetic`: 'perhaps' cannot be used"]),
        ("wildchat", {"turns": "many"}, ["`turns`: 'many' cannot be used"]),
    ],
)
def test_a_bad_row_is_refused(refused: Refused, domain: str, change: dict[str, Any], parts: list[str]) -> None:
    message = refused(domain, **change)
    for part in parts:
        assert part in message


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
@every_domain
def test_other_columns_are_metadata(domain: str, suffix: str, tmp_path: Path) -> None:
    more = {"type": "map", "domain": "traffic", "knowledge": "x", "event_type": "late", "questions": "9"}
    path = tmp_path / f"mine.{suffix}"
    if suffix == "jsonl":
        write_rows(path, ROWS[domain] | more, ROWS[domain] | {"id": "b", "type": None})
    else:
        frame = pd.DataFrame([ROWS[domain] | more, ROWS[domain] | {"id": "b"}])
        for name in frame:
            if suffix == "csv" and isinstance(frame[name][0], list):
                frame[name] = frame[name].map(json.dumps)
        frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    questions = DOMAINS[domain](str(path))
    first, second = (item.metadata or {} for item in questions)
    assert {key: first[key] for key in ("type", "file_domain", "knowledge", "event_type", "questions")} == {
        "type": "map", "file_domain": "traffic", "knowledge": "x", "event_type": "late", "questions": "9"}  # fmt: skip
    assert (first["domain"], "type" in second) == (domain, False)
    assert str(questions.notice).endswith("type, domain (as file_domain), knowledge, event_type, questions.")


@pytest.mark.parametrize(
    ("column", "near"),
    [("evidnce", "evidence"), ("Known on", "known_on"), ("baserate", "base_rate"), ("open_on", "opened_on"),
     ("uid", None), ("position", None), ("opened_by", None), ("crowd_size", None), ("option", None), ("Note", None)],
)  # fmt: skip
def test_a_misspelled_column_is_told_from_another(column: str, near: str | None, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "mine.jsonl", {"id": "a", "question": "Why?", "outcome": "yes", column: "x"})
    if near is None:
        assert (own_questions(path)[0].metadata or {})[column] == "x"
    else:
        with pytest.raises(BadInput, match=f"line 1: there is no field '{column}'; did you mean '{near}'"):
            own_questions(path)


def test_an_outcome_may_be_a_truth_value_or_a_number(tmp_path: Path) -> None:
    rows = [ROWS["forecasting"] | {"id": str(i), "outcome": y} for i, y in enumerate((True, 1, " Y ", False, 0, "N"))]
    targets = [item.target for item in DOMAINS["forecasting"](write_rows(tmp_path / "mine.jsonl", *rows))]
    assert targets == ["yes"] * 3 + ["no"] * 3


def test_all_faults_of_ten_rows_are_in_one_message(tmp_path: Path) -> None:
    good = ROWS["forecasting"]
    days = {"opened_on": "2024-05-02", "known_on": "2024-05-01"}
    changes: list[dict[str, Any]] = [{}, {"id": "b", "outcome": 7}, {}, {"id": "c", **days}, {"id": "d", "outcome": 7}]
    with pytest.raises(BadInput) as error:
        DOMAINS["forecasting"](write_rows(tmp_path / "mine.jsonl", *(good | change for change in changes)))
    assert [line.partition(";")[0] for line in str(error.value).splitlines()] == [
        "mine.jsonl line 2, mine.jsonl line 5: the field `outcome`: 7 cannot be used",
        "mine.jsonl line 3: duplicate id 'rain', at questions 1 and 3",
        "mine.jsonl line 4: opened_on 2024-05-02 is not before known_on 2024-05-01",
    ]


def test_spreadsheets_may_write_capitals(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("ID; Question;Outcome\na;Why?;Yes\nb;How?;FALSE\n")
    assert [(q.id, q.input, q.target) for q in DOMAINS["forecasting"](str(path))] == [
        ("a", "Why?", "yes"),
        ("b", "How?", "no"),
    ]
    path.write_text("ID,id\n")
    with pytest.raises(BadInput, match="line 1: 'ID' cannot name a column"):
        DOMAINS["forecasting"](str(path))
    with pytest.raises(BadInput, match="no field 'IDD'; did you mean 'id'"):
        DOMAINS["forecasting"](write_rows(tmp_path / "mine.jsonl", {"IDD": "a"}))


@every_domain
def test_an_unknown_source_is_refused(domain: str) -> None:
    with pytest.raises(BadInput, match="Unknown source 'bundlde'; did you mean 'bundled'.*PATH.jsonl"):
        DOMAINS[domain](source="bundlde")
    loader = DOMAINS[domain]
    assert isinstance(loader, Domain)
    for name, source in loader.sources.items():
        if source.live:
            with pytest.raises(BadInput, match=f"truthgym fetch {domain} --source {name} --out {domain}.jsonl"):
                loader(name)


def test_a_research_row_draws_the_order_by_its_id(tmp_path: Path) -> None:
    def drawn(rows: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
        items = [(str(item.id), item.metadata_as(ResearchQuestion)) for item in research(write_rows(path, *rows))]
        return {name: (question.asked, question.first) for name, question in items}

    path = tmp_path / "mine.jsonl"
    rows = [ROWS["research"] | {"id": f"q{i}"} for i in range(400)]
    every = drawn(rows)
    cells = list(every.values())
    assert len(set(cells)) == 4
    assert all(75 <= cells.count(cell) <= 125 for cell in set(cells))
    assert drawn(rows[8::-1]).items() <= every.items(), "neither order nor growth changes it"
