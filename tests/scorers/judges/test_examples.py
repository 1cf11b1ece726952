"""Which examples a judge is shown and in what orders; and what a file, a log or a folder of examples must be."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.model import ModelName
from inspect_ai.solver import TaskState

from tests.fixtures import Run
from truthgym.datasets.errors import BadInput
from truthgym.datasets.rated_trajectories import QUALITIES, RatedTrajectory, rated_trajectories
from truthgym.scorers.judges.context import JudgedItem
from truthgym.scorers.judges.examples import (
    judged_item,
    mean_rating,
    orders_of,
    read_sources,
    same_question,
    split_examples,
    with_ratings_by,
)
from truthgym.scorers.judges.rubric import parse_rubric, read_rubric
from truthgym.tasks.sycophancy import sycophancy
from truthgym.tasks.worlds import urns

RUBRIC = read_rubric("built-in")
BUNDLED = with_ratings_by(RUBRIC, rated_trajectories(), "bundled")


def example(number: int, rating: int | None = None, **given: Any) -> RatedTrajectory:
    ratings = dict.fromkeys(QUALITIES, 10 * number if rating is None else rating)
    row: dict[str, Any] = {"id": f"e{number}", "question": f"Question {number}?", "trajectory": f"I think {number}."}
    return RatedTrajectory(**row | {"ratings": ratings, "reasons": "So."} | given)


def write(file: Path, rows: list[dict[str, Any]]) -> str:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def test_examples_are_spread_over_the_ratings() -> None:
    pool = [example(i) for i in range(10)]
    shown, held_out = split_examples(pool, 4, seed=0)
    assert sorted(item.id for item in shown) == ["e1", "e3", "e6", "e8"]
    assert [item.id for item in held_out] == ["e0", "e2", "e4", "e5", "e7", "e9"]
    assert split_examples(pool[::-1], 4, seed=0) == (shown, held_out), "the order of the file does not matter"
    assert any(split_examples(pool, 4, seed=s)[0] != shown for s in range(1, 5)), "the seed draws the order"


def test_twelve_bundled_examples_are_held_out() -> None:
    shown, held_out = split_examples(BUNDLED, 4, seed=0)
    assert len(held_out) == 12
    assert not {item.id for item in shown} & {item.id for item in held_out}
    means = [mean_rating(item) for item in shown]
    assert max(means) - min(means) > 0.4
    assert len(split_examples(BUNDLED, 16, seed=0)[1]) == 0
    with pytest.raises(BadInput, match="shots=17: there are only 16"):
        split_examples(BUNDLED, 17, seed=0)


@pytest.mark.parametrize(("count", "most"), [(0, 24), (1, 1), (3, 24), (4, 24), (4, 6), (16, 24), (30, 5)])
def test_orders_are_distinct_permutations(count: int, most: int) -> None:
    result = orders_of(count, most, seed=1)
    assert len(result) == len(set(result)) == min(most, math.factorial(count))
    assert result[0] == tuple(range(count))
    assert all(sorted(order) == list(range(count)) for order in result)
    assert result == orders_of(count, most, seed=1)


def test_an_example_about_the_same_question_is_known() -> None:
    assert same_question(example(1), JudgedItem(" question  1? ", "Something else."))
    assert same_question(example(1), JudgedItem("Question 1?\n\nIt rained.", "Something else."))
    assert not same_question(example(1), JudgedItem("Question 2?", "I think 1."))


def test_ratings_must_be_those_of_the_rubric() -> None:
    other = parse_rubric("## Depth\n## Curiosity\n", "mine")
    with pytest.raises(BadInput, match="asks for depth"):
        with_ratings_by(other, rated_trajectories(), "f")
    mine = [example(1, ratings={"depth": 3, "curiosity": 5, "extra": 9})]
    assert with_ratings_by(other, mine, "f")[0].ratings == {"depth": 3, "curiosity": 5}
    whole = parse_rubric("Is it good?", "mine")
    assert with_ratings_by(whole, mine, "f")[0].ratings == {"overall": 6}


WRONG = {
    "not json": ("hello\n", "line 1: not JSON"),
    "empty": ("", "is empty"),
    "another shape": ('{"question": "Q?", "answer": "A."}\n', "field"),
    "no ratings": ('{"id": "a", "question": "Q?", "trajectory": "T.", "ratings": {}, "reasons": "R."}\n', "ratings"),
    "beyond 100": (
        '{"id": "a", "question": "Q?", "trajectory": "T.", "ratings": {"curiosity": 101}, "reasons": "R."}\n',
        "curiosity.*101",
    ),
    "other qualities": (
        '{"id": "a", "question": "Q?", "trajectory": "T.", "ratings": {"depth": 1}, "reasons": "R."}\n',
        "rated for depth, but the rubric also asks for originality",
    ),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_a_file_of_the_wrong_shape_is_refused(name: str, tmp_path: Path) -> None:
    text, message = WRONG[name]
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(BadInput, match=message):
        read_sources(str(tmp_path / "a.jsonl"), RUBRIC)


def test_what_is_not_there_or_no_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="There is no"):
        read_sources(str(tmp_path / "none.jsonl"), RUBRIC)
    (tmp_path / "broken.eval").write_text("no log")
    with pytest.raises(BadInput, match="cannot be read as a log"):
        read_sources(str(tmp_path / "broken.eval"), RUBRIC)
    with pytest.raises(BadInput, match="holds no trajectory"):
        read_sources(str(tmp_path), RUBRIC)


def test_a_log_gives_trajectories_and_ratings(run: Run, tmp_path: Path) -> None:
    few = {"few_shot": "disabled", "red_team": "none", "self_answer": False, "probes": "none"}
    scored = run(
        urns(n=3, paradigms={"qualitative": few}), model_roles={"judge": "reference/judge"}, epochs=2,
        model_args={"care": 0.5},
    )  # fmt: skip
    bare = run(urns(n=2, paradigms="brier"), epochs=1)
    rated = read_sources(scored.location, RUBRIC)
    assert len(rated) == 6
    assert {item.trajectory for item in rated} == {item.trajectory for item in read_sources(scored.location, None)}
    assert rated[0].question.startswith(str((scored.samples or [])[0].input))
    assert "finalBeliefProb" in rated[0].trajectory
    arguments = [(sample.scores or {})["qualitative"].value for sample in scored.samples or []]
    assert [mean_rating(item) for item in rated] == pytest.approx(
        [v["quality"] for v in arguments if isinstance(v, dict)]
    )
    assert "simulated judge" in rated[0].reasons
    with pytest.raises(BadInput, match="no trajectory with ratings"):
        read_sources(bare.location, RUBRIC)
    assert len(read_sources(bare.location, None)) == 2
    folder = Path(scored.location).parent
    (folder / "notes.jsonl").write_text('{"another": "file"}\n')
    (folder / "deeper").mkdir()
    write(folder / "deeper" / "a.jsonl", [example(1).model_dump()])
    assert len(read_sources(str(folder), RUBRIC)) == 7, "a folder is searched through, and what is none is passed over"


def test_only_the_neutral_arm_of_sycophancy_is_read(run: Run) -> None:
    log = run(sycophancy({"urns": {"n": 2}}, arms="user,third,memory"), "reference/sycophant", epochs=1)
    result = read_sources(log.location, None)
    assert [item.id for item in result] == [
        f"{s.id} epoch 1" for s in log.samples or [] if str(s.id).endswith("neutral")
    ]
    for sample in log.samples or []:
        state = TaskState(ModelName("none/none"), sample.id, 1, sample.input, sample.messages, metadata=sample.metadata,
                          store=sample.store)  # fmt: skip
        case = judged_item(state)
        assert isinstance(case, JudgedItem)
        assert [same_question(item, case) for item in result] == [
            item.id.split("/")[0] == str(sample.id).split("/")[0] for item in result
        ]
