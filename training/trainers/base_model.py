"""The model that training starts from: whether it can be had, and its tokenizer."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.evallog.errors import bad_input

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")


def base_config(name: str, revision: str = "main", trust_remote_code: bool = False) -> Any:  # noqa: ANN401
    """The configuration of a model, without its weights.

    Raises:
        BadInput: No such folder, no model in it, or a name that the hub does not give.
    """
    from transformers import AutoConfig

    if Path(name).is_dir() and not (Path(name) / "config.json").is_file():
        found = sorted(path.name for path in Path(name).iterdir())[:5]
        raise bad_input(
            f"{name} holds no model: there is no config.json in it ({', '.join(found) or 'it is empty'}); give the "
            "folder that save_pretrained wrote, that `truthgym tiny` made or that `truthgym train` finished"
        )
    if not Path(name).is_dir() and (name.count("/") != 1 or name.startswith((".", "/", "~"))) and "/" in name:
        raise bad_input(f"There is no folder {name}; give a model's folder, or its name on the hub (OWNER/NAME)")
    try:
        return AutoConfig.from_pretrained(name, revision=revision, trust_remote_code=trust_remote_code)
    except (OSError, ValueError, KeyError) as error:
        told = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if Path(name).is_dir():
            raise bad_input(f"{name}/config.json cannot be read: {told}") from None
        raise bad_input(
            f"The model {name!r} is no folder here, and the hub did not give it: {told} Correct the name, go online, "
            "or download it and give its folder"
        ) from None


def base_tokenizer(
    name: str, revision: str = "main", trust_remote_code: bool = False, conversational: bool = True
) -> "PreTrainedTokenizerBase":
    """The tokenizer of a model.

    Args:
        name: A folder, or a name on the hub.
        revision: Of the hub.
        trust_remote_code: Whether to run code that comes with it.
        conversational: Whether the data are conversations, which need a chat template.

    Raises:
        BadInput: It has no tokenizer, or none with a chat template where one is needed.
    """
    from transformers import AutoTokenizer

    where = Path(name)
    # Without this, transformers 5 would make up an empty tokenizer of the model's type.
    if where.is_dir() and not any((where / file).is_file() for file in TOKENIZER_FILES):
        raise bad_input(
            f"{name} holds a model without a tokenizer (none of {', '.join(TOKENIZER_FILES[:3])}); save it there with "
            f"AutoTokenizer.from_pretrained(...).save_pretrained({name!r})"
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision, trust_remote_code=trust_remote_code)
    except Exception as error:  # each kind of tokenizer fails in its own way
        raise bad_input(f"The tokenizer of {name} cannot be read: {error}") from None
    if conversational and not tokenizer.chat_template:
        raise bad_input(
            f"The tokenizer of {name} has no chat template, and the data are conversations; train the model's chat "
            "version, or put a template into the folder as chat_template.jinja"
        )
    return tokenizer
