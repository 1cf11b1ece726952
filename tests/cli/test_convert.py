import json
import re
import signal
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.scorer import match

from tests import commands as processes
from tests.fixtures import evaluate, says
from truthgym.cli.main import commands
from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import split_of
from truthgym.solvers.few_shot import few_shot
from truthgym.tasks.worlds import urns


def call(*arguments: object) -> Result:
    return CliRunner().invoke(commands, ["convert", *map(str, arguments)])


def refused(*arguments: object) -> str:
    result = call(*arguments)
    assert isinstance(result.exception, BadInput), result.output
    return str(result.exception.message).replace("\\", "")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    task = urns(n=20, paradigms="brier")
    evaluate(task, "reference/bayesian", folder, epochs=2)
    return folder


def test_it_prints_the_counts(logs: Path, tmp_path: Path) -> None:
    result = call(logs, "--to", "sft", "--out", tmp_path / "d", "--top", "0.5")
    assert result.exit_code == 0, result.output
    assert "40 samples read. Left out:" in result.output
    assert "questions of the test split, which are reserved for evaluation" in result.output
    assert f"{tmp_path / 'd'}: " in result.output
    assert "rows of train" in result.output


def test_it_warns_of_questions_chosen_by_their_outcomes(logs: Path, tmp_path: Path) -> None:
    assert "Warning" not in call(logs, "--to", "prompts", "--out", tmp_path / "d").output
    log = read_eval_log(str(next(logs.glob("*.eval"))))
    eligible = [sample for sample in log.samples or [] if sample.metadata["split"] == "train"]
    for sample in eligible[:3]:
        sample.metadata["selected_by_outcome"] = True
    write_eval_log(log, str(tmp_path / "marked.eval"))
    result = call(tmp_path / "marked.eval", "--to", "prompts", "--out", tmp_path / "e")
    (line,) = (line for line in result.output.splitlines() if line.startswith("Warning: "))
    assert line.startswith("Warning: 3 eligible trajectories answer questions that were chosen with their outcomes")
    assert line.removeprefix("Warning: ") in (tmp_path / "e" / "README.md").read_text()


def test_it_warns_of_the_best_tenth_where_no_option_selects(logs: Path, tmp_path: Path) -> None:
    result = call(logs, "--to", "sft", "--out", tmp_path / "d")
    (line,) = (line for line in result.output.splitlines() if line.startswith("Warning: "))
    assert "the best tenth" in line
    assert "--aligned, --all" in line
    for options in (("--all",), ("--aligned",), ("--top", "0.1")):
        assert "Warning" not in call(logs, "--to", "sft", "--overwrite", "--out", tmp_path / "d", *options).output


def test_only_datasets_are_overwritten_on_request(logs: Path, tmp_path: Path) -> None:
    for command, expected in ((("--top", "1"), ""), ((), "already exists"), (("--overwrite",), "")):
        arguments = (logs, "--to", "sft", "--out", tmp_path / "d", *command)
        if expected:
            before = (tmp_path / "d" / "train.jsonl").read_bytes()
            assert expected in refused(*arguments)
            assert (tmp_path / "d" / "train.jsonl").read_bytes() == before
        else:
            assert call(*arguments).exit_code == 0
    assert len((tmp_path / "d" / "train.jsonl").read_bytes()) < len(before)
    for name, card in (("home", ""), ("model", "---\ntruthgym: {method: sft}\n---\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "README.md").write_text(card)
        assert "is not a dataset of truthgym" in refused(logs, "--to", "sft", "--out", tmp_path / name, "--overwrite")
        assert (tmp_path / name / "README.md").read_text() == card
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "home", "model"]


def test_a_kill_during_replacement_loses_nothing(logs: Path, tmp_path: Path) -> None:
    assert call(logs, "--to", "sft", "--out", tmp_path / "d").exit_code == 0
    before = (tmp_path / "d" / "train.jsonl").read_bytes()
    (tmp_path / "d").rename(tmp_path / ".d.replaced")
    assert "already exists" in refused(logs, "--to", "sft", "--out", tmp_path / "d")
    assert (tmp_path / "d" / "train.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--score", "honesty"], "no sample has a number of that name. Scores in the logs: brier/accuracy"),
        (["--score", "belief"], "--score brier/belief: .*--best lowest"),
        (["--split", "test"], "questions of the test split are reserved for evaluation"),
        (["--count", "0"], "count=0 cannot be used; expected `int` >= 1"),
        (["--threshold", "nan"], "--threshold nan is not finite; give a number"),
        (["--threshold", "-1"], "is left to convert: "),
        (["--all", "--aligned"], "--all takes every trajectory; omit --all"),
        (["--to", "preference", "--top", "0.1"], "pairs are selected by --pairs and --margin"),
        (["--to", "prompts", "--count", "3"], "every question is taken once"),
        (["--to", "unpaired", "--best-per-question"], "separate good from bad; omit --best-per-question"),
        (["--to", "few_shot", "--validation", "train"], "--validation train: .*; omit it"),
        (["--to", "few_shot", "--file-format", "arrow"], "is read as .jsonl only"),
        (["--to", "steps"], "no belief after every step"),
        (["--to", "prompts", "--form", "messages"], "--to prompts: form='messages' has no effect"),
        (["--grader", "python_brier"], "--method and --grader are options of --to openai"),
        (["--to", "openai", "--method", "reinforcement", "--grader", "nobody"], "nobody"),
        (["--reasoning", "only"], "no reply with reasoning"),
        (["--out", "rows.jsonl"], "a dataset is a folder with a card in it; give rows"),
    ],
)
def test_bad_input_is_one_error_and_writes_nothing(
    logs: Path, tmp_path: Path, arguments: list[str], expected: str
) -> None:
    words = ["--to", "sft", "--out", str(tmp_path / "d"), *arguments]
    assert re.search(expected, refused(logs, *words))
    assert list(tmp_path.iterdir()) == []


