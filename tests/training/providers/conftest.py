"""Loopback servers that speak the APIs of OpenAI and Together, for the providers' own clients."""

import base64
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import Request, serving, write_rows
from truthgym.scorers.graders.openai_export import grader
from truthgym.training.conversion.options import KIND_OF_METHOD
from truthgym.training.providers.job import fine_tune, get_provider
from truthgym.training.providers.provider import JobSpec

RESULTS = "step,train_loss,train_accuracy,valid_loss,valid_mean_token_accuracy\n1,1.5,0.5,,\n2,0.75,0.8,0.9,0.7\n"
Answer = tuple[int, Any, dict[str, str]]


class Server:
    """A provider: its files and jobs, the requests it got, and the errors it will answer with."""

    provider: str
    model: str
    files_path = "POST /v1/files"
    jobs_path: str
    stages: tuple[str, ...]
    """The statuses of a job, one a request; the last one stays, replaced by `end`."""

    def __init__(self) -> None:
        self.files: list[dict[str, Any]] = []
        self.contents: dict[str, bytes] = {}
        self.jobs: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.errors: dict[str, list[int]] = defaultdict(list)
        """HTTP statuses to answer with first, by request."""
        self.error: dict[str, Any] = {"message": "Server error", "type": "x", "param": None, "code": None}
        self.end: dict[str, Any] = {}
        self.url = ""

    def answer(self, request: str, body: bytes) -> Answer:
        self.requests.append(request)
        if self.errors[request]:
            return self.errors[request].pop(0), {"error": self.error}, {}
        return self.serve(request, request.split(" ")[1].split("/")[2:], body)

    def serve(self, request: str, parts: list[str], body: bytes) -> Answer:
        raise NotImplementedError

    def advance(self, job: dict[str, Any]) -> None:
        if job["status"] in self.stages:
            stage = min(self.stages.index(job["status"]) + 1, len(self.stages) - 1)
            job |= {"status": self.stages[stage]} | (self.end if stage == len(self.stages) - 1 else {})

    def lines(self, job: int = 0, split: str = "training_file") -> list[Any]:
        return [json.loads(line) for line in self.contents[self.jobs[job][split]].splitlines()]


class OpenAIServer(Server):
    provider, model = "openai", "gpt-4.1-mini-2025-04-14"
    jobs_path = "POST /v1/fine_tuning/jobs"
    stages = ("validating_files", "running", "succeeded")
    trained = f"openai/ft:{model}:org::abc"

    def __init__(self) -> None:
        super().__init__()
        self.contents["file-results"] = base64.b64encode(RESULTS.encode())
        self.end = {"fine_tuned_model": f"ft:{self.model}:org::abc", "result_files": ["file-results"]}

    def fail(self) -> None:
        error = {"code": "invalid_training_file", "message": "Row 3 is bad.", "param": "training_file"}
        self.end = {"status": "failed", "error": error}

    def serve(self, request: str, parts: list[str], body: bytes) -> Answer:
        if request == self.files_path:
            name = re.search(rb'filename="([^"]+)"', body)
            assert name
            content = body.split(b"\r\n\r\n")[2].rsplit(b"\r\n--", 1)[0]
            file = {"id": f"file-{len(self.files) + 1}", "object": "file", "bytes": len(content), "created_at": 1,
                    "filename": name[1].decode(), "purpose": "fine-tune", "status": "processed"}  # fmt: skip
            self.files.append(file)
            self.contents[str(file["id"])] = content
            return 200, file, {}
        if parts[0] == "files":
            return 200, self.contents[parts[1]], {}
        if parts[-1] == "validate":
            return 200, {"grader": json.loads(body)["grader"]}, {}
        if request == self.jobs_path:
            hyper = {"n_epochs": 2, "batch_size": 1, "learning_rate_multiplier": 1.8}
            job = {"id": f"ftjob-{len(self.jobs) + 1}", "object": "fine_tuning.job", "created_at": 1, "error": None,
                   "fine_tuned_model": None, "finished_at": None, "hyperparameters": hyper, "organization_id": "org-1",
                   "result_files": [], "seed": 7, "status": self.stages[0], "trained_tokens": 1234}  # fmt: skip
            self.jobs.append(job | json.loads(body))
            return 200, self.jobs[-1], {}
        job = next(job for job in self.jobs if job["id"] == parts[2])
        if parts[3:] == ["events"]:
            events = [{"id": f"e{i}", "object": "fine_tuning.job.event", "created_at": i, "level": "info",
                       "type": "message", "message": text, "data": None}
                      for i, text in enumerate(["Created", "Started"])]  # fmt: skip
            return 200, {"object": "list", "data": events[::-1], "has_more": False}, {}
        if parts[3:] == ["checkpoints"]:
            point = {"object": "fine_tuning.job.checkpoint", "id": "ftckpt_1", "created_at": 1, "step_number": 1,
                     "fine_tuned_model_checkpoint": f"ft:{self.model}:org::abc:ckpt-step-1", "metrics": {"step": 2},
                     "fine_tuning_job_id": job["id"]}  # fmt: skip
            return 200, {"object": "list", "data": [point], "has_more": False}, {}
        self.advance(job)
        return 200, job, {}


