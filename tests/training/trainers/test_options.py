"""Options of `truthgym train`: their sources, their defaults, and the errors."""

import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.training.trainers.options import BY_ROLLOUTS, DEFAULTS, SHARED, build_options, lora_config, parse_options

NAMED = {"model_name_or_path": "base", "dataset_name": "data"}
WORDS = [word for key, value in NAMED.items() for word in (f"--{key}", value)]


def built(method: str, validated: bool = False, **options: Any) -> Any:
    return build_options(method, parse_options(method, NAMED | options), validated)


def test_the_command_line_overrides_the_file(tmp_path: Path) -> None:
    config = tmp_path / "sft.yaml"
    config.write_text("model_name_or_path: base\ndataset_name: data\nlearning_rate: 3e-4\nnum_train_epochs: 5\n")
    parsed = parse_options("sft", ["--config", str(config), "--num-train-epochs", "7"])
    assert (parsed.learning_rate, parsed.num_train_epochs, parsed.logging_steps) == (3e-4, 7, 0.05)
    assert parse_options("sft", [f"--config={config}"]).num_train_epochs == 5


def test_words_names_and_a_file_mean_the_same(tmp_path: Path) -> None:
    options: dict[str, Any] = {"beta": 0.2, "use_peft": True, "num_train_epochs": 1, "loss_type": "ipo"}
    options |= {"report_to": "none", "dataset_name": Path("data")}
    words = ["--beta=0.2", "--use-peft", "--num_train_epochs", "1", "--loss_type", "ipo", "--report_to", "none"]
    config = tmp_path / "dpo.yaml"
    config.write_text("beta: 2e-1\nuse_peft: true\nnum_train_epochs: 1.0\nloss_type: [ipo]\nreport_to: none\n")
    for raw in ([*WORDS, *words], [*WORDS, "--config", str(config)]):
        parsed = parse_options("dpo", raw)
        assert vars(parsed) == vars(parse_options("dpo", NAMED | options))
        settings = build_options("dpo", parsed, False).settings()
        assert str(settings) == str(built("dpo", **options).settings()), "they name one model"


def test_a_file_sets_lists_none_and_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUTHGYM_TEST", "before")
    config = tmp_path / "sft.yaml"
    config.write_text('seed: "7"\nlog: logs/one\nmax_length: null\nenv:\n  TRUTHGYM_TEST: 3\n')
    parsed = parse_options("sft", ["--config", str(config), "--model_name_or_path", "base", "--log", "logs/two"])
    assert (parsed.seed, parsed.log, parsed.max_length) == (7, ["logs/one", "logs/two"], None)
    assert parsed.user_set == {"seed", "log", "max_length", "model_name_or_path"}
    assert os.environ["TRUTHGYM_TEST"] == "3"


@pytest.mark.parametrize("method", DEFAULTS)
def test_truthgyms_defaults_replace_trls(method: str) -> None:
    task: dict[str, Any] = {"task": "truthgym/urns", "dataset_name": None} if method in BY_ROLLOUTS else {}
    arguments = built(method, **task)
    named = vars(arguments.training) | vars(arguments.model)
    for key, value in DEFAULTS[method].items():
        assert named[key] == ("all-linear" if key == "lora_target_modules" else value), key


def rows_of(page: Path) -> list[list[str]]:
    """The table below "## Defaults"."""
    section = page.read_text().split("## Defaults")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("| `")]


def as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize("method", DEFAULTS)
def test_the_pages_have_every_default(root: Path, method: str) -> None:
    by_rollouts = method in BY_ROLLOUTS
    page = rows_of(root / "docs" / ("reinforcement.md" if by_rollouts else "training.md"))
    for key, value in DEFAULTS[method].items():
        if by_rollouts and SHARED.get(key) == value:
            continue  # in training.md
        ours = [
            row for row in page if f"`{key}`" in row[0] and (by_rollouts or {"all", method} & {*row[1].split(", ")})
        ]
        assert len(ours) == 1, (method, key)
        for part in value if isinstance(value, list) else [value]:
            assert as_text(part) in ours[0][1 if by_rollouts else 2], (method, key, value)


def test_an_adapter_leaves_the_options_as_they_are() -> None:
    """PEFT adds to the lists of its configuration, and a model's name must not depend on what was trained before."""
    before = deepcopy(DEFAULTS["reward"])
    config = lora_config(parse_options("reward", NAMED | {"use_peft": True}))
    assert config
    assert config.task_type == "SEQ_CLS"
    vars(config)["modules_to_save"].append("classifier")
    assert DEFAULTS["reward"] == before


