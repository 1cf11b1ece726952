from pathlib import Path
from subprocess import CompletedProcess

from inspect_ai.log import EvalLog, list_eval_logs, read_eval_log

from tests.commands import call


def logs(folder: Path) -> list[EvalLog]:
    return [read_eval_log(info, header_only=True) for info in list_eval_logs(str(folder))]


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

    def sweep(*words: str) -> "CompletedProcess[str]":
        command = ["-m", "examples.sweep", str(tmp_path / "logs"), "--config", str(config), "--paradigms", "brier"]
        return call(*command, *words, environment=environment, folder=root)

    cost = sweep("--cost")
    assert cost.stdout.splitlines()[0].endswith("= 2 logs"), cost.stderr
    calls = [line.split()[-2] for line in cost.stdout.splitlines() if line.endswith(" calls")]
    assert calls == ["27", "81"], f"9 questions, 3 epochs: {cost.stdout}"
    assert not (tmp_path / "logs").exists()
    ended = sweep("--display", "none")
    assert ended.returncode == 0, ended.stderr
    assert {setup(log) for log in logs(tmp_path / "logs")} == {"direct, prompt none", "two turns, prompt none"}
    [after] = logs(tmp_path / "logs-world_in_the_loop")
    assert after.status == "success"
    wrong = sweep("--modes", "directt")
    assert "directt" in wrong.stdout + wrong.stderr
    assert wrong.returncode != 0
