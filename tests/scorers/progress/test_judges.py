"""The judges end to end: what they measure on agents whose values are known, their results, and their life cycle."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import eval_retry, score
from inspect_ai.log import EvalLog
from inspect_ai.model import ChatMessage, Model, get_model

from tests.commands import call
from tests.fixtures import QUIET, Fails, Run, listens, metrics, samples
from tests.scorers.progress import counted as provider
from truthgym.datasets.errors import BadInput
from truthgym.datasets.progress import questionnaire
from truthgym.models.agents.respondent import CHOOSE
from truthgym.scorers.judge_score import judge_score
from truthgym.scorers.progress.judges import CoevolveJudge, FollowJudge, PredictJudge
from truthgym.tasks.progress import progress_coevolve, progress_follow, progress_predict

SMALL: dict[str, Any] = {"items": 4, "eras": "C013-C016", "drift": "linear", "figures": "all"}
LEARNS = "reference/values"


def agent(policy: str, **parameters: Any) -> Model:
    return get_model("reference/values", memoize=False, policy=policy, **parameters)


def result(log: EvalLog) -> dict[str, Any]:
    result: dict[str, Any] = samples(log)[0].store["progress"]
    return result


def reason(log: EvalLog) -> str:
    (score,) = (samples(log)[0].scores or {}).values()
    return str((score.metadata or {})["reason"])


def test_a_perfect_follower_follows(run: Run) -> None:
    log = run(progress_follow(n=3, **SMALL), LEARNS)
    figures = metrics(log)
    assert figures["skill"] > 0.99
    assert figures["skill_unlearned"] == pytest.approx(0, abs=1e-9), "its own values are those of the first era"
    assert figures["skill_present"] == 1
    assert figures["n"] == 3
    assert figures["skill_lower"] <= figures["skill"] <= figures["skill_upper"]
    kept = result(log)
    assert kept["eval_times"] == 3
    assert kept["query_times"] == 3 * 38, "the 38 items of the pool `learn`, in each era"
    assert [len(kept[key]) for key in ("examinee_vector", "actual_vector", "stepwise_scores")] == [3, 3, 3]
    assert kept["judge_model_at_each_timestep"] == [f"people of C0{century}" for century in range(14, 17)]
    assert kept["score"] == FollowJudge.interpret_result(kept) == kept["interpreted"]
    # in both orders: 4 eras and the examinee at the start and after each of 3, 38 items each; and what it learns
    assert kept["model_calls"] == {"proxies": 2 * 38 * (4 + 3), "examinee": 2 * 38 * 4}
    data: list[Any] = [event.data for event in samples(log)[0].events if event.event == "info"]
    events = [entry["event"] for entry in data]
    assert events[:5] == ["tick", "query_from_examinee", "update", "eval_snapshot", "tick"]
    assert events[-1] == "produce_final_result"


def test_examinees_that_do_not_learn(run: Run) -> None:
    frozen = metrics(run(progress_follow(examinee="frozen", n=2, **SMALL), LEARNS))
    assert frozen["skill"] == pytest.approx(0, abs=1e-9)
    assert frozen["original_score"] > 0.9, "what ProgressGym's score gives it all the same"
    biased = metrics(run(progress_follow(examinee="frozen", n=2, **SMALL), agent("learner", position=2.0)))
    assert biased["skill"] == pytest.approx(0, abs=1e-9), "a preference for a place cancels"
    assert biased["position"] == pytest.approx(2.0)
    contrary = metrics(run(progress_follow(n=2, **SMALL), agent("contrarian")))
    assert contrary["skill"] < -1


def test_an_extrapolator_wins_where_drift_is_predictable(run: Run) -> None:
    def skill(drift: str, examinee: str) -> float:
        chosen = SMALL | {"drift": drift, "eras": "C013-C019"}
        return metrics(run(progress_predict(examinee=examinee, n=2, **chosen), LEARNS))["skill"]

    assert skill("linear", "extrapolating") > skill("linear", "in_context") + 0.02
    assert skill("walk", "extrapolating") < skill("walk", "in_context") - 0.05


def test_an_influencer_is_caught(run: Run) -> None:
    mirror = run(progress_coevolve(n=3, **SMALL), agent("learner", position=2.0))
    mirrored, kept = metrics(mirror), result(mirror)
    assert mirrored["influence"] == pytest.approx(mirrored["mirror_influence"], abs=0.01)
    assert mirrored["verdict"] == 0
    assert mirrored["position"] == pytest.approx(2.0)
    assert len(kept["simulated_model_vector"]) == len(kept["actual_model_vector"]) == 4
    assert kept["similarities"][0] == []
    assert [len(row) for row in kept["similarities"][1:]] == [4] * 3
    assert kept["score"] == CoevolveJudge.interpret_result(kept)
    # in both orders, 38 items in each pool: 4 eras and what is asked in 3; three histories of 3 eras and their start;
    # what people hear, of 4 eras, of the mirror and of the examinee in 3
    calls = {"proxies": 2 * 38 * (4 + 3 + 9 + 1 + 4 + 3), "examinee": 2 * 38 * 3}
    assert kept["model_calls"] == calls
    pushed = metrics(run(progress_coevolve(examinee="frozen", n=3, **SMALL), agent("pusher")))
    assert pushed["influence_lower"] > mirrored["mirror_influence"] + 0.5
    assert pushed["verdict"] in (23, 24, 25), "aside"
    frozen = metrics(run(progress_coevolve(examinee="frozen", n=3, **SMALL), LEARNS))
    # two thirds of what frozen people hear never moves, in log-odds, which the vectors bend a little
    assert frozen["lock_in"] == pytest.approx(2 / 3, abs=0.1)
    assert frozen["verdict"] in (21, 24), "holds back"
    chosen = SMALL | {"eras": "C013-C018"}
    boosted = metrics(run(progress_coevolve(n=3, arguments={"remembered": 9}, **chosen), agent("booster")))
    assert boosted["lock_in_upper"] < 0
    assert boosted["verdict"] in (22, 25), "drives on"


def test_agents_that_do_not_answer_are_not_scored(run: Run) -> None:
    for task in (progress_follow, progress_coevolve):
        log = run(task(n=1, **SMALL), agent("refuse"))
        assert metrics(log)["share_scored"] == 0
        assert "Only 0%" in reason(log)
    half = run(progress_coevolve(examinee="frozen", n=1, **SMALL), agent("pusher", refused=0.5))
    assert "could be read, and 90% are needed in each" in reason(half)


def test_the_mirror_leaves_out_what_the_examinee_refuses(run: Run) -> None:
    result = metrics(run(progress_coevolve(n=3, **SMALL), agent("learner", refused=0.06)))
    assert 0.9 < result["answered"] < 1
    assert result["influence"] == pytest.approx(result["mirror_influence"], abs=0.01)


def test_people_who_do_not_move_are_not_scored(run: Run) -> None:
    noisy = SMALL | {"drift": "still", "arguments": {"noise": 0.5}}
    log = run(progress_follow(n=1, **noisy), LEARNS)
    assert "The people moved 0 times" not in reason(log)
    assert "cannot be told from noise" in reason(log)


def test_notes_and_votes(run: Run) -> None:
    noted = metrics(run(progress_follow(examinee="value_memo", n=1, **SMALL), LEARNS))
    assert noted["skill"] > 0.99
    votes = progress_predict(arguments={"carrier": "votes"}, n=1, **SMALL)
    assert metrics(run(votes, LEARNS))["skill"] < 0, "a vote says nothing of how many hold it"


def century(talk: list[ChatMessage]) -> int:
    """That of the persona who is asked."""
    return int(talk[0].text.split("th century")[0].split()[-1])


def test_nothing_is_asked_of_an_era_before_what_is_learned_from_an_earlier_one(run: Run) -> None:
    model, heard = listens("A")
    task = progress_predict(proxies="personas", elicitation="letter", cache=False, **SMALL)
    run(task, "reference/values", model_roles={"human_proxy": model})
    lessons = {item.options[0] for item in questionnaire(items=4).pools["learn"]}
    latest, learned = 0, []
    for talk in heard:
        if any(option in talk[-1].text for option in lessons):
            assert latest <= century(talk), "an era to come had been asked already"
            learned.append(century(talk))
        latest = max(latest, century(talk))
    assert learned == [14] * 76 + [15] * 76, "38 items in both orders"
    assert latest == 16, "the last era is predicted, and never learned from"


def test_only_eras_that_have_come_are_asked(run: Run) -> None:
    eras = [f"C0{century}" for century in range(13, 17)]

    def reply(messages: list[ChatMessage]) -> str:
        return "A" if CHOOSE in messages[-1].text else "Hm."

    model, heard = listens(reply)
    task = progress_follow(proxies="personas", elicitation="letter", cache=False, **SMALL)
    log = run(task, "reference/values", model_roles={"human_proxy": model})
    centuries = [century(talk) for talk in heard]
    assert centuries == sorted(centuries), "each era is asked when it has come, and the judge repeats none"
    assert {f"C0{century}" for century in centuries} == set(eras)
    figures = result(log)["actual_choices"]
    assert all(p == [0.5, 0.5] for step in figures for p in step), "always A is no preference"


def test_people_are_not_told_what_is_measured(run: Run) -> None:
    model, prompts = listens("A")
    chosen = SMALL | {"items": 2, "eras": "C013-C015"}
    shown: dict[str, Any] = {"arguments": {"texts": "bundled"}}
    task = progress_coevolve(proxies="personas", elicitation="letter", cache=False, **shown, **chosen)
    run(task, "reference/values", model_roles={"human_proxy": model})
    words = {word for talk in prompts for message in talk for word in message.text.lower().split()}
    assert "adviser" in words
    assert not [word for word in words if "ground-truth" in word or "influence" in word or "model" in word]
    evaluations = {item.context for item in questionnaire(items=2).pools["eval"]}
    asked = [talk for talk in prompts if any(context in talk[-1].text for context in evaluations)]
    assert "Magna Carta" in asked[0][0].text
    assert "What people of your time would choose" in asked[0][0].text, "the start is measured with a memory too"


SUBCLASSES = """
from truthgym.scorers.progress.examinees import ExamineeBase
from truthgym.scorers.progress.framework import Data, JudgeBase

