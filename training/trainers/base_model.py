"""The model that training starts from: whether it can be used, and its tokenizer."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.evallog.errors import bad_input

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

LOCAL_PREFIXES = ("hf/", "vllm/")
"""How Inspect names models that it loads on this machine."""
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")


def check_model(name: str, args: Mapping[str, Any] | None = None) -> None:
    """Check before a run that Inspect can create a model. Local models are not loaded, and not checked."""
    from inspect_ai.model import get_model

    from truthgym.datasets.inspect_private import PrerequisiteError

    if name.startswith(LOCAL_PREFIXES):
        return
    try:
        get_model(name, memoize=False, **(args or {}))
    except PrerequisiteError:
        raise
    except Exception as error:  # each provider fails in its own way
        raise bad_input(
            f"Inspect cannot create the model {name}: {error} Name a model as in openai/gpt-5.4-mini, and a local one "
            "as hf/FOLDER."
        ) from error


def base_config(name: str, revision: str = "main", trust_remote_code: bool = False) -> Any:  # noqa: ANN401
    """The configuration of a model, without its weights."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(name, revision=revision, trust_remote_code=trust_remote_code)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        kind = "folder" if Path(name).is_dir() else "model"
        raise bad_input(
            f"The {kind} {name} cannot be loaded: {reason} Give a folder that save_pretrained, `truthgym models` or "
            "`truthgym train` wrote, or the name of a model on the Hub (OWNER/NAME)."
        ) from None


def base_tokenizer(
    name: str, revision: str = "main", trust_remote_code: bool = False, conversational: bool = True
) -> "PreTrainedTokenizerBase":
    """The tokenizer of a model."""
    from transformers import AutoTokenizer

    folder = Path(name)
    # Without this check, transformers 5 would create an empty tokenizer of the model's type.
    if folder.is_dir() and not any((folder / file).is_file() for file in TOKENIZER_FILES):
        raise bad_input(
            f"{name} contains a model without a tokenizer (none of {', '.join(TOKENIZER_FILES[:3])}); save one with "
            f"AutoTokenizer.from_pretrained(...).save_pretrained({name!r})."
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision, trust_remote_code=trust_remote_code)
    except Exception as error:  # each kind of tokenizer fails in its own way
        raise bad_input(f"The tokenizer of {name} cannot be read: {error}") from None
    if conversational and not tokenizer.chat_template:
        raise bad_input(
            f"The tokenizer of {name} has no chat template, and the data are conversations; train the model's chat "
            "version, or put a template into the folder as chat_template.jinja."
        )
    return tokenizer
