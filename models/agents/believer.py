"""Agents that state beliefs, in words, in percent, with a marker or by letters, and use tools where they have any."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from inspect_ai.model import TopLogprob

from truthgym.datasets.inspect_private import answer_character
from truthgym.datasets.question import ASKED, PlainQuestion
from truthgym.models.agents import tool_users
from truthgym.models.agents.agent import DECLINED, Asks, Call, Conversation, Letters, Reply, SimulatedAgent
from truthgym.models.agents.belief_reports import percent, report, wording_of
from truthgym.models.agents.lengths import pad_to_length
from truthgym.models.agents.policies import (
    AGENTS,
    Parameters,
    after_pushback,
    believe,
    care_level,
    generator,
    is_moved,
    opinion_remark,
)
from truthgym.models.agents.quality_markers import draw_markers
from truthgym.models.agents.reading import MARKER, STATED, Reading, UnknownQuestionError, read_conversation
from truthgym.models.predictor import NO_FIRST, YES_FIRST

LETTER = "letter"
"""Form of a report by token probability."""
LEAST_PROBABILITY = 1e-12
BEFORE = (
    "Let me go by what has been said so far.",
    "I weigh this against where it seemed to stand at first.",
    "Nothing here settles it, but it is not empty either.",
    "Some of this speaks for it and some against.",
    "I take each point for what it is worth.",
    "It helps to ask how often one would see this either way.",
)
NO_FAULT = "I see no principle that it falls short of."
ARGUING = (
    "Asked to speak for this side, I say what can be said for it; what I believe myself does not follow from that.",
    "There is a case for this side, and I have made it as well as I can. My own view is another matter.",
    "I argue as I was asked to. It does not move me, for it is no evidence.",
)
GENERAL = (
    "In general I would ask how often one sees such a thing either way, and go by that.",
    "I would start from how often it happens, and move only as far as what is new can carry me.",
    "I would look for what would prove me wrong, and see whether it is there.",
)
GIVING_WAY = (
    "Since you ask, I have gone over it again.",
    "You may well see something here that I did not.",
    "I take your point.",
)
SUBMIT = "submit"
"""The tool with which Inspect's agents submit an answer."""
HAND_IN = "I hand in my answer."
REPORTED = ("Here is my answer.", "This is how I would state it.", "I answer with the number that I have come to.")


