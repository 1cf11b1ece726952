import json
import re
from collections import Counter
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.source import bundled_file
from truthgym.datasets.openreview import NOTICE, OpenReviewQuestion, openreview
from truthgym.datasets.sources.openreview_paper import event_of

BUNDLED = bundled_file("openreview")
ROWS: list[dict[str, Any]] = [json.loads(line) for line in BUNDLED.read_text(encoding="utf-8").splitlines()]
CARD = BUNDLED.with_suffix(".md").read_text(encoding="utf-8")
ROW: dict[str, Any] = {
    "id": "sorting",
    "title": "Sorting with Networks",
    "summary": "A small network is trained to sort lists.",
    "venue": "ICLR 2020",
    "decision": "Accept (Poster)",
    "outcome": "yes",
    "opened_on": "2019-09-25",
    "known_on": "2019-12-19",
    "event": "sorting-with-networks",
    "recorded": "https://openreview.net/forum?id=x",
    "reviews": ["It sorts well.", "It sorts slowly."],
}


def test_the_card_counts_what_is_there() -> None:
    written = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", CARD.split("## Counts")[1], flags=re.MULTILINE))
    known = [sample.metadata_as(OpenReviewQuestion) for sample in openreview()]
    words = [len(row["summary"].split()) for row in ROWS]
    days = sorted(row["known_on"] for row in ROWS)
    splits = Counter(question.split for question in known)
    venues = Counter(question.venue for question in known)
    assert int(written["papers"]) == len(known) == len(ROWS) >= 28
    assert float(written["share accepted"]) == sum(row["outcome"] == "yes" for row in ROWS) / len(ROWS)
    assert int(written["events"]) == len({question.event for question in known})
    assert written["words in a summary, fewest and most"] == f"{min(words)} to {max(words)}"
    assert written["decided, first and last"] == f"{days[0]} to {days[-1]}"
    assert written["train / validation / test"] == f"{splits['train']} / {splits['validation']} / {splits['test']}"
    assert {name: int(written[name]) for name in venues} == venues


def test_the_row_in_the_card_stands_in_the_file() -> None:
    assert json.loads(CARD.split("```json")[1].split("```")[0]) in ROWS


def test_what_a_user_is_told_is_in_the_card() -> None:
    flat = " ".join(CARD.split())
    assert f"the {len(ROWS)} bundled papers" in NOTICE
    assert f"the {len(ROWS)} bundled papers" in flat
    assert openreview().notice == NOTICE
    assert all("cannot be told from none" in told for told in (flat, NOTICE))


def test_neither_venue_nor_length_tells_the_outcome() -> None:
    for venue in {row["venue"] for row in ROWS}:
        ends = Counter(row["outcome"] for row in ROWS if row["venue"] == venue)
        assert ends["yes"] == ends["no"]
    means = [
        sum(len(row["summary"].split()) for row in ROWS if row["outcome"] == end) / (len(ROWS) / 2)
        for end in ("yes", "no")
    ]
    assert abs(means[0] - means[1]) < 3


def test_summaries_have_the_form_that_is_asked_of_them() -> None:
    for row in ROWS:
        sentences = re.split(r"(?<=[.?!]) (?=[A-Z])", row["summary"])
        assert 2 <= len(sentences) <= 5, row["id"]
        assert 40 <= len(row["summary"].split()) <= 85, row["id"]
        assert row["summary"].endswith(".")
        assert row["outcome"] == ("yes" if row["decision"].startswith("Accept") else "no")
        assert row["event"] == event_of(row["title"]), "so that a real source puts the paper in the same split"
        assert re.fullmatch(r"\d{4}", row["venue"].removeprefix("ICLR "))
        assert row["opened_on"] < row["known_on"] <= f"{row['venue'].removeprefix('ICLR ')}-12-31"


