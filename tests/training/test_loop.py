"""The closed loop: every stage in its folder, and a report from the logs."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner
from inspect_ai.log import list_eval_logs, read_eval_log

from truthgym.cli.main import commands
from truthgym.datasets.errors import BadInput
from truthgym.training.closed_loop import stages
from truthgym.training.closed_loop.options import open_folder, parse_config
from truthgym.training.loop import loop
from truthgym.training.providers.provider import JobStatus
from truthgym.training.trainers.model_card import read_card

AGENT: dict[str, Any] = {
    "model_name_or_path": "reference/bayesian",
    "model_args": {"noise": 0.2},
    "task": "truthgym/urns",
    "task_args": {"n": 16, "paradigms": "brier"},
    "method": "few_shot",
    "epochs": 2,
    "held_out_epochs": 2,
    "display": "log",  # with "none", Inspect would still lay out the table of results
}
"""A loop without a language model: fast, with known answers."""


def logs_in(place: Path) -> list[str]:
    """The logs of finished evaluations."""
    paths = [log.name.removeprefix("file://") for log in list_eval_logs(str(place))]
    return [path for path in paths if read_eval_log(path, header_only=True).status == "success"]


def refused(**options: Any) -> str:
    with pytest.raises(BadInput) as error:
        loop({"out": "never", **AGENT} | options)
    assert not Path("never").exists()
    return str(error.value.message).replace("\\", "")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return loop(AGENT | {"out": str(tmp_path_factory.mktemp("loops") / "agent"), "rounds": 1})


def test_a_finished_loop_resumes_with_more_rounds(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = ["0-held-out", "1a-asked", "1c-trained", "1d-held-out"]
    assert sorted(path.name for path in run.iterdir() if path.is_dir()) == places
    before = {path: path.read_bytes() for path in run.rglob("*.eval")}
    loop(AGENT | {"out": str(run), "rounds": 1})
    assert "evaluating" not in capsys.readouterr().out
    loop(AGENT | {"out": str(run), "rounds": 2})
    assert {path: path.read_bytes() for path in before} == before
    report = json.loads((run / "report.json").read_text())["tasks"]["truthgym/urns"]
    assert [row["round"] for row in report] == [0, 1, 2]
    assert report[2]["solver"] == "truthgym/few_shot"
    assert read_eval_log(str(run / report[2]["log"]), header_only=True).eval.eval_id == report[2]["eval_id"]


def test_held_out_questions_stay_the_same_and_are_on_the_card(run: Path) -> None:
    logs = {place: read_eval_log(logs_in(run / place)[0]) for place in ("0-held-out", "1a-asked", "1d-held-out")}
    ids = {place: {sample.id for sample in log.samples or []} for place, log in logs.items()}
    splits = {place: {sample.metadata["split"] for sample in log.samples or []} for place, log in logs.items()}
    assert ids["0-held-out"] == ids["1d-held-out"]
    assert splits == {"0-held-out": {"test"}, "1a-asked": {"train"}, "1d-held-out": {"test"}}
    (folder,) = (run / "1c-trained").glob("bayesian-few_shot-*")
    assert [entry["role"] for entry in read_card(folder).evals if "role" in entry] == ["base", "trained"]


def test_a_folder_holds_one_loop(tmp_path: Path) -> None:
    options = AGENT | {"out": str(tmp_path / "loop")}
    for epochs in (2, 3):  # they may change until a model answers
        out = open_folder(parse_config(options | {"epochs": epochs}))
    (out / "0-held-out").mkdir()
    with pytest.raises(BadInput, match="epochs was 3 and is 2"):
        loop(options)
    old = json.loads((out / "loop.json").read_text())  # as before there were buffers
    (out / "loop.json").write_text(json.dumps({name: old[name] for name in old if name not in ("buffer", "reference")}))
    assert open_folder(parse_config(options | {"epochs": 3})) == out
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(BadInput, match="not the folder of a loop"):
        loop(AGENT | {"out": str(tmp_path)})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["loop", "thesis.txt"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "ppo"}, "method='ppo' cannot be used"),
        ({"epoch": 3}, "Unknown option of truthgym loop 'epoch'; did you mean 'epochs'?"),
        ({"task": "truthgym/urn"}, "There is no task 'truthgym/urn'"),
        ({"task": ["truthgym/urns", "truthgym/urns"]}, "is named twice"),
        ({"task_args": {"m": 3}}, "Unknown argument of truthgym/urns 'm'"),
        ({"task_args": "{n: [}"}, "neither YAML nor JSON"),
        ({"held_out_args": {"urns": {"split": "train"}}}, "the loop sets split itself"),
        ({"task": "truthgym/research", "task_args": {"known_after": "2020-01-01"}}, "no question is left with split="),
        ({"convert": {"topp": 0.5}}, "Unknown option of --convert 'topp'; did you mean 'top'?"),
        ({"convert": {"split": "train,test"}}, "reserved for evaluation"),
        ({"generate": {"temprature": 1}}, "did you mean 'temperature'?"),
        ({"generate": {"temperature": "hot"}}, "temperature='hot' cannot be used"),
        ({"solver": "truthgym/nobody"}, "--solver truthgym/nobody cannot be"),
        ({"model_name_or_path": "Qwen/Qwen3-4B"}, "Inspect cannot create the model Qwen/Qwen3-4B"),
        ({"model_role": {"judge": "nobody/x"}}, "Inspect cannot create the model nobody/x"),
        ({"method": "dpo", "epochs": 1}, "--epochs 1: dpo"),
        ({"method": "dpo", "buffer": "rolling(0)"}, "--buffer rolling(0): the buffer is empty"),
        ({"method": "dpo", "buffer": "last"}, "--buffer last: write current, rolling(K) or full"),
        ({"method": "grpo", "buffer": "full"}, "grpo is not trained on a dataset of answers"),
        ({"method": "dpo", "convert": {"to": "sft"}}, "dpo does not learn from to=sft"),
        ({"method": "dpo", "convert": {"top": 0.1}}, "pairs are selected by --pairs"),
        ({"method": "grpo", "convert": {"top": 0.5}}, "learns from all questions"),
        ({"method": "sft", "model_name_or_path": "no/such/model"}, "The model no/such/model cannot be loaded"),
        ({"train": {"learning_rate": 1}}, "--train: few_shot"),
        ({"provider": "openai", "method": "kto"}, "openai trains by sft, dpo only"),
        ({"provider": "openai", "method": "sft", "train": {"lr": 1}}, "Unknown option of openai in --train 'lr'"),
        ({"provider": "openai", "method": "sft"}, "add --yes"),
    ],
    ids=str,
)
def test_bad_input_is_one_error_before_any_evaluation(
    options: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in refused(**options)


def test_training_options_are_checked_first(tiny_model: Path) -> None:
    options = {"method": "sft", "model_name_or_path": str(tiny_model), "model_args": {}}
    assert "unknown option --learning_rat" in refused(**options, train={"learning_rat": 1})
    assert "the loop sets dataset_name" in refused(**options, train={"dataset_name": "d"})


@pytest.mark.parametrize(
    ("buffer", "rounds"),
    [("current", [[1], [2], [3], [4]]), ("rolling(2)", [[1], [1, 2], [2, 3], [3, 4]]),
     ("full", [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4]])],
)  # fmt: skip
def test_a_buffer_holds_the_newest_rounds(buffer: str, rounds: list[list[int]]) -> None:
    config = parse_config(AGENT | {"out": "x", "method": "dpo", "buffer": buffer})
    assert [list(config.buffered_rounds(number)) for number in (1, 2, 3, 4)] == rounds


def test_the_reference_is_the_model_of_round_0() -> None:
    options = AGENT | {"out": "x", "method": "dpo", "model_name_or_path": "trained/tiny"}
    configs = [parse_config(options | change) for change in ({}, {"reference": "round"}, {"method": "sft"})]
    paths = Path("data"), Path("out")
    references = [[stages.trainer_options(config, "b", *paths, number).get("reference_model") for number in (1, 2, 3)]
                  for config in configs]  # fmt: skip
    assert references == [[None, "trained/tiny", "trained/tiny"], [None] * 3, [None] * 3]


def test_a_model_trained_at_a_provider_is_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Mock(spec_set=["name", "transient", "errors", "check", "upload", "create", "status"])
    provider.configure_mock(name="OpenAI", transient=(), errors=())
    provider.check.return_value = None
    provider.upload.return_value, provider.create.return_value = "file", "job"
    provider.status.return_value = JobStatus("done", model="reference/random")
    start = stages.Subject("reference/bayesian", "bayesian")
    monkeypatch.setattr("truthgym.training.closed_loop.stages.get_provider", lambda name: provider)
    monkeypatch.setattr("truthgym.training.closed_loop.stages.start_subject", lambda config: start)
    options = {"method": "sft", "provider": "openai", "yes": True, "train": {"n_epochs": 3}, "model_args": {}}
    options |= {"model_name_or_path": "bayesian", "convert": {"top": 1.0}}
    out = loop(AGENT | options | {"out": str(tmp_path / "loop")})
    assert provider.check.call_args.args[0].options == {"n_epochs": 3}
    provider.upload.assert_called_once()
    rows = (out / "1b-data" / "train.jsonl").read_text().splitlines()
    assert set(json.loads(rows[0])) == {"messages"}
    report = json.loads((out / "report.json").read_text())["tasks"]["truthgym/urns"]
    assert [row["model"] for row in report] == ["reference/bayesian", "reference/random"]


@pytest.mark.parametrize(
    ("options", "model", "base"),
    [
        ({}, "reference/bayesian", "reference/bayesian"),
        ({"model_name_or_path": "hf/trained/tiny"}, "hf/trained/tiny", "trained/tiny"),
        ({"model_name_or_path": "a/b", "provider": "hf"}, "hf/a/b", "a/b"),
        ({"model_name_or_path": "a/b", "method": "sft"}, "hf/a/b", "a/b"),
        ({"model_name_or_path": "gpt", "method": "sft", "provider": "openai"}, "openai/gpt", "gpt"),
    ],
)
def test_names_of_the_start_model(options: dict[str, Any], model: str, base: str) -> None:
    config = parse_config(AGENT | {"out": "x"} | options)
    assert stages.start_subject(config) == stages.Subject(model, base, config.solver, config.solver_args)


def test_inspect_closes_api_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of OpenAI and others close only where an event loop runs."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    config = parse_config(AGENT | {"out": "x", "model_args": {}, "max_tokens": 5})
    with stages.open_model(config, stages.Subject("openai/gpt-4.1-mini", "gpt-4.1-mini"), held_out=True) as model:
        assert model.config.max_tokens == 5


def test_local_models_read_one_bos_token(tiny_model: Path) -> None:
    """As in training: the chat template writes it, and Llama's tokenizers would add another one."""
    config = parse_config(AGENT | {"out": "x", "model_args": {"device": "cpu"}})
    with stages.open_model(config, stages.Subject(f"hf/{tiny_model}", str(tiny_model)), held_out=True) as model:
        api: Any = model.api
        assert api.tokenizer_call_args == {"add_special_tokens": False}


