"""A model that was trained here is evaluated by naming its folder. The one of these tests knows nothing and says so."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import EvalLog
from inspect_ai.scorer import Score

from truthgym.tasks.urns import urns

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
pytest.importorskip("accelerate")
pytestmark = pytest.mark.slow

CHAT = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}<end>\n{% endfor %}assistant:"
GREEDY = {"device": "cpu", "do_sample": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What a trainer leaves behind: config, weights, tokenizer and chat template. Two layers, 30,000 weights."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    saved: Path = tmp_path_factory.mktemp("trained") / "tiny"
    pieces = tokenizers.Tokenizer(tokenizers.models.BPE())
    pieces.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces.decoder = tokenizers.decoders.ByteLevel()
    letters = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, special_tokens=["<end>"], initial_alphabet=letters)
    pieces.train_from_iterator([str(sample.input) for sample in urns(n=2).dataset], trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=pieces, eos_token="<end>")
    tokenizer.chat_template = CHAT
    config = transformers.Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    torch.manual_seed(0)
    transformers.Qwen2ForCausalLM(config).save_pretrained(saved)
    tokenizer.save_pretrained(saved)
    yield saved
    torch.set_num_threads(threads)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders from which weights are loaded, as they are."""
    loader, loaded = transformers.AutoModelForCausalLM, list[str]()
    load = loader.from_pretrained

    def count(name: str, *arguments: Any, **named: Any) -> Any:
        model = load(name, *arguments, **named)
        loaded.append(name)
        return model

    monkeypatch.setattr(loader, "from_pretrained", count)
    return loaded


def figures(log: EvalLog) -> dict[str, float]:
    assert log.results
    return {name: float(metric.value) for name, metric in log.results.scores[0].metrics.items()}


def scores(log: EvalLog, scorer: str) -> list[Score]:
    assert log.samples
    assert all(sample.output.completion for sample in log.samples)
    return [(sample.scores or {})[scorer] for sample in log.samples]


def test_a_folder_is_a_model(run: Callable[..., EvalLog], folder: Path) -> None:
    log = run(urns(n=2, paradigms="brier"), f"hf/{folder}", model_args=GREEDY, epochs=1, max_tokens=8)
    assert log.eval.model == f"hf/{folder}"
    assert log.samples is not None
    assert [sample.output.usage.output_tokens for sample in log.samples if sample.output.usage] == [8, 8]
    for score in scores(log, "brier"):
        assert isinstance(score.value, dict)
        assert all(math.isnan(float(str(value))) for value in score.value.values())
        assert "could be read" in (score.metadata or {})["reason"]
    assert {"share_scored": 0.0, "n": 0.0, "epochs": 1.0}.items() <= figures(log).items()


def test_a_name_of_our_own_stands_for_a_folder(run: Callable[..., EvalLog], folder: Path, loads: list[str]) -> None:
    """The colon keeps Inspect from looking the name up on the hub, or loading the model a second time by its name."""
    arguments = GREEDY | {"model_path": str(folder)}
    log = run(urns(n=2, paradigms="martingale"), "hf/tiny:v1", model_args=arguments, epochs=1, max_tokens=8)
    assert log.eval.model == "hf/tiny:v1"
    assert log.eval.model_args == arguments
    assert loads == [str(folder)]
    for score in scores(log, "martingale"):
        beliefs = (score.metadata or {})["beliefs"]
        assert [belief["stage"] for belief in beliefs] == ["prior", "posterior"]
        assert "could be read" in (score.metadata or {})["reason"]
    assert {"share_scored": 0.0, "identified": 0.0}.items() <= figures(log).items()
