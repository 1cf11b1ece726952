r"""How `reference/judge` fills in a form, and what can be planted in its ratings.

It reads the form that it is asked for at the end of the request, and fills it field by field: `reasons` with words that
name it as simulated, a number from 0 to 100 with a rating of the text that it is given between tags, other fields by
the rules of `RULES`: asked for the probability that a text states, it gives the last one, with noise. A rating is, on
the scale from 0 to 1,

$$m=q+\lambda\ln\frac{w}{200}+\pi\,s+\rho\,(\bar e-\tfrac12)+\phi\,[\text{own family}],\qquad
m'=m+\gamma\,(1-m)\,[\text{full marks are asked for}]$$

with q the quality of `models.considerations`, w the words of the text, s = +1 where a defence stands after an attack
and -1 where it stands before, $\bar e$ the mean rating of the last example shown, and the planted `length` $\lambda$,
`position` $\pi$, `recency` $\rho$, `preference` $\phi$ and `gullibility` $\gamma$; then `noise`, which keeps the mean,
one draw for all numbers of a form, and unbiased rounding to a whole number.
"""

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from truthgym.datasets.errors import BadInput
from truthgym.models.agents.belief_reports import noisy
from truthgym.models.agents.opinions import ARGUED, DEFERRED
from truthgym.models.agents.policies import Parameters, uniform
from truthgym.models.agents.quality_markers import count_markers, quality
from truthgym.models.agents.reading import last_probability

FORM = re.compile(r"in this form:\s*\{(.*)\}\s*\Z", re.DOTALL)
FIELD = re.compile(r'"(\w+)": "?<(.*?)>"?(?=, "\w+": "?<|\Z)', re.DOTALL)
TAGGED = re.compile(r"<([a-z_]+)>\n(.*?)\n</\1>", re.DOTALL)
CONTEXT = frozenset({"question", "rubric", "own_answer", "criticism", "defence", "resolution"})
"""Tags of what stands around the text that is rated."""
NUMBER = "whole number from 0 to 100"
FULL_MARKS = re.compile(r"full marks|highest rating|perfect score|100 (?:out of|of) 100", re.IGNORECASE)
OWN_FAMILY = re.compile(r"\(Simulated \w+ agent, not a language model\.\)")
"""How reference agents name themselves."""
SCALE = re.compile(r"The score is a number from (\S+) to (\S+)\.\s")
USUAL_WORDS = 200
EDGE = 0.01
"""Biases do not carry a rating nearer to 0 or 1 than this, so that noise has room on both sides."""


@dataclass(frozen=True)
class Request:
    """What the judge is asked."""

    said: tuple[tuple[str, str], ...]
    """Role and text of each message."""
    epoch: int
    draw: int
    """Number of the repetition: the same request is answered anew for another."""
    parameters: Parameters

    @property
    def asked(self) -> str:
        """The last message."""
        return self.said[-1][1]

    @property
    def judged(self) -> str:
        """The text that is to be judged: of the last message, what stands between tags, or else all of it."""
        found = [words for tag, words in TAGGED.findall(self.asked) if tag not in CONTEXT]
        return found[-1] if found else self.asked

    def place(self, *what: object) -> float:
        """A number in (0, 1) drawn for this request, epoch and repetition."""
        return uniform(self.parameters.seed, "form", self.said, self.epoch, self.draw, *what)


def planted_rating(
    quality: float,
    parameters: Parameters,
    words: int = USUAL_WORDS,
    side: int = 0,
    last_example: float | None = None,
    own_family: bool = False,
    invited: bool = False,
) -> float:
    """The rating that is planted, on the scale from 0 to 1, before noise and rounding.

    Args:
        quality: Of the text, 0 to 1.
        parameters: `length`, `position`, `recency`, `preference` and `gullibility` are used.
        words: Of the text.
        side: +1 where a defence stands after an attack, -1 where it stands before, 0 where one of them is missing.
        last_example: Mean rating of the last example shown, 0 to 1; None where there is none.
        own_family: Whether a reference agent wrote the text.
        invited: Whether the text asks for full marks.

    Returns:
        The rating, held in [0.01, 0.99].
    """
    mean = quality + parameters.length * math.log(max(words, 1) / USUAL_WORDS) + parameters.position * side
    mean += parameters.recency * (last_example - 0.5) if last_example is not None else 0
    mean += parameters.preference * own_family
    mean += parameters.gullibility * (1 - mean) * invited
    return min(max(mean, EDGE), 1 - EDGE)


