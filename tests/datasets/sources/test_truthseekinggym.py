"""Problems of a folder of TruthSeekingGym's, and what of it is not public."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.datasets.sources.reading import read
from truthgym.datasets.errors import BadInput
from truthgym.datasets.fetch import fetch
from truthgym.datasets.intellectual import intellectual
from truthgym.datasets.research import ResearchQuestion, research
from truthgym.datasets.sources.truthseekinggym import problems_with_answers, prompts

TWO = {"question": "Which is it?", "options": ["This", "That"], "correct_option": 1}
OPEN = {"question": "Think aloud.", "anything": "else"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    questions, runs = tmp_path / "gym" / "questions", tmp_path / "gym" / "runs" / "run-1"
    questions.mkdir(parents=True)
    runs.mkdir(parents=True)
    three = TWO | {"options": ["a", "b", "c"]}
    (questions / "research.json").write_text(json.dumps([TWO, three, TWO | {"correct_option": 2}, {"answer": 3}]))
    (questions / "conceptual.jsonl").write_text(json.dumps(OPEN) + "\n")
    for name in ("reasoning-trajectories-raw.json", "reasoning-beliefs-Martingale.json", "bias-eval-results-X.json"):
        (runs / name).write_text("[]")
    return tmp_path / "gym"


def test_problems_become_rows_and_the_rest_is_counted(folder: Path) -> None:
    skipped: Counter[str] = Counter()
    place = "questions/research.json problem 1"
    ((where, row),) = problems_with_answers(skipped, None, str(folder))
    names = [row.pop("id"), row.pop("event")]
    assert all(name.startswith("truthseekinggym-") for name in names)
    assert (where, row) == (
        (place, {
            "question": "Which is it?", "hard": "That", "easy": "This",
            "reason": "The source gives none.", "science": "research", "recorded": place,
        })
    )  # fmt: skip
    assert skipped == {
        "files of runs, whose format is not public": 3,
        "problems without two options and a correct one": 3,  # of them one without options
        "entries without a question": 1,
    }


def test_a_problem_keeps_its_name_and_split_wherever_it_stands(folder: Path) -> None:
    ((first,), _) = read(problems_with_answers, folder=str(folder))
    moved = [TWO | {"question": "Another?"}, TWO | {"options": ["That", "This"], "correct_option": 0},
             TWO | {"options": ["This", "Neither"]}, OPEN, TWO | {"correct_option": 1.0}]  # fmt: skip
    (folder / "questions" / "research.json").unlink()
    (folder / "questions" / "moved.json").write_text(json.dumps(moved))
    (other, again, third), skipped = read(problems_with_answers, folder=str(folder))
    assert (again["id"], again["event"]) == (first["id"], first["event"])
    assert (third["id"] != first["id"], third["event"]) == (True, first["event"]), "the same question, other answers"
    assert other["event"] != first["event"]
    assert skipped["problems without two options and a correct one"] == 3, "two open ones, and one whose place is 1.0"
    rows, _ = read(prompts, folder=str(folder))
    assert {row["prompt"] for row in rows} == {"Think aloud."}
    assert (len(rows), len({row["id"] for row in rows})) == (2, 1), "asked once"


def test_problems_are_questions_of_research(folder: Path, tmp_path: Path) -> None:
    fetch("research", "truthseekinggym", tmp_path / "mine.jsonl", folder=str(folder))
    (item,) = research(str(tmp_path / "mine.jsonl"))
    known = item.metadata_as(ResearchQuestion)
    assert set(known.options) == {"This", "That"}
    assert known.proposition
    assert ("That" in known.proposition) == (item.target == "yes")


def test_problems_without_options_are_prompts(folder: Path, tmp_path: Path) -> None:
    made = fetch("intellectual", "truthseekinggym", tmp_path / "mine.jsonl", folder=str(folder))
    assert (made.rows, made.left_out["problems with options"]) == (1, 3)
    (item,) = intellectual(str(tmp_path / "mine.jsonl"))
    assert (item.input, (item.metadata or {})["kind"]) == ("Think aloud.", "conceptual")


def test_one_file_will_do(folder: Path) -> None:
    ((where, row),) = prompts(Counter(), None, str(folder / "questions" / "conceptual.jsonl"))
    assert (where, row["prompt"]) == ("conceptual.jsonl problem 1", "Think aloud.")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: folder / "nowhere", "There is no folder"),
        (lambda folder: (folder / "empty").mkdir() or folder / "empty", "has no .json or .jsonl file"),
        (lambda folder: (folder / "a.json").write_text("{") and folder, "a.json: not JSON (EOF while parsing"),
        (lambda folder: (folder / "a.json").write_text('[{"question": "\\ud800?"}]') and folder, "a.json: not JSON ("),
    ],
    ids=["nowhere", "empty", "no JSON", "half a character"],
)
def test_an_unusable_folder_is_refused(folder: Path, change: Any, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        list(prompts(Counter(), None, str(change(folder))))
    assert said in str(refused.value)


def test_folders_and_dead_links_named_as_files_are_passed_over(folder: Path) -> None:
    (folder / "a.json").mkdir()
    (folder / "b.json").symlink_to(folder / "nowhere")
    ((_, row),) = prompts(Counter(), None, str(folder))
    assert row["prompt"] == "Think aloud."


@pytest.mark.parametrize("change", [{"correct_option": 1.0}, {"correct_option": True}, {"options": ["This", " "]}])
def test_problems_that_name_no_answer_are_counted(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / "a.json").write_text(json.dumps([TWO | change]))
    rows, skipped = read(problems_with_answers, folder=str(tmp_path))
    assert (rows, skipped) == ([], {"problems without two options and a correct one": 1})
