import re
from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest

from tests.fixtures import bundled_rows, second_reading
from truthgym.datasets.errors import BadInput
from truthgym.datasets.forecasting import SOURCES, ForecastingQuestion, forecasting
from truthgym.datasets.loading.domain import Source, bundled_file
from truthgym.datasets.loading.row_files import Row
from truthgym.datasets.question import split_of
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.scorers.statistics.wording_leak import wording_leak

ROWS = bundled_rows("forecasting")
READINGS = second_reading("forecasting")
"""What a reader who saw no outcomes wrote: a probability for the day of the question, and then the outcome."""

EVENTS = list(forecasting(part="events"))


def test_the_bundled_set_is_what_it_is_said_to_be() -> None:
    known = [s.metadata_as(ForecastingQuestion) for s in EVENTS]
    assert abs(sum(s.target == "yes" for s in EVENTS) / len(known) - 0.5) < 0.02
    assert len({q.field for q in known}) == 14
    assert all(
        q.known_on and q.opened_on and 2014 <= q.known_on.year <= 2025 and q.opened_on < q.known_on for q in known
    )
    assert all(q.recorded and q.proposition and q.proposition.endswith(".") for q in known)
    asked = [str(s.input).split("\n")[0] for s in EVENTS]
    assert all(text.endswith("?") for text in asked)
    assert not [(a, b) for a in asked for b in asked if a != b and a in b], (
        "found by containment: none may hold another"
    )
    fields = Counter(s.metadata_as(ForecastingQuestion).field for s in EVENTS)
    yes = Counter(s.metadata_as(ForecastingQuestion).field for s in EVENTS if s.target == "yes")
    assert set(fields.values()) <= {26, 27}
    assert all(0.4 < yes[field] / number < 0.65 for field, number in fields.items())


def test_arguments_are_checked_before_a_download(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*_: Any, **__: Any) -> Iterator[Row]:
        raise AssertionError("downloaded")

    monkeypatch.setitem(SOURCES, "forecastbench", Source(download, "A."))
    with pytest.raises(BadInput, match="Unknown split 'tset'"):
        forecasting(source="forecastbench", split="tset")
    with pytest.raises(BadInput, match="Unknown option of forecastbench 'locatoin'"):
        forecasting(source="forecastbench", locatoin="here")


def test_each_source_has_a_card_and_says_whose_it_is() -> None:
    for name, source in SOURCES.items():
        card = (bundled_file("forecasting").parent / "sources" / f"{name}.md").read_text()
        headings = re.findall(r"^## (.+)$", card, flags=re.MULTILINE)
        assert headings == re.findall(
            r"^## (.+)$", bundled_file("forecasting").with_suffix(".md").read_text(), flags=re.MULTILINE
        ), name
        assert source.licence.endswith(".")
        for option in source.parameters:
            assert f"`{option}`" in card, (name, option)


def test_questions_that_show_who_won_an_election_share_its_event() -> None:
    shows = {"clinton-wins-us-presidency-2016", "trump-removed-by-senate-2020", "trump-kim-meeting-june-2018"}
    assert {row["event"] for row in ROWS if row["id"] in shows} == {"us-presidency-2016"}


@pytest.mark.parametrize(
    ("fields", "rows"),
    [(["criteria"], ROWS[:150]), (["question"], ROWS[200:]), (["question", "background", "criteria"], ROWS)],
    ids=["the first 150 criteria", "the later 168 questions", "all that is shown"],
)
def test_the_wording_does_not_tell_outcomes(fields: list[str], rows: list[dict[str, Any]]) -> None:
    """Before they were reworded, in November 2026, the first 150 criteria did: AUC 0.70 by words, 0.75 by style."""
    texts = [" ".join(row[name] for name in fields) for row in rows]
    leaks = wording_leak(texts, [row["outcome"] == "yes" for row in rows], [row["event"] for row in rows])
    assert not {name: leak for name, leak in leaks.items() if leak.found}


def test_a_reader_who_saw_no_outcomes_has_the_same_ones() -> None:
    assert {name: reading["outcome"] for name, reading in READINGS.items()} == {r["id"]: r["outcome"] for r in ROWS}
    assert min(reading["sure"] for reading in READINGS.values()) >= 0.9


SERIES = bundled_rows("forecasting_series")
SERIES_CARD = bundled_file("forecasting_series").with_suffix(".md").read_text(encoding="utf-8")
OUTCOMES = np.array([row["outcome"] == "yes" for row in SERIES], dtype=float)
MARKETS = ("share prices", "economic series", "temperatures")
SERIES_EVENTS = [row["event"] for row in SERIES]
BY_DAY = [f"{row['field']} {row['opened_on']}" for row in SERIES]


