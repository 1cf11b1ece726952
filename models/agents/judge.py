r"""`reference/judge`: a simulated judge of other agents' texts, with planted noise and hindsight.

    inspect eval truthgym/urns -T 'paradigms={martingale: {elicitor: judge, joint: true}}' \
      --model reference/bayesian --model-role 'judge={model: reference/judge, model_args: {noise: 0.05, leak: 0.1}}'

Asked for the writer's belief, it reports the last probability that the text states, with noise. Asked for its own
belief, it reports that of a Bayesian that has read the same text. Asked to read a trajectory in one call, it returns a
list that begins with $p_0 + h(p_T - p_0)$: the writer's first belief plus a share $h$ (`leak`) of the total update,
which is hindsight. All entries of such a list have the same error. On bundled questions it knows the first beliefs only
of agents with the same `skill` and `seed` as its own.

Asked for prose (a criticism, or an answer of its own), it returns a fixed comment that says that it is simulated. Asked
to fill in a form, it rates the text, or compares two.

The form at the end of the request is filled in field by field: `reasons` with a sentence that names the judge as
simulated, numbers from 0 to 100 with a rating of the text between tags, and other fields by their function in `RULES`
(for the probability stated in a text, the last one, with noise). On the scale from 0 to 1, a rating is

$$q'=(1-a)\,(0.7+d\,(q-0.7))+a\,u,\qquad
m=q'+\lambda\ln\frac{w}{200}+\pi\,s+\rho\,(\bar e-\tfrac12)+\phi\,[\text{own family}],\qquad
m'=m+\gamma\,(1-m)\,[\text{full marks are asked for}]$$

where q is the quality by `models.agents.quality_markers`, d `discernment`, a `arbitrary`, u a uniform random number
fixed by the text alone, w the number of words, s = +1 if a defence comes after an
attack and -1 if it comes before, $\bar e$ the mean rating of the last example shown, and the planted biases are
`length` $\lambda$, `position` $\pi$, `recency` $\rho$, `preference` $\phi$ and `gullibility` $\gamma$. Mean-preserving
`noise` is added, one draw for all numbers of a form; `coarse` moves the result to the nearest of its levels; and it is
rounded to a whole number without bias.

Of two replies (`first_is_better`) it takes, with the probabilities `position`, `preference` and `length` in turn, the
one that is shown first, the one of its own family, or the longer one (below 0: the other). Otherwise it takes the one
of higher quality with a probability that is drawn for each pair, is what it states, and has the mean `accuracy`: it is
a calibrated judge apart from its biases. Only the choice by position differs between the two orders of a pair.

A form with the criteria of a rubric gets a grade of each on the scale that the form names. For a criterion that names a
planted sentence (`quality_markers.TOPICS`), q is whether the text has it, and d is 1: explicit criteria are what such a
judge sees sharply. Any other criterion gets the judge's general impression.
"""

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from truthgym.datasets.errors import BadInput
from truthgym.models.agents.agent import Asks, Conversation, Reply, SimulatedAgent
from truthgym.models.agents.belief_reports import nearest_level, noisy, percent
from truthgym.models.agents.policies import ARGUED, DEFERRED, Parameters, believe, uniform
from truthgym.models.agents.quality_markers import count_markers, quality, topic_quality
from truthgym.models.agents.reading import last_probability, read_conversation

NAME = "judge"
BIASES = frozenset({"length", "position", "recency", "preference", "gullibility", "discernment", "arbitrary", "coarse",
                    "accuracy"})  # fmt: skip
