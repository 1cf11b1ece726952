"""Options by name, from a YAML file or a function's call, as words of a command line: so that both are read alike."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from truthgym.evallog.errors import bad_input


def read_options(path: Path) -> dict[str, Any]:
    """Read a YAML file of options. What it says under `env` goes into the environment, as in TRL's own scripts.

    Raises:
        BadInput: There is no such file, or it holds no options.
    """
    import yaml

    if not path.is_file():
        raise bad_input(f"--config: there is no file {path}; give the path of a YAML file")
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise bad_input(f"{path}: not YAML ({error}); write one `option: value` a line") from None
    if not isinstance(config, dict):
        raise bad_input(f"{path}: holds no options; write one `option: value` a line")
    environment = config.pop("env", None) or {}
    if not isinstance(environment, dict):
        raise bad_input(f"{path}: env is {environment!r}; write one `NAME: value` a line below it")
    for key, value in environment.items():
        os.environ[str(key)] = str(value)
    return {str(key): value for key, value in config.items()}


def as_words(
    config: Mapping[str, Any], several: frozenset[str], hints: Mapping[str, Any], place: str
) -> tuple[list[str], dict[str, Any]]:
    """Turn options into words, so that `num_train_epochs: 1` is the very number that `--num_train_epochs 1` is.

    Args:
        config: Options by name.
        several: Those that take more than one value.
        hints: The type of each.
        place: Where they stand, to name in an error.

    Returns:
        Words; and what has none, to be set as defaults: nothing, dictionaries and empty lists.

    Raises:
        BadInput: A list, a dictionary or nothing, where the option takes none.
    """
    words: list[str] = []
    rest: dict[str, Any] = {}
    for key, value in config.items():
        hint = str(hints.get(key, "None"))
        if value is None and ("None" not in hint or key == "output_dir"):
            raise bad_input(f"{place}: {key} has no value; give one, or leave the line out")
        if isinstance(value, Mapping) and "dict" not in hint:
            raise bad_input(f"{place}: {key} is {json.dumps(value, default=str)}; it takes no options of its own")
        if isinstance(value, list | tuple) and key not in several and "list" not in hint:
            raise bad_input(f"{place}: {key} is {list(value)}; it takes one value")
        if value is None or isinstance(value, Mapping) or (isinstance(value, list | tuple) and key not in several):
            rest[key] = value
        elif isinstance(value, list | tuple):
            rest |= {} if value else {key: []}
            words += [f"--{key}", *map(str, value)] if value else []
        else:
            words.append(f"--{key}={value}")
    return words, rest
