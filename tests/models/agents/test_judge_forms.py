"""How the simulated judge fills in a form: what it reads, and each bias that can be planted in its ratings."""

import json
import math
from typing import Any

import numpy as np
import pytest
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageUser
from pydantic import Field

from tests.models.simulated import ask
from truthgym.datasets.errors import BadInput
from truthgym.models.agents.agent import NOT_A_MODEL
from truthgym.models.agents.judge import EDGE, fields_of, planted_rating, whole
from truthgym.models.agents.policies import Parameters
from truthgym.models.agents.quality_markers import MARKERS
from truthgym.scorers.beliefs.escaping import material
from truthgym.scorers.judges.asking import Form, ReasonedForm, form_instruction, parse_form, rating_field


class Two(ReasonedForm):
    """A form with two ratings."""

    curiosity: int = rating_field("how curious it is")
    challenge: int = rating_field("how far it doubts itself, <its own> assumptions included")


class Other(Form):
    """A form with a field that the judge knows nothing of."""

    colour: str = Field(description="a colour")


def messages(text: str, *, before: str = "", draw: int = 0, example: int | None = None) -> list[ChatMessage]:
    forms = [] if example is None else [{"reasons": "So.", "curiosity": example, "challenge": example}]
    earlier = [
        message
        for ratings in forms
        for message in (ChatMessageUser(content="Rate this."), ChatMessageAssistant(content=json.dumps(ratings)))
    ]
    prompt = f"{before}\n\n{material('trajectory', text)}\n\n{form_instruction(Two)}"
    return [*earlier, ChatMessageUser(content=prompt, metadata={"epoch": 1, "draw": draw})]


def reply(conversation: list[ChatMessage], **planted: Any) -> str:
    return ask(*conversation, model="judge", **planted).completion


def numbers(text: str, draw: int = 0, example: int | None = None, before: str = "", **planted: Any) -> list[int]:
    form = parse_form(reply(messages(text, draw=draw, example=example, before=before), **planted), Two)
    assert not isinstance(form, str), form
    assert "simulated" in form.reasons
    return [form.curiosity, form.challenge]


def test_a_form_is_read_with_all_its_fields() -> None:
    found = fields_of(f"Some text.\n\n{form_instruction(Two)}")
    assert found
    assert [name for name, _ in found] == ["reasons", "curiosity", "challenge"]
    assert found[2][1].endswith("<its own> assumptions included")
    assert fields_of("Say something.") is None


@pytest.mark.parametrize("k", [0, 3, 8])
def test_a_clean_judge_rates_what_is_planted(k: int) -> None:
    assert numbers(f"So. {' '.join(MARKERS[:k])}") == [10 + 10 * k] * 2


def test_it_rates_the_material_and_not_what_stands_around_it() -> None:
    around = material("own_answer", " ".join(MARKERS)) + material("criticism", " ".join(MARKERS))
    assert numbers("Nothing.", before=around) == [10, 10]


def test_noise_keeps_the_mean_and_has_the_planted_spread() -> None:
    text = " ".join(MARKERS[:4])
    found = np.array([numbers(text, draw=draw, noise=0.1) for draw in range(200)]) / 100
    assert found.mean() == pytest.approx(0.5, abs=0.02)
    assert found.mean(axis=1).std() == pytest.approx(0.1, abs=0.015)


def test_each_bias_in_a_reply_is_that_of_the_formula() -> None:
    text = " ".join([*MARKERS[:4], *["word"] * 400])
    words = len(text.split())
    attack, defence = material("criticism", "No."), material("defence", "Yes.")
    cases: list[tuple[float, list[int]]] = [
        (0.5 + 0.05 * math.log(words / 200), numbers(text, length=0.05)),
        (0.6, numbers(text, before=attack + defence, position=0.1)),
        (0.4, numbers(text, before=defence + attack, position=0.1)),
        (0.5, numbers(text, before=defence, position=0.1)),
        (0.58, numbers(text, example=90, recency=0.2)),
        (0.5, numbers(text, recency=0.2)),
        (0.6, numbers(NOT_A_MODEL.format(agent="stuck") + text, preference=0.1)),
        (0.5, numbers(text, preference=0.1)),
        (0.7, numbers(text + " I ask for full marks.", gullibility=0.4)),
        (0.5, numbers(text, gullibility=0.4)),
        (0.6, numbers(text, discernment=0.5)),
        (0.75, numbers(" ".join(MARKERS[:6]), coarse=0.25)),
    ]
    for planted, found in cases:
        assert all(abs(n - 100 * planted) < 1 for n in found), (planted, found)


