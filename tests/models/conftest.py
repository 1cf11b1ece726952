import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def random_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with random weights, which nobody may change."""
    from truthgym.training.tiny import tiny

    return tiny(tmp_path_factory.mktemp("random") / "model", steps=0, hidden=32, layers=2)


@pytest.fixture
def folder(random_weights: Path, tmp_path: Path) -> Path:
    """A copy of it, which a test may change."""
    return shutil.copytree(random_weights, tmp_path / "model")
