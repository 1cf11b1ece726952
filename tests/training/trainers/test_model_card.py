"""A trained model's name and card: what they hold, what changes them, and what is refused."""

from pathlib import Path

import pytest
import yaml

from truthgym.datasets.errors import BadInput
from truthgym.training.trainers import model_card

FACTS = model_card.ModelCard(
    "sft", "trained/tiny", "ab", "hf/trained/tiny-sft-1", "data/top", {"train.jsonl": "cd"},
    {"learning_rate": 1e-5, "task_args": {"paradigms": {"reward_model": {"penalty": 0.5}}}},
    dataset_facts={
        "kind": "sft", "rows": {"train": 3, "validation": 1}, "selection": {"top": 0.1},
        "logs": [{"log": "a.eval", "task": "urns", "model": "hf/trained/tiny", "sha256": "ef"}],
    },
    curve=[{"step": 1, "loss": 2.5}, {"step": 2, "epoch": 1, "loss": 1.25, "eval_loss": 2.125}],
    notes=["It cost nothing."],
)  # fmt: skip


def test_a_name_is_decided_by_what_decides_the_model() -> None:
    def name(**changed: object) -> str:
        facts = {"method": "sft", "base": "a/tiny", "base_hash": "x", "data": {"train.jsonl": "1"}, "config": {"r": 1}}
        return model_card.model_name(**(facts | changed))  # type: ignore[arg-type]

    assert name() == name(data={"other.jsonl": "1"}) == name(base="b/tiny")
    assert name().startswith("tiny-sft-")
    assert len(name().removeprefix("tiny-sft-")) == 12
    others = [name(method="dpo"), name(base_hash="y"), name(data={"train.jsonl": "2"}), name(config={"r": 2})]
    assert len({name(), *others}) == 5
    assert name(base="ft:gpt-4.1:me::abc").startswith("ft-gpt-4.1-me-abc-sft-")


def test_a_card_says_all_and_is_read_back(tmp_path: Path) -> None:
    folder = tmp_path / "tiny-sft-1"
    assert not model_card.is_finished(folder)
    card = model_card.write_card(folder, FACTS)
    assert model_card.is_finished(folder)
    assert sorted(path.name for path in folder.iterdir()) == [".lineage", "README.md"]
    assert model_card.read_card(folder) == FACTS
    text = card.read_text()
    head = yaml.safe_load(text.split("---\n")[1])
    assert head["base_model"] == "trained/tiny"
    assert head["datasets"] == ["data/top"]
    assert head["library_name"] == "transformers"
    assert head["tags"] == ["truthgym", "sft", "trl"]
    for part in ("supervised fine-tuning", "3 train, 1 validation", "`a.eval`", "It cost nothing.", "`{\"top\": 0.1}`",
                 "| 2 | 1 | 1.25 | 2.125 |", "| 1 |  | 2.5 |  |", "--model hf/trained/tiny-sft-1",
                 "| `task_args.paradigms.reward_model.penalty` | `0.5` |"):  # fmt: skip
        assert part in text


def test_evaluations_leave_the_rest_of_a_card_as_it_is(tmp_path: Path) -> None:
    card = model_card.write_card(tmp_path, FACTS)
    card.write_text(card.read_text().replace("It cost nothing.", "It cost nothing, I am told."))
    for figure in ("first", "second"):
        model_card.set_evaluations(tmp_path, [{"log": figure}], f"| {figure} |")
    text = card.read_text()
    assert "I am told." in text
    assert "| second |" in text
    assert "| first |" not in text
    assert "None yet" not in text
    assert model_card.read_card(tmp_path).evals == [{"log": "second"}]


def test_what_is_no_card_of_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"contains no README\.md"):
        model_card.read_card(tmp_path)
    (tmp_path / "README.md").write_text("# Something else\n")
    with pytest.raises(BadInput, match="is not the card of a trained model"):
        model_card.read_card(tmp_path)
