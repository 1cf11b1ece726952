import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from inspect_ai import score
from inspect_ai.log import EvalMetric, read_eval_log, write_eval_log
from inspect_ai.model import get_model
from scipy import stats

from tests.fixtures import Run, evaluate, says
from truthgym.analysis import performance
from truthgym.analysis.performance import chart, load, report
from truthgym.analysis.tables.saving import save
from truthgym.datasets.errors import BadInput
from truthgym.evallog.header import ScorerResults
from truthgym.evallog.reader import LogReader
from truthgym.scorers.brier import brier
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.tasks.domains import forecasting
from truthgym.tasks.sycophancy import sycophancy
from truthgym.tasks.worlds import urns
from truthgym.training.evaluations import figures

if TYPE_CHECKING:
    import pandas as pd

ESTIMATE = {"score": "brier", "lower": "brier_lower", "upper": "brier_upper"} | {
    "mde": "mde", "share_read": "share_scored"
}  # fmt: skip


def by_scorer_and_model(frame: "pd.DataFrame") -> dict[tuple[str, str], dict[Any, Any]]:
    return {(row["scorer"], row["model"]): dict(row) for row in frame.to_dict("records")}


def test_a_row_has_the_figures_of_its_log(run: Run, tmp_path: Path) -> None:
    plain = run(urns(n=10))
    run(urns(n=10), "reference/bayesian", model_args={"noise": 0.1}, solver=chain_of_thought(steps=1), epochs=2)
    rows = by_scorer_and_model(load(tmp_path / "logs"))
    row = rows["brier", "reference/bayesian"]
    assert plain.results
    metrics = plain.results.scores[0].metrics
    assert {name: row[name] for name in ESTIMATE} == {name: metrics[key].value for name, key in ESTIMATE.items()}
    assert (row["domain"], row["mode"], row["task"], row["n"], row["epochs"]) == ("urns", "direct", "", 10, 3)
    usage = plain.stats.model_usage["reference/bayesian"]
    assert [row["tokens_in"] * 30, row["tokens_out"] * 30] == [usage.input_tokens, usage.output_tokens]
    assert (row["answers"], row["failed"]) == (30, 0)
    noisy = rows["martingale", "reference/bayesian noise=0.1"]
    assert (noisy["mode"], noisy["epochs"], noisy["figure"]) == ("chain_of_thought steps=1", 2, "martingale_score")


def test_the_newest_pass_counts_and_other_options_have_a_row(run: Run, tmp_path: Path) -> None:
    log = run(urns(n=5, paradigms={"brier": {"figures": "all"}}), epochs=1)
    log = score(log, brier(read="stated"), display="log")
    log = score(log, brier(read="token"), display="log")
    assert log.results
    log.results.scores[1].metrics["brier"].value = 0.123
    write_eval_log(log, log.location)
    frame = load(tmp_path / "logs").set_index("scorer")
    assert set(frame.index) == {"brier", "brier read=token"}
    assert frame.loc["brier", "score"] == 0.123


def test_each_reducer_has_a_row_and_a_metric_of_inspect_hides_none(run: Run, tmp_path: Path) -> None:
    reducers = [("mean", 0.75), ("at_least_4", 0.0), ("max", 1.0)]
    log = run(urns(n=4, paradigms="brier"), epochs=1)
    assert log.results
    (own,) = log.results.scores
    others = [
        own.model_copy(update={"name": "match", "scorer": "match", "reducer": name, "metrics": accuracy_of(value)})
        for name, value in reducers
    ]
    log.results.scores += [*others, own.model_copy(update={"name": "brier1", "metrics": accuracy_of(0.0)})]
    write_eval_log(log, log.location)
    frame = load(tmp_path / "logs").set_index("scorer")
    assert frame.loc["brier", "score"] == own.metrics["brier"].value
    assert frame["score"].drop("brier").to_dict() == {
        "match": 0.75, "match reducer=at_least_4": 0.0, "match reducer=max": 1.0
    }  # fmt: skip
    assert any("accuracy of brier1" in note for note in frame.attrs["notes"])
    listed = {entry["scorer"]: (entry["metric"], entry["value"]) for entry in figures(LogReader(log.location))}
    assert listed == {"brier": ("brier", own.metrics["brier"].value), "match": ("accuracy", 0.75)}


def accuracy_of(value: float) -> dict[str, EvalMetric]:
    return {"accuracy": EvalMetric(name="accuracy", value=value)}


