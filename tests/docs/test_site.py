"""The documentation site builds without a broken link, and shows formulas, data cards and docstrings offline."""

import re
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the site needs the extra `site`")
pytest.importorskip("latex2mathml", reason="the site needs the extra `site`")


@pytest.mark.slow
def test_site_builds_strictly_and_opens_offline(root: Path, tmp_path: Path) -> None:
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
