"""Pads a reference agent's reply to a requested length with sentences that add no information."""

import re

from truthgym.solvers.length_control import length_of

TARGET = re.compile(r"about ([0-9]+) (words|characters|sentences|tokens)(?::|,) at least [0-9]+")
AGAIN = "Write it again"
MORE = (
    "I have looked at it from more than one side.",
    "Nothing that I know of has been left out.",
    "This is no more than what was to be seen from the start.",
    "I would say the same if I were asked again.",
    "It would take something new to change it.",
)
CHARACTERS_PER_TOKEN = 4


def count_tokens(text: str) -> int:
    """Estimated number of tokens of a text."""
    return len(text) // CHARACTERS_PER_TOKEN + 1


def pad_to_length(text: str, request: str, reply: str) -> str:
    """Pad a reply to the length that the conversation asks for, if it asks for one."""
    targets = TARGET.findall(text)
    if not targets:
        return reply
    target, unit = int(targets[-1][0]), targets[-1][1]
    body, _, answer = reply.rpartition("\n\n")
    added: list[str] = []
    units = MORE if AGAIN not in request or unit == "sentences" else " ".join(MORE).split()

    def length(parts: list[str]) -> int:
        whole = "\n\n".join([" ".join([body, *parts]), answer])
        return count_tokens(whole) if unit == "tokens" else length_of(whole, unit)

    while length(added) < target:
        longer = [*added, units[len(added) % len(units)]]
        if length(longer) - target > target - length(added):
            break
        added = longer
    return "\n\n".join([" ".join([body, *added]), answer])
