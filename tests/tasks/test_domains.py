"""Every domain's task, and a user's own file, from one end to the other: offline, on agents whose truth is known."""

import json
import re
from collections.abc import Callable
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from inspect_ai import Task, eval, eval_retry, score
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import get_model
from inspect_ai.solver import Solver, chain, generate, prompt_template

from tests.fixtures import QUIET, Fails, Run, details, evaluate, reason, samples, values, write_rows
from truthgym import tasks
from truthgym.datasets.domains import BUNDLED, DOMAINS, GENERATED
from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.domain import bundled_file
from truthgym.datasets.question import Question, question_metadata
from truthgym.scorers.brier import brier
from truthgym.scorers.martingale import martingale
from truthgym.solvers.bootstrap_interview import bootstrap_interview
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.dialogue import dialogue
from truthgym.solvers.direct import direct
from truthgym.solvers.few_shot import few_shot
from truthgym.solvers.length_control import LengthControl, length_control
from truthgym.solvers.prepare import prepare
from truthgym.solvers.run_agent import run_agent
from truthgym.solvers.self_debate import self_debate
from truthgym.tasks.domain_task import EPOCHS
from truthgym.tasks.domains import forecasting, questions
from truthgym.tasks.sycophancy import sycophancy

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
ONE_OF_EACH_KIND = ("research", "intellectual", "cmv_binary", "cruxes")
"""Options, a prompt without a statement, an exchange, and a generated world."""
ROLES = {"judge": "reference/judge", "interlocutor": "reference/confirming"}
every_domain = pytest.mark.parametrize("domain", TASKS)


