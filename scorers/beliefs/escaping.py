"""Text for a model that judges or reads it: between tags, with the tags inside it escaped."""

import re
from itertools import islice
from unicodedata import category, normalize

OPENING = re.compile(r"[<\uff1c\ufe64\[\uff3b]")
"""Characters that may begin a tag: < and [, also in their wide and small forms."""
TAG = re.compile(
    r"<\s*(?:/|\||[a-z_]+\s*(?:/\s*)?>|[a-z_]+\s+[\w-]+\s*=[^<>]*>)|"
    r"\[\s*/?\s*(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\s*\]",
    re.IGNORECASE,
)
"""The beginning of a closing tag, an opening tag, or a token of a chat template such as `<|im_end|>` or `[/INST]`."""
MAX_TAG = 200
"""Visible characters of the longest tag that is recognised."""


def material(tag: str, text: str) -> str:
    """Put a text between tags for a model that judges or reads it. Tags and chat-template tokens within it are escaped.

    They are recognised as a reader sees them: characters that are invisible (control and format characters, combining
    marks) are skipped, and compatible forms of a character count as the same.
    """

    def escape(match: re.Match[str]) -> str:
        following = (text[i] for i in range(match.start(), len(text)))
        visible = (c for c in following if c.isspace() or (category(c)[0] != "C" and category(c) != "Mn"))
        seen = normalize("NFKC", "".join(islice(visible, MAX_TAG)))
        return match[0] if not TAG.match(seen) else "‹" if seen[0] == "<" else "⟦"

    return f"<{tag}>\n{OPENING.sub(escape, text)}\n</{tag}>"
