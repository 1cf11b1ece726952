"""`reference/forecaster`: a simulated forecaster that computes its probabilities, for `truthgym/world_in_the_loop`."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from inspect_ai.model import ChatMessage

from truthgym.datasets.evidence import OUTCOMES
from truthgym.datasets.loading.generated import logit, probability
from truthgym.datasets.question import ASKED
from truthgym.models.agents.agent import Conversation, Reply, SimulatedAgent
from truthgym.models.agents.policies import Parameters, generator
from truthgym.models.agents.reading import UnknownQuestionError, evidence_in, last_probability, truth_of

NAME = "forecaster"
PARAMETERS = frozenset({"lexical", "familiar", "logit_noise", "slant", "seed"})
NOTE = re.compile(r"<note>\n(.*)\n</note>", re.DOTALL)
REPORT = re.compile(r"<report>\n(.*)\n</report>", re.DOTALL)
CERTAIN = 0.999
"""Its greatest probability. What a note that contains the observation gives it."""
REWRITTEN = "In short: {report}"
WORDS = re.compile(r"\w+")


@dataclass(frozen=True)
class Forecaster(SimulatedAgent):
    def reply(self, talk: Conversation) -> Reply:
        """The report between tags in the request, as in the template "rephrase"."""
        match = REPORT.search(talk.request)
        return REWRITTEN.format(report=match[1] if match else "nothing.")

    def logprobs(self, messages: Sequence[ChatMessage], text: str) -> list[tuple[str, float]]:
        return observation_logprobs(messages, text, self.parameters)


def observation_logprobs(
    messages: Sequence[ChatMessage], observation: str, parameters: Parameters
) -> list[tuple[str, float]]:
    """Each word of an observation with its log-probability in nats. Their sum is that of the observation."""
    text = "\n\n".join(message.text for message in messages)
    match = NOTE.search(text)
    note = match[1] if match else ""
    words = re.findall(r"\S+\s*", observation)
    if not words:
        return []
    error = parameters.logit_noise * float(generator(parameters.seed, NAME, text).standard_normal())
    total = math.log(_probability(text, note, observation, error, parameters.slant))
    in_note = {word.casefold() for word in WORDS.findall(note)}
    new = [not {part.casefold() for part in WORDS.findall(word)} <= in_note for word in words]
    unfamiliar = 0.0 if match else parameters.familiar
    return [
        (word, (total - unfamiliar) / len(words) - parameters.lexical * costs)
        for word, costs in zip(words, new, strict=True)
    ]


def _probability(text: str, note: str, observation: str, error: float, slant: float) -> float:
    """Probability of an observation, from 1 - `CERTAIN` to `CERTAIN`; `error` and `slant` are log-odds of yes."""
    asked, evidence = ASKED.get(), evidence_in(text)
    if asked is None or not asked.question.proposition or asked.input not in text:
        raise UnknownQuestionError(
            "reference/forecaster knows the question that is scored, if it has a proposition, and does not find it "
            f"here: {text[:200]!r}... Use a language model."
        )
    reported = observation.removeprefix(REWRITTEN.format(report=""))
    copies = [claim for claim in {reported, *OUTCOMES.values()} if claim.casefold() in note.casefold()]
    if reported not in OUTCOMES.values():
        copies = [copy for copy in copies if copy == reported]
    if len(copies) == 1:
        return CERTAIN if copies == [reported] else 1 - CERTAIN
    stated = last_probability(note, 0)
    if stated is not None:
        yes = stated
    else:
        yes = probability((evidence.prior + math.fsum(evidence.ratios) if evidence else 0.0) + slant)
    says_yes = {OUTCOMES["yes"]: True, OUTCOMES["no"]: False}.get(reported, truth_of(asked))
    log_odds = logit(_clipped(yes if says_yes else 1 - yes))
    return _clipped(probability(log_odds + (error if says_yes else -error)))


def _clipped(chance: float) -> float:
    return min(max(chance, 1 - CERTAIN), CERTAIN)
