"""Comparisons of runs whose true difference is known."""

import json
import math
import re
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, read_eval_log, recompute_metrics, write_eval_log
from inspect_ai.model import ChatMessageUser, GenerateConfig, Model, get_model
from inspect_ai.scorer import Score, Scorer, Target, match, scorer
from inspect_ai.solver import TaskState, generate

from studies.validity.true_values import true_values
from tests.fixtures import Run, evaluate, rain, says, task_of
from tests.fixtures import metrics as metrics_of
from truthgym.analysis.compare import NO_DIFFERENCE, NOT_COMPARED, compare, findings, regressions, report
from truthgym.cli.commands import compare as command
from truthgym.cli.lineage import command as lineage
from truthgym.datasets.errors import BadInput
from truthgym.models.agents.policies import Parameters
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.tasks.agents import agent_bench_mini
from truthgym.tasks.preferences import preferences
from truthgym.tasks.worlds import urns


def by_score(*logs: str) -> dict[str, dict[Any, Any]]:
    return {row["score"]: row for row in compare(logs).to_dict("records")}


def agent(name: str, **planted: Any) -> Model:
    return get_model(f"reference/{name}", **planted)


@pytest.fixture(scope="module")
def eighty(run_once: Run) -> dict[str, EvalLog]:
    """Logs of two agents on 80 questions. A test changes copies."""
    return {name: run_once(urns(n=80, paradigms="brier"), agent(name), epochs=1) for name in ("bayesian", "random")}


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
    alone = compare([first.location, second.location]).attrs["pages"][0]["verdicts"]
    assert [said.split(" alone")[0] for said in alone] == ["reference/bayesian", "reference/entrenched"]
    assert all("Martingale verdict: " in said for said in alone)


def test_what_got_worse_is_said_for_one_version_of_a_task(eighty: dict[str, EvalLog], tmp_path: Path) -> None:
    first, second = eighty["bayesian"], eighty["random"].model_copy(deep=True)
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
    note, _ = compare([first.location, same]).attrs["notes"]
    assert note.startswith(f"NOTE: reference/random: of version {number}-Z of truthgym/urns")
    with pytest.raises(BadInput, match=f"urns {int(number) + 1}; compare runs of one version"):
        regressions(first.location, other)
    warning = (
        f"WARNING: reference/random: of version {int(number) + 1}-{letter} of truthgym/urns, and reference/bayesian"
    )
    assert warning in report(compare([first.location, other]))


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
def test_silence_does_not_win(
    eighty: dict[str, EvalLog], tmp_path: Path, unread: int, repaired: int, shares: str
) -> None:
    first, log = eighty["random"], eighty["bayesian"].model_copy(deep=True)
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


def test_other_questions_behind_an_id_are_left_out_and_named(run: Run, tmp_path: Path) -> None:
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


def test_a_scorer_with_other_options_is_said(run: Run) -> None:
    samples = [Sample(id=str(i), input=f"{i}?", target="yes") for i in range(12)]
    logs = [
        run(Task(samples, scorer=match(location=where)), says("yes"), epochs=1).location for where in ("end", "any")
    ]
    notes = compare(logs).attrs["notes"]
    assert [note for note in notes if "other options of match" in note and "location is any, not end" in note]
    assert not any("other options" in note for note in compare([logs[0], logs[0]]).attrs["notes"])


def test_graders_and_scorers_of_other_projects(run: Run) -> None:
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


