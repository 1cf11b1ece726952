"""Comparisons of runs whose true difference is known."""

import math
import re
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, recompute_metrics, write_eval_log
from inspect_ai.model import ChatMessageUser, Model, get_model
from inspect_ai.scorer import Score, Scorer, Target, match, scorer
from inspect_ai.solver import TaskState, generate
from scipy import stats

from studies.validity.true_values import true_values
from tests.fixtures import Run, Says, rain, task_of
from tests.fixtures import metrics as metrics_of
from truthgym.analysis.compare import compare, regressions, report
from truthgym.cli.compare import command
from truthgym.cli.lineage import command as lineage
from truthgym.datasets.errors import BadInput
from truthgym.models.agents.policies import Parameters
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.tasks.agents import agent_bench_mini
from truthgym.tasks.worlds import urns


def by_score(*logs: str) -> dict[str, dict[Any, Any]]:
    return {row["score"]: row for row in compare(logs).to_dict("records")}


def agent(name: str, **planted: Any) -> Model:
    return get_model(f"reference/{name}", **planted)


def test_the_true_differences_of_two_agents_are_found(run: Run) -> None:
    first = run(urns(n=40), agent("bayesian", noise=0.05, seed=3), epochs=2)
    second = run(urns(n=40), agent("entrenched", noise=0.1, seed=4, strength=1), epochs=2)
    rows = by_score(first.location, second.location)
    before = true_values("bayesian", Parameters(noise=0.05))
    after = true_values("entrenched", Parameters(noise=0.1, strength=1))
    truth = {
        "brier/brier_score": after.brier_posterior + after.noise_cost - before.brier_posterior - before.noise_cost,
        "martingale_score": after.slope - before.slope,
        "excess_movement": after.excess - before.excess,
        "brier_gain": after.gain - before.gain,
    }
    for name, value in truth.items():
        assert rows[name]["lower"] < value < rows[name]["upper"], name
        assert rows[name]["n"] == rows[name]["shared"] == 40
    assert rows["martingale_score"]["lower"] > 0, "the pair is told apart"
    assert rows["brier/brier_score"]["better"] == "lower"
    for log, side in ((first, "before"), (second, "after")):
        metrics = metrics_of(log, 0) | metrics_of(log, 1)
        assert rows["martingale_score"][side] == pytest.approx(metrics["martingale_score"], abs=1e-12)
        assert rows["brier/brier_score"][side] == pytest.approx(metrics["brier"], abs=1e-5)  # samples are rounded
    alone = compare([first.location, second.location]).attrs["verdicts"]
    assert [said.split(" alone")[0] for said in alone] == ["reference/bayesian", "reference/entrenched"]
    assert all("Martingale verdict: " in said for said in alone)


def test_what_got_worse_is_said_for_one_version_of_a_task(run: Run, tmp_path: Path) -> None:
    first = run(urns(n=60, paradigms="brier"), agent("bayesian"), epochs=1)
    second = run(urns(n=60, paradigms="brier"), agent("random"), epochs=1)
    logs = first.location, second.location
    for (before, after), verdict in ((logs, "worse"), (logs[::-1], "better"), (logs[:1] * 2, "no difference found")):
        frame = regressions(before, after)
        assert dict(zip(frame["score"], frame["verdict"], strict=True))["brier/brier_score"] == verdict
        status = CliRunner().invoke(lineage, ["compare", before, after])
        assert status.exit_code == (verdict == "worse")
        assert f"brier/brier_score: {verdict}" in status.output
    number, _, letter = str(second.eval.task_version).partition("-")
    paths = {}
    for version in (f"{number}-Z", f"{int(number) + 1}-{letter}"):
        second.eval.task_version = version
        paths[version] = str(tmp_path / f"{version}.eval")
        write_eval_log(second, paths[version])
    same, other = paths.values()
    assert "worse" in set(regressions(first.location, same)["verdict"])
    (note,) = compare([first.location, same]).attrs["notes"]
    assert note.startswith(f"NOTE: {same} is of version {number}-Z of truthgym/urns")
    with pytest.raises(BadInput, match=f"urns {int(number) + 1}; compare runs of one version"):
        regressions(first.location, other)
    text = report(compare([first.location, other]))
    assert text.startswith(f"WARNING: {other} is of version {int(number) + 1} of truthgym/urns, and {first.location}")
    assert "CHANGELOG.md" in text


