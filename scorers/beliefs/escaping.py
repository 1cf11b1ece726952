"""Text for a model that judges or reads it: between tags, with the tags inside it escaped."""

import re
from functools import lru_cache
from unicodedata import category, normalize

TAG = re.compile(
    r"<(?= ?(?:\\* ?/|\||[a-z_]+ ?(?:/ ?)?>|[a-z_]+ [\w-]+ ?=[^<>]*>))|"
    r"\[(?= ?(?:/ ?\w+ ?\]|\|[^\[\]|]*\||INST ?\]|(?-i:[a-z]?[A-Z]{3,}(?:_[A-Z]+)*) ?\]))",
    re.IGNORECASE,
)
r"""The first character of a closing tag, an opening tag, or a token of a chat template.

Such tokens are `<|im_end|>`, or by their form `[/INST]`, `[|assistant|]`, `[TOOL_CONTENT]` and `[gMASK]`. A reader
takes `<\/text>`, as JSON writes it, for a closing tag too.
"""
BLANKS = frozenset("\u115f\u1160\u3164\uffa0\u2800\U0001d159")
"""Characters that are letters or symbols by their category, and that show nothing."""
LOOK_ALIKES = str.maketrans("\u1438\u02c2\u276e\u1433\u02c3\u276f\u2044\u2215\u29f8\u2571\u27cb", "<<<>>>/////")
"""What looks like <, > or /, and is no compatible form of it."""


def material(tag: str, text: str) -> str:
    """Put a text between tags for a model that judges or reads it. Tags and chat-template tokens within it are escaped.

    They are recognised as a reader sees them: invisible characters (control and format characters, combining marks,
    fillers) are skipped, blanks count as a single space, and compatible forms of a character, and those that look like
    < > or /, as the same. Everything else is shown as it is. Takes time in proportion to the length of the text.
    """
    seen, places = list[str](), list[int]()
    for place, char in enumerate(text):
        for visible in _visible(char):
            if visible != " " or not seen or seen[-1] != " ":
                seen.append(visible)
                places.append(place)
    chars = list(text)
    for match in TAG.finditer("".join(seen)):
        chars[places[match.start()]] = "‹" if match[0] == "<" else "⟦"
    return f"<{tag}>\n{''.join(chars)}\n</{tag}>"


@lru_cache(maxsize=4096)
def _visible(char: str) -> str:
    """What a reader sees of a character: nothing, a space, or its compatible form."""
    if char.isspace():
        return " "
    if char in BLANKS or category(char)[0] == "C" or category(char) in ("Mn", "Me"):
        return ""
    return " ".join(normalize("NFKC", char).translate(LOOK_ALIKES).split())
