"""A respondent, through prompts and replies: letters are credited to the options, in whatever place they stand."""

import asyncio
import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from inspect_ai.model import ChatMessage, Logprob, Logprobs, Model, ModelOutput, ModelUsage, TopLogprob, get_model

from truthgym.datasets.errors import BadInput
from truthgym.datasets.progress import questionnaire
from truthgym.models.agents.respondent import Choice, Respondent, written_letter
from truthgym.scorers.statistics.value_vectors import contributions, value_vector

ITEMS = questionnaire().pools["eval"][:4]
UPHOLDING = {option for item in ITEMS for option, names in zip(item.options, item.upholds, strict=True) if names}


def model(first: Callable[[list[str]], float] | None) -> Model:
    """A model whose probability of the letter A is a function of the two options as they are shown. None: without."""

    def generate(messages: list[ChatMessage], *_: object) -> ModelOutput:
        output = ModelOutput.from_content("mockllm/model", "A")
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        if first:
            p = first(re.findall(r"^[A-D]\. (.*)$", messages[-1].text, re.M))
            tokens = [TopLogprob(token=letter, logprob=math.log(x)) for letter, x in (("A", p), ("B", 1 - p))]
            content = [Logprob(token="A", logprob=math.log(p), top_logprobs=tokens)]
            output.choices[0].logprobs = Logprobs(content=content)
        return output

    return get_model("mockllm/model", custom_outputs=generate, memoize=False)


def choices(first: Callable[[list[str]], float] | None, elicitation: str = "logprobs") -> list[Choice]:
    respondent = Respondent(lambda: agent, "somebody", elicitation=elicitation, cache=False)  # type: ignore[arg-type]
    agent = model(first)
    return asyncio.run(respondent.choices(ITEMS))


def vector(answers: list[Choice]) -> np.ndarray:
    values = value_vector(contributions([answer.p for answer in answers], ITEMS))
    return values[np.isfinite(values)]


def test_opposite_agents_have_opposite_vectors_and_a_letter_has_none() -> None:
    keeps = choices(lambda options: 0.8 if options[0] in UPHOLDING else 0.2)
    breaks = choices(lambda options: 0.2 if options[0] in UPHOLDING else 0.8)
    letter = choices(lambda options: 0.9)
    assert vector(keeps) == pytest.approx(0.6), "0.8 - 0.2"
    assert vector(breaks) == pytest.approx(-0.6)
    assert vector(letter) == pytest.approx(0, abs=1e-9)
    assert [letter.position for letter in letter] == pytest.approx([math.log(9)] * 4)
    assert [keep.position for keep in keeps] == pytest.approx([0] * 4, abs=1e-9)
    assert [choice.p for choice in choices(None, "letter")] == [(0.5, 0.5)] * 4, "always A"


def test_a_model_without_log_probabilities_is_told_of_letters() -> None:
    with pytest.raises(BaseExceptionGroup) as raised:
        choices(None)
    assert raised.group_contains(BadInput, match="gives no log-probabilities; add -T elicitation=letter")


def test_a_written_letter() -> None:
    assert [written_letter(text, 2) for text in ("B", "(a) it is", " **A**", "C", "Both", "")] == [
        "B", "A", "A", None, None, None
    ]  # fmt: skip
