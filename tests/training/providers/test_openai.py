"""Fine-tuning jobs at OpenAI: a loopback server speaks its API, and the vendor's own client talks to it."""

import base64
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import openai
import pytest

from truthgym.datasets.errors import BadInput
from truthgym.scorers.graders.openai_export import grader
from truthgym.training.providers.job import FineTuning
from truthgym.training.providers.openai import OpenAIJobs, read_curve
from truthgym.training.providers.provider import Order
from truthgym.training.trainers.model_card import read_card

MODEL = "gpt-4.1-mini-2025-04-14"
RESULTS = "step,train_loss,train_accuracy,valid_loss,valid_mean_token_accuracy\n1,1.5,0.5,,\n2,0.75,0.8,0.9,0.7\n"
STAGES = ("validating_files", "queued", "running", "succeeded")


class Api:
    """What the server holds, and what it was asked."""

    def __init__(self) -> None:
        self.files: list[dict[str, Any]] = []
        self.contents: dict[str, bytes] = {"file-results": base64.b64encode(RESULTS.encode())}
        self.jobs: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.answers: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        """Refusals to give first, by method and path."""
        self.end: dict[str, Any] = {"status": "succeeded", "fine_tuned_model": f"ft:{MODEL}:org::abc"}
        self.lost: list[str] = []
        """Requests that are served and whose answers never arrive."""
        self.url = ""

    def asks(self, what: str) -> int:
        """How often it was asked something."""
        return self.asked.count(what)

    def answer(self, what: str, query: dict[str, list[str]], body: bytes) -> tuple[int, Any]:
        if self.answers.get(what):
            return self.answers[what].pop(0)
        _method, _, path = what.partition(" ")
        parts = path.split("/")[2:]
        if what == "POST /v1/files":
            return 200, self.upload(body)
        if what == "GET /v1/files":
            return 200, {"object": "list", "data": self.files, "has_more": False}
        if parts[0] == "files":
            return 200, self.contents[parts[1]]
        if path.endswith("/validate"):
            return 200, {"grader": json.loads(body)["grader"]}
        if what == "POST /v1/fine_tuning/jobs":
            return 200, self.create(json.loads(body))
        if what == "GET /v1/fine_tuning/jobs":
            wanted = query.get("metadata[truthgym]")
            found = [job for job in self.jobs if not wanted or job["metadata"]["truthgym"] == wanted[0]]
            return 200, {"object": "list", "data": found, "has_more": False}
        job = next(job for job in self.jobs if job["id"] == parts[2])
        if parts[3:] == ["events"]:
            return 200, self.events(job, query)
        if parts[3:] == ["checkpoints"]:
            metrics = {"step": 2, "train_loss": 0.75}
            point = {"object": "fine_tuning.job.checkpoint", "id": "ftckpt_1", "created_at": 1, "step_number": 1,
                     "fine_tuned_model_checkpoint": f"ft:{MODEL}:org::abc:ckpt-step-1", "metrics": metrics,
                     "fine_tuning_job_id": job["id"]}  # fmt: skip
            return 200, {"object": "list", "data": [point], "has_more": False}
        stage = min(STAGES.index(job["status"]) + 1, 3) if job["status"] in STAGES else 3
        job |= {"status": STAGES[stage]} if stage < 3 else self.end | {"result_files": ["file-results"]}
        return 200, job

    def upload(self, body: bytes) -> dict[str, Any]:
        name = re.search(rb'filename="([^"]+)"', body)
        assert name
        assert b"fine-tune" in body
        content = body.split(b"\r\n\r\n")[2].rsplit(b"\r\n--", 1)[0]
        identity = f"file-{len(self.files) + 1}"
        file = {"id": identity, "object": "file", "bytes": len(content), "created_at": 1,
                "filename": name[1].decode(), "purpose": "fine-tune", "status": "processed"}  # fmt: skip
        self.files.append(file)
        self.contents[identity] = content
        return file

    def create(self, wanted: dict[str, Any]) -> dict[str, Any]:
        hyper = {"n_epochs": 2, "batch_size": 1, "learning_rate_multiplier": 1.8}
        job = {"id": f"ftjob-{len(self.jobs) + 1}", "object": "fine_tuning.job", "created_at": 1, "error": None,
               "fine_tuned_model": None, "finished_at": None, "hyperparameters": hyper, "organization_id": "org-1",
               "result_files": [], "seed": 7, "status": STAGES[0], "trained_tokens": 1234} | wanted  # fmt: skip
        self.jobs.append(job)
        return job

    def events(self, job: dict[str, Any], query: dict[str, list[str]]) -> dict[str, Any]:
        """Newest first, two to a page."""
        told: list[tuple[str, str, Any]] = [("message", "Created", None), ("message", "Running", None)]
        told += [("metrics", f"Step {i}/2", {"step": i, "total_steps": 2, "train_loss": 1.5 / i}) for i in (1, 2)]
        all_events = [
            {"id": f"e{i}", "object": "fine_tuning.job.event", "created_at": i, "level": "info", "type": kind,
             "message": message, "data": data}
            for i, (kind, message, data) in enumerate(told)
        ][::-1]  # fmt: skip
        after = query.get("after")
        start = next(i + 1 for i, one in enumerate(all_events) if one["id"] == after[0]) if after else 0
        return {"object": "list", "data": all_events[start : start + 2], "has_more": start + 2 < len(all_events)}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    held = Api()

    class Handler(BaseHTTPRequestHandler):
        def serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            url = urlsplit(self.path)
            what = f"{self.command} {url.path}"
            held.asked.append(what)
            status, said = held.answer(what, parse_qs(url.query), body)
            if what in held.lost:
                held.lost.remove(what)
                self.close_connection = True
                return
            content = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain" if isinstance(said, bytes) else "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Retry-After-Ms", "1")
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = serve

        def log_message(self, *_: Any) -> None: ...

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True).start()
    held.url = f"http://127.0.0.1:{listening.server_address[1]}/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", held.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    yield held
    listening.shutdown()


