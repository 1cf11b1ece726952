"""Hashes, folder locks, atomic writes and cards with front matter."""

import errno
from pathlib import Path

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.training import files


def test_what_a_hash_counts(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    before = files.hash_model(str(tmp_path))
    (tmp_path / "README.md").write_text("a card")
    (tmp_path / "training_args.bin").write_bytes(b"arguments")
    (tmp_path / "adapter").mkdir()
    assert files.hash_model(str(tmp_path)) == before
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    assert files.hash_model(str(tmp_path)) != before
    assert files.hash_model("owner/name") == "owner/name@main"
    assert files.hash_model("owner/name", "v2") == "owner/name@v2"
    with pytest.raises(BadInput, match=r"contains no \.jsonl.*truthgym convert"):
        files.hash_dataset(tmp_path)
    with pytest.raises(BadInput, match=r"missing does not exist; .*truthgym convert"):
        files.hash_dataset(tmp_path / "missing")
    (tmp_path / "train.jsonl").write_text("{}\n")
    digest = "ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442356"
    assert files.hash_dataset(tmp_path) == {"train.jsonl": digest}


def test_a_disk_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def acquire(lock: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("filelock.FileLock.acquire", acquire)
    with (
        pytest.raises(BadInput, match=r"\.model\.lock cannot be locked .*local disk"),
        files.folder_lock(tmp_path / "model"),
    ):
        pass


def test_a_folder_has_one_lock_and_a_file_is_replaced_whole(tmp_path: Path) -> None:
    lock = files.folder_lock
    folder = tmp_path / "new" / "model"
    with lock(folder), pytest.raises(BadInput, match="model is in use by another command"), lock(folder):
        pass
    with lock(folder):  # free again
        assert not folder.exists()
    assert not list(folder.parent.iterdir())
    path = folder.parent / "file.json"
    assert files.write_atomically(path, "1") == path
    files.write_atomically(path, "é")
    assert path.read_text(encoding="utf-8") == "é"
    assert list(path.parent.iterdir()) == [path]


def test_front_matter_is_read_back(tmp_path: Path) -> None:
    metadata = {"b": {"none": None, "text": "---"}, "a": [1.5]}
    path = files.write_markdown(tmp_path / "README.md", metadata | {"path": tmp_path}, "# Title\n\n---\ntext\n")
    assert files.read_markdown(path) == (metadata | {"path": str(tmp_path)}, "# Title\n\n---\ntext\n")
    assert list(files.read_markdown(path)[0]) == ["b", "a", "path"]
    assert files.markdown_table(["a"], []) == ""
    assert files.markdown_table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_a_card_without_metadata_gives_none_and_its_own_are_under_truthgym(tmp_path: Path) -> None:
    assert files.card_metadata(tmp_path) == {}
    for text in ("# No front matter\n", "---\n- a list\n---\n", "---\n---\n", "---\nno: end\n", ""):
        (tmp_path / "README.md").write_text(text)
        assert files.card_metadata(tmp_path) == {}
    (tmp_path / "README.md").write_bytes(b"---\r\ntruthgym:\r\n  kind: sft\r\n---\r\ntext\r\n")
    assert files.card_metadata(tmp_path) == {"kind": "sft"}
    (tmp_path / "README.md").write_text("---\na: [\n---\n")
    with pytest.raises(BadInput, match=r"README\.md: the front matter .* is not YAML"):
        files.card_metadata(tmp_path)
