"""How a reference agent keeps a length that it was asked for: it goes on with sentences that say nothing new."""

import re

ASKED = re.compile(r"about ([0-9]+) (words|characters|sentences|tokens)(?::|,) at least [0-9]+")
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
    """How many tokens a text is taken to have."""
    return len(text) // CHARACTERS_PER_TOKEN + 1


def pad_to_length(text: str, asked: str, reply: str) -> str:
    """Lengthen a reply to the length that its conversation asks for, if it asks for one.

    At first it is filled up with whole sentences, which may miss the length by half of one; asked to write it again, by
    words, which may miss characters and tokens by half of one. A reply that is longer stays as it is.

    Args:
        text: The conversation.
        asked: The last message.
        reply: The reply, whose last paragraph is its answer and stays last.
    """
    wanted = ASKED.findall(text)
    if not wanted:
        return reply
    target, unit = int(wanted[-1][0]), wanted[-1][1]
    body, _, answer = reply.rpartition("\n\n")
    added: list[str] = []
    units = MORE if AGAIN not in asked or unit == "sentences" else " ".join(MORE).split()

    def length(parts: list[str]) -> int:
        whole = "\n\n".join([" ".join([body, *parts]), answer])
        return _length(whole, unit)

    while length(added) < target:
        following = [*added, units[len(added) % len(units)]]
        if length(following) - target > target - length(added):
            break
        added = following
    return "\n\n".join([" ".join([body, *added]), answer])


def _length(text: str, unit: str) -> int:
    if unit == "words":
        return len(text.split())
    if unit == "sentences":
        return len([part for part in re.split(r"(?<=[.!?])\s+|\n+", text) if re.search(r"\w", part)])
    return count_tokens(text) if unit == "tokens" else len(text)
