"""Writes the site: an overview, and a page, the numbers and the chart of each analysis."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import altair as alt
import pandas as pd

from truthgym.analysis.site.analyses import ANALYSES, BATCHES, BY, Options, analysis, check_options
from truthgym.analysis.site.overview import overview
from truthgym.analysis.site.page import html_of
from truthgym.analysis.tables.markdown import counted
from truthgym.analysis.tables.saving import EXTRA
from truthgym.analysis.tables.setups import Places, Runs, places_of, runs, runs_if_any
from truthgym.datasets.errors import BadInput, one_of

SCRIPT = "charts.js"
"""The JavaScript that draws all charts."""
CDN = "https://cdn.jsdelivr.net/npm"
VIEWER = "viewer"
"""Folder of Inspect's log viewer."""
INK, SIZE = "#1a1a1a", 12
TEXT = {"labelColor": INK, "titleColor": INK, "labelFontSize": SIZE, "titleFontSize": SIZE}
CONFIG = {"background": "white", "axis": TEXT, "legend": TEXT, "header": TEXT, "title": {"color": INK, "fontSize": 13}}
"""What a chart does not set itself."""


@dataclass
class Finding:
    name: str
    question: str
    notes: list[str] = field(default_factory=list)
    refusal: str = ""
    """Why there is nothing to show. "": there is something."""
    failed: bool = False
    """Whether the refusal is an error of Truthgym."""
    frame: pd.DataFrame | None = None
    markdown: str = ""
    spec: str = ""
    files: list[tuple[str, str]] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether these logs have nothing to show. Its page, with the reason, is written but not linked."""
        return bool(self.refusal) and not self.failed

    @property
    def remark(self) -> str:
        """What the overview says of its page: why it failed, or how many caveats it has."""
        return self.refusal or counted(len(self.notes), "caveat") * bool(self.notes)

    @property
    def figure(self) -> str:
        return f"{self.name}.svg"


def build(
    logs: Places,
    out: Path,
    only: Sequence[str] = (),
    bundle: bool = False,
    say: Callable[[str], None] = print,
    options: Options | None = None,
    unfinished: bool = False,
    by: str = "",
    viewer: str = "",
) -> list[Finding]:
    """Write the site to a folder, as `truthgym report` does. Of what has nothing to say, or fails, a page says why."""
    options = dict(options or {})
    for name in only:
        one_of("analysis", name, ANALYSES)
    for name in set(only or ANALYSES).intersection(BY if by else ()):
        options[name] = {"by": by, **options.get(name, {})}
    check_options(options)
    for name in options:
        one_of("analysis with options", name, only or ANALYSES)
    batches = [place for place in places_of(logs) if Path(place).is_dir()]
    evals = runs(logs, unfinished=unfinished)
    out.mkdir(parents=True, exist_ok=True)
    scripts = _scripts(out)
    findings = []
    for name in (*[BATCHES] * (len(batches) > 1), *(only or ANALYSES)):
        finding = _find(name, batches if name == BATCHES else evals, out, options.get(name, {}))
        findings.append(finding)
        say(f"{finding.name}: {finding.refusal or finding.question}")
    links = _bundled(evals, out) if bundle else _served(evals, viewer)
    full = [finding for finding in findings if not finding.empty]
    menu = [("Overview", "index.html"), *((found.name.replace("_", " "), f"{found.name}.html") for found in full)]
    first = overview(
        evals,
        {finding.name: finding.frame for finding in findings if finding.frame is not None},
        [(f"{found.name}.html", found.question, found.remark) for found in full],
        [f"{empty.question} {' '.join(empty.refusal.split())}" for empty in findings if empty.empty],
        links,
        local=any(link.startswith(VIEWER) for link in links.values()),
    )

    def write(name: str, **page: Any) -> None:
        html = html_of(
            menu, links, here=f"{name}.html", footer=f"Written by truthgym report from {evals.place}.", **page
        )
        (out / f"{name}.html").write_text(html, encoding="utf-8")

    write("index", title="What do these logs say?", html=first, folded=evals.long_options)
    for finding in findings:
        write(
            finding.name,
            title=finding.question,
            markdown=finding.markdown or f"Nothing can be shown: {finding.refusal}",
            notes=finding.notes,
            figure=finding.figure,
            spec=finding.spec,
            files=finding.files,
            scripts=scripts * bool(finding.spec),
        )
    return findings


def _find(name: str, logs: Places, out: Path, options: Mapping[str, Any]) -> Finding:
    module = analysis(name)
    finding = Finding(name, module.QUESTION)
    try:
        frame = finding.frame = module.load(logs, **options)
        finding.notes = list(dict.fromkeys([*runs_if_any(logs).omissions, *frame.attrs.get("notes", [])]))
        finding.files += _write_tables(name, frame, out)
        try:
            chart = module.chart(frame)
        except BadInput as error:
            finding.notes.append(f"There is no chart: {error.message}")
        else:
            finding.spec = _spec(chart)
            finding.files += _write_pictures(name, finding.spec, out)
        settings = ", ".join(f"`{option}={value}`" for option, value in options.items())
        finding.markdown = f"With {settings}.\n\n" * bool(options)
        finding.markdown += module.report(frame, finding.figure if finding.spec else "")
    except BadInput as error:
        finding.refusal = str(error.message).replace("\\[", "[")
    except Exception as error:  # of one analysis, which must not cost the user the others
        finding.refusal = f"an error in Truthgym ({type(error).__name__}: {error}); please report it"
        finding.failed, finding.markdown = True, ""
    return finding


def _spec(chart: alt.TopLevelMixin) -> str:
    with alt.data_transformers.enable("default", max_rows=None):
        spec = chart.to_dict()
    own = spec.get("config", {})
    own |= {name: value | own.get(name, {}) if isinstance(value, dict) else value for name, value in CONFIG.items()}
    return json.dumps(spec | {"config": own}, allow_nan=False, default=str)


def _write_pictures(name: str, spec: str, out: Path) -> list[tuple[str, str]]:
    """The chart as .svg and .png, if vl-convert is installed."""
    if find_spec("vl_convert") is None:
        return []
    import vl_convert

    (out / f"{name}.svg").write_text(vl_convert.vegalite_to_svg(spec), encoding="utf-8")
    (out / f"{name}.png").write_bytes(vl_convert.vegalite_to_png(spec, scale=2))
    return [("chart (SVG)", f"{name}.svg"), ("chart (PNG)", f"{name}.png")]


def _write_tables(name: str, frame: pd.DataFrame, out: Path) -> list[tuple[str, str]]:
    """The table and those in its attributes, as .csv."""
    files = []
    for key, rows in {"": frame, **frame.attrs}.items():
        if isinstance(rows, pd.DataFrame) or (isinstance(rows, list) and rows and isinstance(rows[0], dict)):
            file = f"{name}{f'_{key}' * bool(key)}.csv"
            pd.DataFrame(rows).to_csv(out / file, index=False)
            files.append((f"{key or 'all numbers'} (CSV)", file))
    return files


def _scripts(out: Path) -> list[str]:
    """Write the JavaScript of the charts. Without vl-convert it is loaded from a CDN, and one line says so."""
    if find_spec("vl_convert") is None:
        print(f"The charts need a network connection to open; to include their JavaScript: {EXTRA}", file=sys.stderr)
        versions = {"vega": alt.VEGA_VERSION, "vega-lite": alt.VEGALITE_VERSION, "vega-embed": alt.VEGAEMBED_VERSION}
        return [f"{CDN}/{name}@{version}" for name, version in versions.items()]
    import vl_convert

    script = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # without a snippet, as its own default
    (out / SCRIPT).write_text(script, encoding="utf-8")
    return [SCRIPT]


def _served(evals: Runs, viewer: str) -> dict[str, str]:
    """The address of each log in the viewer of the folder that holds all of them."""
    folders = [path if path.is_dir() else path.parent for path in map(Path, evals.places)]
    if not viewer or any("://" in place for place in evals.places):
        return {}
    base = Path(os.path.commonpath([folder.resolve() for folder in folders]))
    paths = {run.log.path: Path(run.log.path).resolve().relative_to(base).as_posix() for run in evals}
    return {path: f"{viewer.partition('#')[0].rstrip('/')}/#/logs/{quote(name)}" for path, name in paths.items()}


def _bundled(evals: Runs, out: Path) -> dict[str, str]:
    """Write Inspect's log viewer with the logs that are on this machine. Returns the address of each log in it."""
    from inspect_ai.log import bundle_log_dir

    links: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, run in enumerate(evals):
            path = Path(run.log.path)
            if path.is_file():
                name = path.name if not Path(folder, path.name).exists() else f"{number}_{path.name}"
                shutil.copyfile(path, Path(folder, name))  # Inspect does not follow links
                links[run.log.path] = f"{VIEWER}/index.html#/logs/{quote(name)}"
        bundle_log_dir(folder, str(out / VIEWER), overwrite=True)
    return links
