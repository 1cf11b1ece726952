import subprocess
import sys
from pathlib import Path

from inspect_ai.log import EvalLog, list_eval_logs, read_eval_log


def logs(folder: Path, header_only: bool = True) -> list[EvalLog]:
    if not folder.exists():
        return []
    read = []
    for info in list_eval_logs(str(folder)):
        read.append(read_eval_log(info, header_only=header_only))
    return read


def setup(log: EvalLog) -> str:
    assert log.eval.metadata
    return str(log.eval.metadata["setup"])


def test_a_sweep_of_a_file_prints_its_size_first_and_asks_about_its_answers_last(
    root: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    config = tmp_path / "sweep.yaml"
    config.write_text(
        "{domains: [urns], modes: {direct: {}, two turns: {solver: self_debate, turns: 1}}, prompts: none, n: 9, "
        "then: {world_in_the_loop: {model: reference/forecaster}}}"
    )
    command = [sys.executable, "examples/sweep.py", str(tmp_path / "logs"), "--config", str(config), "--paradigms"]
    cost = subprocess.run([*command, "brier", "--cost"], cwd=root, env=environment, capture_output=True, text=True)
    assert cost.stdout.splitlines()[0].endswith("= 2 logs"), cost.stderr
    calls = [line.split()[-2] for line in cost.stdout.splitlines() if line.endswith(" calls")]
    assert calls == ["27", "81"], f"9 questions, 3 epochs: {cost.stdout}"
    assert not (tmp_path / "logs").exists()
    run = [*command, "brier", "--display", "none"]
    ended = subprocess.run(run, cwd=root, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert {setup(log) for log in logs(tmp_path / "logs")} == {"direct, prompt none", "two turns, prompt none"}
    [after] = logs(tmp_path / "logs-world_in_the_loop")
    assert after.status == "success"
    wrong = subprocess.run([*command, "brier", "--modes", "directt"], cwd=root, env=environment, capture_output=True)
    assert b"directt" in wrong.stdout + wrong.stderr
    assert wrong.returncode != 0
