"""The loader on small files of the published shape, read from disk and over HTTP."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.datasets.sources.reading import Counted, read
from tests.fixtures import Answer, Serve, Server
from truthgym.datasets.errors import BadInput
from truthgym.datasets.forecasting import forecasting
from truthgym.datasets.sources import forecastbench
from truthgym.datasets.sources.forecastbench import round_rows

DUE = "2026-05-10"


def asked(
    identity: str | list[str], source: str, question: str, value: str, dates: list[str] | str, closes: str = "N/A"
) -> dict[str, Any]:
    return {
        "id": identity,
        "source": source,
        "question": question,
        "resolution_criteria": "Resolves by the record.",
        "background": "N/A",
        "market_info_close_datetime": closes,
        "market_info_resolution_criteria": "N/A",
        "url": f"https://example.org/{identity}",
        "freeze_datetime": "2026-04-30T00:00:00+00:00",
        "freeze_datetime_value": value,
        "freeze_datetime_value_explanation": "The latest value.",
        "source_intro": "",
        "resolution_dates": dates,
    }


def resolved(identity: str | list[str], source: str, day: str, to: float, done: bool = True) -> dict[str, Any]:
    return {
        "id": identity, "source": source, "direction": None, "resolution_date": day, "resolved_to": to, "resolved": done
    }  # fmt: skip


QUESTIONS = [
    asked("m1", "manifold", "Will the bridge open in 2026?", "0.27", "N/A", "2026-07-01T00:00:00+00:00"),
    asked("m2", "polymarket", "Will the ferry sink?", "0.9", "N/A", "2026-08-01T00:00:00+00:00"),
    asked("m3", "metaculus", "Will it end?", "0.5", "N/A", "2026-07-01T00:00:00+00:00"),
    asked("m4", "manifold", "Will it happen by 2036?", "0.1", "N/A", "2036-01-01T00:00:00+00:00"),
    asked("m5", "manifold", "Will the road close?", "N/A", "N/A", "2026-07-01T00:00:00+00:00"),
    asked("m6", "manifold", "Will it be over soon?", "0.9", "N/A", "2026-07-01T00:00:00+00:00"),
    asked(["m1", "m2"], "manifold", "Both?", "N/A", "N/A"),
    asked(
        "GE",
        "yfinance",
        "Will GE close higher on {resolution_date} than on {forecast_due_date}?\n\nSplits count.",
        "283.57",
        ["2026-05-17", "2026-06-09", "2036-05-07"],
    ),
]
RESOLUTIONS = [
    resolved("m1", "manifold", "2026-06-01", 1.0),
    resolved("m2", "polymarket", "2026-10-02", 0.95, done=False),
    resolved("m3", "metaculus", "2026-06-01", 1.0),
    resolved("m4", "manifold", "2026-06-01", 1.0),
    resolved("m5", "manifold", "2026-06-01", 0.0),
    resolved("GE", "yfinance", "2026-05-17", 0.0),
    resolved("GE", "yfinance", "2026-06-09", 1.0),
    resolved("half", "manifold", "2026-06-09", 0.5),
    resolved("gone", "manifold", "2026-06-09", 1.0),
    resolved("m6", "manifold", "2026-05-04", 1.0),
    resolved(["m1", "m2"], "manifold", "2026-06-09", 1.0),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "question_sets").mkdir()
    (tmp_path / "resolution_sets").mkdir()
    name = f"{DUE}-llm.json"
    head = {"forecast_due_date": DUE, "question_set": name}
    (tmp_path / "question_sets" / name).write_text(json.dumps(head | {"questions": QUESTIONS}))
    resolutions = tmp_path / "resolution_sets" / f"{DUE}_resolution_set.json"
    resolutions.write_text(json.dumps(head | {"resolutions": RESOLUTIONS}))
    return tmp_path


def read_round(location: object) -> Counted:
    return read(lambda skipped, _: round_rows(DUE, skipped, str(location)))


def test_only_what_resolved_to_yes_or_no_is_read(folder: Path) -> None:
    rows, skipped = read_round(folder)
    assert [(row["id"], row["outcome"]) for row in rows] == [
        ("forecastbench-2026-05-10-manifold-m1", "yes"),
        ("forecastbench-2026-05-10-manifold-m5", "no"),
        ("forecastbench-2026-05-10-yfinance-GE-2026-05-17", "no"),
        ("forecastbench-2026-05-10-yfinance-GE-2026-06-09", "yes"),
    ]
    assert skipped == {
        "combinations of questions": 1,
        "not resolved": 1,
        "of Metaculus, whose terms ask for written permission": 1,
        "markets to close after the data end": 1,
        "resolved to something between yes and no": 1,
        "resolved by the day on which they are asked": 1,
        "not in the question set": 1,
    }


def test_markets_have_a_crowd_and_series_a_last_value(folder: Path) -> None:
    market, without_price, series, _ = read_round(folder)[0]
    assert "crowd" not in without_price
    assert market["crowd"] == 0.27
    assert "0.27" not in str(forecasting.parse("here", market).input), "the crowd is a yardstick, not a hint"
    assert (market["opened_on"], market["known_on"]) == (DUE, "2026-06-01")
    assert market["proposition"] == "The answer to this question is yes: Will the bridge open in 2026?"
    assert "background" not in market
    assert (market["field"], market["recorded"]) == ("manifold", "https://example.org/m1")
    assert "crowd" not in series
    asked = str(forecasting.parse("here", series).input)
    assert asked.startswith(
        "Will GE close higher on 2026-05-17 than on 2026-05-10?\n\nSplits count.\n\nBackground: On "
    )
    assert "On 2026-04-30 the value was 283.57. The latest value." in asked
    assert asked.endswith("The question is asked on 2026-05-10.")
    assert "N/A" not in asked
    assert series["proposition"] == (
        "The answer to this question is yes: Will GE close higher on 2026-05-17 than on 2026-05-10?"
    )


def test_dates_of_one_series_are_one_event(folder: Path) -> None:
    events = [row["event"] for row in read_round(folder)[0]]
    assert len(set(events[:3])) == len(set(events)) == 3


def kalshi(party: str, closes: str) -> dict[str, Any]:
    made = asked(f"HOUSEMO5-26-{party}", "kalshi", f"Will {party} win the race for MO-05?", "0.25", "N/A", closes)
    address = "https://kalshi.com/markets/housemo5/x/housemo5-26"
    return made | {"url": address, "market_info_resolution_criteria": "Outcome verified from the Library of Congress."}


def test_every_platform_is_a_market_and_its_price_no_hint(folder: Path) -> None:
    ids = [f"HOUSEMO5-26-{party}" for party in "DR"]
    late = asked("SPACE-40", "kalshi", "Will it fly by 2040?", "0.2", "N/A", "2040-01-01T00:00:00+00:00")
    add(folder, [kalshi("D", "2026-07-01"), kalshi("R", "2026-07-01"), late],
        [*(resolved(identity, "kalshi", "2026-06-03", float(k)) for k, identity in enumerate(ids)),
         resolved("SPACE-40", "kalshi", "2026-06-03", 1.0)])  # fmt: skip
    rows, skipped = read_round(folder)
    assert skipped["markets to close after the data end"] == 2, "of these only those that ended early are seen"
    held = [row for row in rows if row["field"] == "kalshi"]
    assert [(row["outcome"], row["crowd"]) for row in held] == [("no", 0.25), ("yes", 0.25)]
    said = str(forecasting.parse("here", held[0]).input)
    assert "0.25" not in said
    assert "What counts: Resolves by the record.\n\nOutcome verified from the Library of Congress." in said
    assert {row["event"] for row in held} == {"kalshi-housemo5-26"}, "of two candidates one wins"


def test_a_polymarket_event_has_one_name_in_all_sources(folder: Path) -> None:
    made = asked("0x5409", "polymarket", "Will the ferry run?", "0.4", "N/A", "2026-07-01T00:00:00+00:00")
    add(folder, [made | {"url": "https://polymarket.com/market/will-the-ferry-run"}],
        [resolved("0x5409", "polymarket", "2026-06-05", 1.0)])  # fmt: skip
    (row,) = [row for row in read_round(folder)[0] if row["field"] == "polymarket"]
    assert row["event"] == "polymarket-will-the-ferry-run"


def add(folder: Path, questions: list[dict[str, Any]], resolutions: list[dict[str, Any]]) -> None:
    for name, key, more in ((f"question_sets/{DUE}-llm.json", "questions", questions),
                            (f"resolution_sets/{DUE}_resolution_set.json", "resolutions", resolutions)):  # fmt: skip
        held = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(held | {key: held[key] + more}))


def test_rounds_due_before_the_day_are_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecastbench, "ROUNDS", ("2026-04-26", DUE))
    recent = forecasting("forecastbench", known_after="2026-05-01", location=str(folder))
    assert len(recent) == 4
    assert recent.dropped["not resolved"] == 1
    with pytest.raises(BadInput, match="2026-04-26_resolution_set.json cannot be read"):
        forecasting("forecastbench", location=str(folder))


def test_another_shape_is_refused(folder: Path) -> None:
    path = folder / "question_sets" / f"{DUE}-llm.json"
    path.write_text(path.read_text().replace('"freeze_datetime"', '"renamed"'))
    with pytest.raises(BadInput, match="ForecastBench, round 2026-05-10: not in the shape that was published"):
        read_round(folder)


@pytest.fixture
def server(serve: Serve, folder: Path) -> Server:
    return serve(lambda request: (200, {}, (folder / request.path[1:]).read_bytes()))


def test_a_round_is_downloaded_once(server: Server) -> None:
    assert read_round(server.address) == read_round(server.address)
    assert len(server.asked) == 2, "the second reading comes from the cache"


@pytest.mark.parametrize(
    "answer",
    [(200, {"Content-Length": "5000"}, b'{"questions": ['), (200, {}, b"<html>Sign in!</html>"), (404, {}, b"")],
)
def test_a_failed_download_does_not_stay(server: Server, answer: Answer) -> None:
    server.first = [answer]
    if "Content-Length" not in answer[1]:
        with pytest.raises(BadInput, match=f'{server.address}/resolution_sets/{DUE}_.* use source="bundled"'):
            read_round(server.address)
    assert len(read_round(server.address)[0]) == 4


def test_an_excerpt_of_a_real_round_is_read() -> None:
    """Twenty questions of the round of 2026-05-10 as published, all texts replaced: 34 resolutions.

    By hand: one is of Metaculus, two have not resolved, and three markets that resolved close on 2026-12-31, after the
    last day of any market in the excerpt, 2026-08-13. 34 - 1 - 2 - 3 = 28.
    """
    rows, skipped = read_round(Path(__file__).with_name("forecastbench"))
    counts = {"fred": 6, "wikipedia": 6, "yfinance": 6, "dbnomics": 4, "infer": 3, "manifold": 2, "polymarket": 1}
    assert Counter(row["field"] for row in rows) == counts
    assert skipped == {
        "of Metaculus, whose terms ask for written permission": 1,
        "not resolved": 2,
        "markets to close after the data end": 3,
    }
    nikkei = [row for row in rows if row["event"] == "forecastbench-fred-NIKKEI225"]
    assert [(row["known_on"], row["outcome"], row.get("crowd")) for row in nikkei] == [
        ("2026-05-17", "no", None),
        ("2026-06-09", "yes", None),
        ("2026-08-08", "yes", None),
    ]
    assert "On 2026-04-30 the value was 59917.46." in nikkei[0]["background"]
    assert [row["crowd"] for row in rows if row["field"] == "infer"] == [0.1013, 0.1758, 0.314]
    assert all(forecasting.parse(DUE, row).target == row["outcome"] for row in rows)
