"""Evaluations in a card: figures as the logs have them, and the paired difference between a model and its base."""

from pathlib import Path

import numpy as np
import pytest
from inspect_ai import eval, score
from inspect_ai.log import EvalLog, read_eval_log, write_eval_log

from tests.fixtures import QUIET, metrics
from truthgym.datasets.errors import BadInput
from truthgym.scorers.brier import brier
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.training.evaluations import add_evaluations, format_interval, format_number
from truthgym.training.lineage import Lineage
from truthgym.training.trainers.model_card import ModelCard, read_card, write_card

ModelAndLogs = tuple[Path, Path, Path]


@pytest.fixture(scope="module")
def base_logs(tmp_path_factory: pytest.TempPathFactory) -> list[EvalLog]:
    """Two agents, asked the same questions."""
    from truthgym.tasks import urns

    place = str(tmp_path_factory.mktemp("logs"))
    task = urns(n=24, paradigms="brier")
    return eval(task, model=["reference/random", "reference/bayesian"], epochs=2, log_dir=place, **QUIET)


@pytest.fixture
def model_and_logs(base_logs: list[EvalLog], tmp_path: Path) -> ModelAndLogs:
    """A card, and a log of its base and one of its model."""
    folder = tmp_path / "trained" / "tiny-sft-1"
    (tmp_path / "tiny").mkdir()
    write_card(folder, ModelCard("sft", str(tmp_path / "tiny"), "x", f"hf/{folder}", "data"))
    logs = []
    for run, name in zip(base_logs, (tmp_path / "tiny", folder), strict=True):
        log = read_eval_log(run.location)
        log.eval.model = f"hf/{name}"
        path = tmp_path / f"{name.name}.eval"
        write_eval_log(log, str(path))
        logs.append(path)
    return folder, logs[0], logs[1]


def test_figures_are_the_logs_and_differences_are_paired(model_and_logs: ModelAndLogs) -> None:
    folder, base, trained = model_and_logs
    add_evaluations(folder, [base, trained])
    add_evaluations(folder, [base])
    statements = [statement for statement in Lineage([folder]).statements.values() if statement.event == "eval"]
    assert {statement.subjects[0].path for statement in statements} == {base.resolve(), trained.resolve()}
    assert len(statements) == 2, "each log once"
    evals = read_card(folder).evals
    for entry, path, role in zip(evals[:2], (base, trained), ("base", "trained"), strict=True):
        in_log = metrics(read_eval_log(str(path)))
        (figure,) = entry["figures"]
        assert (entry["role"], entry["split"]) == (role, "test, train, validation")
        names = {"value": "brier", "lower": "brier_lower", "upper": "brier_upper", "n": "n", "scored": "share_scored"}
        assert {key: figure[key] for key in names} == {key: in_log[name] for key, name in names.items()}
    means: list[dict[str, float]] = []
    for path in (base, trained):
        by_question: dict[str, list[float]] = {}
        for sample in read_eval_log(str(path)).samples or []:
            if sample.metadata["split"] == "test" and sample.scores:
                by_question.setdefault(str(sample.id), []).append(sample.scores["brier"].as_dict()["brier_score"])  # type: ignore[arg-type]
        means.append({question: float(np.mean(values)) for question, values in by_question.items()})
    expected = mean_estimate([means[1][question] - means[0][question] for question in means[0]])
    (change,) = [row for row in evals[2:] if row["split"] == "test" and row["score"] == "brier/brier_score"]
    assert change["n"] == expected.n == len(means[0])
    assert change["difference"] == pytest.approx(expected.estimate)
    # Of so few questions, the interval allows for a miss that was not seen.
    assert change["upper"] - change["lower"] > expected.upper - expected.lower
    assert change["mde"] > expected.mde
    text = (folder / "README.md").read_text()
    interval = f"[{change['lower']:.4f}, {change['upper']:.4f}]"
    assert f"| {change['difference']:.4f} | {interval} | {change['mde']:.4f} | {change['n']} |" in text
    assert "Questions of the train split may have been trained on" in text