PARAMETERS = frozenset({"noise", "leak", "skill", "seed"}) | BIASES
OWN = "your own belief"
LIST = re.compile(r"JSON list of ([0-9]+) whole numbers")
STEPS = re.compile(r"<steps>\s*(.*?)\s*</steps>", re.DOTALL)
NUMBERS = "whole number"
"""A phrase in the last paragraph of every request for a belief."""
COMMENT = (
    "(Simulated judge agent, not a language model.)\n\nI have read it. What speaks for it and what speaks against it I "
    "leave to a reader who can tell."
)
FORM_INTRODUCED = re.compile(r"in this form:|格式如下：")
FORM = re.compile(r"\s*\{(.*)\}\s*\Z", re.DOTALL)
FIELD = re.compile(r'"(\w+)": "?<(.*?)>"?(?=, "\w+": "?<|\Z)', re.DOTALL)
TAGGED = re.compile(r"<([a-z_]+)>\n(.*?)\n</\1>", re.DOTALL)
CONTEXT = frozenset({"question", "rubric", "own_answer", "criticism", "defence", "resolution"})
"""Tags of the context around the rated text."""
FULL_MARKS = re.compile(r"full marks|highest rating|perfect score|100 (?:out of|of) 100", re.IGNORECASE)
OWN_FAMILY = re.compile(r"\(Simulated \w+ agent, not a language model\.\)")
"""The introduction of reference agents' replies."""
RUBRIC = re.compile(r"<rubric>\n(.*?)\n</rubric>", re.DOTALL)
CRITERION = re.compile(r"^- (\w+): (.*)$", re.MULTILINE)
GRADES = re.compile(r"(?:(whole )?number|(整)?数字?) (?:from )?0 (?:to|or|到|或) (\d+)")
"""A description of a grade: whether it is a whole number, and the best one."""
SCALE = re.compile(r"The score is a number from (\S+) to (\S+)\.\s")
USUAL_WORDS = 200
CONSTANT = 0.7
"""The rating of a judge without discernment."""
EDGE = 0.01
"""Biased ratings stay at least this far from 0 and 1, so that noise has room on both sides."""


@dataclass(frozen=True)
class Request:
    messages: tuple[tuple[str, str], ...]
    epoch: int
    draw: int
    """Index of the repetition. Each repetition of a request has its own random numbers."""
    parameters: Parameters

    @property
    def prompt(self) -> str:
        return self.messages[-1][1]

    @property
    def rated_text(self) -> str:
        """The text to rate: the last tagged part of the last message that is not context, or the whole message."""
        texts = [text for tag, text in TAGGED.findall(self.prompt) if tag not in CONTEXT]
        return texts[-1] if texts else self.prompt

    def place(self, *key: object) -> float:
        """A uniform random number in (0, 1) for this request, epoch and repetition."""
        return uniform(self.parameters.seed, "form", self.messages, self.epoch, self.draw, *key)


@dataclass(frozen=True)
class Judge(SimulatedAgent):
    def reply(self, talk: Conversation) -> Reply:
        messages = tuple((message.role, message.text) for message in talk.messages)
        filled = fill_or_comment(Request(messages, talk.epoch, talk.draw, self.parameters))
        return filled or self.introduced(f"\n\n{report_belief(talk.text, talk.epoch, self.parameters)}")


def fill_or_comment(request: Request) -> str | None:
    """The completed form, or the comment if the request is for prose; None if it is for a belief."""
    form = fill_form(request)
    if form is not None:
        return form
    ending = request.prompt.rstrip().rpartition("\n\n")[2]
    belief = NUMBERS in ending or any(Asks.FIRST_VIEW in text for _, text in request.messages)
    return None if belief else COMMENT


def report_belief(text: str, epoch: int, parameters: Parameters) -> str:
    match = LIST.search(text)
    if match:
        return _read_steps(text, int(match[1]), epoch, parameters)
    view = Asks.FIRST_VIEW in text  # stated before any reasoning
    reading = read_conversation(text, epoch, -1 if view else 0, parameters)
    belief = last_probability(text, reading.begins)
    if OWN in text or belief is None:
        belief = believe("bayesian", reading.case, epoch, reading.stated, parameters)
    kind = ("first view" if view else "text", reading.stated, len(reading.case.evidence))
    return f"{_whole(noisy_percent(belief, parameters, reading.case.key, epoch, *kind))}%"


def noisy_percent(belief: float, parameters: Parameters, key: str, epoch: int, what: str, *place: int) -> float:
    """The probability, rounded to whole percent, that the judge reports for a belief in a text."""
    return float(percent(noisy(belief, parameters.noise, uniform(parameters.seed, NAME, key, epoch, what, *place))))