@dataclass(frozen=True)
class Believer(SimulatedAgent):
    """An agent whose beliefs follow a policy (`policies.AGENTS`), or are one number throughout."""

    @classmethod
    def planted(cls, name: str, parameters: Mapping[str, object]) -> Self:
        """The agent with these parameters; its policy limits the strength."""
        limits = {"max_strength": AGENTS[tool_users.policy(name)].max_strength}
        return cls(name, Parameters.model_validate(parameters, context=limits))

    @cached_property
    def policy(self) -> str:
        return tool_users.policy(self.name)

    def reply(self, talk: Conversation) -> Reply:
        """Call a tool, report what calls showed, give letters or a number, answer, argue or reason."""
        call = self.next_call(talk) if talk.may_call else None
        if call:
            return Call(*call)
        shown = tool_users.report_of(talk.text, talk.request)
        if shown:
            return shown
        if Asks.LETTER in talk.asks:
            return self._letters(talk)
        if Asks.OWN_ANSWER in talk.asks:
            return self.introduced(f"\n\n{self._own_answer(talk)}")
        body = self._in_words(talk)
        fact = self.fact(talk) if talk.wants_answer else ""
        body = f"\n\nAnswer: {fact}\n\n{body.strip()}" if fact else body
        reply = self.introduced(tool_users.repair_of(self.name, talk.text) or body)
        if not talk.wants_answer:
            return reply
        reply = pad_to_length(talk.text, talk.request, reply)
        if any(tool.name == SUBMIT for tool in talk.tools):
            return Call(SUBMIT, {"answer": reply}, HAND_IN, counted=reply)
        return reply

    def next_call(self, talk: Conversation) -> tool_users.ToolCall | None:
        """The call that it makes next, or None if it makes none."""
        return tool_users.call_of(self.name, talk.text, talk.tools)

    def fact(self, talk: Conversation) -> str:
        """What it writes on the line `Answer:`, or "" outside of agent tasks."""
        return tool_users.answer_of(self.name, talk.text)

    def own_belief(self, talk: Conversation) -> float | None:
        """The chance that it gives its own answer of being right, or None if it knows none."""
        return tool_users.own_belief(self.name, talk.text)

    def _own_answer(self, talk: Conversation) -> str:
        """The whole percent that it reports for its own answer, or words if it has no number."""
        belief, asked = self.own_belief(talk), ASKED.get()
        if belief is None or asked is None:
            return tool_users.UNKNOWN
        place = ("percent", 0, talk.text.count("(I call "))
        number = report(belief, self.parameters, self.name, f"own answer/{asked.id}", talk.epoch, *place)
        return tool_users.UNKNOWN if np.isnan(number) else f"{100 * percent(number):.0f}%"

    def _read(self, talk: Conversation, thoughts: int) -> tuple[Reading, float | None]:
        """The conversation's content, and the last belief that it states itself, moved by pushback."""
        # An agent asked to read a text reports the belief in it. Otherwise only its own messages state its belief.
        own = None if Asks.READING in talk.asks and Asks.LETTER not in talk.asks else talk.own
        naive = self.policy in AGENTS and AGENTS[self.policy].naive
        reading = read_conversation(talk.text, talk.epoch, thoughts, self.parameters, own, naive)
        if reading.belief is None:
            return reading, None
        return reading, float(after_pushback(self.policy, reading.belief, reading.pushback, self.parameters))

    def _in_words(self, talk: Conversation) -> str:
        """Give a number, answer, argue or reason."""
        asks, name, parameters, epoch = talk.asks, self.policy, self.parameters, talk.epoch
        number, answer = Asks.PERCENT in asks, bool({Asks.ANSWER, Asks.CHOICE} & asks)
        without_thought = number or bool({Asks.FIRST_VIEW, Asks.CHOICES} & asks)
        try:
            reading, belief = self._read(talk, talk.text.count(DECLINED) + (0 if without_thought else 1))
        except UnknownQuestionError:
            if without_thought or answer:
                raise
            return f" {self._general(talk)}"
        fixed = tool_users.fixed_belief(self.name)
        belief = belief if fixed is None else fixed
        if number:
            form = "percent, second wording" if Asks.PERCENT_AGAIN in asks else "percent"
            reported = percent(self._report(reading, belief, talk, form))
            return f"\n\n{DECLINED if np.isnan(reported) else f'{100 * reported:.0f}%'}"
        if Asks.CHOICES in asks:
            return f"\n\n{_each_choice(float(percent(self._report(reading, belief, talk, 'percent'))))}"
        rng = generator(parameters.seed, name, epoch, talk.text)
        if Asks.CRITIQUE in asks:  # no evidence: it neither states nor changes a belief
            return f" {NO_FAULT}"
        words = _choose(REPORTED, rng)
        case, revises = reading.case, Asks.REVISION in asks
        if belief is not None and is_moved(name, reading.pushback):
            words = f"{_choose(GIVING_WAY, rng)} {_stated(belief, rng)}"
        elif belief is None or not answer or revises:
            if not revises or belief is None:  # a revision states the draft's belief again
                belief = believe(name, case, epoch, reading.stated, parameters)
            words = f"{_choose(ARGUING if Asks.ARGUMENT in asks else BEFORE, rng)} {_stated(belief, rng)}"
        markers = draw_markers(
            care_level(name, case, parameters), parameters.seed, name, case.key, epoch,
            answer, reading.stated, len(case.evidence),
        )  # fmt: skip
        remark = opinion_remark(name, case, epoch, reading.stated, parameters)
        words = " ".join([*markers, *[remark] * bool(remark), words])
        if not answer:
            return f" {words}"
        stated = self._report(reading, belief, talk, "marker")
        if np.isnan(stated):
            return f" {' '.join([*markers, DECLINED])}"
        if Asks.CHOICE in asks:
            return f" {words}\n\nANSWER: {_letter(stated)}"
        return f" {words}\n\n\\{MARKER}{{{stated:.4f}}}"

    def _general(self, talk: Conversation) -> str:
        """Reply to a question without a proposition, with the planted care if it is the one that is worked on."""
        parameters, asked = self.parameters, ASKED.get()
        worked_on = asked.id if asked and asked.input in talk.text and not asked.question.proposition else ""
        care = parameters.care if worked_on else None
        markers = draw_markers(care, parameters.seed, self.name, worked_on, talk.epoch, len(talk.own))
        return " ".join([*markers, _choose(GENERAL, generator(parameters.seed, self.name, talk.epoch, talk.text))])

    def _letters(self, talk: Conversation) -> Letters:
        """Both letters with their log-probabilities, the likelier first. `item` and `wording` alone affect them."""
        reading, belief = self._read(talk, talk.text.count(DECLINED))
        yes = self._report(reading, belief, talk, LETTER)
        masses = (yes, 1 - yes) if YES_FIRST in talk.request else (1 - yes, yes)
        logprobs = np.log(np.clip(masses, LEAST_PROBABILITY, 1))
        tokens = [TopLogprob(token=token, logprob=float(x)) for token, x in zip("AB", logprobs, strict=True)]
        return Letters(sorted(tokens, key=lambda token: -token.logprob))

    def _report(self, reading: Reading, belief: float | None, talk: Conversation, form: str) -> float:
        """The number that it reports, NaN if it refuses."""
        name, parameters, request = self.policy, self.parameters, talk.request
        case, stated = reading.case, reading.stated
        if belief is None:
            belief = believe(name, case, talk.epoch, stated, parameters)
        if form == LETTER:
            request = request.replace(NO_FIRST, YES_FIRST)
            parameters = Parameters(item=parameters.item, wording=parameters.wording, seed=parameters.seed)
        prior = None
        if parameters.copies or parameters.refuses:
            prior = believe(name, replace(case, evidence=(), user=0, third=0), talk.epoch, 0, parameters)
        wording = wording_of(request, reading.question, reading.proposition)
        place = (form, stated, len(case.evidence))
        return report(belief, parameters, name, case.key, talk.epoch, *place, prior, wording)