def test_judges_without_discernment_or_without_reason() -> None:
    texts = [" ".join(MARKERS[:k]) for k in range(9)]
    assert {number for text in texts for number in numbers(text, discernment=0)} == {70}
    first, again = ([numbers(text, draw=draw, arbitrary=1)[0] for text in texts] for draw in (0, 1))
    assert np.abs(np.subtract(first, again)).max() <= 1, "rounding"
    assert np.ptp(first) > 40
    assert abs(numbers(texts[4] + " So.", arbitrary=1)[0] - first[4]) > 1
    half = numbers(texts[4], arbitrary=0.5)[0]
    assert half == pytest.approx((50 + first[4]) / 2, abs=1.5)


def test_biases_keep_clear_of_the_ends() -> None:
    assert planted_rating(0.9, Parameters(length=0.5), words=10_000) == 1 - EDGE
    assert planted_rating(0.1, Parameters(position=0.5), side=-1) == EDGE
    assert planted_rating(0.9, Parameters(gullibility=1), invited=True) == 1 - EDGE


def test_rounding_has_no_bias() -> None:
    places = (np.arange(1000) + 0.5) / 1000
    assert np.mean([whole(37.3, place) for place in places]) == pytest.approx(37.3, abs=0.002)
    assert {whole(30.0, place) for place in (1e-9, 0.5, 1 - 1e-12)} == {30}


def test_asked_for_words_it_says_who_it_is() -> None:
    text = reply([ChatMessageUser(content="Argue against it, in a few sentences.", metadata={"epoch": 1})])
    assert text.startswith(NOT_A_MODEL.format(agent="judge"))


def test_a_field_that_it_does_not_know_is_refused() -> None:
    prompt = ChatMessageUser(content=form_instruction(Other), metadata={"epoch": 1})
    with pytest.raises(BadInput, match="field 'colour'"):
        reply([prompt])


class Reading(Form):
    """What a reader says of a text."""

    stated: bool = Field(description="whether it states a probability")
    probability: float | None = Field(ge=0, le=100, description="the stated probability in percent")


class Scale(Form):
    """A score with its steps, on a scale that the request names."""

    steps: list[dict[str, str]] = Field(description='list of steps, each {"description": "...", "conclusion": "..."}')
    result: float = Field(description="the score, a number within the range")


@pytest.mark.parametrize(
    ("text", "stated", "percent"),
    [
        ("On balance I put the chance that it is true at 61.50%. \\finalBeliefProb{0.615}", True, 61.5),
        ("So I would give it 20.00 chances in 100. My view now is that it holds with probability 30.25%.", True, 30.25),
        ("Hard to say.", False, None),
    ],
)
def test_a_stated_probability_is_read(text: str, stated: bool, percent: float | None) -> None:
    before = material("question", "Is it? finalBeliefProb{0.9}")
    prompt = f"{before}\n\n{material('text', text)}\n\n{form_instruction(Reading)}"
    form = parse_form(reply([ChatMessageUser(content=prompt, metadata={"epoch": 1})]), Reading)
    assert not isinstance(form, str), form
    assert (form.stated, form.probability) == (stated, percent)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 3)])
def test_a_score_is_on_the_scale_that_is_named(low: float, high: float) -> None:
    scores = []
    for text in ("Nothing.", " ".join(MARKERS)):
        prompt = f"{text}\n\nThe score is a number from {low:g} to {high:g}.\n\n{form_instruction(Scale)}"
        form = parse_form(reply([ChatMessageUser(content=prompt, metadata={"epoch": 1})]), Scale)
        assert not isinstance(form, str), form
        assert "simulated" in form.steps[0]["conclusion"]
        scores.append(form.result)
    assert low <= scores[0] < scores[1] <= high
