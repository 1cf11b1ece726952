"""Options from a file or by name: read as those of the command line are."""

from pathlib import Path
from typing import Any

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.training.trainers.options import build, parse_options

NAMED = {"model_name_or_path": "base", "dataset_name": "data"}


def test_a_number_is_the_same_in_a_file_and_on_the_command_line(tmp_path: Path) -> None:
    config = tmp_path / "sft.yaml"
    config.write_text(
        'num_train_epochs: 1\nseed: "7"\nlora_target_modules: all-linear\nlog: logs/one\nmax_length: null\n'
    )
    read = parse_options("sft", ["--config", str(config), "--model_name_or_path", "base"])
    assert read.log == ["logs/one"], "not its letters"
    assert read.max_length is None
    settings = [build("sft", parse_options("sft", NAMED | {"num_train_epochs": epochs}), False) for epochs in (1, 1.0)]
    assert str(settings[0].settings()) == str(settings[1].settings()), "or they would name two models"


@pytest.mark.parametrize(
    ("told", "part"),
    [
        ({"learning_rate": None}, "learning_rate has no value"),
        ({"output_dir": None}, "output_dir has no value"),
        ({"num_train_epochs": [1]}, "it takes one value"),
        ({"seed": {"a": 1}}, "takes no options of its own"),
        ({"num_train_epochs": "two"}, "invalid float value"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_by_name(told: dict[str, Any], part: str) -> None:
    with pytest.raises(BadInput, match=part):
        parse_options("sft", NAMED | told)


def test_an_environment_that_is_none_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "sft.yaml"
    config.write_text("env: 3\n")
    with pytest.raises(BadInput, match="env is 3"):
        parse_options("sft", ["--config", str(config)])
