"""Writes docs/gallery.md and its pictures from examples/logs.

make gallery
"""

import shutil
import tempfile
from pathlib import Path

from truthgym.analysis.site.build import Finding, build

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


if __name__ == "__main__":
    pictures = PAGE.with_suffix("")
    shutil.rmtree(pictures, ignore_errors=True)
    pictures.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        findings = build(LOGS, Path(folder), options=OPTIONS)
        for one in findings:
            if one.spec:
                shutil.copy(Path(folder, one.figure), pictures)
    assert not any(one.failed for one in findings), [one.refusal for one in findings if one.failed]
    page = "\n\n".join([HEAD, *map(section, findings)]) + "\n"
    PAGE.write_text(page.replace(f"{LOGS.parent.parent}/", ""), encoding="utf-8")  # no path of this machine