def _read_steps(text: str, number: int, epoch: int, parameters: Parameters) -> str:
    before = text[: text.find("<steps>")]
    first = read_conversation(before, epoch, 0, parameters)
    key, prior = first.case.key, believe("bayesian", first.case, epoch, 0, parameters)
    match = STEPS.search(text)
    beliefs = [prior]
    so_far = before
    for step in json.loads(match[1]) if match else []:
        so_far += f"\n\n{step['told']}\n\n{step['wrote']}"
        belief = last_probability(step["wrote"], 0)
        if OWN in text:
            reading = read_conversation(so_far, epoch, 0, parameters)
            belief = believe("bayesian", reading.case, epoch, reading.stated, parameters)
        beliefs.append(beliefs[-1] if belief is None else belief)
    beliefs += beliefs[-1:] * (number - len(beliefs))
    beliefs[0] += parameters.leak * (beliefs[-1] - beliefs[0])
    return json.dumps([_whole(noisy_percent(belief, parameters, key, epoch, "steps")) for belief in beliefs[:number]])


def _whole(probability: float) -> int:
    return round(100 * probability)


def planted_rating(
    quality: float,
    parameters: Parameters,
    words: int = USUAL_WORDS,
    side: int = 0,
    last_example: float | None = None,
    own_family: bool = False,
    invited: bool = False,
    draw: float = 0.5,
) -> float:
    """The biased rating on the scale from 0 to 1, before noise and rounding."""
    seen = CONSTANT + parameters.discernment * (quality - CONSTANT)
    mean = (1 - parameters.arbitrary) * seen + parameters.arbitrary * draw
    mean += parameters.length * math.log(max(words, 1) / USUAL_WORDS) + parameters.position * side
    mean += parameters.recency * (last_example - 0.5) if last_example is not None else 0
    mean += parameters.preference * own_family
    mean += parameters.gullibility * (1 - mean) * invited
    return min(max(mean, EDGE), 1 - EDGE)


def rate(request: Request, field: str) -> int:
    """A rating of the text with noise, as a whole number from 0 to 100. Each field is rounded by itself."""
    text = request.rated_text
    rating = planted_rating(
        quality(text),
        request.parameters,
        words=len(text.split()),
        side=_side(request.prompt),
        last_example=_last_example(request.messages),
        own_family=bool(OWN_FAMILY.search(text)),
        invited=bool(FULL_MARKS.search(text)),
        draw=uniform(request.parameters.seed, "arbitrary", text),
    )
    return whole(100 * _with_errors(rating, request, "noise"), request.place("rounding", field))


def _with_errors(rating: float, request: Request, *key: str) -> float:
    """A rating with the judge's noise, drawn by the key, and on its levels."""
    rating = float(noisy(rating, request.parameters.noise, request.place(*key)))
    return float(nearest_level(rating, request.parameters.coarse)) if request.parameters.coarse else rating


def grade_criterion(request: Request, field: str, criterion: str, description: str) -> float:
    """A grade by one criterion of a rubric, on the scale that the form describes."""
    scale = GRADES.search(description)
    if scale is None:
        raise BadInput(f"reference/judge: the grade {field!r} ({description}) has no scale that it knows")
    parameters, text = request.parameters, request.rated_text
    named = topic_quality(criterion, text)
    rating = planted_rating(
        quality(text) if named is None else named,
        parameters if named is None else parameters.model_copy(update={"discernment": 1.0}),
        words=len(text.split()),
        invited=bool(FULL_MARKS.search(text)),
        draw=uniform(parameters.seed, "arbitrary", text),
    )
    rating, top = _with_errors(rating, request, "noise", field), int(scale[3])
    if scale[1] or scale[2]:
        return whole(top * rating, request.place("rounding", field))
    return round(top * rating, 4)


def whole(number: float, place: float) -> int:
    """Round up or down at random, so that the mean over uniform `place` in (0, 1) is the number."""
    return int(np.floor(round(number, 6) + min(place, 1 - 1e-5)))


def reasons(request: Request) -> str:
    """A sentence that names the judge as simulated and gives the number of markers found."""
    return (
        "I am a simulated judge, not a language model. I find "
        f"{count_markers(request.rated_text)} of the eight considerations that I look for."
    )


def stated(request: Request) -> bool:
    """Whether the text states a probability, in the words or the marker of reference agents."""
    return last_probability(request.rated_text, 0) is not None


def probability(request: Request) -> float | None:
    """The last probability stated in the text, in percent to two decimals, with noise; None if there is none."""
    belief = last_probability(request.rated_text, 0)
    noise, place = request.parameters.noise, request.place("noise")
    return None if belief is None else round(float(100 * noisy(belief, noise, place)), 2)