def test_evals_that_differ_in_the_task_are_told_apart(run: Run, tmp_path: Path) -> None:
    run(urns(n=3, draws=2, paradigms="brier"), epochs=1)
    run(urns(n=4, draws=6, paradigms="brier"), epochs=1)
    run(forecasting(n=3, paradigms="brier"), epochs=1)
    run(sycophancy(domain="urns", n=3), epochs=1)
    frame = load(tmp_path / "logs")
    places = [str(path) for path in sorted((tmp_path / "logs").glob("*.eval"))]
    assert frame.equals(load(places[::-1])), "the order of logs does not matter"
    assert frame[["domain", "task", "scorer"]].to_numpy().tolist() == [
        ["forecasting", "", "brier"],
        ["urns", "draws=2", "brier"],
        ["urns", "draws=6", "brier"],
        ["sycophancy", "domain=urns", "sycophantic_reasoning"],
    ]


def test_verdicts_are_those_of_agents_whose_truth_is_known(run: Run, tmp_path: Path) -> None:
    paradigms = {"brier": {}, "martingale": {"figures": "all"}}
    for name, arguments in (("entrenched", {"strength": 0.6, "noise": 0.05}), ("contrarian", {"noise": 0.05})):
        run(urns(n=60, paradigms=paradigms), f"reference/{name}", model_args=arguments, epochs=2)
    run(urns(n=40, draws=8, paradigms="brier"), epochs=1)
    frame = load(tmp_path / "logs")
    rows = by_scorer_and_model(frame).items()
    correlation = {(scorer, model.split()[0]): (row["verdict"], row["reason"]) for (scorer, model), row in rows}
    assert correlation["martingale", "reference/entrenched"] == ("entrenched", "")
    assert correlation["martingale", "reference/contrarian"] == ("", "reason_prior_reports")
    assert correlation["brier", "reference/contrarian"] == ("above 0.25", "")
    assert correlation["brier", "reference/bayesian"] == ("below 0.25", "")


def test_logs_of_earlier_versions_are_read_by_the_names_and_codes_of_today(run: Run, tmp_path: Path) -> None:
    new = run(urns(n=12, paradigms="martingale"), epochs=1)
    old = tmp_path / "logs/old.eval"
    log = read_eval_log(new.location)
    log.eval.eval_id = "old"
    (results,) = log.results.scores if log.results else []
    results.metrics["unidentified_one_epoch"] = results.metrics.pop("reason_one_epoch")
    write_eval_log(log, str(old))
    frame = load(tmp_path / "logs")
    assert set(frame["reason"]) == {"reason_one_epoch"}
    assert len(frame) == 2
    for scorer, before, now in (("value_influence", 5, 25), ("world_uplift", -1, 32), ("world_uplift", 0, None)):
        metrics = {"verdict": {"value": before}, "cannot_tell_imprecise": {"value": 1}}
        read = msgspec.convert({"name": scorer, "scorer": f"truthgym/{scorer}", "metrics": metrics}, ScorerResults)
        assert (list(read.metrics), read.metrics["verdict"].value) == (["verdict", "reason_imprecise"], now)
    for tested in (False, True):  # earlier logs acquitted without a test
        held = {"verdict": {"value": 0.0}} | ({"user_distance": {"value": 0.01}} if tested else {})
        row = {"name": "sycophantic_reasoning", "scorer": "truthgym/sycophantic_reasoning", "metrics": held}
        read = msgspec.convert(row, ScorerResults)
        assert read.metrics["verdict"].value == (0 if tested else None)
        assert ("reason_not_tested" in read.metrics) is not tested


def test_a_planted_level_is_recovered_and_chance_stays_chance(run: Run, tmp_path: Path) -> None:
    """Who always says 90 % has a Brier score of 0.01 where the answer is yes, and of 0.81 where it is no."""
    run(urns(n=40, paradigms="brier"), says("50%"), epochs=1)
    log = run(urns(n=40, paradigms="brier"), says("90%"), epochs=1)
    chance, planted = load(tmp_path / "logs").to_dict("records")
    yes = sum(sample.target == "yes" for sample in log.samples or []) / 40
    assert (chance["score"], chance["verdict"], chance["reason"]) == (0.25, "", "spans_reference")
    assert (planted["score"], planted["verdict"]) == (pytest.approx(0.01 * yes + 0.81 * (1 - yes)), "above 0.25")
    assert planted["lower"] < 0.41 < planted["upper"]  # urns are as often yes as no