def test_a_task_without_a_split_needs_any_task(own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a hash of the samples' ids parts them, as in `truthgym convert --any-task`: nothing that is tested on is
    converted, and the score whose better end is known is what models are compared by."""
    monkeypatch.chdir(tmp_path)
    options = {"task": own, "task_args": {}, "model_name_or_path": "mockllm/model", "model_args": {}}
    assert "takes no split" in refused(**options)
    config = parse_config(AGENT | options | {"out": "loop", "method": "sft", "any_task": True})
    (train,), (test,) = stages.train_tasks(config), stages.held_out_tasks(config)
    parts = [{sample.id for sample in task.dataset} for task in (train, test)]
    assert all(parts)
    assert not parts[0] & parts[1]
    assert parts[0] | parts[1] < set(range(1, 41))  # the rest is for validation


BESIDE = """
from inspect_ai import Task, task
from inspect_ai.dataset import json_dataset
from beside import scored

@task(name="rows")
def made_of_rows():
    return Task(json_dataset("rows.jsonl"), scorer=scored())
"""


def test_a_task_file_is_loaded_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `inspect eval` does: with the data and the modules that lie beside it."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "task.py").write_text(BESIDE)
    (folder / "beside.py").write_text("from inspect_ai.scorer import includes as scored")
    (folder / "rows.jsonl").write_text("".join(f'{{"input": "{i}?", "target": "{i}"}}\n' for i in range(40)))
    (folder / "broken.py").write_text("from inspect_ai import task\n1 / 0\n@task\ndef x(): ...\n")
    monkeypatch.chdir(tmp_path)
    options = {"out": "x", "task": "mine/task.py", "task_args": {}, "method": "sft", "any_task": True}
    config = parse_config(AGENT | options)
    (task,) = stages.held_out_tasks(config)
    assert task.name == "rows"
    assert {sample.target for sample in task.dataset} < {str(i) for i in range(40)}
    assert "mine/broken.py cannot be loaded: ZeroDivisionError" in refused(task="mine/broken.py")
    (folder / "rows.jsonl").unlink()
    with pytest.raises(BadInput, match="mine/task.py cannot be loaded with {}: .*rows.jsonl"):
        stages.held_out_tasks(config)


def test_each_task_gets_its_own_arguments() -> None:
    both = ["truthgym/urns", "truthgym/forecasting"]
    args = {"n": 9, "urns": {"draws": 2}, "forecasting": {"n": 5}}
    config = parse_config(AGENT | {"out": "x", "task": both, "task_args": args, "train_args": {"likelihood_ratio": 3}})
    assert stages.task_args(config, {}, "test") == {
        "truthgym/urns": {"n": 9, "draws": 2, "split": "test"},
        "truthgym/forecasting": {"n": 5, "split": "test"},
    }
    assert stages.train_task_args(config)["truthgym/urns"]["likelihood_ratio"] == 3
    config = parse_config(AGENT | {"out": "x", "fresh": True})
    assert [stages.train_task_args(config, number)["truthgym/urns"].get("seed") for number in (1, 2, 3)] == [None, 1, 2]


def test_the_command_line_overrides_the_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr("truthgym.training.loop.loop", seen.append)
    config = tmp_path / "loop.yaml"
    config.write_text("model-name-or-path: tiny\ntask: truthgym/urns\nout: a\nepochs: 3\ntrain: {seed: 1, lora_r: 8}\n")
    words = ["--config", str(config), "--out", "b", "--task-args", "{n: 5}", "--any_task"]
    trains = ["--", "--learning_rate", "5e-4", "--use_peft", "--loss_type", "sigmoid", "sft", "--lora_r=4"]
    result = CliRunner().invoke(commands, ["loop", *words, *trains])
    assert result.exit_code == 0, result.output
    train = {"seed": 1, "lora_r": "4", "learning_rate": "5e-4", "use_peft": True, "loss_type": ["sigmoid", "sft"]}
    expected = {"model_name_or_path": "tiny", "task": "truthgym/urns", "out": "b", "epochs": 3, "task_args": "{n: 5}"}
    assert seen == [expected | {"any_task": True, "train": train}]
    result = CliRunner().invoke(commands, ["loop", *words, "--train", "{seed: 1}", *trains])
    assert "both --train and --" in result.output
    assert len(seen) == 1