def question(i: int) -> list[dict[str, str]]:
    return [{"role": "system", "content": "Be calibrated."}, {"role": "user", "content": f"Is {i} even?"}]


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


ROWS: dict[str, Callable[[int], dict[str, Any]]] = {
    "sft": lambda i: {"prompt": question(i), "completion": said("Yes."), "log": "secret.eval", "split": "train"},
    "dpo": lambda i: {"prompt": question(i), "chosen": said("Yes."), "rejected": said("No."), "margin": 0.5},
    "reinforcement": lambda i: {
        "prompt": question(i),
        "target": "yes",
        "proposition": f"{i} is even.",
        "log": "s.eval",
    },
}
KINDS = {"sft": "sft", "dpo": "preference", "reinforcement": "prompts"}


@pytest.fixture
def order(tmp_path: Path) -> Callable[..., Order]:
    """Write a dataset, and make the order to train on it."""

    def make(method: str = "sft", rows: int = 10, **more: Any) -> Order:
        folder = tmp_path / f"data_{method}"
        folder.mkdir(exist_ok=True)
        card = {"kind": KINDS[method], "counts": {"train": rows}, "logs": [{"log": "a.eval", "sha256": "0"}]}
        (folder / "README.md").write_text(f"---\ntruthgym: {json.dumps(card)}\n---\n")
        for split, number in (("train", rows), ("validation", 3)):
            lines = [json.dumps(ROWS[method](i + (split == "validation") * 100)) for i in range(number)]
            (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
        if method == "reinforcement":
            more = {"model": "o4-mini-2025-04-16", "grader": grader("python_brier")} | more
        return Order(**{"method": method, "model": MODEL, "dataset": folder, **more})

    return make


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., tuple[Path | None, list[str]]]:
    """Run a job as the command does; the folder, and what was said."""

    def run(order: Order, confirm: Callable[[str], bool] = lambda quote: True, **more: Any) -> Any:
        told: list[str] = []
        job = FineTuning(order, OpenAIJobs(), tmp_path / "trained", confirm=confirm, say=told.append, poll=0, **more)
        return job.run(), told

    return run


def keeps(quotes: list[str]) -> Callable[[str], bool]:
    """Confirm, and keep what was to be confirmed."""

    def confirm(quote: str) -> bool:
        quotes.append(quote)
        return True

    return confirm


