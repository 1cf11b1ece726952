"""The monitor as a callback: OK on a clean run, a stop with a checkpoint on one that drifts, and its null traces."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.training.rollouts.conftest import Train
from truthgym.datasets.errors import BadInput
from truthgym.training.drift_monitor import DriftMonitor, monitor_chart
from truthgym.training.rollouts.hacking_monitor import _trl_defaults, kind_of_run, monitor_of
from truthgym.training.trainers.model_card import ModelCard, read_card, write_card

LENGTH, GOLD = "completions/mean_length", "rewards/brier/mean"


def entries(drift: float = 0.0, seed: int = 0, onset: int = 20, number: int = 50) -> list[dict[str, float]]:
    rng = np.random.default_rng(seed)
    return [
        {"step": i, LENGTH: 40 + 5 * (rng.normal() + drift * (i >= onset)),
         GOLD: -0.2 - 0.03 * (rng.normal() + drift * (i >= onset))}
        for i in range(number)
    ]  # fmt: skip


@pytest.fixture
def clean(tmp_path: Path) -> list[str]:
    folders = []
    for seed in range(4):
        folder = tmp_path / f"clean{seed}"
        folder.mkdir()
        write_run(folder, [*entries(seed=seed), {"step": 50, "train_runtime": 1.0}])
        folders.append(str(folder))
    return folders


def write_run(
    folder: Path, log: list[dict[str, float]], logging_steps: int = 1, task: str = "urns", **config: Any
) -> None:
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": log, "logging_steps": logging_steps}))
    chosen = {name: value for name, value in ({"num_generations": 4} | config).items() if value is not None}
    write_card(folder, ModelCard("grpo", "base", "ab" * 32, "hf/x", task, config=chosen))


def kind(**config: Any) -> dict[str, Any]:
    return kind_of_run("urns", "ab" * 32, 1, _trl_defaults("grpo") | {"num_generations": 4} | config)


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        ({"logging_steps": 10}, "its --logging_steps is 10, and that of this run 1"),
        ({"num_generations": 8}, "its --num_generations is 8, and that of this run 4"),
        ({"num_generations": None}, "its --num_generations is 8, and that of this run 4"),
        ({"task": "truthgym/audio"}, "its tasks is 'truthgym/audio'"),
    ],
)
def test_a_clean_run_of_another_kind_calibrates_nothing(clean: list[str], other: dict[str, Any], problem: str) -> None:
    """Entries that average ten steps vary a third as much: every clean run would be stopped."""
    write_run(Path(clean[1]), entries(), **other)
    with pytest.raises(BadInput, match=problem):
        monitor_of(clean, None, 0.05, 50, kind())


def watch(monitor: Any, log: list[dict[str, float]]) -> tuple[int | None, Any]:
    """The entry at which the monitor stops the run, and the control that it set."""
    control = SimpleNamespace(should_save=False, should_training_stop=False)
    monitor.on_train_begin(None, SimpleNamespace(log_history=log[:5]), control)  # resumed after five entries
    for i, entry in enumerate(log[5:], start=5):
        monitor.on_log(None, SimpleNamespace(global_step=i), control, logs=entry)
        if control.should_training_stop:
            return i, control
    return None, control


def test_a_run_that_drifts_is_saved_and_stopped(clean: list[str]) -> None:
    monitor = monitor_of(clean, [LENGTH, f"{GOLD}:down"], 0.05, 50, kind())
    assert monitor
    place, control = watch(monitor, entries(drift=1.5, seed=10))
    assert place is not None
    assert 20 <= place < 30
    assert control.should_save
    assert monitor.monitor.status == "STOP"
    assert f"step {place}: {LENGTH}" in monitor.note()
    assert "(-0.198 in clean runs)" in monitor.note(), "the clean mean has its own sign"

    calm = monitor_of(clean, [LENGTH, f"{GOLD}:down"], 0.05, 50, kind())
    assert calm
    assert watch(calm, entries(seed=11)) == (None, SimpleNamespace(should_save=False, should_training_stop=False))
    assert calm.note() == "Monitor OK (of 50 log entries; [its signals](loss.html))."
    for watched, stopped in ((monitor, True), (calm, False)):
        state = json.loads(json.dumps(watched.monitor.state()))
        assert (max(state["statistic"]) > state["stop"]) is stopped, "the curve crosses the line where the run ends"
        assert state["step"] == list(range(len(state["statistic"])))
        assert state["signals"][GOLD]["expected"][0] < 0, "in the signal's own sign"
        panels = monitor_chart(state).to_dict()["vconcat"]
        assert [panel["title"].partition(" (")[0] for panel in panels[:2]] == [LENGTH, GOLD]
    better = monitor_of(clean, [f"{GOLD}:down"], 0.05, 50, kind())
    assert watch(better, entries(drift=-3, seed=3))[0] is None, "a gold reward that rises is not suspicious"


@pytest.mark.parametrize(
    ("folders", "signals", "alpha", "problem"),
    [
        ([], [LENGTH], 0.05, "without a null trace"),
        (["gone"], None, 0.05, "gone: there is no trainer_state.json"),
        (None, ["entropy"], 0.05, "logged no entropy; it logged completions/mean_length"),
        (None, [f"{LENGTH}:left"], 0.05, "write NAME, NAME:up or NAME:down"),
        (None, None, 0.0, "--monitor_alpha 0.0"),
    ],
)
def test_a_monitor_needs_null_traces(
    clean: list[str], folders: list[str] | None, signals: list[str] | None, alpha: float, problem: str
) -> None:
    with pytest.raises(BadInput, match=problem):
        monitor_of(clean if folders is None else folders, signals, alpha, 50, kind())
    assert monitor_of([], None, 0.05, 50, kind()) is None, "without options there is none"


def test_a_run_of_default_options_is_watched_by_clean_runs_of_the_same(train: Train, tmp_path: Path) -> None:
    """The card of a clean run leaves out what is TRL's default."""
    usual = {"num_generations": 8, "max_completion_length": 2, "logging_steps": 1, "output_dir": str(tmp_path)}
    clean = [str(train(max_steps=10, seed=1, **usual))]
    clean.append(str(shutil.copytree(clean[0], tmp_path / "another")))
    watched = train(max_steps=2, seed=3, monitor=clean, monitor_signals=["reward"], **usual)
    assert any(note.startswith("Monitor ") for note in read_card(watched).notes)
    saved = json.loads((watched / "trainer_state.json").read_text())["stateful_callbacks"]["drift_monitor"]
    assert saved["step"] == [1, 2]
    assert "statistic of the monitor" in (watched / "loss.html").read_text()


@pytest.mark.parametrize(("drift", "status"), [(0.0, "OK"), (3.0, "STOP")])
def test_any_loop_can_ask_and_its_own_start_can_be_the_reference(drift: float, status: str) -> None:
    monitor = DriftMonitor([LENGTH, f"{GOLD}:down"], start=30, checkpoints=70)
    with pytest.raises(BadInput, match="no entry has been tested yet"):
        monitor.chart()
    states = [monitor.update(entry) for entry in entries(drift, seed=5, onset=40, number=100)]
    assert states[:29] == ["STARTING"] * 29
    assert states[-1] == status
    assert monitor.update({"loss": 1.0}) == status, "an entry without a signal changes nothing"
    assert len(monitor.chart().to_dict()["vconcat"]) == 3, "two signals and the statistic"


def test_a_monitor_without_a_reference_is_refused() -> None:
    for start in (0, 19):
        with pytest.raises(BadInput, match="neither clean runs nor 20 entries .* start=30"):
            DriftMonitor([LENGTH], start=start)
    with pytest.raises(BadInput, match="signal 0 never varies"):
        DriftMonitor([LENGTH], clean=[np.ones((20, 1))] * 2)
