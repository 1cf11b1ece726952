"""Exports a search as an artifact, and records which artifact is deployed to which target.

A target's record is a .jsonl file to which lines are only ever added. Each line has a statement in the lineage beside
it, which names its digest, so that a line that was changed or removed is found. The artifacts lie there, too, by id.
"""

import json
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from truthgym.datasets.errors import BadInput
from truthgym.scorers.rubrics.reward import Artifact, Content, ModelSpec, Protocol, RubricReward, read_artifact
from truthgym.scorers.rubrics.rubric import Rubric, check_places, digest, model_from, rubric_json
from truthgym.training.files import folder_lock, write_atomically
from truthgym.training.lineage import digest_of, record, store_of
from truthgym.training.search.result import RESULT, read_result

TARGET = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
RECORDS = Path("deployments")


def export(search: Path, out: Path | None = None) -> tuple[Artifact, Path]:
    """Export a search as an artifact whose card holds its figures; the same search gives the same id anywhere."""
    result = read_result(search)
    content, config = result["content"], result["content"]["config"]
    rubrics = tuple(model_from(Rubric, rubric, str(search)) for rubric in content["rubrics"])
    check_places(rubrics, str(search))
    judges = tuple(model_from(ModelSpec, verifier, str(search)) for verifier in config["verifiers"])
    protocol = model_from(Protocol, config["protocol"], str(search))
    arms = content["arms"]
    artifact = Artifact.of(
        Content(
            reward=RubricReward(rubrics=rubrics, protocol=protocol, judges=judges),
            source={
                "search": result["digest"],
                "prompts": content["prompts_digest"],
                "config": content["config_digest"],
                "commit": result["run_manifest"]["commit"],
            },
            card={
                "verdict": content["verdict"],
                "repeat_sd": content["repeat_sd"],
                "held_out": {name: arm["held_out"] for name, arm in arms.items()},
                "search_minus": {name: arm["search_minus_this"] for name, arm in arms.items() if name != "search"},
            },
        )
    )
    path = out or Path(f"{artifact.artifact_id}.json")
    write_atomically(path, json.dumps(artifact.model_dump(mode="json"), ensure_ascii=False, indent=1))
    subjects = {str(path): digest_of(path), **_subject(artifact)}
    record("export", subjects, [search if search.is_file() else search / RESULT], store=store_of(path))
    return artifact, path


def deploy(
    artifact: Artifact,
    target: str,
    by: str,
    records: Path = RECORDS,
    action: str = "deploy",
    source: Path | None = None,
) -> dict[str, Any]:
    """Record that an artifact is deployed, and keep a copy of it."""
    file, copy = _file(target, records), records / "artifacts" / f"{artifact.artifact_id}.json"
    content = artifact.digest_of_content
    with folder_lock(file):
        entries = read_record(target, records)
        earlier = [entry["digest"] for entry in entries if entry["digest"] != content]
        entry: dict[str, Any] = {
            "number": len(entries) + 1,
            "target": target,
            "action": action,
            "artifact_id": artifact.artifact_id,
            "digest": content,
            "previous": earlier[-1] if earlier else None,
            "by": by,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_atomically(copy, json.dumps(artifact.model_dump(mode="json")))
        with file.open("a", encoding="utf-8") as lines:
            lines.write(rubric_json(entry) + "\n")
            lines.flush()
            os.fsync(lines.fileno())
    parameters = {key: entry[key] for key in ("target", "action", "by", "previous")} | {"entry": digest(entry)}
    parents = _subject(artifact) | ({str(source): digest_of(source)} if source else {})
    record("deploy", [copy], parents, store=store_of(records), parameters=parameters, finished=entry["at"])
    return entry


def rollback(target: str, by: str, records: Path = RECORDS) -> dict[str, Any]:
    """Deploy again what a target had before its present artifact."""
    live: list[str] = []
    for entry in read_record(target, records):
        if entry["action"] == "rollback":  # it removes an artifact, so that the next one goes back further
            live.pop()
        elif live[-1:] != [entry["artifact_id"]]:
            live.append(entry["artifact_id"])
    if len(live) < 2:
        raise BadInput(f"{target} has no earlier artifact to return to; deploy one with `truthgym rubric record`")
    return deploy(read_artifact(str(records / "artifacts" / f"{live[-2]}.json")), target, by, records, "rollback")


def deployed(target: str, records: Path = RECORDS) -> Artifact:
    """The artifact that a target has now."""
    entries = read_record(target, records)
    if not entries:
        raise BadInput(f"Nothing is deployed to {target} in {records}; use `truthgym rubric record`")
    artifact = read_artifact(str(records / "artifacts" / f"{entries[-1]['artifact_id']}.json"))
    if artifact.digest_of_content != entries[-1]["digest"]:
        raise BadInput(f"{target}: the artifact beside the record is not the one that was deployed; deploy it again")
    return artifact


def read_record(target: str, records: Path = RECORDS) -> list[dict[str, Any]]:
    """The entries of a target, the oldest first, after checking that none was changed or removed."""
    file = _file(target, records)
    try:
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        entries: list[dict[str, Any]] = [json.loads(line) for line in lines]
    except ValueError:
        raise BadInput(f"{file} has a line that is not JSON: the record was changed") from None
    statements = [json.loads(path.read_text(encoding="utf-8")) for path in store_of(records).glob("*.json")]
    definitions = [statement["predicate"]["buildDefinition"] for statement in statements]
    recorded = {
        definition["externalParameters"].get("entry")
        for definition in definitions
        if definition["buildType"] == "deploy" and definition["externalParameters"].get("target") == target
    } - {None}
    if missing := recorded - {digest(entry) for entry in entries}:
        raise BadInput(
            f"{file} lacks {len(missing)} entries that {store_of(records)} names: the record was changed or shortened"
        )
    return entries


def verify(
    paths: Sequence[Path], expected: str | None = None, target: str | None = None, records: Path = RECORDS
) -> list[str]:
    """Check artifacts, results of searches, and the record of a target."""
    if not paths and not target:
        raise BadInput("There is nothing to verify; give an artifact, the folder of a search, or --target")
    lines = []
    for path in paths:
        if path.is_dir() or "truthgym.rubric_search" in path.read_text(encoding="utf-8", errors="replace")[:4000]:
            actual, what = str(read_result(path)["digest"]), "search"
        else:
            artifact = read_artifact(str(path))
            actual, what = artifact.digest_of_content.removeprefix("sha256:"), artifact.artifact_id
        if expected and actual != expected.removeprefix("sha256:"):
            raise BadInput(f"{path} has the digest {actual}, not {expected}: it is another {what}")
        lines.append(f"{path}: {what}, sha256:{actual}, unchanged")
    if target:
        artifact = deployed(target, records)
        lines.append(f"{target}: {len(read_record(target, records))} entries, now {artifact.artifact_id}, unchanged")
    return lines


def _subject(artifact: Artifact) -> dict[str, str]:
    """An artifact in a lineage: its id with the digest of its content, which is the same in every copy."""
    return {f"artifact:{artifact.artifact_id}": artifact.digest_of_content.removeprefix("sha256:")}


def _file(target: str, records: Path) -> Path:
    if not TARGET.fullmatch(target):
        raise BadInput(
            f"target={target!r} cannot be used; give a name of letters a to z, digits, - and _, such as prod"
        )
    return records / f"{target}.jsonl"
