"""Every domain's task, from one end to the other: offline, with each reasoning mode, on agents whose truth is known."""

import json
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspect_ai import Task, eval, eval_retry
from inspect_ai.log import EvalLog
from inspect_ai.model import get_model
from inspect_ai.solver import Solver

from tests.fixtures import QUIET, Run
from truthgym import tasks
from truthgym.datasets.domains import DOMAINS, GENERATED
from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.domain import bundled_file
from truthgym.datasets.question import Question
from truthgym.models.agents.quality_markers import mean_quality
from truthgym.solvers.bootstrap_interview import bootstrap_interview
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.dialogue import dialogue
from truthgym.solvers.direct import direct
from truthgym.solvers.few_shot import few_shot
from truthgym.solvers.length_control import LengthControl, length_control
from truthgym.solvers.run_agent import run_agent
from truthgym.solvers.self_debate import self_debate

TASKS: dict[str, Callable[..., Task]] = {name: getattr(tasks, name) for name in DOMAINS}
SCORERS = {name: ["brier", "martingale"] for name in TASKS} | {
    "cmv_freeform": ["martingale"],
    "conceptual": ["martingale"],
    "intellectual": ["qualitative"],
    "wildchat": ["qualitative"],
}
MODES: dict[str, Callable[[str], Solver]] = {
    "direct": lambda _: direct(),
    "chain_of_thought": lambda _: chain_of_thought(steps=1),
    "self_debate": lambda _: self_debate(turns=1),
    "dialogue": lambda _: dialogue(turns=1),
    "bootstrap_interview": lambda _: bootstrap_interview(1, "iid"),
    "length_control": lambda _: length_control(60),
    "few_shot": lambda log: few_shot(log, count=1),
    "run_agent": lambda _: run_agent(),
}
ROLES = {"judge": "reference/judge", "interlocutor": "reference/confirming"}
every_domain = pytest.mark.parametrize("domain", TASKS)


