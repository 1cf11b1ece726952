"""A chain of thought that a model writes into its reply, between tags, and the reply that follows it.

Providers that separate the two return the thought as reasoning content, and the reply has no tags. The tags are those
that open models write: `<think>`, `<thinking>`, `<thought>`, `<reasoning>`, `<seed:think>`, `[THINK]`, `◁think▷`,
Cohere's `<|START_THINKING|>` and the channels of gpt-oss.
"""

import re

NAMES = r"(?:(?:seed:)?think(?:ing)?|thoughts?|reasoning)"
OPENING = re.compile(
    rf"<{NAMES}(?:\s[^<>]*)?>|\[THINK\]|◁think▷|<\|START_THINKING\|>|<\|channel\|>(?:analysis|commentary)[^<>|]*<\|message\|>",
    re.IGNORECASE,
)
CLOSING = re.compile(
    rf"</{NAMES}>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<\|channel\|>final[^<>|]*<\|message\|>", re.IGNORECASE
)
TAG_IN_JSON = re.compile(
    rb"(?i)(?:think(?:ing)?|thoughts?|reasoning)(?:[\]>]|\s|\xe2\x96\xb7|\\u25b7)|THINKING\||channel\|>"
)
"""What JSON that holds a tag holds."""


def split_thought(text: str) -> tuple[str, str | None]:
    r"""The thought before a reply, without its tags, and the text after the last closing tag, None in a thought.

    The opening tag may be missing: some chat templates write it at the end of the prompt.

    >>> split_thought("<think>\nRed, 60%?\n</think>\n\nBlue.")
    ('Red, 60%?', 'Blue.')
    >>> split_thought("[THINK]Red, 60%")
    ('Red, 60%', None)
    """
    begin = max((match.start() for match in OPENING.finditer(text)), default=-1)
    end, after = max((match.span() for match in CLOSING.finditer(text)), default=(-1, -1))
    if begin < 0 and end < 0:
        return "", text
    open_ended = begin > end
    thought = OPENING.sub("", text if open_ended else text[:end], count=1).strip()
    return thought, None if open_ended else text[after:].lstrip()


def with_opening_tag(reply: str, prompt: str) -> str:
    """A reply with the opening tag of its thought, if a chat template wrote that tag at the end of the prompt."""
    end = prompt.rstrip()[-40:]
    tag = next((match[0] for match in OPENING.finditer(end) if match.end() == len(end)), "")
    return f"{tag}\n{reply}" if tag and not reply.lstrip().startswith(tag) else reply
