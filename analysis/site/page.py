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
:root { color-scheme: light dark; --page: #fff; --ink: #1a1a1a; --quiet: #555; --line: #d5d5d5; --link: #0b5394;
  --note: #fff7e0; --edge: #b8860b; --mark: #0072b2; --soft: #f4f5f7; --chart: none }
@media (prefers-color-scheme: dark) { :root { --page: #15171a; --ink: #e8e8e8; --quiet: #a9adb3; --line: #3a3e44;
  --link: #8ab8ee; --note: #2b2616; --edge: #c79a2b; --mark: #62b5e8; --soft: #1f2226;
  --chart: invert(.91) hue-rotate(180deg) } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 110rem; padding: 0 clamp(.8rem, 2vw, 2.5rem) 4rem; background: var(--page);
  color: var(--ink); font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif }
a { color: var(--link) }
nav { display: flex; flex-wrap: wrap; gap: .15rem 1.1rem; padding: .8rem 0; border-bottom: 1px solid var(--line);
  font-size: .9rem }
nav a { text-decoration: none }
nav a[aria-current] { color: var(--ink); font-weight: 600 }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 1.1rem 0 .3rem }
h2 { font-size: 1.25rem; margin: 2rem 0 .5rem }
h3 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; overflow-wrap: anywhere }
h3 code { font: inherit }
p, ul { max-width: 62rem; overflow-wrap: anywhere }
p:has(> .chart) { max-width: none }
summary { cursor: pointer }
.quiet, i { color: var(--quiet); font-style: normal }
.quiet { font-size: .85rem }
.notes { background: var(--note); border-left: 4px solid var(--edge); padding: .7rem 1rem; margin: 1rem 0 }
.notes h2 { margin: 0 0 .3rem; font-size: 1.05rem }
.notes ul { margin: 0; padding-left: 1.1rem; max-width: none }
.domain { border-top: 1px solid var(--line); margin-top: 1.4rem }
.domain > h2 { margin: .8rem 0 0 }
.finding { font-size: 1.08rem; margin: .15rem 0 .6rem; max-width: none }
.beside { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1.1fr); gap: 0 1.5rem; align-items: start }
.three { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .6rem }
.card { background: var(--soft); border-radius: .4rem; padding: .55rem .7rem; font-size: .82rem; line-height: 1.4;
  overflow-wrap: anywhere; min-width: 0 }
.card h3 { margin: 0; font-size: .85rem } .card h3 i { font-weight: 400; display: block }
.card p { margin: .3rem 0 0 }
.asked { color: var(--quiet); display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 3;
  overflow: hidden }
.outcome { font-weight: 600 }
.said { margin: .3rem 0 0 }
.said q { display: block; white-space: pre-wrap; border-left: 3px solid var(--mark); padding-left: .5rem; quotes: none }
.said > q { max-height: 24rem; overflow-y: auto }
.said summary { list-style: none } .said summary::after { content: "all its words"; color: var(--link) }
.said[open] summary q { display: none } .said[open] summary::after { content: "fewer" }
.where { color: var(--quiet); font-size: .72rem }
.rest > summary { font-size: .85rem }
.row { border-bottom: 1px solid var(--line) }
.row > summary, .axis { display: grid; grid-template-columns: minmax(7rem, 13rem) minmax(5rem, 1fr) 10.5rem;
  gap: 0 .8rem; align-items: center; list-style: none; padding: .28rem 0; font-size: .85rem; line-height: 1.25 }
.row > summary:hover { background: var(--soft) }
.row > .three { padding: .2rem 0 .7rem }
.who { overflow-wrap: anywhere }
.number { font-variant-numeric: tabular-nums } .number i { display: inline-block }
.track { position: relative; display: block; height: 1.1rem }
.track i { position: absolute; top: 0 }
.ref { height: 100%; border-left: 2px dashed var(--quiet) }
.track .bar { top: .47rem; height: 3px; background: var(--mark); border-radius: 2px }
.track .dot { top: .2rem; width: .7rem; height: .7rem; margin-left: -.35rem; border-radius: 50%;
  background: var(--mark) }