def metrics(log: EvalLog, scorer: str) -> dict[str, float]:
    assert log.results
    return {name: m.value for s in log.results.scores if s.name == scorer for name, m in s.metrics.items()}


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A scored log, for few_shot."""
    place = str(tmp_path_factory.mktemp("examples"))
    made = eval(
        TASKS["urns"](n=10, paradigms="brier"),
        model="reference/bayesian",
        epochs=1,
        log_dir=place,
        **QUIET,
    )
    return made[0].location


@every_domain
def test_a_domain_is_scored_as_it_says(run: Run, domain: str) -> None:
    model = get_model("reference/bayesian", noise=0.03, care=0.5)
    n = 3 if "qualitative" in SCORERS[domain] else 18  # a judge is asked five times a sample
    log = run(TASKS[domain](n=n), model, model_roles={"judge": "reference/judge"})
    assert log.results
    assert [score.name for score in log.results.scores] == SCORERS[domain]
    assert log.samples
    assert len(log.samples) == n * 3
    for scorer in SCORERS[domain]:
        assert metrics(log, scorer)["share_scored"] == 1
        headline = next(iter(metrics(log, scorer)))
        assert not np.isnan(metrics(log, scorer)[headline]), scorer
        assert metrics(log, scorer)["mde"] > 0
    if "brier" in SCORERS[domain]:
        assert metrics(log, "brier")["brier"] < 0.3


@pytest.mark.parametrize("mode", MODES)
@every_domain
def test_every_mode_goes_with_every_domain(run: Run, examples: str, domain: str, mode: str) -> None:
    paradigm = "martingale" if "martingale" in SCORERS[domain] else "length"
    log = run(
        TASKS[domain](n=1, paradigms=paradigm), "reference/bayesian", epochs=1, model_roles=ROLES,
        solver=MODES[mode](examples),
    )  # fmt: skip
    for sample in log.samples or []:
        assert sample.error is None
        assert sample.output.completion, "an answer"
        if paradigm == "martingale":
            assert sample.scores
            value = sample.scores["martingale"].value
            assert isinstance(value, dict)
            assert not np.isnan(float(value["posterior"] or 0)), sample.scores["martingale"].metadata
        if mode == "length_control":
            assert sample.store_as(LengthControl).achieved == pytest.approx(60, rel=0.1)


def test_planted_care_is_found_without_truth(run: Run) -> None:
    found = {}
    for domain, care in (("intellectual", 0.1), ("intellectual", 0.5), ("wildchat", 0.5)):
        # In one order of the examples: this judge rates alike in all 24.
        task = TASKS[domain](n=15, paradigms={"qualitative": {"red_team": "none", "probes": "none", "orders": 1}})
        model = get_model("reference/bayesian", care=care)
        log = run(task, model, epochs=2, model_roles={"judge": "reference/judge"})
        found[domain, care] = quality = metrics(log, "qualitative")
        assert quality["quality_lower"] <= mean_quality(care) <= quality["quality_upper"]
    assert found["intellectual", 0.1]["quality_upper"] < found["intellectual", 0.5]["quality_lower"]


def test_agents_believe_open_questions_alike(run: Run) -> None:
    stubborn = get_model("reference/entrenched", strength=1.0, noise=0.05)
    log = run(TASKS["conceptual"](n=24, paradigms="martingale"), stubborn)
    fair = run(
        TASKS["conceptual"](n=44, paradigms={"martingale": {"figures": "all"}}),
        get_model("reference/bayesian", noise=0.05),
    )
    assert metrics(log, "martingale")["martingale_score_lower"] > 0.1
    found = metrics(fair, "martingale")
    assert found["martingale_score_lower"] < 0 < found["martingale_score_upper"]
    assert np.isnan(found["brier_gain"]), "no truth is known"


@every_domain
def test_the_command_line_finds_it(domain: str, tmp_path: Path) -> None:
    (log,) = eval(f"truthgym/{domain}", task_args={"n": 1}, model="reference/bayesian", epochs=1, **QUIET,
                  log_dir=str(tmp_path), model_roles={"judge": "reference/judge"})  # fmt: skip
    assert log.status == "success", log.error
    assert log.eval.task == f"truthgym/{domain}"


def test_a_log_knows_the_file_that_was_asked(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_bytes(b"".join(bundled_file("conceptual").read_bytes().splitlines(keepends=True)[:3]))
    digest = sha256(path.read_bytes()).hexdigest()
    given = {"source": str(path), "paradigms": "martingale"}

    def broken(*_: Any) -> float:
        raise RuntimeError("the network went away")

    with monkeypatch.context() as patched:
        patched.setattr("truthgym.models.agents.believer.believe", broken)
        (failed,) = eval("truthgym/conceptual", task_args=given, model="reference/bayesian", **QUIET,
                         log_dir=str(tmp_path / "logs"))  # fmt: skip
    assert failed.status == "error"
    assert failed.eval.task_args["sha256"] == digest
    (again,) = eval_retry(failed, **QUIET, log_dir=str(tmp_path / "logs"))
    assert (again.status, again.eval.task_args["sha256"]) == ("success", digest)
    path.write_text(path.read_text() + "\n")
    with pytest.raises(BadInput, match=f"sha256={digest} does not match"):
        eval_retry(failed, **QUIET, log_dir=str(tmp_path / "logs"))


def test_what_was_left_out_stands_in_the_log(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    log = run(TASKS["openreview"](known_after="2020-01-01", n=5, paradigms="brier"), epochs=1)
    assert log.eval.metadata
    left_out = log.eval.metadata["left_out"]
    assert left_out["known by 2020-01-01"] > 0
    assert left_out["not drawn"] + left_out["known by 2020-01-01"] + 5 == len(DOMAINS["openreview"]())
    said = [record.message for record in caplog.records]
    assert f"openreview: 5 samples; left out: {left_out['known by 2020-01-01']} known by 2020-01-01." in said


@every_domain
def test_a_bundled_set_says_what_it_is_not_for(domain: str) -> None:
    dataset = DOMAINS[domain]()
    notice = getattr(dataset, "notice", None)
    if domain in GENERATED:
        assert notice is None
        return
    parts = getattr(DOMAINS[domain], "parts", None)
    for file, said in {part.file: part.notice for part in parts.values()}.items() if parts else [(domain, notice)]:
        assert said
        assert said.startswith(f"{domain}: ")
        card = bundled_file(file).with_suffix(".md").read_text(encoding="utf-8")
        bold = re.findall(r"^\*\*(.+?)\*\*", card, re.M | re.S)
        assert bold, "the card says it too, where nobody can overlook it"
        assert set(re.findall(r"[0-9.]*[0-9]", said)) <= set(re.findall(r"[0-9.]*[0-9]", bold[0]))


@every_domain
def test_splits_go_by_the_event_alone(domain: str) -> None:
    split: dict[str, str] = {}
    few = {"n": 40} if domain in GENERATED else {}
    for sample in DOMAINS[domain](**few):
        known = sample.metadata_as(Question)
        assert split.setdefault(known.event, known.split) == known.split
    for name in ("train", "validation", "test"):
        assert {s.metadata_as(Question).split for s in DOMAINS[domain](split=name, **few)} == {name}


def test_a_row_has_the_same_split_in_every_file(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in bundled_file("conceptual").read_text(encoding="utf-8").splitlines()]
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[::-2]))
    splits = {str(s.id): s.metadata_as(Question).split for s in DOMAINS["conceptual"]()}
    mine = {str(s.id): s.metadata_as(Question).split for s in DOMAINS["conceptual"](source=str(path))}
    assert mine == {name: splits[name] for name in mine}
