import shutil
from pathlib import Path

import pytest


@pytest.fixture
def folder(tiny_model: Path, tmp_path: Path) -> Path:
    """A copy of the tiny model, which a test may change."""
    return shutil.copytree(tiny_model, tmp_path / "model")