def test_the_newest_pass_of_a_scorer_counts(model_and_logs: ModelAndLogs) -> None:
    folder, base, trained = model_and_logs
    for path, grade in ((base, 0.5), (trained, 0.2)):
        log = score(read_eval_log(str(path)), brier(), model="none/none", display="log")
        assert log.results
        log.results.scores[1].metrics["brier"].value = grade
        for sample in log.samples or []:
            (sample.scores or {})["brier1"].value["brier_score"] = grade  # type: ignore[index]
        write_eval_log(log, str(path))
    add_evaluations(folder, [base, trained])
    evals = read_card(folder).evals
    assert [[(row["scorer"], row["value"]) for row in entry["figures"]] for entry in evals[:2]] == [
        [("brier", 0.5)], [("brier", 0.2)]
    ]  # fmt: skip
    rows = {row["score"]: row["difference"] for row in evals[2:] if row["split"] == "test"}
    assert rows["brier/brier_score"] == pytest.approx(-0.3)
    assert not any("brier1" in name for name in rows)


def test_logs_are_added_one_by_one_and_counted_once(model_and_logs: ModelAndLogs) -> None:
    folder, base, trained = model_and_logs
    add_evaluations(folder, [base])
    assert "trained minus base" not in (folder / "README.md").read_text()
    add_evaluations(folder, [trained])
    add_evaluations(folder, [trained, base])
    evals = read_card(folder).evals
    assert sum("figures" in entry for entry in evals) == 2
    assert {entry["split"] for entry in evals[2:]} == {"test", "train", "validation"}
    base.unlink()
    add_evaluations(folder, [trained])
    kept = read_card(folder).evals
    assert [entry["log"] for entry in kept if "figures" in entry] == [str(base), str(trained)]


def test_logs_of_another_model_or_of_other_arguments(model_and_logs: ModelAndLogs, tmp_path: Path) -> None:
    folder, base, trained = model_and_logs
    log = read_eval_log(str(base))
    log.eval.model, model = "openai/gpt-5-mini", log.eval.model
    write_eval_log(log, str(tmp_path / "other.eval"))
    with pytest.raises(BadInput, match="is of the model openai/gpt-5-mini, which is neither"):
        add_evaluations(folder, [tmp_path / "other.eval"])
    with pytest.raises(BadInput, match="There is no"):
        add_evaluations(folder, [tmp_path / "missing"])
    # A task with another seed has other questions under the same ids.
    log.eval.model, log.eval.task_args = model, log.eval.task_args | {"seed": 99}
    write_eval_log(log, str(base))
    add_evaluations(folder, [base, trained])
    assert all("figures" in entry for entry in read_card(folder).evals)


def test_examples_are_what_few_shot_adds_to_its_base(base_logs: list[EvalLog], tmp_path: Path) -> None:
    folder = tmp_path / "trained" / "random-few_shot-1"
    write_card(folder, ModelCard("few_shot", "reference/random", "reference/random", "", "data"))
    log = read_eval_log(base_logs[1].location)
    log.eval.model = "reference/random"
    log.eval.solver = "truthgym/few_shot"
    log.eval.solver_args = {"source": str(folder / "data" / "train.jsonl")}
    write_eval_log(log, str(tmp_path / "shown.eval"))
    add_evaluations(folder, [base_logs[0].location, tmp_path / "shown.eval"])
    evals = read_card(folder).evals
    assert {entry["role"] for entry in evals if "role" in entry} == {"base", "trained"}
    assert any(row.get("difference") for row in evals)
    log.eval.solver_args = {"source": "elsewhere.jsonl"}
    write_eval_log(log, str(tmp_path / "other.eval"))
    with pytest.raises(BadInput, match="not with those of"):
        add_evaluations(folder, [tmp_path / "other.eval"])


def test_a_card_shows_on_which_side_of_zero_an_interval_ends() -> None:
    assert format_interval(-0.00002, 0.1) == "[-2e-05, 0.1000]"
    assert format_number(-0.00002) == "0.0000"
    assert format_interval(None, 0.1) == format_number(None) == ""


def test_a_difference_without_an_interval_says_why(model_and_logs: ModelAndLogs) -> None:
    folder, base, trained = model_and_logs
    log = read_eval_log(str(trained))
    for sample in (log.samples or [])[::3]:
        unread = (sample.scores or {})["brier"]
        unread.value = dict.fromkeys(unread.value if isinstance(unread.value, dict) else {})
        unread.metadata = {**(unread.metadata or {}), "reason": "no number"}
    write_eval_log(log, str(trained))
    add_evaluations(folder, [base, trained])
    text = (folder / "README.md").read_text(encoding="utf-8")
    (line,) = (line for line in text.splitlines() if line.startswith("No interval for brier/brier_score on train of"))
    assert "brier/accuracy on train of truthgym/urns" in line
    assert "100 % and" in line
