"""studies/gpu/: what it starts is what the installed Inspect, TRL and accelerate take, and loop.py on a CPU."""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from inspect_ai._cli.main import inspect as cli
from inspect_ai.log import write_eval_log

from tests.fixtures import Run
from truthgym.tasks.worlds import urns

pytest.importorskip("trl")
from studies.gpu import compare, loop

KINDS = ["eval", "grpo", "zero"]
SERVER = "vLLM, server on a second GPU"
TRAINED = [
    ("grpo", "transformers"),
    ("grpo", "vLLM, colocate"),
    ("grpo", SERVER),
    *(("zero", name) for name in ("transformers, one GPU", "DDP", "ZeRO-2", "ZeRO-3")),
]


def ways(kind: str, place: Path = Path("out", "0-0")) -> dict[str, compare.Way]:
    return compare.ways(kind, "org/model", 4, place)


def words(way: compare.Way) -> tuple[str, list[str]]:
    """The method and the options of `truthgym train`."""
    assert way.command[:4] == [*compare.TRUTHGYM, "train"]
    return way.command[4], way.command[5:]


def test_every_way_is_checked_here() -> None:
    assert [(kind, name) for kind in ("grpo", "zero") for name in ways(kind)] == TRAINED
    assert list(ways("eval")) == ["transformers", "vLLM"]
    assert [name for kind in KINDS for name, way in ways(kind).items() if way.server] == [SERVER]


@pytest.mark.parametrize("name", ["transformers", "vLLM"])
def test_inspect_takes_the_evals_options(name: str) -> None:
    program, verb, *arguments = ways("eval")[name].command
    assert (program, verb) == ("inspect", "eval")
    given = cli.commands["eval"].make_context("eval", arguments).params
    assert (given["tasks"], given["solver"]) == (("truthgym/urns",), "truthgym/chain_of_thought")
    assert {"dtype=bfloat16"} < set(given["m"])


def model_arguments(name: str) -> dict[str, Any]:
    from inspect_ai._util.config import parse_cli_args

    return parse_cli_args(cli.commands["eval"].make_context("eval", ways("eval")[name].command[2:]).params["m"])


def test_vllm_gets_options_that_trl_gives_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from inspect_ai.model._providers import vllm
    from trl.scripts.vllm_serve import ScriptArguments, build_command

    started: dict[str, Any] = {}

    def start(command: list[str], **options: Any) -> tuple[str, None, int]:
        started.update(options, command=command)
        return "http://localhost:9/v1", None, 9

    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
    monkeypatch.setattr(vllm, "start_local_server", start)
    arguments = model_arguments("vLLM")
    vllm.VLLMAPI("org/model", **arguments)
    assert started["command"][:3] == ["vllm", "serve", "org/model"]
    monkeypatch.delitem(sys.modules, "vllm")
    options = {f"--{name.replace('_', '-')}" for name in started["server_args"]}
    assert options == {"--dtype", "--max-model-len", "--gpu-memory-utilization"}, "lazy_init is Inspect's own"
    assert options <= set(build_command(ScriptArguments(model="m", max_model_len=1)))


def test_transformers_takes_the_evals_options(tmp_path: Path) -> None:
    from inspect_ai.model._providers.hf import HuggingFaceAPI

    from truthgym.training.tiny import tiny

    given = model_arguments("transformers") | {"device": "cpu", "model_path": str(tiny(tmp_path, steps=0))}
    model = HuggingFaceAPI("compared:v1", **given).model
    assert str(model.dtype) == "torch.bfloat16"


