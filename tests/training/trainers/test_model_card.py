"""A trained model's name and card: what they hold, what changes them, and what is refused."""

from pathlib import Path

import pytest
import yaml

from truthgym.datasets.errors import BadInput
from truthgym.training.trainers.model_card import (
    ModelCard,
    is_finished,
    model_name,
    read_card,
    set_evaluations,
    write_card,
)

FACTS = ModelCard(
    method="sft",
    base="trained/tiny",
    base_hash="ab",
    model="hf/trained/tiny-sft-1",
    dataset="data/top",
    data={"train.jsonl": "cd"},
    config={"learning_rate": 1e-5},
    dataset_facts={
        "kind": "sft",
        "rows": {"train": 3, "validation": 1},
        "selection": {"top": 0.1},
        "logs": [{"log": "a.eval", "task": "urns", "model": "hf/trained/tiny", "sha256": "ef"}],
    },
    curve=[{"step": 1, "loss": 2.5}, {"step": 2, "epoch": 1, "loss": 1.25, "eval_loss": 2.125}],
    notes=["It cost nothing."],
)


def test_a_name_is_decided_by_what_decides_the_model() -> None:
    def name(**changed: object) -> str:
        known = {"method": "sft", "base": "a/tiny", "base_hash": "x", "data": {"train.jsonl": "1"}, "config": {"r": 1}}
        return model_name(**(known | changed))  # type: ignore[arg-type]

    assert name() == name(data={"other.jsonl": "1"}) == name(base="b/tiny")
    assert name().startswith("tiny-sft-")
    assert len(name().removeprefix("tiny-sft-")) == 12
    others = [name(method="dpo"), name(base_hash="y"), name(data={"train.jsonl": "2"}), name(config={"r": 2})]
    assert len({name(), *others}) == 5
    assert name(base="ft:gpt-4.1:me::abc").startswith("ft-gpt-4.1-me-abc-sft-")


def test_a_card_says_all_and_is_read_back(tmp_path: Path) -> None:
    folder = tmp_path / "tiny-sft-1"
    assert not is_finished(folder)
    card = write_card(folder, FACTS)
    assert is_finished(folder)
    assert sorted(path.name for path in folder.iterdir()) == [".lineage", "README.md"]
    assert read_card(folder) == FACTS
    text = card.read_text()
    head = yaml.safe_load(text.split("---\n")[1])
    assert head["base_model"] == "trained/tiny"
    assert head["datasets"] == ["data/top"]
    assert head["library_name"] == "transformers"
    assert head["tags"] == ["truthgym", "sft", "trl"]
    for part in ("supervised fine-tuning", "3 train, 1 validation", "`a.eval`", "It cost nothing.", "`{\"top\": 0.1}`",
                 "| 2 | 1 | 1.25 | 2.125 |", "| 1 |  | 2.5 |  |", "--model hf/trained/tiny-sft-1"):  # fmt: skip
        assert part in text


def test_evaluations_leave_the_rest_of_a_card_as_it_is(tmp_path: Path) -> None:
    card = write_card(tmp_path, FACTS)
    card.write_text(card.read_text().replace("It cost nothing.", "It cost nothing, I am told."))
    for figure in ("first", "second"):
        set_evaluations(tmp_path, [{"log": figure}], f"| {figure} |")
    text = card.read_text()
    assert "I am told." in text
    assert "| second |" in text
    assert "| first |" not in text
    assert "None yet" not in text
    assert read_card(tmp_path).evals == [{"log": "second"}]


def test_what_is_no_card_of_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"contains no README\.md"):
        read_card(tmp_path)
    (tmp_path / "README.md").write_text("# Something else\n")
    with pytest.raises(BadInput, match="is not the card of a trained model"):
        read_card(tmp_path)
