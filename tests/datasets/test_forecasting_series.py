"""The questions on public series: facts in our own words, nothing from after the day of the question, no leak."""

import json
import re
from collections import Counter
from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest

from truthgym.datasets.errors import BadInput
from truthgym.datasets.forecasting import ForecastingQuestion, forecasting
from truthgym.datasets.loading.domain import bundled_file
from truthgym.datasets.question import split_of
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.scorers.statistics.wording_leak import wording_leak

FILE = bundled_file("forecasting_series")
ROWS: list[dict[str, Any]] = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
CARD = FILE.with_suffix(".md").read_text(encoding="utf-8")
OUTCOMES = np.array([row["outcome"] == "yes" for row in ROWS], dtype=float)
MARKETS = ("share prices", "economic series", "temperatures")
EVENTS = [row["event"] for row in ROWS]
BY_DAY = [f"{row['field']} {row['opened_on']}" for row in ROWS]


def test_days_are_in_order_and_no_later_value_is_shown() -> None:
    for row in ROWS:
        asked, resolved = date.fromisoformat(row["opened_on"]), date.fromisoformat(row["known_on"])
        assert (resolved - asked).days in (7, 30, 90), row["id"]
        assert "2026-03-01" <= row["opened_on"] < row["known_on"] < "2026-09-01"
        shown = re.findall(r"\d{4}-\d\d-\d\d", row["background"])
        assert shown, row["id"]
        assert all(day < row["opened_on"] for day in shown), row["id"]
        assert row["known_on"] in row["question"]
        assert row["known_on"] in row["proposition"]
        assert not re.search(r"\d{4}", row["criteria"])


def test_each_outcome_says_where_and_when_it_is_recorded() -> None:
    for row in ROWS:
        where, url, value, record = re.split(", (?=http|value|Fore)|; ", row["recorded"])
        assert where in ("Yahoo Finance", "FRED", "DBnomics", "Wikipedia")
        assert re.fullmatch(r"https://\S+", url)
        assert value == f"value of {row['known_on']}"
        assert record == f"ForecastBench, resolution set of {row['opened_on']}"


def test_series_of_a_family_share_an_event_between_two_days() -> None:
    """Of 284 rows 12 are on a disease or a record, which are events of their own."""
    series = [row["recorded"].partition("https")[2].partition(", value")[0] for row in ROWS if row["field"] in MARKETS]
    assert len(set(series)) == len(series)
    for row in ROWS:
        alone = row["field"] in ("vaccines", "swimming records")
        assert row["event"].endswith(f" {row['opened_on']} to {row['known_on']}") != alone, row["id"]
    of = {row["recorded"].partition("/series/")[2].partition(",")[0]: row["event"] for row in ROWS}
    assert of["DGS10"] == of["DFII5"] == of["T10YFF"] == of["BAMLC0A0CMEY"] == "yields 2026-06-21 to 2026-07-21"
    assert f"| events | {len(set(EVENTS))} |" in CARD
    split = Counter(split_of(event) for event in EVENTS)
    assert f"| train / validation / test | {split['train']} / {split['validation']} / {split['test']} |" in CARD


def test_series_that_are_published_late_are_left_out() -> None:
    """FRED publishes these weekly values once a month or 12 days later, and Marignane's stood still."""
    ids = {row["id"] for row in ROWS}
    assert not [one for one in ids if re.search("wrmfns|wm2ns|cc4wsa|07650", one)]


def test_a_player_who_left_the_ranking_has_fallen() -> None:
    criteria = {row["criteria"] for row in ROWS if row["field"] == "chess rankings"}
    assert len(criteria) == 2
    assert all(re.search("no longer in the table has fallen|has left the table", text) for text in criteria)


def test_the_baseline_is_the_share_of_yes_among_those_already_resolved() -> None:
    """Those whose later day was more than two weeks ago, by when all series are published."""
    for row in ROWS:
        before = str(date.fromisoformat(row["opened_on"]) - timedelta(days=14))
        past = [r["outcome"] == "yes" for r in ROWS if r["field"] == row["field"] and r["known_on"] < before]
        assert row["crowd"] == pytest.approx((1 + sum(past)) / (2 + len(past)), abs=5e-4), row["id"]


def test_the_card_has_the_scores_of_the_baselines() -> None:
    """A uniform answer's expected score is the integral of (p - y)^2: one third whatever happens."""
    crowd = np.array([row["crowd"] for row in ROWS])
    share = mean_estimate(OUTCOMES, EVENTS)
    baseline = mean_estimate((crowd - OUTCOMES) ** 2, EVENTS)
    for name, found in (("share of yes", share), ("of `crowd`", baseline)):
        assert f"| {name} | {found.estimate:.3f} | {found.lower:.3f} to {found.upper:.3f} |" in CARD
    hindsight = float(np.mean((OUTCOMES.mean() - OUTCOMES) ** 2))
    assert f"| of the share of yes, known in hindsight | {hindsight:.3f} | |" in CARD
    assert "| of a uniform random answer, expected | 0.333 | |" in CARD
    wider = mean_estimate(OUTCOMES, BY_DAY).stderr / share.stderr
    assert f"{wider:.1f} times as large" in CARD


@pytest.mark.parametrize("kind", ["share prices", "economic series", "temperatures"])
def test_wording_does_not_tell_the_outcome_within_a_kind(kind: str) -> None:
    """Between kinds it does: their base rates differ. Chess rankings have 18 events, too few to tell."""
    mine = [row for row in ROWS if row["field"] == kind]
    outcomes = [row["outcome"] == "yes" for row in mine]
    events = [row["event"] for row in mine]
    texts = [" ".join(row[n] for n in ("question", "background", "criteria")) for row in mine]
    shown, criteria = (wording_leak(one, outcomes, events) for one in (texts, [row["criteria"] for row in mine]))
    assert not [name for name, leak in (*shown.items(), *criteria.items()) if leak.found]
    line = " | ".join(f"{shown[name].auc:.2f} ({shown[name].upper:.2f})" for name in ("words", "style"))
    assert f"| {kind} | {line} |" in CARD


def test_wordings_take_turns() -> None:
    for kind, number in Counter(row["field"] for row in ROWS).items():
        criteria = Counter(row["criteria"] for row in ROWS if row["field"] == kind)
        assert max(criteria.values()) < 0.75 * number or number < 30, kind


def test_parts_are_chosen_by_name() -> None:
    series, events = forecasting(), forecasting(part="events")
    assert [s.id for s in series] == [row["id"] for row in ROWS] == [s.id for s in forecasting(part="series")]
    assert [s.id for s in forecasting(part="all")] == [*(s.id for s in series), *(s.id for s in events)]
    for questions, selected in ((series, False), (events, True)):
        assert {s.metadata_as(ForecastingQuestion).selected_by_outcome for s in questions} == {selected}
        assert questions.notice
        assert questions.notice in str(forecasting(part="all").notice)
    with pytest.raises(BadInput, match="Unknown part 'event'; did you mean 'events'"):
        forecasting(part="event")
    with pytest.raises(BadInput, match="part=events is for bundled questions .*source=halawi; omit it"):
        forecasting("halawi", part="events")
