"""The form of every bundled set: a card that says what is there, no doubles, balance, lengths, plain text.

What is asked of one domain alone stands in that domain's own test.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import date
from itertools import combinations
from typing import Any

import pytest
from inspect_ai.dataset import Sample

from tests.fixtures import bundled_rows
from truthgym.datasets.domains import BUNDLED, DOMAINS, GENERATED
from truthgym.datasets.domains import bundled as bundled_questions
from truthgym.datasets.forecasting import forecasting
from truthgym.datasets.loading.domain import bundled_file
from truthgym.datasets.question import Question

HEADINGS = ["What is asked", "Source and licence", "How it was made", "Counts", "How truth is known", "Known faults",
            "Contamination"]  # fmt: skip
SIZES = {
    "forecasting": (350, 30, 150),
    "forecasting_series": (200, 45, 110),
    "research": (120, 8, 120),
    "openreview": (24, 40, 250),
    "cmv_binary": (40, 30, 400),
    "cmv_freeform": (120, 40, 150),
    "conceptual": (60, 25, 120),
    "intellectual": (54, 15, 80),
    "wildchat": (130, 1, 400),
}
"""The least number of rows, and the fewest and most words of the question as it is asked, without evidence."""
KINDS = {
    "forecasting": "field",
    "forecasting_series": "field",
    "research": "science",
    "openreview": "venue",
    "wildchat": "language",
    "intellectual": "kind",
}
"""The field by whose values a card counts; `topic` in the others."""
PROMPTS = {
    "forecasting": (["question", "background", "criteria", "opened_on"], ["recorded", "known_on"]),
    "research": (["question"], ["reason", "recorded"]),
    "openreview": (["title", "summary", "venue", "opened_on"], ["decision", "known_on", "recorded", "event"]),
    "cmv_binary": (["view", "post"], []),
}
"""Fields that the question shows, and fields that it does not."""


def span(values: Iterable[Any]) -> str:
    first, *_, last = sorted(values)
    return f"{first} to {last}"


day = date.fromisoformat


def length(text: str) -> int:
    return len(text.split())


COUNTS: dict[str, Callable[[list[dict[str, Any]]], dict[str, object]]] = {
    "forecasting": lambda rows: {
        "events with more than one question": sum(n > 1 for n in Counter(row["event"] for row in rows).values()),
        "outcome known, first and last": span(row["known_on"] for row in rows),
        "outcome known after 2025-06-01": sum(row["known_on"] > "2025-06-01" for row in rows),
    },
    "forecasting_series": lambda rows: {
        "asked, first and last": span(row["opened_on"] for row in rows),
        "outcome known, first and last": span(row["known_on"] for row in rows),
        "resolved after 7 / 30 / 90 days": " / ".join(
            str(sum((day(row["known_on"]) - day(row["opened_on"])).days == n for row in rows)) for n in (7, 30, 90)
        ),
    },
    "research": lambda rows: {
        "share with the right answer first": sum(row["first"] == "hard" for row in rows) / len(rows),
        "words in a question, fewest and most": span(len(re.findall(r"[\w'-]+", row["question"])) for row in rows),
        "right answer longer, in characters": sum(len(row["hard"]) > len(row["easy"]) for row in rows),
        "wrong answer longer, in characters": sum(len(row["hard"]) < len(row["easy"]) for row in rows),
    },
    "openreview": lambda rows: {
        "words in a summary, fewest and most": span(length(row["summary"]) for row in rows),
        "decided, first and last": span(row["known_on"] for row in rows),
    },
    "cmv_binary": lambda rows: {
        "texts in an exchange, fewest and most": span(len(row["exchange"]) for row in rows),
        "words in an exchange, fewest and most": span(length(" ".join(row["exchange"])) for row in rows),
        "exchanges in which the author speaks": sum(
            "Author" in {t.split(":")[0] for t in row["exchange"]} for row in rows
        ),
    },
    "cmv_freeform": lambda rows: {
        "views in opposed pairs": 2 * (len(rows) - len({row["event"] for row in rows})),
        "words of a post, fewest and most": span(length(row["post"]) for row in rows),
    },
    "conceptual": lambda rows: {
        "statements with can, could, may, might, some or in part": len(
            [row for row in rows if re.search(r"\b(can|could|may|might|some|in part)\b", row["proposition"], re.I)]
        )
    },
    "intellectual": lambda rows: {
        "claims that can be checked": sum("claim" in row for row in rows),
        "of these, true": sum(row.get("claim_holds") == "yes" for row in rows),
    },
    "wildchat": lambda rows: {
        "follow-ups": sum("earlier" in row for row in rows),
        "languages": len({row["language"] for row in rows}),
        "words of an English message: fewest, median, most": "{}, {}, {}".format(
            *(words := sorted(length(row["message"]) for row in rows if row["language"] == "English"))[:1],
            words[len(words) // 2],
            words[-1],
        ),
        **Counter(row["category"] for row in rows),
    },
}
"""Further counts of a card."""


def bundled(name: str) -> list[Sample]:
    """The questions of a bundled file. Two of them are parts of forecasting."""
    parts = {"forecasting": "events", "forecasting_series": "series"}
    return list(forecasting(part=parts[name])) if name in parts else bundled_questions(name)


every_domain = pytest.mark.parametrize("domain", SIZES)


def card(domain: str) -> str:
    return bundled_file(domain).with_suffix(".md").read_text(encoding="utf-8")


def known(domain: str) -> list[Question]:
    return [item.metadata_as(Question) for item in bundled(domain)]


def asked(domain: str) -> list[str]:
    return [str(item.input) for item in bundled(domain)]


def test_each_domain_is_bundled_or_generated() -> None:
    assert set(SIZES) == {*BUNDLED, "forecasting_series"}
    assert set(DOMAINS) == {*BUNDLED, *GENERATED}


@every_domain
def test_the_card_says_what_is_there(domain: str) -> None:
    text = card(domain)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    shown = re.search(r"```json\n(.*?)```", text, re.DOTALL)
    assert shown
    assert json.loads(shown[1]) in bundled_rows(domain), "the row shown stands in the file"
    counts = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", text.split("## Counts")[1], re.MULTILINE))
    split = Counter(question.split for question in known(domain))
    assert int(list(counts.values())[1]) == len(bundled_rows(domain)) >= SIZES[domain][0], (
        "the first row below the heads"
    )
    assert int(counts["events"]) == len({question.event for question in known(domain)})
    assert counts["train / validation / test"] == f"{split['train']} / {split['validation']} / {split['test']}"
    for kind, number in Counter(row[KINDS.get(domain, "topic")] for row in bundled_rows(domain)).items():
        assert int(counts[kind]) == number, kind
    for name, value in COUNTS[domain](bundled_rows(domain)).items() if domain in COUNTS else ():
        assert counts[name] == str(value), name
    if any(item.target for item in bundled(domain)):
        share = sum(item.target == "yes" for item in bundled(domain)) / len(bundled(domain))
        written = next(value for name, value in counts.items() if name.startswith("share "))
        assert float(written) == pytest.approx(share, abs=5e-4)


@every_domain
def test_yes_is_right_as_often_as_no(domain: str) -> None:
    targets = Counter(item.target for item in bundled(domain))
    if targets[""]:
        assert set(targets) == {""}, "no truth is known of any"
    else:
        assert 0.44 <= targets["yes"] / targets.total() <= 0.56


@every_domain
def test_propositions_are_statements(domain: str) -> None:
    said = [question.proposition for question in known(domain)]
    if domain in ("intellectual", "wildchat"):
        assert set(said) == {None}
        return
    texts = [text for text in said if text]
    assert len(set(texts)) == len(bundled_rows(domain))
    assert not [text for text in texts if not re.fullmatch(r"[\"'A-Z0-9].*[.!?]?[\"']?\.", text, re.DOTALL)]
    assert not [text for text in texts if text.endswith("?.")]


@every_domain
def test_questions_are_neither_short_nor_long(domain: str) -> None:
    _, least, most = SIZES[domain]
    lengths = {item.id: len(str(item.input).split()) for item in bundled(domain)}
    assert not {name: length for name, length in lengths.items() if not least <= length <= most}
    assert max(lengths.values()) > 1.3 * min(lengths.values()), "varied"


@pytest.mark.parametrize("domain", [name for name in SIZES if name != "forecasting_series"])
def test_no_two_questions_are_near_copies(domain: str) -> None:
    texts = {str(item.id): shingles(item) for item in bundled(domain)}
    near = [(a, b) for a, b in combinations(texts, 2) if len(texts[a] & texts[b]) > 0.35 * len(texts[a] | texts[b])]
    assert not near


def shingles(item: Sample) -> set[str]:
    """Three words in a row of what is asked, after the frame that all questions of a domain share."""
    words = re.findall(r"\w+", str(item.input).casefold())
    return {" ".join(words[i : i + 3]) for i in range(max(1, len(words) - 2))}


def test_agents_find_each_question_by_its_text() -> None:
    texts = [text for domain in SIZES for text in asked(domain)]
    assert len(set(texts)) == len(texts)
    assert not [(a, b) for a, b in combinations(sorted(texts, key=len), 2) if a in b]


@every_domain
def test_ids_are_stable_names_and_are_not_shown(domain: str) -> None:
    names = [row["id"] for row in bundled_rows(domain)]
    assert not [name for name in names if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)]
    assert not [name for name, text in zip(names, asked(domain), strict=True) if name in text]


@pytest.mark.parametrize("domain", PROMPTS)
def test_the_prompt_has_the_question_and_not_the_record(domain: str) -> None:
    shown, hidden = PROMPTS[domain]
    for row, text in zip(bundled_rows(domain), asked(domain), strict=True):
        assert not [name for name in shown if row[name] not in text], row["id"]
        assert not [name for name in hidden if str(row[name]) in text], row["id"]
        assert not [piece for piece in row.get("exchange", []) if piece[:40] in text], row["id"]


@every_domain
def test_the_file_is_plain(domain: str) -> None:
    text = bundled_file(domain).read_text(encoding="utf-8")
    assert text.endswith("\n")
    assert "\\u" not in text, "written as it is read"
    assert not re.findall(r"[\u200b-\u200f\u202a-\u202e\ufeff\xa0]", text), "nothing invisible"
    assert not re.findall(r"\b(?:As an AI|Lorem ipsum|TODO|XXX)\b", text)