LIMITS = {
    "model_name": "Qwen/Qwen3-8B",
    "default_gradient_accumulation_steps": 1,
    "lora_training": {"default_rank": 8, "max_batch_size": 32, "max_batch_size_dpo": 16, "max_rank": 64,
                      "min_batch_size": 8, "target_modules": ["q_proj"]},
    "max_learning_rate": 0.1, "max_num_checkpoints": 10, "max_num_epochs": 20, "max_num_evals": 100,
    "max_seq_length_dpo": 8192, "max_seq_length_sft": 8192, "merge_output_lora": True, "min_learning_rate": 1e-8,
    "min_max_seq_length": 32, "supports_full_training": False, "supports_reasoning": True, "supports_tools": True,
    "supports_vision": False,
}  # fmt: skip
METRICS: list[dict[str, float]] = [
    {"timestamp": 1, "train/global_step": 1, "train/epoch": 0.5, "train/loss": 1.5},
    {"timestamp": 2, "train/global_step": 2, "train/epoch": 1.0, "train/loss": 0.75},
    {"timestamp": 3, "eval/global_step": 2, "eval/loss": 0.9},
]
DAY = "2026-11-20T00:00:00Z"
EVENT = {"object": "fine-tune-event", "created_at": DAY, "level": "info"}


class TogetherServer(Server):
    provider, model = "together", "Qwen/Qwen3-8B"
    jobs_path = "POST /v1/fine-tunes"
    stages = ("pending", "running", "completed")
    trained = "together/me/Qwen3-8B-tuned"

    def __init__(self) -> None:
        super().__init__()
        self.events: list[dict[str, Any]] = [EVENT | {"type": "job_start", "message": text}
                                             for text in ("Created", "Started")]  # fmt: skip

    def fail(self) -> None:
        self.end = {"status": "error"}
        self.events.append(EVENT | {"type": "job_error", "level": "error", "message": "Row 3 is bad."})

    def serve(self, request: str, parts: list[str], body: bytes) -> Answer:
        if request == self.files_path:  # answers with the address for the bytes
            name = re.findall(r'name="file_name"\r\n\r\n([^\r]+)', body.decode())
            identity = f"file-{len(self.files) + 1}"
            self.files.append({"id": identity, "object": "file", "bytes": 0, "created_at": 1, "filename": name[0],
                               "FileType": "jsonl", "purpose": "fine-tune"})  # fmt: skip
            return 302, {}, {"Location": f"{self.url}/put/{identity}", "X-Together-File-Id": identity}
        if parts[0] == "put" or parts[-1] == "preprocess":
            file = next(file for file in self.files if file["id"] in parts)
            if parts[0] == "put":
                self.contents[file["id"]] = body
                file["bytes"] = len(body)
            return 200, file, {}
        if parts[-1] == "limits":
            return 200, LIMITS, {}
        if parts[-1] == "estimate-price":
            return 200, {"estimation_available": False, "unavailable_reason": "train_file_not_validated"}, {}
        if request == self.jobs_path:
            job = json.loads(body)
            assert job["batch_size"] == "max"
            self.jobs.append(job | {"id": f"ft-{len(self.jobs) + 1}", "status": self.stages[0], "user_id": "u",
                                    "created_at": DAY, "updated_at": DAY, "token_count": 4000, "batch_size": 32,
                                    "model_output_name": "me/Qwen3-8B-tuned"})  # fmt: skip
            return 200, self.jobs[-1] | {"adapter_output_name": None}, {}
        job = next(job for job in self.jobs if job["id"] == parts[1])
        if parts[2:] == ["events"]:
            return 200, {"data": self.events}, {}
        if parts[2:] == ["metrics"]:
            return 200, {"metrics": METRICS}, {}
        self.advance(job)
        return 200, job, {}


