import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import write_rows
from truthgym.datasets.errors import BadInput
from truthgym.datasets.wildchat import WildChatQuestion, wildchat

ROW: dict[str, Any] = {"id": "eggs", "message": "how long do eggs keep", "language": "English", "event": "eggs"}
SCRIPTS = {
    "Chinese": r"[\u4e00-\u9fff]", "Russian": r"[а-яё]", "Arabic": r"[\u0600-\u06ff]", "Hindi": r"[\u0900-\u097f]",
    "Japanese": r"[\u3040-\u30ff]", "Korean": r"[\uac00-\ud7af]",
}  # fmt: skip


def messages() -> list[tuple[str, WildChatQuestion]]:
    return [(str(item.input), item.metadata_as(WildChatQuestion)) for item in wildchat()]


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


def test_a_message_is_in_the_language_that_is_given_and_tells_not_who_wrote_it() -> None:
    for text, known in messages():
        found = {language for language, letters in SCRIPTS.items() if re.search(letters, text.lower())}
        # Japanese is written with Chinese characters, too.
        assert found - {"Chinese"} == {known.language} & set(SCRIPTS) - {"Chinese"}, text
        assert ("Chinese" in found) == (known.language in ("Chinese", "Japanese")), text
    for text, _ in messages():
        assert not re.search(r"[\w.]+@[A-Za-z][\w.]*\.\w|https?://|www\.|\+?\d[\d ]{7,}\d", text), text


def test_a_follow_up_is_shown_with_what_was_said_before(tmp_path: Path) -> None:
    earlier = ["how long do eggs keep", "About four weeks in the fridge."]
    mine = write_rows(tmp_path / "mine.jsonl", ROW | {"message": "and boiled?", "earlier": earlier, "turns": 2})
    (asked,) = wildchat(source=mine)
    talk = "Person: how long do eggs keep\n\nAssistant: About four weeks in the fridge.\n\nPerson: and boiled?\n\n"
    assert talk in str(asked.input)
    assert asked.metadata_as(WildChatQuestion).earlier == tuple(earlier)
    assert wildchat(source=mine, max_words=2).dropped == {}, "the words of the last message count"
    with pytest.raises(BadInput, match="Unknown option of source=bundled 'shards'"):
        wildchat(shards=1)
    with pytest.raises(BadInput, match=r"line 1: `earlier` holds 1 texts; end it with the assistant's last reply"):
        wildchat(source=write_rows(tmp_path / "odd.jsonl", ROW | {"earlier": earlier[:1]}))


def test_bundled_follow_ups_say_how_often_the_person_wrote() -> None:
    turns = [(q.turns, len(q.earlier) // 2 + 1) for _, q in messages() if q.earlier]
    assert len(turns) >= 20
    assert all(said == written for said, written in turns)
    assert {item.id for item in wildchat(min_turns=2)} == {
        item.id for item in wildchat() if item.metadata and item.metadata["earlier"]
    }


def test_messages_of_any_source_are_filtered(tmp_path: Path) -> None:
    russian = wildchat(language="Russian", min_words=30)
    assert 0 < len(russian) < len(wildchat(language="Russian"))
    assert {item.metadata_as(WildChatQuestion).language for item in russian} == {"Russian"}
    assert russian.dropped["in other languages"] + russian.dropped["with fewer or more words"] == len(wildchat()) - len(
        russian
    )
    mine = write_rows(
        tmp_path / "mine.jsonl", ROW | {"turns": 3}, ROW | {"id": "hens", "turns": 1}, ROW | {"id": "ducks"}
    )
    asked = wildchat(source=mine, min_turns=2)
    assert [item.id for item in asked] == ["eggs"]
    assert asked.dropped == {"with fewer or more turns": 1, "with no number of turns": 1}