def test_nothing_that_is_shown_tells_the_decision_or_later_fame() -> None:
    told = re.compile(
        r"\b(accept\w*|reject\w*|poster|oral|spotlight|review\w*|award|famous|popular|influential|widely|seminal|"
        r"became|since then|later|cited|published|conference|workshop)\b",
        re.IGNORECASE,
    )
    assert not [(row["id"], found[0]) for row in ROWS if (found := told.search(f"{row['title']} {row['summary']}"))]


def test_no_two_papers_are_near_copies() -> None:
    assert len({row["title"].casefold() for row in ROWS}) == len(ROWS)
    for number, row in enumerate(ROWS):
        for other in ROWS[:number]:
            likeness = SequenceMatcher(None, row["summary"].split(), other["summary"].split(), autojunk=False).ratio()
            assert likeness < 0.4, (row["id"], other["id"])


def test_what_is_asked_holds_the_paper_and_not_the_record() -> None:
    for row, sample in zip(ROWS, openreview(), strict=True):
        asked = str(sample.input)
        assert all(row[name] in asked for name in ("title", "summary", "venue", "opened_on"))
        assert not [name for name in ("id", "decision", "known_on", "recorded", "event") if row[name] in asked]
        assert sample.target == row["outcome"]
        assert sample.metadata_as(OpenReviewQuestion).proposition == (
            f'The paper "{row["title"]}" was accepted at {row["venue"]}.'
        )


def write(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    least = {name: ROW[name] for name in ("id", "title", "summary", "venue", "decision", "outcome", "recorded")}
    asked = openreview(write(tmp_path / "mine.jsonl", ROW, least | {"id": "least"}))
    full, bare = asked
    assert full.metadata is not None
    assert bare.metadata is not None
    assert full.metadata["evidence"] == ["It sorts well.", "It sorts slowly."]
    assert "It sorts well." not in str(full.input), "a prior never sees the evidence"
    assert (bare.metadata["evidence"], bare.metadata["opened_on"]) == ([], None)
    assert bare.metadata["event"] == event_of(ROW["title"])
    assert "The question is asked on" not in str(bare.input)
    assert asked.notice is None
    assert asked.digest is not None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"outcome": "no"}, "mine.jsonl line 2: the decision 'Accept (Poster)' and the outcome 'no' contradict"),
        ({"outcome": "accepted"}, 'line 2: the outcome must be "yes" or "no", got \'accepted\''),
        ({"outcome": True}, "line 2: the field `outcome` must be text in quotes"),
        ({"title": " "}, "line 2: the field `title` must be text in quotes"),
        ({"summary": None}, "line 2: the field `summary` must be text in quotes"),
        ({"abstract": "It sorts."}, "Unknown field at mine.jsonl line 2: 'abstract'"),
        ({"desision": "Reject"}, "Unknown field at mine.jsonl line 2: 'desision'; did you mean 'decision'?"),
        ({"reviews": "It sorts well."}, "line 2, field reviews: 'It sorts well.' is not a list of texts"),
        ({"reviews": ["It sorts well.", 6]}, "line 2, field reviews: ['It sorts well.', 6] is not a list of texts"),
        ({"known_on": "2019-09-25"}, "line 2: opened_on 2019-09-25 is not before known_on 2019-09-25"),
        ({"known_on": "soon"}, "line 2, field known_on: 'soon' cannot be used"),
        ({"crowd": 70}, "line 2, field crowd: 70 is not a probability between 0 and 1; write 0.70"),
        ({"id": "sorting"}, "duplicate id 'sorting'"),
        ({"proposition": "It was accepted."}, "Unknown field at mine.jsonl line 2: 'proposition'"),
    ],
)
def test_a_bad_row_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    source = write(tmp_path / "mine.jsonl", ROW, ROW | {"id": "other"} | change)
    with pytest.raises(BadInput) as refused:
        openreview(source)
    assert said in str(refused.value)


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(BadInput, match="Unknown source 'reviewbensh'; did you mean 'reviewbench'"):
        openreview("reviewbensh")
