"""Clients: models that are asked where they are, by Inspect's names. Whether they can be made shows before a run."""

from collections.abc import Mapping
from typing import Any

from truthgym.datasets.inspect_private import PrerequisiteError
from truthgym.evallog.errors import bad_input

LOCAL = ("hf/", "vllm/")
"""How models are named that Inspect loads into this machine."""


def check_client(name: str, args: Mapping[str, Any] | None = None) -> None:
    """Refuse a model that Inspect does not know, or whose key is not there. Local ones are not loaded for that.

    Args:
        name: As `inspect eval --model` takes it.
        args: Its arguments, as with `-M`.

    Raises:
        BadInput: It cannot be made.
        PrerequisiteError: Inspect's own, where a key or a package is not there.
    """
    from inspect_ai.model import get_model

    if name.startswith(LOCAL):
        return
    try:
        get_model(name, memoize=False, **(args or {}))
    except PrerequisiteError:
        raise
    except Exception as error:  # each provider fails in its own way
        raise bad_input(
            f"Inspect cannot make the model {name}: {error} Models are named as in openai/gpt-5.4-mini, and a local "
            "one as hf/FOLDER"
        ) from error
