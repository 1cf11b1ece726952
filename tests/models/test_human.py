"""A person as a model, who types through prompt_toolkit's pipe input."""

import asyncio
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import anyio
import platformdirs
import pytest
from inspect_ai import score
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    ContentImage,
    ContentText,
    ResponseSchema,
    get_model,
)
from inspect_ai.tool import ToolCall, ToolInfo
from inspect_ai.util import json_schema
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from pydantic import BaseModel, Field
from rich.console import Console

from tests.fixtures import Run, details, metrics, number, samples, score_of, task_of
from truthgym.datasets.errors import BadInput
from truthgym.datasets.urns import urns
from truthgym.models.human import FormField, HumanAPI, Journal, Reply, default_path, digest, form_fields
from truthgym.models.terminal import prompt, screen
from truthgym.models.terminal.screen import show
from truthgym.scorers.brier import brier
from truthgym.scorers.judges import asking
from truthgym.scorers.judges.asking import Answer, Form, ReasonedForm, form_instruction, rating_field
from truthgym.scorers.martingale import martingale
from truthgym.scorers.qualitative import qualitative
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.direct import direct
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


class Fields(ReasonedForm):
    originality: int = rating_field("how new")
    stated: bool = Field(description="whether a chance is stated")
    side: Literal["For", "against"]
    probability: int | None = rating_field("the chance, if it is stated")
    share: float = Field(ge=0, le=1)


class Nested(Form):
    reasons: str
    steps: list[str]


def schema(form: type[BaseModel]) -> ResponseSchema:
    return ResponseSchema(name="form", json_schema=json_schema(form), strict=True)


def field(name: str) -> FormField:
    return next(field for field in form_fields(schema(Fields)) or [] if field.name == name)


def test_the_fields_are_those_of_the_judge_form() -> None:
    fields = form_fields(schema(Fields)) or []
    assert [(f.name, f.hint) for f in fields] == [
        ("reasons", "a text"),
        ("originality", "a whole number from 0 to 100"),
        ("stated", "yes or no"),
        ("side", "one of For, against"),
        ("probability", "a whole number from 0 to 100, or none"),
        ("share", "a number from 0 to 1"),
    ]
    assert fields[1].schema["description"].endswith("how new")
    assert [f.multiline for f in fields] == [True, False, False, False, False, False]


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("reasons", "so\nand so", "so\nand so"),
        ("reasons", "none", "none"),
        ("originality", " 70 ", 70),
        ("stated", "Yes", True),
        ("stated", "n", False),
        ("side", "AGAINST", "against"),
        ("probability", "None", None),
        ("share", ".25", 0.25),
    ],
)
def test_typed_text_is_parsed(name: str, typed: str, value: object) -> None:
    parsed = field(name).parse(typed)
    assert parsed == value
    assert isinstance(parsed, bool) == isinstance(value, bool)


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("reasons", " \n"),
        ("originality", "101"),
        ("originality", "70 %"),
        ("originality", "7.5"),
        ("originality", "none"),
        ("stated", "1"),
        ("side", "both"),
        ("probability", "high"),
        ("share", "nan"),
    ],
)
def test_text_that_does_not_fit_is_refused_with_a_hint(name: str, typed: str) -> None:
    with pytest.raises(ValueError, match=name) as error:
        field(name).parse(typed)
    assert repr(typed.strip()) in str(error.value)
    assert f"type {field(name).hint}" in str(error.value)


def test_a_form_with_lists_is_typed_as_json() -> None:
    assert form_fields(schema(Nested)) is None
    assert form_fields(None) is None


BELIEF = r"\finalBeliefProb{0.7}"


class Person:
    """Types through prompt_toolkit's pipe input, and records what is printed."""

    def __init__(self, send: Callable[[str], None], printed: io.StringIO) -> None:
        self.type = send
        self._printed = printed

    @property
    def shown(self) -> str:
        return self._printed.getvalue()

    def reply(self, *texts: str) -> None:
        for text in texts:
            self.type(f"{text}\n/send\n")


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> Iterator[Person]:
    printed = io.StringIO()
    with create_pipe_input() as keyboard:
        monkeypatch.setattr(prompt, "devices", lambda: (keyboard, DummyOutput()))
        monkeypatch.setattr(screen, "stream", lambda: printed)
        yield Person(keyboard.send_text, printed)


