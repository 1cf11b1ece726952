"""What made the questions on public series: our own words, and no look at outcomes."""

import json
from typing import Any

from studies.bundles.public_series import rows


def fact(**fields: Any) -> dict[str, Any]:
    return {
        "source": "yfinance",
        "series": "ABC",
        "url": "https://example.org/ABC",
        "asked_as": "Shall it rise?",
        "background": "Abc Company, together with its friends, makes letters.",
        "value_is": "The latest price.",
        "asked_on": "2026-05-10",
        "value": "1234.50",
        "value_on": "2026-04-30",
        "resolves_on": "2026-06-09",
        "outcome": 1,
    } | fields


def test_rows_are_made_of_facts_in_our_own_words() -> None:
    """Of one series a single question is drawn; the earlier value of the other one stands in its background."""
    old = fact(asked_on="2026-04-12", value="1000.0", value_on="2026-04-02", resolves_on="2026-04-19", outcome=0)
    other = fact(series="XYZ", resolves_on="2026-05-17", outcome=0)
    rate = fact(source="fred", series="DGS10", value="4.63", value_is="The latest value released in Market Yield.")
    made = {row["id"].split("-")[2]: row for row in rows([old, fact(), other, rate])}
    assert sorted(made) == ["abc", "dgs10", "xyz"]
    abc = made["abc"]
    assert "Abc Company (ABC)" in abc["question"]
    assert ("Before: 1000 as of 2026-04-02." in abc["background"]) == (abc["opened_on"] == "2026-05-10")
    assert made["dgs10"]["outcome"] == "yes"
    text = json.dumps(list(made.values()))
    assert not [words for words in ("together with", "Shall it rise", "latest", "letters") if words in text]


def test_neither_the_draw_nor_the_words_depend_on_outcomes() -> None:
    facts = [fact(series=f"S{k}", resolves_on="2026-05-17", outcome=k % 2) for k in range(200)]
    turned = [one | {"outcome": 1 - one["outcome"]} for one in facts]
    assert [r | {"outcome": ""} for r in rows(facts)] == [r | {"outcome": ""} for r in rows(turned)]
    assert len(rows(facts)) == 99
