import re
import shutil
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pandas as pd
import pytest
from click.testing import CliRunner
from inspect_ai import score
from inspect_ai.log import EvalError, EvalMetric, read_eval_log, write_eval_log
from inspect_ai.model import ChatMessage, ModelUsage
from markupsafe import escape

from tests.fixtures import Run, number, says, score_of
from truthgym.analysis import catalog, categories, health, performance
from truthgym.analysis.site.analyses import ANALYSES, analysis, parse_options
from truthgym.analysis.site.build import build
from truthgym.analysis.site.overview import sample_link
from truthgym.analysis.site.page import html_of, inline
from truthgym.analysis.tables.answers import answers
from truthgym.cli.report import command
from truthgym.datasets.errors import BadInput
from truthgym.evallog.schema import Outcome
from truthgym.scorers.brier import brier
from truthgym.scorers.martingale import martingale
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.tasks.worlds import urns


@pytest.fixture(scope="module")
def site(mixed_logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    result = CliRunner().invoke(command, [str(mixed_logs), "--out", str(out)])
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture
def plain(mixed_logs: Path) -> Path:
    """The log of a task that is not ours."""
    return next(path for path in mixed_logs.glob("*.eval") if "plain" in path.name)


@pytest.mark.parametrize("name", ANALYSES)
def test_every_analysis_has_a_page_with_its_numbers(site: Path, mixed_logs: Path, name: str) -> None:
    html = (site / f"{name}.html").read_text()
    overview = unescape((site / "index.html").read_text())
    module = analysis(name)
    assert f"<h1>{escape(module.QUESTION)}</h1>" in html
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", html), "a page must open without a network"
    try:
        frame = module.load(mixed_logs)
    except BadInput:
        assert "Nothing can be shown: " in html
        assert f'href="{name}.html"' not in overview
        assert f"<li>{module.QUESTION} " in overview
        return
    assert f'<a href="{name}.html">{module.QUESTION}</a>' in overview
    assert f'href="{name}.csv"' in html
    assert len(pd.read_csv(site / f"{name}.csv")) == len(frame)
    start = html.find('id="chart"')
    for note in frame.attrs.get("notes", []):
        assert html.count(f"<li>{inline(note)}</li>") == 1
        assert start < 0 or html.index(inline(note)) < start, "notes come before the figure"


def test_the_first_page_has_each_estimate_with_the_models_own_words(site: Path, mixed_logs: Path) -> None:
    html = (site / "index.html").read_text()
    frame = performance.load(mixed_logs)
    for row in frame[frame["scorer"].str.startswith("brier")].to_dict("records"):
        if pd.notna(row["score"]):
            assert f"{row['score']:.3f}" in html
    assert html.count('<section class="domain"') == frame["domain"].nunique()
    assert "Nothing can be concluded: fewer than 30 questions have a score." in html
    assert "Perhaps 12.5 or 3, likely: right" in html
    assert "spans_reference" not in html + (site / "performance.html").read_text()


def confident(messages: list[ChatMessage]) -> str:
    """A model that is as sure as the number of letters of the question says, and writes HTML."""
    return f"<b>I know\u202e</b> it. {'x' * 400}\n\\finalBeliefProb{{{0.5 + len(messages[-1].text) % 50 / 100:.2f}}}"


def test_a_domain_has_a_sentence_a_plot_and_three_conversations(run: Run, tmp_path: Path) -> None:
    for model in ("reference/random", says(confident)):
        run(urns(n=40, paradigms="brier"), model, epochs=1)
    run(urns(n=40, paradigms="brier"), solver=chain_of_thought(steps=1), epochs=1)
    only, out = ["performance", "leaderboard"], tmp_path / "site"
    viewer = "http://127.0.0.1:7575/"
    build(tmp_path / "logs", out, only, say=lambda line: None, viewer=viewer)
    html = (out / "index.html").read_text()
    assert (
        "No difference between reference/random and mockllm/model is shown; 1 of 3 is better than always one half"
        in html
    )
    cards = re.findall(r"<article.*?</article>", html, re.DOTALL)
    assert len(cards) == 12  # three of each run, and three of all
    worst = next(card for card in cards[:9] if "Worst confident error" in card and "I know" in card)
    assert "<b>" not in worst
    assert "\u202e" not in worst
    words = re.search("<summary><q>(.*?)</q>", worst, re.DOTALL)
    assert words
    assert words[1].startswith("&lt;b&gt;I know &lt;/b&gt; it. xxx")
    assert len(unescape(words[1])) == 240
    log = read_eval_log(str(next(path for path in (tmp_path / "logs").glob("*") if path.name in worst)))
    scores = {str(sample.id): number(sample, "brier", "brier_score") for sample in log.samples or []}
    sample_id = max(scores, key=scores.__getitem__)
    assert f"sample {sample_id}, epoch 1" in worst
    address = f"{viewer}#/logs/{Path(log.location).name}/samples/sample/{sample_id}/1"
    assert f'<a href="{address}">' in worst
    build(tmp_path / "logs", out, only, say=lambda line: None, viewer="../elsewhere")
    assert f'href="../elsewhere/#/logs/{Path(log.location).name}' in (out / "index.html").read_text()


def test_by_divides_the_questions_and_ranks(run: Run, tmp_path: Path) -> None:
    for model in ("reference/random", "reference/bayesian"):
        run(urns(n=40, paradigms="brier"), model, epochs=1)
    arguments = [str(tmp_path / "logs"), "--out", str(tmp_path), "--by", "target"]
    only = [word for name in ("leaderboard", "categories", "catalog") for word in ("--only", name)]
    assert CliRunner().invoke(command, [*arguments, *only]).exit_code == 0
    assert set(pd.read_csv(tmp_path / "categories.csv")["category"]) == {"yes", "no"}
    assert "urns, direct, target yes" in (tmp_path / "leaderboard.html").read_text()
    assert re.search("[Ww]orst on ", (tmp_path / "categories.html").read_text())
    with pytest.raises(BadInput, match="Give one, as in: truthgym report LOGS --out DIR --by FIELD. .*have: .*target"):
        categories.load(tmp_path / "logs")


@pytest.mark.parametrize("sample_id", ["a b", "one/two", "50%", "ü#?"])
def test_a_sample_id_is_quoted_in_its_address(sample_id: str) -> None:
    link = sample_link("v/#/logs/x.eval", Outcome(id=sample_id, epoch=2))
    assert unquote(link.removeprefix("v/#/logs/x.eval/samples/sample/").removesuffix("/2")) == sample_id
    assert link.count("/") == 7


def test_charts_are_drawn_without_a_network_and_saved_as_pictures(site: Path) -> None:
    pytest.importorskip("vl_convert")
    html = (site / "health.html").read_text()
    assert '<script src="charts.js"></script>' in html
    assert 'vegaEmbed("#chart", spec' in html
    assert "vegaEmbed" in (site / "charts.js").read_text()
    assert (site / "health.svg").read_text().startswith("<svg")
    assert (site / "health.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "label", "only"),
    [
        ({}, "brier", ["trajectories", "performance"]),
        ({"about": "proposition"}, "brier", ["trajectories", "agreement"]),
        ({"read": "token"}, "brier read=token", []),  # all pages
    ],
)
def test_a_later_pass_of_a_scorer_fails_no_page(
    urn_logs: Path, tmp_path: Path, options: dict[str, Any], label: str, only: list[str]
) -> None:
    log = read_eval_log(str(next(urn_logs.glob("*.eval"))))
    for scorer in (brier(**options), martingale(per="step")):
        log = score(log, scorer, action="append", display="log")
    for sample in log.samples or []:
        score_of(sample, "brier1").value["brier_score"] = 0.125  # type: ignore[index]
    write_eval_log(log, str(tmp_path / "log.eval"))
    findings = {page.name: page for page in build(tmp_path, tmp_path / "site", only, say=lambda line: None)}
    assert [(finding.name, finding.refusal) for finding in findings.values() if finding.failed] == []
    rows = answers(tmp_path)
    later = rows[(rows["scorer"] == label) & (rows["key"] == "brier_score")]
    assert (len(later), set(later["value"])) == (80, {0.125})  # 40 questions in 2 epochs
    assert set(rows["scorer"]) == {"brier", label, "martingale", "martingale per=step"}
    trajectories = findings["trajectories"].frame
    assert trajectories is not None
    assert not trajectories[trajectories["scorer"] == label].duplicated(["sample_id", "epoch"]).any()


def test_logs_of_other_projects_get_what_applies_and_reasons(plain: Path, tmp_path: Path) -> None:
    findings = {page.name: page for page in build(plain, tmp_path, say=lambda line: None)}
    assert not any(finding.failed for finding in findings.values())
    assert findings["health"].frame is not None
    assert findings["catalog"].frame is not None
    assert "1 run of 1 model in 1 setup, with 1 answer." in (tmp_path / "index.html").read_text()
    scores = findings["performance"].frame
    assert scores is not None
    assert list(scores["scorer"]) == ["match"]
    assert scores["n"].tolist() == [1]
    assert "There is no chart: None of 1 scores has 30" in (tmp_path / "performance.html").read_text()


def test_a_log_of_another_project_is_drawn_with_inspects_interval(plain: Path, tmp_path: Path) -> None:
    log = read_eval_log(str(plain))
    assert log.results
    score = log.results.scores[0]
    log.eval.dataset.samples, log.results.total_samples = 50, 50
    log.results.completed_samples = score.scored_samples = 50
    score.metrics = {name: EvalMetric(name=name, value=value) for name, value in (("accuracy", 0.6), ("stderr", 0.07))}
    write_eval_log(log, str(tmp_path / "log.eval"))
    frame = performance.load(tmp_path)
    row = frame.iloc[0]
    half = 2.00958 * 0.07  # t quantile with 49 degrees of freedom
    assert [row["n"], row["score"], row["lower"], row["upper"]] == pytest.approx([50, 0.6, 0.6 - half, 0.6 + half])
    assert "inspect_stderr" in row["flags"]
    assert performance.chart(frame).to_dict()["vconcat"][0]["title"]["text"] == "match"


def test_an_analysis_that_fails_does_not_cost_the_others(
    mixed_logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "load", lambda logs: 1 / 0)
    result = CliRunner().invoke(
        command, [str(mixed_logs), "--out", str(tmp_path), "--only", "health", "--only", "catalog"]
    )
    assert result.exit_code == 1
    assert "division by zero" in (tmp_path / "health.html").read_text()
    assert 'href="health.html"' in (tmp_path / "index.html").read_text()
    assert "<table>" in (tmp_path / "catalog.html").read_text()
    assert not (tmp_path / "performance.html").exists()
    with pytest.raises(BadInput, match="did you mean 'health'"):
        build(mixed_logs, tmp_path, ["helth"])


def test_options_of_an_analysis_are_given_on_the_command_line(mixed_logs: Path, tmp_path: Path) -> None:
    options = ["performance.exclude=min_confidence", "performance.labels=bayesian=Bayes", "leaderboard.key=nope"]
    arguments = [word for option in options for word in ("-A", option)]
    only = ["--only", "performance", "--only", "leaderboard"]
    result = CliRunner().invoke(command, [str(mixed_logs), "--out", str(tmp_path), *only, *arguments])
    assert result.exit_code == 0, result.output
    frame = pd.read_csv(tmp_path / "performance.csv")
    assert not frame["model"].str.contains("min_confidence").any()
    assert set(frame.loc[frame["scorer"] == "brier", "label"]) == {"Bayes"}
    html = (tmp_path / "performance.html").read_text()
    assert "With <code>exclude=min_confidence</code>, <code>labels=bayesian=Bayes</code>." in html
    assert "Nothing can be shown: No score with a better end and the key" in (tmp_path / "leaderboard.html").read_text()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("performance.y=negative", "Unknown y 'negative'; did you mean 'negated'"),
        ("performance.labels", "-A performance.labels cannot be used; write ANALYSIS.NAME=VALUE"),
        ("performance.label=a", "Unknown option of performance 'label'; did you mean 'labels'"),
        ("performence.x=size", "Unknown analysis 'performence'; did you mean 'performance'"),
        ("catalog.x=size", "catalog.x: catalog has no options; leave it out"),
        ("power.effect=0.1", "Unknown analysis with options 'power'; known: performance, catalog"),
    ],
)
def test_an_option_that_cannot_be_used_says_why(plain: Path, tmp_path: Path, option: str, message: str) -> None:
    if ".y=" in option:
        counts = build(plain, tmp_path, ["performance"], say=lambda line: None, options=parse_options([option]))
        assert message in counts[0].refusal
    else:
        with pytest.raises(BadInput, match=re.escape(message)):
            build(plain, tmp_path, ["performance", "catalog"], options=parse_options([option]))


