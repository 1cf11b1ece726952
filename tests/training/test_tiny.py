"""The tiny model: made in a second, with a template that fits every kind of training, and better after a few steps."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.fixtures import Run
from truthgym.cli.main import commands
from truthgym.datasets.errors import BadInput
from truthgym.datasets.urns import UrnQuestion, urns
from truthgym.scorers.beliefs.parsing import read_belief
from truthgym.tasks.worlds import urns as urns_task
from truthgym.training.tiny import tiny
from truthgym.training.tiny_model.warm_start import FIRST_SEED, STAGES, conversations, rate, sample_percent, warm_start

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.slow

TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is 37 of every 100?\n\n"},
    {"role": "assistant", "content": " \n37 \t"},
    {"role": "tool", "content": "It is 38."},
    {"role": "assistant", "content": r"\finalBeliefProb{0.38}"},
    {"role": "user", "content": "A ball is drawn: what is drawn is red."},
    {"role": "assistant", "content": "Zoë \u2009 \U0001f9ea \x00 مرحبا 1000 05"},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    yield tiny(tmp_path_factory.mktemp("models") / "tiny", steps=0)
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(folder)


def test_the_folder_is_small_and_has_a_card(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja", "README.md"} <= names
    assert sum(path.stat().st_size for path in folder.iterdir()) < 4e6
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "A toy" in card
    assert "kind: tiny" in card
    assert not list(folder.parent.glob(".*"))


def test_a_seed_determines_the_model(folder: Path, tmp_path: Path) -> None:
    weights = (folder / "model.safetensors").read_bytes()
    assert (tiny(tmp_path / "same", seed=0, steps=0) / "model.safetensors").read_bytes() == weights
    other = tiny(tmp_path / "other", seed=1, steps=0)
    assert (other / "model.safetensors").read_bytes() != weights
    assert (other / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()


def test_texts_round_trip_and_a_number_is_one_token(tokenizer: Any) -> None:
    rng = random.Random(0)
    anything = "".join(chr(rng.choice([rng.randrange(1, 0xD800), rng.randrange(32, 127)])) for _ in range(300))
    for text in [anything, *(message["content"] for message in TALK)]:
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert all(len(tokenizer(f"{number:02d}")["input_ids"]) == 1 for number in range(100))
    assert len(tokenizer(r"\finalBeliefProb{0.35}")["input_ids"]) == 5


def test_a_conversation_s_prefix_has_the_same_tokens_and_replies_are_masked(tokenizer: Any) -> None:
    whole = tokenizer.apply_chat_template(TALK, return_dict=True)["input_ids"]
    for turns in range(1, len(TALK)):
        is_reply = TALK[turns]["role"] == "assistant"
        ids = tokenizer.apply_chat_template(TALK[:turns], return_dict=True, add_generation_prompt=is_reply)["input_ids"]
        assert whole[: len(ids)] == ids
    inputs = tokenizer.apply_chat_template(TALK, return_dict=True, return_assistant_tokens_mask=True)
    masked = [token for token, ours in zip(inputs["input_ids"], inputs["assistant_masks"], strict=True) if ours]
    spoken = [message["content"] + "<|end|>" for message in TALK if message["role"] == "assistant"]
    assert tokenizer.decode(masked) == "".join(spoken), "the mask covers replies and their end"


def test_tools_and_parts_are_rendered_and_other_roles_refused(tokenizer: Any) -> None:
    def rendered(messages: list[Any], **more: Any) -> str:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, **more))

    tool = {"type": "function", "function": {"name": "look", "parameters": {}}}
    call = {"type": "function", "function": {"name": "look", "arguments": {"at": 1}}}
    parts = [{"type": "text", "text": "See."}, {"type": "image"}]
    text = rendered([{"role": "user", "content": parts}, {"role": "assistant", "tool_calls": [call]}], tools=[tool])
    assert text.startswith('<|system|>Tools:\n{"type": "function", "function": {"name": "look"')
    assert text.endswith(
        '<|user|>See.<|end|><|assistant|><tool_call>{"name": "look", "arguments": {"at": 1}}</tool_call><|end|>'
    )
    ours = {"id": "1", "function": "look", "arguments": {"at": 1}}  # as Inspect writes it
    assert rendered([{"role": "assistant", "content": "", "tool_calls": [ours]}]) in text
    assert "{%- generation -%}" in tokenizer.chat_template, "TRL masks the replies by it"
    with pytest.raises(Exception, match="role critic"):
        rendered([{"role": "critic", "content": "No."}])


def test_warm_start_answers_parse_and_end_with_noise() -> None:
    talks = list(conversations(200, seed=3))
    assert len(talks) == 200
    assert talks == list(conversations(200, seed=3)) != list(conversations(200, seed=4))
    assert all(read_belief(turn["content"]) is not None for talk in talks for turn in talk if turn["role"] != "user")
    questions = {talk[0]["content"].split("\n")[0] for talk in talks}
    assert not questions & {str(sample.input) for sample in urns(n=300)}
    assert min(urns(n=1, seed=FIRST_SEED)[0].metadata_as(UrnQuestion).posterior) > 0
    rng = random.Random(0)
    assert {sample_percent(0.8, STAGES[0], rng) for _ in range(20)} == {80}
    noisy = [sample_percent(0.8, STAGES[-1], rng) for _ in range(2000)]
    assert 64 < sum(noisy) / len(noisy) < 70
    assert {sample_percent(p, STAGES[0], rng) for p in (1e-9, 1 - 1e-9)} == {5, 95}
    assert sum(stage.share for stage in STAGES) == pytest.approx(1)
    assert [rate(step, 1000) for step in (0, 300, 999)] == pytest.approx([0.05, 1, 0.0015]), "it warms up and decays"


def test_a_few_steps_teach_the_format(folder: Path, tokenizer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    losses = warm_start(model, tokenizer, steps=20, seed=0)
    assert len(losses) == 20
    assert losses[0] > 6  # nearly the logarithm of 1,216 tokens
    assert max(losses[-3:]) < 4.5
    assert not model.training
    lines = [line for line in capsys.readouterr().err.splitlines() if "Warm start: step" in line]
    assert len(lines) == 10, "without a terminal"
    assert "step 20 of 20, loss" in lines[-1]


def test_it_is_evaluated_by_its_folder(run: Run, folder: Path) -> None:
    arguments = {"device": "cpu", "do_sample": False}
    log = run(urns_task(n=3, paradigms="brier"), f"hf/{folder}", model_args=arguments, epochs=1, max_tokens=4)
    assert log.samples is not None
    assert [sample.output.usage.output_tokens for sample in log.samples if sample.output.usage] == [4] * 3


def refused(out: Path, *arguments: str) -> str:
    result = CliRunner().invoke(commands, ["tiny", "--out", str(out), *arguments])
    assert isinstance(result.exception, BadInput), result.output
    return str(result.exception.message)


def test_only_a_tiny_model_is_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "tiny"
    result = CliRunner().invoke(commands, ["tiny", "--out", str(out), "--steps", "0", "--layers", "1"])
    assert result.exit_code == 0, result.output
    assert f"--model hf/{out}" in result.output
    before = (out / "model.safetensors").read_bytes()
    assert "--overwrite" in refused(out)
    assert (out / "model.safetensors").read_bytes() == before
    assert tiny(out, steps=0, layers=1, seed=1, overwrite=True) == out
    assert (out / "model.safetensors").read_bytes() != before
    (tmp_path / "thesis.txt").touch()
    assert "is not a tiny model" in refused(tmp_path, "--overwrite")
    assert (tmp_path / "thesis.txt").exists()


@pytest.mark.parametrize(("argument", "value"), [("steps", "-1"), ("layers", "0"), ("hidden", "100")])
def test_numbers_out_of_range_are_refused(tmp_path: Path, argument: str, value: str) -> None:
    assert f"{argument}={value} cannot be used" in refused(tmp_path / "t", f"--{argument}", value)
    assert not (tmp_path / "t").exists()