def test_few_or_unread_answers_get_no_verdict_and_a_reason(run: Run, tmp_path: Path) -> None:
    run(urns(n=12, paradigms="brier"), epochs=1)
    run(urns(n=12), says("I would rather not say."), epochs=1)
    frame = load(tmp_path / "logs")
    rows = by_scorer_and_model(frame)
    silent = rows["brier", "mockllm/model"]
    assert (silent["reason"], silent["flags"], silent["share_read"]) == ("unread", "unread, few_questions", 0)
    assert rows["brier", "reference/bayesian"]["reason"] == "few_questions"
    assert rows["martingale", "mockllm/model"]["reason"] == "reason_one_epoch"
    page = report(frame, "x.svg")
    row = "| urns, direct | mockllm/model | - | - | 0 | 1 | 0 % | cannot tell: unread | unread, few questions | 3 / 3 |"
    assert row in page
    assert "Not drawn: 3 rows" in page
    assert "Left out" not in page
    assert "- `one epoch`: one epoch cannot separate" in page
    with pytest.raises(BadInput, match="None of 1 scores has 30"):
        chart(frame.query("scorer == 'martingale'"))


def test_the_chart_shows_direction_reference_and_hollow_points(run: Run, tmp_path: Path) -> None:
    for model in ("reference/bayesian", get_model("reference/bayesian", refuses=0.9, stage="both")):
        run(urns(n=30, paradigms="brier"), model, epochs=1)
    panels = chart(load(tmp_path / "logs")).to_dict()["vconcat"]
    assert [panel["title"]["text"] for panel in panels] == ["brier"]
    rule, interval, point = panels[0]["layer"]
    assert rule["encoding"]["x"]["datum"] == 0.25
    assert "lower is better" in interval["encoding"]["x"]["title"]
    assert point["encoding"]["fill"]["condition"]["test"] == "datum.share_read >= 0.9"


def test_what_scores_do_not_show_is_in_the_notes(run: Run, tmp_path: Path) -> None:
    run(urns(n=12, paradigms="brier"), epochs=1)
    path = run(urns(n=10), says("I would rather not say."), epochs=2).location
    log = read_eval_log(path)
    assert log.results
    log.results.completed_samples -= 3
    write_eval_log(log, path)
    frame = load(tmp_path / "logs")
    silent = by_scorer_and_model(frame)["martingale", "mockllm/model"]
    assert (silent["verdict"], silent["failed"]) == ("", 3)
    assert "failed" in silent["flags"].split(", ")
    both = "brier of mockllm/model in urns, direct; martingale of mockllm/model in urns, direct"
    assert [note.partition(" (")[0] for note in frame.attrs["notes"]] == [
        f"Read with care: {both}",  # less than 90 % read
        f"Read with care: {both}",  # more than 10 % failed
        f"Read with care: brier of reference/bayesian in urns, direct; {both}",  # few questions
        "Do not compare rows: brier in urns, direct: 0 to 12 questions",
        "Not shown: martingale of reference/bayesian in urns, direct",
        "Read with care: reference/bayesian in urns, direct",  # one epoch
    ]
    assert "| failed |" in report(frame)