def test_days_are_in_order_and_no_later_value_is_shown() -> None:
    for row in SERIES:
        asked, resolved = date.fromisoformat(row["opened_on"]), date.fromisoformat(row["known_on"])
        assert (resolved - asked).days in (7, 30, 90), row["id"]
        assert "2026-03-01" <= row["opened_on"] < row["known_on"] < "2026-09-01"
        shown = re.findall(r"\d{4}-\d\d-\d\d", row["background"])
        assert shown, row["id"]
        assert all(day < row["opened_on"] for day in shown), row["id"]
        assert row["known_on"] in row["question"]
        assert row["known_on"] in row["proposition"]
        assert not re.search(r"\d{4}", row["criteria"])


def test_series_of_a_family_share_an_event_between_two_days() -> None:
    """Of 284 rows 12 are on a disease or a record, which are events of their own."""
    series = [
        row["recorded"].partition("https")[2].partition(", value")[0] for row in SERIES if row["field"] in MARKETS
    ]
    assert len(set(series)) == len(series)
    for row in SERIES:
        alone = row["field"] in ("vaccines", "swimming records")
        assert row["event"].endswith(f" {row['opened_on']} to {row['known_on']}") != alone, row["id"]
    of = {row["recorded"].partition("/series/")[2].partition(",")[0]: row["event"] for row in SERIES}
    assert of["DGS10"] == of["DFII5"] == of["T10YFF"] == of["BAMLC0A0CMEY"] == "yields 2026-06-21 to 2026-07-21"
    assert f"| events | {len(set(SERIES_EVENTS))} |" in SERIES_CARD
    split = Counter(split_of(event) for event in SERIES_EVENTS)
    assert f"| train / validation / test | {split['train']} / {split['validation']} / {split['test']} |" in SERIES_CARD


def test_the_baseline_is_the_share_of_yes_among_those_already_resolved() -> None:
    """Those whose later day was more than two weeks ago, by when all series are published."""
    for row in SERIES:
        before = str(date.fromisoformat(row["opened_on"]) - timedelta(days=14))
        past = [r["outcome"] == "yes" for r in SERIES if r["field"] == row["field"] and r["known_on"] < before]
        assert row["crowd"] == pytest.approx((1 + sum(past)) / (2 + len(past)), abs=5e-4), row["id"]


def test_the_card_has_the_scores_of_the_baselines() -> None:
    """A uniform answer's expected score is the integral of (p - y)^2: one third whatever happens."""
    crowd = np.array([row["crowd"] for row in SERIES])
    share = mean_estimate(OUTCOMES, SERIES_EVENTS)
    baseline = mean_estimate((crowd - OUTCOMES) ** 2, SERIES_EVENTS)
    for name, figure in (("share of yes", share), ("of `crowd`", baseline)):
        assert f"| {name} | {figure.estimate:.3f} | {figure.lower:.3f} to {figure.upper:.3f} |" in SERIES_CARD
    hindsight = float(np.mean((OUTCOMES.mean() - OUTCOMES) ** 2))
    assert f"| of the share of yes, known in hindsight | {hindsight:.3f} | |" in SERIES_CARD
    assert "| of a uniform random answer, expected | 0.333 | |" in SERIES_CARD
    wider = mean_estimate(OUTCOMES, BY_DAY).stderr / share.stderr
    assert f"{wider:.1f} times as large" in SERIES_CARD


@pytest.mark.parametrize("kind", ["share prices", "economic series", "temperatures"])
def test_wording_does_not_tell_the_outcome_within_a_kind(kind: str) -> None:
    """Between kinds it does: their base rates differ. Chess rankings have 18 events, too few to tell."""
    mine = [row for row in SERIES if row["field"] == kind]
    outcomes = [row["outcome"] == "yes" for row in mine]
    events = [row["event"] for row in mine]
    texts = [" ".join(row[n] for n in ("question", "background", "criteria")) for row in mine]
    shown, criteria = (wording_leak(part, outcomes, events) for part in (texts, [row["criteria"] for row in mine]))
    assert not [name for name, leak in (*shown.items(), *criteria.items()) if leak.found]
    line = " | ".join(f"{shown[name].auc:.2f} ({shown[name].upper:.2f})" for name in ("words", "style"))
    assert f"| {kind} | {line} |" in SERIES_CARD


def test_parts_are_chosen_by_name() -> None:
    series, events = forecasting(), forecasting(part="events")
    assert [s.id for s in series] == [row["id"] for row in SERIES] == [s.id for s in forecasting(part="series")]
    assert [s.id for s in forecasting(part="all")] == [*(s.id for s in series), *(s.id for s in events)]
    for questions, selected in ((series, False), (events, True)):
        assert {s.metadata_as(ForecastingQuestion).selected_by_outcome for s in questions} == {selected}
        assert questions.notice
        assert questions.notice in str(forecasting(part="all").notice)
    with pytest.raises(BadInput, match="Unknown part 'event'; did you mean 'events'"):
        forecasting(part="event")
    with pytest.raises(BadInput, match="part=events is for bundled questions .*source=halawi; omit it"):
        forecasting("halawi", part="events")
