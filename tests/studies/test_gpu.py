"""studies/gpu/: what it starts is what the installed Inspect, TRL and accelerate take. Nothing is run on a GPU."""

import dataclasses
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from inspect_ai._cli.main import inspect as cli
from inspect_ai.log import write_eval_log

from tests.fixtures import Run
from truthgym.tasks.worlds import urns

pytest.importorskip("trl")
from studies.gpu import compare

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


def test_vllm_itself_takes_the_servers_options() -> None:
    arguments = pytest.importorskip("vllm.entrypoints.openai.cli_args").FrontendArgs
    engine = pytest.importorskip("vllm.engine.arg_utils").AsyncEngineArgs
    known = {field.name for kind in (arguments, engine) for field in dataclasses.fields(kind)}
    named = {word[2:].replace("-", "_") for word in ways("grpo")[SERVER].server if word.startswith("--")}
    assert named | {"dtype", "max_model_len", "gpu_memory_utilization"} <= known


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


def test_ratios_are_to_the_first_way_that_ran() -> None:
    def result(*seconds: float) -> list[compare.Result | None]:
        return [compare.Result(second, 3) if second else None for second in seconds]

    shown = compare.table({"plain": result(10, 20, 30), "half": result(5, 15, 10), "broken": result(1, 0, 1)})
    assert "time, plain = 1" in shown
    assert "| half | 0.50 (0.33 to 0.75) | 3.0 |" in shown
    assert "| broken | failed | |" in shown
    assert "time, half = 1" in compare.table({"plain": result(0), "half": result(1)})
