"""Keys in the options of a run stand in nothing that is printed or written about it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import GenerateConfig, ModelConfig
from inspect_ai.scorer import Score, Scorer, Target, accuracy, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

from tests.fixtures import evaluate, says
from truthgym.cli.main import command_named
from truthgym.datasets import fetch
from truthgym.training.closed_loop.options import open_folder, parse_config
from truthgym.training.lineage import record
from truthgym.training.reward_functions.resolve import resolve_rewards
from truthgym.training.trainers.model_card import ModelCard, write_card
from truthgym.training.trainers.options import build_options, parse_options
from truthgym.ui.repeat import repeat

KEY = "pLaNtEd5ecret9"
SETTINGS: dict[str, Any] = {
    "a": f"sk-{KEY}abc",
    "b": f"hf_{KEY}",
    "base_url": f"http://user:{KEY}@host:8000/v1",
    "headers": {"Authorization": f"Bearer {KEY}", "X-Api-Key": KEY},
    "text": f"Call it with api_key={KEY}, and\ntoken: '{KEY}'. " + "Be careful. " * 30,
    "api_key": KEY,
    "nested": {"one": [{"token": KEY}], "pairs": [["api-key", KEY]]},
    "words": ["run", "--hub_token", KEY],
    "query": f"https://host/x?token={KEY}&a=1",
    "password": KEY,
    "aws": {"AWS_SECRET_ACCESS_KEY": KEY},
    "json": f'{{"client_secret": "{KEY}"}}',
    "from_the_environment": f"{KEY} in a sentence",
}
REWARD = f"http://user:{KEY}@127.0.0.1:9"


@scorer(metrics=[accuracy()])
def keyed(**settings: Any) -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        return Score(value="C" if len(state.input_text) % 2 else "I")

    return score


@solver
def asks(**settings: Any) -> Solver:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        return await generate(state)

    return solve


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two logs whose every option holds keys, and other ones in each."""
    folder = tmp_path / "logs"
    for number in range(2):
        settings = SETTINGS | {"number": number, "key": f"{KEY}{number}12345678"}
        samples = [Sample(id=f"q{i}", input="x" * i, target="x") for i in range(1, 41)]
        mode = {"mode": f"sk-{KEY}abc"}
        task = Task(samples, asks(**settings), scorer=keyed(**settings), name="plain", metadata=mode)
        (log,) = evaluate(task, says("x"), folder)
        written = read_eval_log(log.location)
        written.eval.task_registry_name = "plain"
        written.eval.task_args, written.eval.solver, written.eval.solver_args = settings, "asks", settings
        written.eval.model_args = settings | {"api_key": f"{KEY}{number}"}
        written.eval.model_generate_config = GenerateConfig(extra_headers={"Authorization": KEY}, temperature=number)
        written.eval.model_roles = {"grader": ModelConfig(model=f"m/{number}", args=settings, base_url=REWARD)}
        write_eval_log(written, log.location)
    return folder


def said(*words: str | Path) -> str:
    """What a command prints, its error included."""
    result = CliRunner().invoke(command_named(str(words[0])), list(map(str, words[1:])))
    return f"{result.output} {result.exception if result.exit_code else ''}"


def everything(logs: Path, out: Path) -> Iterator[str]:
    """What is printed about runs with keys. Files are written below `out`."""
    files = sorted(map(str, logs.glob("*.eval")))
    report = said("report", logs, "--out", out / "report")
    assert "index.html" in report, report
    comparison = said("compare", *files)
    assert "keyed" in comparison, comparison
    rows = said("convert", logs, "--to", "sft", "--any-task", "--all", "--out", out / "data")
    assert "rows of train" in rows, rows
    yield from (report, comparison, rows, repeat(files[0]))
    settings = {name: value for name, value in SETTINGS.items() if name != "words"}
    card = ModelCard("grpo", "base", "x@main", "hf/x", "data", config={"reward": [REWARD], "hub_token": KEY} | settings)
    write_card(out / "trained", replace(card, notes=[f"The rewards are of {REWARD}."], rewards={REWARD: "0" * 64}))
    record("eval", {f"model:sk-{KEY}abc": "0" * 64}, store=out / ".lineage", parameters=SETTINGS,
           failure={"message": f"password={KEY}"})  # fmt: skip
    yield said("lineage", "show", "0" * 64, out)
    loop = {"model_name_or_path": "x", "task": "truthgym/urns", "out": str(out / "loop")}
    config = parse_config(loop | {"train": {"reward": [REWARD], "hub_token": KEY}, "model_args": SETTINGS})
    open_folder(config)
    source = fetch.Source(lambda *_: iter(()), "CC BY 4.0")  # type: ignore[attr-defined]
    (out / "rows.jsonl").write_text('{"id": "q"}\n')
    snapshot = fetch.Snapshot(out / "rows.jsonl", 1, "0" * 64, fetch.Counter())  # type: ignore[attr-defined]
    began = fetch.datetime.now(fetch.UTC)  # type: ignore[attr-defined]
    text = fetch._card("forecasting", "archive", source, {"x": REWARD, "token": KEY, "y": SETTINGS}, began, snapshot)
    (out / "rows.md").write_text(text)
    assert "-T x=http://[hidden]@127.0.0.1:9" in text.replace("'", "")
    yield from (said("fetch", "forecasting", "-T", f"{REWARD}", "--out", out / "x.jsonl"), said(
        "fetch", "nowhere", "--source", REWARD, "--out", out / "x.jsonl"))  # fmt: skip
    yield said("train", "grpo", "--model_name_or_path", REWARD, "--task", "truthgym/urns", "--reward", REWARD)
    (reward,) = resolve_rewards([REWARD], {})
    yield reward.name
    with pytest.raises(Exception, match="cannot be reached") as error:
        reward.sources  # type: ignore[attr-defined]  # noqa: B018
    yield str(error.value)


def test_no_key_is_printed_or_written(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", f"{KEY} in a sentence")
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.chdir(out)
    for text in everything(logs, out):
        assert KEY not in text, text[max(text.index(KEY) - 300, 0) :][:400]
    for path in out.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert KEY.encode() not in content, (path, content[max(content.index(KEY.encode()) - 300, 0) :][:400])
    card = yaml.safe_load((out / "trained" / "README.md").read_text().split("---\n")[1])
    assert card["truthgym"]["config"]["reward"] == ["http://[hidden]@127.0.0.1:9"]
    assert card["truthgym"]["config"]["headers"] == {"Authorization": "[hidden]", "X-Api-Key": "[hidden]"}


def test_the_hubs_token_reaches_the_hub_and_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_TOKEN", "")
    words = ["--model_name_or_path", "x", "--dataset_name", "y", "--output_dir", str(tmp_path), "--hub_token", KEY]
    arguments = build_options("sft", parse_options("sft", words), False)
    assert arguments.training.hub_token is None
    assert __import__("os").environ["HF_TOKEN"] == KEY