@pytest.mark.parametrize(("kind", "name"), TRAINED)
def test_trl_and_accelerate_take_the_trainings_options(kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from truthgym.training.trainers import accelerate_launch as launch
    from truthgym.training.trainers.options import build_options, parse_options

    way = ways(kind)[name]
    method, options = words(way)
    parsed = parse_options(method, options)
    training = build_options(method, parsed, False).training
    assert training.max_steps == compare.STEPS[kind]
    if kind == "grpo":
        mode = (training.use_vllm, training.vllm_mode if training.use_vllm else None)
        expected = {"transformers": (False, None), "vLLM, colocate": (True, "colocate")}
        assert mode == expected.get(name, (True, "server"))
        return
    assert parsed.log == [str(Path("out", "data"))]
    started: list[list[str]] = []
    monkeypatch.setattr(launch, "visible_gpus", lambda: 4)
    monkeypatch.setattr("os.execv", lambda program, line: started.append(line))
    alone = launch.start(method, options, parsed)
    assert alone == (way.processes == 1)
    if not alone:
        from accelerate.commands.config.config_args import load_config_from_file  # type: ignore[import-untyped]
        from accelerate.commands.launch import launch_command_parser  # type: ignore[import-untyped]

        launched = launch_command_parser().parse_args(started[0][3:])
        file = load_config_from_file(launched.config_file)
        assert (launched.num_processes, way.processes) == (4, 4)
        assert (file.deepspeed_config or {}).get("zero_stage") == {"ZeRO-2": 2, "ZeRO-3": 3}.get(name)
        assert launched.training_script_args == ["train", method, *options]


def test_the_server_is_the_one_that_trl_asks_for() -> None:
    from truthgym.training.trainers.options import parse_options

    way = ways("grpo")[SERVER]
    port = way.server[way.server.index("--port") + 1]
    assert parse_options(*words(way)).vllm_server_base_url == f"http://127.0.0.1:{port}"
    assert "--weight-transfer-config" in way.server


def test_times_are_those_of_the_log_and_of_transformers(run: Run, tmp_path: Path) -> None:
    from transformers.trainer_utils import speed_metrics

    log = run(urns(n=2, paradigms="brier"))
    log.stats.started_at, log.stats.completed_at = "2026-01-01T10:00:00+00:00", "2026-01-01T10:01:30+00:00"
    write_eval_log(log, log.location)
    assert compare.eval_seconds(tmp_path / "logs") == 90
    figures = speed_metrics("train", time.time() - 7, num_samples=1, num_steps=1)
    (tmp_path / "out" / "model").mkdir(parents=True)
    (tmp_path / "out" / "model" / "all_results.json").write_text(json.dumps(figures))
    assert compare.train_seconds(tmp_path / "out") == pytest.approx(7, abs=0.5)


def test_the_loop_runs_whole_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from truthgym.training.tiny import tiny

    monkeypatch.setattr(loop, "TEMPERATURES", (1.0,))
    monkeypatch.setattr(loop, "OTHERS", {"almanac": {"kind": "polls"}})
    model, out, work = tiny(tmp_path / "tiny", steps=0, hidden=32), tmp_path / "out", tmp_path / "work"
    words = "--steps 2 --n 2 --form-steps 2 --form-rows 3 --questions 3 --rollouts 2 --train-n 6"
    loop.main([str(model), str(out), "--work", str(work), *words.split()])
    assert {path.name for path in out.iterdir()} == {"result.md", "result.json", "answers.csv"}
    answers = pd.read_csv(out / "answers.csv")
    assert answers.groupby("model").size().to_dict() == dict.fromkeys(loop.MODELS, 8)
    trained = {name: next((work / name).glob("*/trainer_state.json")).parent for name in loop.MODELS[1:]}
    for folder in trained.values():
        assert json.loads((folder / "trainer_state.json").read_text())["global_step"] == 2
    cards = {name: (folder / "README.md").read_text() for name, folder in trained.items()}
    assert ("shuffled" in cards["grpo"], "shuffled" in cards["control"]) == (False, True)
    begun = str(trained["form"])
    assert begun in cards["grpo"]
    assert begun in cards["control"]


def test_rows_of_the_form_ask_as_an_evaluation_does(run: Run, tmp_path: Path) -> None:
    rows = loop.base_rate_rows(loop.Setup("org/model", tmp_path, form_steps=2, form_rows=6))
    log = run(urns(n=4, seed=loop.SEEDS["form"], split="train", paradigms="brier", likelihood_ratio=3.0))
    assert log.samples
    asked = {sample.messages[0].text: sample.metadata["base_rate"] for sample in log.samples}
    told = {row["prompt"][0]["content"]: row["completion"][0]["content"] for row in rows}
    assert len(told) == 12
    assert set(asked) < set(told)
    stated = [told[text] == rf"\finalBeliefProb{{{rate:.2f}}}" for text, rate in asked.items()]
    assert sum(stated) == 2, "half of the rows state the base rate itself"


def test_the_control_gives_each_question_the_rewards_of_its_own_rollouts() -> None:
    said = [0.1, 0.2, 0.3, 0.4, None, 0.9]
    completions = [[{"role": "assistant", "content": rf"\finalBeliefProb{{{p}}}" if p else "?"}] for p in said]
    columns = {"task": ["t"] * 6, "sample_id": ["a"] * 4 + ["b"] * 2, "target": ["yes"] * 6}
    given = loop.shuffled([None] * 6, completions, log_metric=lambda *_: None, **columns)
    own = [-0.81, -0.64, -0.49, -0.36, -1.0, -0.01]
    assert given != pytest.approx(own)
    assert sorted(given[:4], key=float) == pytest.approx(own[:4])  # type: ignore[arg-type]
    assert sorted(given[4:], key=float) == pytest.approx(own[4:])  # type: ignore[arg-type]


def answered(beliefs: Mapping[str, float | None], n: int = 60) -> pd.DataFrame:
    """Answers of models in every world: a belief for all questions, or None for the exact posterior."""
    rng = np.random.default_rng(0)
    rows = []
    for world in (*loop.TRAINED, *loop.OTHERS):
        base = rng.uniform(0.2, 0.8, n)
        exact = np.clip(base + rng.choice([-0.19, 0.19], n), 0.01, 0.99)
        outcome = (rng.random(n) < exact).astype(float)
        for model, belief in beliefs.items():
            own = exact if belief is None else np.full(n, belief)
            rows.append(pd.DataFrame({
                "model": model, "temperature": 1.0, "world": world, "id": range(n), "belief": own, "outcome": outcome,
                "base_rate": base, "exact": exact, "answer": "",
            }))  # fmt: skip
    return pd.concat(rows)


@pytest.mark.parametrize(
    ("grpo", "reached", "sentence"),
    [
        (None, [True, True, True], "a gain over the start and the best constant and the stated base rate."),
        (0.5, [False, True, True], "a gain over the start, but not over the best constant or the stated base rate."),
        (0.99, [False, True, False], "no gain over the start or the best constant or the stated base rate."),
    ],
    ids=["exact", "constant", "worse"],
)
def test_the_verdict_names_what_was_reached(
    grpo: float | None, reached: list[bool], sentence: str, tmp_path: Path
) -> None:
    start = 0.5 if grpo == 0.99 else 0.95
    answered({"start": start, "form": 0.5, "grpo": grpo, "control": 0.5}).to_csv(tmp_path / "answers-x.csv")
    result = loop.write(loop.Setup("org/model", tmp_path), tmp_path / "out")
    assert list(result["verdict"]["reached"].values()) == reached
    assert result["verdict"]["sentences"][0].endswith(sentence)
    rows = {(row["place"], row["who"]): row for row in result["tables"]["1"]["figures"]}
    own, exact = rows["trained on", "grpo"], rows["trained on", "exact reader"]
    assert own["read"].estimate == 1
    if grpo is None:
        assert own["brier"] == exact["brier"]
        assert (own["exact"].estimate, own["evidence"].estimate) == pytest.approx((1, 1))
    else:
        assert np.isnan(own["exact"].estimate), "answers that never vary have no correlation"
    page = (tmp_path / "out" / "result.md").read_text()
    assert result["verdict"]["sentences"][0] in page
    assert "nan" not in page
