"""The journal: what is kept, that nothing is lost, and what is refused."""

import json
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageUser

from truthgym.datasets.errors import BadInput
from truthgym.models.terminal.journal import Earlier, Journal, default_path, digest
from truthgym.solvers.trajectory import user_message

ASKED = "0123"


def test_who_said_what_in_which_epoch_tells_requests_apart() -> None:
    conversations: list[list[ChatMessage]] = [
        [user_message("a", 1)],
        [user_message("a", 2)],
        [ChatMessageUser(content="a")],
        [ChatMessageSystem(content="a")],
        [user_message("a", 1), ChatMessageAssistant(content="b")],
        [user_message("a", 1), user_message("b", 1)],
    ]
    assert len({digest(messages) for messages in conversations}) == len(conversations)
    assert digest([user_message("a", 1)]) == digest([user_message("a", 1)]), "ids of messages make no difference"


def test_the_last_reply_is_found_and_a_draft_after_it(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "new folder" / "journal.jsonl"))
    assert journal.earlier(ASKED) == Earlier()
    journal.keep(ASKED, reply="first")
    journal.keep("another", reply="other")
    journal.keep(ASKED, reply="sécond\nline")
    found = Journal(str(journal.path)).earlier(ASKED)
    assert (found.reply, found.draft) == ("sécond\nline", "")
    assert len(found.replied) == len("2026-01-01 12:00")
    journal.keep(ASKED, draft="a new thou")
    assert journal.earlier(ASKED).draft == "a new thou"
    assert journal.earlier(ASKED).reply == "sécond\nline"
    journal.keep(ASKED, reply="a new thought")
    assert journal.earlier(ASKED).draft == ""


def test_a_line_cut_off_by_a_kill_costs_no_other(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "journal"))
    journal.keep(ASKED, reply="kept")
    assert journal.path
    with journal.path.open("a") as file:
        file.write('{"asked": "0123", "ti')
    assert journal.earlier(ASKED).reply == "kept"
    journal.keep(ASKED, reply="after")
    assert journal.earlier(ASKED).reply == "after"
    assert [json.loads(line)["reply"] for line in journal.path.read_text().splitlines()[::2]] == ["kept", "after"]


@pytest.fixture(autouse=True)
def of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platformdirs, "user_data_path", lambda name: tmp_path / "data" / name)


def test_it_is_the_users_alone(tmp_path: Path) -> None:
    Journal().keep(ASKED, reply="private")
    assert default_path() == tmp_path / "data" / "truthgym" / "human" / "terminal.jsonl"
    assert default_path().stat().st_mode & 0o077 == 0


def test_none_is_written_where_none_is_wanted(tmp_path: Path) -> None:
    journal = Journal(False)
    journal.keep(ASKED, reply="gone")
    assert journal.earlier(ASKED) == Earlier()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("given", [5, None, "", ["a"]])
def test_what_is_no_path_is_refused(given: Any) -> None:
    with pytest.raises(BadInput, match="cannot be used: give the path of a file, or false for no journal"):
        Journal(given)


def test_a_path_that_cannot_be_written_is_refused_before_anything_is_typed(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="it is a folder; name another file with -M journal=PATH"):
        Journal(str(tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be written .*; name another file with -M journal=PATH"):
        Journal(str(tmp_path / "file" / "journal")).earlier(ASKED)
