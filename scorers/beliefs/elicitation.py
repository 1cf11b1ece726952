"""Elicitation: what a model or a judge believes before, during and after the reasoning.

Scorers call it, both in a run and on a finished log. It never changes the trajectory: each question is asked in a
branch of the conversation, with the model's thinking switched off where its provider can do that. Every belief is
recorded with a digest of its request, and a request that an earlier scorer of the sample has had answered, in this
scoring pass or a previous one, is not sent again.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from inspect_ai.model import ChatMessage, Model, get_model
from inspect_ai.solver import TaskState
from inspect_ai.util import span

from truthgym.datasets.question import PlainQuestion, Question, question_text
from truthgym.models.predictor import LETTERS, MIN_MASS, letter_probabilities, token_belief, without_thinking
from truthgym.scorers.beliefs.answer import (
    CUT_SHORT,
    final_answer,
    read_answer,
    required_proposition,
    stated_belief,
    unasked,
)
from truthgym.scorers.beliefs.parsing import read_beliefs
from truthgym.scorers.beliefs.reader import LIST, PERCENT, Replies, can_repair
from truthgym.scorers.beliefs.record import AnswerFormat, Belief, recorded_replies
from truthgym.scorers.beliefs.transcript import as_json, as_text, branch, turns_of
from truthgym.solvers.direct import HOW_LIKELY
from truthgym.solvers.roles import required_model
from truthgym.solvers.trajectory import STEPS, opens_with_refusal, recorded_answer, recorded_end, user_message

PROBE = f"How likely is it that the following statement is true?\n\n{{proposition}}\n\n{PERCENT}"
PROBE_2 = (
    "Suppose that you judge 100 statements, each of them exactly as plausible to you as this one:\n\n{proposition}\n\n"
    "How many of the 100 statements turn out to be true? Write one whole number from 0 to 100, without explanation."
)
"""`PROBE` in other words, for the second report of the prior."""
LETTER_PROBE = f"Claim: {{proposition}}\n\nDo you think that this claim is correct?\n\n{LETTERS}"
LETTER_PROBE_2 = f"Is the following statement true?\n\n{{proposition}}\n\n{LETTERS}"
"""`LETTER_PROBE` in other words."""
CHOICES_PROBE = (
    "How likely is it of each of these choices that it is a right answer to the question?\n\n{choices}\n\n"
    f"{LIST}: one for each choice, in this order."
)
VIEW = (
    "Give your first impression in two or three sentences: how likely do you think it is that the following statement "
    "is true?\n\n{proposition}"
)
QUESTION = "<question>\n{question}\n</question>"
READ = (
    "Below are a question and {what} of someone who was asked it.\n\n"
    f"{QUESTION}\n\n<text>\n{{text}}\n</text>\n\n{{whose}}\n\n{{proposition}}\n\n{PERCENT}"
)
WHAT = {"prior": "the first impression", "": "the reasoning"}
WHOSE = {
    "policy": "At the end of this text, how likely does its writer think it is that the following statement is true? "
    "Report the writer's belief as you understand it, whatever you think yourself.",
    "judge": "Having read this, how likely do you think it is that the following statement is true? Give your own "
    "belief, which need not be the writer's.",
}
JOINT = (
    "Below are a question and the steps in which someone reasoned about it.\n\n"
    f"{QUESTION}\n\n<steps>\n{{steps}}\n</steps>\n\n{{whose}}\n\n{{proposition}}\n\n"
    f"{LIST}: the "
    "belief before the first step, and then the belief after each of the {turns} steps, based on that step and all "
    "earlier ones."
)
WHOSE_JOINT = {
    "policy": "At each point, how likely does the writer think it is that the following statement is true?",
    "judge": "At each point, how likely do you think it is that the following statement is true? Give your own belief, "
    "which need not be the writer's.",
}
FORMER_WORDING = {
    VIEW.removesuffix("{proposition}"): "Give a short first view, in two or three sentences: how likely is it, as far "
    "as you can say at first sight, that the following statement is true?\n\n",
    "Below are a question and the first impression of someone": "Below is a question, and the first view of someone",
    "Below are a question and the reasoning of someone": "Below is a question, and the reasoning of someone",
    WHOSE["policy"]: "Where this text ends, how likely does its writer hold the following statement to be? Report the "
    "writer's belief as you read it, whatever you think yourself.",
    WHOSE["judge"]: "Having read this, how likely do you hold the following statement to be? Give your own belief, "
    "which need not be the writer's.",
    "Below are a question and the steps in which": "Below is a question, and the steps in which",
    "based on that step and all earlier ones.": "going by that step and all before it.",
    WHOSE_JOINT["policy"]: "How likely does the writer hold the following statement to be, at each point?",
    WHOSE_JOINT["judge"]: "How likely do you hold the following statement to be, at each point? Give your own belief, "
    "which need not be the writer's.",
}
"""Parts of the requests with their wording before November 2026: beliefs recorded then are not asked for again."""

Elicitor = Literal["self", "judge", "token", "both"]
Perspective = Literal["policy", "judge"]
Granularity = Literal["trajectory", "step"]
Reuse = Literal["reuse", "fresh", "recorded"]
Paraphrases = Literal[1, 2]


@dataclass(frozen=True)
class ElicitationConfig:
    """Which beliefs to ask for: arguments of `martingale`, which describes and checks them."""

    elicitor: Elicitor = "self"
    standpoint: Perspective = "policy"
    per: Granularity = "trajectory"
    joint: bool = False
    system_prompt_in_probe: bool = False
    beliefs: Reuse = "reuse"
    paraphrases: Paraphrases = 1
    reader: bool = False
    repair: bool = True
    schema: bool = False

    @property
    def roles(self) -> tuple[str, ...]:
        """Model roles that must be bound."""
        if self.beliefs == "recorded":
            return ()
        return ("judge",) * (self.elicitor in ("judge", "both") or self.joint) + ("reader",) * self.reader


async def elicit(state: TaskState, question: Question, config: ElicitationConfig) -> list[Belief]:
    """Measure beliefs about a question's proposition along the trajectory that a solver left.

    `martingale` says how many model calls this takes; none if the reasoning ended early: a model that refused is not
    asked again.
    """
    elicitation = _Elicitation(state, question, config)
    beliefs: list[Belief] = []
    if config.elicitor != "judge":
        beliefs += [belief async for belief in elicitation.by_the_model()]
    if config.elicitor in ("judge", "both"):
        beliefs += [belief async for belief in elicitation.by_the_judge()]
    if config.joint:
        beliefs += await elicitation.by_joint_reading()
    return beliefs


async def posterior(
    state: TaskState, question: Question, elicitor: Literal["self", "token"], reader: bool = False, repair: bool = True
) -> Belief:
    """The model's belief after its answer. One model call, by token probability two, or none if the log holds it."""
    elicitation = _Elicitation(state, question, ElicitationConfig(elicitor=elicitor, reader=reader, repair=repair))
    return [belief async for belief in elicitation.after_reasoning()][-1]


