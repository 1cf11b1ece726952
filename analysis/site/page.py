"""A page of the site: Markdown, a chart and links as one HTML file that opens from disk."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
STYLE = """
:root { --ink: #1a1a1a; --quiet: #555; --line: #d5d5d5; --link: #0b5394; --note: #fff7e0; --edge: #b8860b }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 74rem; padding: 0 1.25rem 4rem; background: #fff; color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif }
a { color: var(--link) }
nav { display: flex; flex-wrap: wrap; gap: .15rem 1.1rem; padding: .8rem 0; border-bottom: 1px solid var(--line);
  font-size: .9rem }
nav a { text-decoration: none }
nav a[aria-current] { color: var(--ink); font-weight: 600 }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 1.6rem 0 .6rem }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .5rem }
h3 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; overflow-wrap: anywhere }
h3 code { font: inherit }
p, ul { max-width: 50rem }
p:has(> .chart) { max-width: none }
.notes { background: var(--note); border-left: 4px solid var(--edge); padding: .7rem 1rem; margin: 1rem 0 }
.notes h2 { margin: 0 0 .3rem; font-size: 1.05rem }
.notes ul { margin: 0; padding-left: 1.1rem }
.notes li { overflow-wrap: anywhere }
.wide { overflow-x: auto; margin: .6rem 0 1rem }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .7rem .3rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line) }
th { border-bottom: 2px solid #888; white-space: nowrap }
td { max-width: 26rem }
.figure { text-align: right; white-space: nowrap }
.short, td code { white-space: nowrap }
.long { min-width: 16rem }
code { font: .875em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: anywhere }
pre { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 30rem; overflow-y: auto }
.chart { display: block; overflow-x: auto; padding: .3rem 0 }
.chart img { max-width: 100% }
.chart.vega-embed { width: 100%; padding-right: 0 }
.links, footer { font-size: .9rem; color: var(--quiet) }
footer { margin-top: 3rem; padding-top: .6rem; border-top: 1px solid var(--line) }
@media (max-width: 40rem) { body { padding: 0 .8rem 3rem } h1 { font-size: 1.4rem } table { font-size: .8rem } }
@media print { nav, .vega-embed summary { display: none } body { max-width: none; font-size: 11pt } a { color: inherit }
  h2, h3 { break-after: avoid } .wide, .chart { overflow: visible } table { font-size: 8pt } .long { min-width: 0 }
  .short { white-space: normal }
  tr, .chart, .notes li { break-inside: avoid } }
"""
PAGE = jinja2.Template(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<link rel="icon" href="data:,">
<style>{{ style }}</style>
{% for script in scripts %}<script src="{{ script }}"></script>
{% endfor %}</head>
<body>
<nav>{% for name, href in menu %}<a href="{{ href }}"{{ ' aria-current="page"'|safe if href == here }}>{{ name }}</a>
{% endfor %}</nav>
<main>
<h1>{{ title }}</h1>
{% if notes %}<section class="notes"><h2>{{ heading }}</h2><ul>
{% for note in notes %}<li>{{ note }}</li>
{% endfor %}</ul></section>
{% endif %}{{ body }}
{% if folded %}<details><summary>Options in full</summary>
{% for name, text in folded %}<h3>{{ name }}</h3><pre>{{ text }}</pre>
{% endfor %}</details>{% endif %}
{% if files %}<p class="links">Files: {% for name, href in files %}<a href="{{ href }}">{{ name }}</a>{{ ", " if not loop.last }}{% endfor %}</p>
{% endif %}</main>
<footer>{{ footer }}</footer>
{% if spec %}<script>
const spec = {{ spec }};
function fit(part) {  // narrow screens: shorter labels, narrower panels
  for (const key in part) {
    if (key === "labelLimit") part[key] = Math.min(part[key], 120);
    else if (key === "width" && part[key] > 220) part[key] = Math.max(180, window.innerWidth - 190);
    else if (key !== "datasets" && part[key] && typeof part[key] === "object") fit(part[key]);
  }
}
if (window.innerWidth < 640 && !(spec.usermeta || {}).fixedWidth) fit(spec);
if (typeof vegaEmbed === "undefined") document.querySelector("#chart").textContent =
  'No chart: its library could not be loaded. With pip install "truthgym[charts]" a report brings it along.';
else vegaEmbed("#chart", spec, {renderer: "svg", actions: {export: true, source: false, compiled: false, editor: false}})
  .catch(console.error);
</script>
{% endif %}</body>
</html>
""",  # noqa: E501
    autoescape=True,
)
PARSER = MarkdownIt("commonmark", {"html": False})


@dataclass(frozen=True)
class Page:
    """What a page shows."""

    title: str
    here: str
    """Its file name."""
    markdown: str
    notes: Sequence[str] = ()
    """Shown before everything else."""
    heading: str = "What cannot be concluded"
    """Of the notes."""
    figure: str = ""
    """File name of the chart in `markdown`. Its image becomes the interactive chart."""
    spec: str = ""
    """The chart as JSON of Vega-Lite. "": it has none."""
    files: Sequence[tuple[str, str]] = ()
    """Name and address of what can be saved."""
    footer: str = ""
    folded: Sequence[tuple[str, str]] = ()
    """Names and long texts that a click shows."""
    scripts: Sequence[str] = field(default=(), kw_only=True)
    """Addresses of the JavaScript that draws the chart."""


def html_of(page: Page, menu: Sequence[tuple[str, str]], links: Mapping[str, str]) -> str:
    """The page as HTML."""
    items = {f"- {note}" for note in page.notes}  # the page shows them first
    markdown = "\n".join(line for line in page.markdown.split("\n") if line not in items)
    html: str = PAGE.render(
        style=Markup(STYLE),
        menu=menu,
        body=Markup(_html(markdown, page.figure, links)),
        notes=[Markup(inline(note)) for note in page.notes],
        spec=Markup(for_script(page.spec)),
        **{name: getattr(page, name) for name in ("title", "here", "heading", "files", "footer", "folded", "scripts")},
    )
    return html


def inline(text: str) -> str:
    """A sentence of Markdown as HTML."""
    html: str = PARSER.renderInline(text)
    return html


def tables(markdown: str) -> str:
    """Markdown with tables as HTML, in which HTML is text."""
    return _html(markdown, "", {})


def _html(markdown: str, figure: str, links: Mapping[str, str]) -> str:
    """Markdown as HTML, in which HTML is text."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")

    def code(self: Any, tokens: Any, i: int, options: Any, env: Any) -> str:  # noqa: ANN401
        text = tokens[i].content
        name = Markup("<code>{}</code>").format(Path(text).name if text.endswith(".eval") else text)
        return str(Markup('<a href="{}">{}</a>').format(links[text], name) if text in links else name)

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
    columns: dict[int, list[tuple[Token, str]]] = {}
    column = 0
    for i, token in enumerate(tokens):
        if token.type == "tr_open":
            column = 0
        elif token.type in ("th_open", "td_open"):
            columns.setdefault(column, []).append((token, tokens[i + 1].content))
            column += 1
        elif token.type == "table_close":
            for cells in columns.values():
                texts = [text for token, text in cells if token.type == "td_open" and text not in ("", "-")]
                figures = bool(texts) and all(FIGURE.fullmatch(text) for text in texts)
                for token, text in cells:
                    kind = "figure" if figures else "long" if len(text) > LONG else "short" if len(text) < SHORT else ""
                    if kind:
                        token.attrSet("class", kind)
            columns = {}
