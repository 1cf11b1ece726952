"""The pages of runs and results, without a browser."""

import os
import re
import runpy
import shlex
import shutil
import sys
from datetime import datetime, tzinfo
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fastapi.testclient import TestClient
from inspect_ai.log import EvalResults, EvalStatus, ProvenanceData, invalidate_samples, read_eval_log, write_eval_log

from tests.fixtures import Run
from tests.ui.test_compose import text_of
from tests.ui.test_jobs import ended, go, held, place, up  # noqa: F401
from truthgym.analysis.tables.markdown import with_interval
from truthgym.ui import jobs
from truthgym.ui.jobs import find
from truthgym.ui.pages import results
from truthgym.ui.repeat import repeat


@pytest.fixture
def browser(client: TestClient, place: Path) -> TestClient:  # noqa: F811
    """A browser on the page of a folder whose runs are ended after the test."""
    return client


def test_a_run_is_watched_cancelled_and_resumed(browser: TestClient, tmp_path: Path) -> None:
    job = held(tmp_path, "a")
    up(job)
    assert "running" in browser.get("/runs").text
    state = browser.get(f"/runs/{job.id}/state").text
    assert "every 1s" in state
    assert "up" in state
    assert browser.post(f"/runs/{job.id}/cancel").status_code == 303
    ended(job)
    state = browser.get(f"/runs/{job.id}").text
    assert "every 1s" not in state
    assert "cancelled" in state
    go(job)
    assert browser.post(f"/runs/{job.id}/resume").headers["location"] == f"/runs/{job.id}"
    assert ended(job).status == "done"
    assert "over" in browser.get(f"/runs/{job.id}/output").text
    shutil.rmtree(find(tmp_path, job.id).folder)
    gone = browser.get(f"/runs/{job.id}")
    assert gone.status_code == 400
    assert "its folder was deleted" in gone.text
    assert "its folder was deleted" in browser.get(f"/runs/{job.id}/state").text


def test_logs_are_listed_and_a_broken_one_hides_none(browser: TestClient, tmp_path: Path, run: Run) -> None:
    logs = [run("truthgym/forecasting", limit=3).location for _ in range(2)]
    (tmp_path / "logs" / "broken.eval").write_bytes(b"no log")
    names = [os.path.relpath(log, tmp_path) for log in logs]
    text = browser.get("/results").text
    assert all(name in text for name in names)
    assert "broken.eval is not a complete .eval log" in text
    compared = browser.get("/results/compare", params={"log": names})
    assert compared.status_code == 200
    assert "3 questions in both logs" in compared.text
    spaced = tmp_path / "logs" / "it's two.eval"
    shutil.copyfile(logs[0], spaced)
    words = shlex.join(["truthgym", "compare", "logs/it's two.eval", names[1]])
    text = browser.get("/results/compare", params={"log": ["logs/it's two.eval", names[1]]}).text
    assert words in unescape(text)
    assert "tick two or more" in browser.get("/results/compare", params={"log": names[:1]}).text
    assert browser.get("/view/").status_code == 200
    assert browser.get(f"/api/log-size/{names[0]}").status_code == 403  # only by its whole path
    assert browser.get(f"/api/log-size/{logs[0]}").json() > 0


def test_each_log_shows_what_its_scorers_found_and_what_they_leave_out(
    browser: TestClient, tmp_path: Path, run: Run
) -> None:
    brier: dict[str, Any] = {"limit": 40, "epochs": 1, "task_args": {"paradigms": "brier"}}
    whole = run("truthgym/forecasting", **brier)
    run("truthgym/forecasting", model_args={"min_confidence": 0.2}, **brier)
    for name in ("cancelled", "error", "invalidated"):
        log = whole.model_copy(deep=True)
        log.eval.task_id = log.eval.eval_id = name
        if name == "invalidated":
            log = invalidate_samples(log, [str(s.uuid) for s in (log.samples or [])[:10]], ProvenanceData(author="me"))
        else:
            log.status, log.samples, log.results = cast(EvalStatus, name), (log.samples or [])[:3], None
        log.location = str(tmp_path / "logs" / f"{name}.eval")
        write_eval_log(log, log.location)
    text = browser.get("/results").text
    rows = {name: text_of(row) for row in text.split("<tr>") for name in re.findall(r"logs/([^ &\"]+)\.eval", row)[:1]}
    figures = {name: float(value.value) for name, value in (whole.results or EvalResults()).scores[0].metrics.items()}
    shown = with_interval(figures["brier"], figures["brier_lower"], figures["brier_upper"])
    (unread,) = rows.keys() - {"cancelled", "error", "invalidated", Path(whole.location).stem}
    for name, said in {
        Path(whole.location).stem: f"brier {shown} 40 questions",
        unread: "of the answers could not be read, and are left out",
        "cancelled": "No score. The run was cancelled: 3 of its 40 samples are in the log.",
        "error": "No score. The run ended in an error: 3 of its 40 samples are in the log.",
        "invalidated": "30 questions",
    }.items():
        assert said in rows[name], rows
    assert "10 of 40 samples were invalidated" in rows["invalidated"]
    assert "lower is better; 0.25 for always one half." in rows[Path(whole.location).stem]
    (fields,) = re.findall(r'<datalist id="fields">(.*?)</datalist>', text) or [""]
    assert 'value="event"' in fields
    assert 'value="evidence"' not in fields  # too long to divide by


