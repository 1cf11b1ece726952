"""Writes docs/gallery.md and its pictures from examples/logs, and screenshots of the report and of `truthgym ui`.

make gallery      (the screenshots need Playwright and a Chromium of the system)
"""

import shutil
import tempfile
import threading
from pathlib import Path

import uvicorn
from playwright.sync_api import sync_playwright

from truthgym.analysis.site.build import Finding, build
from truthgym.ui.app import app

PAGE = Path(__file__).with_suffix(".md")
LOGS = PAGE.parent.parent / "examples" / "logs"
HEAD = """# Gallery

What `truthgym report examples/logs --out report` draws: one picture for each question, here of simulated agents and
of SmolLM2 (135 million parameters). The report's pages are interactive, and have the tables and what cannot be
concluded. No model was trained between these logs: the options of `training_effect` compare two agents as if one had
become the other. Written by `make gallery`.
"""
OPTIONS = {"training_effect": {"before": "reference/entrenched", "after": "reference/overreacting"}}


def section(finding: Finding) -> str:
    """The picture of an analysis."""
    options = "".join(f" `-A {finding.name}.{name}={value}`" for name, value in OPTIONS.get(finding.name, {}).items())
    parts = [f"## {finding.question}", f"`{finding.name}`{options}"]
    if finding.refusal:
        parts.append(f"Nothing can be shown of these logs: {finding.refusal.split(' The questions have')[0]}")
    if finding.spec:
        parts.append(f"![{finding.question}](gallery/{finding.figure})")
    return "\n\n".join(parts)


def screenshots(report: Path, out: Path) -> None:
    """The first page of a report, and the page on which a run is composed."""
    server = uvicorn.Server(uvicorn.Config(app(report.parent), port=PORT, log_level="warning"))
    threading.Thread(target=server.run, daemon=True).start()
    try:
        with sync_playwright() as running:
            browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1100, "height": 640})
            for name, address in (("report", (report / "index.html").as_uri()), ("ui", f"http://127.0.0.1:{PORT}/")):
                page.goto(address)
                page.wait_for_timeout(5000)  # charts are drawn after the page has loaded
                page.screenshot(path=out / f"{name}.png")
            browser.close()
    finally:
        server.should_exit = True


PORT = 7171
"""Of the page on which runs are composed, while its screenshot is taken."""

if __name__ == "__main__":
    pictures = PAGE.with_suffix("")
    shutil.rmtree(pictures, ignore_errors=True)
    pictures.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        findings = build(LOGS, Path(folder), options=OPTIONS)
        for one in findings:
            if one.spec:
                shutil.copy(Path(folder, one.figure), pictures)
        screenshots(Path(folder), pictures)
    assert not any(one.failed for one in findings), [one.refusal for one in findings if one.failed]
    page = "\n\n".join([HEAD, *map(section, findings)]) + "\n"
    PAGE.write_text(page.replace(f"{LOGS.parent.parent}/", ""), encoding="utf-8")  # no path of this machine
