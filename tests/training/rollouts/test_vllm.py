"""A real vLLM on the CPU: evals through it, and GRPO and RLOO that sample from its server.

`tests/vllm_environment.sh` makes an environment with it. The tests with a real model need $SMOLLM2, a folder that
`truthgym models smollm2` wrote. What a CPU cannot do is the way of the weights to the server: TRL sends them over NCCL.
Here they go through the served folder, and vLLM starts anew; docs/reinforcement.md names what remains untested.
"""

import json
import math
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from inspect_ai import eval, eval_retry
from inspect_ai.model import ChatMessageUser, get_model

from tests.fixtures import QUIET, Fails, Run, details, metrics, reason, samples
from tests.training.rollouts.conftest import Train
from truthgym.datasets.errors import BadInput
from truthgym.models.predictor import reply_logprobs
from truthgym.tasks.mutual_prediction import mutual_prediction
from truthgym.tasks.world_in_the_loop import world_in_the_loop
from truthgym.tasks.worlds import urns
from truthgym.training.rollouts.trl_adapter import RolloutAdapter

if not find_spec("vllm"):
    pytest.skip("vLLM is missing: tests/vllm_environment.sh FOLDER makes an environment", allow_module_level=True)
pytestmark = [pytest.mark.vllm, pytest.mark.slow]

SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1", "VLLM_SERVER_DEV_MODE": "1",
}  # fmt: skip
CONTEXT = 512
SMALL: dict[str, Any] = {"epochs": 1, "max_tokens": 12}


@dataclass
class VLLM:
    """vLLM's server, as TRL wants it started."""

    folder: Path
    dtype: str
    context: int
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    url: str = field(default="", init=False)

    def start(self) -> None:
        from trl.scripts.vllm_serve import ScriptArguments, build_command

        if not self.port:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.port = free.getsockname()[1]
        options = ScriptArguments(
            str(self.folder), host="127.0.0.1", port=self.port, dtype=self.dtype, max_model_len=self.context,
            enforce_eager=True,
        )  # fmt: skip
        self.url = f"http://127.0.0.1:{self.port}"
        output = self.folder.parent / "server.txt"
        command = build_command(options, ["--served-model-name", "served", "--max-num-seqs", "32"])
        with output.open("wb") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=out, env=os.environ | SETTINGS, cwd=self.folder.parent,
                start_new_session=True,
            )  # fmt: skip
        until = time.monotonic() + 600
        while not self.is_up():
            assert self.process.poll() is None, output.read_text()[-3000:]
            assert time.monotonic() < until, output.read_text()[-3000:]
            time.sleep(0.5)

    def is_up(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health").is_success
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        """End the server and its workers at once."""
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def requests(self) -> float:
        """Number of requests that it has answered."""
        lines = httpx.get(f"{self.url}/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:request_success_total"))

    def reload(self, model: Any) -> None:
        """Serve the weights of a model in training, by a restart: after `reload_weights`, ratios were off on a CPU."""
        file = self.folder / "model.safetensors"
        before = file.read_bytes()
        model.save_pretrained(self.folder)
        if file.read_bytes() != before:
            self.kill()
            self.start()


@pytest.fixture(scope="module")
def tiny_server(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VLLM]:
    """The tiny model with random weights, in a copy."""
    server = VLLM(shutil.copytree(tiny_model, tmp_path_factory.mktemp("served") / "tiny"), "float32", CONTEXT)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def tiny(tiny_server: VLLM, monkeypatch: pytest.MonkeyPatch) -> VLLM:
    monkeypatch.setenv("VLLM_BASE_URL", f"{tiny_server.url}/v1")
    return tiny_server


