import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.source import bundled_file
from truthgym.datasets.wildchat import WildChatQuestion, wildchat

ROW: dict[str, Any] = {"id": "eggs", "message": "how long do eggs keep", "language": "English", "event": "eggs"}
SCRIPTS = {
    "Chinese": r"[\u4e00-\u9fff]", "Russian": r"[а-яё]", "Arabic": r"[\u0600-\u06ff]", "Hindi": r"[\u0900-\u097f]",
    "Japanese": r"[\u3040-\u30ff]", "Korean": r"[\uac00-\ud7af]",
}  # fmt: skip


def messages() -> list[tuple[str, WildChatQuestion]]:
    return [(str(item.input), item.metadata_as(WildChatQuestion)) for item in wildchat()]


def card() -> dict[str, str]:
    """The table of counts in the data card."""
    text = bundled_file("wildchat").with_suffix(".md").read_text()
    return dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", text.split("## Counts")[1], flags=re.MULTILINE))


def test_the_card_counts_what_is_there() -> None:
    held, written = messages(), card()
    known = [q for _, q in held]
    words = sorted(len(text.split()) for text, q in held if q.language == "English")
    assert int(written["messages"]) == len(held)
    assert int(written["events"]) == len({q.event for q in known})
    assert int(written["languages"]) == len({q.language for q in known})
    splits = Counter(q.split for q in known)
    assert written["train / validation / test"] == f"{splits['train']} / {splits['validation']} / {splits['test']}"
    assert written["words of an English message: fewest, median, most"] == (
        f"{words[0]}, {words[len(words) // 2]}, {words[-1]}"
    )
    for name, count in (Counter(q.language for q in known) + Counter(q.category for q in known)).items():
        assert int(written[str(name)]) == count, name


def test_the_card_shows_a_row_as_it_stands() -> None:
    text = bundled_file("wildchat").with_suffix(".md").read_text()
    shown = json.loads(text.split("```json")[1].split("```")[0])
    assert shown in [json.loads(line) for line in bundled_file("wildchat").read_text().splitlines()]


def test_the_bundled_messages_are_what_they_are_said_to_be() -> None:
    held = messages()
    languages = Counter(q.language for _, q in held)
    assert len(held) >= 48
    assert len(languages) >= 8
    assert 0.4 <= languages["English"] / len(held) <= 0.6
    assert len({q.category for _, q in held}) >= 10
    assert all(4 <= len(text) <= 2000 for text, _ in held)
    assert {len(text) < 50 for text, _ in held} == {len(text) > 600 for text, _ in held} == {True, False}
    assert all(text == text.strip() and "—" not in text for text, _ in held)
    assert all((item.target, item.metadata_as(WildChatQuestion).form) == ("", "free") for item in wildchat())


def test_a_message_is_in_the_language_that_is_given() -> None:
    for text, known in messages():
        found = {language for language, letters in SCRIPTS.items() if re.search(letters, text.lower())}
        # Japanese is written with Chinese characters, too.
        assert found - {"Chinese"} == {known.language} & set(SCRIPTS) - {"Chinese"}, text
        assert ("Chinese" in found) == (known.language in ("Chinese", "Japanese")), text


def test_no_message_is_nearly_another() -> None:
    def pieces(text: str) -> set[str]:
        plain = re.sub(r"\W+", "", text.lower())
        return {plain[i : i + 3] for i in range(len(plain) - 2)}

    held = [(text, pieces(text)) for text, _ in messages()]
    alike = [(a, b) for (a, of_a), (b, of_b) in combinations(held, 2) if len(of_a & of_b) > 0.3 * len(of_a | of_b)]
    assert not alike


def test_no_message_tells_who_wrote_it() -> None:
    for text, _ in messages():
        assert not re.search(r"[\w.]+@[\w.]+\.\w|https?://|www\.|\+?\d[\d ]{7,}\d", text), text


def test_messages_of_any_source_are_filtered(tmp_path: Path) -> None:
    russian = wildchat(language="Russian", min_words=30)
    assert 0 < len(russian) < len(wildchat(language="Russian"))
    assert {item.metadata_as(WildChatQuestion).language for item in russian} == {"Russian"}
    assert russian.dropped["in other languages"] + russian.dropped["with fewer or more words"] == len(wildchat()) - len(
        russian
    )
    mine = write(tmp_path / "mine.jsonl", ROW | {"turns": 3}, ROW | {"id": "hens", "turns": 1}, ROW | {"id": "ducks"})
    asked = wildchat(source=mine, min_turns=2)
    assert [item.id for item in asked] == ["eggs"]
    assert asked.dropped == {"with fewer or more turns": 1, "with no number of turns": 1}


@pytest.mark.parametrize("option", ["shards", "location", "toxic", "langauge"])
def test_options_of_the_real_source_are_refused_for_others(option: str) -> None:
    options: dict[str, Any] = {option: 1}
    with pytest.raises(BadInput, match=f"Unknown option of source=bundled '{option}'"):
        wildchat(**options)


def write(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    row = ROW | {"known_on": "2024-05-01", "model": "gpt-4-0314", "turns": 2, "country": "Chile", "category": "cooking"}
    asked = list(wildchat(source=write(tmp_path / "mine.jsonl", row), known_after="2024-04-30"))
    known = asked[0].metadata_as(WildChatQuestion)
    assert (asked[0].id, asked[0].input, known.turns, known.country) == ("eggs", "how long do eggs keep", 2, "Chile")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"message": " "}, "mine.jsonl line 1: the field `message` must be text in quotes"),
        ({"message": ["hi"]}, "mine.jsonl line 1: the field `message` must be text in quotes"),
        ({"language": None}, "mine.jsonl line 1: the field `language` must be text in quotes"),
        ({"event": 7}, "mine.jsonl line 1: the field `event` must be text in quotes"),
        ({"turns": "many"}, "mine.jsonl line 1, field turns: 'many' cannot be used"),
        ({"known_on": "May"}, "mine.jsonl line 1, field known_on: 'May' cannot be used"),
        ({"mesage": "hi"}, "Unknown field at mine.jsonl line 1: 'mesage'; did you mean 'message'?"),
        ({"proposition": "Eggs keep."}, "Unknown field at mine.jsonl line 1: 'proposition'"),
        ({"split": "train"}, "Unknown field at mine.jsonl line 1: 'split'"),
    ],
)
def test_a_bad_row_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        wildchat(source=write(tmp_path / "mine.jsonl", ROW | change))
    assert said in str(refused.value)


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(BadInput, match="Unknown source 'wildchat1m'; did you mean 'wildchat_1m'"):
        wildchat(source="wildchat1m")
