"""Fine-tuning jobs at Together: a loopback server speaks its API, and the vendor's own client talks to it."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from together import types

from truthgym.datasets.errors import BadInput
from truthgym.training.providers.job import FineTuning
from truthgym.training.providers.provider import Order
from truthgym.training.providers.together import TogetherJobs
from truthgym.training.trainers.model_card import read_card

MODEL = "Qwen/Qwen3-8B"
LIMITS = {
    "model_name": MODEL,
    "default_gradient_accumulation_steps": 1,
    "lora_training": {"default_rank": 8, "max_batch_size": 32, "max_batch_size_dpo": 16, "max_rank": 64,
                      "min_batch_size": 8, "target_modules": ["q_proj"]},
    "max_learning_rate": 0.1,
    "max_num_checkpoints": 10,
    "max_num_epochs": 20,
    "max_num_evals": 100,
    "max_seq_length_dpo": 8192,
    "max_seq_length_sft": 8192,
    "merge_output_lora": True,
    "min_learning_rate": 1e-8,
    "min_max_seq_length": 32,
    "supports_full_training": False,
    "supports_reasoning": True,
    "supports_tools": True,
    "supports_vision": False,
}  # fmt: skip
STAGES = ("pending", "queued", "running", "completed")
DAY = "2026-11-20T00:00:00Z"
EVENT = {"object": "fine-tune-event", "created_at": DAY, "level": "info"}
METRICS: list[dict[str, float]] = [
    {"timestamp": 1, "train/global_step": 1, "train/epoch": 0.5, "train/loss": 1.5},
    {"timestamp": 2, "train/global_step": 2, "train/epoch": 1.0, "train/loss": 0.75},
    {"timestamp": 3, "eval/global_step": 2, "eval/loss": 0.9},
]


class Api:
    """What the server holds, and what it was asked."""

    def __init__(self) -> None:
        self.files: list[dict[str, Any]] = []
        self.contents: dict[str, bytes] = {}
        self.jobs: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.unread = 1
        """How often an estimate is refused, for the file has not been read yet."""
        self.estimate: dict[str, Any] = {"estimation_available": True, "allowed_to_proceed": True, "user_limit": 5.0,
                                         "estimated_total_price": 0.42, "estimated_train_token_count": 2000,
                                         "estimated_eval_token_count": 500}  # fmt: skip
        self.events: list[dict[str, Any]] = [
            EVENT | {"type": "job_start", "message": "Started"},
            EVENT | {"type": "epoch_complete", "step": 2, "total_steps": 4, "message": "Epoch completed"},
        ]
        self.end = "completed"
        self.url = ""

    def answer(self, what: str, body: bytes) -> tuple[int, Any, dict[str, str]]:
        parts = what.split(" ")[1].split("/")[2:]
        if what == "POST /v1/files":  # answers with the place to put the bytes
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
        if what == "GET /v1/files":
            return 200, {"data": self.files}, {}
        if parts[0] == "files":
            report = {"valid": False, "error": "Line 3 has no messages.", "error_type": "INVALID_FORMAT"}
            return 200, self.files[0] | {"validation_report": report}, {}
        if parts[-1] == "limits":
            return 200, LIMITS, {}
        if parts[-1] == "estimate-price":
            self.unread -= 1
            unread = {"estimation_available": False, "unavailable_reason": "train_file_not_validated"}
            return 200, unread if self.unread >= 0 else self.estimate, {}
        if what == "POST /v1/fine-tunes":
            wanted = json.loads(body)
            job = {"id": f"ft-{len(self.jobs) + 1}", "status": STAGES[0], "user_id": "u", "created_at": DAY,
                   "updated_at": DAY, "token_count": 4000, "total_price": 420000000,
                   "model_output_name": f"me/Qwen3-8B-{wanted['suffix']}"} | wanted  # fmt: skip
            assert wanted["batch_size"] == "max"
            job["batch_size"] = 32
            self.jobs.append(job)
            return 200, job | {"adapter_output_name": None}, {}
        if what == "GET /v1/fine-tunes":
            return 200, {"data": self.jobs}, {}
        job = next(job for job in self.jobs if job["id"] == parts[1])
        if parts[2:] == ["events"]:
            return 200, {"data": self.events}, {}
        if parts[2:] == ["metrics"]:
            return 200, {"metrics": METRICS}, {}
        stage = STAGES.index(job["status"]) + 1 if job["status"] in STAGES else 3
        job["status"] = STAGES[stage] if stage < 3 else self.end
        return 200, job, {}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    held = Api()

    class Handler(BaseHTTPRequestHandler):
        def serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            what = f"{self.command} {self.path.split('?')[0]}"
            held.asked.append(what)
            status, said, headers = held.answer(what, body)
            content = json.dumps(said).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = serve

        def log_message(self, *_: Any) -> None: ...

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True).start()
    held.url = f"http://127.0.0.1:{listening.server_address[1]}/v1"
    monkeypatch.setenv("TOGETHER_BASE_URL", held.url.removesuffix("/v1"))
    monkeypatch.setenv("TOGETHER_API_KEY", "loopback")
    yield held
    listening.shutdown()


@pytest.fixture
def order(tmp_path: Path) -> Callable[..., Order]:
    """Write a dataset, and make the order to train on it."""

    def make(method: str = "sft", **more: Any) -> Order:
        folder = tmp_path / f"data_{method}"
        folder.mkdir(exist_ok=True)
        card = {"kind": {"sft": "sft", "dpo": "preference"}[method]}
        (folder / "README.md").write_text(f"---\ntruthgym: {json.dumps(card)}\n---\n")
        yes, no = ([{"role": "assistant", "content": text}] for text in ("Yes.", "No."))
        answers = {"completion": yes} if method == "sft" else {"chosen": yes, "rejected": no}
        for split, number in (("train", 10), ("validation", 2)):
            rows = [{"prompt": [{"role": "user", "content": f"Is {i} even?"}], **answers} for i in range(number)]
            (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return Order(**{"method": method, "model": MODEL, "dataset": folder, **more})

    return make


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., tuple[Path | None, list[str]]]:
    """Run a job as the command does; the folder, and what was said."""

    def run(order: Order, confirm: Callable[[str], bool] = lambda quote: True, **more: Any) -> Any:
        told: list[str] = []
        job = FineTuning(order, TogetherJobs(), tmp_path / "trained", confirm=confirm, say=told.append, poll=0, **more)
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


def test_supervised_with_together_s_own_estimate(api: Api, order: Make, train: Train) -> None:
    quotes: list[str] = []
    folder, _ = train(order(options={"learning_rate": 1e-4, "lora": True}), confirm=keeps(quotes))
    assert "Together estimates 2,500 tokens and $0.42." in quotes[0]
    job = api.jobs[0]
    assert (job["n_epochs"], job["n_evals"], job["learning_rate"], job["batch_size"]) == (2, 2, 1e-4, 32)
    assert job["training_type"]["lora_r"] == 8
    assert job["training_method"] == {"method": "sft", "train_on_inputs": "auto"}
    line = json.loads(api.contents["file-1"].splitlines()[0])
    assert [message["role"] for message in line["messages"]] == ["user", "assistant"]
    card = read_card(folder)
    assert card.model == f"together/me/Qwen3-8B-{job['suffix']}"
    assert card.curve == [
        {"step": 1.0, "epoch": 0.5, "loss": 1.5},
        {"step": 2.0, "epoch": 1.0, "loss": 0.75, "eval_loss": 0.9},
    ]
    text = (folder / "README.md").read_text()
    assert "4,000 tokens for $0.42" in text
    assert "endpoint" in text


def test_preference(api: Api, order: Make, train: Train) -> None:
    train(order("dpo", options={"beta": 0.2, "n_epochs": 1}, price=0.5))
    assert "POST /v1/fine-tunes/estimate-price" in api.asked  # the client asks before it creates
    method = api.jobs[0]["training_method"]
    assert (method["method"], method["dpo_beta"], api.jobs[0]["n_epochs"]) == ("dpo", 0.2, 1)
    line = json.loads(api.contents["file-1"].splitlines()[0])
    assert set(line) == {"input", "preferred_output", "non_preferred_output"}
    assert set(line["input"]) == {"messages"}  # unknown and empty fields are rejected there


@pytest.mark.parametrize("name", ["upload", "create", "look"])
def test_killed_anywhere_it_goes_on_and_does_nothing_twice(
    api: Api, order: Make, train: Train, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    real = getattr(TogetherJobs, name)

    def killed(self: TogetherJobs, *arguments: Any) -> Any:
        real(self, *arguments)
        raise SystemExit(9)

    monkeypatch.setattr(TogetherJobs, name, killed)
    with pytest.raises(SystemExit):
        train(order())
    monkeypatch.setattr(TogetherJobs, name, real)
    folder, _ = train(order())
    assert read_card(folder).model.startswith("together/")
    assert (api.asked.count("POST /v1/files"), len(api.jobs)) == (2, 1)


def test_declining_spends_nothing(api: Api, order: Make, train: Train) -> None:
    folder, told = train(order(), confirm=lambda quote: False)
    assert (folder, told[-1], api.jobs) == (None, "Nothing was spent.", [])


def test_a_file_that_together_cannot_read(api: Api, order: Make, train: Train) -> None:
    api.estimate = {"estimation_available": False, "unavailable_reason": "train_file_invalid"}
    with pytest.raises(BadInput, match="cannot use the train file: Line 3 has no messages"):
        train(order())


def test_without_an_estimate_a_price_must_be_said(api: Api, order: Make, train: Train) -> None:
    api.estimate = {"estimation_available": False, "unavailable_reason": "multimodal_dataset"}
    with pytest.raises(BadInput, match=r"gives no estimate of the price \(multimodal_dataset\).*--price"):
        train(order())
    folder, _ = train(order(price=0.5))
    assert read_card(folder).model


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"learning_rate": 1.0}, "--learning_rate 1: Together takes 1e-08 to 0.1"),
        ({"n_epochs": 30}, "--n_epochs 30: Together takes at most 20"),
        ({"lora": False}, "by LoRA only"),
    ],
)
def test_options_are_held_to_the_models_limits(
    api: Api, order: Make, train: Train, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(BadInput, match=told):
        train(order(options=options))
    assert not api.files


def test_a_failed_job_says_why(api: Api, order: Make, train: Train) -> None:
    api.end = "error"
    api.events.append(api.events[0] | {"type": "job_error", "level": "error", "message": "Out of credit"})
    with pytest.raises(BadInput, match=r"ended at Together without a model: error: Out of credit"):
        train(order())


def test_without_a_key(api: Api, order: Make, train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOGETHER_API_KEY")
    with pytest.raises(BadInput, match="Set TOGETHER_API_KEY"):
        train(order())
    assert api.asked == []


def test_the_servers_shapes_are_those_of_the_client(api: Api, order: Make, train: Train) -> None:
    train(order())
    types.FinetuneResponse.model_validate(api.jobs[0])
    types.FineTuningListResponse.model_validate({"data": api.jobs})
    types.FineTuningListEventsResponse.model_validate({"data": api.events})
    types.FineTuningListMetricsResponse.model_validate({"metrics": METRICS})
    types.FinetuneModelLimits.model_validate(LIMITS)
    types.FileList.model_validate({"data": api.files})