def silent(log: EvalLog, path: Path, unread: int, repaired: int = 0) -> str:
    """The log with beliefs of its first questions unread, and of the next repaired."""
    for place, sample in enumerate(log.samples or []):
        score = (sample.scores or {})["brier"]
        if place < unread:
            score.value = dict.fromkeys(cast(dict[str, Any], score.value), math.nan)
            score.metadata = {**(score.metadata or {}), "belief": None, "reason": "no probability"}
        elif place < unread + repaired:
            score.metadata = {**(score.metadata or {}), "beliefs": [{"value": 0.5, "repaired": "50", "read_by": None}]}
    recompute_metrics(log)
    write_eval_log(log, str(path))
    return str(path)


@pytest.mark.parametrize(("unread", "repaired", "shares"), [(16, 0, "100 %.* 80 %"), (1, 5, "100 %.* 92.5 %")])
def test_silence_does_not_win(run: Run, tmp_path: Path, unread: int, repaired: int, shares: str) -> None:
    first = run(urns(n=80, paradigms="brier"), agent("random"), epochs=1)
    log = run(urns(n=80, paradigms="brier"), agent("bayesian"), epochs=1)
    path = silent(log, tmp_path / "silent.eval", unread, repaired)
    row = by_score(first.location, path)["brier/brier_score"]
    assert math.isnan(row["lower"])
    assert (row["n_before"], row["n_after"], row["n"], row["shared"]) == (80, 80 - unread, 80 - unread, 80)
    assert re.search(shares, row["note"])
    imputed = by_score(first.location, path)["brier/brier_imputed"]
    assert (imputed["n"], imputed["better"]) == (80, "lower")
    assert imputed["after"] == pytest.approx(metrics_of(log)["brier_imputed"], abs=1e-4)
    assert imputed["upper"] < 0, "with its unread answers it is still better than chance"
    frame = regressions(first.location, path).set_index("score")
    assert frame.loc["brier/brier_score", "verdict"] == "not compared"
    assert frame.loc["brier/brier_imputed", "verdict"] == "better"
    assert "no interval for" in report(compare([first.location, path]))


def test_other_questions_behind_an_id_are_left_out_and_named(run: Run, tmp_path: Path, says: Says) -> None:
    def numbered(start: int, words: str = "Is {} odd?") -> EvalLog:
        samples = [
            Sample(id=i, input=words.format(i if i < start else i + 1000), choices=["yes", "no"], target="A")
            for i in range(20)
        ]
        return run(Task(dataset=samples, scorer=match(), name="numbers"), says("A"), epochs=1)

    first, some, other = numbered(20), numbered(15), numbered(20, "Is the number {} odd, as you see it?")
    frame = compare([first.location, some.location])
    assert set(frame["shared"]) == {15}
    assert "15, 16, 17 and each of 2 more is another question" in " ".join(frame.attrs["notes"])
    with pytest.raises(BadInput, match="share no question .0, 1, 10 and each of 17 more"):
        compare([first.location, other.location])
    first.samples = [
        sample.model_copy(update={"input": [ChatMessageUser(content=str(sample.input))]})
        for sample in first.samples or []
    ]
    paths = [str(tmp_path / f"{name}.eval") for name in ("one", "two")]
    for path in paths:  # the ids of messages differ
        for sample in first.samples:
            assert not isinstance(sample.input, str)
            sample.input[0].id = f"{path}{sample.id}"
        write_eval_log(first, path)
    assert set(compare(paths)["shared"]) == {20}


def test_other_task_arguments_are_said(run: Run) -> None:
    logs = [run(urns(n=12, paradigms="brier", draws=4), agent("bayesian")) for _ in range(2)]
    logs[1].eval.task_args = logs[1].eval.task_args | {"draws": 9}
    write_eval_log(logs[1], logs[1].location)
    notes = compare([log.location for log in logs]).attrs["notes"]
    assert any("draws is 9" in note for note in notes)


def test_a_scorer_with_other_options_is_said(run: Run, says: Says) -> None:
    samples = [Sample(id=str(i), input=f"{i}?", target="yes") for i in range(12)]
    logs = [
        run(Task(samples, scorer=match(location=where)), says("yes"), epochs=1).location for where in ("end", "any")
    ]
    notes = compare(logs).attrs["notes"]
    assert [note for note in notes if "match has other options" in note and "location is any, not end" in note]
    assert not any("other options" in note for note in compare([logs[0], logs[0]]).attrs["notes"])


def test_the_intervals_of_several_runs_hold_at_once(run: Run) -> None:
    logs = [
        run(urns(n=30, paradigms="brier"), agent("bayesian", noise=0.1, seed=seed), epochs=1).location
        for seed in range(3)
    ]
    alone, both = compare(logs[:2]).set_index("score"), compare(logs).drop_duplicates("score").set_index("score")
    name = "brier/log_score"
    width = both["upper"] - both["lower"]
    assert width[name] / (alone["upper"] - alone["lower"])[name] == pytest.approx(
        stats.t.ppf(1 - 0.025 / 2, 29) / stats.t.ppf(0.975, 29), rel=0.05
    )
    assert both["mde"][name] > alone["mde"][name]
    assert "The 2 intervals of a score hold at once" in report(compare(logs))


