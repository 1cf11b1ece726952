"""From the options of the command line to those of a search, and back for the script that repeats it."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

import yaml
from pydantic import ValidationError

from truthgym.datasets.errors import BadInput
from truthgym.scorers.rubrics.rubric import BUNDLED, read_json, rubric_json
from truthgym.training.search.config import SearchConfig

MODELS = ("initializer", "proposer", "judge")
PROTOCOL = ("votes", "language", "extraction")
"""Options that are fields of the protocol."""


def config_of(given: Mapping[str, Any]) -> SearchConfig:
    """The options of a search."""
    fields: dict[str, Any] = {name: value for name, value in given.items() if name not in PROTOCOL}
    for name in MODELS:
        if name in fields:
            fields[name] = model_spec(fields[name], name)
    if "verifiers" in fields:
        fields["verifiers"] = [model_spec(verifier, "verifier") for verifier in fields["verifiers"]]
    if "initial_rubric" in fields:
        fields["initial_rubric"] = inline(fields["initial_rubric"])
    protocol = {"votes": 2} | {name: given[name] for name in PROTOCOL if name in given}
    if "extraction" in protocol:
        protocol["extraction"] = _yaml(str(protocol["extraction"]), "extraction")
    try:
        return SearchConfig.model_validate_json(json.dumps(fields | {"protocol": protocol}))
    except ValidationError as error:
        problems = [
            f"{'.'.join(str(part) for part in one['loc'])}={one['input']!r}: {one['msg']}" for one in error.errors()
        ]
        raise BadInput(f"rubric search: {'; '.join(problems)}") from None


def options_of(given: Mapping[str, Any]) -> list[str]:
    """The options as they are written on a command line."""
    written = []
    for name, value in given.items():
        option = f"--{'verifier' if name == 'verifiers' else name.replace('_', '-')}"
        if isinstance(value, bool):
            written.append(option if value else f"--no-{option[2:]}")
        else:
            for one in value if isinstance(value, tuple | list) else [value]:
                written += [option, str(one)]
    return shlex.split(shlex.join(written))


def model_spec(text: str, option: str) -> dict[str, Any]:
    """A model's name, arguments and settings."""
    found = _yaml(text, option) if text.lstrip().startswith("{") else {"model": text}
    if not isinstance(found, dict) or "model" not in found:
        raise BadInput(f"--{option} names no model; give a name, or {{model: NAME, model_args: {{...}}}}")
    return found


def inline(source: str) -> str:
    """A rubric as JSON text in place of its file's path, so that a record of the run needs no other file."""
    return source if source in BUNDLED else rubric_json(read_json(source, "rubric")[0])


def _yaml(text: str, option: str) -> Any:  # noqa: ANN401
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise BadInput(f"--{option} is not YAML; write it as {{name: value}}") from None
