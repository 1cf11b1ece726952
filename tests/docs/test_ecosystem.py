"""Files that other projects' tools read: citation, issue forms, data cards, task versions, register entries."""

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import DatasetCard

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REGISTERED = ("urns", "mutual_prediction", "code_repair")
CARDS = sorted((Path(__file__).parents[2] / "datasets").glob("*.md"))


def test_citation_names_the_release(root: Path) -> None:
    citation = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]
    assert citation["authors"] == project["authors"]


@pytest.mark.parametrize("file", CARDS, ids=[file.stem for file in CARDS])
def test_card_has_hugging_faces_metadata(file: Path) -> None:
    card = DatasetCard(file.read_text(encoding="utf-8"), ignore_metadata_errors=False)
    assert card.data.license == "mit"
    assert card.data.pretty_name == f"Truthgym: {file.stem}"
    assert card.data.size_categories == ["n<1K"]
    assert card.text.lstrip().startswith("# ")
    rows = file.with_suffix(".jsonl")
    if rows.is_file():
        assert len(rows.read_text(encoding="utf-8").splitlines()) < 1000
        assert card.data.to_dict()["configs"] == [{"config_name": file.stem, "data_files": rows.name}]
    else:
        assert "configs" not in card.data.to_dict()


def test_version_table_has_every_raised_task(root: Path) -> None:
    raised: dict[str, str] = {}
    shared = {
        "timeline_task": ["progress_follow", "progress_predict", "progress_coevolve"],
        "_with_tools": ["agent_bench_mini", "gaia_mini"],
    }
    for file in (root / "tasks").glob("*.py"):
        name = file.stem
        for found in re.finditer(r'^def (\w+)|(?:version|VERSION) ?= ?"(\d+-[A-Z])"', file.read_text(), re.M):
            name, version = found[1] or name, found[2]
            if version and version != "1-A":
                raised |= dict.fromkeys(shared.get(name, [name]), version)
    table = (root / "CHANGELOG.md").read_text(encoding="utf-8").split("## Task versions")[1].split("\n## ")[0]
    listed = {
        name: version
        for names, version in re.findall(r"^\| (`.+`) \| (\d+-[A-Z]) \|", table, flags=re.MULTILINE)
        for name in re.findall(r"`(\w+)`", names)
    }
    assert listed == raised


@pytest.fixture(scope="module")
def entries() -> dict[str, dict[str, Any]]:
    script = Path(__file__).parents[2] / "docs" / "register.py"
    found: dict[str, dict[str, Any]] = runpy.run_path(str(script))["entries"](COMMIT, (*REGISTERED, "direct"))
    return found


def test_register_entries_are_one_task_each(entries: dict[str, dict[str, Any]]) -> None:
    assert tuple(entries) == REGISTERED
    assert entries["urns"]["tasks"] == [{"name": "urns", "task_path": "tasks/worlds.py", "dataset_samples": 300}]
    assert entries["code_repair"]["tasks"][0]["dataset_samples"] == 24
    assert "dataset_samples" not in entries["mutual_prediction"]["tasks"][0]  # depends on the logs that it is given
    assert entries["urns"]["full_title"] == "Truthgym: questions whose exact answer is known"
    assert entries["urns"]["source"]["repository_commit"] == COMMIT


def test_register_entries_pass_inspect_evals(entries: dict[str, dict[str, Any]]) -> None:
    metadata = pytest.importorskip("inspect_evals.metadata", reason="inspect_evals is the extra `evals`")
    for entry in entries.values():
        assert metadata.ExternalEvalMetadata.model_validate(entry).tasks[0].task_path