async def belief_after_answer(state: TaskState, question: Question, replies: Replies) -> Belief:
    """The belief that a sample's last answer states, or in which it is read after a repair: see `read_answer`.

    Of a question of any other task, whose solver asked for no belief, it is asked for after the answer, as `posterior`
    does.
    """
    text, _ = final_answer(state)
    of_ours = not isinstance(question, PlainQuestion)
    if of_ours or text is None or _asked_about(state, question):
        return await read_answer(state, question, replies)
    if not question.options and stated_belief(state)[0] is not None:
        return await read_answer(state, question, replies)
    if replies.repair and not opens_with_refusal(text) and can_repair(get_model()):
        return await posterior(state, question, "self", replies.by_model, replies.repair)
    return unasked(state, "The answer states no probability, and the model was not asked for one.")


async def choice_beliefs(state: TaskState, question: Question, repair: bool = True) -> tuple[Belief, list[float]]:
    """The model's beliefs after its answer that each choice is right; with the record of the one in the proposition."""
    assert isinstance(question, PlainQuestion)
    assert question.drawn is not None
    belief = await _Elicitation(state, question, ElicitationConfig(repair=repair)).of_choices(question)
    values = read_beliefs(belief.repaired or belief.raw, len(question.options)) or []
    return (replace(belief, value=values[question.drawn], reason=None) if values else belief), values


def _asked_about(state: TaskState, question: Question) -> bool:
    """Whether a solver of ours has asked for the belief in the proposition."""
    request = HOW_LIKELY.format(proposition=question.proposition)
    return any(message.role == "user" and request in message.text for message in state.messages)


