from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from inspect_ai.log import (
    EvalLog,
    EvalMetric,
    EvalPlanStep,
    EvalScore,
    ProvenanceData,
    invalidate_samples,
    read_eval_log,
    write_eval_log,
)
from inspect_ai.model import GenerateConfig, ModelConfig
from inspect_ai.scorer import Score

from tests.fixtures import Run as RunTask
from tests.fixtures import score_of
from truthgym.analysis import catalog, performance
from truthgym.analysis.batches import load as compare_batches
from truthgym.analysis.compare import compare
from truthgym.analysis.site.build import build
from truthgym.analysis.tables import setups
from truthgym.analysis.tables.answers import answers, texts
from truthgym.analysis.tables.setups import Run, repeated, runs
from truthgym.datasets.errors import BadInput
from truthgym.evallog.discovery import find_logs
from truthgym.evallog.reader import LogReader
from truthgym.tasks.worlds import urns

Write = Callable[..., Path]


@pytest.fixture
def write(mixed_logs: Path, tmp_path: Path) -> Write:
    """Writes a log of one answer with other facts of the run."""
    log = read_eval_log(str(next(mixed_logs.glob("*plain*"))))

    def write_log(
        name: str, target: str = "right", steps: Any = (), status: Any = "success", passes: Any = (), **facts: Any
    ) -> Path:
        own = log.model_copy(deep=True)
        assert own.samples
        own.status, own.samples[0].target = status, target
        own.eval = own.eval.model_copy(update={"eval_id": name, "task_id": name, "model_args": {}, **facts})
        own.plan.steps = [EvalPlanStep(solver=s, params=p, params_passed=p) for s, p in steps or [("generate", {})]]
        if passes:
            rated(own, passes)
        path = tmp_path / f"{name}.eval"
        path.parent.mkdir(exist_ok=True)
        write_eval_log(own, str(path))
        return path

    return write_log


def rated(log: EvalLog, passes: list[str]) -> None:
    """Replace the scores of a log by passes of `qualitative`, each by another judge and with another quality."""
    assert log.results
    names = [f"qualitative{i or ''}" for i in range(len(passes))]
    scorers = [{"name": "truthgym/qualitative", "options": {}} for _ in passes]
    log.eval = type(log.eval).model_validate(log.eval.model_dump() | {"scorers": scorers})
    values = [(i + 1) / 10 for i in range(len(passes))]
    metrics = [{"quality": EvalMetric(name="quality", value=value)} for value in values]
    log.results.scores = [
        EvalScore(name=name, scorer="truthgym/qualitative", params={}, metrics=own)
        for name, own in zip(names, metrics, strict=True)
    ]
    for sample in log.samples or []:
        sample.scores = {
            name: Score(value={"quality": value}, metadata={"judges": [{"judge": judge, "ratings": []}]})
            for name, value, judge in zip(names, values, passes, strict=True)
        }


def names_of(paths: list[Path], part: str) -> list[str]:
    by_id: dict[str, Run] = {run.columns["eval_id"]: run for run in runs(paths)}
    return [run.columns[part] for _, run in sorted(by_id.items())]


def test_weights_in_other_folders_are_other_models(write: Write) -> None:
    places = [{"model_path": path, "device": device} for path, device in [("/x/a", "cpu"), ("/x/b", "cuda:1")]]
    paths = [write(f"w{n}", model_args=place) for n, place in enumerate(places)]
    assert names_of(paths, "model") == ["mockllm/model model_path=a", "mockllm/model model_path=b"]
    assert names_of(paths[:1], "model") == ["mockllm/model"]
    same = write("w2", model_args={"model_path": "/y/a"})
    assert names_of([*paths, same], "model") == [f"mockllm/model model_path={name}" for name in ("x/a", "x/b", "y/a")]


def settings(temperature: float, connections: int) -> dict[str, Any]:
    own = GenerateConfig(temperature=temperature, max_connections=connections, top_p=0.5)
    return {"model_generate_config": own}