def the_model(journal: object = False) -> Any:
    return get_model("human/terminal", memoize=False, journal=journal)


def ask(*messages: ChatMessage, journal: object = False, **arguments: Any) -> Any:
    return asyncio.run(the_model(journal).generate(list(messages), **arguments))


def test_a_reply_may_have_several_lines(person: Person) -> None:
    person.type("first\x7fT\n\n   [bold]second[/bold] ÄÖ日本\n/sned\nlast  \n\n/send\n")
    output = ask(user_message("Why?", 3))
    assert output.completion == "firsT\n\n   [bold]second[/bold] ÄÖ日本\n/sned\nlast"
    assert (output.stop_reason, output.model) == ("stop", "human/terminal")
    assert output.usage.total_tokens == 0
    assert output.time > 0


def test_the_question_is_printed_verbatim(person: Person) -> None:
    person.reply("yes")
    tool = ToolInfo(name="search", description="Search.")
    system = ChatMessageSystem(content="Be [red]brief[/red].")
    ask(system, user_message("**Why** [/] # not?\n  - a\x1b]0;title\x07", 3), tools=[tool])
    for part in ("New conversation, epoch 3", "System\nBe [red]brief[/red].", "User\n**Why** [/] # not?\n  - a�]0;"):
        assert part in person.shown
    assert "A model could call tools here (search); a person cannot." in person.shown
    assert "role" not in person.shown


@pytest.mark.parametrize("keys", ["/send\n \n\x04right\n\x04", "\x04right\n/send\n"])
def test_an_empty_reply_is_not_sent(person: Person, keys: str) -> None:
    person.type(keys)
    assert ask(user_message("Why?", 1)).completion.strip() == "right"


def test_all_shows_the_conversation_again(person: Person) -> None:
    person.type("typed\n/all\nand more\n/send\n")
    assert ask(user_message("Why is that?", 1)).completion == "typed\nand more"
    assert person.shown.count("Why is that?") == 2