class _Elicitation:
    """Asks for the beliefs of one sample."""

    def __init__(self, state: TaskState, question: Question, config: ElicitationConfig) -> None:
        self.state, self.config = state, config
        self.proposition = proposition = required_proposition(state, question)
        self.own = "token" if config.elicitor == "token" else "self"
        wordings = (LETTER_PROBE, LETTER_PROBE_2) if self.own == "token" else (PROBE, PROBE_2)
        self.probe, self.probe_2 = (wording.format(proposition=proposition) for wording in wordings)
        self.judge = required_model("judge") if "judge" in config.roles else None
        self.turns = turns_of(state)
        self.ended = recorded_end(state.store)
        self.cut_short = STEPS in state.store and recorded_answer(state.store) is None
        self.any_model = config.beliefs == "recorded"
        self.replies = Replies(
            {} if config.beliefs == "fresh" else recorded_replies(state, self.any_model),
            config.repair,
            config.reader,
            required_model("reader") if "reader" in config.roles else None,
            config.schema,
        )

    async def by_the_model(self) -> AsyncIterator[Belief]:
        """The model's own beliefs: the prior in a fresh context, the others in continuations of its trajectory."""
        messages = self._fresh(f"{question_text(self.state)}\n\n{self.probe}")
        yield await self._belief("prior", self.own, "separate", False, messages)
        if self.config.paraphrases == 2:
            messages = self._fresh(f"{question_text(self.state)}\n\n{self.probe_2}")
            yield await self._belief("prior 2", self.own, "separate", False, messages)
        async for belief in self.after_reasoning():
            yield belief

    async def after_reasoning(self) -> AsyncIterator[Belief]:
        """The model's own beliefs in continuations of its trajectory, the posterior last."""
        for stage, end in self._stages([i for i, turn in enumerate(self.turns) if turn.closes]):
            yield await self._belief(stage, self.own, "continued", True, self._continued(end, self.probe))

    async def of_choices(self, question: Question) -> Belief:
        """The model's reply, after its answer, with a probability for each choice: a list, which its caller reads."""
        number = len(question.options)
        probe = CHOICES_PROBE.format(choices="\n".join(question.options), number=number)
        *_, (_, end) = self._stages([i for i, turn in enumerate(self.turns) if turn.closes])
        messages = self._continued(end, probe)
        reply = await self._reply("choices", "self", "continued", True, messages, get_model())
        reply = replace(reply, answer_format="list")
        if reply.raw is None or read_beliefs(reply.raw, number):
            return reply
        reply = replace(
            reply, reason=f"No list of {number} whole percents could be read in the reply: {reply.raw[-80:]!r}"
        )
        return await self.replies.repaired(reply, get_model(), messages or [], number=number)

    def _continued(self, end: int, probe: str) -> list[ChatMessage] | None:
        """The conversation up to so many turns, and the probe; None if it has no turn."""
        history = branch(self.state.messages, self.turns[end - 1].message) if end else []
        messages = [m for m in history if self.config.system_prompt_in_probe or m.role != "system"]
        return [*messages, user_message(probe, self.state.epoch)] if end else None

    async def by_the_judge(self) -> AsyncIterator[Belief]:
        """A judge's readings, one call each: of the model's first impression for the prior, then of its reasoning."""
        messages = self._fresh(f"{question_text(self.state)}\n\n{VIEW.format(proposition=self.proposition)}")
        view = await self._reply("view", "judge", "separate", False, messages, get_model())
        view = replace(view, reason=None) if view.raw else view  # also an impression that was cut off
        yield view
        reading = self._reading("prior", view.raw) if view.raw else None
        yield await self._belief("prior", "judge", "read", False, reading)
        for stage, end in self._stages(list(range(len(self.turns)))):
            reading = self._reading("", as_text(self.turns[:end])) if end else None
            yield await self._belief(stage, "judge", "read", True, reading)

    async def by_joint_reading(self) -> list[Belief]:
        """One reading of everything, as in the published pipeline: whoever gives these beliefs has seen the end."""
        number = len(self.turns) + 1
        text = JOINT.format(
            question=question_text(self.state),
            steps=as_json(self.turns),
            whose=WHOSE_JOINT[self.config.standpoint],
            proposition=self.proposition,
            number=number,
            turns=len(self.turns),
        )
        messages = [user_message(text, self.state.epoch)] if self.turns else None
        reply = replace(await self._reply("all", "joint", "read", True, messages, self.judge), answer_format="list")
        values = read_beliefs(reply.raw, number) if reply.raw is not None else None
        if values is None and reply.raw is not None:
            reply = await self.replies.repaired(reply, self.judge, messages or [], number=number)
            values = read_beliefs(reply.repaired, number)
        reason = None if values else reply.reason or f"The judge gave no list of {number} whole percents."
        stages = [f"step {k}" for k in range(1, number)]
        if not self.cut_short:
            stages = [*stages[:-1], "posterior"]
        return [
            replace(reply, stage=stage, value=values[i] if values else None, reason=reason)
            for i, stage in enumerate(["prior", *stages])
        ]

    def _stages(self, ends: Sequence[int]) -> Iterator[tuple[str, int]]:
        """Each stage after the prior, with the number of turns before it; 0 if the stage was not reached."""
        if self.config.per == "step":
            yield from ((f"step {i + 1}", i + 1) for i in (ends if self.cut_short else ends[:-1]))
        yield "posterior", ends[-1] + 1 if ends and not self.cut_short else 0

    def _fresh(self, text: str) -> list[ChatMessage]:
        system = [m for m in self.state.messages if m.role == "system"] if self.config.system_prompt_in_probe else []
        return [*system, user_message(text, self.state.epoch)]

    def _reading(self, stage: str, text: str) -> list[ChatMessage]:
        request = READ.format(
            what=WHAT[stage],
            question=question_text(self.state),
            text=text,
            whose=WHOSE[self.config.standpoint],
            proposition=self.proposition,
        )
        return [user_message(request, self.state.epoch)]

    async def _belief(
        self, stage: str, elicitor: str, context: str, saw_reasoning: bool, messages: Sequence[ChatMessage] | None
    ) -> Belief:
        """Ask, and parse the reply as one probability."""
        model = self.judge if elicitor == "judge" else get_model()
        reply = await self._reply(stage, elicitor, context, saw_reasoning, messages, model)
        if elicitor == "token":
            return _by_token(replace(reply, answer_format="letter"))
        config = None
        if model and elicitor == "self":
            model, config = without_thinking(model)
        reply = replace(reply, answer_format="percent")
        return await self.replies.read(
            reply, self.proposition, None if self.any_model else model, messages or [], config
        )

    async def _reply(
        self,
        stage: str,
        elicitor: str,
        context: str,
        saw_reasoning: bool,
        messages: Sequence[ChatMessage] | None,
        model: Model | None,
    ) -> Belief:
        """Take the reply from the record, or ask for it."""
        belief = Belief(None, stage, elicitor, context, saw_reasoning, self.state.epoch, None, None, None)
        if self.ended is not None:
            return replace(belief, reason=self.ended)
        if messages is None:
            cut_short = self.cut_short and stage == "posterior"
            return replace(belief, reason=CUT_SHORT if cut_short else "There is no reply to read this belief from.")
        schema = [("schema", "percent")] if self.config.schema and elicitor in ("self", "judge") else []
        known_model = None if self.any_model else model
        requests = [
            self.replies.request(words + schema, self.state.epoch, known_model)
            for words in (_texts(messages), _former(messages))
        ]
        for request in requests:
            if request in self.replies.recorded:
                return replace(belief, raw=self.replies.recorded[request], request=request)
        belief = replace(belief, request=requests[0])
        if model is None or self.any_model:
            return replace(belief, reason="This log does not hold it, and beliefs=recorded makes no model call.")
        name = f"{stage} ({elicitor})"
        if elicitor == "token":
            messages[-1].metadata = {**(messages[-1].metadata or {}), "belief": name}
            async with span(f"belief: {name}", type="truthgym.belief"):
                letters, refusal = await letter_probabilities(model, messages)
            return replace(belief, raw=letters, reason=refusal)
        # A judge may think. The model itself is asked for what it believes, not to reason on.
        itself = elicitor == "self" or stage == "view"
        model, config = without_thinking(model) if itself else (model, None)
        answer_format: AnswerFormat | None = "percent" if stage not in ("view", "all", "choices") else None
        return await self.replies.ask(replace(belief, answer_format=answer_format), model, messages, name, config)


def _by_token(reply: Belief) -> Belief:
    """The value of a reply that holds the probabilities of the letters."""
    if reply.raw is None:
        return reply
    belief = token_belief(reply.raw)
    reason = f"Only {belief.mass:.1%} of the probability is on A and B, less than {MIN_MASS:.0%}."
    return replace(
        reply, value=belief.value, gap=belief.gap, mass=belief.mass, reason=reason if belief.value is None else None
    )


def _texts(messages: Sequence[ChatMessage]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in messages]


def _former(messages: Sequence[ChatMessage]) -> list[tuple[str, str]]:
    """The messages as they were worded before, by which older logs know their beliefs."""
    *history, (role, text) = _texts(messages)
    for wording, former in FORMER_WORDING.items():
        text = text.replace(wording, former)
    return [*history, (role, text)]