def test_charts_load_from_a_cdn_without_vl_convert(
    plain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], no_pictures: None
) -> None:
    build(plain, tmp_path, ["health"], say=lambda line: None)
    assert "need a network connection" in capsys.readouterr().err
    assert "https://cdn.jsdelivr.net/npm/vega-lite@" in (tmp_path / "health.html").read_text()
    assert not (tmp_path / "health.svg").exists()


def test_the_viewer_is_bundled_and_runs_link_to_it(plain: Path, tmp_path: Path) -> None:
    copied = tmp_path / "other" / plain.name
    copied.parent.mkdir()
    shutil.copy(plain, copied)
    out = tmp_path / "site"
    build([copied], out, ["catalog"], bundle=True, say=lambda line: None)
    assert (out / "viewer" / "logs" / plain.name).is_file()
    link = f'<a href="viewer/index.html#/logs/{plain.name}"><code>{plain.name}</code></a>'
    assert link in (out / "catalog.html").read_text()


def test_a_page_is_text_and_aligns_columns_of_numbers() -> None:
    markdown = "| model | score |\n|---|---|\n| <b>x</b> \\| y | 0.1 [0.0, 0.2] |\n| z | - |\n\n- Few.\n\n![c](c.svg)\n"
    html = html_of(
        [],
        {},
        title="Which?",
        here="a.html",
        markdown=markdown,
        notes=["Few."],
        figure="c.svg",
        spec='{"a": "<!--<script x</script>"}',
    )
    assert "&lt;b&gt;x&lt;/b&gt; | y" in html
    assert '<th class="figure">score</th>' in html
    assert '<td class="figure">0.1 [0.0, 0.2]</td>' in html
    assert '<td class="short">z</td>' in html
    assert html.count("Few.") == 1
    assert '<span class="chart" id="chart"><img src="c.svg" alt="c"></span>' in html
    assert '{"a": "\\u003c!--\\u003cscript x\\u003c/script>"}' in html