def test_the_reply_can_be_written_in_an_editor(person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "and edited" >> "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    person.type("typed\n\x18\x05")

    async def wait_and_send() -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(send)
            return await the_model().generate([user_message("Why?", 1)])

    async def send() -> None:
        await anyio.sleep(1)
        person.type("\n/send\n")

    assert asyncio.run(wait_and_send()).completion == "typed\nand edited"


def test_messages_of_every_kind_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    messages: list[ChatMessage] = [
        ChatMessageAssistant(content="", tool_calls=[ToolCall(id="1", function="f", arguments={"x": 1})]),
        ChatMessageTool(content="2", function="f"),
        ChatMessageUser(content=[ContentImage(image="i.png"), ContentText(text="See.")]),
    ]
    show(Console(), messages)
    shown = capsys.readouterr().out
    for part in ("[calls the tool f({'x': 1})]", "Tool f\n2", "User\nSee.\n[image, which cannot be shown here]"):
        assert part in shown


def test_pasted_text_contains_no_commands(person: Person) -> None:
    long = "word " * 1000 + "end"
    person.type(f"{long}\n\x1b[200~/stop\n// a comment\n\x1b[201~/send\n")
    assert ask(user_message("Why?", 1)).completion == f"{long}\n/stop\n// a comment"


@pytest.mark.parametrize("keys", ["half\n/stop\n", "half\x03"])
def test_stop_ends_the_eval(person: Person, keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended(Exception):
        pass

    async def end() -> None:
        raise Ended

    monkeypatch.setattr("truthgym.models.human.end_eval", end)
    person.type(keys)
    with pytest.raises(Ended):
        ask(user_message("Why?", 1))


def test_a_skipped_question_is_left_without_a_score(person: Person, run: Run) -> None:
    person.type("never mind\n/skip\n")
    person.reply(BELIEF)
    log = run(task_of(urns(n=2), direct(), brier()), the_model())
    assert metrics(log, 0)["share_scored"] == 0.5
    (skipped,) = [s for s in samples(log) if s.output.stop_reason == "content_filter"]
    details = skipped.output.choices[0].stop_details
    assert details
    assert (details.type, details.explanation) == ("skipped", "The person skipped this question.")
    assert skipped.output.completion == ""


def test_an_earlier_reply_is_shown_and_kept_or_changed(person: Person, tmp_path: Path) -> None:
    journal, question = str(tmp_path / "journal"), user_message("Why?", 1)
    for keys, expected in (("because", "because"), ("", "because"), (" [so]", "because [so]")):
        person.reply(keys)
        assert ask(question, journal=journal).completion == expected
    assert len(re.findall(r"You replied to this on 20..-..-.. ..:..:", person.shown)) == 2
    person.reply("another epoch")
    assert ask(user_message("Why?", 2), journal=journal).completion == "another epoch"


def test_piped_replies_are_read_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.write(write, "öne\n//two\n/send\n/skip\nthe last\n/send\n".encode())
    os.close(write)
    monkeypatch.setattr(sys, "__stdin__", os.fdopen(read))
    assert ask(user_message("Why?", 1)).completion == "öne\n//two"
    assert ask(user_message("Why?", 1)).stop_reason == "content_filter"
    assert ask(user_message("Why?", 1)).completion == "the last"
    with pytest.raises(BadInput, match="standard input has nothing more to read; run Inspect in a terminal"):
        ask(user_message("Why?", 1))
    monkeypatch.setattr(sys, "__stdin__", None)
    with pytest.raises(BadInput, match="needs a person at a terminal"):
        ask(user_message("Why?", 1))


@pytest.mark.parametrize(
    ("model", "arguments", "refused"),
    [
        ("human/termnal", {}, "'termnal'; did you mean 'terminal'"),
        ("human/terminal", {"jornal": 1}, "'jornal'; did you mean 'journal'"),
        ("human/terminal", {"journal": 1}, "journal=1 cannot be used"),
    ],
)
def test_unknown_names_and_arguments_are_refused(model: str, arguments: dict[str, Any], refused: str) -> None:
    with pytest.raises(BadInput, match=re.escape(refused)):
        get_model(model, memoize=False, **arguments)


def test_one_person_answers_one_request_at_a_time() -> None:
    assert HumanAPI("terminal", journal=False).max_connections() == 1


# A form, field by field.


class Judgement(ReasonedForm):
    originality: int = rating_field("how new it is")
    stated: bool
    probability: int | None = rating_field("the chance, where it is stated")


GOOD = Judgement(reasons="It is [new]\nÄ {brace}", originality=70, stated=True, probability=None)
KEYS = "It is [new]\nÄ {brace}\n\x04170\n\x7f\x7f\x7f70\nYes\nnone\n"


def judge(epoch: int = 1, journal: object = False) -> Answer[Judgement]:
    text = f"Judge this.\n\n{form_instruction(Judgement)}"
    return asyncio.run(asking.ask(the_model(journal), text, Judgement, epoch=epoch, name="it", cache=False))


def test_a_form_is_filled_in_field_by_field(person: Person) -> None:
    person.type(f"{KEYS}\n")
    answer = judge()
    assert answer.form == GOOD
    assert answer.raw == json.dumps(GOOD.model_dump(), ensure_ascii=False)
    parts = (
        "Judge this.",
        "reasons (1 of 4)",
        "how new it is",
        "Type a whole number from 0 to 100.",
        "Type yes or no.",
    )
    assert all(part in person.shown for part in parts)
    assert "reasons: It is [new]\nÄ {brace}\noriginality: 70\nstated: yes\nprobability: none\nSend this" in person.shown


def test_no_at_the_end_goes_through_the_form_again(person: Person) -> None:
    person.type(f"{KEYS}\x7f\x7f\x7fno\n\n\x04\x7f\x7f42\n\n\n\n")
    form = judge().form
    assert form == GOOD.model_copy(update={"originality": 42})


def test_a_skipped_form_is_not_an_answer_and_says_why(person: Person) -> None:
    person.type("something\n\x04/skip\n")
    answer = judge()
    assert (answer.form, answer.raw) == (None, None)
    assert "The person skipped this question." in (answer.reason or "")


def test_fields_that_were_sent_are_in_the_journal(person: Person, tmp_path: Path) -> None:
    journal = str(tmp_path / "journal")
    person.type("because\n\x0442\n/skip\n")
    assert judge(journal=journal).form is None
    person.type("\n\x04\nno\n5\n\n")
    form = judge(journal=journal).form
    assert form == Judgement(reasons="because", originality=42, stated=False, probability=5)
    person.type("/skip\n")
    assert judge(journal=journal, epoch=2).form is None


# Many questions.


def test_one_sample_at_a_time_keeps_a_conversation_together(person: Person, run: Run) -> None:
    person.reply(*(f"reply {i} {BELIEF}" for i in range(12)))
    log = run(task_of(urns(n=2), chain_of_thought(2), brier(), epochs=2), the_model(), max_samples=1)
    titles = re.findall(r"─ (New conversation|The conversation continues)", person.shown)
    assert titles == ["New conversation", "The conversation continues", "The conversation continues"] * 4
    assert person.shown.count("Step 1 of 2") == 4, "only what is new is shown"
    for sample in samples(log):
        replies = [int(m.text.split()[1]) for m in sample.messages if m.role == "assistant"]
        assert replies == list(range(replies[0], replies[0] + 3))


def test_samples_that_run_at_once_get_one_request_each_in_turn(person: Person, run: Run) -> None:
    person.reply(*[BELIEF] * 6)
    log = run(task_of(urns(n=3), direct(), brier(), epochs=2), the_model(), max_samples=6)
    assert all(sample.scores and score_of(sample, "brier").value for sample in samples(log))


def test_a_judge_is_told_its_role(person: Person, run: Run) -> None:
    person.reply(*["41"] * 6)
    log = run(task_of(urns(n=3), direct(), martingale(elicitor="judge")), model_roles={"judge": the_model()})
    assert person.shown.count("you answer as judge") == person.shown.count("Your reply, as judge") == 6
    assert '"value":0.41' in samples(log)[0].model_dump_json()


def test_two_people_judge_copies_of_a_log(person: Person, run: Run, tmp_path: Path) -> None:
    log = run(task_of(urns(n=1), direct(), brier()))
    for name, reply in (("ann", "41"), ("ben", "59")):
        person.reply(reply, reply)
        judge = {"judge": the_model(str(tmp_path / name))}
        (copy,) = score(log, martingale(elicitor="judge"), model_roles=judge, display="log").samples or []
        assert [number(copy, "martingale", key) for key in ("prior", "posterior")] == [int(reply) / 100] * 2
    assert "You replied to this" not in person.shown, "each journal is one person's"


def test_a_person_and_a_model_judge_together(person: Person, run: Run) -> None:
    person.type(("So.\n\x04" + "80\n" * 4 + "\n") * 2)
    task = task_of(urns(n=2), direct(), qualitative(few_shot="disabled", probes="none", figures="all"))
    log = run(task, model_roles={"judge": [the_model(), get_model("reference/judge", noise=0.1)]})
    for sample in samples(log):
        records = details(sample, "qualitative")["judges"]
        assert [record["judge"] for record in records] == ["human/terminal", "reference/judge"]
        assert records[0]["ratings"] == [[[80] * 4]]
    assert log.results
    assert "agreement" in log.results.scores[0].metrics


def test_a_time_limit_counts_while_the_person_thinks(person: Person, run: Run) -> None:
    log = run(task_of(urns(n=2), direct(), brier()), the_model(), max_samples=1, time_limit=1)
    assert [sample.limit.type for sample in samples(log) if sample.limit] == ["time"] * 2
    assert person.shown.count("New conversation") == 2
    person.reply("in time")
    assert ask(user_message("Why?", 1)).completion == "in time"
