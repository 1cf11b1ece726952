"""The reader of Polymarket on a loopback server that answers in the shape of its two interfaces."""

import json
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from tests.datasets.sources.reading import Counted, read
from tests.fixtures import Answer, Request, Serve
from truthgym.datasets.errors import BadInput
from truthgym.datasets.forecasting import forecasting
from truthgym.datasets.question import split_of
from truthgym.datasets.sources.polymarket import polymarket

YES, NO = "1824040059679406526", "4704484575345002204"


def market(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A market as Gamma lists it: lists are text, numbers are text at times, and times have several forms."""
    return {
        "id": str(253590 + number),
        "question": f"Will bridge {number} open by June 30?",
        "conditionId": "0x064d33e3f5703792aafa92bfb0ee10e08f461b1b34c02c1f02671892ede1609a",
        "slug": f"will-bridge-{number}-open-by-june-30",
        "endDate": "2026-06-30T12:00:00Z",
        "startDate": "2026-06-10T12:00:00.796Z",
        "closedTime": "2026-06-25 18:38:29+00",
        "description": 'This market resolves to "Yes" if the ministry says that the bridge is open.',
        "outcomes": '["Yes", "No"]',
        "outcomePrices": '["1", "0"]',
        "clobTokenIds": json.dumps([f"{YES}{number}", f"{NO}{number}"]),
        "volumeNum": 99000.385,
        "closed": True,
        "umaResolutionStatus": "resolved",
        "events": [{"id": "77", "slug": "which-bridges-open", "title": "Which bridges?", "negRisk": True}],
        "tags": [{"id": "1", "slug": "all", "label": "All"}, {"id": "2", "slug": "world", "label": "World"}],
    } | changes


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


PRICES = [
    {"t": at("2026-06-10T12:00:00"), "p": 0.5},
    {"t": at("2026-06-19T12:00:04"), "p": 0.345},
    {"t": at("2026-06-20T00:00:03"), "p": 0.6},
    {"t": at("2026-06-25T12:00:00"), "p": 0.999},
]
"""Of a market that is asked about on 20 June."""


class Polymarket:
    """Both APIs, two markets to a page."""

    def __init__(self, serve: Serve) -> None:
        self.markets: list[dict[str, Any]] = []
        self.prices: dict[str, Any] = {}
        self.server = serve(self.answer)
        self.addresses = {"gamma": self.server.address, "clob": self.server.address}

    def answer(self, request: Request) -> Answer:
        query = request.query
        if request.path == "/prices-history":
            assert (query["interval"], query["fidelity"]) == ("max", "720")
            return 200, {}, json.dumps(self.prices.get(query["market"], {"history": []})).encode()
        if request.path != "/markets/keyset" or "offset" in query:
            return 422, {}, b'{"type":"validation error","error":"offset is not supported"}'
        listed = [m for m in self.markets if query["end_date_min"] <= str(m["endDate"]) <= query["end_date_max"]]
        begin = int(query.get("after_cursor", "c0")[1:])
        more = {"next_cursor": f"c{begin + 2}"} if begin + 2 < len(listed) else {}
        return 200, {}, json.dumps({"markets": listed[begin : begin + 2]} | more).encode()

    def read(self, *markets: dict[str, Any], **options: Any) -> Counted:
        self.markets = list(markets)
        days: dict[str, Any] = {"ended_from": "2026-06-29", "ended_to": "2026-07-01"}
        return read(polymarket, **days | self.addresses | options)

    def listed(self) -> list[dict[str, str]]:
        return [request.query for request in self.server.asked if request.path == "/markets/keyset"]


@pytest.fixture
def api(serve: Serve) -> Polymarket:
    return Polymarket(serve)


def test_a_market_becomes_a_row_of_forecasting(api: Polymarket) -> None:
    api.prices[f"{YES}1"] = {"history": PRICES}
    row = api.read(market())[0][0]
    assert row == {
        "id": "polymarket-253591",
        "question": "Will bridge 1 open by June 30?",
        "proposition": "The answer to this question is yes: Will bridge 1 open by June 30?",
        "criteria": 'This market resolves to "Yes" if the ministry says that the bridge is open.',
        "opened_on": "2026-06-20",
        "known_on": "2026-06-25",
        "outcome": "yes",
        "event": "polymarket-which-bridges-open",
        "field": "world",
        "recorded": "https://polymarket.com/event/which-bridges-open",
        "crowd": 0.345,
    }
    said = str(forecasting.parse("here", row).input)
    assert said.endswith("The question is asked on 2026-06-20.")
    assert "0.3" not in said
    assert api.listed()[0] == {
        "closed": "true",
        "end_date_min": "2026-06-29T00:00:00Z",
        "end_date_max": "2026-06-30T00:00:00Z",
        "start_date_max": "2026-06-23T00:00:00Z",
        "volume_num_min": "50000",
        "include_tag": "true",
        "limit": "100",
    }


def test_the_day_of_asking_does_not_tell_when_it_was_settled(api: Polymarket) -> None:
    late = "2026-07-02 08:00:00+00"
    for closed, known in (("2026-06-22T00:00:00Z", "2026-06-22"), (late, "2026-06-30")):
        row = api.read(market(closedTime=closed))[0][0]
        assert (row["opened_on"], row["known_on"]) == ("2026-06-20", known)
    assert api.read(market(closedTime="2026-06-20 23:00:00+00")) == (
        [], {"closed by the day on which they are asked about": 1}
    )  # fmt: skip
    assert api.read(market(), asked=0.1)[0][0]["opened_on"] == "2026-06-12"


def test_the_crowd_is_never_a_later_price(api: Polymarket) -> None:
    assert "crowd" not in api.read(market())[0][0], "an empty history"
    api.prices[f"{YES}1"] = {"history": PRICES[2:]}
    assert "crowd" not in api.read(market())[0][0]
    api.prices[f"{YES}1"] = {"history": PRICES[:1] + PRICES[2:]}
    assert "crowd" not in api.read(market())[0][0], "a price of ten days before"
    api.prices[f"{YES}1"] = {"history": PRICES}
    api.server.asked.clear()
    assert "crowd" not in api.read(market(), prices=False)[0][0]
    assert {request.path for request in api.server.asked} == {"/markets/keyset"}


def test_yes_may_stand_second(api: Polymarket) -> None:
    api.prices[f"{NO}1"] = {"history": PRICES}
    turned = market(outcomes='["No", "Yes"]', outcomePrices='["1", "0"]')
    row = api.read(turned)[0][0]
    assert (row["outcome"], row["crowd"]) == ("no", 0.345)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"outcomePrices": '["0", "0"]'}, "voided, split, or not settled"),
        ({"outcomePrices": '["nan", "0"]'}, "voided, split, or not settled"),
        ({"umaResolutionStatus": "disputed"}, "voided, split, or not settled"),
        ({"closed": False}, "voided, split, or not settled"),
        ({"outcomes": '["Packers", "Cowboys"]'}, "with other answers than yes and no"),
        ({"question": None}, "without a text, an id or a time"),
        ({"closedTime": "later"}, "without a text, an id or a time"),
        ({"startDate": "2026-06-24T00:00:00Z"}, "planned for fewer days than asked for"),
        ({"description": "Yes.\n\nUpdate (June 24): it is open."}, "with a later edit marked in their text"),
    ],
)
def test_unusable_questions_are_counted(api: Polymarket, changes: dict[str, Any], why: str) -> None:
    rows, skipped = api.read(market(**changes), market(2))
    assert [row["id"] for row in rows] == ["polymarket-253592"]
    assert skipped == {why: 1}


def test_both_names_of_a_market_are_in_the_same_split(api: Polymarket) -> None:
    """Sets of single markets, as ForecastBench is, know the market's own name, and not that of its event."""
    rows, skipped = api.read(*(
        market(k, slug=f"bridge-{k}", events=[{"slug": f"bridges-{k % 10}"}]) for k in range(60)
    ))  # fmt: skip
    kept = {int(row["id"].removeprefix("polymarket-")) - 253590: row["event"] for row in rows}
    for k in range(60):
        mine, events = (split_of(f"polymarket-{name}") == "test" for name in (f"bridge-{k}", f"bridges-{k % 10}"))
        assert (k in kept) == (mine == events)
        assert k not in kept or kept[k] == f"polymarket-bridges-{k % 10}"
    assert skipped == {"in the test split by their own name or their event's, and not by both": 60 - len(kept)}
    assert 30 < len(kept) < 60


@pytest.mark.parametrize("changes", [{"endDate": 7}, {"outcomePrices": "[[1], 2]"}, {"outcomes": "[" * 9999}])
def test_bad_fields_are_left_out(api: Polymarket, changes: dict[str, Any]) -> None:
    assert api.read(market(**changes))[0] == []


def test_legacy_markets_have_no_status_and_some_have_no_event(api: Polymarket) -> None:
    row = api.read(market(umaResolutionStatus=None, events=None, tags=None, description=None, category="Sports"))[0][0]
    assert row["event"] == "polymarket-will-bridge-1-open-by-june-30"
    assert row["criteria"] == "The platform that asked the question decides."
    assert row["field"] == "sports"


def test_pages_are_turned_and_midnight_belongs_to_one_day(api: Polymarket) -> None:
    ends = ["2026-06-29T00:00:00Z", "2026-06-30T00:00:00Z", "2026-06-30T23:59:00Z", "2026-07-01T00:00:00Z"] * 2
    markets = [market(k, endDate=end, closedTime=end, events=[]) for k, end in enumerate(ends)]
    rows = api.read(*markets)[0]
    assert sorted(row["id"] for row in rows) == [f"polymarket-{253590 + k}" for k in range(8)]
    assert any("after_cursor" in query for query in api.listed())


def test_markets_that_end_later_are_not_requested(api: Polymarket) -> None:
    api.read(market(), ended_from=None, ended_to=None)
    ends = [query["end_date_min"][:10] for query in api.listed()]
    today = datetime.now(UTC).date()
    assert (ends[0], ends[-1]) == (str(today - timedelta(days=97)), str(today - timedelta(days=7)))
    api.server.asked.clear()
    api.read(market(), ended_from=None, known_after=date(2026, 6, 30))
    assert [query["end_date_min"][:10] for query in api.listed()] == ["2026-06-30", "2026-07-01"]


def test_known_after_goes_by_the_day_of_asking(api: Polymarket) -> None:
    assert len(api.read(market(), known_after=date(2026, 6, 20))[0]) == 1
    assert api.read(market(), known_after=date(2026, 6, 21)) == ([], {"asked before 2026-06-21": 1})


def test_a_share_of_the_events_is_of_every_split(api: Polymarket) -> None:
    markets = [market(k, slug=f"event-{k // 2}", events=[{"slug": f"event-{k // 2}"}]) for k in range(400)]
    rows, skipped = api.read(*markets, share=0.3, prices=False)
    events = Counter(row["event"] for row in rows)
    assert set(events.values()) == {2}
    assert 40 <= len(events) <= 80
    assert skipped == {"of events that are not read": 400 - len(rows)}
    splits = Counter(split_of(event) for event in events)
    assert all(splits[split] >= 5 for split in ("train", "validation", "test"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ended_to": "2099-01-01"}, "no market ended from 2026-06-29 to 2099-01-01"),
        ({"ended_from": "2026-07-02"}, "no market ended from 2026-07-02 to 2026-07-01"),
        ({"ended_from": "June"}, "ended_from='June' is not a day"),
        ({"asked": 1}, "asked=1"),
    ],
)
def test_bad_options_are_refused_before_anything_is_asked(api: Polymarket, options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        api.read(market(), **options)
    assert said in str(refused.value)
    assert not api.server.asked


@pytest.mark.parametrize("answer", [{"prices": []}, {"history": [{"t": "soon", "p": 1}]}])
def test_other_prices_are_one_error(api: Polymarket, answer: Any) -> None:
    api.prices[f"{YES}1"] = answer
    with pytest.raises(BadInput, match="expected a list of objects under 'history'|is not a time and a price"):
        api.read(market())
