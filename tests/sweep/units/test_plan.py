import json
from pathlib import Path
from typing import Any

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import EVAL_SET_CAPTURE_VERSION, EVAL_SET_SELECTION_VERSION
from truthgym.sweep.units.plan import accepted, check_protocol, connections, divide, eval_set_id
from truthgym.sweep.units.unit import CAPTURE_VERSION, SELECTION_VERSION, Unit

TASK = {"name": "truthgym/urns", "epochs": 3}


@pytest.fixture
def unit(tmp_path: Path) -> Unit:
    selection = {"overrides": {"log_dir": str(tmp_path)}}
    return Unit("urns", "m", 30, ["s.py"], ".", 1, [], selection, str(tmp_path / ".sweep" / "0"))


def test_events_stay_together(unit: Unit) -> None:
    questions: list[list[Any]] = [[n, f"event {n // 4}" if n < 8 else None] for n in range(13)]

    shards = divide(unit, TASK, questions, 4)

    assert shards is not None
    parts = [one.selection["overrides"]["sample_id"] for one in shards.units]
    assert sorted(one for part in parts for one in part) == list(range(13))
    assert {0, 1, 2, 3} in map(set, parts)
    assert {4, 5, 6, 7} in map(set, parts)
    assert sum(one.samples for one in shards.units) == 13 * 3
    assert {Path(one.selection["overrides"]["log_dir"]).name for one in shards.units} == {"0", "1", "2", "3"}
    assert shards.out.endswith(".eval")


def test_an_interrupted_division_is_kept(unit: Unit) -> None:
    questions: list[list[Any]] = [[n, None] for n in range(10)]
    first, second = divide(unit, TASK, questions, 2), divide(unit, TASK, questions, 5)
    assert first == second


@pytest.mark.parametrize(("questions", "shards"), [([[1, None]] * 3, 8), ([[n, "same"] for n in range(9)], 2)])
def test_what_cannot_be_divided_stays_whole(unit: Unit, questions: list[list[Any]], shards: int) -> None:
    assert divide(unit, TASK, questions, shards) is None


@pytest.mark.parametrize("workers", [1, 3, 8])
@pytest.mark.parametrize(
    ("allowed", "script", "total"), [(None, None, 100), (40, None, 40), (40, 16, 16), (None, 9, 9)]
)
def test_workers_together_open_no_more_connections(
    allowed: int | None, script: int | None, total: int, workers: int
) -> None:
    limits = connections(allowed, script, workers)
    most = limits["max_connections"] if "max_connections" in limits else limits["adaptive_connections"]["max"]
    assert 0.5 * total < most * workers <= total


def test_inspect_has_the_protocol_that_a_sweep_speaks() -> None:
    check_protocol(EVAL_SET_CAPTURE_VERSION)
    assert (EVAL_SET_CAPTURE_VERSION, EVAL_SET_SELECTION_VERSION) == (CAPTURE_VERSION, SELECTION_VERSION)


def test_another_protocol() -> None:
    with pytest.raises(BadInput, match="version 99"):
        check_protocol(99)


def test_the_id_of_an_eval_set_stays(tmp_path: Path) -> None:
    first = eval_set_id(str(tmp_path / "logs"), None)
    assert eval_set_id(str(tmp_path / "logs"), None) == first
    with pytest.raises(BadInput, match="mine"):
        eval_set_id(str(tmp_path / "logs"), "mine")
    assert json.dumps(first).strip('"').isalnum()


def test_other_questions_than_before_are_refused(unit: Unit) -> None:
    divide(unit, TASK, [[n, None] for n in range(10)], 2)
    with pytest.raises(BadInput, match="other questions"):
        divide(unit, TASK, [[n, None] for n in range(12)], 2)


def test_ids_that_inspect_reads_as_patterns_are_refused(unit: Unit) -> None:
    with pytest.raises(BadInput, match="pattern"):
        divide(unit, TASK, [["a", None], ["b", None], ["what?", None], ["d", None]], 2)


@pytest.mark.parametrize(("fail_on_error", "samples"), [(None, 0), (True, 0), (False, 40), (0.1, 4), (3, 3)])
def test_errors_that_the_script_accepts(fail_on_error: float | None, samples: int) -> None:
    assert accepted(fail_on_error, 40) == samples