def test_health_counts_what_the_log_holds(mixed_logs: Path) -> None:
    frame = health.load(mixed_logs)
    silent = frame[frame["model"].str.contains("min_confidence") & (frame["scorer"] == "brier")].set_index("problem")
    log = read_eval_log(str(silent.loc["read", "log"]))
    beliefs = [score_of(sample, "brier").metadata["belief"] for sample in log.samples or []]  # type: ignore[index]
    unread = sum(belief is None for belief in beliefs)
    assert 0 < unread < 12
    assert (silent.loc["unread", "count"], silent.loc["read", "count"]) == (unread, 12 - unread)
    assert silent.loc["unread", "reason"] == "No single belief could be read in the answer ..., which begins: ..."
    assert (silent["of"] == 12).all()
    assert f"{12 - unread} of 12 answers" in " ".join(frame.attrs["notes"])


def test_health_tells_errors_cuts_and_judges_apart(plain: Path, tmp_path: Path) -> None:
    log = read_eval_log(str(plain))
    sample = (log.samples or [])[0]
    others = [sample.model_copy(deep=True, update={"id": i, "uuid": f"u{i}"}) for i in range(4)]
    others[0].output.choices[0].stop_reason = "max_tokens"
    others[1].error = EvalError(message="Timeout after 5 s", traceback="", traceback_ansi="")
    others[1].scores = {}
    for other, reason in ((others[2], "The judge returned an empty reply."), (others[3], "No number.")):
        score_of(other, "match").value = float("nan")
        score_of(other, "match").reason = reason
    probes = [{"value": None, "raw": "I cannot forecast this."}, {"value": 0.5, "raw": "Even.", "repaired": "50"}]
    score_of(others[0], "match").metadata = {"beliefs": probes}
    others[3].output.choices[0].message.content = "I\u2019m sorry, but I can't say."
    log.samples = others
    write_eval_log(log, str(tmp_path / "log.eval"))
    frame = health.load(tmp_path)
    assert set(frame["of"]) == {4}
    assert "Of 1 run, 0 have a score for every answer." in health.report(frame)
    counts = {(row["problem"], row["reason"]): row["count"] for row in frame.to_dict("records")}
    assert counts.pop(("declined", "")) == 2, "an answer and a probe"
    assert counts == dict.fromkeys([
        ("read", ""), ("missing", ""), ("truncated", "max_tokens"), ("error", "Timeout after ... s"),
        ("judge", "The judge returned an empty reply."), ("unread", "No number."), ("repaired", "")], 1)  # fmt: skip
    examples = frame.set_index("problem")["example"]
    assert examples["declined"] == "0, epoch 1: 'I cannot forecast this.'"
    assert examples["unread"].startswith('3, epoch 1: "I’m sorry')


