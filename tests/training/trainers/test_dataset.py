"""Datasets as trainers take them, and the models they start from: what is kept, and what is refused before training."""

from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from tests.fixtures import write_rows
from truthgym.datasets.errors import BadInput
from truthgym.datasets.splits import split_of
from truthgym.training.trainers.base_model import base_config, base_tokenizer
from truthgym.training.trainers.dataset import fit_template, load_data, longest_row, template_errors

PROMPT = [{"role": "user", "content": "Is it red?"}]
YES = [{"role": "assistant", "content": "yes"}]
STEPS = {"prompt": "a", "completions": ["b", "c"], "labels": [True, False]}
SFT = {"prompt": PROMPT, "completion": YES, "score": 0.1, "event": "a"}


def dataset(folder: Path, *rows: dict[str, Any], name: str = "train") -> str:
    folder.mkdir(exist_ok=True)
    write_rows(folder / f"{name}.jsonl", *rows)
    return str(folder)


def test_only_what_the_method_reads_is_kept(tmp_path: Path) -> None:
    name = dataset(tmp_path / "data", SFT, SFT | {"score": None})
    (tmp_path / "data" / "README.md").write_text("---\ntruthgym:\n  kind: sft\n---\n")
    data = load_data("sft", name)
    assert data.train.column_names == ["prompt", "completion"]
    assert (len(data.train), data.validation, data.conversational, data.steps) == (2, None, True, False)
    assert data.metadata == {"kind": "sft"}
    assert list(data.hashes) == ["train.jsonl"]
    dataset(tmp_path / "data", SFT, name="validation")
    again = load_data("sft", name)
    assert again.validation is not None
    assert len(again.validation) == 1
    assert again.hashes["train.jsonl"] == data.hashes["train.jsonl"]
    plain = load_data("sft", dataset(tmp_path / "plain", {"text": "red"}))
    assert not plain.conversational
    steps = load_data("reward", dataset(tmp_path / "steps", STEPS))
    assert steps.steps


GOOD = {"prompt": PROMPT, "completion": YES, "label": True}
PAIR = {"prompt": PROMPT, "chosen": YES, "rejected": YES}


