"""What TRL hands a reward function."""

from typing import Any

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.training.reward_functions.text_batch import column, log, message_text


@pytest.mark.parametrize(
    ("completion", "text"),
    [
        ("plain", "plain"),
        ([{"role": "assistant", "content": "said"}], "said"),
        ([{"role": "tool", "content": "4"}, {"role": "assistant", "content": "so 4"}], "so 4"),
        ([{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}], "a\n"),
        ([{"role": "assistant", "content": None}], ""),
        ([], ""),
        (None, ""),
    ],
    ids=["text", "message", "last", "blocks", "nothing", "empty", "none"],
)
def test_the_answer_is_the_last_message(completion: Any, text: str) -> None:
    assert message_text(completion) == text


def test_a_missing_column_is_named() -> None:
    assert column({"target": ["yes"]}, "target", "the truth") == ["yes"]
    with pytest.raises(BadInput, match=r"no column target \(the truth\).*convert --to prompts"):
        column({}, "target", "the truth")


def test_figures_are_logged_where_there_are_any() -> None:
    figures: dict[str, float] = {}
    log({"log_metric": figures.__setitem__}, "a", 1.0)
    log({"log_metric": figures.__setitem__}, "b", float("nan"))
    log({}, "c", 1.0)
    assert figures == {"a": 1.0}
