"""Saves what an analysis found: its table as .csv, its chart as .html, .svg, .png or .json, or a .md page with both."""

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from truthgym.analysis.tables.markdown import counted
from truthgym.analysis.tables.setups import runs_if_any
from truthgym.datasets.errors import BadInput

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

EXTRA = 'pip install -e ".[charts]"'
PAGE = """# Results

<!-- results: written by {analysis} -->
<!-- end -->
"""
"""A new page. `analysis` is the module that wrote it."""


class ForScript(json.JSONEncoder):
    """JSON that may stand in a script element: no text in it opens a comment or ends the element."""

    def encode(self, o: Any) -> str:  # noqa: ANN401
        return for_script(super().encode(o))


def for_script(text: str) -> str:
    """JSON text with each < as its escape, which a script element takes for no tag."""
    return text.replace("<", "\\u003c")


def check_extra() -> None:
    """Check that charts can be drawn without a browser."""
    if find_spec("vl_convert") is None:
        raise BadInput(f"Charts as .svg or .png need vl-convert, which is not installed; {EXTRA}, or write .html")


def save(
    frame: "pd.DataFrame",
    chart: "Callable[[pd.DataFrame], alt.TopLevelMixin]",
    out: Path,
    report: "Callable[[pd.DataFrame, str], str] | None" = None,
) -> None:
    """Write a table or its chart, by the suffix of `out`; a .md file gets the report, with the chart beside it."""
    match out.suffix:
        case ".md" if report:
            figure, spec = out.with_suffix(".svg"), sys.modules[report.__module__].__spec__
            name = spec.name if spec else report.__module__  # also where `python -m` calls it __main__
            page = out.read_text(encoding="utf-8") if out.is_file() else PAGE.format(analysis=name)
            save(frame, chart, figure)
            out.write_text(between(page, "results", report(frame, figure.name), str(out)), encoding="utf-8")
        case ".csv":
            frame.to_csv(out, index=False)
        case ".html":
            offline = find_spec("vl_convert") is not None
            chart(frame).save(out, inline=offline, json_kwds={"cls": ForScript})
            if not offline:
                print(f"{out} needs a network connection to open; to embed its JavaScript: {EXTRA}", file=sys.stderr)
        case ".json":
            chart(frame).save(out)
        case ".svg" | ".png":
            check_extra()
            chart(frame).save(out)
        case suffix:
            formats = ".csv, .html, .svg, .png" + ", .json or .md" if report else ".csv, .html, .svg, .png or .json"
            raise BadInput(f"{out}: {suffix!r} is not a format; give {formats}")


def say_unreadable(sentences: Sequence[str]) -> bool:
    """Print what of the logs cannot be read, as the last lines of a command. Returns whether there was anything."""
    if sentences:
        were = "was" if len(sentences) == 1 else "were"
        last = f"Incomplete: {counted(len(sentences), 'file')} could not be read and {were} left out."
        print(*sentences, last, sep="\n", file=sys.stderr)
    return bool(sentences)


def between(page: str, what: str, generated: str, place: str) -> str:
    """A page with new text between each comment for this generated text and the next end comment."""

    def replacement(match: re.Match[str]) -> str:
        lines = match[2] and (not match[3] or match[3].endswith("\n"))
        return f"{match[1]}{match[2]}{generated}" + ("\n" if lines else "") + match[4]

    text, count = re.subn(rf"(<!-- {what}(?:: [^\n]*?)? -->)(\n?)(.*?)(<!-- end -->)", replacement, page, flags=re.S)
    if not count:
        raise BadInput(f"{place} has no lines `<!-- {what} -->` and `<!-- end -->` to write between; add them")
    return text


def options_of(load: Callable[..., object]) -> dict[str, Any]:
    """The options of an analysis with their defaults: the arguments of its `load` but the logs. All take text."""
    _, *others = signature(load).parameters.values()
    return {parameter.name: parameter.default for parameter in others}


def main(
    load: "Callable[..., pd.DataFrame]",
    chart: "Callable[[pd.DataFrame], alt.TopLevelMixin]",
    description: str | None,
    report: "Callable[[pd.DataFrame, str], str] | None" = None,
) -> None:
    """The command of an analysis: logs in, a table or chart out."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs")
    parser.add_argument("out", type=Path)
    for name, default in options_of(load).items():
        parser.add_argument(f"--{name}", default=default)
    options: dict[str, Any] = vars(parser.parse_args())
    logs, out = options.pop("logs"), options.pop("out")
    try:
        frame = load(logs, **options)
        frame.attrs["notes"] = list(dict.fromkeys([*runs_if_any(logs).omissions, *frame.attrs.get("notes", [])]))
        save(frame, chart, out, report)
        say_unreadable(runs_if_any(logs).unreadable)
    except (BadInput, FileNotFoundError) as error:
        Console(stderr=True, soft_wrap=True, highlight=False).print(str(error))
        sys.exit(1)
