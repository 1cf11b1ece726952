import re
from importlib import import_module, metadata
from pathlib import Path

import pytest

from truthgym.datasets.inspect_private import PRIVATE


@pytest.mark.parametrize("name", PRIVATE)
def test_inspect_still_has_the_name(name: str) -> None:
    try:
        there = hasattr(import_module(PRIVATE[name]), name)
    except ImportError:
        there = False
    if not there:
        pytest.fail(f"Inspect {metadata.version('inspect_ai')} has no {PRIVATE[name]}.{name} any more", pytrace=False)


def test_no_other_file_imports_a_private_name(root: Path) -> None:
    rooms = "analysis cli datasets evallog examples models scorers serve solvers sweep tasks training ui"
    importing = {
        path.name
        for room in rooms.split()
        for path in (root / room).rglob("*.py")
        if re.search(r"(from|import) inspect_ai[\w.]*\._", path.read_text(encoding="utf-8"))
    }
    assert importing == {"inspect_private.py"}