def test_a_cost_of_which_a_part_is_unknown_is_unknown(mixed_logs: Path, tmp_path: Path) -> None:
    log = read_eval_log(next(str(path) for path in mixed_logs.glob("*urns*")))
    log.stats.model_usage["reference/bayesian"].total_cost = 1.5
    write_eval_log(log, str(tmp_path / "a.eval"))
    assert catalog.load(tmp_path)["cost"].tolist() == [1.5]
    log.stats.model_usage["judge"] = ModelUsage(input_tokens=5, output_tokens=5)
    write_eval_log(log, str(tmp_path / "a.eval"))
    assert catalog.load(tmp_path)["cost"].isna().all()


def test_the_catalog_marks_what_does_not_count(mixed_logs: Path, tmp_path: Path) -> None:
    names = ["done", "again", "started", "alone"]
    first = read_eval_log(next(str(path) for path in mixed_logs.glob("*urns*")))
    for i, name in enumerate(names):
        log = first.model_copy(deep=True)
        log.eval.created = f"2026-01-0{i + 1}T00:00:00+00:00"
        log.eval.eval_id = name
        log.eval.task_id = {"again": "second", "alone": "third"}.get(name, "first")
        log.status = "success" if i < 2 else "error"
        write_eval_log(log, str(tmp_path / f"{name}.eval"))
    shutil.copy(tmp_path / "again.eval", tmp_path / "copy.eval")
    frame = catalog.load(tmp_path)
    assert frame[["eval_id", "counts"]].to_numpy().tolist() == [
        ["alone", "unfinished"], ["started", "superseded"], ["again", "yes"], ["again", "copy"], ["done", "repeated"]
    ]  # fmt: skip
    assert [note.partition(": 1.")[0].partition(" run again")[0] for note in frame.attrs["notes"][:2]] == [
        "Runs that never finished", "Finished runs that were"]  # fmt: skip
    row = frame.iloc[-1]
    assert (row["questions"], row["epochs"], row["answers"], row["failed"]) == (6, 2, 12, 0)
    usage = first.stats.model_usage["reference/bayesian"]
    assert (row["tokens_in"], row["tokens_out"]) == (usage.input_tokens, usage.output_tokens)
