"""The documentation site builds without a broken link, and shows formulas, data cards and docstrings offline."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml


def pages_of(nav: list[dict[str, Any] | str]) -> Iterator[str]:
    """The pages that a navigation names."""
    for entry in nav:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            if isinstance(value, str):
                yield value
            else:
                yield from pages_of(value)


def test_every_page_is_in_the_navigation_once(root: Path) -> None:
    named = list(pages_of(yaml.safe_load((root / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    assert len(set(named)) == len(named)
    assert {path.name for path in root.glob("docs/*.md")} - set(named) == set()


@pytest.mark.slow
def test_site_builds_strictly_and_opens_offline(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the site needs the extra `site`")
    pytest.importorskip("latex2mathml", reason="the site needs the extra `site`")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    build(load_config(str(root / "mkdocs.yml"), site_dir=str(tmp_path), strict=True))  # aborts at the first broken link

    rewards = (tmp_path / "rewards.html").read_text(encoding="utf-8")
    assert "<math" in rewards
    assert "arithmatex" not in rewards
    assert "pretty_name" not in (tmp_path / "datasets" / "urns.html").read_text(encoding="utf-8")
    assert 'href="../agents.html"' in (tmp_path / "datasets" / "agent_bench_mini.html").read_text(encoding="utf-8")
    docstrings = (tmp_path / "docstrings.html").read_text(encoding="utf-8")
    assert "Ask which of two causes produced the observations." in docstrings
    assert (tmp_path / "search" / "search_index.json").is_file()
    pages = [page.read_text(encoding="utf-8") for page in tmp_path.rglob("*.html")]
    loaded = re.compile(r'<(?:script|img|iframe)[^>]+src="https?:|<link[^>]+rel="stylesheet"[^>]+href="https?:')
    assert [page for page in pages if loaded.search(page)] == []
    assert [page for page in pages if 'data-md-component="source"' in page] == []  # the script asks GitHub for each
    assert [page for page in pages if re.search(r"\| ?---", page)] == []  # a table that was left as text
