"""What TRL hands a reward function: completions and the columns of the dataset."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from truthgym.evallog.errors import bad_input

Columns = Mapping[str, object]


def texts(completions: Sequence[object]) -> list[str]:
    """The answer in each completion: the text, or that of the last message of a conversation."""
    return [text_of(completion) for completion in completions]


def text_of(held: object) -> str:
    """The text of a completion or prompt, as TRL hands it over: a text, or messages of which the last counts."""
    if isinstance(held, list):
        held = held[-1]["content"] if held else ""
    if isinstance(held, list):
        held = "\n".join(str(block.get("text") or "") for block in held)
    return held if isinstance(held, str) else ""


def column(columns: Columns, name: str, what: str) -> list[Any]:
    """A column of the dataset, one entry for each completion.

    Args:
        columns: What TRL gave.
        name: The column.
        what: What it holds, for the error.

    Raises:
        BadInput: The dataset has none of that name.
    """
    held = columns.get(name)
    if not isinstance(held, list):
        raise bad_input(
            f"The dataset has no column {name} ({what}); train on what `truthgym convert --to prompts` writes, or add "
            "the column"
        )
    return held


def log(columns: Columns, name: str, value: float) -> None:
    """Log a figure beside the reward, where there is one and TRL takes it."""
    take = columns.get("log_metric")
    if callable(take) and value == value:
        cast(Callable[[str, float], None], take)(name, value)
