r"""`reference/predictor`: a simulated predictor of other models' answers, with exact probabilities."""

import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from inspect_ai.model import ChatMessage
from numpy.typing import NDArray

from truthgym.datasets.domains import BUNDLED, bundled
from truthgym.datasets.loading.generated import probability
from truthgym.datasets.question import Question, binary_outcome
from truthgym.models.agents.agent import DECLINED, Conversation, Reply, SimulatedAgent
from truthgym.models.agents.policies import Parameters, private_signal, uniform

NAME = "predictor"
PARAMETERS = frozenset({"skill", "liars", "seed"})
SIDES = ("Yes", "No")
"""The short form of an answer to a question with a proposition."""
HEAD = "Below are questions, and what respondents answered. Predict the last answer, which is missing."
SHORT = "Each answer is Yes or No."
ONLY = "Reply with the missing answer and nothing else."
CONSISTENT = (
    "How well does the last answer fit the other answers? Say how likely it is that somebody who knows the others "
    "would expect it. Reply with one whole number from 0 to 100 and nothing else."
)
"""The end of a request for a rating, in which no answer is missing."""
ANSWER = re.compile(r"^Answer of respondent (\w+):(?: (Yes|No))?$", re.MULTILINE)
ACCURACY = np.array([0.55, 0.65, 0.75, 0.85, 0.95])
"""Of honest respondents, all equally likely; of liars, one minus these."""
ALWAYS = 0.05
"""Prior probability that a respondent always says yes, and that it always says no."""
FIRM = 0.98
"""How likely one that always says the same is to say it."""
WORDS = 50_000
"""Words of the language, for answers that are texts."""
PRIORS: ContextVar[Mapping[str, float]] = ContextVar("priors", default={})  # noqa: B039 (it is never changed)
"""Exact probabilities before any evidence of the generated questions that a task shows, by their text."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Predictor(SimulatedAgent):
    def reply(self, talk: Conversation) -> Reply:
        """The probability of the last answer of a request that ends with `CONSISTENT`, in percent."""
        if CONSISTENT not in talk.text:
            return DECLINED
        yes = probability_of_yes(talk.text, self.parameters)
        return f"{100 * (yes if ANSWER.findall(talk.text)[-1][1] == SIDES[0] else 1 - yes):.0f}"

    def logprobs(self, messages: Sequence[ChatMessage], text: str) -> list[tuple[str, float]]:
        return score(messages[-1].text, text, self.parameters)


@dataclass(frozen=True)
class Shown:
    """A question with the answers to it that a predictor sees."""

    question: str
    answers: Sequence[tuple[str, str]]


def request(shown: Sequence[Shown], question: str, respondent: str, short: bool, answer: str | None = None) -> str:
    """The request to predict, or with an `answer` to rate, what a respondent says to a question."""
    blocks = [HEAD if not short else f"{HEAD} {SHORT}"]
    last = [*shown] if shown and shown[-1].question == question else [*shown, Shown(question, [])]
    for entry in last:
        lines = [f"Answer of respondent {name}: {_indented(text)}" for name, text in entry.answers]
        blocks.append("\n".join([f"Question: {entry.question}", *lines]))
    blocks[-1] += f"\nAnswer of respondent {respondent}:{'' if answer is None else f' {_indented(answer)}'}"
    return "\n\n".join([*blocks, ONLY if answer is None else CONSISTENT])


def _indented(answer: str) -> str:
    return "\n    ".join(answer.splitlines())


def read_request(text: str) -> tuple[list[Shown], str]:
    """The questions and short answers of a request, without the asked one, which is of the last; and who is asked."""
    shown = []
    for block in re.split(r"^Question: ", text, flags=re.MULTILINE)[1:]:
        question = block.partition("\nAnswer of respondent ")[0].strip()
        shown.append(Shown(question, [(name, answer) for name, answer in ANSWER.findall(block)]))
    asked = shown[-1]
    respondent = asked.answers[-1][0]
    return [*shown[:-1], Shown(asked.question, asked.answers[:-1])], respondent


def score(text: str, reply: str, parameters: Parameters) -> list[tuple[str, float]]:
    r"""The log-probability of each word of a reply to a `request`, in nats.

    A short answer has the probability that the shown answers imply. A text has one word after the other with
    probability $\tfrac12 n_w/n+\tfrac12/50000$, where $n_w$ of the $n$ words of the request are this word.
    """
    if SHORT in text and reply in SIDES:
        yes = probability_of_yes(text, parameters)
        return [(reply, float(np.log(yes if reply == SIDES[0] else 1 - yes)))]
    seen = text.split()
    pieces = re.findall(r"\S+\s*", reply)
    chances = [0.5 * seen.count(piece.strip()) / len(seen) + 0.5 / WORDS for piece in pieces]
    return [(piece, float(np.log(chance))) for piece, chance in zip(pieces, chances, strict=True)]


def probability_of_yes(text: str, parameters: Parameters) -> float:
    """The probability that the respondent who is asked says yes, given all that a request shows."""
    shown, respondent = read_request(text)
    own = [belief(entry.question, parameters) for entry in shown]
    codes = {name: number for number, name in enumerate({name for entry in shown for name, _ in entry.answers})}
    asked = codes.setdefault(respondent, len(codes))
    answers = np.full((1, len(codes), len(shown)), np.nan)
    for place, entry in enumerate(shown):
        for name, answer in entry.answers:
            answers[0, codes[name], place] = answer == SIDES[0]
    return float(predict(answers, np.array([own]), asked, parameters.liars)[0])


def predict(answers: Floats, known: Floats, asked: int, liars: float) -> Floats:
    r"""The probability that a respondent says yes to the last question, by Bayes' rule over types and truths."""
    if_yes, if_no, prior = types(liars)
    p = known[:, None, :, None]
    says = answers[..., None]

    def likelihood(yes: Floats) -> Floats:
        """Trials x respondents x questions x types; 1 where nothing is shown."""
        return np.where(np.isnan(says), 1.0, np.where(says == 1, yes, 1 - yes))

    before = (p * likelihood(if_yes) + (1 - p) * likelihood(if_no))[:, :, :-1].prod(axis=2)
    weight = before * prior
    weight /= weight.sum(axis=2, keepdims=True)
    last = [(weight * likelihood(yes)[:, :, -1]).sum(axis=2).prod(axis=1) for yes in (if_yes, if_no)]
    truth = known[:, -1] * last[0]
    truth = truth / (truth + (1 - known[:, -1]) * last[1])
    says_yes = [(weight[:, asked] * yes).sum(axis=1) for yes in (if_yes, if_no)]
    chance: Floats = truth * says_yes[0] + (1 - truth) * says_yes[1]
    return chance


