"""A person as a model: through a real terminal, from the first question to the log."""

import asyncio
import codecs
import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import EvalLog, list_eval_logs, read_eval_log
from inspect_ai.model import ChatMessage, ChatMessageSystem, GenerateConfig, ResponseSchema, get_model
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolInfo
from inspect_ai.util import json_schema
from rich.console import Console

from tests.fixtures import Run
from truthgym.datasets.errors import BadInput
from truthgym.datasets.urns import urns
from truthgym.models.human import HumanAPI
from truthgym.models.terminal import request_queue as human_desk
from truthgym.models.terminal.screen import show
from truthgym.scorers.brier import brier
from truthgym.scorers.judges import asking as judging
from truthgym.scorers.judges.asking import Answer, Verdict, form_instruction, rating_field
from truthgym.scorers.martingale import martingale
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.direct import direct
from truthgym.solvers.prepare import prepare
from truthgym.solvers.trajectory import user_message

ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|.)")
PROMPT = "/all /help\n>"
NOTHING = "Nothing is written yet. Type a reply first, or /skip the question.\n>"
BELIEF = r"\finalBeliefProb{0.7}"
INSPECT = "import truthgym.models.human, runpy; runpy.run_module('inspect_ai', run_name='__main__', alter_sys=True)"


class Terminal:
    """The other end of a terminal: reads all that is shown, as it comes, and types."""

    def __init__(self) -> None:
        self.master, self.slave = os.openpty()
        termios.tcsetwinsize(self.slave, (40, 100))
        self.shown = ""
        self.mark = 0
        self.closing = False
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        while not self.closing:
            if select.select([self.master], [], [], 0.05)[0]:
                self.shown += decode(os.read(self.master, 65536))

    def close(self) -> None:
        self.closing = True
        self.reader.join()
        for end in (self.master, self.slave):
            os.close(end)

    def wait(self, text: str, seconds: float = 30) -> str:
        """Wait until a text is shown after the last that was waited for, and return what was shown up to it."""
        end = time.monotonic() + seconds
        while True:
            plain = ESCAPES.sub("", self.shown).replace("\r", "")
            at = plain.find(text, self.mark)
            if at >= 0:
                before, self.mark = plain[self.mark : at + len(text)], at + len(text)
                return before
            assert time.monotonic() < end, f"{text!r} is not shown:\n{plain[self.mark :]}"
            time.sleep(0.03)

    def type(self, text: str) -> None:
        data = text.encode()
        while data:
            data = data[os.write(self.master, data[:1000]) :]

    def reply(self, text: str) -> str:
        """Wait for a question, and reply. Returns what was shown with the question."""
        asked = self.wait(PROMPT)
        self.type(f"{text}\n/send\n")
        return asked


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    opened = Terminal()
    yield opened
    opened.close()


