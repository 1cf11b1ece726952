from dataclasses import replace
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig, get_model
from inspect_ai.util import AdaptiveConcurrency

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import EVAL_SET_CAPTURE_VERSION, PRIVATE
from truthgym.sweep.sweep import Script, accepted, check_protocol, connections, divide, eval_set_id, plan
from truthgym.sweep.units.child import connections_of, select_exactly
from truthgym.sweep.units.unit import CAPTURE_VERSION, Unit

TASK = {"name": "truthgym/urns", "epochs": 3}


@pytest.fixture
def unit(tmp_path: Path) -> Unit:
    selection = {"overrides": {"log_dir": str(tmp_path)}}
    return Unit("urns", 30, ["s.py"], ".", 1, [], selection, str(tmp_path / ".sweep" / "0"))


def test_events_stay_together(unit: Unit) -> None:
    questions: list[list[Any]] = [[n, f"event {n // 4}" if n < 8 else None] for n in range(13)]

    shards = divide(unit, TASK, questions, 4)

    assert shards is not None
    parts = [unit.selection["overrides"]["sample_id"] for unit in shards.units]
    assert sorted(number for part in parts for number in part) == list(range(13))
    assert {0, 1, 2, 3} in map(set, parts)
    assert {4, 5, 6, 7} in map(set, parts)
    assert sum(unit.samples for unit in shards.units) == 13 * 3
    assert {Path(unit.selection["overrides"]["log_dir"]).name for unit in shards.units} == {"0", "1", "2", "3"}
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
    inspect = f"{version('inspect-ai')} lists .* version 99 .* knows versions 3 and 7"
    with pytest.raises(BadInput, match=inspect):
        check_protocol(99)


def test_the_id_of_an_eval_set_stays(tmp_path: Path) -> None:
    first = eval_set_id(str(tmp_path / "logs"), None)
    assert eval_set_id(str(tmp_path / "logs"), None) == first
    with pytest.raises(BadInput, match="mine"):
        eval_set_id(str(tmp_path / "logs"), "mine")


def test_other_questions_than_before_are_refused(unit: Unit) -> None:
    divide(unit, TASK, [[n, None] for n in range(10)], 2)
    with pytest.raises(BadInput, match="other questions"):
        divide(unit, TASK, [[n, None] for n in range(12)], 2)


def test_ids_that_inspect_would_cut_are_refused(unit: Unit) -> None:
    questions: list[list[Any]] = [["a", None], ["b", None], ["Urns:x", None], ["d", None]]
    assert divide(replace(unit, state=f"{unit.state}-other"), TASK, questions, 2, ["other"])
    with pytest.raises(BadInput, match="Urns:x"):
        divide(unit, TASK, questions, 2, ["urns"])


def test_shards_select_by_equality(monkeypatch: pytest.MonkeyPatch) -> None:
    util = import_module(PRIVATE["sample_id_filter"])
    monkeypatch.setattr(util, "sample_id_filter", util.sample_id_filter)  # put back at the end
    select_exactly()
    ids: list[int | str] = ["a*", "ab", "arr[0]", 7, "7", "007", "what?", "whats"]
    dataset = MemoryDataset([Sample(input="", id=identity) for identity in ids])
    subset = util.slice_dataset(dataset, None, ["a*", "arr[0]", 7, "what?"])
    assert [sample.id for sample in subset] == ["a*", "arr[0]", 7, "what?"]


@pytest.mark.parametrize(
    ("role", "task", "script", "most"),
    [
        ({}, {}, {}, None),
        ({"max_connections": 5}, {}, {"max_connections": 9}, 5),
        ({}, {"adaptive_connections": AdaptiveConcurrency(max=20)}, {}, 20),
        ({}, {}, {"adaptive_connections": 30}, 30),
        ({}, {}, {"adaptive_connections": False}, 10),
        ({}, {}, {"adaptive_connections": True}, None),
        ({}, {}, {"batch": 50}, 10_000),
    ],
)
def test_limits_of_a_script_are_read_wherever_they_stand(
    role: dict[str, Any], task: dict[str, Any], script: dict[str, Any], most: int | None
) -> None:
    model = get_model("mockllm/model")
    grader = get_model("mockllm/model", config=GenerateConfig(**role))
    assert connections_of(model, [grader], GenerateConfig(**task), script) == most


SCRIPT = {"log_dir": "", "max_sandboxes": 6}
MORE: dict[str, object] = {"max_connections": None, "stops_early": False, "script": {}}


def captured_call(folder: Path, **more: object) -> dict[str, Any]:
    """A task of ten questions."""
    task = {"name": "urns", "model": "m", "identifier": "urns/m", "samples": 10, "epochs": 2}
    facts = task | MORE | {"questions": [[n, None] for n in range(10)]} | more
    options = SCRIPT | {"log_dir": str(folder)}
    return {"options": options, "tasks": [facts], "max_subprocesses": None, "earlier": []}


def test_sandboxes_are_divided_and_tasks_that_stop_early_are_not(tmp_path: Path) -> None:
    todo = plan(["s.py"], 1, captured_call(tmp_path), 4, 3, None)
    assert [unit.samples for unit in todo.units] == [6, 6, 4, 4]
    assert {unit.selection["overrides"]["max_sandboxes"] for unit in todo.units} == {2}
    assert todo.most == 6, "more workers would have no sandbox"

    todo = plan(["s.py"], 1, captured_call(tmp_path / "other", stops_early=True), 4, 3, None)
    assert [unit.samples for unit in todo.units] == [20]


def test_a_script_that_fails_after_its_eval_sets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = {"version": CAPTURE_VERSION, "options": {"log_dir": "logs"}, "tasks": []}
    answers = iter([log, {"error": "exit status 1: no plot"}])

    def process(unit: Unit, **settings: str) -> SimpleNamespace:
        Path(f"{unit.state}.txt").write_text("a plot, " * 200, encoding="utf-8")
        return SimpleNamespace(answer=lambda job: next(answers), end=lambda: None, printed=f"{unit.state}.txt",
                               process=SimpleNamespace(returncode=1))  # fmt: skip

    monkeypatch.setattr("truthgym.sweep.sweep.Process", process)
    with Script(["s.py"]) as script:
        assert script.next_call()
        with pytest.raises(BadInput, match="after call 1 of eval_set was complete .* no plot"):
            script.next_call()
    assert capsys.readouterr().out == "a plot, " * 200


@pytest.mark.parametrize(("fail_on_error", "samples"), [(None, 0), (True, 0), (False, 40), (0.1, 4), (3, 3)])
def test_errors_that_the_script_accepts(fail_on_error: float | None, samples: int) -> None:
    assert accepted(fail_on_error, 40) == samples
