"""World in the loop: answers of the run, and answers in finished logs."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from inspect_ai import eval_retry
from inspect_ai.log import EvalLog, read_eval_log, write_eval_log
from inspect_ai.model import get_model

from tests.fixtures import Run, evaluate, metrics, number, samples, score_of
from tests.tasks.killed import count_calls, kill_at_call
from truthgym.datasets.errors import BadInput
from truthgym.datasets.evidence import evidence
from truthgym.tasks.world_in_the_loop import world_in_the_loop

N = 4
FORECASTER = "reference/forecaster"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models' answers to the same urns."""
    folder = tmp_path_factory.mktemp("answers")
    task, models = world_in_the_loop(domain="urns", n=N, figures="all"), ["reference/bayesian", "reference/contrarian"]
    evaluate(task, models, folder, model_roles={"forecaster": get_model(FORECASTER)}, epochs=2)
    return folder


@pytest.fixture(scope="module")
def scored(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> EvalLog:
    task = world_in_the_loop(answers=str(folder), figures="all", per="observation")
    return evaluate(task, FORECASTER, tmp_path_factory.mktemp("scored"))[0]


def test_answers_in_logs_are_worth_what_they_were_worth_in_their_run(folder: Path, scored: EvalLog) -> None:
    assert len(samples(scored)) == 2 * N * 2
    logs = [read_eval_log(str(path)) for path in folder.glob("*.eval")]
    own = {
        (log.eval.model, sample.id, sample.epoch): number(sample, "world_uplift", "uplift")
        for log in logs
        for sample in samples(log)
    }
    keys = ("model", "question", "epoch")
    assert own == {
        tuple(sample.metadata[key] for key in keys): number(sample, "world_uplift", "uplift")
        for sample in samples(scored)
    }


def test_the_evaluated_model_forecasts_and_models_are_told_apart(folder: Path, scored: EvalLog) -> None:
    assert set(scored.stats.model_usage) == {FORECASTER}
    found = metrics(scored)
    for path in folder.glob("*.eval"):
        log = read_eval_log(str(path))
        assert found[f"world_uplift {log.eval.model}"] == pytest.approx(
            metrics(log)["uplift_per_observation"], abs=1e-5
        )
    assert found["world_uplift reference/contrarian"] < found["world_uplift reference/bayesian"]
    assert found["n"] == found["clusters"] == N, "questions, not answers"
    assert found["epochs"] == 2
    models = [found[f"world_uplift reference/{name}"] for name in ("bayesian", "contrarian")]
    assert found["world_uplift"] == pytest.approx(sum(models) / 2, abs=1e-5)


def test_another_log_leaves_the_ids_and_placebos_of_the_first(folder: Path) -> None:
    both = {item.id for item in world_in_the_loop(answers=str(folder)).dataset}
    for path in folder.glob("*.eval"):
        assert {item.id for item in world_in_the_loop(answers=str(path)).dataset} < both


def test_copies_and_unfinished_runs_count_once(folder: Path, tmp_path: Path) -> None:
    for path in folder.glob("*.eval"):
        shutil.copy(path, tmp_path)
        shutil.copy(path, tmp_path / f"copy_{path.name}")
    unfinished = read_eval_log(str(next(tmp_path.glob("*.eval"))))
    unfinished.status, unfinished.eval.task_id, unfinished.eval.eval_id = "started", "other", "other"
    write_eval_log(unfinished, str(tmp_path / "unfinished.eval"))
    task = world_in_the_loop(answers=[str(tmp_path), str(folder)])
    assert len(task.dataset) == 2 * N * 2
    left_out = (task.metadata or {})["left_out"]
    assert left_out["that another log here repeats"] == 2 * (2 * N * 2)
    assert left_out["logs of runs that did not finish"] == 1


def test_logs_without_usable_answers_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="16 without an observation in the evidence"):
        world_in_the_loop(answers=str(folder), evidence="bundled")
    with pytest.raises(BadInput, match="There is no file or folder"):
        world_in_the_loop(answers=str(tmp_path / "none"))
    log = read_eval_log(str(next(folder.glob("*.eval"))))
    log.status = "error"
    write_eval_log(log, str(tmp_path / "failed.eval"))
    with pytest.raises(BadInput, match="None of the 1 logs in .* is of a finished run"):
        world_in_the_loop(answers=str(tmp_path))
    log.status = "success"
    for sample in samples(log):
        sample.messages, sample.store = sample.messages[:1], {}
    write_eval_log(log, str(tmp_path / "empty.eval"))
    with pytest.raises(BadInput, match="8 without an answer"):
        world_in_the_loop(answers=str(tmp_path / "empty.eval"))


