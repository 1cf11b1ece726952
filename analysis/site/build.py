"""Writes the site: an overview, and a page, the numbers and the chart of each analysis."""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import altair as alt
import pandas as pd

from truthgym.analysis import leaderboard, performance
from truthgym.analysis.site.analyses import ANALYSES, BATCHES, Options, analysis, check_options
from truthgym.analysis.site.page import Page, html_of
from truthgym.analysis.tables.markdown import counted, table
from truthgym.analysis.tables.saving import EXTRA
from truthgym.analysis.tables.setups import Places, Runs, omissions, places_of, runs
from truthgym.datasets.errors import BadInput, one_of

SCRIPT = "charts.js"
"""The JavaScript that draws all charts."""
CDN = "https://cdn.jsdelivr.net/npm"
VIEWER = "viewer"
"""Folder of Inspect's log viewer."""
NOTES_SHOWN = 2
"""Notes of an analysis on the overview."""
INK, SIZE = "#1a1a1a", 12
TEXT = {"labelColor": INK, "titleColor": INK, "labelFontSize": SIZE, "titleFontSize": SIZE}
CONFIG = {"background": "white", "axis": TEXT, "legend": TEXT, "header": TEXT, "title": {"color": INK, "fontSize": 13}}
"""What a chart does not set itself."""


@dataclass
class Finding:
    """What an analysis found."""

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
    def figure(self) -> str:
        return f"{self.name}.svg"

    def page(self, footer: str, scripts: Sequence[str]) -> Page:
        """Its page: what was found, or why there is nothing to show."""
        return Page(
            self.question,
            f"{self.name}.html",
            self.markdown or f"Nothing can be shown: {self.refusal}",
            self.notes,
            figure=self.figure,
            spec=self.spec,
            files=self.files,
            footer=footer,
            scripts=scripts if self.spec else (),
        )


def build(
    logs: Places,
    out: Path,
    only: Sequence[str] = (),
    bundle: bool = False,
    say: Callable[[str], None] = print,
    options: Options | None = None,
    unfinished: bool = False,
) -> list[Finding]:
    """Write the site to a folder. It opens from disk at index.html.

    With `unfinished` the samples of runs that never finished count too; each page says of which runs they are.

    An analysis that has nothing to say of these logs gets a page with the reason. One that fails gets a page with the
    error, and the others are written.
    """
    options = options or {}
    for name in only:
        one_of("analysis", name, ANALYSES)
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
    links = _bundled(evals, out) if bundle else {}
    entries = [(finding.name.replace("_", " "), f"{finding.name}.html") for finding in findings if not finding.empty]
    menu = [("Overview", "index.html"), *entries]
    footer = f"Written by truthgym report from {evals.place}."
    overview = Page(
        "What do these logs say?",
        "index.html",
        _overview(evals, findings, bundle),
        footer=footer,
        folded=evals.long_options,
    )
    for page in [overview, *(finding.page(footer, scripts) for finding in findings)]:
        (out / page.here).write_text(html_of(page, menu, links), encoding="utf-8")
    return findings


def _find(name: str, logs: Places, out: Path, options: Mapping[str, Any]) -> Finding:
    """Run an analysis and write its files."""
    module = analysis(name)
    finding = Finding(name, module.QUESTION)
    try:
        frame = finding.frame = module.load(logs, **options)
        finding.notes = list(dict.fromkeys([*omissions(logs), *frame.attrs.get("notes", [])]))
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
    spec["config"] = own | {
        name: value | own.get(name, {}) if isinstance(value, dict) else value for name, value in CONFIG.items()
    }
    return json.dumps(spec, allow_nan=False, default=str)


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


def _overview(evals: Runs, findings: Sequence[Finding], bundle: bool) -> str:
    models, setups = ({getattr(run, part) for run in evals} for part in ("model", "setup"))
    results = [run.log.header.results for run in evals]
    answers = sum(result.completed_samples for result in results if result)
    parts = [
        f"{counted(len(evals), 'run')} of {counted(len(models), 'model')} in {counted(len(setups), 'setup')}, "
        f"with {counted(answers, 'answer')}.\n",
        "".join(f"- {omission}\n" for omission in evals.omissions),
        *_leaders(findings),
        *_scores(findings),
        "## All questions\n",
    ]
    rows = [
        f"| [{finding.question}]({finding.name}.html) | {_state(finding)} |"
        for finding in findings
        if not finding.empty
    ]
    parts.append("\n".join(["| question | shown |", "|---|---|", *rows, ""]))
    if empty := [f"- {finding.question} {' '.join(finding.refusal.split())}" for finding in findings if finding.empty]:
        parts.append("\n".join(["Nothing can be shown of:\n", *empty, ""]))
    parts.append("## What cannot be concluded\n")
    for finding in findings:
        notes = [note for note in finding.notes if note not in evals.omissions]
        if notes:
            more = len(notes) - NOTES_SHOWN
            first = [f"- {note}" for note in notes[:NOTES_SHOWN]] + [f"- And {more} more."] * (more > 0)
            parts.append("\n".join([f"[{finding.question}]({finding.name}.html)\n", *first, ""]))
    if bundle:
        parts.append(
            f"The logs open in [Inspect's viewer]({VIEWER}/index.html) when this folder is served, as browsers do not "
            "load it from disk: `python -m http.server --directory` and the folder's name.\n"
        )
    return "\n".join(parts)


def _state(finding: Finding) -> str:
    if finding.refusal:
        return finding.refusal.replace("|", "\\|").replace("\n", " ")
    number = len(finding.notes)
    return f"yes, with {number} caveat{'s' * (number > 1)}" if number else "yes"


def _frame_of(findings: Sequence[Finding], name: str) -> pd.DataFrame | None:
    return next((finding.frame for finding in findings if finding.name == name), None)


def _scores(findings: Sequence[Finding]) -> Iterator[str]:
    """The estimates with their verdicts, if they were among the analyses."""
    frame = _frame_of(findings, "performance")
    if frame is not None:
        yield "## Scores\n\nThe first of them; [all, with what the verdicts mean](performance.html).\n"
        yield performance.scores(frame)


def _leaders(findings: Sequence[Finding]) -> Iterator[str]:
    """The leaderboard, if it was among the analyses and has something to say."""
    frame = _frame_of(findings, "leaderboard")
    if frame is not None:
        caveats = "Read first [what cannot be concluded](leaderboard.html) from it. " * bool(frame.attrs["notes"])
        yield f"## Leaderboard\n\n{caveats}Models with ranks in common are tied.\n"
        yield table(leaderboard.leaderboard(frame), ("score", "setup", "rank", "model", "n"))