def test_an_eval_and_its_cache(run: Run, tiny: VLLM) -> None:
    asked = []
    for _ in range(2):
        # otherwise the first replies have another key in the cache than those after the first request
        now: dict[str, Any] = {"model_args": {"lazy_init": False}, "cache": True}
        log = run(urns(n=3, paradigms={"brier": {"repair": 0}}), "vllm/served", **now, **SMALL)
        asked.append(tiny.requests())
        assert [sample.output.usage.output_tokens for sample in samples(log) if sample.output.usage] == [12] * 3
        assert "--max-tokens" in reason(samples(log)[0], "brier")
    assert asked[0] == asked[1] >= 3


def test_more_tokens_than_the_context_are_refused_with_a_remedy(run: Run, fails: Fails, tiny: VLLM) -> None:
    task = urns(n=1, paradigms={"brier": {"repair": 0}})
    said = fails(task, "vllm/served", epochs=1, max_tokens=2 * CONTEXT)
    assert "refuses --max-tokens; lower it: " in said
    assert f"max_model_len=max_total_tokens={CONTEXT}" in said
    log = run(task, "vllm/served", epochs=1, max_tokens=CONTEXT - 10)
    assert "(servers add --max-tokens)" in reason(samples(log)[0], "brier")


REPLIES = ["Yes.", "é, 漢字 and 🙂", r"\finalBeliefProb{0.37}", "", "no " * CONTEXT]


def test_log_probabilities_of_given_replies(tiny: VLLM) -> None:
    """Those of transformers, for characters of several tokens too. A special token in a text is one for vLLM alone."""
    local = get_model("hf/served", model_path=str(tiny.folder), device="cpu", memoize=False)
    served = get_model("vllm/served", memoize=False)
    question = [ChatMessageUser(content="Is it 🙂?")]

    async def ask(model: Any, replies: list[str]) -> Any:
        return await reply_logprobs(model, question, replies)

    ours, theirs = (anyio.run(ask, model, REPLIES[:4]) for model in (served, local))
    for one, other, reply in zip(ours, theirs, REPLIES[:4], strict=True):
        assert one.total == pytest.approx(other.total, rel=1e-4, nan_ok=True)
        assert one.count == other.count
        assert "".join(text for text, _ in one.tokens).replace("�", "") == reply or "🙂" in reply
    (long,) = anyio.run(ask, served, REPLIES[4:])
    assert long.reason == "The conversation with the reply is longer than the server's context."
    special = [anyio.run(ask, model, ["a<|end|>b"])[0] for model in (served, local)]
    assert special[0].count < special[1].count


def test_a_killed_server_costs_no_earlier_reply(tiny: VLLM, tmp_path: Path) -> None:
    task = urns(n=3, paradigms={"brier": {"repair": 0}})
    once: dict[str, Any] = {"max_samples": 1, "max_connections": 1, "max_retries": 0, "cache": True, **SMALL}
    first = eval(task, model="vllm/served", limit=1, log_dir=str(tmp_path / "a"), max_samples=1, cache=True, **SMALL,
                 **QUIET)[0]  # fmt: skip
    assert first.status == "success"
    tiny.kill()
    (failed,) = eval(task, model="vllm/served", log_dir=str(tmp_path / "b"), **once, **QUIET)
    assert failed.status == "error"
    tiny.start()
    before = tiny.requests()
    (retried,) = eval_retry(failed, log_dir=str(tmp_path / "b"), **QUIET)
    assert retried.status == "success"
    assert len(samples(retried)) == 3
    assert tiny.requests() - before == 2, "the first reply is in the cache"


def test_weights_are_not_sent_from_a_cpu(train: Train, tiny: VLLM) -> None:
    with pytest.raises(BadInput, match="NCCL weight-transfer engine, which needs a CUDA device, got 'cpu'"):
        train(use_vllm=True, vllm_server_base_url=tiny.url)


