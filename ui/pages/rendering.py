"""Renders the templates, and reads what their forms send."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from truthgym.datasets.errors import BadInput

MOST_LINES = 2000
"""Most fields of a form, and most lines of all its texts."""
ROOM = Path(__file__).parent.parent
NAVIGATION = {"/": "Compose", "/runs": "Runs", "/results": "Results"}
"""Pages of the top line by path."""
TEMPLATES = Environment(
    loader=FileSystemLoader(ROOM / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


TEMPLATES.filters["unmarked"] = lambda text: re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("`", "")
"""A text without the marks of Markdown."""


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A template as the answer to a request."""
    context = {"navigation": NAVIGATION, "path": request.url.path, "folder": str(folder_of(request)), "problem": ""}
    text = TEMPLATES.get_template(template).render(context | values)
    return HTMLResponse(text.encode(errors="replace"), status)


def folder_of(request: Request) -> Path:
    folder: Path = request.app.state.folder
    return folder


async def form_fields(request: Request) -> dict[str, list[str]]:
    """The fields of a form, each with its values in order; without the empty ones."""
    body = (await request.body()).decode("utf-8", errors="replace")
    if "\0" in body or "%00" in body:
        raise BadInput("The form has a NUL character, which no file name has; remove %00")
    if max(body.count("&"), body.count("\n") + body.upper().count("%0A")) > MOST_LINES:
        raise BadInput(f"The form has more than {MOST_LINES:,} fields or lines; write long lists and texts to a file")
    return parse_qs(body, keep_blank_values=False)