EVERY_ROLE = {role: ModelConfig(model=f"m/{role}") for role in ("interlocutor", "interviewer", "debater_a")}
PREPARE: Any = ("truthgym/prepare", {})
END: Any = ("generate", {})
IN_LENGTH_CONTROL = {"base": {"bootstrap_interview": {"mode": "llm_preset"}}}


def asked_by(*step: Any) -> dict[str, Any]:
    return {"steps": [PREPARE, step], "model_roles": EVERY_ROLE}


@pytest.mark.parametrize(
    ("part", "names"),
    [
        ("model", [
            ("mockllm/model temperature=0.0", settings(0.0, 1)),
            ("mockllm/model temperature=1.0", settings(1.0, 2)),
        ]),
        ("task", [
            (f"sha256={str(n) * 8} source={n}/rows.jsonl",
             {"task_args": {"source": f"/data/{n}/rows.jsonl", "sha256": str(n) * 64}})
            for n in range(2)
        ]),
        ("task", [("draws=2", {"task_args": {"draws": 2}}), ("", {"task_args": {}})]),
        ("mode", [
            ("system_message template=x + generate",
             {"steps": [PREPARE, ("system_message", {"template": "x"}), END]}),
            ("chain_of_thought + generate", {"steps": [PREPARE, ("chain_of_thought", {}), END]}),
            ("generate", {"steps": [END]}),
        ]),
        ("mode", [
            ("direct", asked_by("truthgym/direct", {})),
            ("dialogue interlocutor=m/interlocutor", asked_by("truthgym/dialogue", {})),
            (f"length_control base={IN_LENGTH_CONTROL['base']} interviewer=m/interviewer",
             asked_by("truthgym/length_control", IN_LENGTH_CONTROL)),
            ("bootstrap_interview mode=iid", asked_by("truthgym/bootstrap_interview", {"mode": "iid"})),
            ("talk debater_a=m/debater_a interlocutor=m/interlocutor interviewer=m/interviewer",  # may ask any
             asked_by("own/talk", {})),
            ("direct", {"steps": [("truthgym/direct", {})]}),
        ]),
    ],
)  # fmt: skip
def test_what_differs_is_in_the_name(write: Write, part: str, names: list[tuple[str, dict[str, Any]]]) -> None:
    paths = [write(f"n{number}", **facts) for number, (_, facts) in enumerate(names)]
    assert names_of(paths, part) == [name for name, _ in names]
    if part != "mode":
        assert names_of(paths[:1], part) == [{"model": "mockllm/model", "task": ""}[part]]


def test_another_judge_is_another_scorer(write: Write) -> None:
    roles = [
        {"grader": ModelConfig(model=f"m/{n}", args={"k": 1}), "critic": ModelConfig(model="m/c")} for n in range(2)
    ]
    paths = [write(f"j{n}", model_roles=own) for n, own in enumerate(roles)]
    assert set(answers(paths)["scorer"]) == {"match grader=m/0 k=1", "match grader=m/1 k=1"}
    assert set(names_of(paths, "mode")) == {"generate"}
    other = write("j2", model_roles={"critic": ModelConfig(model="m/d")})
    assert names_of([paths[0], other], "mode") == ["generate critic=m/c", "generate critic=m/d"]


def test_a_pass_by_another_judge_is_no_repetition(write: Write) -> None:
    roles = {"judge": ModelConfig(model="m/a")}
    path = write("p0", passes=["m/a", "m/b", "m/b"], model_roles=roles)
    expected = {"qualitative": 0.1, "qualitative judge=m/b": 0.3}  # of the two by m/b the newest
    frame = answers([path])
    assert dict(zip(frame["scorer"], frame["value"], strict=True)) == expected
    scores = performance.load([path])
    assert dict(zip(scores["scorer"], scores["score"], strict=True)) == expected
    same = answers([write("p1", passes=["m/a", "m/a"])])
    assert dict(zip(same["scorer"], same["value"], strict=True)) == {"qualitative": 0.2}


