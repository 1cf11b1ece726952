"""Merges the shards of a task into one log, by copying the compressed samples."""

import os
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

import msgspec
from inspect_ai.log import (
    EvalLog,
    EvalSample,
    EvalShardEntry,
    EvalShards,
    read_eval_log_samples,
    recompute_metrics,
    write_eval_log,
)
from inspect_ai.model import ModelUsage

from truthgym.datasets.errors import BadInput
from truthgym.evallog.archive import LOCAL_HEADER_SIZE, EvalArchive
from truthgym.evallog.schema import decode_json

SUMMARIES = "summaries.json"
CHUNK = 2**20
"""Bytes that are copied at a time."""


def merge(shards: Sequence[str], out: str, questions: Sequence[tuple[Any, Any]],
          script: Mapping[str, Any] | None = None) -> None:  # fmt: skip
    """Write the log that one process would have written.

    Samples are copied as they are compressed. Metrics are computed anew from the scores of all samples, with the
    scorers that the script registered. The file appears whole: it is written under another name first.
    """
    from inspect_ai.log import read_eval_log

    headers = [read_eval_log(shard, header_only=True) for shard in shards]
    scores = [scored_sample for shard in shards for scored_sample in scored_samples(shard)]
    check(scores, questions, headers[0].eval.config.epochs or 1, out)
    order = {identity: place for place, (identity, _) in enumerate(questions)}
    scores.sort(key=lambda one: (one.epoch, order[one.id]))
    log = merged_header(headers, [identity for identity, _ in questions], script or {})
    log.eval.shards = EvalShards(selection="ids", ledger=[entry(header) for header in headers])
    log.samples = scores
    if log.results is not None and any(score.scores for score in scores):
        recompute_metrics(log)
        log.results.completed_samples = sum(one.error is None for one in scores)
    temporary = Path(f"{out}.part")  # no name of a log: nothing may read it before it is complete
    with tempfile.TemporaryDirectory() as folder:
        small = str(Path(folder, "header.eval"))
        write_eval_log(log, small)
        try:
            with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
                for shard in shards:
                    copy(shard, archive, lambda name: name.startswith("samples/"))
                copy(small, archive, lambda name: not name.startswith("samples/") and "summaries" not in name)
                archive.writestr(SUMMARIES, summaries(shards))
            temporary.replace(out)
        finally:
            temporary.unlink(missing_ok=True)


def summaries(shards: Sequence[str]) -> bytes:
    """What lists of samples show, of all shards."""
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(list[msgspec.Raw])
    parts: list[msgspec.Raw] = []
    for shard in shards:
        with EvalArchive(shard) as archive:
            parts += decode_json(archive.read(SUMMARIES), decoder)
    return msgspec.json.encode(parts)


class Scored(msgspec.Struct):
    """What metrics are computed from."""

    id: int | str
    epoch: int
    target: str | list[str]
    scores: dict[str, Any] | None = None
    metadata: dict[str, Any] = {}
    error: dict[str, Any] | None = None


def scored_samples(shard: str) -> Iterator[EvalSample]:
    """The samples of a log with their scores and metadata, and nothing else: the rest would take most of the time."""
    decoder = msgspec.json.Decoder(Scored)
    make: Any = EvalSample  # pydantic makes scores and errors from what JSON holds
    with EvalArchive(shard) as archive:
        names = [name for name in archive.names if name.startswith("samples/")]
        if any(name.count("/") > 1 for name in names):  # samples in chunks
            yield from read_eval_log_samples(shard, all_samples_required=True, resolve_attachments=False)
            return
        for name in names:
            one = decode_json(archive.read(name), decoder)
            yield make(input="", **msgspec.structs.asdict(one))


def check(samples: Sequence[EvalSample], questions: Sequence[tuple[Any, Any]], epochs: int, out: str) -> None:
    """Refuse to merge if a sample is missing or doubled."""
    seen = [(sample.id, sample.epoch) for sample in samples]
    due = {(identity, epoch) for identity, _ in questions for epoch in range(1, epochs + 1)}
    if len(seen) != len(set(seen)) or set(seen) != due:
        lost, more = due - set(seen), len(seen) - len(due & set(seen))
        example = f", such as {next(iter(lost))}" if lost else ""
        raise BadInput(
            f"The shards of {out} lack {len(lost)} of {len(due)} samples{example} and hold {more} too many; run the "
            "sweep again, which runs what is missing"
        )


