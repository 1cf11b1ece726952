"""hh-rlhf as preference rows, on a file of its shape."""

import gzip
import json
from pathlib import Path

import pytest

from examples import hh_rlhf
from tests.fixtures import write_rows
from tests.training.converted import rows
from truthgym.datasets.errors import BadInput
from truthgym.datasets.splits import split_of
from truthgym.tasks import wildchat

DIFFER = "pairs whose conversations differ before the reply, or have nothing before it"


def written(path: Path, *pairs: tuple[str, str]) -> Path:
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps({"chosen": one, "rejected": other}) + "\n" for one, other in pairs)
    return path


def test_pairs_keep_their_turns_and_test_questions_are_left_out(tmp_path: Path) -> None:
    asked = [f"Is it {i}?" for i in range(30)]
    talk = "\n\nHuman: {}\n\nAssistant: Maybe.\n\nHuman: Human: who?\n\nAssistant: {}"
    made = [(talk.format(question, "Yes: so."), talk.format(question, "No.")) for question in asked]
    odd = [
        ("\n\nHuman: A?\n\nAssistant: Same.",) * 2,
        ("\n\nHuman: A?\n\nAssistant: Yes.", "\n\nHuman: B?\n\nAssistant: No."),
        ("\n\nHuman: A?\n\nAssistant: Yes.", "\n\nHuman: A?"),
    ]
    file = written(tmp_path / "train.jsonl.gz", *made, *odd)
    counts = hh_rlhf.convert(str(tmp_path / "hh"), "helpful-base", file, False)
    splits = [split_of(f"hh-rlhf {question}") for question in asked]
    assert {name: counts[name] for name in ("train", "validation")} == {
        name: splits.count(name) for name in ("train", "validation")
    }
    assert counts["questions of the test split, which are reserved for evaluation"] == splits.count("test") > 0
    assert counts["pairs without a winner"] == 1
    assert counts[DIFFER] == counts["pairs without two replies"] == 1
    row = rows(tmp_path / "hh")[0]
    assert [message["role"] for message in row["prompt"]] == ["user", "assistant", "user"]
    assert row["chosen"] == [{"role": "assistant", "content": "Yes: so."}]
    assert row["rejected"] == [{"role": "assistant", "content": "No."}]


def test_a_file_without_a_pair_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "train.jsonl.gz", ("", ""))
    with pytest.raises(BadInput, match="no pair is left"):
        hh_rlhf.convert(str(tmp_path / "hh"), "helpful-base", file, False)
    assert not (tmp_path / "hh").exists()


@pytest.mark.parametrize("prompt", ["column of text", "column of messages", "in both replies", "TRL's explicit form"])
def test_pairs_of_any_form_become_rows_for_each_trainer(prompt: str, tmp_path: Path) -> None:
    made = []
    for number in range(12):
        asked, yes, no = (
            [{"role": role, "content": text}]
            for role, text in (("user", f"Is it {number}?"), ("assistant", "Yes."), ("assistant", "No."))
        )
        made.append(
            {
                "column of text": {"prompt": f"Is it {number}?", "chosen": "Yes.", "rejected": "No."},
                "column of messages": {"prompt": asked, "chosen": yes, "rejected": no},
                "in both replies": {"chosen": asked + yes, "rejected": asked + no},
                "TRL's explicit form": {"prompt": asked, "chosen": asked + yes, "rejected": asked + no},
            }[prompt]
        )
    file = tmp_path / "pairs.jsonl"
    write_rows(file, *made)
    columns = {}
    for kind in hh_rlhf.KINDS:
        hh_rlhf.convert(str(tmp_path / kind), "", file, False, kind)
        first = rows(tmp_path / kind)[0]
        if kind == "prompts":  # a source of questions
            (sample, *_) = wildchat(source=str(tmp_path / kind / "train.jsonl"), split="train").dataset
            assert sample.input == first["message"] == first["event"].removeprefix("pairs ")
            continue
        assert first["prompt"] == [{"role": "user", "content": first["event"].removeprefix("pairs ")}]
        columns[kind] = set(first) - {"prompt", "event", "split"}
    assert columns == {"preference": {"chosen", "rejected"}, "sft": {"completion"}}
    assert rows(tmp_path / "sft")[0]["completion"] == [{"role": "assistant", "content": "Yes."}]
