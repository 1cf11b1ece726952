import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.datasets.forecasting import BUNDLED, SOURCES, ForecastingQuestion, bundled, forecasting
from truthgym.datasets.loading.row_files import Row
from truthgym.datasets.loading.source import Source

ROW: dict[str, Any] = {
    "id": "rain",
    "question": "Will it rain in Paris on 1 May 2024?",
    "proposition": "It rains in Paris on 1 May 2024.",
    "background": "April was dry.",
    "criteria": "Yes if the station at Montsouris records rain.",
    "opened_on": "2024-04-20",
    "known_on": "2024-05-01",
    "outcome": "yes",
    "event": "paris-may-day",
    "field": "weather",
    "recorded": "Meteo-France, daily record",
}


def card() -> dict[str, str]:
    """The table of counts in the data card."""
    text = BUNDLED.with_suffix(".md").read_text()
    return dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", text.split("## Counts")[1], flags=re.MULTILINE))


def test_the_card_counts_what_is_there() -> None:
    known = [s.metadata_as(ForecastingQuestion) for s in bundled()]
    events = Counter(q.event for q in known)
    fields = Counter(q.field for q in known)
    days = sorted(q.known_on for q in known if q.known_on)
    written = card()
    assert int(written["questions"]) == len(known) == 200
    assert float(written["share of yes"]) == pytest.approx(
        sum(s.target == "yes" for s in bundled()) / len(known), abs=5e-4
    )
    assert int(written["events"]) == len(events)
    assert int(written["events with more than one question"]) == sum(n > 1 for n in events.values())
    assert written["outcome known, first and last"] == f"{days[0]} to {days[-1]}"
    assert int(written["outcome known after 2025-06-01"]) == sum(day.isoformat() > "2025-06-01" for day in days)
    for name, count in fields.items():
        assert int(written[name]) == count, name
    splits = Counter(q.split for q in known)
    assert written["train / validation / test"] == f"{splits['train']} / {splits['validation']} / {splits['test']}"


def test_the_bundled_set_is_what_it_is_said_to_be() -> None:
    known = [s.metadata_as(ForecastingQuestion) for s in bundled()]
    assert sum(s.target == "yes" for s in bundled()) / len(known) == 0.5
    assert len({q.field for q in known}) == 14
    assert all(q.known_on and 2014 <= q.known_on.year <= 2025 and q.opened_on < q.known_on for q in known)
    assert all(q.recorded and q.proposition and q.proposition.endswith(".") for q in known)
    asked = [str(s.input).split("\n")[0] for s in bundled()]
    assert all(text.endswith("?") for text in asked)
    assert not [(a, b) for a in asked for b in asked if a != b and a in b], (
        "found by containment: none may hold another"
    )


def test_what_is_asked_holds_the_wording_and_not_the_record() -> None:
    rows = [json.loads(line) for line in BUNDLED.read_text().splitlines()]
    for row, sample in zip(rows, forecasting(), strict=True):
        asked = str(sample.input)
        assert asked.startswith(row["question"])
        assert all(row[name] in asked for name in ("background", "criteria", "opened_on"))
        assert row["recorded"] not in asked
        assert row["known_on"] not in asked
        assert row["id"] not in asked


def test_known_after_keeps_recent_questions() -> None:
    recent = forecasting(known_after="2025-06-01")
    assert 0 < len(recent) < len(bundled())
    assert all(str(s.metadata_as(ForecastingQuestion).known_on) > "2025-06-01" for s in recent)