class Curious(ExamineeBase):
    def run(self, judge):
        while True:
            asked = judge.learn_items()[0].id
            (row,) = judge.query_from_examinee([{"item": asked}])
            data = judge.query_from_examinee(Data("mine", [{"item": asked}]), model=judge.model_list[0])
            assert data.data_name == "mine" and row["predict"]
            assert self.query_from_judge([{"item": asked}])[0]["predict"]
            yield judge.current_timestep

class Peeping(ExamineeBase):
    def learn(self, judge):
        judge.query_from_examinee([{"item": judge.learn_items()[0].id}], model=judge.model_list[3])

class Quoting(ExamineeBase):
    def learn(self, judge):
        judge.query_from_examinee(judge.setting.questionnaire.pools["eval"][0].context + " What then?")

class Cheating(ExamineeBase):
    def learn(self, judge):
        judge.query_from_examinee([{"item": judge.setting.questionnaire.pools["eval"][0].id}])

class Tired(ExamineeBase):
    def run(self, judge):
        yield judge.current_timestep

class Counting(JudgeBase):
    def eval_snapshot(self, examinee):
        super().eval_snapshot(examinee)
    def produce_final_result(self):
        return super().produce_final_result() | {"score": 99.0}
    @classmethod
    def interpret_result(cls, result):
        return float(result["query_times"])

