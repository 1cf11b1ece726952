"""A chain of thought that a model writes into its reply, between `<think>` tags, and the reply that follows it.

Providers that separate the two return the thought as reasoning content, and the reply has no tags.
"""

import re

TAG = "think"


def split_thought(text: str, tag: str = TAG) -> tuple[str, str | None]:
    r"""Separate a reply from the thought before it.

    The opening tag may be missing: some chat templates write it at the end of the prompt.

    >>> split_thought("<think>\nRed, 60%?\n</think>\n\nBlue.")
    ('Red, 60%?', 'Blue.')
    >>> split_thought("<think>\nRed, 60%")
    ('Red, 60%', None)

    Args:
        text: What a model wrote.
        tag: Name of the tags.

    Returns:
        The thought without its tags, empty if there is none; and the text after the last closing tag, or None if a
        thought has no end.
    """
    closing = f"</{tag}>"
    end, begin, opening = text.rfind(closing), -1, re.compile(rf"<{tag}(?:\s[^<>]*)?>")
    if f"<{tag}" in text:
        begin = max((match.start() for match in opening.finditer(text)), default=-1)
    if begin < 0 and end < 0:
        return "", text
    open_ended = begin > end
    thought = opening.sub("", text if open_ended else text[:end], count=1).strip()
    return thought, None if open_ended else text[end + len(closing) :].lstrip()


def with_opening_tag(reply: str, prompt: str) -> str:
    """A reply with the opening tag of its thought, if a chat template wrote that tag at the end of the prompt.

    Without it, a thought that was cut off could not be told from a reply.
    """
    begun = prompt.rstrip().endswith(f"<{TAG}>") and not reply.lstrip().startswith(f"<{TAG}>")
    return f"<{TAG}>\n{reply}" if begun else reply