DIFFERENCES: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "model": ([{"model": "openai/a"}, {"model": "openai/b"}], ["openai/a", "openai/b"]),
    "solver": ([{"solver": chain_of_thought(steps=2)}, {}], ["chain_of_thought steps=2", "direct"]),
    "temperature": ([{"temperature": 0.2}, {}], ["temperature=0.2", "temperature=default"]),
    "effort": ([{"reasoning_effort": e} for e in ("low", "high")], ["reasoning_effort=low", "reasoning_effort=high"]),
    "system": ([{"system_message": f"Be {how}."} for how in ("kind", "curt")],
               ["system_message=Be kind.", "system_message=Be curt."]),
    "version": ([{"task_version": v} for v in ("3-A", "4-A")], ["version 3-A", "version 4-A"]),
    "option": ([{"model_args": {"draft": d}} for d in (1, 2)], ["draft=1", "draft=2"]),
    "day": ([{"created": f"2026-01-0{day}T10:00:00+00:00"} for day in (1, 2)], ["2026-01-01", "2026-01-02"]),
    "second": ([{"created": f"2026-01-01T10:00:0{n}+00:00"} for n in (1, 2)],
               ["2026-01-01 10:00:01", "2026-01-01 10:00:02"]),
    "served": ([{"served": f"a-2026-0{m}-01"} for m in (1, 2)], ["a-2026-01-01", "a-2026-02-01"]),
    "escapes": ([{"model": f"openai/{c}\x1b[31m\u202e"} for c in "ab"], ["openai/a [31m ", "openai/b [31m "]),
    "two": ([{"model": m, "temperature": t} for m in ("openai/a", "openai/b") for t in (0.0, 1.0)],
            [f"openai/{m}, temperature={t}" for m in "ab" for t in (0.0, 1.0)]),
    "along": ([{"model": "openai/a", "temperature": 0.0}, {"model": "openai/b"}], ["openai/a", "openai/b"]),
}  # fmt: skip
"""By what differs: the facts of each run, and their names."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[EvalLog, EvalLog]:
    """Two logs of six urn questions, direct and with steps."""
    tasks = [urns(n=6, paradigms="brier", draws=2)] * 2
    folder = tmp_path_factory.mktemp("base")
    direct = evaluate(tasks[0], agent("bayesian"), folder)[0]
    return direct, evaluate(tasks[1], agent("bayesian"), folder, solver=chain_of_thought(steps=2))[0]


def altered(base: tuple[EvalLog, EvalLog], folder: Path, runs: list[dict[str, Any]]) -> list[str]:
    """Copies of a log with other facts of the run."""
    paths = []
    for i, facts in enumerate(runs):
        log = base["solver" in facts].model_copy(deep=True)
        of_spec = {name: value for name, value in facts.items() if name in type(log.eval).model_fields}
        log.eval = log.eval.model_copy(
            update={"created": "2026-01-01T10:00:00+00:00", "eval_id": f"{folder.name}{i}"} | of_spec
        )
        settings = {
            name: facts[name] for name in ("temperature", "reasoning_effort", "system_message") if name in facts
        }
        log.eval.model_generate_config = GenerateConfig(**settings)
        for sample in log.samples or []:
            sample.output.model = facts.get("served", "a-2026-01-01")
        paths.append(str(folder / f"{i}.eval"))
        write_eval_log(log, paths[-1])
    return paths


@pytest.mark.parametrize("what", DIFFERENCES)
def test_runs_are_named_by_what_differs(base: tuple[EvalLog, EvalLog], tmp_path: Path, what: str) -> None:
    facts, names = DIFFERENCES[what]
    frame = compare([str(tmp_path)] if altered(base, tmp_path, facts) else [])
    assert [frame["against"].iloc[0], *frame["setup"].unique()] == names
    notes = "\n".join(frame.attrs["notes"])
    assert ("the provider served a-2026-02-01 here, and a-2026-01-01" in notes) == (what == "served")
    assert ("they also differ in temperature (0.0, default)" in notes) == (what == "along")
    assert ("the same model in the same setup as" in notes) == (what in ("day", "second", "served"))
    for form in ("table", "markdown", "csv", "json"):
        text = CliRunner().invoke(command, [str(tmp_path), "--format", form]).stdout
        assert names[-1].split()[0] in text
        assert not re.search("[\x1b\u202e]", text)


FOREIGN: list[tuple[Any, dict[str, Any]]] = [
    ("C", {"settings": "x", "beliefs": 5}),
    (0.5, {"settings": [], "outcome": "maybe", "base_rate": "x"}),
    ({"preferred": "x", "change": "y", "brier_score": 0.1}, {"beliefs": [7, {"value": None}], "judges": "x"}),
    ({"preferred": 1, "change": 0.1, "brier_score": 0.2}, {"beliefs": {"a": 1}, "about": [1]}),
    ([1, 2], {"settings": {"about": {}}, "trials": 3, "forecasts": "x"}),
    (True, {"outcome": True}),
]


@pytest.mark.parametrize("name", ["preference", "brier", "martingale", "world_uplift", "match"])
def test_a_scorer_of_another_project_may_have_the_name_of_ours(
    base: tuple[EvalLog, EvalLog], tmp_path: Path, name: str
) -> None:
    """Whatever values and metadata it writes; the questions may have a field `pair`, too."""
    paths = altered(base, tmp_path, [{"model": "openai/a"}, {"model": "openai/b"}])
    for path in paths:
        log = read_eval_log(path)
        for sample, (value, details) in zip(log.samples or [], FOREIGN * 4, strict=False):
            sample.scores = {name: Score(value=value, metadata=details)}
            sample.metadata |= {"pair": {"first": "x", "second": {}} if value == "C" else "x"}
        write_eval_log(log, path)
    assert set(compare(paths)["scorer"]) == {name}


def test_runs_alike_in_everything_are_numbered(base: tuple[EvalLog, EvalLog], tmp_path: Path) -> None:
    frame = compare(altered(base, tmp_path, [{}, {}]))
    assert [frame["against"].iloc[0], *frame["setup"].unique()] == ["(1)", "(2)"]


def test_logs_folders_and_patterns_in_any_mix(base: tuple[EvalLog, EvalLog], run: Run, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    paths = altered(base, tmp_path, [{"model": f"openai/{name}"} for name in "abc"])
    inner = altered(base, tmp_path / "b", [{"model": "openai/d"}])
    mixes: list[list[str | Path]] = [[paths[1], tmp_path], [paths[1], f"{tmp_path}/*.eval", tmp_path / "b", *inner]]
    for places in mixes:
        frame = compare(places)
        names = [frame["against"].iloc[0], *frame["setup"].unique()]
        assert names == ["openai/b", "openai/a", "openai/c", "openai/d"]
    frame = compare([*paths, *inner], against="openai/d")
    assert (set(frame["against"]), set(frame["first_log"])) == ({"openai/d"}, set(inner))
    for against, message in (
        ("openai", "openai/a; openai/b"),
        ("gpt", "fits no run; give the name of a run: openai/a"),
    ):
        with pytest.raises(BadInput, match=message):
            compare(paths, against=against)
    with pytest.raises(BadInput, match=r"no file or folder .*/\*\.json"):
        compare([f"{tmp_path}/*.json"])


def test_each_task_has_its_table(base: tuple[EvalLog, EvalLog], run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "all"
    folder.mkdir()
    altered(base, folder, [{"model": "openai/a"}, {"model": "openai/b"}])
    samples = [Sample(id=str(i), input=f"{i}?", target="yes") for i in range(6)]
    task = Task(samples, scorer=match(), name="others")
    for i, reply in enumerate(["yes", "no"]):
        log = run(task, says(reply), epochs=1)
        log.eval.model, log.eval.eval_id = f"mockllm/{reply}", reply
        write_eval_log(log, str(folder / f"other{i}.eval"))
    lone = run(urns(n=3, paradigms="length"), "reference/bayesian")
    lone.eval.eval_id = "lone"
    write_eval_log(lone, str(folder / "lone.eval"))
    frame = compare([folder])
    assert list(frame.drop_duplicates("first_log")["task"]) == ["urns", "others"]
    assert frame.attrs["notes"][-1].endswith(f"{folder}/lone.eval.")
    text = CliRunner().invoke(command, [str(folder)]).output
    assert "urns: openai/b against openai/a" in text
    assert "mockllm/no is worse than mockllm/yes on match" in text
    rows = CliRunner().invoke(command, [str(folder), "--format", "csv"]).stdout
    assert rows.startswith(
        "task,log,model,setup,against,first_log,category,scorer,score,better,before,after,difference,"
    )
    loaded = json.loads(CliRunner().invoke(command, [str(folder), "--format", "json"]).stdout)
    assert [row["score"] for row in loaded["rows"]] == list(frame["score"])
    assert len(loaded["said"]) == 2


@pytest.mark.parametrize("width", [80, 120])
def test_tables_fit_the_terminal(base: tuple[EvalLog, EvalLog], tmp_path: Path, width: int) -> None:
    altered(base, tmp_path, [{"model": f"provider/{name * 30}"} for name in "abc"])
    result = CliRunner().invoke(command, [str(tmp_path)], env={"COLUMNS": str(width)})
    assert max(map(len, result.output.splitlines())) <= width
    assert "brier_score ↓" in result.output


def test_sentences_say_what_is_shown(eighty: dict[str, EvalLog]) -> None:
    logs = [log.location for log in eighty.values()]
    frame = compare(logs)
    row = frame.iloc[0]
    (found,) = findings(frame)
    pair = "reference/random is worse than reference/bayesian on brier/brier_score"
    assert found["sentences"][0].startswith(f"{pair}, by {row['lower']:.2g} to {row['upper']:.2g}. Of 4 other scores")
    same = compare([logs[0], logs[0]])
    assert "no difference shown on brier/brier_score; differences above " in next(findings(same))["sentences"][0]
    assert (same["difference"].abs() < 1e-12).all(), "a run does not differ from itself"
    assert "80 questions in both logs" in report(same)


def test_by_a_field_of_the_questions(eighty: dict[str, EvalLog], tmp_path: Path) -> None:
    logs = [log.model_copy(deep=True) for log in eighty.values()]
    for log in logs:  # the second is as good as the first on the questions of one kind
        for i, sample in enumerate(log.samples or []):
            sample.metadata["kind"] = "odd" if i % 2 else "even"
            if i % 2:
                assert logs[0].samples
                sample.scores = logs[0].samples[i].scores
        write_eval_log(log, str(tmp_path / Path(log.location).name))
    paths = [str(tmp_path / Path(log.location).name) for log in logs]
    frame = compare(paths, by="kind")
    rows = frame[frame["score"] == "brier/brier_score"].set_index("category")
    assert dict(rows["verdict"].items()) == {
        "": "worse",
        "even": "worse",
        "odd": NOT_COMPARED if rows.loc["odd", "note"] else NO_DIFFERENCE,
    }
    assert dict(rows["n"].items()) == {"": 80, "even": 40, "odd": 40}
    alone = compare(paths).set_index("score").loc["brier/brier_score"]
    assert list(alone[["lower", "upper"]]) == pytest.approx(list(rows.loc["", ["lower", "upper"]]))
    (found,) = findings(frame)
    assert (
        "By kind, reference/random and reference/bayesian, brier/brier_score: worse on even by" in found["sentences"][1]
    )
    assert [len(table) for table in found["tables"]] == [len(frame[frame["category"] == ""]), 2]
    text = CliRunner().invoke(command, [*paths, "--by", "kind"]).output
    assert re.search(r"even +0\.\d+ +0\.\d+", text)
    with pytest.raises(BadInput, match="by='knd'.*did you mean 'kind'"):
        compare(paths, by="knd")


def test_a_judges_labels_of_two_runs_are_their_win_rate(run: Run, eighty: dict[str, EvalLog]) -> None:
    logs = [eighty[name].location for name in ("random", "bayesian")]
    labels = run(preferences(answers=logs, gold="brier/brier_score"), agent("judge", accuracy=1.0), limit=40)
    frame = compare([*logs, labels.location]).set_index("score")
    wins = frame.loc["win_rate"]
    said = [sample for sample in labels.samples or [] if sample.scores]
    shares = []
    for sample in said:
        own = [sample.metadata["pair"][side]["model"] for side in ("first", "second")]
        won = cast(dict[str, float], (sample.scores or {})["preference"].value)["preferred"]
        shares.append((1 + won * (1 if own[0] == "reference/bayesian" else -1)) / 2)
    assert wins["after"] == pytest.approx(sum(shares) / len(shares))
    assert wins["before"] + wins["after"] == pytest.approx(1)
    assert (wins["n"], wins["better"]) == (len(said), "higher")
    assert wins["lower"] < wins["after"] - wins["before"] < wins["upper"]
    assert "win_rate" not in set(compare(logs)["score"])
    assert frame.attrs["notes"] == []


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


def test_scores_that_are_texts_are_refused(run: Run) -> None:
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