def test_every_number_of_another_projects_scorer_is_a_row(write: Write) -> None:
    log = read_eval_log(str(write("k")))
    assert log.results
    names_of = [("helpful", "critique", 0.2), ("harmless", "critique", 0.7), ("match", "match", 0.4)]
    log.results.scores = [
        EvalScore(name=name, scorer=scorer, metrics={"mean": EvalMetric(name="mean", value=value)})
        for name, scorer, value in names_of
    ]
    write_eval_log(log, log.location)
    frame = performance.load([log.location])
    assert frame[["scorer", "score"]].to_numpy().tolist() == [
        ["critique/harmless", 0.7], ["critique/helpful", 0.2], ["match", 0.4]]  # fmt: skip


def test_remote_logs_are_read_once_until_they_change(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path, size, read = write("m"), 100, []

    def reading(places: Any, unfinished: bool) -> Any:
        read.append(places)
        return find_logs([path])

    monkeypatch.setattr(setups, "log_states", lambda places: [(f"s3://logs/{path.name}", size, 0.0)])
    monkeypatch.setattr(setups, "find_logs", reading)
    assert runs("s3://logs") is runs("s3://logs")
    size = 200
    runs("s3://logs")
    assert len(read) == 2
    size = 0  # not known
    assert runs("s3://logs") is not runs("s3://logs")


def test_an_id_with_other_targets_is_two_questions(write: Write) -> None:
    paths = [write("q0"), write("q1", target="left")]
    frame = answers(paths)
    assert set(frame["sample_id"]) == set(frame["event"]) == {"7 (right)", "7 (left)"}
    assert "1 id stands for questions with other targets" in frame.attrs["notes"][-1]
    assert answers(paths[:1])["sample_id"].tolist() == ["7"]
    key = ("q1", "7 (left)", 1)
    assert dict(texts(paths, {key}))[key].startswith("Perhaps 12.5")


def test_numbers_of_samples_in_other_orders_are_not_paired(write: Write) -> None:
    config = read_eval_log(str(write("o"))).eval.config
    paths = [
        write(f"o{n}", config=config.model_copy(update={"sample_shuffle": order})) for n, order in enumerate((5, True))
    ]
    frame = answers(paths)
    assert set(frame["sample_id"]) == {"7 (5)", "7 (o1)"}
    assert "--sample-shuffle" in frame.attrs["notes"][-1]
    assert dict(texts(paths, {("o1", "7 (o1)", 1)}))


def test_batches_name_their_setups_together(write: Write) -> None:
    write("before/one", task_args={"system_prompt": "x"})
    last = write("after/one", task_args={"system_prompt": "y"})
    folders = [last.parent.parent / name for name in ("before", "after")]
    with pytest.raises(BadInput, match="has no model, setup and question of"):
        compare_batches(folders)
    write("after/two", task_args={"system_prompt": "x"})
    assert compare_batches(folders)["setup"].tolist() == ["plain system_prompt=x, generate"]


def test_repeated_runs_are_noted_and_unfinished_ones_name_nothing(write: Write) -> None:
    paths = [write("r0", created="2026-01-01T00:00:00"), write("r1", created="2026-01-02T00:00:00")]
    evals = runs(paths)
    assert [run.columns["eval_id"] for run in repeated(evals)] == ["r0"]
    together = "2 runs of mockllm/model in plain, generate are taken together."
    assert answers(paths).attrs["notes"] == [together]
    assert performance.load(paths).attrs["notes"][0] == together
    started = write("r2", status="started", task_args={"draws": 2}, created="2026-01-03T00:00:00")
    frame = catalog.load([*paths, started])
    assert frame["counts"].tolist() == ["unfinished", "yes", "repeated"]
    assert set(frame["setup"]) == {"plain, generate"}


RUBRIC = "Grade it.\n" + "Think of the {} sources; be {} and fair to both sides. " * 60
LONG_VALUES = [RUBRIC.format(*["best", "strict"] * 60), RUBRIC.format(*["best", "lenient"] * 60)]


@pytest.mark.parametrize(
    ("values", "short"),
    [
        (["a", "b"], ["a", "b"]),
        (["a b", "a\nb", "a  b"], ["a b (3)", "a b", "a b (2)"]),  # one line each, and told apart
        ([LONG_VALUES[0]], ["Grade it. Think of th..."]),
        (LONG_VALUES, [f"... {' ... '.join([word] * 9)}"[:57].rstrip() + "..." for word in ("strict", "lenient")]),
        ([f"{'x' * 100}{end}" for end in "ab"], [f"{'x' * 8}...{'x' * 48}{end}" for end in "ab"]),
        ([{"key": f"sk-{'a' * 20}"}, {"key": f"sk-{'b' * 20}"}], ["{'key': '[hidden]'}", "{'key': '[hidden]'} (2)"]),
    ],
)
def test_a_value_is_shown_by_the_words_in_which_it_differs(values: list[Any], short: list[str]) -> None:
    texts = setups.OptionTexts(("owner", {"option": value}) for value in values)
    assert [texts.of("owner", "option", value) for value in values] == short
    assert {full for _, full in texts.long} == {value for value in values if len(str(value)) > setups.LONG}


def test_long_options_are_short_in_names_and_whole_once(write: Write, tmp_path: Path) -> None:
    many = {name: f"{RUBRIC} {name}" for name in "abcdefgh"}
    paths = [
        write(f"r{i}", steps=[("system_message", {"template": text}), ("generate", many)], metadata={},
              task_args={"note": f"x\x1b[31m\n{i}"})
        for i, text in enumerate(LONG_VALUES)
    ]  # fmt: skip
    frame = performance.load(paths)
    assert frame["setup"].nunique() == 2
    assert frame["setup"].str.len().max() <= setups.LONGEST
    assert not frame["setup"].str.contains(r"[\n\x1b]").any()
    build(paths, tmp_path / "site", ["performance"])
    pages = {page.name: page.read_text() for page in (tmp_path / "site").glob("*.html")}
    assert [name for name, page in pages.items() for text in LONG_VALUES if text in page] == ["index.html"] * 2
    assert all(pages["index.html"].count(f"<pre>{text}</pre>") == 1 for text in LONG_VALUES)
    assert "<details><summary>Options in full" in pages["index.html"]


ONLY = ["performance", "calibration", "health", "cost"]


def test_invalidated_samples_count_nowhere_and_unfinished_runs_are_named(run: RunTask, tmp_path: Path) -> None:
    log = run(urns(n=40, paradigms="brier"), epochs=1)
    samples = log.samples or []
    samples[0].scores, gone = {}, samples[:10]
    log = invalidate_samples(log, [str(sample.uuid) for sample in gone], ProvenanceData(author="me", reason="broken"))
    path = tmp_path / "logs/edited.eval"
    Path(log.location).unlink()
    log.location = str(path)
    write_eval_log(log, log.location)
    cancelled = log.model_copy(deep=True)
    cancelled.status, cancelled.eval.task_id, cancelled.eval.eval_id = "cancelled", "other", "other"
    write_eval_log(cancelled, str(tmp_path / "logs/cancelled.eval"))
    kept = [cast(dict[str, float], score_of(sample, "brier").value)["brier_score"] for sample in samples[10:]]
    frame = performance.load(path.parent)
    assert frame["score"].tolist() == [pytest.approx(np.mean(kept), abs=1e-4)]
    assert (frame["n"].iloc[0], frame["answers"].iloc[0]) == (30, 30)
    assert len(answers(path.parent)["sample_id"].unique()) == 30
    evals = runs(path.parent)
    unfinished, invalidated = evals.omissions
    assert "cancelled" in unfinished
    assert "10 of 40 samples were invalidated" in invalidated
    findings = {page.name: page.notes for page in build(path.parent, tmp_path / "site", ONLY, say=print)}
    assert all(evals.omissions == found[:2] for found in findings.values()), findings
    compared = compare([path, path])
    assert compared["n"].tolist() == [30] * len(compared)
    assert sum("10 of 40" in note for note in compared.attrs["notes"]) == 2
    with LogReader(tmp_path / "logs/cancelled.eval") as reader:
        assert "was cancelled" in reader.omissions[0]