def types(liars: float) -> tuple[Floats, Floats, Floats]:
    """How likely each type says yes if that is true, if it is not, and the types' prior probabilities."""
    honest = np.full(len(ACCURACY), (1 - liars - 2 * ALWAYS) / len(ACCURACY))
    if_yes = np.array([*ACCURACY, *(1 - ACCURACY), FIRM, 1 - FIRM])
    if_no = np.array([*(1 - ACCURACY), *ACCURACY, FIRM, 1 - FIRM])
    return if_yes, if_no, np.array([*honest, *np.full(len(ACCURACY), liars / len(ACCURACY)), ALWAYS, ALWAYS])


def belief(question: str, parameters: Parameters) -> float:
    """The predictor's own probability of yes, before it sees an answer. One half for a question it does not know."""
    prior = PRIORS.get().get(question)
    return _signal(question, parameters.skill, parameters.seed) if prior is None else prior


@lru_cache(maxsize=4096)
def _signal(question: str, skill: float, seed: int) -> float:
    """What it knows of a bundled question, as other agents do."""
    if question not in _bundled():
        return 0.5
    name, outcome = _bundled()[question]
    truth = uniform("truth", name) < 0.5 if outcome is None else outcome == 1
    return float(probability(private_signal(name, truth, 0, 0, Parameters(skill=skill, seed=seed)).log_odds))


@cache
def _bundled() -> dict[str, tuple[str, float | None]]:
    """Id and outcome of each bundled question with a proposition, by its text."""
    items = [item for domain in BUNDLED for item in bundled(domain) if item.metadata_as(Question).proposition]
    return {str(item.input): (str(item.id), binary_outcome(item.target)) for item in items}