@pytest.fixture(params=[OpenAIServer, TogetherServer], ids=["openai", "together"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A running server. Each test runs with both; parametrise `server` indirectly with a class for one of them."""
    api: Server = request.param()

    def answer(request: Request) -> tuple[int, dict[str, str], bytes]:
        status, content, headers = api.answer(f"{request.method} {request.path}", request.body)
        text = content if isinstance(content, bytes) else json.dumps(content).encode()
        kind = "text/plain" if isinstance(content, bytes) else "application/json"
        return status, {"Content-Type": kind, "Retry-After-Ms": "1", **headers}, text

    with serving(answer) as http:
        api.url = f"{http.address}/v1"
        monkeypatch.setenv("OPENAI_BASE_URL", api.url)
        monkeypatch.setenv("TOGETHER_BASE_URL", http.address)
        for name in ("OPENAI_API_KEY", "TOGETHER_API_KEY"):
            monkeypatch.setenv(name, "sk-loopback")
        yield api


def question(i: int) -> list[dict[str, str]]:
    return [{"role": "system", "content": "Be calibrated."}, {"role": "user", "content": f"Is {i} even?"}]


def reply(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


ROWS: dict[str, Callable[[int], dict[str, Any]]] = {
    "sft": lambda i: {"prompt": question(i), "completion": reply("Yes."), "log": "secret.eval", "split": "train"},
    "dpo": lambda i: {"prompt": question(i), "chosen": reply("Yes."), "rejected": reply("No."), "margin": 0.5},
    "reinforcement": lambda i: {"prompt": question(i), "target": "yes", "proposition": f"{i} is even.", "log": "s"},
}


MakeSpec = Callable[..., JobSpec]
"""Writes a dataset and makes the specification of a job on it."""
Train = Callable[..., tuple[Any, list[str]]]
"""Runs a job as the command does; returns the folder and the printed lines."""


@pytest.fixture
def make_spec(server: Server, tmp_path: Path) -> MakeSpec:
    def make(method: str = "sft", rows: int = 10, **spec: Any) -> JobSpec:
        folder = tmp_path / f"data_{method}"
        folder.mkdir(exist_ok=True)
        card = {"kind": KIND_OF_METHOD[method], "counts": {"train": rows}, "logs": [{"log": "a.eval", "sha256": "0"}]}
        (folder / "README.md").write_text(f"---\ntruthgym: {json.dumps(card)}\n---\n")
        for split, numbers in (("train", range(rows)), ("validation", range(100, 103))):
            write_rows(folder / f"{split}.jsonl", *map(ROWS[method], numbers))
        if method == "reinforcement":
            spec = {"model": "o4-mini-2025-04-16", "grader": grader("python_brier")} | spec
        return JobSpec(**{"method": method, "model": server.model, "dataset": folder, **spec})

    return make


@pytest.fixture
def train(server: Server, tmp_path: Path) -> Train:
    def run(spec: JobSpec, confirm: Callable[[str], bool] = lambda job: True, **options: Any) -> Any:
        printed: list[str] = []
        provider = get_provider(server.provider)
        folder = fine_tune(spec, provider, tmp_path / "trained", confirm, poll=0, log=printed.append, **options)
        return folder, printed

    return run
