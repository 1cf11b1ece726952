import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.fixtures import card_line, second_reading
from truthgym.datasets.errors import BadInput
from truthgym.datasets.forecasting import BUNDLED, SOURCES, ForecastingQuestion, forecasting
from truthgym.datasets.loading.domain import Source
from truthgym.datasets.loading.row_files import Row
from truthgym.scorers.statistics.wording_leak import wording_leak

ROWS: list[dict[str, Any]] = [json.loads(line) for line in BUNDLED.read_text(encoding="utf-8").splitlines()]
READINGS = second_reading("forecasting")
"""What a reader who saw no outcomes wrote: a probability for the day of the question, and then the outcome."""
EXPECTED = (
    np.array([READINGS[row["id"]]["probability"] for row in ROWS]),
    np.array([float(row["outcome"] == "yes") for row in ROWS]),
)

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
        card = (BUNDLED.parent / "sources" / f"{name}.md").read_text()
        headings = re.findall(r"^## (.+)$", card, flags=re.MULTILINE)
        assert headings == re.findall(r"^## (.+)$", BUNDLED.with_suffix(".md").read_text(), flags=re.MULTILINE), name
        assert source.licence.endswith(".")
        for option in source.parameters:
            assert f"`{option}`" in card, (name, option)


def test_a_dataset_can_be_changed_without_changing_the_next() -> None:
    next(iter(forecasting())).input = "changed"
    assert next(iter(forecasting())).input != "changed"


def test_questions_that_show_who_won_an_election_share_its_event() -> None:
    shows = {"clinton-wins-us-presidency-2016", "trump-removed-by-senate-2020", "trump-kim-meeting-june-2018"}
    assert {row["event"] for row in ROWS if row["id"] in shows} == {"us-presidency-2016"}


def test_outcomes_are_balanced_in_every_field() -> None:
    fields = Counter(s.metadata_as(ForecastingQuestion).field for s in EVENTS)
    yes = Counter(s.metadata_as(ForecastingQuestion).field for s in EVENTS if s.target == "yes")
    assert set(fields.values()) <= {26, 27}
    assert all(0.4 < yes[field] / number < 0.65 for field, number in fields.items())


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        (["criteria"], ROWS),
        (["criteria"], ROWS[:150]),
        (["question"], ROWS),
        (["question"], ROWS[200:]),
        (["question", "background", "criteria"], ROWS),
    ],
    ids=["criteria", "the first 150 criteria", "questions", "the later 168 questions", "all that is shown"],
)
def test_the_wording_does_not_tell_outcomes(fields: list[str], rows: list[dict[str, Any]]) -> None:
    """Before they were reworded, in November 2026, the first 150 criteria did: AUC 0.70 by words, 0.75 by style."""
    texts = [" ".join(row[name] for name in fields) for row in rows]
    leaks = wording_leak(texts, [row["outcome"] == "yes" for row in rows], [row["event"] for row in rows])
    assert not {name: leak for name, leak in leaks.items() if leak.found}


def test_criteria_have_no_clause_for_one_outcome() -> None:
    one_sided = re.compile(
        r"otherwise|counts? as no|even if|whatever|any (kind|terms|price|form)|do(es)? not matter|not enough", re.I
    )
    assert not [row["id"] for row in ROWS if one_sided.search(row["criteria"])]


def test_a_reader_who_saw_no_outcomes_has_the_same_ones() -> None:
    assert {name: reading["outcome"] for name, reading in READINGS.items()} == {r["id"]: r["outcome"] for r in ROWS}
    assert min(reading["sure"] for reading in READINGS.values()) >= 0.9


def test_the_reader_is_calibrated_only_on_all_questions() -> None:
    p, y = EXPECTED
    z = np.sum((y - p) * (1 - 2 * p)) / np.sqrt(np.sum((1 - 2 * p) ** 2 * p * (1 - p)))
    assert abs(z) < 1.96, "Spiegelhalter's test of the Brier score against its value if p were true"
    wins = (p[y == 1][:, None] > p[y == 0]) + 0.5 * (p[y == 1][:, None] == p[y == 0])
    favourite = np.where(p >= 0.5, y, 1 - y)
    figures = [np.mean((p - y) ** 2), np.mean(p * (1 - p)), wins.mean(), favourite.mean(), np.maximum(p, 1 - p).mean()]
    card = card_line("forecasting")
    said = (
        "a Brier score of {:.3f} ({:.3f} if it is right about itself), an AUC of {:.2f}, and its favourite came true "
    )
    assert said.format(*figures) + "in {:.0%} of questions ({:.0%} expected)".format(*figures[3:]) in card
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        of = (p >= low) & ((p < low + 0.2) | (low == 0.8))
        spread = np.sqrt(np.sum(p[of] * (1 - p[of]))) / of.sum()
        assert abs(y[of].mean() - p[of].mean()) < 1.96 * spread, low
        assert f"| {low:.1f} to {low + 0.2:.1f} | {of.sum()} | {p[of].mean():.2f} | {y[of].mean():.2f} |" in card


def test_neither_half_is_calibrated_and_the_card_says_so() -> None:
    card, excess = card_line("forecasting"), []
    for name, half in (("first 200", slice(200)), ("later 168", slice(200, None))):
        p, y = (values[half] for values in EXPECTED)
        brier, expected = np.mean((p - y) ** 2), np.mean(p * (1 - p))
        favourite = np.where(p >= 0.5, y, 1 - y).mean()
        row = f"| {name} | {np.maximum(p, 1 - p).mean():.2f} | {favourite:.3f} | {brier:.3f} | {expected:.3f} |"
        assert row in card
        excess.append(brier - expected)
    assert excess[0] > 0.02, "chosen for surprise"
    assert excess[1] < -0.02, "chosen because the favourite won"
    low, high = y[p < 0.4], y[p > 0.6]
    assert not low.any()
    assert high.all()
    assert f"all {low.size} stated below 0.4 have the outcome no and all {high.size} stated above 0.6 yes" in card
