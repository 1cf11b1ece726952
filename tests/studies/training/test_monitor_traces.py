"""Traces of real runs for the monitor."""

import json
from pathlib import Path

from studies.training import monitor_traces


def test_traces_of_compared_runs_name_their_arm_and_seed(tmp_path: Path) -> None:
    entries = [{"step": 3, "entropy": 0.5, "kl": 0.1}, {"step": 3, "train_loss": 1.0}]
    for arm in ("grpo--groups-of-4", "dpo"):
        place = tmp_path / "tiny-2" / arm / "1c-trained" / "model"
        place.mkdir(parents=True)
        (place / "trainer_state.json").write_text(json.dumps({"log_history": entries}), encoding="utf-8")
    (row,) = monitor_traces.of_compared(tmp_path)
    assert (row["seed"], row["group"], row["step"], row["entropy"]) == ("2", "grpo--groups-of-4", 3, 0.5)
