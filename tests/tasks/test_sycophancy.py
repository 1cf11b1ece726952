"""The task: its arms in any solver, its arguments as the command line gives them, its log."""

import datetime
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import eval, eval_retry
from inspect_ai.log import read_eval_log, read_eval_log_sample
from inspect_ai.model import ModelOutput

from tests.fixtures import QUIET, Run, samples, write_rows
from truthgym.datasets.digests import file_digest
from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.domain import bundled_file
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.trajectory import Trajectory
from truthgym.tasks.sycophancy import sycophancy


def test_a_limit_keeps_the_arms_of_a_question_together(run: Run) -> None:
    log = run(sycophancy(domain="urns"), limit=10, epochs=1)
    assert {str(done.id).rpartition("/")[2] for done in samples(log)} == {
        "neutral", "user_yes", "user_no", "third_yes", "third_no"}  # fmt: skip
    assert len({str(done.id).rpartition("/")[0] for done in samples(log)}) == 2
    alone = run(sycophancy(domain="urns", n=3), sample_id="*/neutral", epochs=1)
    assert len(alone.samples or []) == 3
    read = read_eval_log_sample(alone.location, id=(alone.samples or [])[0].id, epoch=1)
    assert read.metadata["arm"] == "neutral"


def test_the_log_shows_it(run: Run) -> None:
    log = run(sycophancy(domain="urns", n=1, system_prompt="critical_thinking"))
    assert log.eval.config.epochs == 2
    assert log.eval.task_version == "3-A"
    assert log.eval.viewer
    assert log.eval.viewer.task_samples_view
    assert "score__sycophantic_reasoning__belief" in str(log.eval.viewer)
    assert all(done.messages[0].role == "system" for done in samples(log))


def test_small_talk_is_neither_reasoning_nor_training_data(run: Run) -> None:
    log = run(sycophancy(domain="urns", n=1, arms="memory"), "reference/sycophant", epochs=1,
              solver=chain_of_thought(steps=2))  # fmt: skip
    done = next(d for d in samples(log) if str(d.id).endswith("memory_yes"))
    steps = done.store_as(Trajectory).steps
    assert [(s.role, s.kind, s.trainable) for s in steps[:4]] == [
        ("user", "auxiliary", False), ("assistant", "auxiliary", False)] * 2  # fmt: skip
    assert [s.kind for s in steps if s.trainable] == ["reasoning", "reasoning", "answer"]
    assert all(
        message.metadata and message.metadata["epoch"] == 1 for message in done.messages if message.role == "user"
    )


def test_a_day_in_the_arguments_survives_a_retry(tmp_path: Path) -> None:
    day = datetime.date(2024, 6, 1)  # what YAML makes of it
    broken: dict[str, Any] = {"custom_outputs": [ModelOutput.from_content("mockllm/model", "")]}
    (log,) = eval(
        "truthgym/sycophancy", model="mockllm/model", model_args=broken, display="none", log_dir=str(tmp_path),
        task_args={"domain": {"forecasting": {"known_after": day}}, "arms": ["user"], "n": 2}, limit=4, epochs=1,
        log_realtime=False,
    )  # fmt: skip
    assert log.status == "error", "one output for several samples"
    held = read_eval_log(log.location).eval.task_args["domain"]
    assert held == {"forecasting": {"known_after": "2024-06-01"}}
    (again,) = eval_retry(log.location, display="none", log_dir=str(tmp_path), log_realtime=False)
    assert again.eval.task_args["domain"] == held
    assert again.eval.dataset.sample_ids == log.eval.dataset.sample_ids


def test_a_file_in_the_domains_arguments_is_known_by_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_bytes(bundled_file("conceptual").read_bytes().splitlines(keepends=True)[0])
    digest = file_digest(path)
    (log,) = eval(
        "truthgym/sycophancy", model="reference/bayesian", **QUIET, log_dir=str(tmp_path / "logs"),
        task_args={"domain": {"conceptual": {"source": str(path)}}, "metric": "opinion"}, epochs=1, limit=1,
    )  # fmt: skip
    assert log.status == "success", log.error
    held = {"conceptual": {"source": str(path), "sha256": digest}}
    assert read_eval_log(log.location).eval.task_args["domain"] == held
    path.write_text(path.read_text() + "\n")
    with pytest.raises(BadInput, match=f"sha256={digest} does not match"):
        eval_retry(log, **QUIET, log_dir=str(tmp_path / "logs"))


@pytest.mark.parametrize("named", [False, True])
def test_a_file_of_own_questions_is_a_domain(tmp_path: Path, named: bool) -> None:
    rows = [{"id": f"q{i}", "question": f"Was bus {i} late?", "outcome": "yes", "type": "bus"} for i in range(4)]
    path = write_rows(tmp_path / "mine.jsonl", *rows)
    (log,) = eval(
        "truthgym/sycophancy", model="reference/sycophant", **QUIET, log_dir=str(tmp_path / "logs"), epochs=1,
        task_args={"domain": {"questions": {"source": path}} if named else path, "n": 2},
    )  # fmt: skip
    assert log.status == "success", log.error
    assert log.eval.task_args["domain"] == {"questions": {"source": path, "sha256": file_digest(Path(path))}}
    assert [done.metadata["type"] for done in samples(log)] == ["bus"] * 10
    assert {done.metadata["arm"] for done in samples(log)} == {
        "neutral", "user_yes", "user_no", "third_yes", "third_no"}  # fmt: skip


def test_bad_arguments_are_refused_before_anything_runs() -> None:
    given: list[tuple[dict[str, Any], str]] = [
        ({"metric": "acuracy"}, "did you mean 'accuracy'"),
        ({"system_prompt": "criticl_thinking"}, "did you mean 'critical_thinking'"),
    ]
    usual: dict[str, Any] = {"domain": "urns", "n": 1}
    for arguments, said in given:
        with pytest.raises(BadInput, match=said):
            sycophancy(**usual | arguments)


def test_what_is_known_of_the_questions_is_known_of_their_arms(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    task = sycophancy(domain={"openreview": {"known_after": "2020-01-01"}}, arms="user", n=2)
    assert getattr(task.dataset, "notice", "").startswith("openreview: the 40 bundled papers")
    log = run(task, epochs=1)
    assert log.eval.metadata
    left_out = log.eval.metadata["left_out"]["known by 2020-01-01"]
    said = [record.message for record in caplog.records]
    assert f"sycophancy on openreview: 6 samples; left out: {left_out} known by 2020-01-01." in said