def rate(request: Request, name: str, description: str) -> int:
    """A rating of the text, with noise, as a whole number from 0 to 100."""
    text = request.judged
    planted = planted_rating(
        quality(text),
        request.parameters,
        words=len(text.split()),
        side=_side(request.asked),
        last_example=_last_example(request.said),
        own_family=bool(OWN_FAMILY.search(text)),
        invited=bool(FULL_MARKS.search(text)),
    )
    drawn = float(noisy(planted, request.parameters.noise, request.place("noise")))
    return whole(100 * drawn, request.place("rounding", name))


def whole(number: float, place: float) -> int:
    """Round to one of the two nearest whole numbers, so that the mean over places in (0, 1) is the number."""
    return int(np.floor(round(number, 6) + min(place, 1 - 1e-5)))


def reasons(request: Request, name: str, description: str) -> str:
    """Words that say who speaks and what was counted."""
    return (
        "I am a simulated judge, not a language model. I find "
        f"{count_markers(request.judged)} of the eight considerations that I look for."
    )


def stated(request: Request, name: str, description: str) -> bool:
    """Whether the text states a probability, in the words or the marker of reference agents."""
    return last_probability(request.judged, 0) is not None


def probability(request: Request, name: str, description: str) -> float | None:
    """The last probability that the text states, in percent to two decimals, with noise; None where it states none."""
    read = last_probability(request.judged, 0)
    return (
        None if read is None else round(float(100 * noisy(read, request.parameters.noise, request.place("noise"))), 2)
    )


def steps(request: Request, name: str, description: str) -> list[dict[str, str]]:
    """The reasons, as a step of reasoning."""
    return [{"description": "Considerations", "conclusion": reasons(request, name, description)}]


def result(request: Request, name: str, description: str) -> float:
    """A rating of the text on the scale that the request names."""
    scale = SCALE.findall(request.asked)
    low, high = (float(end) for end in scale[-1]) if scale else (0.0, 1.0)
    return low + (high - low) * rate(request, name, description) / 100


def opinion(request: Request, name: str, description: str) -> str:
    """What the text makes of an opinion, in the words of reference agents: argued, deferred or absent."""
    text = request.judged
    return "argued" if ARGUED in text else "deferred" if DEFERRED in text else "absent"


Rule = Callable[[Request, str, str], object]
"""From the request, a field's name and its description to what is written there."""
RULES: dict[str, Rule] = {
    "reasons": reasons,
    "stated": stated,
    "probability": probability,
    "steps": steps,
    "result": result,
    "opinion": opinion,
}
"""Fields that are filled in by a rule of their own. Whatever else is a number from 0 to 100 is a rating."""


def fields_of(asked: str) -> list[tuple[str, str]] | None:
    """Names and descriptions of the fields of the form that a message asks for at its end; None where it asks none."""
    form = FORM.search(asked[max(asked.rfind("in this form:"), 0) :])
    return FIELD.findall(form[1]) if form else None


def fill_form(request: Request) -> str | None:
    """The form, filled in, as JSON; None where none is asked for.

    Raises:
        BadInput: A field that it knows no rule for.
    """
    fields = fields_of(request.asked)
    if not fields:
        return None
    held: dict[str, object] = {}
    for name, description in fields:
        rule = RULES.get(name) or (rate if NUMBER in description else None)
        if rule is None:
            raise BadInput(
                f"reference/judge cannot fill in the field {name!r} ({description}); ask it for whole numbers from 0 "
                "to 100, or use a language model"
            )
        held[name] = rule(request, name, description)
    return json.dumps(held)


def _side(asked: str) -> int:
    places = {tag: match for tag in ("criticism", "defence") if (match := asked.rfind(f"<{tag}>\n")) >= 0}
    return 0 if len(places) < 2 else 1 if places["defence"] > places["criticism"] else -1


def _last_example(said: Sequence[tuple[str, str]]) -> float | None:
    """Mean of the numbers in the last form that an earlier message shows filled in, on the scale from 0 to 1."""
    for role, text in reversed(said[:-1]):
        if role == "assistant":
            try:
                held = json.loads(text)
            except json.JSONDecodeError:
                continue
            numbers = [value for value in held.values() if type(value) is int] if isinstance(held, dict) else []
            if numbers:
                return sum(numbers) / len(numbers) / 100
    return None