def test_a_run_does_not_differ_from_itself(run: Run) -> None:
    log = run(urns(n=20), agent("bayesian", noise=0.1), epochs=2)
    rows = compare([log.location, log.location])
    assert (rows["difference"].abs() < 1e-12).all()
    text = report(rows)
    assert "| 20 |" in text
    assert "20 questions in both logs" in text


def test_graders_and_scorers_of_other_projects(run: Run, says: Says) -> None:
    samples = [Sample(id=str(i), input=f"{i}?", target="yes" if i % 3 else "no") for i in range(12)]

    def log(reply: str) -> EvalLog:
        return run(Task(dataset=samples, scorer=match()), says(reply), epochs=2)

    rows = compare([log("no").location, log("yes").location])
    assert rows["score"].to_list() == ["match"]
    assert rows.iloc[0][["better", "before", "after"]].to_list() == ["higher", 4 / 12, 8 / 12]
    graded_logs = [run(urns(n=12, paradigms="graded"), agent("bayesian", noise=x, seed=1), epochs=1) for x in (0, 0.2)]
    row = compare([graded_log.location for graded_log in graded_logs]).iloc[0]
    assert (row["score"], row["better"]) == ("graded/grade", "lower")
    assert row["difference"] == pytest.approx(row["after"] - row["before"])


def test_slopes_that_are_not_identified_are_not_compared(run: Run) -> None:
    logs = [run(urns(n=5), agent("bayesian", noise=0.1, seed=seed), epochs=2).location for seed in (1, 2)]
    frame = compare(logs)
    assert frame.loc[frame["score"] == "martingale_score", "difference"].isna().all()
    assert "no martingale_score: fewer than 10" in report(frame)


def test_runs_of_one_model_are_told_apart_by_their_logs(run: Run) -> None:
    logs = [run(urns(n=10, paradigms="brier"), agent("bayesian", noise=0.05, seed=seed)).location for seed in range(3)]
    result = CliRunner().invoke(command, logs)
    assert result.exit_code == 0, result.output
    assert "| brier/brier_score | lower |" in result.output
    table = report(compare(logs))
    for log in logs[1:]:
        assert f"| reference/bayesian, {Path(log).name} |" in table
    assert f"First log: {logs[0]}, of reference/bayesian." in table


def test_the_model_of_the_first_log_again_is_said(run: Run) -> None:
    first, *again = (run(urns(n=n, paradigms="brier"), agent("bayesian", noise=0.05)).location for n in (4, 6))
    other = run(urns(n=4, paradigms="brier"), agent("bayesian", noise=0.1)).location
    solver = run(urns(n=4, paradigms="brier"), agent("bayesian", noise=0.05), solver=chain_of_thought()).location
    (note,) = compare([first, *again, other, solver]).attrs["notes"]
    assert f"{again[0]} is of the same model in the same setup as {first}" in note
    assert note in report(compare([first, *again]))


def test_logs_that_share_nothing_are_refused(run: Run, tmp_path: Path) -> None:
    logs = [run(urns(n=3, seed=seed, paradigms=what)).location for seed, what in ((0, "brier"), (1, "brier"))]
    other = run(urns(n=3, paradigms="length")).location
    pairs: list[tuple[list[str], str]] = [
        (logs, "share no question"),
        ([logs[0], other], "share no scorer"),
        (logs[:1], "give two or more"),
        ([logs[0], str(tmp_path / "missing.eval")], r"missing\.eval"),
    ]
    for pair, message in pairs:
        with pytest.raises(BadInput, match=message):
            compare(pair)


def test_scores_that_are_texts_are_refused(run: Run, says: Says) -> None:
    @scorer(metrics=[])
    def kind() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score:
            return Score(value="stereotype")

        return score

    logs = [run(task_of(rain(), generate(), kind()), says("Hm.")).location for _ in range(2)]
    with pytest.raises(BadInput, match=r"share \(kind\) give no number in both"):
        compare(logs)


def test_beliefs_about_other_things_are_not_compared(run: Run) -> None:
    answer: dict[str, Any] = {"agent_answer": {}}
    first = run(agent_bench_mini(n=3, paradigms=answer | {"brier": {}}), "reference/bayesian")
    other = run(agent_bench_mini(n=3, paradigms=answer | {"brier": {"about": "own_answer"}}), "reference/bayesian")
    assert {name.split("/")[0] for name in by_score(first.location, other.location)} == {"agent_answer"}
    assert "brier/brier_score" in by_score(other.location, other.location)
