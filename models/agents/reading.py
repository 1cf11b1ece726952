"""A reference agent's reading of a conversation: the question, the evidence, stated beliefs and others' opinions."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from inspect_ai.dataset import Sample

from truthgym.datasets.domains import BUNDLED, bundled, find_generated
from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.generated import logit
from truthgym.datasets.question import ASKED, Question
from truthgym.datasets.sycophancy import CAVEATS, opinions_in
from truthgym.models.agents.opinions import NO_PUSHBACK, Pushback
from truthgym.models.agents.policies import Case, Parameters, private_signal, uniform
from truthgym.models.agents.tool_users import find_agent_question, question_in

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
WORD = re.compile(r"\w+")
MARKED = re.compile(MARKER + r"\{(0\.[0-9]+|1\.0+)\}")


class UnknownQuestionError(BadInput):
    """The conversation contains no question that the agents know."""


@dataclass(frozen=True)
class Reading:
    """The content of a conversation."""

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
    """The question's text."""
    proposition: str = ""


def read_conversation(
    text: str,
    epoch: int,
    thoughts: int,
    parameters: Parameters,
    own: Sequence[tuple[int, int]] | None = None,
    naive: bool = False,
) -> Reading:
    """Read a conversation. If it contains several questions, the last one counts."""
    world = find_agent_question(text) or find_generated(text)
    known = max(((text.rfind(question[0]), *question) for question in [*_known_in(text), *_asked(text)]), default=None)
    if world and (known is None or known[0] < text.rfind(world.asked)):
        begins, since, question, proposition = world.begins, world.evidence_ends, world.asked, world.proposition
        beliefs = stated_beliefs(text, begins, own)
        opinions = _read_opinions(text, proposition, beliefs)
        key = f"{world.asked} ({opinions.summary})" if opinions.summary else world.asked
        ratios = world.naive_log_likelihood_ratios if naive else world.log_likelihood_ratios
        prior = world.naive_prior if naive and world.naive_prior else world.prior
        case = Case(key, logit(prior), ratios, opinions.user, opinions.third)
    elif known:
        _, question, question_id, outcome, proposition = known
        begins = since = text.index(question)
        beliefs = stated_beliefs(text, since, own)
        opinions = _read_opinions(text, proposition, beliefs)
        signal = private_signal(question_id, outcome, len(beliefs) + thoughts, epoch, parameters, opinions.summary)
        case = replace(signal, user=opinions.user, third=opinions.third)
    else:
        raise UnknownQuestionError(
            "A reference agent knows the questions of the generated domains, the bundled questions of the others, and "
            "the sample's own, if the task's setup is prepare(), and finds none of them in this conversation, which "
            f"begins: {text[:200]!r}. Keep the sample's input word for word in what your solver asks, end the solver "
            "with truthgym's direct(), or use a language model."
        )
    last = beliefs[-1][1] if beliefs and beliefs[-1][0] > since else None
    return Reading(case, len(beliefs), last, begins, opinions.pushback, question, proposition)


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
    """Opinions of others on the question."""

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
    doubted = any(doubt in text[last_belief_end:] for doubt in CAVEATS)
    summary = ", ".join([*parts, *["doubted"] * doubted])
    return _Opinions(summary, **total, pushback=Pushback(**since, doubted=doubted))


def known_outcome(text: str) -> bool | None:
    """Whether the last bundled question in a text, or the one that is solved or scored, is true; None without one."""
    outcomes = [(text.rfind(question), truth) for question, _, truth, _ in [*_known_in(text), *_asked(text)]]
    return max(outcomes)[1] if outcomes else None


def open_question(text: str) -> str | None:
    """The id of the last bundled question without a proposition in a text, or None."""
    matches = [(text.rfind(question), question_id) for question, question_id in _open() if question in text]
    return max(matches)[1] if matches else None


@cache
def _known() -> list[tuple[str, str, bool, str]]:
    """Text, id, truth and proposition of each bundled question that has a proposition.

    If the truth is unknown, a fair coin decides it, the same for all agents.
    """
    known = []
    for item in _bundled():
        proposition = item.metadata_as(Question).proposition
        if proposition:
            truth = item.target == "yes" if item.target else uniform("truth", item.id) < 0.5
            known.append((str(item.input), str(item.id), truth, proposition))
    return known


@cache
def _by_word() -> dict[str, list[tuple[str, str, bool, str]]]:
    """`_known` by the rarest word inside each question, so that few of them are looked for in a text."""
    inside = {question: WORD.findall(question[0])[1:-1] for question in _known()}
    often = Counter(word for words in inside.values() for word in set(words))
    by_word = defaultdict(list)
    for question, words in inside.items():
        by_word[min(words, key=often.__getitem__)].append(question)
    return by_word


def _known_in(text: str) -> list[tuple[str, str, bool, str]]:
    """Those of `_known` that are in a text."""
    words = _by_word().keys() & set(WORD.findall(text))
    return [question for word in words for question in _by_word()[word] if question[0] in text]


def known_question(text: str) -> tuple[str, bool] | None:
    """The id and the truth of a bundled question with a proposition, by its text."""
    return next(((name, truth) for question, name, truth, _ in _known_in(text) if question == text), None)


def _asked(text: str) -> list[tuple[str, str, bool, str]]:
    """The question of the sample that is solved or scored, if it is in the text and neither bundled nor generated.

    As `_known`.
    """
    current = ASKED.get()
    if current is None or not current.question.proposition or current.input not in text:
        return []
    if question_in(text) or _has_known_question(current.input):
        return []
    truth = current.outcome == 1 if current.outcome is not None else uniform("truth", current.id) < 0.5
    return [(current.input, current.id, truth, current.question.proposition)]


@cache
def _has_known_question(text: str) -> bool:
    return find_generated(text) is not None or bool(_known_in(text))


@cache
def _open() -> list[tuple[str, str]]:
    return [(str(item.input), str(item.id)) for item in _bundled() if not item.metadata_as(Question).proposition]


def _bundled() -> Iterator[Sample]:
    return (item for domain in BUNDLED for item in bundled(domain))