def test_defaults_that_depend_on_other_options() -> None:
    assert built("sft").training.learning_rate == 1e-5
    assert built("sft", use_peft=True).training.learning_rate == pytest.approx(1e-4)
    assert built("sft", use_peft=True, learning_rate=1e-3).training.learning_rate == 1e-3
    assert built("dpo", loss_type=["ipo"]).training.loss_weights is None
    assert built("dpo").training.loss_weights == [1.0, 0.5]
    with pytest.raises(BadInput, match="these options cannot be used together"):
        built("dpo", loss_type=["sigmoid", "sft"], loss_weights=[1.0])
    assert built("sft").training.bf16 is False, "there is no GPU here"
    assert built("sft").training.eval_strategy.value == "no"
    validated = built("sft", validated=True).training
    measures = (validated.eval_strategy.value, validated.eval_steps, validated.load_best_model_at_end)
    assert measures == ("steps", 0.1, True)
    by_epoch = built("sft", validated=True, eval_strategy="epoch").training
    assert (by_epoch.save_strategy.value, by_epoch.load_best_model_at_end) == ("epoch", True)
    assert not built("sft", validated=True, save_steps=7).training.load_best_model_at_end
    assert not built("sft", validated=True, eval_strategy="no").training.load_best_model_at_end


@pytest.mark.parametrize("method", BY_ROLLOUTS)
def test_vllm_runs_where_trls_options_say(method: str) -> None:
    def mode(**options: Any) -> str:
        task: dict[str, Any] = {"task": "truthgym/urns", "dataset_name": None, "use_vllm": True}
        return str(built(method, **task, **options).training.vllm_mode)

    assert mode() == "colocate"
    assert mode(vllm_gpu_memory_utilization=0.4, vllm_enable_sleep_mode=True) == "colocate"
    assert mode(vllm_server_base_url="http://localhost:8000") == mode(vllm_mode="server") == "server"
    with pytest.raises(BadInput, match="--vllm_tensor_parallel_size 2"):
        mode(vllm_tensor_parallel_size=2)


def test_settings_are_the_options_that_change_the_result() -> None:
    def settings(**options: Any) -> dict[str, Any]:
        return dict(built("sft", **options).settings())

    unhashed = {"output_dir": "elsewhere", "logging_steps": 1, "save_total_limit": 9, "report_to": "none"}
    unhashed |= {"overwrite": True, "run_name": "x", "gradient_checkpointing": True, "lora_r": 99, "eval_steps": 3}
    assert settings() == settings(**unhashed)
    for hashed in ({"learning_rate": 1e-3}, {"seed": 1}, {"use_peft": True}, {"max_length": 64}, {"dtype": "bfloat16"}):
        assert settings() != settings(**hashed)
    assert settings() != settings(dataset_train_split="other")
    assert settings(use_peft=True) != settings(use_peft=True, lora_r=99)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([*WORDS, "--lerning_rate", "1"], "unknown option --lerning_rate; did you mean 'learning_rate'?"),
        ([*WORDS, "--learning_rate", "fast"], "invalid float value: 'fast'"),
        ([*WORDS, "--config"], "--config has no value"),
        ([*WORDS, "--config", "missing.yaml"], "--config missing.yaml: no such file"),
        (["--dataset_name", "data"], "no model; set --model to a folder"),
        (["--model_name_or_path", "base"], "no data; give either --dataset_name FOLDER or --log LOG"),
        ([*WORDS, "--log", "a.eval"], "both --dataset_name and --log"),
        ("learning_rat: 1\n", "unknown option --learning_rat; did you mean 'learning_rate'?"),
        ("num_train_epochs: two\n", "--num_train_epochs/--num-train-epochs: invalid float value: 'two'"),
        ("- a\n- b\n", "not a mapping"),
        ("env: 3\n", "not a mapping"),
        ("a: [\n", "config.yaml: neither YAML nor JSON"),
    ],
)
def test_bad_options_and_files_are_one_error(words: list[str] | str, part: str, tmp_path: Path) -> None:
    if isinstance(words, str):  # the text of a file
        (tmp_path / "config.yaml").write_text(words)
        words = [*WORDS, "--config", str(tmp_path / "config.yaml")]
    with pytest.raises(BadInput) as refused:
        parse_options("sft", words)
    assert part in str(refused.value.message)


def test_a_templates_content_and_dropped_rows_are_hashed(tmp_path: Path) -> None:
    template = tmp_path / "chat.jinja"
    template.write_text("{{ messages }}")
    first = built("sft", chat_template_path=str(template)).settings()
    template.write_text("{{ messages[0] }}")
    assert built("sft", chat_template_path=str(template)).settings() != first
    assert built("sft", dataloader_drop_last=True).settings() != built("sft").settings()
    assert built("sft", dataloader_num_workers=2).settings() == built("sft").settings()


@pytest.mark.parametrize("method", ["sft", "dpo", "reward", "grpo"])
def test_a_bundled_file_holds_options_of_its_method(method: str, root: Path) -> None:
    file = root / "examples" / "configs" / f"{method}.yaml"
    parsed = parse_options(method, ["--config", str(file), "--learning_rate", "0.5"])
    assert parsed.learning_rate == 0.5
    assert parsed.model_name_or_path == "Qwen/Qwen3-0.6B"