@pytest.mark.parametrize("path", ["../secret.eval", "/etc/passwd", "logs/none.eval", ".env"])
def test_no_path_leaves_the_folder(browser: TestClient, path: str) -> None:
    answer = browser.get("/results/script", params={"log": path})
    assert answer.status_code == 400
    assert "There is no log" in answer.text
    assert browser.get("/api/log-size//etc/passwd").status_code == 403


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/reports/none/index.html", 404),
        (f"/results/script?log={'a' * 300}.eval", 400),
        ("/?setup=not_a_text", 400),
        ("/", 200),  # with a link to nothing among the logs
        ("/results", 200),
        ("/reports/a%00b", 400),
        ("/results/script?log=a%00b", 400),
        ("/results/script?log=2026-11-22T17-00-00_urns_x.json", 400),
        ("/results/script.py?log=2026-11-22T17-00-01_urns_y.json", 400),
    ],
)
def test_an_address_of_nothing_and_a_file_that_is_no_log_are_no_fault_of_the_server(
    browser: TestClient, tmp_path: Path, address: str, status: int
) -> None:
    (tmp_path / "2026-11-22T17-00-00_urns_x.json").write_text('{"not": "a log"}')
    (tmp_path / "2026-11-22T17-00-01_urns_y.json").write_text("not JSON")
    for folder in ("logs", "setups"):
        (tmp_path / folder).mkdir()
    (tmp_path / "logs" / "gone.eval").symlink_to("nowhere")
    (tmp_path / "setups" / "not_a_text.py").write_bytes(b"\xff")
    assert browser.get(address).status_code == status


def test_the_viewer_reads_logs_alone_and_deletes_nothing(browser: TestClient, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    for file in (outside / "secret.json", tmp_path / ".env", tmp_path / "runs/a/command.json", tmp_path / "notes.txt"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
    (tmp_path / "link").symlink_to(outside)
    for name in (".env", "runs/a/command.json", "notes.txt", "link/secret.json"):
        assert browser.get(f"/api/log-download/{tmp_path}/{name}").status_code == 403, name
        assert browser.get(f"/api/log-bytes/{tmp_path}/{name}", params={"start": 0, "end": 1}).status_code == 403, name
    headers = {"X-Inspect-View-Request": "true"}
    assert browser.delete(f"/api/log-delete/{tmp_path}/notes.txt", headers=headers).status_code >= 400
    assert (tmp_path / "notes.txt").exists()
    assert browser.get("/api/docs").status_code == 404


def test_the_script_of_a_log_gives_the_same_scores(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    log = run("truthgym/forecasting", limit=4, epochs=2, task_args={"paradigms": "brier"}, temperature=0.5)
    text = repeat(log.location)
    log.location = str(tmp_path / "2026-01-01T00-00-00-00-00_a.json")
    write_eval_log(log, log.location)
    assert repeat(log.location).partition("import sys")[2] == text.partition("import sys")[2]
    script = tmp_path / "again.py"
    script.write_text(text)
    monkeypatch.setattr(sys, "argv", [str(script), str(tmp_path / "again")])
    monkeypatch.setenv("INSPECT_DISPLAY", "none")
    runpy.run_path(str(script), run_name="__main__")
    (again,) = (tmp_path / "again").glob("*.eval")
    second = read_eval_log(str(again))
    first, scores = (
        [
            (sample.id, sample.epoch, {name: score.value for name, score in (sample.scores or {}).items()})
            for sample in samples
        ]
        for samples in (log.samples or [], second.samples or [])
    )
    assert len(first) == 8
    assert scores == first
    assert second.eval.task_args == log.eval.task_args
    assert second.eval.model_generate_config == log.eval.model_generate_config
    assert (second.eval.config.limit, second.eval.config.epochs) == (4, 2)


def test_a_file_of_which_there_is_no_script_says_why(browser: TestClient, tmp_path: Path, run: Run) -> None:
    (tmp_path / "notes.json").write_text('{"a": 1}')
    (tmp_path / "pointer.json").write_text("version https://git-lfs.github.com/spec/v1\nsize 1\n")
    log = read_eval_log(run("truthgym/forecasting", limit=1).location)
    written = Path(log.location).read_bytes()
    (tmp_path / "journal.eval").write_bytes(written[:40] + b"x" * 50 + written[40:])
    log.eval.task_registry_name = log.eval.task_file = None
    write_eval_log(log, str(tmp_path / "python.json"))
    for name, reason in (
        ("notes.json", "cannot be read as a log"),
        ("pointer.json", "git lfs pull"),
        ("python.json", "was made in Python"),
        ("journal.eval", "journal.eval"),
    ):
        answer = browser.get("/results/script", params={"log": name})
        assert answer.status_code == 400
        assert reason in answer.text


def test_two_reports_in_one_second_have_a_folder_each(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Still(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Still":
            return cls(2026, 1, 1)

    folders: list[str] = []

    def start(folder: Path, command: list[str], name: str, at_once: int) -> SimpleNamespace:
        assert command[-1] == "--by=event"
        folders.append(command[-2])
        return SimpleNamespace(id="run")

    monkeypatch.setattr(results, "datetime", Still)
    monkeypatch.setattr(jobs, "start", start)
    for _ in range(2):
        assert client.post("/results/report", data={"by": "event"}).status_code == 303
    assert all(folder.startswith("reports/20260101-000000-") for folder in folders)
    assert len(set(folders)) == 2