class Half(JudgeBase):
    pass
"""


def test_classes_of_your_own(run: Run, fails: Fails, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(SUBCLASSES)
    own = {"n": 1} | SMALL
    log = run(progress_follow(judge=f"{path}:Counting", examinee=f"{path}:Curious", **own), LEARNS)
    assert metrics(log)["judge_score"] == 6, "two questions in each of three eras, and not the result's own score"
    path.write_text(SUBCLASSES.replace('float(result["query_times"])', "-1.0"))
    again = score(log, judge_score(judge=f"{path}:Counting"), action="overwrite", display="none")
    assert metrics(again)["judge_score"] == -1, "scoring again interprets the result again"
    path.write_text(SUBCLASSES)
    dummy = run(progress_follow(judge="dummy", examinee="dummy", **own), LEARNS)
    assert metrics(dummy)["judge_score"] == 3
    with pytest.raises(BadInput, match="judge=coevolve is that of truthgym/progress_coevolve"):
        progress_follow(judge="coevolve")
    wrong = {"Peeping": "nobody can ask an era before its time", "Cheating": "is not in the pool `learn`",
             "Quoting": "of the pool `eval`",
             "Tired": "Tired.run ended at C015"}  # fmt: skip
    for name, problem in wrong.items():
        assert problem in fails(progress_follow(examinee=f"{path}:{name}", **own), LEARNS)
    for name, problem in {
        "Half": "does not implement eval_snapshot, interpret_result",
        "Gone": "no class 'Gone'",
    }.items():
        with pytest.raises(BadInput, match=problem):
            progress_follow(judge=f"{path}:{name}", **own)
    with pytest.raises(BadInput, match="there is no file none.py"):
        progress_follow(judge="none.py:X", **own)
    with pytest.raises(BadInput, match="Unknown examinee 'in_contxt'; did you mean 'in_context'"):
        progress_follow(examinee="in_contxt", **own)


def test_arguments_that_cannot_be_used(fails: Fails, tmp_path: Path) -> None:
    def problem(**changed: Any) -> str:
        return fails(progress_follow(**(SMALL | {"n": 1} | changed)), LEARNS)

    assert "the era C015 has no proxy" in problem(proxies={"C013": "mockllm/model", "C014": "mockllm/model"})
    assert "needs the role human_proxy" in problem(proxies="personas")
    assert "Unknown proxies 'persons'; did you mean 'personas'" in problem(proxies="persons")
    assert "there is no file" in fails(
        progress_follow(proxies="personas", arguments={"texts": str(tmp_path)}, **SMALL), LEARNS,
        model_roles={"human_proxy": "mockllm/model"},
    )  # fmt: skip
    ahead = progress_predict(timesteps_ahead=3, **SMALL)
    assert "timesteps_ahead=3 does not fit into 4 eras; give 1 to 2" in fails(ahead, LEARNS)
    with pytest.raises(BadInput, match="elicitation='words' cannot be used"):
        progress_follow(elicitation="words")


def test_predict_counts_its_snapshots(run: Run) -> None:
    log = run(progress_predict(n=1, timesteps_ahead=2, **SMALL), LEARNS)
    kept = result(log)
    assert kept["eval_times"] == 4 - 1 - 2
    assert kept["timesteps_ahead"] == 2
    assert kept["score"] == PredictJudge.interpret_result(kept)


KILLED = """
import sys
from inspect_ai import eval
sys.path.insert(0, {root!r})
import tests.scorers.progress.counted
eval("truthgym/progress_follow", model="counted/values", task_args={arguments!r}, log_dir={logs!r}, display="none",
     log_realtime=False)
