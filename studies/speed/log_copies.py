"""Logs of any size: copies of a real one, sample by sample, each with an id and a uuid of its own."""

import json
import shutil
import zipfile
from itertools import count
from pathlib import Path
from typing import Any

from truthgym.datasets.splits import split_of
from truthgym.evallog.archive import EvalArchive

ZSTD = 93
"""Of zip files, as Inspect packs its logs."""


def copy_samples(log: Path, out: Path, size: int) -> dict[str, Any]:
    """Write a log of so many samples without a header, none of the test split. Returns its header."""
    import zipfile_zstd  # type: ignore[import-untyped]  # noqa: F401  # Inspect brings it: zipfile learns zstd

    with EvalArchive(log) as archive:
        content = {name: archive.read(name) for name in archive.names}
    names = [name for name in content if name.startswith("samples/")]
    summaries = {f"samples/{row['id']}_epoch_{row['epoch']}.json": row for row in json.loads(content["summaries.json"])}
    listed = []
    with zipfile.ZipFile(out, "w", ZSTD) as file:
        for i in range(size):
            summary = summaries[names[i % len(names)]]
            ids = (f"{summary['id']}-{i // len(names):05d}-{k}" for k in count())
            changed = {"id": next(name for name in ids if split_of(name) != "test"), "uuid": f"copy-{i}"}
            sample = content[names[i % len(names)]]
            for key, value in changed.items():  # of urns, the id is the event too, which decides the split
                sample = sample.replace(f'"{summary[key]}"'.encode(), f'"{value}"'.encode())
            listed.append(summary | changed)
            file.writestr(f"samples/{changed['id']}_epoch_{summary['epoch']}.json", sample)
        file.writestr("summaries.json", json.dumps(listed))
        file.writestr("reductions.json", "[]")
    header: dict[str, Any] = json.loads(content["header.json"])
    header["results"] |= {"total_samples": size, "completed_samples": size}
    return header


def add_header(samples: Path, header: dict[str, Any], out: Path, run: str) -> None:
    """Write a log of a run with these samples. Only the header is packed again."""
    header["eval"] |= {"eval_id": run, "task_id": run, "run_id": run}
    shutil.copyfile(samples, out)
    with zipfile.ZipFile(out, "a", ZSTD) as file:
        file.writestr("header.json", json.dumps(header))
