"""What a reference agent makes of a conversation: the question, what has been learned of it, and what was said."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from inspect_ai.dataset import Sample

from truthgym.datasets.domains import BUNDLED, bundled
from truthgym.datasets.errors import BadInput
from truthgym.datasets.opinions import DOUBTS, opinions_in
from truthgym.datasets.question import Question
from truthgym.datasets.urns import find_urn, logit
from truthgym.models.agents.opinions import NO_PUSHBACK, Pushback
from truthgym.models.agents.policies import Case, Parameters, private_signal, uniform

MARKER = "finalBeliefProb"
STATED = (
    "On balance I put the chance that it is true at {percent}%.",
    "That leaves me at a probability of {percent}% for it.",
    "As things stand, I believe it with {percent}% confidence.",
    "So I would give it {percent} chances in 100.",
    "My view now is that it holds with probability {percent}%.",
)
"""How agents state a belief in words, always with two decimals."""


class UnknownQuestionError(BadInput):
    """A conversation holds no question that the agents know."""


@dataclass(frozen=True)
class Reading:
    """What stands in a conversation."""

    case: Case
    stated: int
    """Beliefs stated so far."""
    belief: float | None
    """The last belief stated, or None where none is, or evidence has come since."""
    begins: int
    """Where in the text the question is first asked."""
    pressed: Pushback = NO_PUSHBACK
    """What others have said of it since the last belief stated."""


def read_conversation(
    text: str, epoch: int, thoughts: int, parameters: Parameters, own: Sequence[tuple[int, int]] | None = None
) -> Reading:
    """Read a conversation: of several questions the one that is asked last is meant.

    Args:
        text: All of it.
        epoch: The epoch.
        thoughts: Thoughts to be had about a bundled question, besides one for each belief stated.
        parameters: What is planted in the agent.
        own: Where in the text the agent's own words begin and end, so that beliefs that others state are not taken for
            its own. None takes all.

    Raises:
        UnknownQuestion: The conversation holds no question that the agents know.
    """
    urn = find_urn(text)
    found = [(text.rfind(known[0]), *known) for known in _known() if known[0] in text]
    known = max(found, default=None)
    if urn and (known is None or known[0] < text.rfind(urn.asked)):
        begins, since = urn.begins, urn.evidence_ends
        beliefs = stated_beliefs(text, begins, own)
        heard = _read_opinions(text, urn.proposition, beliefs)
        key = f"{urn.asked} ({heard.said})" if heard.said else urn.asked
        case = Case(key, logit(urn.prior), urn.log_likelihood_ratios, heard.user, heard.third)
    elif known:
        _, asked, identity, outcome, proposition = known
        begins = since = text.index(asked)
        beliefs = stated_beliefs(text, since, own)
        heard = _read_opinions(text, proposition, beliefs)
        signal = private_signal(identity, outcome, len(beliefs) + thoughts, epoch, parameters, heard.said)
        case = replace(signal, user=heard.user, third=heard.third)
    else:
        raise UnknownQuestionError(
            "A reference agent knows the questions of truthgym/urns and the bundled ones of the other domains, and "
            f"finds none of them in this conversation, which begins: {text[:200]!r}. Use a language model for others."
        )
    last = beliefs[-1][1] if beliefs and beliefs[-1][0] > since else None
    return Reading(case, len(beliefs), last, begins, heard.pressed)


def stated_beliefs(text: str, begins: int = 0, own: Sequence[tuple[int, int]] | None = None) -> list[tuple[int, float]]:
    """Beliefs stated in words from a place on, each with the place where it ends, in parts of the text or in all."""
    found = [(m.end(), float(m[m.lastgroup or 0]) / 100) for m in _stated().finditer(text, begins)]
    return [(end, belief) for end, belief in found if own is None or any(a < end <= b for a, b in own)]


def last_probability(text: str, begins: int) -> float | None:
    """The last probability that a text gives, in words or as a marked number: what a reader takes from it."""
    last = stated_beliefs(text, begins)[-1:]
    marked = [(m.end(), float(m[1])) for m in _marked().finditer(text, begins)][-1:]
    return max(last + marked, default=(0, None))[1]


@dataclass(frozen=True)
class _Opinions:
    """What others have said of the question."""

    said: str
    """All of it in short, to tell one arm's randomness from another's. Empty where nothing was said."""
    user: int
    third: int
    pressed: Pushback


def _read_opinions(text: str, proposition: str, beliefs: Sequence[tuple[int, float]]) -> _Opinions:
    spoken = beliefs[-1][0] if beliefs else len(text)  # nothing is pushed back at before a belief is stated
    all_of_it, since = {"user": 0, "third": 0}, {"user": 0, "third": 0}
    said = []
    for ends, speaker, side, in_passing in opinions_in(text, proposition):
        towards = 1 if side == "yes" else -1
        all_of_it[speaker] += towards
        since[speaker] += towards if ends > spoken else 0
        said.append(f"{speaker} {side}{' in passing' if in_passing else ''}")
    doubted = any(doubt in text[spoken:] for doubt in DOUBTS)
    return _Opinions(
        ", ".join([*said, *["doubted"] * doubted]), **all_of_it, pressed=Pushback(**since, doubted=doubted)
    )


def open_question(text: str) -> str | None:
    """The id of the bundled question without a statement to believe that stands last in a text, or None."""
    found = [(text.rfind(asked), identity) for asked, identity in _open() if asked in text]
    return max(found)[1] if found else None


@cache
def _known() -> list[tuple[str, str, bool, str]]:
    """Of each bundled question its text, id, truth and proposition.

    Where no truth is known, the agents have one of their own: a fair coin, the same for all.
    """
    known = []
    for item in _bundled():
        proposition = item.metadata_as(Question).proposition
        if proposition:
            truth = item.target == "yes" if item.target else uniform("truth", item.id) < 0.5
            known.append((str(item.input), str(item.id), truth, proposition))
    return known


@cache
def _open() -> list[tuple[str, str]]:
    return [(str(item.input), str(item.id)) for item in _bundled() if not item.metadata_as(Question).proposition]


def _bundled() -> Iterator[Sample]:
    return (item for domain in BUNDLED for item in bundled(domain))


@cache
def _stated() -> re.Pattern[str]:
    number = r"(?P<p{}>[0-9]{{1,3}}\.[0-9]{{2}})"
    return re.compile(
        "|".join(re.escape(words).replace(r"\{percent\}", number.format(i)) for i, words in enumerate(STATED))
    )


@cache
def _marked() -> re.Pattern[str]:
    return re.compile(MARKER + r"\{(0\.[0-9]+|1\.0+)\}")