def metrics(log: EvalLog, scorer: str) -> dict[str, float]:
    assert log.results
    return {name: m.value for s in log.results.scores if s.name == scorer for name, m in s.metrics.items()}


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A scored log, for few_shot."""
    task = TASKS["urns"](n=10, paradigms="brier")
    return evaluate(task, "reference/bayesian", tmp_path_factory.mktemp("examples"), epochs=1)[0].location


@pytest.mark.parametrize("domain", [*BUNDLED, "urns"])
def test_a_domain_is_scored_as_it_says(run: Run, domain: str) -> None:
    model = get_model("reference/bayesian", noise=0.03, care=0.5)
    n = 3 if "qualitative" in SCORERS[domain] else 18  # a judge is asked five times a sample
    roles = {"judge": "reference/judge"}
    log = run(f"truthgym/{domain}", model, task_args={"n": n}, model_roles=roles, epochs=2)
    assert log.results
    assert [score.name for score in log.results.scores] == SCORERS[domain]
    assert len(samples(log)) == n * 2
    for scorer in SCORERS[domain]:
        figures = metrics(log, scorer)
        assert figures["share_scored"] == 1
        assert not np.isnan(next(iter(figures.values()))), scorer
        assert figures["mde"] > 0
    if "brier" in SCORERS[domain]:
        assert metrics(log, "brier")["brier"] < 0.3


@pytest.mark.parametrize(
    ("mode", "domain"),
    [pair for number, pair in enumerate(product(MODES, ONE_OF_EACH_KIND)) if (number + number // 4) % 2],
)
def test_every_mode_goes_with_every_kind_of_domain(run: Run, examples: str, domain: str, mode: str) -> None:
    paradigm = "martingale" if "martingale" in SCORERS[domain] else "length"
    log = run(
        TASKS[domain](n=1, paradigms=paradigm), "reference/bayesian", epochs=1, model_roles=ROLES,
        solver=MODES[mode](examples),
    )  # fmt: skip
    for sample in samples(log):
        assert sample.error is None
        assert sample.output.completion, "an answer"
        if paradigm == "martingale":
            assert not np.isnan(values(sample, "martingale")["posterior"]), details(sample, "martingale")
        if mode == "length_control":
            assert sample.store_as(LengthControl).achieved == pytest.approx(60, rel=0.1)


def test_agents_believe_open_questions_alike(run: Run) -> None:
    stubborn = get_model("reference/entrenched", strength=1.0, noise=0.05)
    log = run(TASKS["conceptual"](n=16, paradigms="martingale"), stubborn)
    fair = run(
        TASKS["conceptual"](n=44, paradigms={"martingale": {"figures": "all"}}),
        get_model("reference/bayesian", noise=0.05),
    )
    assert metrics(log, "martingale")["martingale_score_lower"] > 0.1
    found = metrics(fair, "martingale")
    assert found["martingale_score_lower"] < 0 < found["martingale_score_upper"]
    assert np.isnan(found["brier_gain"]), "no truth is known"


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


def test_random_is_worse_than_the_coin_and_skill_is_rewarded(run: Run) -> None:
    briers = [
        metrics(run(forecasting(n=12, paradigms="brier"), get_model("reference/bayesian", skill=s), epochs=1), "brier")[
            "brier"
        ]
        for s in (0, 3)
    ]
    assert briers[0] == pytest.approx(0.25)
    assert briers[0] > briers[1]
    # one of the nineteen seeds in twenty whose interval holds the truth
    task = forecasting(n=100, paradigms={"brier": {"figures": "all"}})
    found = metrics(run(task, get_model("reference/random", seed=1), epochs=1), "brier")
    assert found["brier_lower"] < 1 / 3 < found["brier_upper"]
    assert found["brier_lower"] > 0.25
    assert found["skill_base_rate_upper"] < 0


def test_the_log_holds_what_people_look_at(run: Run) -> None:
    log = run(forecasting(n=3, system_prompt="Think well."))
    assert log.eval.config.epochs == EPOCHS == 3
    assert log.results
    assert [next(iter(score.metrics)) for score in log.results.scores] == ["brier", "martingale_score"]
    assert log.eval.viewer
    view = log.eval.viewer.task_samples_view
    assert view
    assert not isinstance(view, list)
    first, columns = samples(log)[0], [column.id for column in view.columns or [] if column.id.startswith("score")]
    assert (columns[0], columns[-1]) == ("score__brier__belief", "score__martingale__change")
    assert set(columns) <= {f"score__{name}__{key}" for name in first.scores or () for key in values(first, name)}
    assert first.messages[0].text == "Think well."


ROWS = [{"id": f"bus-{k}", "question": f"Is bus {k} late?", "target": "yes" if k % 3 else "no"} for k in range(12)]


PLAIN = [prompt_template(r"Weigh it: {prompt} End with \finalBeliefProb{{p}}."), generate()]


@pytest.mark.parametrize("solver", [None, chain_of_thought(steps=1), chain(PLAIN)])
def test_agents_play_a_file_with_outcomes(run: Run, tmp_path: Path, solver: Solver | None) -> None:
    task = questions(write_rows(tmp_path / "mine.jsonl", *ROWS))
    log = run(task, get_model("reference/bayesian", skill=3), epochs=1, solver=solver)
    assert metrics(log, "brier")["brier"] < 0.2
    assert metrics(log, "brier")["share_scored"] == metrics(log, "martingale")["share_scored"] == 1
    again = score(log, martingale(), action="overwrite", display="log")
    assert metrics(again, "martingale")["share_scored"] == 1


def test_agents_take_all_arms_for_one_question(run: Run, tmp_path: Path) -> None:
    task = sycophancy({"forecasting": {"source": write_rows(tmp_path / "mine.jsonl", *ROWS)}}, metric="opinion")
    log = run(task, get_model("reference/sycophant"), epochs=1)
    assert metrics(log, "sycophantic_reasoning")["net_sycophancy"] > 0.05


def test_csv_and_parquet_give_the_questions_of_jsonl(tmp_path: Path) -> None:
    row = ROWS[0] | {"evidence": ["It snows, a lot."], "known_on": "2024-05-01", "crowd": 0.4}
    jsonl = questions(write_rows(tmp_path / "mine.jsonl", row, ROWS[1]))
    (tmp_path / "mine.csv").write_text(
        "id,question,target,evidence,known_on,crowd\n"
        'bus-0,Is bus 0 late?,no,"[""It snows, a lot.""]",2024-05-01,0.4\n'
        "bus-1,Is bus 1 late?,yes,,,\n"
    )
    pd.DataFrame([row, ROWS[1]]).to_parquet(tmp_path / "mine.parquet")
    for name in ("mine.csv", "mine.parquet"):
        other = questions(str(tmp_path / name))
        assert list(other.dataset) == list(jsonl.dataset)
    (tmp_path / "mine.csv").write_text("id,question,target,crowd\nbus-0,Late?,no,70\nbus-1,Late?,perhaps,no idea\n")
    with pytest.raises(BadInput) as error:
        questions(str(tmp_path / "mine.csv"))
    first, second = str(error.value).splitlines()
    assert first == "mine.csv line 2: the field `crowd`: 70.0 is not a probability; write 0.7"
    assert all(part in second for part in ("line 3", "`target`: 'perhaps'", "`crowd`: 'no idea' is not a probability"))


def own_task(**metadata: Any) -> Task:
    items = [Sample(id=row["id"], input=row["question"], target=row["target"], metadata=metadata) for row in ROWS]
    return Task(dataset=items, setup=prepare(), solver=direct(), scorer=[brier(), martingale()])


@pytest.mark.parametrize("metadata", [{}, {"source": "a survey"}, {"event": "strike", "crowd": 0.5}])
def test_plain_samples_are_questions(run: Run, metadata: dict[str, Any]) -> None:
    log = run(own_task(**metadata), get_model("reference/bayesian", skill=3), epochs=1)
    for scorer in ("brier", "martingale"):
        assert metrics(log, scorer)["share_scored"] == 1


def test_a_sample_that_is_not_a_question_is_explained(fails: Fails, run: Run) -> None:
    assert "`crowd`: 70 is not a probability" in fails(own_task(crowd=70))
    task = own_task()
    for sample in task.dataset:
        sample.target = "a bus"
    log = run(task, get_model("reference/bayesian"), epochs=1)
    for scorer in ("brier", "martingale"):
        why = reason(samples(log)[0], scorer)
        assert all(part in why for part in ("its target 'a bus' is neither yes nor no", "-S about=own_answer"))


def test_metadata_are_made_from_a_sample() -> None:
    known = question_metadata("a", "Is it so?", "yes", evidence=["It is."])
    assert Question.model_validate(known).evidence == ["It is."]
    assert (known["event"], known["form"], json.dumps(known) != "") == ("a", "binary", True)
    assert question_metadata("a", "Say it.", "some text")["form"] == "free"
    with pytest.raises(BadInput, match="sample 'a': .*`crowd`: 70"):
        question_metadata("a", "Is it so?", crowd=70)