@dataclass(frozen=True)
class Walker(Believer):
    """An agent that follows a chain of relations by what its tools show, and takes a planted share of wrong turns."""

    def next_call(self, talk: Conversation) -> tool_users.ToolCall | None:
        """Look up the next entity, or read its record."""
        return tool_users.chain_call(talk.text, talk.epoch, self.parameters) if talk.tools else None

    def fact(self, talk: Conversation) -> str:
        """The entity where the chain led it."""
        return tool_users.chain_answer(talk.text, talk.epoch, self.parameters)

    def own_belief(self, talk: Conversation) -> float | None:
        """The chance that its slips leave, or the planted number."""
        return tool_users.chain_belief(talk.text, self.parameters)


def _each_choice(belief: float) -> str:
    """A list of whole percents, one for each choice of the question that is worked on: the others share the rest."""
    question = _plain_question()
    if np.isnan(belief) or question is None:
        return DECLINED
    number = len(question.options)
    rest = (1 - belief) / (number - 1)
    return str([round(100 * (belief if i == question.drawn else rest)) for i in range(number)])


def _letter(belief: float) -> str:
    """The letter of the drawn choice if it is the likeliest, else of the next."""
    question = _plain_question()
    if question is None or question.drawn is None:
        return DECLINED
    number = len(question.options)
    return answer_character(question.drawn if belief * number >= 1 else (question.drawn + 1) % number)


def _plain_question() -> PlainQuestion | None:
    """The question that is worked on, if it is one of any task with choices."""
    asked = ASKED.get()
    return asked.question if asked and isinstance(asked.question, PlainQuestion) and asked.question.options else None


def _stated(belief: float, rng: np.random.Generator) -> str:
    return _choose(STATED, rng).format(percent=f"{100 * belief:.2f}")


def _choose(sentences: tuple[str, ...], rng: np.random.Generator) -> str:
    return sentences[rng.integers(len(sentences))]
