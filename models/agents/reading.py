"""A reference agent's reading of a conversation: the question, the evidence, stated beliefs and others' opinions."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from truthgym.datasets.agent_worlds import answerable_path
from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.generated import logit
from truthgym.datasets.question import ASKED, Asked
from truthgym.datasets.sycophancy import DOUBTS, opinions_in
from truthgym.models.agents.policies import NO_PUSHBACK, Case, Parameters, Pushback, private_signal, uniform
from truthgym.models.agents.tool_users import calls_in, question_in

MARKER = "finalBeliefProb"
STATED = (
    "On balance I put the chance that it is true at {percent}%.",
    "That leaves me at a probability of {percent}% for it.",
    "As things stand, I believe it with {percent}% confidence.",
    "So I would give it {percent} chances in 100.",
    "My view now is that it holds with probability {percent}%.",
)
"""Sentences in which agents state a belief, always with two decimals."""
STATEMENT = re.compile(
    "|".join(re.escape(words).replace(r"\{percent\}", r"([0-9]{1,3}\.[0-9]{2})") for words in STATED)
)
MARKED = re.compile(MARKER + r"\{(0\.[0-9]+|1\.0+)\}")


class UnknownQuestionError(BadInput):
    """The conversation contains no question that the agents know."""


@dataclass(frozen=True)
class Reading:
    case: Case
    stated: int
    """Number of beliefs stated so far."""
    belief: float | None
    """The last stated belief, or None if there is none or evidence followed it."""
    begins: int
    """Position in the text at which the question first appears."""
    pushback: Pushback = NO_PUSHBACK
    """Statements by others about the question since the last stated belief."""
    question: str = ""
    proposition: str = ""


def read_conversation(
    text: str,
    epoch: int,
    thoughts: int,
    parameters: Parameters,
    own: Sequence[tuple[int, int]] | None = None,
    naive: bool = False,
) -> Reading:
    """What a conversation says about the question that is worked on, as `ASKED` has it."""
    asked = ASKED.get()
    if asked is None or asked.input not in text or not (asked.question.proposition or question_in(text)):
        raise UnknownQuestionError(
            "A reference agent knows the question that a Truthgym solver or scorer works on (in your own, call "
            "question_of(state, Question)), or the sample's, if the task's setup is prepare(), and does not find it in "
            f"this conversation, which begins: {text[:200]!r}. Keep the sample's input word for word, end the solver "
            "with truthgym's direct(), or use a language model."
        )
    proposition, begins = asked.question.proposition or "", text.index(asked.input)
    beliefs = stated_beliefs(text, begins, own)
    opinions = _read_opinions(text, proposition, beliefs)
    evidence = evidence_in(text, naive)
    since = begins
    if evidence:
        since = max(evidence.ends, begins + len(asked.input))
        key = f"{asked.input} ({opinions.summary})" if opinions.summary else asked.input
        case = Case(key, evidence.prior, evidence.ratios, opinions.user, opinions.third)
    else:
        signal = private_signal(asked.id, truth_of(asked), len(beliefs) + thoughts, epoch, parameters, opinions.summary)
        case = replace(signal, user=opinions.user, third=opinions.third)
    last = beliefs[-1][1] if beliefs and beliefs[-1][0] > since else None
    return Reading(case, len(beliefs), last, begins, opinions.pushback, asked.input, proposition)


@dataclass(frozen=True)
class Evidence:
    """The evidence in a text about the question that is worked on."""

    prior: float
    """Log-odds before it, in nats."""
    ratios: tuple[float, ...]
    """Log-likelihood ratio of each piece, in nats."""
    ends: int
    """Position in the text at which the last of it ends, 0 if there is none."""


def evidence_in(text: str, naive: bool = False) -> Evidence | None:
    """The calls in a text, or the pieces that it holds word for word; None if no exact likelihood of them is known."""
    asked, question = ASKED.get(), question_in(text)
    if asked is None:
        return None
    pieces: Iterable[int]
    if question:
        calls, ends = calls_in(text, question)
        pieces, path, least = range(len(calls)), answerable_path(question, calls), 1e-6
    elif asked.is_generated:
        places = asked.places_of_evidence(text)
        pieces, ends = places, max(places.values(), default=0)
        path, least = asked.naive if naive else asked.question.posterior, 1e-15
    else:
        return None
    odds = [logit(min(max(p, least), 1 - least)) for p in path]
    return Evidence(odds[0], tuple(odds[k + 1] - odds[k] for k in pieces), ends)


def truth_of(asked: Asked) -> bool:
    """Whether a question's answer is yes. If that is unknown, a fair coin decides it, the same for all agents."""
    return asked.outcome == 1 if asked.outcome is not None else uniform("truth", asked.id) < 0.5


def stated_beliefs(text: str, begins: int = 0, own: Sequence[tuple[int, int]] | None = None) -> list[tuple[int, float]]:
    """Beliefs stated in words after position `begins`, as (end position, belief), in the spans `own` or everywhere."""
    beliefs = [(match.end(), float(match[match.lastindex or 0]) / 100) for match in STATEMENT.finditer(text, begins)]
    return [(end, belief) for end, belief in beliefs if own is None or any(a < end <= b for a, b in own)]


def last_probability(text: str, begins: int) -> float | None:
    """The last probability in a text after position `begins`, in words or with the marker, or None."""
    last = stated_beliefs(text, begins)[-1:]
    marked = [(match.end(), float(match[1])) for match in MARKED.finditer(text, begins)][-1:]
    return max(last + marked, default=(0, None))[1]


@dataclass(frozen=True)
class _Opinions:
    summary: str
    """All opinions in short form. Part of the random key, so each arm has its own randomness. Empty if none."""
    user: int
    third: int
    pushback: Pushback


def _read_opinions(text: str, proposition: str, beliefs: Sequence[tuple[int, float]]) -> _Opinions:
    last_belief_end = beliefs[-1][0] if beliefs else len(text)  # pushback needs a stated belief
    total, since = {"user": 0, "third": 0}, {"user": 0, "third": 0}
    parts = []
    for end, speaker, side, in_passing in opinions_in(text, proposition):
        sign = 1 if side == "yes" else -1
        total[speaker] += sign
        since[speaker] += sign if end > last_belief_end else 0
        parts.append(f"{speaker} {side}{' in passing' if in_passing else ''}")
    doubted = any(doubt in text[last_belief_end:] for doubt in DOUBTS)
    summary = ", ".join([*parts, *["doubted"] * doubted])
    return _Opinions(summary, **total, pushback=Pushback(**since, doubted=doubted))
