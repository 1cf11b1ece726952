"""`reference/judge`: a simulated reader of other agents' texts, with planted noise and planted look-ahead.

    inspect eval truthgym/urns -T 'paradigms={martingale: {elicitor: judge, joint: true}}' \
      --model reference/bayesian --model-role 'judge={model: reference/judge, model_args: {noise: 0.05, leak: 0.1}}'

Asked for a writer's belief, it reports the last probability that the text gives, with noise. Asked for its own, it
reports what a Bayesian believes who has read the same. Asked to read a trajectory in one go, it reports a list that
begins with $p_0 + h(p_T - p_0)$: the writer's first belief, and the share $h$ (`leak`) of the whole update that is
still to come. One error runs through such a list. For bundled questions it knows first beliefs only of agents with its
own `skill` and `seed`.

Asked for a form, it rates the text that it is given, with the biases of `models.forms` where they are planted. Asked
for words alone, a criticism or an answer of its own, it says no more than who it is.
"""

import json
import re

from truthgym.models.agents.belief_reports import noisy, percent
from truthgym.models.agents.judge_forms import Request, fill_form
from truthgym.models.agents.policies import Parameters, believe, uniform
from truthgym.models.agents.reading import last_probability, read_conversation

NAME = "judge"
BIASES = frozenset({"length", "position", "recency", "preference", "gullibility"})
PARAMETERS = frozenset({"noise", "leak", "skill", "seed"}) | BIASES
OWN = "your own belief"
LIST = re.compile(r"JSON list of ([0-9]+) whole numbers")
STEPS = re.compile(r"<steps>\s*(.*?)\s*</steps>", re.DOTALL)
FIRST_VIEW = "first impression"
READING = "<text>"
NUMBERS = "whole number"
"""What a request for a belief speaks of at its end."""
COMMENT = (
    "(Simulated judge agent, not a language model.)\n\nI have read it. What speaks for it and what speaks against it I "
    "leave to a reader who can tell."
)
"""What it says where it is asked for words."""


def fill_or_comment(request: Request) -> str | None:
    """Fill in the form that is asked for, or say something where words are; None where a belief is asked for."""
    form = fill_form(request)
    if form is not None:
        return form
    ending = request.asked.rstrip().rpartition("\n\n")[2]
    belief = NUMBERS in ending or any(FIRST_VIEW in text for _, text in request.said)
    return None if belief else COMMENT


def report_belief(text: str, epoch: int, parameters: Parameters) -> str:
    """Answer a request to read a text.

    Args:
        text: The request with the text.
        epoch: The epoch.
        parameters: `noise`, `leak`, `skill` and `seed` are used.

    Raises:
        BadInput: The request holds no question that reference agents know.
    """
    wanted = LIST.search(text)
    if wanted:
        return _read_steps(text, int(wanted[1]), epoch, parameters)
    view = FIRST_VIEW in text  # stated at first sight, without a thought
    seen = read_conversation(text, epoch, -1 if view else 0, parameters)
    read = last_probability(text, seen.begins)
    if OWN in text or read is None:
        read = believe("bayesian", seen.case, epoch, seen.stated, parameters)
    what = ("first view" if view else "text", seen.stated, len(seen.case.evidence))
    return f"{_whole(noisy_percent(read, parameters, seen.case.key, epoch, *what))}%"


def noisy_percent(belief: float, parameters: Parameters, key: str, epoch: int, what: str, *place: int) -> float:
    """The probability, to a whole percent, that the judge reports of a belief it reads.

    Args:
        belief: What it reads.
        parameters: `noise` and `seed` are used.
        key: The question.
        epoch: The epoch.
        what: What it reads: "first view", "text" or "steps".
        place: Beliefs stated and pieces of evidence in what it reads.
    """
    return float(percent(noisy(belief, parameters.noise, uniform(parameters.seed, NAME, key, epoch, what, *place))))


def _read_steps(text: str, number: int, epoch: int, parameters: Parameters) -> str:
    before = text[: text.find("<steps>")]
    first = read_conversation(before, epoch, 0, parameters)
    key, known = first.case.key, believe("bayesian", first.case, epoch, 0, parameters)
    held = STEPS.search(text)
    beliefs = [known]
    so_far = before
    for step in json.loads(held[1]) if held else []:
        so_far += f"\n\n{step['told']}\n\n{step['wrote']}"
        read = last_probability(step["wrote"], 0)
        if OWN in text:
            seen = read_conversation(so_far, epoch, 0, parameters)
            read = believe("bayesian", seen.case, epoch, seen.stated, parameters)
        beliefs.append(beliefs[-1] if read is None else read)
    beliefs += beliefs[-1:] * (number - len(beliefs))
    beliefs[0] += parameters.leak * (beliefs[-1] - beliefs[0])
    return json.dumps([_whole(noisy_percent(belief, parameters, key, epoch, "steps")) for belief in beliefs[:number]])


def _whole(probability: float) -> int:
    return round(100 * probability)