Train = Callable[..., tuple[Any, list[str]]]
Make = Callable[..., Order]


def test_supervised_from_a_dataset_to_a_card(api: Api, order: Make, train: Train) -> None:
    quotes: list[str] = []
    folder, told = train(order(options={"batch_size": 4, "seed": 3}, suffix="truth"), confirm=keeps(quotes))
    assert "$5.00 a million" in quotes[0]
    assert "x 2 epochs" in quotes[0]
    job = api.jobs[0]
    assert job["method"] == {"type": "supervised", "supervised": {"hyperparameters": {"batch_size": 4, "n_epochs": 2}}}
    assert (job["model"], job["suffix"], job["seed"]) == (MODEL, "truth", 3)
    sent = [json.loads(line) for line in api.contents[job["training_file"]].splitlines()]
    assert sent[0] == {"messages": [*question(0), *said("Yes.")]}  # and nothing of the log
    assert len(api.contents[job["validation_file"]].splitlines()) == 3
    card = read_card(folder)
    assert card.model == f"openai/ft:{MODEL}:org::abc"
    assert card.curve == [{"step": 1.0, "loss": 1.5}, {"step": 2.0, "loss": 0.75, "eval_loss": 0.9}]
    text = (folder / "README.md").read_text()
    assert f"inspect eval truthgym/urns --model openai/ft:{MODEL}:org::abc" in text
    assert "ckpt-step-1" in text
    assert "It used batch_size 4, learning_rate_multiplier 1.8, n_epochs 2, seed 3." in text
    assert "1,234 trained tokens" in text
    assert folder.name.startswith(f"{MODEL}-sft-")
    # The same command again does nothing, and says so.
    before = len(api.asked)
    again, told = train(order(options={"batch_size": 4, "seed": 3}, suffix="truth"))
    assert (again, len(api.asked)) == (folder, before)
    assert "trained already" in told[0]


def test_preference(api: Api, order: Make, train: Train) -> None:
    train(order("dpo", options={"beta": 0.2, "n_epochs": 1}))
    assert api.jobs[0]["method"] == {"type": "dpo", "dpo": {"hyperparameters": {"beta": 0.2, "n_epochs": 1}}}
    line = json.loads(api.contents["file-1"].splitlines()[0])
    assert set(line) == {"input", "preferred_output", "non_preferred_output"}
    assert line["preferred_output"] == said("Yes.")


def test_reinforcement_sends_the_grader_and_the_items_that_it_reads(api: Api, order: Make, train: Train) -> None:
    quotes: list[str] = []
    folder, _ = train(order("reinforcement"), confirm=keeps(quotes))
    assert "$100.00 for each" in quotes[0]
    method = api.jobs[0]["method"]
    assert method == {"type": "reinforcement", "reinforcement": {"grader": grader("python_brier")}}
    line = json.loads(api.contents["file-1"].splitlines()[0])
    assert [message["role"] for message in line["messages"]] == ["developer", "user"]
    assert (line["target"], line["proposition"], line["question"]) == ("yes", "0 is even.", "Is 0 even?")
    assert "log" not in line
    assert "POST /v1/fine_tuning/alpha/graders/validate" in api.asked
    assert read_card(folder).config["grader"] == "python_brier"


