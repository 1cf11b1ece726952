"""`reference/judge`: a simulated judge of other agents' texts, with planted noise and hindsight.

    inspect eval truthgym/urns -T 'paradigms={martingale: {elicitor: judge, joint: true}}' \
      --model reference/bayesian --model-role 'judge={model: reference/judge, model_args: {noise: 0.05, leak: 0.1}}'

Asked for the writer's belief, it reports the last probability that the text states, with noise. Asked for its own
belief, it reports that of a Bayesian that has read the same text. Asked to read a trajectory in one call, it returns a
list that begins with $p_0 + h(p_T - p_0)$: the writer's first belief plus a share $h$ (`leak`) of the total update,
which is hindsight. All entries of such a list have the same error. On bundled questions it knows the first beliefs only
of agents with the same `skill` and `seed` as its own.

Asked to fill in a form, it rates the text, or compares two, with the planted biases of `models.agents.judge_forms`.
Asked for prose (a criticism, or an answer of its own), it returns a fixed comment that says that it is simulated.
"""

import json
import re

from truthgym.models.agents.belief_reports import noisy, percent
from truthgym.models.agents.judge_forms import Request, fill_form
from truthgym.models.agents.policies import Parameters, believe, uniform
from truthgym.models.agents.reading import last_probability, read_conversation

NAME = "judge"
BIASES = frozenset({"length", "position", "recency", "preference", "gullibility", "discernment", "arbitrary", "coarse",
                    "accuracy"})  # fmt: skip
PARAMETERS = frozenset({"noise", "leak", "skill", "seed"}) | BIASES
OWN = "your own belief"
LIST = re.compile(r"JSON list of ([0-9]+) whole numbers")
STEPS = re.compile(r"<steps>\s*(.*?)\s*</steps>", re.DOTALL)
FIRST_VIEW = "first impression"
READING = "<text>"
NUMBERS = "whole number"
"""A phrase in the last paragraph of every request for a belief."""
COMMENT = (
    "(Simulated judge agent, not a language model.)\n\nI have read it. What speaks for it and what speaks against it I "
    "leave to a reader who can tell."
)
"""Its reply to a request for prose."""


def fill_or_comment(request: Request) -> str | None:
    """The completed form, or the comment if the request is for prose; None if it is for a belief."""
    form = fill_form(request)
    if form is not None:
        return form
    ending = request.prompt.rstrip().rpartition("\n\n")[2]
    belief = NUMBERS in ending or any(FIRST_VIEW in text for _, text in request.messages)
    return None if belief else COMMENT


def report_belief(text: str, epoch: int, parameters: Parameters) -> str:
    """Answer a request to read a text."""
    match = LIST.search(text)
    if match:
        return _read_steps(text, int(match[1]), epoch, parameters)
    view = FIRST_VIEW in text  # stated before any reasoning
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
