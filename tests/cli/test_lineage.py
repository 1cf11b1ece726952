import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.fixtures import serving
from truthgym.cli.lineage import command
from truthgym.datasets.errors import BadInput
from truthgym.training.lineage import Lineage

MADE_OF = {"served:grader.py": "b" * 64}
HEALTH = json.dumps({"status": "ok", "scorer": "rubric", "artifact": "a" * 64, "made_of": MADE_OF}).encode()


def record(*words: str) -> str:
    return CliRunner().invoke(command, ["record", *words], catch_exceptions=False).output


def test_a_run_of_another_trainer_and_an_eval_of_its_model_are_recorded(tmp_path: Path) -> None:
    checkpoint, data, log = tmp_path / "global_step_10", tmp_path / "train.parquet", tmp_path / "a.eval"
    (checkpoint / "actor").mkdir(parents=True)
    for path in (checkpoint / "actor" / "model.pt", data, log):
        path.write_bytes(path.name.encode())
    with serving(lambda request: (200, {}, HEALTH)) as server:
        printed = record(str(checkpoint), "--from", str(data), "--server", server.address, "--option", "trainer=verl")
    statement = json.loads(Path(printed.removeprefix("Recorded: ").strip()).read_text())
    definition = statement["predicate"]["buildDefinition"]
    parents = {parent["name"]: parent["digest"]["sha256"] for parent in definition["resolvedDependencies"]}
    assert parents | {"scorer:rubric": "a" * 64, **MADE_OF} == parents
    assert len(parents) == 3
    assert definition["externalParameters"] == {"trainer": "verl"}
    record(str(log), "--event", "eval", "--from", str(checkpoint), "--figure", "accuracy=0.7")
    assert Lineage([tmp_path]).faults() == []
    tree = "\n".join(Lineage([tmp_path]).tree(Lineage([tmp_path]).find(str(log))))
    assert "global_step_10" in tree
    assert "train.parquet" in tree

    (checkpoint / "actor" / "model.pt").write_bytes(b"others")
    assert any("global_step_10" in fault for fault in Lineage([tmp_path]).faults())


def test_a_run_that_failed_is_recorded_with_its_reason(tmp_path: Path) -> None:
    printed = record(str(tmp_path), "--status", "cancelled", "--reason", "out of memory")
    result = json.loads(Path(printed.removeprefix("Recorded: ").strip()).read_text())["predicate"]["result"]
    assert result["status"] == "cancelled"
    assert result["failure"]["message"] == "out of memory"


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="There is no .*missing"):
        record(str(tmp_path), "--from", str(tmp_path / "missing"))
    with pytest.raises(BadInput, match="record the run while its server runs"):
        record(str(tmp_path), "--server", "http://127.0.0.1:9")