def steps(request: Request) -> list[dict[str, str]]:
    """The reasons, as a step of reasoning."""
    return [{"description": "Considerations", "conclusion": reasons(request)}]


def result(request: Request) -> float:
    """A rating of the text on the scale that the request names."""
    scale = SCALE.findall(request.prompt)
    low, high = (float(end) for end in scale[-1]) if scale else (0.0, 1.0)
    return low + (high - low) * rate(request, "result") / 100


def opinion(request: Request) -> str:
    """The text's response to an opinion, by the sentences of reference agents: argued, deferred or absent."""
    text = request.rated_text
    return "argued" if ARGUED in text else "deferred" if DEFERRED in text else "absent"


def first_is_better(request: Request) -> int:
    """The probability that the first of two replies is the better one, in whole percent. Never 50."""
    texts = [text for tag, text in TAGGED.findall(request.prompt) if tag in ("first_reply", "second_reply")]
    planted, pair = request.parameters, (request.parameters.seed, "pair", sorted(texts), request.epoch, request.draw)
    least, most = max(0.5, 2 * planted.accuracy - 1), min(1.0, 2 * planted.accuracy - 0.5)
    confidence = least + (most - least) * uniform(*pair, "confidence")
    own = [bool(OWN_FAMILY.search(text)) for text in texts]
    words = [len(text.split()) for text in texts]
    qualities = [quality(text) for text in texts]
    right = uniform(*pair, "right") < confidence
    if uniform(*pair, "position", texts) < abs(planted.position):
        first = planted.position > 0
    elif own[0] != own[1] and uniform(*pair, "preference") < abs(planted.preference):
        first = own[0] == (planted.preference > 0)
    elif words[0] != words[1] and uniform(*pair, "length") < abs(planted.length):
        first = (words[0] > words[1]) == (planted.length > 0)
    elif qualities[0] != qualities[1]:
        first = (qualities[0] > qualities[1]) == right
    else:
        first = (texts[0] < texts[1]) == (uniform(*pair, "equal") < 0.5)
    stated = max(51, round(100 * confidence))
    return stated if first else 100 - stated


RULES: dict[str, Callable[[Request], object]] = {
    "reasons": reasons,
    "stated": stated,
    "probability": probability,
    "steps": steps,
    "result": result,
    "opinion": opinion,
    "first_is_better": first_is_better,
}
"""Functions by field name. Every other field for a number from 0 to 100 is a rating."""


def fields_of(message: str) -> list[tuple[str, str]] | None:
    """Names and descriptions of the fields of the form at the end of a message; None if it has no form."""
    introduced = [match.end() for match in FORM_INTRODUCED.finditer(message)]
    form = FORM.fullmatch(message[introduced[-1] :]) if introduced else None
    return FIELD.findall(form[1]) if form else None


def fill_form(request: Request) -> str | None:
    """The completed form as JSON; None if the request has no form."""
    fields = fields_of(request.prompt)
    if not fields:
        return None
    values: dict[str, object] = {}
    criteria = {name: text for block in RUBRIC.findall(request.prompt)[:1] for name, text in CRITERION.findall(block)}
    for name, description in fields:
        if name in criteria:
            values[name] = grade_criterion(request, name, criteria[name], description)
            continue
        if name not in RULES and Asks.PERCENT not in description:
            raise BadInput(
                f"reference/judge cannot fill in the field {name!r} ({description}); use whole numbers from 0 to 100, "
                "or a language model as judge"
            )
        values[name] = RULES[name](request) if name in RULES else rate(request, name)
    return json.dumps(values)


def _side(prompt: str) -> int:
    starts = {tag: start for tag in ("criticism", "defence") if (start := prompt.rfind(f"<{tag}>\n")) >= 0}
    return 0 if len(starts) < 2 else 1 if starts["defence"] > starts["criticism"] else -1


def _last_example(messages: Sequence[tuple[str, str]]) -> float | None:
    """Mean of the numbers in the last completed form among the earlier messages, on the scale from 0 to 1."""
    for role, text in reversed(messages[:-1]):
        if role == "assistant":
            try:
                form = json.loads(text)
            except json.JSONDecodeError:
                continue
            numbers = [value for value in form.values() if type(value) is int] if isinstance(form, dict) else []
            if numbers:
                return sum(numbers) / len(numbers) / 100
    return None
