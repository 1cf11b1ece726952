"""What all domain tasks share: arguments, paradigms, the system prompt."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task, eval, eval_retry, eval_set
from inspect_ai.model import ChatMessage, get_model
from inspect_ai.util import registry_create

from tests.fixtures import QUIET, Fails, Run, listens, samples, says
from truthgym import tasks
from truthgym.datasets.domains import bundled
from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import registry_info
from truthgym.datasets.urns import UrnQuestion
from truthgym.scorers.world_uplift import world_uplift
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.tasks.agents import fact_chains, gaia_mini
from truthgym.tasks.domain_task import SCORER_BY_NAME, viewer
from truthgym.tasks.domains import cmv_freeform, forecasting
from truthgym.tasks.world_in_the_loop import world_in_the_loop
from truthgym.tasks.worlds import disclosure, testimony, urns


def test_the_system_prompt_survives_another_solver(run: Run) -> None:
    log = run(urns(n=1, system_prompt=["Be calm", " and clear."]), solver=None)
    other = run(urns(n=1, system_prompt=["Be calm", " and clear."]), solver=chain_of_thought(steps=2))
    for finished in (log, other):
        assert samples(finished)[0].messages[0].text == "Be calm, and clear."
    assert len(samples(other)[0].messages) == 1 + 2 * 3


def test_arguments_reach_the_dataset() -> None:
    assert len(list(forecasting(n=7).dataset)) == 7
    recent = list(forecasting(known_after=date(2025, 6, 1), n=200).dataset)
    assert 0 < len(recent) < len(bundled("forecasting"))
    as_on_the_command_line = ["0.3", "0.3"]
    made = urns(n=1, draws=7, base_rate=as_on_the_command_line)
    question = next(iter(made.dataset)).metadata_as(UrnQuestion)
    assert len(question.evidence) == 7
    assert question.base_rate == 0.3


@pytest.mark.parametrize("task", [forecasting, urns])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"paradigms": "breir"}, "Unknown scorer 'breir'; did you mean 'brier'"),
        ({"paradigms": []}, "paradigms is empty"),
        ({"paradigms": {"martingale": "step"}}, "paradigms: martingale: 'step' cannot be used"),
        ({"paradigms": {"martingale": {"elicit": "judge"}}}, "Unknown argument of martingale 'elicit'; did you mean"),
        ({"paradigms": {"martingale": {"elicitor": "juge"}}}, "elicitor='juge' cannot be used; did you mean 'judge'?"),
        ({"split": "dev"}, "Unknown split 'dev'"),
        ({"splitt": "test"}, "'splitt'; did you mean 'split'? known: "),
    ],
)
def test_tasks_refuse_before_any_model_call(task: Callable[..., Task], arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        task(**arguments)
    assert said in str(refused.value)


def test_every_task_refuses_an_argument_that_it_does_not_name() -> None:
    for name in (name for name in tasks.__all__):
        function = getattr(tasks, name)
        if registry_info(function).type == "task":
            with pytest.raises(BadInput, match="Unknown argument of .*'figuers'"):
                registry_create("task", f"truthgym/{name}", figuers="all")


def test_tasks_of_one_eval_share_arguments_and_each_log_has_its_own(run: Run, tmp_path: Path) -> None:
    arguments = {"n": 1, "draws": 2, "witnesses": ["2", "3"]}
    names = ["truthgym/urns", "truthgym/testimony"]
    settings = {"model": "reference/bayesian", "epochs": 1, **QUIET, "log_dir": str(tmp_path)}
    logs = eval(names, task_args=arguments, **settings)
    assert [log.eval.task_args_passed for log in logs] == [{"n": 1, "draws": 2}, {"n": 1, "witnesses": ["2", "3"]}]
    assert eval_retry(logs[1], **{key: settings[key] for key in QUIET}, log_dir=str(tmp_path))[0].status == "success"
    with pytest.raises(BadInput, match="did you mean 'witnesses'"):
        eval(names[::-1], task_args={"witneses": 3}, **settings)


def test_numbers_with_commas_reach_whatever_takes_several(tmp_path: Path) -> None:
    assert len(world_in_the_loop(domain="urns", n=2, budgets=["50", "200"]).dataset) == 2  # type: ignore[list-item]
    world_uplift(budgets="50,200")
    for made, other in (
        (testimony(n=3, witnesses=["2", "4"], reports=[3, 5]), testimony(n=3, witnesses=[2, 4], reports=[3, 5])),
        (fact_chains(n=2, hops=["2", "4"]), fact_chains(n=2, hops=[2, 4])),
        (gaia_mini(n=2, level=["1", "3"]), gaia_mini(n=2, level=[1, 3])),
    ):
        assert [item.input for item in made.dataset] == [item.input for item in other.dataset]
    with pytest.raises(BadInput, match="witnesses=.*two that rise, such as 2,8"):
        testimony(n=1, witnesses=["2", "many"])


def test_a_scorer_that_can_score_no_question_is_left_out_or_refused_before_the_first_call(tmp_path: Path) -> None:
    left_out = cmv_freeform(n=1, paradigms="brier,martingale").scorer
    assert [registry_info(each).name for each in left_out or ()] == ["truthgym/martingale"]
    names = [f"truthgym/{name}" for name in ("urns", "intellectual", "cmv_freeform", "wildchat")]
    arguments = {"n": 1, "paradigms": "brier,martingale"}
    with pytest.raises(BadInput, match="^intellectual, wildchat: none of .*=qualitative"):
        eval(names, task_args=arguments, model="reference/bayesian", log_dir=str(tmp_path / "logs"), **QUIET)
    assert not (tmp_path / "logs").exists(), "no task ran"
    with pytest.raises(BadInput, match="^cmv_freeform: .*brier, since no question has an outcome"):
        cmv_freeform(n=1, paradigms="brier")


def test_a_paradigm_asked_for_twice_is_scored_once() -> None:
    scorer = urns(n=1, paradigms=["brier", "brier"]).scorer
    assert scorer
    assert len(scorer) == 1
    assert {"brier", "martingale", "length", "graded"} <= set(SCORER_BY_NAME)


def test_viewer_shows_the_columns_of_the_paradigms() -> None:
    shown = viewer(["brier", "sycophantic_reasoning"]).task_samples_view
    assert not isinstance(shown, list | str)
    assert shown
    columns = [column.id for column in shown.columns or []]
    assert "answer" in columns, "it names the arm"
    assert shown.score_labels == {"belief": "Belief", "brier_score": "Brier", "accuracy": "Accuracy"}
    assert set(shown.score_color_scales or {}) == set(shown.score_labels)
    assert "answer" not in [column.id for column in viewer(["brier"]).task_samples_view.columns]  # type: ignore[union-attr]


def test_arguments_from_the_command_line_stand_in_the_log(run: Run) -> None:
    given = {"paradigms": {"martingale": {"elicitor": "both"}}, "n": 2}
    judge = {"judge": get_model("reference/judge", noise=0.1)}
    log = eval("truthgym/urns", task_args=given, model="reference/bayesian", model_roles=judge, **QUIET)[0]
    assert log.status == "success"
    assert log.eval.task_args["paradigms"] == given["paradigms"]
    assert log.eval.scorers
    assert log.eval.scorers[0].options == {"elicitor": "both"}


def test_an_unbound_judge_ends_the_run_before_any_call() -> None:
    heard: list[object] = []

    def reply(messages: list[ChatMessage]) -> str:
        heard.append(messages)
        return "50%"

    for solver in (None, chain_of_thought(steps=1)):
        task = urns(n=2, paradigms={"martingale": {"joint": True}})
        log = eval(task, model=says(reply), solver=solver, **QUIET)[0]
        assert log.status == "error"
        assert log.error
        assert "judge" in log.error.message
    assert not heard


def test_a_task_made_after_an_eval_set_gets_the_roles_of_its_own_run(run: Run, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--model-role grader=MODEL"):
        eval_set(
            "truthgym/urns", str(tmp_path / "none"), task_args={"n": 1, "paradigms": {"graded": {"grader": "model"}}},
            model="reference/bayesian", display="log",
        )  # fmt: skip
    eval_set(urns(n=1, paradigms="brier"), str(tmp_path / "set"), model="reference/bayesian", display="log")
    graded = urns(n=1, paradigms={"graded": {"grader": "model"}})
    log = run(graded, model_roles={"grader": says('{"reasons": "", "grade": 50}')})
    assert len(log.samples or []) == 3


def test_a_large_run_says_what_it_costs(caplog: pytest.LogCaptureFixture) -> None:
    calls = SCORER_BY_NAME["world_uplift"].calls
    assert (calls(), calls(budgets="50,200")) == ((5, 0), (5 + 2 * 4, 0))
    assert calls(template="rephrase", evidence="outcome") == (5 + 2, 0), "both outcomes are written anew"
    assert calls(template="rephrase", evidence="bundled") == (5 + 1, 0)
    with caplog.at_level("WARNING"):
        urns(n=200, paradigms={"qualitative": {"protocol": "thorough"}, "martingale": {}})
    (warning,) = [r.message for r in caplog.records if "model calls" in r.message]
    assert "qualitative makes about 19,276 model calls (77.1 M tokens) for 200 questions x 3 epochs" in warning


def test_a_run_ends_with_one_paragraph_for_each_scorer(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {
        "model": "reference/naive",
        "epochs": 1,
        "log_realtime": False,
        "log_dir": str(tmp_path),
    }
    eval(disclosure(n=40), display="plain", **settings)
    lines = " ".join(capfd.readouterr().out.split())
    found, judged = lines.split("disclosure, reference/naive: ")[1:]
    assert found.startswith("It takes what somebody chose to show for a random sample (weight 1.00 [1.00, 1.00]; of ")
    assert "of the Brier score (brier 0." in found
    assert "n = 40). Next: " in found
    assert judged.startswith("Martingale verdict: cannot tell, and there is no score, because one epoch ")
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    eval(urns(n=2), display="log", **settings)
    assert not [record for record in caplog.records if record.levelname == "WARNING"], "training rolls out so"
    assert "urns, " not in capfd.readouterr().out


def test_a_day_from_the_command_line_can_be_retried(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> float:
        raise RuntimeError("the network went away")

    day = date(2025, 6, 1)  # what YAML makes of -T known_after=2025-06-01
    with monkeypatch.context() as patched:
        patched.setattr("truthgym.models.agents.believer.believe", broken)
        failed = eval("truthgym/forecasting", task_args={"known_after": day, "n": 2}, model="reference/bayesian",
                      **QUIET, log_dir=str(tmp_path))[0]  # fmt: skip
    assert failed.status == "error"
    assert failed.eval.task_args["known_after"] == "2025-06-01"
    again = eval_retry(failed, **QUIET, log_dir=str(tmp_path))[0]
    assert again.status == "success"
    assert again.eval.task_args["known_after"] == "2025-06-01"
    assert again.eval.dataset.sample_ids == failed.eval.dataset.sample_ids


@pytest.mark.parametrize(
    ("paradigms", "forecaster", "reason"),
    [
        ("qualitative", False, "--model-role judge=MODEL"),
        ("world_uplift", True, "cannot give the log-probability of a given reply"),
    ],
)
def test_a_role_that_cannot_be_used_is_one_error_before_the_task(paradigms: str, forecaster: bool, reason: str) -> None:
    arguments: dict[str, Any] = {"model_roles": {"forecaster": says("Yes")}} if forecaster else {}
    with pytest.raises(BadInput, match=reason):
        eval("truthgym/urns", task_args={"paradigms": paradigms, "n": 1}, model=says("50%"), **arguments, **QUIET)


@pytest.mark.parametrize(
    ("roles", "reason"),
    [
        ({}, "needs the role forecaster"),
        ({"forecaster": "mockllm/other"}, "cannot give the log-probability of a given reply"),
    ],
)
def test_a_task_made_outside_of_an_eval_refuses_before_its_first_call(
    fails: Fails, roles: dict[str, str], reason: str
) -> None:
    model, heard = listens()
    assert reason in fails(urns(n=1, paradigms="world_uplift"), model, model_roles=roles)
    assert not heard