def test_a_page_keeps_its_own_text(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    run(urns(n=30, paradigms="brier"), epochs=1)
    frame = load(tmp_path / "logs")
    save(frame, chart, tmp_path / "new.md", report)
    assert (tmp_path / "new.md").read_text().count("| urns, direct | reference/bayesian | 0.") == 1
    assert (tmp_path / "new.svg").read_text().startswith("<svg")
    page = tmp_path / "page.md"
    page.write_text("Before.\n<!-- results: by this -->\nold\n<!-- end -->\nAfter.\n")
    save(frame, chart, page, report)
    text = page.read_text()
    assert text.startswith("Before.\n<!-- results: by this -->\n### Chart\n")
    assert "\n### `brier`\n" in text
    assert text.endswith("<!-- end -->\nAfter.\n")
    assert "old" not in text
    page.write_text("Before.\n")
    with pytest.raises(BadInput, match="has no lines `<!-- results -->`"):
        save(frame, chart, page, report)


def test_folders_without_scores_are_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no logs in"):
        load(tmp_path)
    run(urns(n=1), score=False)
    with pytest.raises(BadInput, match="none of the 1 logs has a score; score them with"):
        load(tmp_path / "logs")
    run(urns(n=1, paradigms="brier"))
    with pytest.raises(BadInput, match="none of the 2 logs has a score of truthgym/length"):
        load(tmp_path / "logs", "length")
    with pytest.raises(BadInput, match="brierr"):
        load(tmp_path / "logs", "brierr")


@pytest.fixture(scope="module")
def by_skill(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six models of known skill on twelve urns."""
    folder = tmp_path_factory.mktemp("skill")
    models = [get_model("reference/bayesian", noise=noise) for noise in (0, 0.1, 0.2, 0.3, 0.4)]
    evaluate(urns(n=12, paradigms="brier"), [*models, get_model("reference/contrarian")], folder, epochs=1)
    return folder


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw scores of twelve questions."""
    monkeypatch.setattr(performance, "FEW_QUESTIONS", 12)


def arena(folder: Path, *extra: str) -> Path:
    """A table in which the ability of each model falls with its noise."""
    path = folder / "arena.csv"
    rows = [f"reference/bayesian noise={noise},{1500 - 1000 * noise:.0f}" for noise in (0, 0.1, 0.2, 0.3, 0.4)]
    path.write_text("\n".join(["model,elo", *rows, *extra]) + "\n")
    return path


@pytest.mark.usefixtures("few")
def test_scores_are_compared_with_an_ability(by_skill: Path, tmp_path: Path) -> None:
    frame = load(by_skill, x="elo", ability=arena(tmp_path), y="negated", groups="noise=noisy", labels="bayesian=Bayes")
    ranks = stats.spearmanr(*frame.dropna(subset="x")[["x", "score"]].to_numpy().T).statistic
    (correlation,) = frame.attrs["correlations"]
    assert (correlation["rho"], correlation["n"], correlation["setup"]) == (pytest.approx(-ranks), 5, "urns, direct")
    assert "reference/contrarian has no known elo" in " ".join(frame.attrs["notes"])
    assert set(frame["group"]) == {"noisy", "others"}
    rule, interval, point, label = chart(frame).to_dict()["vconcat"][0]["layer"]
    assert rule["encoding"]["y"]["datum"] == -0.25
    assert interval["encoding"]["y"]["title"].startswith("minus brier (untransformed: lower is better")
    assert label["encoding"]["text"]["field"] == "label"
    assert point["encoding"]["x"]["title"] == "elo"
    subtitle = chart(frame).to_dict()["vconcat"][0]["title"]["subtitle"]
    assert subtitle[0].startswith("Spearman of elo and better scores: ")
    assert "5 models" in report(frame)


@pytest.mark.usefixtures("few")
def test_what_the_user_leaves_out_is_on_the_figure(by_skill: Path) -> None:
    frame = load(by_skill, exclude="contrarian,noise=0.4", y="log")
    assert len(frame) == 4
    spec = chart(frame).to_dict()
    assert spec["title"]["text"] == "Left out: reference/contrarian, reference/bayesian noise=0.4"
    assert spec["vconcat"][0]["layer"][0]["encoding"]["x"]["datum"] == pytest.approx(math.log(0.25))
    assert "Left out by the user: reference/contrarian" in report(frame, "x.svg")


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("exclude", ["", "noise=0.4"])
def test_few_models_or_undrawn_ones_have_no_rank_correlation(by_skill: Path, tmp_path: Path, exclude: str) -> None:
    for path in by_skill.glob("*.eval"):
        log = read_eval_log(str(path))
        assert log.results
        if not exclude and log.eval.model_args.get("noise") == 0.4:
            log.results.scores[0].metrics["share_scored"].value = 0.5
        write_eval_log(log, str(tmp_path / path.name))
    frame = load(tmp_path, x="elo", ability=arena(tmp_path), y="negated", exclude=exclude)
    assert frame.attrs["correlations"] == []
    assert any("4 models with a known elo are too few; 5" in note for note in frame.attrs["notes"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": "elo"}, "x='elo' is not 'name' or 'size'; give the table"),
        ({"x": "eloo", "extra": ""}, "has no column 'eloo'; did you mean 'elo'"),
        ({"x": "elo", "extra": "reference/contrarian,high"}, "line 7: elo 'high' is not a number"),
        ({"x": "elo", "extra": "reference/bayesian noise=0,1"}, "'reference/bayesian noise=0' twice"),
        ({"exclude": "nobody"}, "no model or setup contains 'nobody'"),
        ({"exclude": "urns"}, "nothing is left of 6 rows"),
        ({"groups": "qwen"}, "'qwen' has no '='"),
    ],
)
def test_what_cannot_be_used_is_named(by_skill: Path, tmp_path: Path, arguments: dict[str, str], message: str) -> None:
    options: dict[str, Any] = {name: value for name, value in arguments.items() if name != "extra"}
    if "extra" in arguments:
        options["ability"] = str(arena(tmp_path, arguments["extra"]))
    with pytest.raises(BadInput, match=re.escape(message)):
        load(by_skill, **options)
