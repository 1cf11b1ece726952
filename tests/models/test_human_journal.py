"""The journal: what is kept, that nothing is lost, and what is refused."""

import json
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageUser

from truthgym.datasets.errors import BadInput
from truthgym.models.human import Journal, Reply, default_path, digest
from truthgym.solvers.trajectory import user_message

ASKED = "0123"


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platformdirs, "user_data_path", lambda name: tmp_path / "data" / name)


def text(reply: Reply | None) -> str | None:
    return reply.text if reply else None


def test_role_text_epoch_and_field_identify_a_request() -> None:
    conversations: list[list[ChatMessage]] = [
        [user_message("a", 1)],
        [user_message("a", 2)],
        [ChatMessageUser(content="a")],
        [ChatMessageUser(content="a", metadata={"epoch": 1, "draw": 1})],
        [ChatMessageSystem(content="a")],
        [user_message("a", 1), ChatMessageAssistant(content="b")],
        [user_message("a", 1), user_message("b", 1)],
    ]
    digests = {digest(messages, field) for messages in conversations for field in ("", "reasons")}
    assert len(digests) == 2 * len(conversations)
    assert digest([user_message("a", 1)]) == digest([user_message("a", 1)]), "ids of messages make no difference"


def test_the_last_reply_to_a_request_is_found(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "new folder" / "journal.jsonl"))
    assert journal.find(ASKED) is None
    journal.write(ASKED, "first")
    journal.write("another", "other")
    journal.write(ASKED, "sécond\nline")
    found = Journal(str(journal.path)).find(ASKED)
    assert text(found) == "sécond\nline"
    assert found
    assert len(found.time) == len("2026-01-01 12:00")


def test_a_line_cut_short_by_a_kill_costs_no_other(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "journal"))
    journal.write(ASKED, "kept")
    assert journal.path
    with journal.path.open("a") as file:
        file.write('{"asked": "0123", "ti')
    assert text(journal.find(ASKED)) == "kept"
    journal.write(ASKED, "after")
    assert text(journal.find(ASKED)) == "after"
    assert [json.loads(line)["reply"] for line in journal.path.read_text().splitlines()[::2]] == ["kept", "after"]


def test_only_the_user_can_read_it(tmp_path: Path) -> None:
    Journal().write(ASKED, "private")
    assert default_path() == tmp_path / "data" / "truthgym" / "human" / "terminal.jsonl"
    assert default_path().stat().st_mode & 0o077 == 0


def test_false_keeps_no_journal(tmp_path: Path) -> None:
    journal = Journal(False)
    journal.write(ASKED, "gone")
    assert journal.find(ASKED) is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", [5, None, "", ["a"]])
def test_other_values_are_refused(path: Any) -> None:
    with pytest.raises(BadInput, match="-M journal=.* cannot be used: give the path of a file, or false"):
        Journal(path)


def test_an_unwritable_path_is_refused_before_any_typing(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="it is a folder; name another file with -M journal=PATH"):
        Journal(str(tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be written .*; name another file with -M journal=PATH"):
        Journal(str(tmp_path / "file" / "journal")).find(ASKED)
