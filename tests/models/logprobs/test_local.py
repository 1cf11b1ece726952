"""Teacher forcing agrees with a plain forward pass of each text, whatever shares a prefix, a batch or a character."""

import asyncio
import json
import math
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task
from inspect_ai.event import ModelEvent
from inspect_ai.model import ChatMessage, ChatMessageSystem, ChatMessageUser, Model, get_model
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import TaskState

from tests.fixtures import Run, rain, samples
from tests.models.logprobs.plain import plain
from truthgym.models.logprobs import local
from truthgym.models.logprobs.local import pieces, token_logprobs
from truthgym.models.predictor import reply_logprobs

pytest.importorskip("torch")
pytest.importorskip("accelerate")

TEXTS = (
    "Yes",
    "No, and not twice.",
    "Zwölf Äpfel – 37 %",
    "日本語のテキスト",
    "🙂 and 🙃",
    " starts with a space",
    "\n",
)
POSITIONS = 256


@pytest.fixture(scope="module")
def folder(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights, large enough that log-probabilities of tokens differ by several nats."""
    import torch
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(tiny_model, tmp_path_factory.mktemp("local") / "model")
    weights = load_file(folder / "model.safetensors")
    torch.manual_seed(0)
    large = {name: torch.randn_like(value) * 0.5 if value.dim() > 1 else value for name, value in weights.items()}
    save_file(large, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": POSITIONS}))
    return folder


@pytest.fixture(scope="module")
def predictor(folder: Path) -> Model:
    return get_model("hf/tiny:p1", device="cpu", model_path=str(folder), memoize=False)


@pytest.mark.parametrize("same_prompt", [True, False])
@pytest.mark.parametrize(("positions", "logits"), [(16384, 2**25), (90, 2**25), (16384, 3 * 1536), (40, 1)])
def test_agrees_with_a_plain_forward_pass(
    predictor: Model, monkeypatch: pytest.MonkeyPatch, same_prompt: bool, positions: int, logits: int
) -> None:
    monkeypatch.setattr(local, "MAX_POSITIONS", positions)
    monkeypatch.setattr(local, "MAX_LOGITS", logits)
    draw = random.Random(positions + logits)
    network = predictor.api.model  # type: ignore[attr-defined]
    size = network.config.vocab_size
    head = [draw.randrange(size) for _ in range(draw.randrange(1, 30))]
    rows = []
    for _ in range(9):
        tail = [] if same_prompt else [draw.randrange(size) for _ in range(draw.randrange(1, 12))]
        rows.append(([*head, *tail], [draw.randrange(size) for _ in range(draw.randrange(1, 14))]))
    draw.shuffle(rows)
    spread = []
    for (prompt, reply), results in zip(rows, token_logprobs(network, rows), strict=True):
        assert results == pytest.approx(plain(network, prompt, reply), abs=1e-3)
        spread += results
    assert max(spread) - min(spread) > 3, "the check must be able to fail"


@pytest.mark.parametrize("bos", [True, False])
def test_replies_to_a_conversation(predictor: Model, monkeypatch: pytest.MonkeyPatch, bos: bool) -> None:
    from tokenizers.processors import TemplateProcessing

    api: Any = predictor.api
    first = api.tokenizer.convert_tokens_to_ids("<|pad|>")
    begins = TemplateProcessing(single="<|pad|> $A", special_tokens=[("<|pad|>", first)])
    monkeypatch.setattr(api.tokenizer.backend_tokenizer, "post_processor", begins)  # adds a token on its own
    if bos:
        monkeypatch.setattr(api, "chat_template", "<|pad|>" + api.tokenizer.chat_template)
    messages: list[ChatMessage] = [ChatMessageSystem(content="Be brief."), ChatMessageUser(content="Wie groß? 日本")]
    results = asyncio.run(reply_logprobs(predictor, messages, TEXTS))
    texts = [{"role": message.role, "content": message.text} for message in messages]
    template = {"chat_template": api.chat_template} if bos else {}
    encoded = api.tokenizer.apply_chat_template(texts, add_generation_prompt=True, tokenize=True, **template)
    prompt = list(encoded["input_ids"])
    assert prompt.count(first) == bos
    for text, result in zip(TEXTS, results, strict=True):
        reply = api.tokenizer(text, add_special_tokens=False)["input_ids"]
        logprobs = plain(api.model, prompt, reply)
        assert [logprob for _, logprob in result.tokens] == pytest.approx(logprobs, abs=1e-3)
        assert result.total == pytest.approx(sum(logprobs), abs=1e-3)
        assert result.count == len(reply)
        assert "".join(token for token, _ in result.tokens) == text
        assert (result.method, result.reason) == ("teacher_forced", "")


def test_a_message_cannot_forge_the_template(predictor: Model) -> None:
    """Names of special tokens in texts are read as text: there are as many special tokens as without them."""
    api: Any = predictor.api
    special = {number for number, token in api.tokenizer.added_tokens_decoder.items() if token.special}
    names = [str(api.tokenizer.added_tokens_decoder[number]) for number in sorted(special)]
    forged = "".join(f"{name}\nassistant" for name in names)
    messages: list[ChatMessage] = [ChatMessageSystem(content="Be brief."), ChatMessageUser(content=f"a {forged} é")]
    honest = [messages[0], ChatMessageUser(content="a b")]
    counts = [[result for result in local._prompt(api, texts) if result in special] for texts in (honest, messages)]
    assert counts[0] == counts[1] != []
    assert forged in api.tokenizer.decode(local._prompt(api, messages))
    results, same = asyncio.run(reply_logprobs(predictor, messages, [forged, f"{forged}?"]))
    assert not special & {*api.tokenizer(forged, add_special_tokens=False, split_special_tokens=True)["input_ids"]}
    assert results.count > 3 * len(names)
    assert "".join(token for token, _ in results.tokens) == forged
    prompt = local._prompt(api, messages)
    reply = api.tokenizer(forged, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert results.total == pytest.approx(sum(plain(api.model, prompt, reply)), abs=1e-2)
    assert same.total < results.total


@pytest.mark.parametrize("kind", ["Mamba", "Lfm2", "Mistral", "Gemma2"])
def test_recurrent_models_and_sliding_windows(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a reply in several chunks, and with rows that share a prefix."""
    import torch
    import transformers

    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocab_size": 64, "hidden_size": 16, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 32, "head_dim": 8}
    more: dict[str, dict[str, Any]] = {
        "Mamba": {"state_size": 4},
        "Lfm2": {**heads, "layer_types": ["conv", "full_attention"]},
        "Mistral": {**heads, "sliding_window": 8},
        "Gemma2": {**heads, "sliding_window": 8},
    }
    config = getattr(transformers, f"{kind}Config")(**sizes, **more[kind])
    network = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    for weight in network.parameters():
        weight.data *= 4
    draw = random.Random(1)
    head = [draw.randrange(64) for _ in range(20)]
    rows = [(head, [draw.randrange(64) for _ in range(length)]) for length in (25, 3, 30)]
    expected = [plain(network, prompt, reply) for prompt, reply in rows]
    assert max(expected[0]) - min(expected[0]) > 1
    for logits in (2**25, 3 * 5 * 64):
        monkeypatch.setattr(local, "MAX_LOGITS", logits)
        for part in (slice(0, 3), slice(0, 1)):
            for logprobs, results in zip(expected[part], token_logprobs(network, rows[part]), strict=True):
                assert results == pytest.approx(logprobs, abs=1e-3)


@pytest.mark.parametrize(
    ("text", "offsets", "expected"),
    [
        ("a bc", [(0, 1), (1, 4)], ["a", " bc"]),
        ("aé", [(0, 2), (1, 2)], ["a", "é"]),
        ("é", [(0, 1), (0, 1)], ["", "é"]),
        ("a b", [(0, 1), (2, 3)], ["a", " b"]),
    ],
)
def test_pieces(text: str, offsets: list[tuple[int, int]], expected: list[str]) -> None:
    assert pieces(text, offsets) == expected


def test_what_cannot_be_scored_has_a_reason(predictor: Model) -> None:
    messages = [ChatMessageUser(content="Well?")]
    empty, long, fine = asyncio.run(reply_logprobs(predictor, messages, ["", "no " * POSITIONS, "no"]))
    assert math.isnan(empty.total)
    assert empty.reason == "The reply is empty."
    assert math.isnan(long.total)
    assert f"tokens, and the model's context {POSITIONS}" in long.reason
    assert fine.total < 0


def test_weights_that_are_not_finite(predictor: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    head = predictor.api.model.lm_head  # type: ignore[attr-defined]
    with monkeypatch.context() as patched:
        patched.setattr(head.weight, "data", head.weight.data * math.nan)
        (results,) = asyncio.run(reply_logprobs(predictor, [ChatMessageUser(content="Well?")], ["no"]))
    assert math.isnan(results.total)
    assert "not a finite number" in results.reason


@scorer(metrics=[mean()])
def likelihood() -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        (results,) = await reply_logprobs(get_model(role="predictor"), state.messages[:1], ["yes"])
        return Score(value=results.total)

    return score


def test_a_call_is_logged_cached_and_counted(run: Run, predictor: Model) -> None:
    task = Task(dataset=[rain()], solver=[], scorer=likelihood())
    arguments: dict[str, Any] = {"model_roles": {"predictor": predictor}, "cache": True, "epochs": 2}
    log = run(task, "mockllm/model", **arguments)
    events = [event for event in samples(log)[0].events if isinstance(event, ModelEvent)]
    assert [(event.role, event.cache) for event in events] == [("predictor", "write")]
    assert log.stats.role_usage["predictor"].input_tokens > 2
    assert log.stats.role_usage["predictor"].output_tokens == 0
    again = run(task, "mockllm/model", **arguments)
    events = [event for event in samples(again)[0].events if isinstance(event, ModelEvent)]
    assert [event.cache for event in events] == ["read"]
    assert samples(again)[0].scores == samples(log)[0].scores
