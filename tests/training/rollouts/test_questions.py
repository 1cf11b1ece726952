"""Questions: the train split of any task, chosen and named, and nothing that the evaluation asks."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import write_rows
from tests.training.conftest import SUMS
from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import split_of
from truthgym.training.rollouts.questions import dataset_sample_ids, load_questions, shared_out, shuffled_by_event

SPLIT = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample

@task
def divided(split: str = "test") -> Task:
    return Task(dataset=[Sample(f"{split} {i}", id=i, metadata={"split": split}) for i in range(5)])
"""
CHAT = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser

@task
def chat(hint: str = "none") -> Task:
    told = {"hints": {hint}, "judge": object(), "evidence": [hint]}
    asked = [[ChatMessageSystem(content="Be brief."), ChatMessageUser(content=f"{i}?")] for i in range(9)]
    return Task(dataset=[Sample(text, target="yes", metadata=told) for text in asked])
"""


def test_a_task_is_asked_for_its_train_split() -> None:
    questions = load_questions("truthgym/urns", {"n": 60, "paradigms": "brier"})
    assert (questions.registered, questions.scorers, questions.by_hash) == ("truthgym/urns", ["brier"], False)
    assert {(sample.metadata or {})["split"] for sample in questions.samples.values()} == {"train"}
    validation = load_questions("truthgym/urns", {"n": 60, "paradigms": "brier"}, "validation")
    assert {(sample.metadata or {})["split"] for sample in validation.samples.values()} == {"validation"}
    assert not set(questions.samples) & set(validation.samples)
    ids = list(questions.samples)
    task = questions.subset(ids[3:1:-1])
    assert [sample.id for sample in task.dataset] == ids[3:1:-1]
    assert len(questions.task.dataset) == len(questions.samples), "the task itself is left as it is"


def test_samples_that_name_no_split_are_divided_by_a_hash(own: str) -> None:
    parts = {split: load_questions(own, {}, split) for split in ("train", "validation")}
    assert all(part.by_hash for part in parts.values())
    for split, part in parts.items():
        assert part.samples
        assert all(split_of(f"sums {name}") == split for name in part.samples)
    left = parts["train"].left_out
    assert left["of the validation split"] == len(parts["validation"].samples)
    assert len(parts["train"].samples) + sum(left.values()) == 40
    more = load_questions(own, {"n": 60})
    assert set(parts["train"].samples) <= set(more.samples), "more questions change no split"
    assert more.sha256 != parts["train"].sha256 == load_questions(own, {}).sha256


def test_conversations_are_known_again_and_a_split_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "chat.py").write_text(CHAT)
    first, again, other = (load_questions(str(tmp_path / "chat.py"), args) for args in ({}, {}, {"hint": "red"}))
    assert first.sha256 == again.sha256, "ids of messages and objects in memory are new each time"
    assert first.sha256 != other.sha256, "what a solver may show of a question counts"
    (tmp_path / "divided.py").write_text(SPLIT)  # its task takes a split, and is asked for it
    questions = load_questions(str(tmp_path / "divided.py"), {})
    assert [sample.input for sample in questions.samples.values()] == [f"train {i}" for i in range(5)]


def test_a_dataset_names_the_questions(tmp_path: Path) -> None:
    all_of_them = load_questions("truthgym/urns", {"n": 60, "paradigms": "brier"})
    names = list(all_of_them.samples)[:3]
    rows = [{"prompt": "?", "sample_id": name, "split": "train"} for name in names]
    (tmp_path / "data").mkdir()
    write_rows(tmp_path / "data" / "train.jsonl", *rows)
    only = dataset_sample_ids(tmp_path / "data")
    questions = load_questions("truthgym/urns", {"n": 60, "paradigms": "brier"}, only=only)
    assert list(questions.samples) == names
    assert questions.left_out["not in the dataset"] == len(all_of_them.samples) - 3
    (tmp_path / "data" / "train.jsonl").write_text('{"text": "x"}\n')
    with pytest.raises(BadInput, match="no rows with a sample_id .*--to prompts"):
        dataset_sample_ids(tmp_path / "data")
    with pytest.raises(BadInput, match="There is no folder .*nowhere; make one with"):
        dataset_sample_ids(tmp_path / "nowhere")


def test_samples_of_one_event_follow_each_other(own: str) -> None:
    questions = [load_questions("truthgym/urns", {"n": 40, "paradigms": "brier"}), load_questions(own, {})]
    order = list(shuffled_by_event(questions, 3))
    assert sorted(order) == sorted((at, name) for at, part in enumerate(questions) for name in part.samples)
    assert order == list(shuffled_by_event(questions, 3)) != list(shuffled_by_event(questions, 4))
    assert {at for at, _ in order[:20]} == {0, 1}, "tasks are mixed"
    events = [(at, (questions[at].samples[name].metadata or {}).get("event", name)) for at, name in order]
    assert len(set(events)) == sum(events[i] != events[i - 1] for i in range(1, len(events))) + 1


@pytest.mark.parametrize(
    ("name", "args", "part"),
    [
        ("truthgym/nosuch", {}, "There is no task 'truthgym/nosuch'"),
        ("truthgym/urns", {"colour": 1}, "Unknown argument of truthgym/urns 'colour'; known: n, "),
        ("truthgym/urns", {"n": -1}, "urns: n=-1 cannot be used"),
        ("truthgym/urns", {"split": "test"}, "split=test is what models are evaluated on, and is never trained on"),
        ("truthgym/urns", {"split": "train, test"}, "is what models are evaluated on"),
        ("truthgym/urns", {"split": "validation"}, "split=validation is not the training split; omit `split`"),
        ("nowhere.py", {}, "There is no file nowhere.py"),
        ("own.py@nosuch", {}, "own.py has no task 'nosuch', but sums"),
        ("own.py", {"m": 1}, "Unknown argument of own.py 'm'; known: n"),
        ("own.py", {"n": "x"}, "cannot be loaded with {'n': 'x'}: TypeError"),
        ("own.py", {"n": 0}, "cannot be loaded|no sample is left of the train split"),
        ("none.py", {}, "none.py has 0 tasks: none; write one"),
        ("two.py", {}, "two.py has 2 tasks: sums, others; name one with two.py@TASK"),
    ],
    ids=lambda message: json.dumps(message) if isinstance(message, dict) else str(message)[:20],
)
def test_what_is_refused(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, args: dict[str, Any], part: str
) -> None:
    (tmp_path / "none.py").write_text("x = 1\n")
    (tmp_path / "two.py").write_text(SUMS + SUMS.replace("sums", "others"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput) as error:
        load_questions(name, args)
    message = str(error.value).replace("\\[", "[")
    assert any(words in message for words in part.split("|")), message


def test_an_argument_goes_to_the_tasks_that_take_it_and_later_ones_win() -> None:
    taken = {"truthgym/urns": ("n", "seed", "draws"), "truthgym/forecasting": ("n", "source")}
    shared = shared_out(taken, {"n": 9, "draws": 2})
    assert shared == {"truthgym/urns": {"n": 9, "draws": 2}, "truthgym/forecasting": {"n": 9}}
    shared = shared_out(taken, {"n": 9, "urns": {"n": 5}}, {"forecasting": {"n": 7}})
    assert shared == {"truthgym/urns": {"n": 5}, "truthgym/forecasting": {"n": 7}}
    for arguments in ({"draw": 2}, {"urns": {"source": "x"}}):
        with pytest.raises(BadInput, match="Unknown argument of"):
            shared_out(taken, arguments)
