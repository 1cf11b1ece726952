"""A page of the site: Markdown, a chart and links as one HTML file that opens from disk."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from truthgym.analysis.tables.saving import for_script

FIGURE = re.compile(r"[-+]?[$]?\d[\d,.]*(?: ?%|e-\d+)?(?: \[.*\]| / [\d,.]+)?")
"""A cell with a number."""
SHORT, LONG = 24, 44
"""Characters of a cell that is never wrapped, and of one that needs room."""
TEMPLATES = jinja2.Environment(loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True)
PARSER = MarkdownIt("commonmark", {"html": False})


def html_of(
    menu: Sequence[tuple[str, str]],
    links: Mapping[str, str],
    *,
    title: str,
    here: str,
    markdown: str = "",
    notes: Sequence[str] = (),
    figure: str = "",
    spec: str = "",
    html: str = "",
    **shown: Any,
) -> str:
    """A page with the name `here`: notes, `html`, and Markdown in which `figure` is the chart of `spec`."""
    items = {f"- {note}" for note in notes}  # the page shows them first
    lines = "\n".join(line for line in markdown.split("\n") if line not in items)
    return TEMPLATES.get_template("page.html").render(
        menu=menu,
        title=title,
        here=here,
        body=Markup(html + tables(lines, figure, links)),
        notes=[Markup(inline(note)) for note in notes],
        spec=Markup(for_script(spec)),
        **shown,
    )


def inline(text: str) -> str:
    html: str = PARSER.renderInline(text)
    return html


def tables(markdown: str, figure: str = "", links: Mapping[str, str] | None = None) -> str:
    """Markdown with tables as HTML, in which HTML is text, and code that names a log is a link."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")

    def code(self: Any, tokens: Any, i: int, options: Any, env: Any) -> str:  # noqa: ANN401
        text = tokens[i].content
        name = Markup("<code>{}</code>").format(Path(text).name if text.endswith(".eval") else text)
        return str(Markup('<a href="{}">{}</a>').format(links[text], name) if links and text in links else name)

    def image(self: Any, tokens: Any, i: int, options: Any, env: Any) -> str:  # noqa: ANN401
        source, text = tokens[i].attrs["src"], tokens[i].content
        drawn = Markup('<img src="{}" alt="{}">').format(source, text)
        return f'<span class="chart" id="chart">{drawn}</span>' if source == figure else str(drawn)

    parser.add_render_rule("code_inline", code)
    parser.add_render_rule("image", image)
    parser.add_render_rule("table_open", lambda *_: '<div class="wide"><table>')
    parser.add_render_rule("table_close", lambda *_: "</table></div>")
    tokens = parser.parse(markdown)
    _align(tokens)
    html: str = parser.renderer.render(tokens, parser.options, {})
    return html


def _align(tokens: Sequence[Token]) -> None:
    """Give the cells of tables their classes: columns of numbers are aligned to the right."""
    columns: dict[int, list[tuple[Token, Token]]] = {}
    column = 0
    for i, token in enumerate(tokens):
        if token.type == "tr_open":
            column = 0
        elif token.type in ("th_open", "td_open"):
            columns.setdefault(column, []).append((token, tokens[i + 1]))
            column += 1
            if token.type == "th_open":
                for text in tokens[i + 1].children or ():
                    text.content = text.content.replace("_", "_\u200b")  # where a long name may break
        elif token.type == "table_close":
            for cells in columns.values():
                texts = [inline.content for token, inline in cells if token.type == "td_open"]
                texts = [text for text in texts if text not in ("", "-")]
                figures = bool(texts) and all(FIGURE.fullmatch(text) for text in texts)
                for token, inline in cells:
                    size = len(inline.content)
                    kind = "figure" if figures else "long" if size > LONG else "short" if size < SHORT else ""
                    if kind:
                        token.attrSet("class", kind)
            columns = {}
