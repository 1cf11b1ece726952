"""What a forecaster reads before an observation, with a note and without it, and the placebo for a note."""

import random
from typing import Literal, get_args

from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageTool, ChatMessageUser
from inspect_ai.tool import ToolCall

from truthgym.datasets.rated_trajectories import rated_trajectories
from truthgym.scorers.beliefs.escaping import material

Template = Literal["vanilla", "rephrase", "toolcall"]
Placebo = Literal["text", "shuffled", "question"]
PLACEBOS: tuple[Placebo, ...] = get_args(Placebo)
ABOUT = "A question was asked:\n\n{question}"
NOTE = "Somebody wrote this about it:\n\n{note}"
TASK = "Later an investigator had this task: {task}"
REPORT = "Report in one sentence what the investigator found."
TOOLS = (
    "The investigator could search the web and run commands in a shell. The report was then written anew in plain "
    "words, by somebody who had not seen what was written above."
)
CAN_READ = "The investigator has completed the task. The tool {tool} shows the report; quote it word for word."
TOOL = "read_report"
READS = "I read the investigator's report."
SHOWN = "The report has been opened. It says, word for word:"
REPHRASE = (
    "Rewrite this report in one plain sentence. Keep every fact and every figure, and add none. Reply with the "
    "sentence alone.\n\n{report}"
)


def messages(template: Template, question: str, task: str, note: str | None) -> list[ChatMessage]:
    """The conversation after which a forecaster's reply is the observation."""
    parts = [ABOUT.format(question=question)]
    if note is not None:
        parts.append(NOTE.format(note=material("note", note)))
    parts.append(TASK.format(task=task))
    if template == "toolcall":
        call = ToolCall(id="report", function=TOOL, arguments={"task": task})
        return [
            ChatMessageUser(content="\n\n".join([*parts, CAN_READ.format(tool=TOOL)])),
            ChatMessageAssistant(content=READS, tool_calls=[call]),
            ChatMessageTool(content=SHOWN, tool_call_id=call.id, function=TOOL),
        ]
    parts += [TOOLS, REPORT] if template == "rephrase" else [REPORT]
    return [ChatMessageUser(content="\n\n".join(parts))]


def placebo_text(kind: Placebo, note: str, question: str, *key: object) -> str:
    """A text of a note's length, in characters and up to a word, that says nothing about its question."""
    rng = random.Random(repr(key))
    words = [] if kind == "text" else [word for word in {"shuffled": note}.get(kind, question).split() if _plain(word)]
    rng.shuffle(words)
    if not words:
        texts = [row.trajectory for row in rated_trajectories()]
        rng.shuffle(texts)
        for text in texts:
            if sum(len(word) + 1 for word in words) <= len(note):
                words += text.split()
    words *= 1 + len(note) // sum(len(word) + 1 for word in words)
    return _cut(words, len(note))


def _plain(word: str) -> bool:
    return not any(letter.isdigit() for letter in word)


def first_tokens(note: str, tokens: int, budget: int) -> str:
    """The beginning of a note with about so many of its tokens, up to a word."""
    return note if tokens <= budget else _cut(note.split(), len(note) * budget / tokens)


def _cut(words: list[str], most: float) -> str:
    length = -1
    for number, word in enumerate(words):
        length += len(word) + 1
        if number and length > most:
            return " ".join(words[:number])
    return " ".join(words)
