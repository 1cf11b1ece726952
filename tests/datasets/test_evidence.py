import re
from pathlib import Path

import pytest

from tests.fixtures import write_rows
from truthgym.datasets.domains import bundled
from truthgym.datasets.errors import BadInput
from truthgym.datasets.evidence import BUNDLED, Observation, evidence

ROW = {"question": "rain", "task": "Look out of the window.", "observation": "The street is wet."}
DOMAINS = ("forecasting", "research")
TARGETS = {domain: {str(item.id): item.target for item in bundled(domain)} for domain in DOMAINS}
QUESTIONS = {domain: {str(item.id): item.input for item in bundled(domain)} for domain in DOMAINS}
ROWS = [row for rows in evidence().values() for row in rows]


def asked(domain: str) -> list[Observation]:
    return [row for row in ROWS if row.question in TARGETS[domain]]


def ends(values: list[int]) -> str:
    return f"{min(values)} and {max(values)}"


def test_the_card_counts_what_is_there() -> None:
    text = BUNDLED.with_suffix(".md").read_text()
    written = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", text.split("## Counts")[1], flags=re.MULTILINE))
    assert written.pop("what") == "count"
    yes = {name: sum(TARGETS[name][row.question] == "yes" for row in asked(name)) for name in DOMAINS}
    assert written == {
        "observations": str(len(ROWS)),
        "questions": str(len(evidence())),
        "of forecasting, part `events`": str(len(asked("forecasting"))),
        "of these with the outcome yes": str(yes["forecasting"]),
        "of research": str(len(asked("research"))),
        "of these asked about the right answer": str(yes["research"]),
        "words of an observation, fewest and most": ends([len(row.observation.split()) for row in ROWS]),
        "words of a task, fewest and most": ends([len(row.task.split()) for row in ROWS]),
    }


def test_every_question_is_bundled_and_every_place_named() -> None:
    assert len(evidence()) >= 60
    for row in ROWS:
        assert any(row.question in TARGETS[domain] for domain in DOMAINS), row.question
        assert row.recorded, row.question


def test_no_task_tells_a_figure_of_its_result() -> None:
    days = re.compile(r"(\d{1,2} )?[A-Z][a-z]+( of)? \d{4}|\b(19|20)\d\d\b")
    for row in ROWS:
        task, result = ({*re.findall(r"\d[\d.,]*", days.sub("", text))} for text in (row.task, row.observation))
        asked = str(next(ids[row.question] for ids in QUESTIONS.values() if row.question in ids))
        assert not {number for number in task & result if number not in asked}, row.question


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "mine.jsonl is empty; write one JSON object a line"),
        ([{**ROW, "observed": "x"}], "line 1: there is no field 'observed'; did you mean 'observation'?"),
        ([{**ROW, "observation": " "}], "line 1: the field `observation` must be text in quotes"),
        ([{"question": "rain", "task": "Look."}], "line 1: the field `observation` is missing; add it"),
        ([ROW, {**ROW, "observation": "It is dry."}], "line 2: 'rain' has this task also at"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(rows: list[dict[str, str]], said: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "mine.jsonl", *rows)
    with pytest.raises(BadInput, match=re.escape(said)):
        evidence(path)
    with pytest.raises(BadInput, match="There is no file nowhere.jsonl"):
        evidence("nowhere.jsonl")


def test_a_question_may_have_several_observations(tmp_path: Path) -> None:
    rows = [ROW, {**ROW, "task": "Look at the roof."}]
    read = evidence(write_rows(tmp_path / "mine.jsonl", *rows))
    assert [row.task for row in read["rain"]] == ["Look out of the window.", "Look at the roof."]
