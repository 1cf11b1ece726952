import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.datasets.forecasting import BUNDLED, SOURCES, ForecastingQuestion, forecasting
from truthgym.datasets.loading.row_files import Row
from truthgym.datasets.loading.source import Source

EVENTS = list(forecasting(part="events"))


def test_the_bundled_set_is_what_it_is_said_to_be() -> None:
    known = [s.metadata_as(ForecastingQuestion) for s in EVENTS]
    assert sum(s.target == "yes" for s in EVENTS) / len(known) == 0.5
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


def test_the_prompt_has_the_wording_and_not_the_record() -> None:
    rows = [json.loads(line) for line in BUNDLED.read_text().splitlines()]
    for row, sample in zip(rows, EVENTS, strict=True):
        asked = str(sample.input)
        assert asked.startswith(row["question"])
        assert all(row[name] in asked for name in ("background", "criteria", "opened_on"))
        assert row["recorded"] not in asked
        assert row["known_on"] not in asked
        assert row["id"] not in asked


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


def test_outcomes_are_balanced_in_every_field() -> None:
    fields = Counter(s.metadata_as(ForecastingQuestion).field for s in EVENTS)
    yes = Counter(s.metadata_as(ForecastingQuestion).field for s in EVENTS if s.target == "yes")
    assert set(fields.values()) <= {14, 15}
    assert all(abs(yes[field] - number / 2) <= 0.5 for field, number in fields.items())
