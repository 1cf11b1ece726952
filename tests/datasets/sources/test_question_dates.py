"""On which day a question is asked, and what a crowd had said by then."""

from datetime import UTC, date, datetime

import pytest

from truthgym.datasets.sources.question_dates import crowd_before, date_at_fraction, has_edit_marker, instant


def at(text: str) -> datetime:
    moment = instant(text)
    assert moment
    return moment


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-10-08 18:38:29+00", datetime(2026, 10, 8, 18, 38, 29, tzinfo=UTC)),
        ("2025-06-19T18:02:51.278733Z", datetime(2025, 6, 19, 18, 2, 51, 278733, tzinfo=UTC)),
        ("2021-12-04T19:35:03.796Z", datetime(2021, 12, 4, 19, 35, 3, 796000, tzinfo=UTC)),
        ("2026-01-01T01:00:00+02:00", datetime(2025, 12, 31, 23, tzinfo=UTC)),
        ("2024-03-01", datetime(2024, 3, 1, tzinfo=UTC)),
        ("soon", None),
        ("0001-01-01T00:00:00+14:00", None),
        (None, None),
    ],
)
def test_moments_are_read_as_platforms_write_them(written: object, read: datetime | None) -> None:
    assert instant(written) == read


def test_the_day_lies_where_the_share_says() -> None:
    assert date_at_fraction(at("2026-01-01"), at("2026-01-11"), 0.5) == date(2026, 1, 6)
    assert date_at_fraction(at("2026-01-01"), at("2026-01-11"), 0.25) == date(2026, 1, 3)


def test_the_crowd_knows_no_more_than_one_who_is_asked() -> None:
    day = date(2026, 1, 6)
    said = [(at("2026-01-06T00:00:00Z"), 0.9), (at("2026-01-05T23:59:59Z"), 0.4), (at("2026-01-02"), 0.1)]
    assert crowd_before(day, said) == 0.4
    assert crowd_before(day, said[:1]) is None
    assert crowd_before(day, said[2:], most_days=3) is None
    assert crowd_before(day, said[2:], most_days=4) == 0.1
    assert crowd_before(day, [(at("2026-01-05"), 0.2), (at("2026-01-05"), 0.4)]) == pytest.approx(0.3)
    assert crowd_before(day, []) is None


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("EDIT: it has happened", True),
        ("The record.\n**Update (Nov 5):** the count is over", True),
        ("Edit 2023-05-01 - the wording", True),
        ("[Admin edit: the day was mended]", True),
        ("  * Edited on 3 May 2021 to make it clearer", True),
        ("Clarification: a tie is a no", True),
        ("Updates will be posted on the page.", False),
        ("This resolves to yes if the article is edited: see below.", False),
        ("The editor of 3 papers", False),
    ],
)
def test_later_additions_are_told_from_words_about_edits(text: str, marked: bool) -> None:
    assert has_edit_marker(text) is marked


def test_a_marker_is_searched_in_linear_time() -> None:
    for text in ("\n" * 100_000, "admin" + "\n" * 100_000, "*" * 100_000):
        assert not has_edit_marker(text)
