"""Sampling: tokens come as often as the model gives them probability, alike whatever is beside them, in any timing."""

import inspect
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import numpy as np
import pytest
from anyio.abc import TaskGroup

from tests import fixtures
from tests.fixtures import Server, serving
from truthgym.training.rollouts import sampling
from truthgym.training.rollouts.sampling import (
    Batcher,
    Generated,
    LocalEngine,
    Request,
    VLLMEngine,
    _from_this_process,
    open_engine,
    uniforms,
)

PROMPTS = ([7, 8, 9], [300, 301], [12, 13, 14, 15, 16, 17])


@pytest.fixture(scope="module")
def local(tiny_model: Path, tokenizer: Any) -> LocalEngine:
    from transformers import AutoModelForCausalLM

    return LocalEngine(AutoModelForCausalLM.from_pretrained(tiny_model), tokenizer, [tokenizer.eos_token_id])


def request(place: int, prompt: Sequence[int] = PROMPTS[0], tokens: int = 6, **options: Any) -> Request:
    return Request(key=("task", str(place), 1, 0), prompt_ids=prompt, max_tokens=tokens, seed=(7,), **options)


def only(local: LocalEngine, probabilities: dict[int, float]) -> LocalEngine:
    """An engine whose model gives the same probabilities whatever it has read."""
    import torch

    logits = torch.full((len(local.tokenizer),), -torch.inf)
    for token, probability in probabilities.items():
        logits[token] = float(np.log(probability))

    class Fixed:
        training, device, generation_config = False, torch.device("cpu"), local.model.generation_config

        def eval(self) -> None: ...
        def train(self, mode: bool) -> None: ...

        def generate(self, input_ids: Any, generation_config: Any, logits_processor: Any, **_: Any) -> Any:
            ended = torch.zeros(len(input_ids), dtype=torch.bool)
            for _step in range(generation_config.max_new_tokens):
                scores = logits_processor(input_ids, logits.expand(len(input_ids), -1).clone())
                token = torch.where(ended, generation_config.pad_token_id, scores.argmax(-1))
                ended |= torch.isin(token, torch.tensor(generation_config.eos_token_id))
                input_ids = torch.cat([input_ids, token[:, None]], 1)
            return input_ids

    return LocalEngine(Fixed(), local.tokenizer, local.end_ids)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.5, 0.3, 0.15, 0.05]),
        ({"temperature": 0.5}, [0.6849, 0.2466, 0.0616, 0.0068]),
        ({"top_k": 2}, [0.625, 0.375, 0, 0]),
        ({"top_p": 0.9}, [0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0]),
        ({"temperature": 0.0}, [1, 0, 0, 0]),
    ],
    ids=["plain", "temperature", "top_k", "top_p", "greedy"],
)
def test_tokens_come_as_often_as_they_are_likely(
    local: LocalEngine, options: dict[str, Any], expected: list[float]
) -> None:
    from scipy.stats import chisquare

    engine = only(local, dict(zip((20, 21, 22, 23), (0.5, 0.3, 0.15, 0.05), strict=True)))
    result = engine([request(place, tokens=100, **options) for place in range(40)])
    counts = np.bincount([token - 20 for row in result for token in row.ids], minlength=4)
    assert counts.sum() == 4000
    possible = [at for at in range(4) if expected[at]]
    assert counts[possible].sum() == 4000, "none that is excluded is drawn"
    if len(possible) > 1:
        shares = np.array(expected)[possible]
        assert chisquare(counts[possible], 4000 * shares / shares.sum()).pvalue > 1e-3
    at_temperature = np.array([0.5, 0.3, 0.15, 0.05]) ** (1 / (options.get("temperature") or 1))
    logprobs = np.log(at_temperature / at_temperature.sum())
    assert result[0].logprobs == pytest.approx([logprobs[token - 20] for token in result[0].ids], abs=1e-5)


