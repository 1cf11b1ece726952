"""Writes the page of a study anew, as its command does."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from studies.study import DOCS, Study, with_texts


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., str]:
    """Writes a study's page with the given sizes and returns it without its comments. No published number is left."""

    def write(study: Study, **sizes: int) -> str:
        out, published = tmp_path / study.page, (DOCS / study.page).read_text(encoding="utf-8")
        names = set(re.findall(r"<!-- ([^:>]+) -->", published)) - {"end"}
        out.write_text(with_texts(published, dict.fromkeys(names, "(old)"), study.page), encoding="utf-8")
        study.write(out, **sizes)
        page = out.read_text(encoding="utf-8")
        assert not re.search(r"\bnan\b|\(old\)", page)
        return re.sub("<!--.*?-->", "", page)

    return write
