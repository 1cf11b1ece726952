"""A file that cannot be read does not stop a folder of logs: it is left out, named at the end, and told apart."""

import shutil
import zipfile
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.scorer import match

from tests.fixtures import evaluate, says
from truthgym.analysis.tables.setups import runs
from truthgym.cli.main import commands

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 123456\n"
NAME = "2026-01-01T00-00-00-00-00_bad"
BAD = {  # by name what the message has
    "lfs.eval": "git lfs pull", "lfs.json": "git lfs pull", "empty.eval": "Copy it again", "cut.eval": "Copy it again",
    "link.eval": "a link to nothing", "list.json": "cannot be read as a log", "other.eval": "has no header.json",
    "sample.eval": "is damaged; copy the log again",
}  # fmt: skip


def call(*arguments: object) -> Result:
    return CliRunner().invoke(commands, list(map(str, arguments)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two good logs and eight bad files."""
    folder = tmp_path_factory.mktemp("logs")
    samples = [Sample(id=f"q{i}", input=f"{i}?", target="x") for i in range(40)]
    for reply in ("x", "y", "z"):
        (log,) = evaluate(Task(samples, scorer=match(), name="plain"), says(reply), folder)
        own = read_eval_log(log.location)
        own.eval.model = f"mockllm/{reply}"
        write_eval_log(own, log.location)
    *good, last = sorted(folder.glob("*.eval"))
    content = bytearray(last.read_bytes())
    with zipfile.ZipFile(last) as archive:
        place = archive.getinfo("samples/q7_epoch_1.json").header_offset
    content[place + 80 : place + 120] = bytes(40)
    last.unlink()
    paths = {name: folder / f"{NAME}_{name}" for name in BAD}
    for name in ("lfs.eval", "lfs.json"):
        paths[name].write_bytes(POINTER)
    paths["empty.eval"].write_bytes(b"")
    paths["cut.eval"].write_bytes(good[0].read_bytes()[:3000])
    paths["link.eval"].symlink_to("/nowhere/x.eval")
    paths["list.json"].write_text("[1, 2]")
    with zipfile.ZipFile(paths["other.eval"], "w") as archive:
        archive.writestr("a.txt", "a")
    paths["sample.eval"].write_bytes(content)
    return folder


def told(result: Result) -> dict[str, str]:
    """What a command says of each bad file: the line that names it."""
    lines = result.output.splitlines()
    return {name: next((line for line in lines if f"{NAME}_{name}" in line), "") for name in BAD}


def test_a_report_is_written_from_the_good_logs(folder: Path, tmp_path: Path) -> None:
    words = ["report", folder, "--out", tmp_path, "--only", "leaderboard", "--only", "catalog"]
    result = call(*words)
    assert (result.exit_code, result.output.splitlines()[-1]) == (
        0, "Incomplete: 8 files could not be read and were left out."
    )  # fmt: skip
    assert all(reason in told(result)[name] for name, reason in BAD.items()), result.output
    page = (tmp_path / "index.html").read_text()
    assert all(f"{NAME}_{name}" in page for name in BAD)
    pairs = pd.read_csv(tmp_path / "leaderboard.csv")
    assert {*pairs["model"], *pairs["other"]} == {"mockllm/x", "mockllm/y"}
    assert call(*words, "--strict").exit_code == 1


def test_rows_are_made_from_the_good_logs(folder: Path, tmp_path: Path) -> None:
    words = ["--to", "sft", "--any-task", "--all", "--quiet"]
    result = call("convert", folder, *words, "--out", tmp_path / "all")
    assert (result.exit_code, result.output.splitlines()[-1]) == (1, "Incomplete: 8 files could not be read.")
    assert all(reason in told(result)[name] for name, reason in BAD.items()), result.output
    alone = call("convert", *sorted(folder.glob("*plain*")), *words, "--out", tmp_path / "good")
    assert alone.exit_code == 0
    rows, good = ((tmp_path / name / "train.jsonl").read_text().splitlines() for name in ("all", "good"))
    assert set(good) <= set(rows)
    assert all(f"{NAME}_sample.eval" in row for row in set(rows) - set(good))  # those before the damaged one


def test_a_comparison_goes_on_without_a_bad_file(folder: Path) -> None:
    first, second = sorted(folder.glob("*plain*"))
    pointer = folder / f"{NAME}_lfs.eval"
    result = call("compare", first, pointer, second)
    assert (result.exit_code, result.output.splitlines()[-1]) == (
        1, "Incomplete: 1 file could not be read and was left out."
    )  # fmt: skip
    assert "git lfs pull" in result.output
    assert "mockllm/y is worse than mockllm/x on match" in result.output
    for bad in ([pointer, first, second], [first, pointer]):
        refused = call("compare", *bad)
        assert refused.exit_code == 1
        assert str(getattr(refused.exception, "message", "")).count("git lfs pull") == 1
    both = call("compare", folder)
    assert (both.exit_code, both.output.splitlines()[-1]) == (
        1,
        "Incomplete: 8 files could not be read and were left out.",
    )


def test_a_run_that_never_finished_is_reported_on_request(folder: Path, tmp_path: Path) -> None:
    log = read_eval_log(str(sorted(folder.glob("*plain*"))[0]))
    log.status, log.results = "cancelled", None
    log.samples = (log.samples or [])[:30]
    logs = tmp_path / "logs"
    logs.mkdir()
    write_eval_log(log, str(logs / "cancelled.eval"))
    words = ["report", logs, "--out", tmp_path / "site", "--only", "health", "--only", "power"]
    refused = call(*words)
    assert "--unfinished" in str(refused.exception)
    result = call(*words, "--unfinished")
    assert result.exit_code == 0, result.output
    assert "The run was cancelled: 30 of its 40 samples are in the log." in (tmp_path / "site/health.html").read_text()
    assert len(runs(logs, unfinished=True)) == 1
    shutil.copy(sorted(folder.glob("*plain*"))[1], logs)
    assert len(runs(logs)) == 1