def test_a_reply_does_not_depend_on_the_rest_of_its_batch(local: LocalEngine) -> None:
    narrowed: list[dict[str, Any]] = [{}, {"top_k": 3}, {"top_p": 0.5}, {"top_k": 3, "top_p": 0.5}]
    requests = [request(place, PROMPTS[place % 3], tokens=5 + place % 4, **narrowed[place // 3]) for place in range(12)]
    together = local(requests)
    assert [len(row.ids) for row in together] == [5 + place % 4 for place in range(12)]
    assert local(requests[::-1])[::-1] == together
    alone = [local([alone_request])[0] for alone_request in requests]
    assert [row.ids for row in alone] == [row.ids for row in together]
    assert together[0].ids != together[4].ids[:5], "another request has other luck"
    assert np.array_equal(uniforms(requests[0]), uniforms(request(0, PROMPTS[1], tokens=5)))
    assert uniforms(request(0, tokens=50))[:5].tolist() == uniforms(requests[0]).tolist()
    assert uniforms(request(0))[0] != uniforms(Request(("task", "0", 1, 0), PROMPTS[0], 6, seed=(8,)))[0]


@pytest.mark.parametrize(("temperature", "adapted"), [(1.0, False), (0.7, False), (1.6, False), (1.0, True)])
def test_logprobs_are_what_the_trainer_reckons(local: LocalEngine, temperature: float, adapted: bool) -> None:
    import torch
    from peft import LoraConfig, get_peft_model

    model, lora = deepcopy(local.model), LoraConfig(target_modules="all-linear", init_lora_weights=False)
    model = get_peft_model(model, lora) if adapted else model
    requests = [request(i, ids, tokens=8, temperature=temperature, top_p=0.9) for i, ids in enumerate(PROMPTS)]
    replies = LocalEngine(model, local.tokenizer, local.end_ids)(requests)
    assert (replies != local(requests)) == adapted
    for asked, result in zip(requests, replies, strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([[*asked.prompt_ids, *result.ids]])).logits[0]
        logprobs = torch.log_softmax(logits[len(asked.prompt_ids) - 1 : -1] / temperature, -1)
        expected = logprobs.gather(1, torch.tensor(result.ids)[:, None])[:, 0].tolist()
        assert result.logprobs == pytest.approx(expected, abs=1e-4)


def test_sampling_settings_that_a_model_comes_with_have_no_part(
    local: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import GenerationConfig

    plain = local([request(0, tokens=20)])
    own = GenerationConfig(repetition_penalty=3.0, no_repeat_ngram_size=1, min_new_tokens=19, top_k=1)
    monkeypatch.setattr(local.model, "generation_config", own)
    monkeypatch.setattr(local.model, "training", True)
    assert local([request(0, tokens=20)]) == plain
    assert local.model.generation_config is own
    assert local.model.training


def test_a_reply_ends_with_its_end_token(local: LocalEngine) -> None:
    end = local.end_ids[0]
    result = only(local, {20: 0.7, end: 0.3})([request(place, tokens=30) for place in range(30)])
    for row in result:
        assert row.ids.count(end) == (len(row.ids) < 30 or row.ids[-1] == end)
        assert end not in row.ids[:-1]
        assert len(row.logprobs) == len(row.ids)
    assert len({len(row.ids) for row in result}) > 3


def test_a_stop_text_ends_its_own_request_alone(local: LocalEngine) -> None:
    first, second, other = ([token] for token in local.tokenizer("0102yes")["input_ids"][:3])
    ids = [first[0], second[0], other[0]]
    text = local.tokenizer.decode([ids[0], ids[1]])
    requests = [
        request(0, [*PROMPTS[0], ids[0]], tokens=40, stop=(text,)),
        request(1, tokens=40, stop=("no such text",)),
        request(2, tokens=40),
        request(3, [*PROMPTS[1], ids[0], ids[1]], tokens=40, stop=(text, "no such text")),
    ]
    fixed = only(local, dict.fromkeys(ids, 1 / 3))
    plain = fixed([request(place, stopped.prompt_ids, tokens=40) for place, stopped in enumerate(requests)])
    for row, stopped, whole in zip(fixed(requests), requests, plain, strict=True):
        assert row.ids == whole.ids[: len(row.ids)]
        if text in stopped.stop:
            assert text in local.tokenizer.decode(whole.ids)
            assert local.tokenizer.decode(row.ids).endswith(text)
            assert local.tokenizer.decode(row.ids).count(text) == 1
        else:
            assert len(row.ids) == 40


def test_the_models_own_stopping_agrees(local: LocalEngine) -> None:
    """With transformers' own loop: rows that are done are padded, and the padding is not taken for a reply."""
    plain = local([request(place, tokens=40) for place in range(4)])
    stop = local.tokenizer.decode(plain[1].ids[5:7])
    result = local([request(place, tokens=40, **({"stop": (stop,)} if place == 1 else {})) for place in range(4)])
    assert [result[place] for place in (0, 2, 3)] == [plain[place] for place in (0, 2, 3)]
    assert result[1].ids == plain[1].ids[: len(result[1].ids)]
    assert len(result[1].ids) <= 7
    assert stop in local.tokenizer.decode(result[1].ids)


@pytest.fixture
def server() -> Iterator[Server]:
    """What speaks as vLLM does: two tokens for each prompt, the number of its tokens first."""

    def reply(request: fixtures.Request) -> Any:
        if request.method == "GET":
            info = {"vllm_config": {"model_config": {"max_model_len": 77}}}
            return info if "server_info" in request.path else {"data": [{"id": "tiny"}]}
        choices, body = [], json.loads(request.body)
        for ids in body["prompt"]:
            tokens = [f"token_id:{len(ids)}", "token_id:1"]
            logprobs = [-0.5, -0.25 * body["temperature"]]
            tops = [{token: value} for token, value in zip(tokens, logprobs, strict=True)]
            content = {"tokens": tokens, "token_logprobs": logprobs, "top_logprobs": tops}
            choices.append({"prompt_token_ids": ids, "token_ids": [len(ids), 1], "logprobs": content})
        return {"choices": choices}

    with serving(lambda request: (200, {}, json.dumps(reply(request)).encode())) as server:
        yield server


def test_a_server_is_asked_through_trls_own_client(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    from trl.generation import vllm_client

    monkeypatch.setattr(vllm_client, "is_vllm_available", lambda: True)  # it asks for the package, and never uses it
    text = SimpleNamespace(max_position_embeddings=4096)
    trainer = SimpleNamespace(
        args=SimpleNamespace(use_vllm=True, vllm_mode="server"), state=SimpleNamespace(global_step=4),
        accelerator=SimpleNamespace(is_main_process=True), _last_loaded_step=4, eos_token_ids=[2],
        vllm_generation=SimpleNamespace(vllm_client=vllm_client.VLLMClient(base_url=server.address)),
        model=SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: text)),
    )  # fmt: skip
    requests = [request(0), request(1, PROMPTS[1], temperature=2.0, stop=("\n",)), request(2, PROMPTS[2])]
    with open_engine(trainer) as engine:
        assert engine.context_length == 77, "the server's: a prompt longer than that would end the run"
        result = engine(requests)
    assert [row.ids for row in result] == [[3, 1], [2, 1], [6, 1]]
    assert [row.logprobs for row in result] == [[-0.5, -0.25], [-0.5, -0.5], [-0.5, -0.25]]
    calls = [call for call in server.asked if call.method == "POST"]
    bodies = [json.loads(call.body) for call in calls]
    assert [body["prompt"] for body in bodies] == [[PROMPTS[0], PROMPTS[2]], [PROMPTS[1]]]
    assert {call.path for call in calls} == {"/v1/completions"}
    assert all(body["return_token_ids"] for body in bodies)
    settings = [(body["temperature"], body["max_tokens"], body.get("stop")) for body in bodies]
    assert settings == [(1.0, 6, None), (2.0, 6, ["\n"])]


def test_an_engine_in_this_process_is_asked_through_trl(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.nn import Module
    from trl.generation import vllm_generation

    calls: list[tuple[Any, Any]] = []

    def reply(prompt: dict[str, list[int]]) -> SimpleNamespace:
        ids = prompt["prompt_token_ids"]
        logprobs = [{7: SimpleNamespace(logprob=-0.5, rank=1)}, {1: SimpleNamespace(logprob=-0.25, rank=1)}]
        return SimpleNamespace(prompt_token_ids=ids, outputs=[SimpleNamespace(token_ids=[7, 1], logprobs=logprobs)])

    def generate(prompts: list[dict[str, list[int]]], sampling_params: Any, use_tqdm: bool) -> list[Any]:
        calls.append(([prompt["prompt_token_ids"] for prompt in prompts], sampling_params))
        return [reply(prompt) for prompt in prompts]

    monkeypatch.setattr(vllm_generation, "SamplingParams", SimpleNamespace, raising=False)
    generation = object.__new__(vllm_generation.VLLMGeneration)
    settings = {"mode": "colocate", "enable_sleep_mode": False, "tensor_parallel_size": 1, "repetition_penalty": 1.0}
    settings |= {"min_p": None, "structured_outputs_regex": None, "accelerator": None, "model": Module()}
    vars(generation).update(settings, llm=SimpleNamespace(generate=generate), logprobs=None)
    requests = [request(0, temperature=0.7, top_p=0.9, top_k=5, stop=("\n",)), request(1, PROMPTS[1])]
    result = VLLMEngine(_from_this_process(generation), [1])(requests)
    assert result == [Generated([7, 1], [-0.5, -0.25])] * 2
    assert [prompts for prompts, _ in calls] == [[PROMPTS[0]], [PROMPTS[1]]]
    first, second = (vars(parameters) for _, parameters in calls)
    assert first == {"n": 1, "repetition_penalty": 1.0, "temperature": 0.7, "top_p": 0.9, "top_k": 5, "min_p": 0.0,
                     "max_tokens": 6, "logprobs": 0, "stop": ["\n"], "include_stop_str_in_output": True}  # fmt: skip
    assert "stop" not in second
    assert inspect.signature(vllm_generation.VLLMGeneration.__init__).parameters.keys() >= settings.keys() - {"model"}


class LengthEngine:
    """Generates the length of each prompt, and keeps which samples it served together."""

    end_ids, context_length = (2,), None

    def __init__(self, concurrent: bool = False) -> None:
        self.served: list[list[str]] = []
        self.concurrent = concurrent

    def __call__(self, requests: Sequence[Request]) -> list[Generated]:
        self.served.append([str(request.key[1]) for request in requests])
        if any(not request.prompt_ids for request in requests):
            raise ValueError("an empty prompt")
        return [Generated([len(request.prompt_ids)], [-1.0]) for request in requests]


def of_sample(sample: str, count: int = 0, length: int = 1) -> Request:
    return Request(("task", sample, 1, count), [5] * length, 4)


def served(
    samples: int, work: Callable[[Batcher, TaskGroup], Awaitable[None]], concurrent: bool = False
) -> list[list[str]]:
    """Let samples at work ask, and tell which of them were served together."""
    engine = LengthEngine(concurrent)

    async def run() -> None:
        async with anyio.create_task_group() as group:
            await work(Batcher(engine, samples), group)

    anyio.run(run)
    return engine.served


def test_waiting_samples_are_served_together_in_key_order() -> None:
    async def sample(batcher: Batcher, name: str, calls: int, wait: float) -> None:
        await anyio.sleep(wait)
        for count in range(calls):
            reply = await batcher(of_sample(name, count, 1 + count))
            assert reply.ids == [1 + count]
        await batcher.sample_ended()

    async def work(batcher: Batcher, group: TaskGroup) -> None:
        for name, calls, wait in (("c", 1, 0.0), ("b", 3, 0.02), ("a", 2, 0.01)):
            group.start_soon(sample, batcher, name, calls, wait)

    assert served(3, work) == [["a", "b", "c"], ["a", "b"], ["b"]]


def test_a_server_gets_each_request_at_once() -> None:
    async def work(batcher: Batcher, group: TaskGroup) -> None:
        with anyio.fail_after(0.5):  # half of what a batch waits for the other samples
            for count in range(2):
                assert (await batcher(of_sample("a", count))).ids == [1]

    assert served(3, work, concurrent=True) == [["a"], ["a"]]


def test_concurrent_requests_of_a_sample_count_once() -> None:
    async def work(batcher: Batcher, group: TaskGroup) -> None:
        group.start_soon(batcher, of_sample("a", 0))
        group.start_soon(batcher, of_sample("a", 1))
        await anyio.sleep(0.05)
        assert batcher.batches == 0
        group.start_soon(batcher, of_sample("b", 0))

    assert served(2, work) == [["a", "a", "b"]]


def test_idle_requests_are_served_without_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "IDLE_SECONDS", 0.05)

    async def work(batcher: Batcher, group: TaskGroup) -> None:
        group.start_soon(batcher, of_sample("a"))
        group.start_soon(batcher, of_sample("b"))

    assert served(3, work) == [["a", "b"]]


def test_a_cancelled_request_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "IDLE_SECONDS", 0.2)

    async def work(batcher: Batcher, group: TaskGroup) -> None:
        with anyio.move_on_after(0.01) as gone:
            await batcher(of_sample("a"))
        assert gone.cancelled_caught
        group.start_soon(batcher, of_sample("b"))
        await anyio.sleep(0.01)
        assert batcher.batches == 0

    assert served(3, work) == [["b"]]


def test_an_engine_error_reaches_its_batch_only() -> None:
    errors: list[str] = []

    async def sample(batcher: Batcher, name: str, length: int) -> None:
        try:
            await batcher(of_sample(name, length=length))
        except ValueError as error:
            errors.append(f"{name}: {error}")
        assert (await batcher(of_sample(name, 1))).ids == [1]

    async def work(batcher: Batcher, group: TaskGroup) -> None:
        group.start_soon(sample, batcher, "a", 0)
        group.start_soon(sample, batcher, "b", 1)

    assert served(2, work) == [["a", "b"], ["a", "b"]]
    assert sorted(errors) == ["a: an empty prompt", "b: an empty prompt"]