@pytest.mark.parametrize("stage", ["POST /v1/files", "POST /v1/fine_tuning/jobs", "GET /v1/fine_tuning/jobs/ftjob-1"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_anywhere_it_goes_on_and_does_nothing_twice(
    api: Api, order: Make, train: Train, monkeypatch: pytest.MonkeyPatch, stage: str, when: str
) -> None:
    names = {"POST /v1/files": "upload", "POST /v1/fine_tuning/jobs": "create"}
    name = names.get(stage, "look")
    real = getattr(OpenAIJobs, name)

    def killed(self: OpenAIJobs, *arguments: Any) -> Any:
        if when == "after":
            real(self, *arguments)
        raise SystemExit(9)

    monkeypatch.setattr(OpenAIJobs, name, killed)
    with pytest.raises(SystemExit):
        train(order())
    monkeypatch.setattr(OpenAIJobs, name, real)
    asked: list[str] = []
    folder, _ = train(order(), confirm=keeps(asked))
    assert read_card(folder).model.startswith("openai/ft:")
    assert (api.asks("POST /v1/files"), api.asks("POST /v1/fine_tuning/jobs")) == (2, 1)
    assert not asked  # it was confirmed before


def test_a_lost_answer_makes_no_second_job(api: Api, order: Make, train: Train) -> None:
    api.lost = ["POST /v1/fine_tuning/jobs"]
    folder, _ = train(order())
    assert len(api.jobs) == 1
    assert read_card(folder).model


def test_what_passes_is_waited_for(api: Api, order: Make, train: Train) -> None:
    busy = (429, {"error": {"message": "Rate limit reached", "type": "requests", "param": None, "code": None}})
    down = (500, {"error": {"message": "Server error", "type": "server_error", "param": None, "code": None}})
    api.answers = {
        "POST /v1/files": [busy],
        "POST /v1/fine_tuning/jobs": [busy],
        "GET /v1/fine_tuning/jobs/ftjob-1": [down, down, down, busy],
    }
    folder, told = train(order())
    assert read_card(folder).model
    assert len(api.jobs) == 1
    assert "OpenAI cannot be reached (Server error); asking again" in told


def test_a_refused_file_is_told_in_the_vendors_words(api: Api, order: Make, train: Train) -> None:
    error = {"message": "Invalid file format.", "type": "invalid_request_error", "param": "training_file", "code": None}
    api.answers = {"POST /v1/fine_tuning/jobs": [(400, {"error": error})]}
    with pytest.raises(BadInput, match=r"OpenAI refused the job: Invalid file format. \(parameter training_file\)"):
        train(order())


def test_a_failed_job_says_why_and_starts_again_when_told_to(api: Api, order: Make, train: Train) -> None:
    good = api.end
    error = {"code": "invalid_training_file", "message": "Row 3 is bad.", "param": "training_file"}
    api.end = {"status": "failed", "error": error}
    for _ in range(2):  # at once, and from the record
        with pytest.raises(BadInput, match=r"failed: Row 3 is bad.*--overwrite"):
            train(order())
    assert len(api.jobs) == 1
    api.end = good
    folder, _ = train(order(), overwrite=True)
    assert len(api.jobs) == 2
    assert read_card(folder).model


def test_a_running_job_is_not_thrown_away(api: Api, order: Make, train: Train) -> None:
    api.end = {"status": "running"}
    folder, _ = train(order(), wait=False)
    assert json.loads((folder / "job.json").read_text())["job"] == "ftjob-1"
    assert not (folder / "README.md").exists()
    told = json.loads((folder / "job.json").read_text())
    for known in (told, {key: value for key, value in told.items() if key != "job"}):  # killed before it was recorded
        (folder / "job.json").write_text(json.dumps(known))
        with pytest.raises(BadInput, match="its job ftjob-1 is .* cancel it there"):
            train(order(), overwrite=True)


def test_declining_spends_nothing(api: Api, order: Make, train: Train, tmp_path: Path) -> None:
    folder, told = train(order(), confirm=lambda quote: False)
    assert (folder, told[-1], api.asked) == (None, "Nothing was spent.", [])
    assert not list((tmp_path / "trained").glob("[!.]*"))


def test_declining_to_train_again_keeps_what_was_trained(api: Api, order: Make, train: Train) -> None:
    folder, _ = train(order())
    held = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert train(order(), overwrite=True, confirm=lambda quote: False)[0] is None
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == held
    again, _ = train(order(), overwrite=True)
    assert (again, len(api.jobs)) == (folder, 2)
    assert not list(folder.parent.glob(".*.before"))


def test_bad_input_costs_nothing(api: Api, order: Make, train: Train) -> None:
    with pytest.raises(BadInput, match="has 9 rows, and vendors train on no fewer than 10"):
        train(order(rows=9))
    with pytest.raises(BadInput, match="No price is known here for sft of gpt-9"):
        train(order(model="gpt-9"))
    wrong = order("dpo")
    with pytest.raises(BadInput, match="kind preference, and sft needs one of kind sft"):
        train(Order("sft", MODEL, wrong.dataset))
    unknown = order("reinforcement")
    path = unknown.dataset / "train.jsonl"
    path.write_text(path.read_text().replace('"target": "yes"', '"target": ""'))
    with pytest.raises(BadInput, match="10 rows have no target yes or no, which the grader python_brier reads"):
        train(unknown)
    (unknown.dataset / "validation.jsonl").unlink()
    with pytest.raises(BadInput, match="no validation split"):
        train(unknown)
    held_out = order()
    path = held_out.dataset / "train.jsonl"
    path.write_text(path.read_text().replace('"split": "train"', '"split": "test"'))
    with pytest.raises(BadInput, match="row 1: it is of the test split"):
        train(held_out)
    assert api.asked == []


def test_a_grader_that_the_vendor_refuses(api: Api, order: Make, train: Train) -> None:
    error = {"message": "Grader is invalid.", "type": "invalid_request_error", "param": "grader", "code": None}
    api.answers = {"POST /v1/fine_tuning/alpha/graders/validate": [(400, {"error": error})]}
    with pytest.raises(BadInput, match="Grader is invalid"):
        train(order("reinforcement"))
    assert not api.files


def test_two_at_once_make_one_job(api: Api, order: Make, train: Train) -> None:
    def meanwhile(quote: str) -> bool:
        with pytest.raises(BadInput, match="is in use by another command"):
            train(order())
        return True

    train(order(), confirm=meanwhile)
    assert len(api.jobs) == 1


def test_without_a_key(api: Api, order: Make, train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(BadInput, match="Set OPENAI_API_KEY"):
        train(order())
    assert api.asked == []


def test_a_dataset_in_openai_s_shape_goes_up_as_it_is(api: Api, order: Make, train: Train) -> None:
    made = order()
    (made.dataset / "README.md").write_text("---\ntruthgym: {kind: openai}\n---\n")
    lines = [{"messages": [*question(i), *said("Yes.")]} for i in range(10)]
    (made.dataset / "train.jsonl").write_text("\n".join(map(json.dumps, lines)))
    train(made)
    assert [json.loads(line) for line in api.contents["file-1"].splitlines()] == lines
    with pytest.raises(BadInput, match="it is no row for dpo"):
        train(Order("dpo", MODEL, made.dataset))


@pytest.mark.slow
def test_a_killed_command_goes_on_with_its_job(
    api: Api, order: Make, tmp_path: Path, environment: dict[str, str]
) -> None:
    end, api.end = api.end, {"status": "running"}
    command = [sys.executable, "-m", "truthgym.cli.main", "train", "sft", "--provider", "openai", "--model", MODEL]
    command += ["--dataset_name", str(order().dataset), "--output_dir", str(tmp_path / "trained"), "--yes"]
    known = environment | {"OPENAI_BASE_URL": api.url, "OPENAI_API_KEY": "sk-loopback"}
    with subprocess.Popen([*command, "--poll", "0.01"], env=known, stdout=subprocess.DEVNULL) as process:
        while not api.jobs:
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    api.end = end
    done = subprocess.run([*command, "--poll", "0"], env=known, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (len(api.jobs), len(api.files)) == (1, 2)
    assert f"Trained: openai/ft:{MODEL}:org::abc" in done.stdout


def test_result_files_are_read_as_text_and_in_base64() -> None:
    plain = read_curve(RESULTS)
    assert plain == read_curve(base64.b64encode(RESULTS.encode()).decode())
    assert plain[1] == {"step": 2.0, "loss": 0.75, "eval_loss": 0.9}
    assert read_curve("nothing of use") == []


def test_the_servers_shapes_are_those_of_the_client(api: Api, order: Make, train: Train) -> None:
    train(order())
    client = openai.OpenAI()
    for job in client.fine_tuning.jobs.list():
        openai.types.fine_tuning.FineTuningJob.model_validate(job.model_dump(), strict=True)
    for event in client.fine_tuning.jobs.list_events("ftjob-1"):
        openai.types.fine_tuning.FineTuningJobEvent.model_validate(event.model_dump(), strict=True)
    for file in client.files.list():
        openai.types.FileObject.model_validate(file.model_dump(), strict=True)