@pytest.mark.parametrize("method", ["grpo", "rloo"])
def test_training_on_what_the_server_samples(
    method: str, train: Train, tiny: VLLM, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step is sampled with the weights of that step: the trainer gives the same log-probabilities."""
    import torch
    from trl.generation.vllm_client import VLLMClient
    from trl.generation.vllm_generation import VLLMGeneration

    differences: list[torch.Tensor] = []
    run = RolloutAdapter.run

    def compared(self: RolloutAdapter, prompts: Any, trainer: Any) -> None:
        run(self, prompts, trainer)
        here = []
        for row in (sample.row for sample in self.samples):
            ids = torch.tensor([[*row.prompt_ids, *row.completion_ids]])
            with torch.no_grad():
                logprobs = trainer.model(ids).logits[0, len(row.prompt_ids) - 1 : -1].log_softmax(-1)
            own = logprobs.gather(1, torch.tensor(row.completion_ids)[:, None])[:, 0]
            here += [(own - torch.tensor(row.logprobs))[torch.tensor(row.mask) == 1]]
        differences.append(torch.cat(here))

    monkeypatch.setattr(RolloutAdapter, "run", compared)
    monkeypatch.setattr(VLLMClient, "init_communicator", lambda self, device: None)
    monkeypatch.setattr(VLLMGeneration, "sync_weights", lambda self: tiny.reload(self.model))
    folder = train(method, use_vllm=True, vllm_server_base_url=tiny.url, max_steps=2, learning_rate=1e-2)
    assert len(differences) == 2
    for step, difference in enumerate(differences, 1):
        ratios = difference.exp()
        print(f"{method}, step {step}: {len(ratios)} tokens, importance ratio {ratios.mean():.6f} on average, "
              f"{ratios.min():.6f} to {ratios.max():.6f}")  # fmt: skip
        assert difference.abs().max() < 1e-3
    history = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    if method == "grpo":
        ratio = [entry["sampling/importance_sampling_ratio/max"] for entry in history if "reward" in entry]
        assert ratio == pytest.approx([1] * 2, abs=2e-3)
    weights = [(path / "model.safetensors").read_bytes() for path in (tiny_model, folder)]
    assert weights[0] != weights[1]


@pytest.fixture(scope="module")
def smollm2_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VLLM]:
    if not (folder := os.environ.get("SMOLLM2")):
        pytest.skip("SMOLLM2 is not set to the folder of `truthgym models smollm2 --out FOLDER`")
    server = VLLM(tmp_path_factory.mktemp("served") / "smollm2", "bfloat16", 2048)
    server.folder.symlink_to(Path(folder).absolute())
    server.start()
    yield server
    server.kill()


def test_beliefs_predictions_and_uplift_of_a_real_model(
    run: Run, smollm2_server: VLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_BASE_URL", f"{smollm2_server.url}/v1")
    small: dict[str, Any] = {"epochs": 1, "max_tokens": 24}
    log = run(urns(n=4, draws=2, paradigms={"martingale": {"elicitor": "token"}}), "vllm/served", **small)
    beliefs = [belief for sample in samples(log) for belief in details(sample, "martingale")["beliefs"]]
    read = [belief["value"] for belief in beliefs if "value" in belief]
    assert len(beliefs) == 8
    assert 0 < len(read) < 8
    assert all(0 < belief < 1 for belief in read)
    assert all("of the probability is on A and B" in belief["reason"] for belief in beliefs if "value" not in belief)
    other = run(urns(n=4, draws=2, paradigms="brier"), "reference/bayesian", epochs=1)
    logs = ",".join(str(one.location) for one in (log, other))
    predicted = run(mutual_prediction(logs, trials=1, k_context=1), "vllm/served", **small)
    trials = [trial for sample in samples(predicted) for trial in details(sample, "mutual_predictability")["trials"]]
    assert [(trial["predictor"], trial["method"]) for trial in trials] == [("vllm/served", "teacher_forced")] * 4
    looped = run(
        world_in_the_loop(domain="urns", n=2), "vllm/served", model_roles={"forecaster": "vllm/served"}, **small
    )
    figures = metrics(looped)
    assert (figures["n"], figures["share_scored"]) == (2, 1)
    assert math.isfinite(figures["world_uplift"])