def write(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    samples = list(forecasting(source=write(tmp_path / "mine.jsonl", ROW, ROW | {"id": "shine", "outcome": "no"})))
    assert [(s.id, s.target) for s in samples] == [("rain", "yes"), ("shine", "no")]
    assert samples[0].metadata_as(ForecastingQuestion).event == "paris-may-day"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"crowd": 70}, "mine.jsonl line 2, field crowd: 70 is not a probability between 0 and 1; write 0.70"),
        ({"id": "rain"}, "duplicate id 'rain', at questions 1 and 2; rename one of them"),
        ({"proposition": None}, "mine.jsonl line 2: a binary question needs a `proposition`"),
        ({"outcome": "perhaps"}, 'mine.jsonl line 2: the outcome must be "yes" or "no", got \'perhaps\''),
        ({"outcome": True}, "mine.jsonl line 2: the field `outcome` must be text in quotes"),
        ({"question": ""}, "mine.jsonl line 2: the field `question` must be text in quotes"),
        ({"question": None}, "mine.jsonl line 2: the field `question` must be text in quotes"),
        ({"outcome": None}, "mine.jsonl line 2: the field `outcome` must be text in quotes"),
        ({"crowd": "70"}, "mine.jsonl line 2, field crowd: '70' is not a probability between 0 and 1"),
        ({"crowd": True}, "mine.jsonl line 2, field crowd: True is not a probability between 0 and 1"),
        ({"croud": 0.7}, "Unknown field at mine.jsonl line 2: 'croud'; did you mean 'crowd'?"),
        ({"split": "train"}, "Unknown field at mine.jsonl line 2: 'split'"),
        ({"opened_on": "2024-05-02"}, "mine.jsonl line 2: opened_on 2024-05-02 is not before known_on 2024-05-01"),
    ],
)
def test_a_bad_row_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    source = write(tmp_path / "mine.jsonl", ROW, ROW | {"id": "shine"} | change)
    with pytest.raises(BadInput) as refused:
        forecasting(source=source)
    assert said in str(refused.value)


def test_a_missing_field_is_refused(tmp_path: Path) -> None:
    row = {name: value for name, value in ROW.items() if name != "opened_on"}
    with pytest.raises(BadInput, match="mine.jsonl line 1: the field `opened_on` is missing; add it"):
        forecasting(source=write(tmp_path / "mine.jsonl", row))


def test_arguments_are_checked_before_a_download(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*_: Any, **__: Any) -> Iterator[Row]:
        raise AssertionError("downloaded")

    monkeypatch.setitem(SOURCES, "forecastbench", Source(download, "A."))
    with pytest.raises(BadInput, match="Unknown split 'tset'"):
        forecasting(source="forecastbench", split="tset")
    with pytest.raises(BadInput, match="Unknown option of forecastbench 'locatoin'"):
        forecasting(source="forecastbench", locatoin="here")


@pytest.mark.parametrize("source", ["polymarket", "metaculus"])
def test_what_changes_from_day_to_day_is_fetched_first(source: str) -> None:
    with pytest.raises(BadInput, match=f"truthgym fetch forecasting --source {source} --out forecasting.jsonl"):
        forecasting(source=source)


def test_each_source_has_a_card_and_says_whose_it_is() -> None:
    for name, source in SOURCES.items():
        card = (BUNDLED.parent / "sources" / f"{name}.md").read_text()
        headings = re.findall(r"^## (.+)$", card, flags=re.MULTILINE)
        assert headings == re.findall(r"^## (.+)$", BUNDLED.with_suffix(".md").read_text(), flags=re.MULTILINE), name
        assert source.licence.endswith(".")
        for option in source.parameters:
            assert f"`{option}`" in card, (name, option)


def test_a_dataset_can_be_changed_without_changing_the_next() -> None:
    next(iter(forecasting())).input = "changed"
    assert next(iter(forecasting())).input != "changed"


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_bytes(b'{"id": "caf\xe9"}')
    with pytest.raises(BadInput, match="mine.jsonl line 1: not UTF-8"):
        forecasting(source=str(path))


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(BadInput, match="known: bundled, forecastbench, halawi, polymarket, metaculus, PATH.jsonl"):
        forecasting(source="mine.json")
    with pytest.raises(BadInput, match="Unknown source 'forcastbench'; did you mean 'forecastbench'"):
        forecasting(source="forcastbench")


def test_the_bundled_set_asks_the_likely_and_the_unlikely_in_every_field() -> None:
    fields = Counter(s.metadata_as(ForecastingQuestion).field for s in bundled())
    yes = Counter(s.metadata_as(ForecastingQuestion).field for s in bundled() if s.target == "yes")
    assert set(fields.values()) <= {14, 15}
    assert all(abs(yes[field] - number / 2) <= 0.5 for field, number in fields.items())


def test_no_bundled_question_is_another_in_other_words() -> None:
    """No two that do not share an event have more than six in ten of their words in common."""
    held = [(set(re.findall(r"\w{4,}", str(s.input).split("\n")[0].lower())), s) for s in bundled()]
    for k, (words, one) in enumerate(held):
        for others, other in held[:k]:
            if one.metadata_as(ForecastingQuestion).event != other.metadata_as(ForecastingQuestion).event:
                assert len(words & others) <= 0.6 * len(words | others), (one.id, other.id)
