import inspect

from examples import small_model
from tests.fixtures import Run, says
from truthgym import tasks
from truthgym.tasks.domain_task import SCORER_BY_NAME
from truthgym.tasks.worlds import urns


def test_every_domain_mode_and_paradigm_has_a_set_up() -> None:
    rooms = {name: inspect.unwrap(getattr(tasks, name)).__module__.split(".")[1] for name in tasks.__all__}
    timelines = {"progress_coevolve", "progress_follow", "progress_predict"}
    of_logs = {"audio", "mutual_prediction", "predict_answers", "preferences", "label_pair"}
    found = (
        {name for name, room in rooms.items() if room == "tasks"} - {"questions", "prepare_tools"} - timelines - of_logs
    )
    assert set(small_model.DOMAINS) == found
    modes = {"bootstrap_interview" if "interview" in name else name for name in small_model.MODES} | {"direct"}
    of_tools = {"code_repairer", "plan_and_execute", "planner_team", "scratchpad", "workers"}
    assert modes == {name for name, room in rooms.items() if room == "solvers"} - {"prepare", "best_of_n"} - of_tools
    asked = {name for arguments in small_model.SCORER_SETTINGS.values() for name in arguments}
    assert asked | {
        "sycophantic_reasoning",
        "value_tracking",
        "value_influence",
        "judge_score",
        "mutual_predictability",
        "preference",
        "reward_model",
        "kl_divergence",
        "agent_answer",
        "fact_chain",
    } == set(SCORER_BY_NAME)


def test_the_report_names_the_share_scored_and_the_commonest_reason(run: Run) -> None:
    log = run(urns(n=2, paradigms="brier"), says("Hm."), epochs=2)
    assert small_model.report([log]).splitlines()[-1] == (
        "| truthgym/urns | brier | 0% | No single belief could be read in the answer (stop reason stop), which begins |"
    )
