"""Hashes, folder locks, atomic writes and cards with front matter."""

from pathlib import Path

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.training.files import (
    card_metadata,
    folder_lock,
    hash_dataset,
    hash_model,
    markdown_table,
    read_markdown,
    write_atomically,
    write_markdown,
)


def test_a_models_hash_ignores_its_card(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    before = hash_model(str(tmp_path))
    (tmp_path / "README.md").write_text("a card")
    (tmp_path / "training_args.bin").write_bytes(b"arguments")
    (tmp_path / "adapter").mkdir()
    assert hash_model(str(tmp_path)) == before
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    assert hash_model(str(tmp_path)) != before


def test_a_hub_models_hash_is_its_name_and_revision() -> None:
    assert hash_model("owner/name") == "owner/name@main"
    assert hash_model("owner/name", "v2") == "owner/name@v2"


def test_a_datasets_hash_is_one_per_data_file(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text("{}\n")
    (tmp_path / "README.md").write_text("a card")
    assert hash_dataset(tmp_path) == {"train.jsonl": "ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442356"}


def test_a_folder_without_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"contains no \.jsonl.*truthgym convert"):
        hash_dataset(tmp_path)
    with pytest.raises(BadInput, match=r"missing does not exist; .*truthgym convert"):
        hash_dataset(tmp_path / "missing")


def test_a_folder_has_one_lock(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "model"
    with folder_lock(folder), pytest.raises(BadInput, match="model is in use by another command"), folder_lock(folder):
        pass
    with folder_lock(folder):  # free again
        assert not folder.exists()
    assert not list(folder.parent.iterdir())


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.json"
    assert write_atomically(path, "1") == path
    write_atomically(path, "é")
    assert path.read_text(encoding="utf-8") == "é"
    assert list(path.parent.iterdir()) == [path]


def test_front_matter_is_read_back(tmp_path: Path) -> None:
    metadata = {"b": {"none": None, "text": "---"}, "a": [1.5]}
    path = write_markdown(tmp_path / "README.md", metadata | {"path": tmp_path}, "# Title\n\n---\ntext\n")
    assert read_markdown(path) == (metadata | {"path": str(tmp_path)}, "# Title\n\n---\ntext\n")
    assert list(read_markdown(path)[0]) == ["b", "a", "path"]


@pytest.mark.parametrize("text", ["# No front matter\n", "---\n- a list\n---\n", "---\n---\n", "---\nno: end\n", ""])
def test_a_card_without_metadata_gives_none(tmp_path: Path, text: str) -> None:
    assert card_metadata(tmp_path) == {}
    (tmp_path / "README.md").write_text(text)
    assert card_metadata(tmp_path) == {}


def test_a_cards_own_metadata_are_under_truthgym(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_bytes(b"---\r\ntruthgym:\r\n  kind: sft\r\n---\r\ntext\r\n")
    assert card_metadata(tmp_path) == {"kind": "sft"}


def test_front_matter_that_is_not_yaml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("---\na: [\n---\n")
    with pytest.raises(BadInput, match=r"README\.md: the front matter .* is not YAML"):
        card_metadata(tmp_path)


def test_a_table_without_rows_is_empty() -> None:
    assert markdown_table(["a"], []) == ""
    assert markdown_table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