@pytest.mark.parametrize(
    ("method", "rows", "problem"),
    [
        ("dpo", [SFT], "but dpo reads prompt"),
        ("sft", [SFT | {"split": "train"}, SFT | {"split": "test"}], "rows of the test split"),
        ("kto", [GOOD, GOOD], "labelled good, and kto needs both"),
        ("reward", [PAIR | {"rejected": PROMPT}, PAIR], "Row 1 of .* has no winner"),
        ("reward", [STEPS | {"labels": [True, True]}], "Every step of .* is labelled right"),
        ("sft", [], "cannot be loaded"),
        ("kto", [GOOD | {"label": "good"}], "Row 0 of .*: its `label` is 'good'; write true"),
        ("kto", [GOOD | {"label": 1}], "Row 0 of .*: its `label` is 1; write true"),
        ("kto", [GOOD, GOOD | {"label": None}], "Row 1 of .*: its `label` is None; write true"),
        ("reward", [STEPS, STEPS | {"labels": [True, None]}], "Row 1 of .*: its `labels` is None"),
        ("reward", [STEPS, STEPS | {"labels": [True]}], "Row 1 of .* has 2 steps in `completions` and 1 `labels`"),
        ("sft", [SFT, SFT | {"completion": None}], "Row 1 of .*: its `completion` is empty; write a text or a list"),
        ("sft", [{"messages": PROMPT + YES}, {"messages": []}], "Row 1 of .*: its `messages` is empty; write a list"),
        ("sft", [{"messages": "Is it red?"}], "Row 0 of .*: its `messages` is 'Is it red.'; write a list of messages"),
        ("sft", [{"messages": [{"from": "human", "value": "?"}]}], "a message with from, value; write `role`"),
        ("sft", [{"text": "red"}, {"text": None}], "Row 1 of .*: its `text` is empty"),
        ("dpo", [PAIR | {"rejected": [YES[0] | {"content": None}]}], "role assistant without `content`"),
        ("dpo", [{"prompt": "?", "chosen": PROMPT + YES, "rejected": YES + YES}], "Row 0 of .* do not differ"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(
    tmp_path: Path, method: str, rows: list[dict[str, Any]], problem: str
) -> None:
    with pytest.raises(BadInput, match=problem):
        load_data(method, dataset(tmp_path / "data", *rows))


def test_conversations_with_a_text_as_the_prompt(tmp_path: Path) -> None:
    no = [{"role": "assistant", "content": "No."}]
    whole = load_data("dpo", dataset(tmp_path / "a", {"prompt": "?", "chosen": PROMPT + YES, "rejected": PROMPT + no}))
    assert whole.conversational
    assert whole.train[0] == {"prompt": PROMPT, "chosen": YES, "rejected": no}
    text = load_data("dpo", dataset(tmp_path / "c", {"prompt": PROMPT, "chosen": "yes", "rejected": "No."}))
    assert text.train[0] == {"prompt": PROMPT, "chosen": YES, "rejected": no}
    one = load_data("dpo", dataset(tmp_path / "d", {"prompt": "Is it red?", "chosen": YES[0], "rejected": no[0]}))
    assert one.train[0] == text.train[0]
    reply = load_data("sft", dataset(tmp_path / "b", {"prompt": "Is it?", "completion": YES}))
    assert reply.train[0] == {"prompt": [{"role": "user", "content": "Is it?"}], "completion": YES}


def test_a_row_that_the_chat_template_refuses_is_named(tiny_model: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    strict = (
        "{% for m in messages %}{% if m.role == 'tool' or m.content == 'No.' %}{{ raise_exception('no ' + m.role) }}"
    )
    tokenizer.chat_template = strict + "{% endif %}{{ m.content }}{% endfor %}"
    tool = {"role": "tool", "content": "red"}
    data = load_data("sft", dataset(tmp_path / "a", SFT, SFT | {"prompt": [*PROMPT, tool]}))
    with pytest.raises(BadInput, match=r"tiny refuses it .*no tool\), in row 1 of .*chat_template.jinja"):
        fit_template(data, tokenizer)
    other = load_data("sft", dataset(tmp_path / "b", SFT, SFT | {"completion": [YES[0] | {"content": "No."}]}))
    assert fit_template(other, tokenizer) is None, "of each shape the first is tried"
    with pytest.raises(BadInput, match="refuses row 1 .*: no assistant"), template_errors(other, tokenizer):
        tokenizer.apply_chat_template(other.train[1]["completion"], tokenize=False)


def test_a_system_message_that_the_chat_template_refuses_is_joined(tiny_model: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer
    from trl import chat_template_utils as trl_templates

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.chat_template = trl_templates.gemma_chat_template
    plain = load_data("sft", dataset(tmp_path / "a", {"messages": PROMPT + YES}))
    assert fit_template(plain, tokenizer) is None
    assert tokenizer.chat_template == trl_templates.gemma_chat_template, "it is TRL's own where rows allow it"
    system = {"role": "system", "content": "Be brief."}
    data = load_data("sft", dataset(tmp_path / "b", {"messages": PROMPT + YES}, {"messages": [system, *PROMPT, *YES]}))
    assert "joined with the message that follows" in str(fit_template(data, tokenizer, replies_only=True))
    text = str(tokenizer.apply_chat_template(data.train[1]["messages"], tokenize=False))
    assert "<start_of_turn>user\nBe brief.\n\nIs it red?<end_of_turn>" in text
    assert trl_templates.has_generation_markers(tokenizer.chat_template), "for the loss on replies alone"


def test_a_dataset_or_split_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="has no split 'all'"):
        load_data("sft", dataset(tmp_path / "data", SFT), train="all")
    for name in ("missing", str(tmp_path / "missing")):
        with pytest.raises(BadInput, match="missing does not exist"):
            load_data("sft", name)


def test_a_bootstrap_draws_whole_events(tmp_path: Path) -> None:
    pairs = [{"prompt": str(n), "chosen": "a", "rejected": "b", "event": f"e{n // 2}"} for n in range(30)]
    data = dataset(tmp_path / "data", *pairs)
    drawn = [load_data("reward", data, bootstrap=seed).train["prompt"] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    numbers = [int(prompt) for prompt in drawn[0]]
    assert len(set(numbers)) < len(numbers)
    assert {numbers.count(n) == numbers.count(n ^ 1) for n in range(30)} == {True}, "2k and 2k + 1 are one event"


class Words:
    """A tokenizer of a token a word."""

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": [0] * len(text.split())}


def test_the_longest_row() -> None:
    from datasets import Dataset

    tokenizer: Any = Words()
    rows = [{"prompt": "a b", "chosen": " c", "rejected": " d e f"}, {"prompt": "a", "chosen": "", "rejected": ""}]
    around = 2 * 8
    assert longest_row(Dataset.from_list(rows), tokenizer, None) == (5 + around, 0)
    assert longest_row(Dataset.from_list(rows), tokenizer, 4 + around) == (4 + around, 1)
    assert longest_row(Dataset.from_list(rows), tokenizer, 5 + around) == (5 + around, 0)


def test_a_model_that_cannot_be_had_is_refused(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert base_config(str(tiny_model)).num_hidden_layers == 2
    folder = tmp_path / "folder"
    folder.mkdir()
    for content in (None, "{", '{"model_type": "nosuch"}'):
        if content:
            (folder / "config.json").write_text(content)
        with pytest.raises(BadInput, match="The folder .*folder cannot be loaded: .*Give a folder"):
            base_config(str(folder))
    for name in (str(tmp_path / "missing"), "no/such/model", "nobody/nothing"):
        with pytest.raises(BadInput, match=f"The model {name} cannot be loaded: .*OWNER/NAME"):
            base_config(name)


def test_a_model_without_tokenizer_or_chat_template_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    assert base_tokenizer(str(tiny_model)).chat_template
    bare = copytree(tiny_model, tmp_path / "bare")
    (bare / "chat_template.jinja").unlink()
    with pytest.raises(BadInput, match="has no chat template"):
        base_tokenizer(str(bare))
    assert base_tokenizer(str(bare), conversational=False).eos_token
    (bare / "tokenizer.json").write_text("{}")
    with pytest.raises(BadInput, match="cannot be read"):
        base_tokenizer(str(bare))
    (bare / "tokenizer.json").unlink()
    with pytest.raises(BadInput, match="a model without a tokenizer"):
        base_tokenizer(str(bare))


def test_rows_that_lost_the_column_split_are_refused_by_their_event(tmp_path: Path) -> None:
    """Only rows of `truthgym convert`: another dataset may mean something else by its column `event`."""
    by_split = {split_of(event): event for event in map(str, range(100))}
    ours = SFT | {"sample_uuid": "u"}
    with pytest.raises(BadInput, match="test split, .* \\(column `event`\\)"):
        load_data("sft", dataset(tmp_path / "lost", ours | {"event": by_split["test"]}, ours | {"event": "0"}))
    load_data("sft", dataset(tmp_path / "train", ours | {"event": by_split["train"]}))
    load_data("sft", dataset(tmp_path / "other", SFT | {"event": by_split["test"]}))
