"""docs/migration.md and studies/rows.md name only what exists, and no name of the four projects has no row."""

import runpy
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def check(root: Path) -> dict[str, Any]:
    return runpy.run_path(str(root / "docs" / "check_migration.py"))


@pytest.fixture
def page(root: Path) -> str:
    return (root / "docs" / "migration.md").read_text(encoding="utf-8")


def test_every_replacement_exists(check: dict[str, Any], page: str) -> None:
    assert check["missing_replacements"](page) == []


@pytest.mark.parametrize(
    ("cell", "fault"),
    [
        ("truthgym/brierr", "no truthgym/brierr"),
        ("inspect score LOG --scorer truthgym/brier -S per=step", "per is no argument of brier"),
        ("inspect eval --n 3", "no --n"),
        ("truthgym convert LOGS --too sft", "no --too"),
        ("truthgym train sft --lora_rank 8", "no --lora_rank"),
        ("truthgym.analysis.nothing", "no module truthgym.analysis.nothing"),
        ("examples/nothing.py", "no such file"),
    ],
)
def test_wrong_replacement_is_found(check: dict[str, Any], page: str, cell: str, fault: str) -> None:
    changed = page.replace("| `ALGO_NAMES`, `ALGO_NAME` | ", f"| `ALGO_NAMES`, `ALGO_NAME` | `{cell}`; ")
    (found,) = check["missing_replacements"](changed)
    assert found.startswith(cell)
    assert fault in found


def test_every_feature_has_a_command_that_exists(check: dict[str, Any], root: Path) -> None:
    assert check["wrong_features"](check["FEATURES"].read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("cells", "fault"),
    [
        ("`truthgym ui` | broken", "state 'broken'"),
        ("`truthgym ui` | weaker: ", "state 'weaker:'"),
        ("`truthgym ui` | works: with luck", "state 'works: with luck'"),
        (" | works", "has no command"),
        ("`python examples/sweep.py logs --modells a` | works", "there is no --modells"),
        ("`inspect eval truthgym/brierr` | works", "there is no truthgym/brierr"),
    ],
)
def test_wrong_feature_is_found(check: dict[str, Any], cells: str, fault: str) -> None:
    assert [text for text in check["wrong_features"](f"| 1 | x | y | {cells} |") if fault in text]
    assert check["wrong_features"]("| 2 | x | y | `truthgym ui` | works |") == ["row 2: is row 1"]


def test_unlisted_name_is_found(check: dict[str, Any], page: str) -> None:
    text = (
        "keyNEW_SWITCH: ProvidesSelfDebatefor, NewAnalyzer, backendhuman.py, FSDPConfig, new_human.py, other_script.py"
    )
    found = ["FSDPConfig", "NEW_SWITCH", "NewAnalyzer", "new_human.py", "other_script.py"]
    assert check["missing_names"](page, "000", text) == found


@pytest.mark.parametrize("prefix", ["000", "001", "002", "003"])
def test_every_name_has_a_row(check: dict[str, Any], page: str, root: Path, prefix: str) -> None:
    folder = root.parent / "shared" / "seeds"
    texts = list(folder.glob(f"{prefix}_*.txt"))
    if not texts:
        pytest.skip(f"the text of this project is not in {folder}")
    assert check["missing_names"](page, prefix, texts[0].read_text(encoding="utf-8")) == []