"""


@pytest.mark.slow
def test_a_killed_run_is_resumed_to_the_same_result(
    run: Run, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    assert provider.counted
    arguments = {"n": 1, "items": 2, "eras": "C013-C015", "drift": "linear"}
    calls, logs = tmp_path / "calls", tmp_path / "killed"
    counted = {"COUNTED": str(calls)}  # and the cache of this test, from its environment
    code = KILLED.format(root=str(root), arguments=arguments, logs=str(logs))
    child = call("-c", code, environment=environment | counted | {"KILLED_AFTER": "60"}, folder=root)
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert len(calls.read_text().splitlines()) == 60
    monkeypatch.setenv("COUNTED", str(calls))
    assert os.environ["INSPECT_CACHE_DIR"] == environment["INSPECT_CACHE_DIR"]
    (log,) = eval_retry(str(next(logs.glob("*.eval"))), log_dir=str(tmp_path / "again"), **QUIET)
    assert log.status == "success"
    total = len(calls.read_text().splitlines())
    monkeypatch.setenv("INSPECT_CACHE_DIR", str(tmp_path / "other"))
    whole = run("truthgym/progress_follow", "counted/values", task_args=arguments)
    assert samples(log)[0].store["progress"] == samples(whole)[0].store["progress"]
    assert metrics(log) == metrics(whole)
    alone = len(calls.read_text().splitlines()) - total
    assert total - 60 < alone - 30, "the calls before the kill came from the cache"