@pytest.fixture
def sit(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Have a person sit at the terminal of this very process while something runs; returns what that returns."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("PROMPT_TOOLKIT_NO_CPR", "1")  # this terminal does not say where its cursor is
    monkeypatch.setattr(human_desk, "MOMENT", 0.3)
    monkeypatch.setattr(sys, "__stdin__", os.fdopen(os.dup(terminal.slave), "r"))
    monkeypatch.setattr(sys, "__stdout__", os.fdopen(os.dup(terminal.slave), "w"))

    def seated(person: Callable[[], object], running: Callable[[], Any]) -> Any:
        failed: list[BaseException] = []

        def at_it() -> None:
            try:
                person()
            except BaseException as error:
                failed.append(error)
                with contextlib.suppress(BaseException):
                    while True:  # so that the run ends
                        terminal.type("/clear\n/skip\n")
                        terminal.wait(PROMPT, 5)

        thread = threading.Thread(target=at_it, daemon=True)
        thread.start()
        made = running()
        thread.join(10)
        if failed:
            raise failed[0]
        assert not thread.is_alive()
        return made

    return seated


def the_model(journal: object = False) -> Any:
    return get_model("human/terminal", memoize=False, journal=journal)


def ask(*messages: ChatMessage, journal: object = False, **given: Any) -> Any:
    return asyncio.run(the_model(journal).generate(list(messages), **given))


def task_of(solving: Any, n: int = 1, epochs: int = 1, scorer: Any = None) -> Task:
    return Task(dataset=urns(n=n), setup=prepare(), solver=solving, scorer=scorer or brier(), epochs=epochs)


# One question at a terminal.


def test_a_reply_of_several_lines_is_what_was_typed(sit: Any, terminal: Terminal) -> None:
    def person() -> None:
        terminal.wait(PROMPT)
        terminal.type("first\x7fT\n\n   [bold]second[/bold] ÄÖ日本\n//send\n/sned\n")
        assert "did you mean /send" in terminal.wait("/help names all")
        terminal.type("last  \n\n/send\n")
        terminal.wait("(sent)")

    output = sit(person, lambda: ask(user_message("Why?", 3)))
    assert output.completion == "firsT\n\n   [bold]second[/bold] ÄÖ日本\n/send\nlast"
    assert (output.stop_reason, output.model) == ("stop", "human/terminal")
    assert output.usage.total_tokens == 0
    assert output.time > 0


def test_the_question_is_shown_as_it_is(sit: Any, terminal: Terminal) -> None:
    shown: list[str] = []

    def person() -> None:
        shown.append(terminal.reply("yes"))

    tool = ToolInfo(name="search", description="Search.")
    system = ChatMessageSystem(content="Be [red]brief[/red].")
    sit(person, lambda: ask(system, user_message("**Why** [/] # not?\n  - a\x1b]0;title\x07", 3), tools=[tool]))
    for part in ("A new conversation, epoch 3", "System\nBe [red]brief[/red].", "User\n**Why** [/] # not?\n  - a�]0;"):
        assert part in shown[0]
    assert "A model could call tools here (search); a person cannot." in shown[0]
    assert "role" not in shown[0]


def test_nothing_is_not_sent(sit: Any, terminal: Terminal) -> None:
    def person() -> None:
        terminal.wait(PROMPT)
        terminal.type("/send\n")
        terminal.wait(NOTHING)
        terminal.type("\n \n\x04")
        terminal.wait(NOTHING)
        terminal.type("wrong\n/clear\n")
        terminal.wait("Cleared.\n>")
        terminal.type("right\n\x04")

    assert sit(person, lambda: ask(user_message("Why?", 1))).completion == "right"


def test_all_and_help_and_edit(sit: Any, terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor"
    tty = os.ttyname(terminal.slave)
    editor.write_text(f'#!/bin/sh\nstty -a < {tty} | grep -q " icanon" && echo "and edited" >> "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))

    def person() -> None:
        terminal.wait(PROMPT)
        terminal.type("typed\n/all\n")
        terminal.wait("Why is that?")
        terminal.type("/help\n")
        terminal.wait("nothing is lost")
        terminal.type("/edit\n")
        terminal.wait("> and edited")
        terminal.type("\nand more\n/send\n")

    assert sit(person, lambda: ask(user_message("Why is that?", 1))).completion == "typed\nand edited\nand more"


def test_a_line_is_as_long_as_it_likes_and_a_paste_holds_no_commands(sit: Any, terminal: Terminal) -> None:
    long = "word " * 1000 + "end"

    def person() -> None:
        terminal.wait(PROMPT)
        terminal.type(f"{long}\n\x1b[200~/stop\n// a comment\n\x1b[201~/send\n")

    assert sit(person, lambda: ask(user_message("Why?", 1))).completion == f"{long}\n/stop\n// a comment"


def test_the_terminal_is_left_as_it_was(sit: Any, terminal: Terminal) -> None:
    before = termios.tcgetattr(terminal.slave)
    held: list[Any] = []

    def person() -> None:
        terminal.wait(PROMPT)
        held.append(termios.tcgetattr(terminal.slave))
        terminal.type("/skip\n")

    sit(person, lambda: ask(user_message("Why?", 1)))
    assert held[0] != before
    assert termios.tcgetattr(terminal.slave) == before


def test_a_time_limit_keeps_the_draft_and_what_is_printed_meanwhile_comes_above(
    sit: Any, terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, journal = termios.tcgetattr(terminal.slave), tmp_path / "journal"
    monkeypatch.setattr(sys, "stdout", sys.__stdout__)
    typed, seen = threading.Event(), threading.Event()

    def person() -> None:
        terminal.wait(PROMPT)
        terminal.type("half a\nthought")
        terminal.wait("thought")
        typed.set()
        terminal.wait("news\n> half a\n> thought")
        seen.set()

    async def limited() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(the_model(str(journal)).generate, [user_message("Why?", 1)])
            await anyio.to_thread.run_sync(typed.wait, 30)
            print("news")
            await anyio.to_thread.run_sync(seen.wait, 30)
            group.cancel_scope.cancel()

    sit(person, lambda: asyncio.run(limited()))
    assert json.loads(journal.read_text())["draft"] == "half a\nthought"
    assert termios.tcgetattr(terminal.slave) == before
    assert sys.stdout is sys.__stdout__
    terminal.wait("\n")
    assert terminal.shown.rindex("\x1b[?2004l") > terminal.shown.rindex("\x1b[?2004h")


def test_without_a_terminal_lines_are_read_and_their_end_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(human_desk, "MOMENT", 0)
    read, write = os.pipe()
    os.write(write, b"one\r\n//two\n/send\n/skip\nthe last")
    os.close(write)
    monkeypatch.setattr(sys, "__stdin__", os.fdopen(read))
    assert ask(user_message("Why?", 1)).completion == "one\n/two"
    assert ask(user_message("Why?", 1)).stop_reason == "content_filter"
    assert ask(user_message("Why?", 1)).completion == "the last"
    with pytest.raises(BadInput, match="standard input is none and has nothing more to read; run Inspect in a termin"):
        ask(user_message("Why?", 1))
    monkeypatch.setattr(sys, "__stdin__", None)
    with pytest.raises(BadInput, match="needs a person at a terminal"):
        ask(user_message("Why?", 1))


def test_messages_of_every_kind_are_shown(capsys: Any) -> None:
    messages = json.loads(
        """[{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": "f", "arguments": {"x": 1}}]},
            {"role": "tool", "content": "2", "function": "f"},
            {"role": "user", "content": [{"type": "image", "image": "i.png"}, {"type": "text", "text": "See."}]}]"""
    )
    from inspect_ai.log import EvalSample

    sample = EvalSample(id=1, epoch=1, input="", target="", messages=messages)
    show(Console(), sample.messages)
    said = capsys.readouterr().out
    for part in ("[calls the tool f({'x': 1})]", "Tool f\n2", "User\nSee.\n[image, which cannot be shown here]"):
        assert part in said


@pytest.mark.parametrize(
    ("model", "given", "said"),
    [
        ("human/termnal", {}, "Unknown human 'termnal'; did you mean 'terminal'"),
        ("human/terminal", {"jornal": 1}, "Unknown argument of human/terminal 'jornal'; did you mean 'journal'"),
        ("human/terminal", {"journal": 1}, "-M journal=1 cannot be used: give the path of a file, or false"),
    ],
)
def test_refusals(model: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=re.escape(said)):
        get_model(model, memoize=False, **given)


def test_one_person_answers_one_question_at_a_time() -> None:
    assert HumanAPI("terminal", journal=False).max_connections() == 1


# A form, field by field.


class Judgement(Verdict):
    originality: int = rating_field("how new it is")
    stated: bool
    probability: int | None = rating_field("the chance, where it is stated")


GOOD = Judgement(reasons="It is [new]\nÄ {brace}", originality=70, stated=True, probability=None)


def judge(epoch: int = 1, journal: object = False, draw: int = 0, told: str = "Judge this.") -> Answer[Judgement]:
    told = f"{told}\n\n{form_instruction(Judgement)}"
    asked = judging.ask(the_model(journal), told, Judgement, epoch=epoch, name="it", draw=draw, cache=False)
    return asyncio.run(asked)


def fill(terminal: Terminal, *typed: str) -> list[str]:
    """Type into one field after another, with what ends it. Returns what was shown before each."""
    shown = []
    for text in typed:
        shown.append(terminal.wait(".\n>"))
        terminal.type(text)
    return shown


def test_a_form_is_asked_for_field_by_field(sit: Any, terminal: Terminal) -> None:
    shown: list[str] = []

    def person() -> None:
        shown.extend(fill(terminal, "It is [new]\nÄ {brace}\n\x04", "170\n", "\n", "7\n", "/back\n", "\x7f70\n"))
        shown.extend(fill(terminal, "Yes\n", "none\n", "yes\n", "\n"))

    answer = sit(person, judge)
    assert answer.form == GOOD
    assert answer.raw == json.dumps(GOOD.model_dump(), ensure_ascii=False)
    assert "Judge this." in shown[0]
    assert "Type no JSON: the form is asked for field by field. /back /skip" in shown[0]
    assert "reasons (1 of 4)\ntwo or three sentences\nType a text. /send, or Ctrl-D on an empty line, goes" in shown[0]
    assert "originality (2 of 4)\nwhole number from 0 to 100: how new it is\nEnter goes on." in shown[1]
    assert "'170' does not fit here; type a whole number from 0 to 100." in shown[2]
    assert "Nothing is written yet." in shown[3]
    assert "stated (3 of 4)\nType yes or no. Enter goes on." in shown[4]
    assert "originality (2 of 4)" in shown[5]
    assert "> 7" in terminal.shown, "what was typed stands in the field again"
    assert "or none. Enter goes on." in shown[7]
    filled = "reasons: It is [new]\nÄ {brace}\noriginality: 70\nstated: yes\nprobability: none\nEnter sends the form."
    assert filled in shown[8]
    assert "'yes' is not part of the form. Enter alone sends it" in shown[9]


def test_back_stops_at_the_first_field_and_is_no_command_elsewhere(sit: Any, terminal: Terminal) -> None:
    def person() -> None:
        assert "(1 of 4)" in fill(terminal, "/back\n", "/help\n")[1]
        assert "/back   go back to the field before" in fill(terminal, "/skip\n")[0]

    assert sit(person, judge).form is None

    def plain_person() -> None:
        terminal.wait(PROMPT)
        terminal.type("/back\n")
        assert "There is no command /back" in fill(terminal, "yes\n/send\n")[0]

    assert sit(plain_person, lambda: ask(user_message("Why?", 1))).completion == "yes"


def test_a_skipped_form_is_no_answer_and_says_why(sit: Any, terminal: Terminal) -> None:
    answer = sit(lambda: fill(terminal, "something\n\x04", "/skip\n"), judge)
    assert (answer.form, answer.raw) == (None, None)
    assert "The person skipped this question." in answer.reason


def test_a_form_that_was_cut_off_is_gone_on_with(sit: Any, terminal: Terminal, tmp_path: Path) -> None:
    journal = tmp_path / "journal"

    async def limited() -> None:
        with anyio.move_on_after(10) as limit:
            config = GenerateConfig(response_schema=ResponseSchema(name="form", json_schema=json_schema(Judgement)))
            async with anyio.create_task_group() as group:
                group.start_soon(the_model(str(journal)).generate, [user_message(asked, 1)], [], None, config)
                await anyio.to_thread.run_sync(typed.wait, 30)
                await anyio.sleep(0.3)
                limit.cancel()

    asked, typed = f"Judge this.\n\n{form_instruction(Judgement)}", threading.Event()

    def first() -> None:
        fill(terminal, "because\n\x04", "4")
        terminal.wait("4")
        typed.set()

    sit(first, lambda: asyncio.run(limited()))
    drafts = [json.loads(json.loads(line)["draft"]) for line in journal.read_text().splitlines()]
    assert drafts == [{"reasons": "because"}, {"reasons": "because", "originality": "4"}]

    def then() -> None:
        terminal.wait("What you typed stands in its field")
        terminal.wait("> because")
        terminal.type("\n\x04")
        fill(terminal, "2\n", "no\n", "5\n", "\n")

    form = sit(then, lambda: judge(journal=str(journal))).form
    assert form == Judgement(reasons="because", originality=42, stated=False, probability=5)


def test_an_earlier_form_is_shown_and_kept_or_changed_field_by_field(
    sit: Any, terminal: Terminal, tmp_path: Path
) -> None:
    journal = str(tmp_path / "journal")

    def first() -> None:
        fill(terminal, "so\n\x04", "70\n", "y\n", "none\n", "\n")

    def keeps() -> None:
        shown = fill(terminal, "\x04", "\n", "\n", "\n", "\n")
        lines = r"You replied to this on 20.*:\nreasons: so\noriginality: 70\nstated: yes\nprobability: none\nSend noth"
        assert re.search(lines, shown[0])
        terminal.wait("(kept)")

    def changes() -> None:
        fill(terminal, "\x04", "\n", "no\n", "5\n", "\n")
        terminal.wait("(sent)")

    def anew() -> None:
        assert "You replied" not in fill(terminal, "/skip\n")[0]

    good = GOOD.model_copy(update={"reasons": "so"})
    assert sit(first, lambda: judge(journal=journal)).form == good
    assert sit(keeps, lambda: judge(journal=journal)).form == good
    changed = good.model_copy(update={"stated": False, "probability": 5})
    assert sit(changes, lambda: judge(journal=journal)).form == changed
    assert sit(anew, lambda: judge(journal=journal, draw=1)).form is None, "asked once more, without the earlier reply"
    assert sit(anew, lambda: judge(journal=journal, epoch=2)).form is None


def test_without_a_terminal_a_form_is_read_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(human_desk, "MOMENT", 0)
    read, write = os.pipe()
    os.write(write, b"one\ntwo\n/send\n101\n40\nno\n/back\nyes\n60\n/back\n\n\n/skip\nlast\n/send\n7\n")
    os.close(write)
    monkeypatch.setattr(sys, "__stdin__", os.fdopen(read))
    assert judge().form == Judgement(reasons="one\ntwo", originality=40, stated=True, probability=60)
    assert judge().form is None
    with pytest.raises(BadInput, match="has nothing more to read"):
        judge()


# Many questions.


def test_several_samples_at_once_come_one_after_the_other(sit: Any, terminal: Terminal, run: Run) -> None:
    asked: list[str] = []

    def person() -> None:
        asked.extend(terminal.reply(f"reply {i} {BELIEF}") for i in range(12))

    log = sit(person, lambda: run(task_of(chain_of_thought(steps=2), n=2, epochs=2), the_model()))
    assert log.eval.config.max_samples is None
    assert ["A new conversation" in shown for shown in asked] == [True, False, False] * 4
    assert ["The conversation goes on" in shown for shown in asked] == [False, True, True] * 4
    assert all(("Step 1 of 2" in shown) == ("A new conversation" in shown) for shown in asked)
    for done in log.samples or []:
        replies = [int(m.text.split()[1]) for m in done.messages if m.role == "assistant"]
        assert replies == list(range(replies[0], replies[0] + 3)), "no other question came between"
        assert done.scores
        assert done.scores["brier"].metadata
        assert done.scores["brier"].metadata["belief"] == 0.7


def test_probes_show_only_what_is_new(sit: Any, terminal: Terminal, run: Run) -> None:
    asked: list[str] = []

    def person() -> None:
        asked.extend(terminal.reply(text) for text in ("one", "two", BELIEF, "50", "60", "70", "80"))

    scorer = martingale(per="step")
    log = sit(person, lambda: run(task_of(chain_of_thought(steps=2), scorer=scorer), the_model()))
    titles = [re.findall(r"─ ([A-Z][^─]*) ─", shown)[0] for shown in asked]
    goes_on, earlier_point = "The conversation goes on, epoch 1", "The conversation goes on from an earlier point"
    new = "A new conversation, epoch 1"
    assert titles[:4] == [new, goes_on, goes_on, new]
    assert all(title.startswith((earlier_point, "Back to an earlier conversation")) for title in titles[4:])
    assert "Only what is new is shown" in asked[4]
    assert "Step 1 of 2" not in asked[4]
    assert "whole number" in asked[4]
    assert log.samples


def test_a_judge_is_told_the_role_and_models_run_on_meanwhile(sit: Any, terminal: Terminal, run: Run) -> None:
    asked: list[str] = []

    def person() -> None:
        asked.extend(terminal.reply("41") for _ in range(6))

    scorer = martingale(elicitor="judge")
    log = sit(person, lambda: run(task_of(direct(), n=3, scorer=scorer), model_roles={"judge": the_model()}))
    assert all("you answer as judge" in shown for shown in asked)
    assert all("Your reply, as judge" in shown for shown in asked)
    questions = [re.findall("<question>(.*)</question>", shown, re.DOTALL)[0] for shown in asked]
    assert questions[::2] == questions[1::2], "both readings of a sample come together"
    assert len(set(questions)) == 3
    assert log.samples
    assert '"value":0.41' in log.samples[0].model_dump_json()


@solver
def two_sides() -> Solver:
    """Both sides of a short debate, each seeing the other's words as a user's."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        sides: dict[str, list[ChatMessage]] = {side: [user_message(f"You are {side}.", 1)] for side in ("yes", "no")}
        for _ in range(2):
            for side, other in (("yes", "no"), ("no", "yes")):
                output = await get_model(role=side).generate(sides[side])
                sides[side].append(output.message)
                sides[other].append(user_message(f"{side} says: {output.completion}", 1))
        state.output = output
        return state

    return solve


def test_one_person_can_hold_two_roles(sit: Any, terminal: Terminal, run: Run) -> None:
    asked: list[str] = []

    def person() -> None:
        asked.extend(terminal.reply(f"word {i}") for i in range(4))

    roles = {"yes": the_model(), "no": the_model()}
    dataset = MemoryDataset([Sample(input="Debate.")])
    sit(person, lambda: run(Task(dataset=dataset, solver=two_sides()), model_roles=roles))
    assert [re.findall("you answer as (yes|no)", shown)[0] for shown in asked] == ["yes", "no", "yes", "no"]
    assert "no says: word 1" in asked[2]
    assert "You are yes" not in asked[2]
    assert "Back to an earlier conversation" in asked[3]


def test_a_skipped_question_is_left_without_a_score(sit: Any, terminal: Terminal, run: Run) -> None:
    def person() -> None:
        terminal.wait(PROMPT)
        terminal.type("never mind\n/skip\n")
        terminal.reply(BELIEF)

    log = sit(person, lambda: run(task_of(direct(), n=2), the_model()))
    assert log.results
    assert log.results.scores[0].metrics["share_scored"].value == 0.5
    skipped = [s for s in log.samples or [] if s.output.stop_reason == "content_filter"]
    assert len(skipped) == 1
    details = skipped[0].output.choices[0].stop_details
    assert details
    assert (details.type, details.explanation) == ("skipped", "The person skipped this question.")
    assert skipped[0].output.completion == ""


def test_an_earlier_reply_is_shown_and_kept_or_replaced(sit: Any, terminal: Terminal, tmp_path: Path) -> None:
    journal, question = str(tmp_path / "journal"), user_message("Why?", 1)

    def first() -> None:
        shown = terminal.reply("because [this]")
        assert "Each reply is kept in" in shown
        assert "You replied" not in shown

    def then(text: str) -> Callable[[], None]:
        def person() -> None:
            assert re.search(r"You replied to this on 20..-..-.. ..:..:\nbecause \[this\]\n", terminal.reply(text))

        return person

    def last() -> None:
        assert "You replied" not in terminal.reply("another epoch")

    for person, asked, said in (
        (first, question, "because [this]"),
        (then(""), question, "because [this]"),
        (then("no"), question, "no"),
        (last, user_message("Why?", 2), "another epoch"),
    ):
        assert sit(person, lambda asked=asked: ask(asked, journal=journal)).completion == said


# The real command, in a terminal of its own.


class Command:
    """`inspect` with a person at its terminal."""

    def __init__(self, terminal: Terminal, folder: Path, environment: dict[str, str]) -> None:
        self.terminal, self.folder, self.environment = (
            terminal,
            folder,
            environment | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
        )

    def start(self, *arguments: str, display: str = "rich") -> subprocess.Popen[bytes]:
        slave = self.terminal.slave
        rest = ["--display", display, "--log-dir", str(self.folder / "logs")]
        return subprocess.Popen(
            [sys.executable, "-c", INSPECT, *arguments, *rest],
            stdin=slave, stdout=slave, stderr=slave, env=self.environment, cwd=self.folder, start_new_session=True,
            # A shell that runs the tests in the background has them, and what they start, ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip

    def evaluate(self, *arguments: str, n: int = 1, display: str = "rich") -> subprocess.Popen[bytes]:
        who = ["--model", "human/terminal", "-M", f"journal={self.folder / 'journal'}"]
        what = ["truthgym/urns", "-T", f"n={n}", "-T", "paradigms=brier", "--epochs", "1"]
        return self.start("eval", *what, *who, *arguments, display=display)

    def log(self) -> EvalLog:
        return read_eval_log(list_eval_logs(str(self.folder / "logs"))[0])  # the newest comes first


@pytest.fixture
def command(terminal: Terminal, tmp_path: Path, environment: dict[str, str]) -> Command:
    return Command(terminal, tmp_path, environment)


def replies(log: EvalLog) -> list[list[str]]:
    return [[m.text for m in sample.messages if m.role == "assistant"] for sample in log.samples or []]


@pytest.mark.slow
def test_stop_keeps_everything_and_a_retry_goes_on(command: Command, terminal: Terminal) -> None:
    display = "full"
    before = termios.tcgetattr(terminal.slave)
    running = command.evaluate("--solver", "truthgym/chain_of_thought", "-S", "steps=1", n=3, display=display)
    terminal.reply("one\ntwo")
    terminal.reply(BELIEF)
    terminal.wait(PROMPT)
    terminal.type("/skip\n")
    assert "A new conversation" in terminal.reply("third, step one")
    terminal.wait(PROMPT)
    terminal.type("third, half an ans\n/stop\n")
    terminal.wait("Task interrupted (2 of 3")
    running.wait(30)
    assert termios.tcgetattr(terminal.slave) == before
    log = command.log()
    assert log.status == "cancelled"
    assert [sample.error is None for sample in log.samples or []] == [True, True, False]
    assert replies(log)[0] == ["one\ntwo", BELIEF]

    retried = command.start("eval-retry", log.location, display=display)
    assert "third, step one" in terminal.wait(PROMPT)
    terminal.type("\x04")
    terminal.wait("You had begun to write this")
    terminal.wait("> third, half an ans")
    terminal.type(f"wer {BELIEF}\n/send\n")
    assert retried.wait(60) == 0
    log = command.log()
    assert log.status == "success"
    assert replies(log)[0] == ["one\ntwo", BELIEF]
    assert replies(log)[2] == ["third, step one", f"third, half an answer {BELIEF}"]
    scores = [sample.scores["brier"].metadata["belief"] for sample in log.samples or []]  # type: ignore[index]
    assert scores == [0.7, None, 0.7]


@pytest.mark.slow
def test_ctrl_c_ends_the_eval_at_once_and_keeps_the_draft(command: Command, terminal: Terminal) -> None:
    before = termios.tcgetattr(terminal.slave)
    running = command.evaluate(n=2)
    terminal.reply(BELIEF)
    terminal.wait(PROMPT)
    terminal.type("half a thou\x03")
    running.wait(30)
    assert termios.tcgetattr(terminal.slave) == before
    log = command.log()
    assert log.status == "cancelled"
    assert replies(log)[0] == [BELIEF]
    kept = [json.loads(line) for line in (command.folder / "journal").read_text().splitlines()]
    assert [entry.get("reply", entry.get("draft")) for entry in kept] == [BELIEF, "half a thou"]


@pytest.mark.slow
def test_a_finished_log_is_judged_by_a_person(command: Command, terminal: Terminal, run: Run) -> None:
    log = run(task_of(direct()))
    journal = command.folder / "journal"
    role = f"judge={{model: human/terminal, model_args: {{journal: {journal}}}}}"
    scoring = [sys.executable, "-c", INSPECT, "score", log.location, "--scorer", "truthgym/martingale"]
    scoring += ["-S", "elicitor=judge", "--model-role", role, "--action", "append", "--overwrite"]
    slave = terminal.slave
    running = subprocess.Popen(scoring, stdin=slave, stdout=slave, stderr=slave, env=command.environment)
    assert "you answer as judge" in terminal.reply("40")
    terminal.reply("60")
    terminal.wait("martingale_score", 30)
    assert running.wait(30) == 0
    assert "martingale" in ((read_eval_log(log.location).samples or [])[0].scores or {})


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_what_a_person_sees_in_a_real_terminal(tmp_path: Path, environment: dict[str, str]) -> None:
    script = tmp_path / "run.sh"
    arguments = f"truthgym/urns -T n=1 -T paradigms=brier --epochs 1 --model human/terminal -M journal={tmp_path}/j"
    script.write_text(f'exec {sys.executable} -c "{INSPECT}" eval {arguments} --log-dir {tmp_path}/logs --display full')
    tmux = ["tmux", "-L", f"truthgym-{os.getpid()}", "-f", "/dev/null"]

    def call(*command: str) -> str:
        return subprocess.run([*tmux, *command], env=environment, capture_output=True, text=True, check=True).stdout

    def wait(text: str) -> str:
        end = time.monotonic() + 60
        while text not in (shown := call("capture-pane", "-p", "-t", "person")):
            assert time.monotonic() < end, shown
            time.sleep(0.2)
        return shown

    call("new-session", "-d", "-s", "person", "-x", "80", "-y", "40", f"sh {script}; sleep 60")
    try:
        wait(PROMPT)
        call(
            "send-keys", "-t", "person", "-l", "first\nsecond, which is longer than a row of this terminal: " + "x" * 60
        )
        call("send-keys", "-t", "person", "Home", "Up", "BSpace", "End")
        call("send-keys", "-t", "person", "-l", "!")
        shown = wait("> first!")
        rows = shown[shown.index("> first!") :].splitlines()
        assert rows[1] == f"> second, which is longer than a row of this terminal: {'x' * 25}"
        assert rows[2] == f"  {'x' * 35}"
        call("send-keys", "-t", "person", "Down", "End", "Enter", "-l", BELIEF)
        call("send-keys", "-t", "person", "Enter", "C-d")
        wait("brier_lower")
    finally:
        call("kill-server")
    log = read_eval_log(list_eval_logs(str(tmp_path / "logs"))[0])
    assert replies(log)[0][0].startswith("first!\nsecond, which")
    assert log.status == "success"