def test_folders_without_a_usable_log(logs: Path, tmp_path: Path) -> None:
    out = ("--to", "sft", "--out", tmp_path / "d")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "There are no logs in" in refused(empty, *out)
    assert "There is no " in refused(tmp_path / "nowhere", *out)
    (empty / "broken.eval").write_bytes(next(logs.glob("*.eval")).read_bytes()[:5000])
    assert "broken.eval" in refused(empty, *out)
    assert not (tmp_path / "d").exists()


def test_other_projects_logs_need_any_task(tmp_path: Path) -> None:
    items = [Sample(id=i, input=f"2 + 2 + 0 * {i}?", target="4") for i in range(20)]
    reserved = [Sample(id=i, input=f"{i} is for tests.", target="4", metadata={"split": "test"}) for i in range(20, 40)]
    task = Task(items + reserved, scorer=match(), name="sums")
    evaluate(task, says("4"), tmp_path / "logs")
    message = refused(tmp_path / "logs", "--to", "sft", "--out", tmp_path / "d")
    assert "its task sums is not" in message
    assert "--any-task" in message
    result = call(tmp_path / "logs", "--to", "sft", "--out", tmp_path / "d", "--any-task", "--top", "1")
    assert result.exit_code == 0, result.exception
    assert "questions of the test split" in result.output
    rows = (tmp_path / "d" / "train.jsonl").read_text()
    assert '"score":1.0' in rows
    assert "is for tests" not in rows


def test_a_log_of_another_project_becomes_examples_unless_all_is_for_tests(tmp_path: Path) -> None:
    asked = [Sample(id=i, input=f"{i}?", target="4", metadata={"split": "dev"}) for i in range(30)]
    evaluate(Task(asked, scorer=match(), name="sums"), says("4"), tmp_path / "logs")
    words = ("--any-task", "--score", "match", "--top", "1", "--out")
    result = call(tmp_path / "logs", "--to", "few_shot", *words, tmp_path / "d")
    assert result.exit_code == 0, result.exception
    source = tmp_path / "d" / "train.jsonl"
    learned = {row["id"] for row in map(json.loads, source.read_text().splitlines())}
    assert learned == {str(i) for i in range(30) if split_of(f"sums {i}") == "train"}
    solver = few_shot(str(source), share=1.0, best="highest")
    (log,) = evaluate(Task(asked[:1], solver=solver, scorer=match(), name="sums"), says("4"), tmp_path / "more")
    assert len((log.samples or [])[0].messages) == 2 * len(learned - {"0"}) + 2
    kept = [sample for sample in asked if split_of(f"sums {sample.id}") == "test"]
    evaluate(Task(kept, scorer=match(), name="sums"), says("4"), tmp_path / "tests")
    message = refused(tmp_path / "tests", "--to", "sft", *words, tmp_path / "e")
    assert f"All {len(kept)} samples are of the test split" in message
    assert "a hash of each id reserves one in five, or the metadata do; convert more samples of sums" in message


KILLED = """
import os, signal, sys
from truthgym.cli.main import main
from truthgym.training.conversion.writer import DatasetFolder
write, rows = DatasetFolder.write, []
def counted(*args):
    if len(rows) == 100:
        os.kill(os.getpid(), signal.SIGKILL)
    rows.append(args)
    return write(*args)
DatasetFolder.write = counted
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_conversion_can_be_repeated(logs: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    many = tmp_path / "logs"
    many.mkdir()
    log = read_eval_log(str(next(logs.glob("*.eval"))))
    for number in range(40):
        log.eval.task_id = f"task{number}"
        for sample in log.samples or []:
            sample.uuid = f"{number}-{sample.id}-{sample.epoch}"
        if number == 0:
            write_eval_log(log, str(many / "0.eval"))
        else:
            _renamed(many / "0.eval", many / f"{number}.eval", number)
    command = ["convert", str(many), "--to", "sft", "--all", "--out", str(tmp_path / "d")]
    killed = processes.call("-c", KILLED, *command, environment=environment)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "d").exists()
    assert (tmp_path / ".d.partial").is_dir()
    again = processes.call("truthgym", *command, environment=environment)
    assert again.returncode == 0, again.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "logs"]
    train = sum(sample.metadata["split"] == "train" for sample in log.samples or [])
    assert len((tmp_path / "d" / "train.jsonl").read_text().splitlines()) == 40 * train


def _renamed(source: Path, target: Path, number: int) -> None:
    """A copy of a log whose run and samples have names of their own."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            held = old.read(name).replace(b'"uuid":"0-', f'"uuid":"{number}-'.encode())
            new.writestr(name, held.replace(b'"task0"', f'"task{number}"'.encode()))