def test_questions_of_a_domain_are_those_with_evidence() -> None:
    known = set(evidence())
    events, research = (world_in_the_loop(domain=domain) for domain in ("forecasting", "research"))
    ids = [{str(item.id) for item in task.dataset} for task in (events, research)]
    assert ids[0] | ids[1] == known
    assert len(world_in_the_loop(domain="research", n=3).dataset) == 3
    assert len(world_in_the_loop(domain="forecasting", evidence="outcome", n=3).dataset) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_run_is_resumed_and_nothing_is_lost(
    folder: Path, scored: EvalLog, tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = {"answers": str(folder), "figures": "all", "per": "observation", "n": 4}
    path = kill_at_call(12, "truthgym/world_in_the_loop", FORECASTER, arguments, tmp_path / "killed", environment)
    before = read_eval_log(str(path))
    done = {sample.id: sample.uuid for sample in before.samples or []}
    calls_each = 5  # with and without the answer, and with three placebos
    assert (before.status, len(done)) == ("started", 12 // calls_each)
    calls = count_calls(monkeypatch)
    (log,) = eval_retry(str(path), log_dir=str(tmp_path / "again"), display="none", log_realtime=False)
    assert log.status == "success", log.error
    found = {sample.id: sample for sample in samples(log)}
    assert len(calls) == calls_each * (len(found) - len(done)), "what was finished is not asked again"
    assert {name: found[name].uuid for name in done} == done
    whole = {sample.id: score_of(sample, "world_uplift").value for sample in samples(scored)}
    scores = {name: score_of(item, "world_uplift").value for name, item in found.items()}
    assert scores == {name: whole[name] for name in found}, "as without a kill"


def test_bundled_evidence_end_to_end(run: Run) -> None:
    log = run(world_in_the_loop(n=3, per="observation"), model_roles={"forecaster": get_model(FORECASTER)}, epochs=1)
    assert metrics(log)["share_scored"] == 1
    assert metrics(log)["n"] == 3


def test_a_local_model_forecasts_what_fits_into_its_context(folder: Path, tmp_path: Path, run: Run) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("accelerate")
    from truthgym.training.tiny import tiny

    weights = tiny(tmp_path / "model", steps=0, hidden=32, layers=1)
    arguments = {"device": "cpu", "model_path": str(weights)}
    task = world_in_the_loop(answers=str(folder), n=2, template="toolcall", budgets=5)
    log = run(task, "hf/tiny:w1", model_args=arguments)
    for sample in samples(log):
        score = score_of(sample, "world_uplift")
        arms = (score.metadata or {})["forecasts"]
        placebos = {f"placebo {kind}" for kind in ("text", "shuffled", "question")}
        assert set(arms) == {"without", "with", "with 5", *placebos, *(f"{name} 5" for name in placebos)}
        for arm in arms.values():
            assert "".join(text for text, _ in arm["tokens"]) == (score.metadata or {})["observation"]
            assert 0 > arm["total"] > sum(logprob for _, logprob in arm["tokens"]), "a share of both outcomes"
        assert dict(score.value)["uplift"] == pytest.approx(  # type: ignore[arg-type]
            arms["with"]["total"] - arms["without"]["total"], abs=1e-5
        )
    config = json.loads((weights / "config.json").read_text())
    (weights / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 64}))
    short = run(world_in_the_loop(answers=str(folder), n=1), "hf/tiny:w2", model_args=arguments)
    score = (samples(short)[0].scores or {})["world_uplift"]
    assert "tokens, and the model's context 64" in (score.metadata or {})["reason"]
    assert metrics(short)["share_scored"] == 0