.weak .bar { opacity: .5 } .weak .dot { background: var(--page); border: 2px solid var(--mark) }
.axis .track i { transform: translateX(-50%); font-size: .75rem }
.pages { columns: 22rem; column-gap: 2rem; max-width: none; padding-left: 1.1rem }
.wide { overflow-x: auto; margin: .6rem 0 1rem }
table { border-collapse: collapse; font-size: .84rem; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .6rem .3rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line) }
th { border-bottom: 2px solid #888; vertical-align: bottom }
td { max-width: 34rem; overflow-wrap: break-word }
td code { overflow-wrap: anywhere }
.figure { text-align: right; white-space: nowrap }
th.figure { white-space: normal }
.long { min-width: 9rem; overflow-wrap: anywhere }
code { font: .875em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: anywhere }
pre { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 30rem; overflow-y: auto }
.chart { display: block; overflow-x: auto; padding: .3rem 0 }
.chart img { max-width: 100% }
.chart img, .chart svg { filter: var(--chart) }
.chart.vega-embed { width: 100%; padding-right: 0 }
.links, footer { font-size: .9rem; color: var(--quiet) }
footer { margin-top: 3rem; padding-top: .6rem; border-top: 1px solid var(--line) }
@media (max-width: 62rem) { .beside { grid-template-columns: minmax(0, 1fr) } }
@media (max-width: 40rem) { h1 { font-size: 1.4rem } table { font-size: .8rem }
  nav { flex-wrap: nowrap; overflow-x: auto; white-space: nowrap } .three { grid-template-columns: minmax(0, 1fr) }
  .row > summary { grid-template-columns: minmax(0, 1fr) auto; gap: 0 .6rem }
  .row .track { grid-row: 2; grid-column: 1 / -1 } .axis { display: block } .axis > span:not(.track) { display: none } }
@media print { nav, .vega-embed summary { display: none } body { max-width: none; font-size: 11pt } a { color: inherit }
  h2, h3 { break-after: avoid } .wide, .chart { overflow: visible } table { font-size: 8pt } .long { min-width: 0 }
  tr, .chart, .notes li, .card { break-inside: avoid } }
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
const room = document.querySelector("#chart").clientWidth - 8;
function widths(part, change) {  // of the panels, and of their labels
  for (const key in part) {
    if (key === "datasets" || !part[key]) continue;
    if (key === "width" && part[key] >= 100) part[key] = change(part[key]);
    else if (key === "labelLimit" && room < 640) part[key] = Math.min(part[key], 120);
    else if (typeof part[key] === "object") widths(part[key], change);
  }
}
function across(part) {  // the panels that stand side by side, in pixels
  if (part.hconcat) return part.hconcat.reduce((sum, one) => sum + across(one), 0);
  if (part.vconcat) return Math.max(...part.vconcat.map(across));
  if (part.concat) return Math.max(...part.concat.map(across)) * Math.min(part.columns || 99, part.concat.length);
  return part.width >= 100 ? part.width : 200;
}
function draw() {
  return vegaEmbed("#chart", spec, {renderer: "svg", actions: {export: true, source: false, compiled: false, editor: false}});
}
function fit() {  // to the width of the window, once the widths of labels are seen
  const drawn = document.querySelector("#chart svg").width.baseVal.value, panels = across(spec);
  if (spec.concat && spec.columns) {
    const one = drawn / Math.min(spec.columns, spec.concat.length);
    spec.columns = Math.max(1, Math.floor(room / one));
    if (one > room) widths(spec, width => Math.max(120, width * (room - one + width) / width));
  } else {
    const ratio = Math.min(2, (room - (drawn - panels)) / panels);
    if (Math.abs(ratio - 1) < .05) return;
    widths(spec, width => Math.max(120, Math.floor(width * ratio)));
  }
  return draw();
}
if (typeof vegaEmbed === "undefined") document.querySelector("#chart").textContent =
  'No chart: its library could not be loaded. With pip install "truthgym[charts]" a report brings it along.';
else draw().then(() => (spec.usermeta || {}).fixedWidth || fit()).catch(console.error);
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
    markdown: str = ""
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
    html: Markup = field(default=Markup(), kw_only=True)
    """Shown before the Markdown."""


def html_of(page: Page, menu: Sequence[tuple[str, str]], links: Mapping[str, str]) -> str:
    """The page as HTML."""
    items = {f"- {note}" for note in page.notes}  # the page shows them first
    markdown = "\n".join(line for line in page.markdown.split("\n") if line not in items)
    html: str = PAGE.render(
        style=Markup(STYLE),
        menu=menu,
        body=page.html + Markup(_html(markdown, page.figure, links)),
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
