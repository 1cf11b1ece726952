"""Hooks of mkdocs.yml: pages from outside of docs/, links between them, formulas, and the docstrings.

Links stay as GitHub needs them, relative to the repository. Here they become links of the site, and those to source
files become links to the repository.
"""

import html
import inspect
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

from truthgym.ui.forms.registry import registered

ROOT = Path(__file__).parent.parent
OUTSIDE = (
    "datasets/*.md",
    "datasets/sources/*.md",
    "studies/**/README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
)
LINK = re.compile(r"\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")
SEARCH = {
    **dict.fromkeys(("faq.md", "start.md", "terms.md", "own_questions.md", "own_task.md"), 2.0),
    **dict.fromkeys(("brier.md", "martingale.md", "compare.md", "models.md", "modes.md"), 1.5),
    **dict.fromkeys(("cost_", "loop_urns.md", "migration.md", "results.md", "validity_", "worlds.md"), 0.5),
    **dict.fromkeys(("CHANGELOG.md", "docstrings.md", "studies/", "reward_methods.md", "training_"), 0.3),
    "datasets/": 0.1,
}
"""How much more a page counts in the search than others, by the beginning of its path."""
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Files, config: Any) -> Files:  # noqa: ANN401
    """Add the pages from outside of docs/, the list of data cards, and the docstrings."""
    cards = []
    for path in sorted(path for pattern in OUTSIDE for path in ROOT.glob(pattern)):
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
        if name.startswith("datasets/"):
            cards.append(f"- [{path.stem}](../{name})")
    files.append(File.generated(config, "cards.md", content="# Data cards\n\n" + "\n".join(cards) + "\n"))
    page = "# Docstrings\n\n" + "\n\n".join(docstrings()) + "\n"
    files.append(File.generated(config, "docstrings.md", content=page))
    return files


def docstrings() -> Iterator[str]:
    """A section for each task, solver and scorer."""
    for kind, name, function in registered():
        text = f"{name}{inspect.signature(function)}\n\n{inspect.getdoc(function) or ''}"
        yield f"## {name}\n\n{kind.title}, `{kind.option}`\n\n```text\n{text.replace('```', '`')}\n```"


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:  # noqa: ANN401
    """Turn links that hold in the repository into links of the site."""
    here = page.file.src_uri
    if weight := next((weight for start, weight in SEARCH.items() if here.startswith(start)), None):
        page.meta["search"] = {"boost": weight}
    generated = here in ("cards.md", "docstrings.md")
    source = here if (ROOT / here).is_file() and not generated else f"docs/{here}"

    def linked(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[1]))
        on_site = target.removeprefix("docs/")
        if files.get_file_from_path(on_site):
            return f"]({posixpath.relpath(on_site, posixpath.dirname(here) or '.')}{found[2] or ''})"
        if (ROOT / target).exists():
            return f"]({config['repo_url']}/blob/main/{target}{found[2] or ''})"
        return found[0]  # mkdocs reports it

    return LINK.sub(linked, markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Write formulas as MathML, which browsers show without a script."""

    def mathml(found: re.Match[str]) -> str:
        formula = convert(html.unescape(found[2]), display="block" if found[1] == "div" else "inline")
        return f'<div style="overflow-x: auto">{formula}</div>' if found[1] == "div" else formula

    return FORMULA.sub(mathml, content)


def on_post_page(output: str, **_: Any) -> str:
    """Keep the theme's script from asking GitHub for the number of stars: no page asks any other machine."""
    return output.replace('data-md-component="source"', "")


on_post_template = on_post_page