def merged_header(headers: Sequence[EvalLog], ids: list[Any], script: Mapping[str, Any]) -> EvalLog:
    """The first shard's header, as of a run of all questions. Task and run keep the first shard's id."""
    log = headers[0].model_copy(deep=True)
    log.eval.created = min(one.eval.created for one in headers)
    log.eval.config.sample_shuffle, log.eval.config.log_buffer = script.get("sample_shuffle"), script.get("log_buffer")
    log.plan.config.max_connections = script.get("max_connections")
    log.plan.config.adaptive_connections = script.get("adaptive_connections")
    log.config_updates = [config_update for header in headers for config_update in header.config_updates or []] or None
    log.eval.dataset.sample_ids = ids
    log.eval.dataset.samples = len(ids)
    log.eval.config.sample_id = None
    log.eval.eval_id = sha256("".join(one.eval.eval_id for one in headers).encode()).hexdigest()[:22]
    stats = [one.stats for one in headers]
    log.stats.started_at = min(one.started_at for one in stats)
    log.stats.completed_at = max(one.completed_at for one in stats)
    log.stats.connection_limit_history = [change for stat in stats for change in stat.connection_limit_history]
    log.stats.model_usage = total([one.model_usage for one in stats])
    log.stats.role_usage = total([one.role_usage for one in stats])
    if log.results is not None:
        log.results.total_samples = sum(one.results.total_samples for one in headers if one.results)
        log.results.completed_samples = sum(one.results.completed_samples for one in headers if one.results)
    return log


def entry(log: EvalLog) -> EvalShardEntry:
    """Inspect's record of a shard in the merged log."""
    path = Path(unquote(log.location.removeprefix("file://")))
    ids = log.eval.dataset.sample_ids or []
    return EvalShardEntry(
        shard=path.parent.name, log=path.name, eval_set_id=log.eval.eval_set_id, status=log.status, error=log.error,
        samples=log.results.total_samples if log.results else 0, selected=len(ids),
        selection_digest=sha256(msgspec.json.encode(ids)).hexdigest(), started_at=log.stats.started_at,
        completed_at=log.stats.completed_at, model_usage=log.stats.model_usage, role_usage=log.stats.role_usage,
        size=path.stat().st_size, mtime=path.stat().st_mtime,
    )  # fmt: skip


def total(usages: Sequence[dict[str, ModelUsage]]) -> dict[str, ModelUsage]:
    sums: dict[str, ModelUsage] = {}
    for usage in usages:
        for name, one in usage.items():
            sums[name] = sums[name] + one if name in sums else one
    return sums


def copy(source: str, archive: zipfile.ZipFile, wanted: Callable[[str], bool]) -> None:
    """Copy members of a zip file without decompressing them, which `zipfile` cannot do before Python 3.14 with zstd."""
    target = archive.fp
    assert target is not None
    with zipfile.ZipFile(source) as members, Path(source).open("rb") as file:
        for member in {one.filename: one for one in members.infolist()}.values():  # the last of a name counts
            if not wanted(member.filename):
                continue
            file.seek(member.header_offset)
            name_size, extra_size = struct.unpack_from("<HH", file.read(LOCAL_HEADER_SIZE), 26)
            file.seek(name_size + extra_size, os.SEEK_CUR)
            member.header_offset = target.tell()
            member.flag_bits &= ~0x08  # sizes stand in the header, not after the data
            member.extra = b""
            target.write(member.FileHeader(zip64=max(member.file_size, member.compress_size) >= zipfile.ZIP64_LIMIT))
            copy_bytes(file, target, member.compress_size)
            archive.filelist.append(member)
            archive.NameToInfo[member.filename] = member
            archive.start_dir = target.tell()
            archive._didModify = True  # type: ignore[attr-defined]


def copy_bytes(source: IO[bytes], target: IO[bytes], size: int) -> None:
    while size:
        chunk = source.read(min(size, CHUNK))
        if not chunk:
            raise EOFError(f"{source.name} ends early")
        target.write(chunk)
        size -= len(chunk)
