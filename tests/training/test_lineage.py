"""Lineage: statements by digest, what verify finds, and that no writer's statement is lost."""

import json
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner

from truthgym.cli.lineage import command
from truthgym.datasets.errors import BadInput
from truthgym.training.lineage import FOLDER, Lineage, digest_of, record

BYTES = b"weights"


@pytest.fixture
def artifacts(tmp_path: Path) -> Path:
    """A log, the dataset that was made from it, and the model that was made from that."""
    for name in ("logs", "data", "model"):
        (tmp_path / name).mkdir()
    (tmp_path / "logs" / "a.eval").write_bytes(b"log")
    (tmp_path / "data" / "train.jsonl").write_text("{}\n")
    (tmp_path / "model" / "model.safetensors").write_bytes(BYTES)
    record("convert", [tmp_path / "data"], [tmp_path / "logs" / "a.eval"])
    base = {"Qwen/Qwen3@main": digest_of("Qwen/Qwen3@main")}
    data = {str(tmp_path / "data"): digest_of(tmp_path / "data")}
    record("train", [tmp_path / "model"], base | data, parameters={"lr": 1e-4, "nan": float("nan")})
    return tmp_path


def verify(place: Path) -> tuple[int, str]:
    result = CliRunner().invoke(command, ["verify", str(place)])
    return result.exit_code, result.output


def test_a_statement_is_in_totos_form_under_its_own_digest(artifacts: Path) -> None:
    (path,) = (artifacts / "model" / FOLDER).iterdir()
    assert path.name == f"{sha256(path.read_bytes()).hexdigest()}.json"
    content = json.loads(path.read_text())
    assert content["_type"] == "https://in-toto.io/Statement/v1"
    (subject,) = content["subject"]
    assert subject == {"name": "model", "uri": "file:model", "digest": {"sha256": digest_of(artifacts / "model")}}
    assert content["predicateType"].endswith("/train/v1")
    assert content["predicate"]["buildDefinition"]["externalParameters"] == {"lr": 1e-4, "nan": None}
    assert content["predicate"]["result"]["status"] == "succeeded"
    assert str(artifacts) not in path.read_text(), "the folders may move together"


def test_show_follows_the_digests(artifacts: Path) -> None:
    assert verify(artifacts / "model") == (0, "2 statements, 0 faults\n")
    result = CliRunner().invoke(command, ["show", str(artifacts / "model")])
    lines = [line.strip().split()[0] for line in result.output.splitlines()]
    assert lines == ["model", "Qwen/Qwen3@main", "data", "logs/a.eval"]
    moved = artifacts.rename(artifacts.with_name("moved"))
    assert CliRunner().invoke(command, ["show", str(moved / "model")]).output == result.output


@pytest.mark.parametrize("name", ["model/model.safetensors", "data/train.jsonl", "logs/a.eval"])
def test_one_changed_byte_is_found(artifacts: Path, name: str) -> None:
    content = bytearray((artifacts / name).read_bytes())
    content[0] ^= 1
    (artifacts / name).write_bytes(content)
    status, output = verify(artifacts)
    assert status == 1
    assert "changed" in output
    assert name.split("/")[0] in output
    (statement,) = (artifacts / "model" / FOLDER).iterdir()
    statement.write_bytes(statement.read_bytes()[:-1] + b" ")
    assert "its content has another digest than its name" in verify(artifacts / "model")[1]


def test_a_missing_parent_is_reported_and_a_model_that_was_trained_again_is_no_fault(artifacts: Path) -> None:
    (artifacts / "model" / "model.safetensors").write_bytes(b"others")
    record("train", [artifacts / "model"], [artifacts / "data"])
    assert verify(artifacts)[0] == 0
    (artifacts / "logs" / "a.eval").unlink()
    status, output = verify(artifacts)
    assert status == 1
    assert "data was made from logs/a.eval" in output
    assert "missing" in output


def test_a_cycle_ends_and_is_reported(tmp_path: Path) -> None:
    first, second = ({name: sha256(name.encode()).hexdigest()} for name in ("first", "second"))
    record("train", first, second, store=tmp_path / FOLDER)
    record("train", second, first, store=tmp_path / FOLDER)
    status, output = verify(tmp_path)
    assert status == 1
    assert "a cycle" in output


def test_the_statements_of_two_writers_survive(tmp_path: Path) -> None:
    subject = {"model": sha256(BYTES).hexdigest()}
    with ThreadPoolExecutor(8) as pool:

        def write(i: int) -> Path:
            return record("train", subject, store=tmp_path, parameters={"seed": i // 2}, finished="2026-01-01")

        paths = list(pool.map(write, range(40)))
    assert len(set(paths)) == 20, "a statement that is written again is not replaced"
    assert sorted(tmp_path.iterdir()) == sorted(set(paths))
    assert all(sha256(path.read_bytes()).hexdigest() == path.stem for path in paths)


def test_how_a_run_ended_is_shown(tmp_path: Path) -> None:
    plan = {"run": sha256(b"plan").hexdigest()}
    failure = {"stage": "train", "type": "RuntimeError", "message": "out of memory"}
    record("train", plan, store=tmp_path / FOLDER, status="failed", failure=failure)
    output = CliRunner().invoke(command, ["show", plan["run"][:8], str(tmp_path)]).output
    assert "train, failed (train: RuntimeError: out of memory)" in output


def test_what_has_no_lineage(artifacts: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="There is no lineage"):
        Lineage([tmp_path / "ffff"])
    with pytest.raises(BadInput, match="0 artifacts .* give a path"):
        Lineage([artifacts]).find("no-such")
