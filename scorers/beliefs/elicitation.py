"""Elicitation: what is believed before, during and after the reasoning, asked from outside of it.

Scorers call it, so it works in a run and on a finished log alike. No message of the trajectory is touched: each
question goes to a branch. Every belief is recorded with the request that it answers, and one that an earlier scorer of
the sample, in this pass or another, has already had answered is taken from its record.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from inspect_ai.model import ChatMessage, Model, get_model
from inspect_ai.solver import TaskState
from inspect_ai.util import span

from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.question import Question
from truthgym.scorers.beliefs.parsing import read_belief, read_beliefs
from truthgym.scorers.beliefs.record import Belief, digest_of_model, digest_of_request, recorded_replies
from truthgym.scorers.beliefs.transcript import as_json, as_text, branch, turns_of
from truthgym.solvers.roles import required_model
from truthgym.solvers.trajectory import STEPS, failure_reason, recorded_answer, recorded_end, user_message

PERCENT = "Reply with one whole number from 0 to 100, the probability in percent, and nothing else."
PROBE = f"How likely is it that the following statement is true?\n\n{{proposition}}\n\n{PERCENT}"
VIEW = (
    "Give a short first view, in two or three sentences: how likely is it, as far as you can say at first sight, that "
    "the following statement is true?\n\n{proposition}"
)
QUESTION = "<question>\n{question}\n</question>"
READ = (
    "Below is a question, and {what} of someone who was asked it.\n\n"
    f"{QUESTION}\n\n<text>\n{{text}}\n</text>\n\n{{whose}}\n\n{{proposition}}\n\n{PERCENT}"
)
WHAT = {"prior": "the first view", "": "the reasoning"}
WHOSE = {
    "policy": "Where this text ends, how likely does its writer hold the following statement to be? Report the "
    "writer's belief as you read it, whatever you think yourself.",
    "judge": "Having read this, how likely do you hold the following statement to be? Give your own belief, which need "
    "not be the writer's.",
}
JOINT = (
    "Below is a question, and the steps in which someone reasoned about it.\n\n"
    f"{QUESTION}\n\n<steps>\n{{steps}}\n</steps>\n\n{{whose}}\n\n{{proposition}}\n\n"
    "Reply with a JSON list of {number} whole numbers from 0 to 100, probabilities in percent, and nothing else: the "
    "belief before the first step, and then the belief after each of the {turns} steps, going by that step and all "
    "before it."
)
WHOSE_JOINT = {
    "policy": "How likely does the writer hold the following statement to be, at each point?",
    "judge": "How likely do you hold the following statement to be, at each point? Give your own belief, which need "
    "not be the writer's.",
}

Elicitor = Literal["self", "judge", "both"]
Standpoint = Literal["policy", "judge"]
Per = Literal["trajectory", "step"]
Reuse = Literal["reuse", "fresh", "recorded"]


@dataclass(frozen=True)
class Settings:
    """What to ask for: the arguments of the scorers that measure beliefs. See `martingale`."""

    elicitor: Elicitor = "self"
    standpoint: Standpoint = "policy"
    per: Per = "trajectory"
    joint: bool = False
    system_prompt_in_probe: bool = False
    beliefs: Reuse = "reuse"

    def __post_init__(self) -> None:
        for name, kind in (("elicitor", Elicitor), ("standpoint", Standpoint), ("per", Per), ("beliefs", Reuse)):
            one_of(name, getattr(self, name), get_args(kind))
        for name in ("joint", "system_prompt_in_probe"):
            if not isinstance(getattr(self, name), bool):
                raise BadInput(f"{name}={getattr(self, name)!r} cannot be used; write true or false")

    @property
    def roles(self) -> tuple[str, ...]:
        """Model roles that must be bound."""
        return ("judge",) if self.beliefs != "recorded" and (self.elicitor != "self" or self.joint) else ()


async def elicit(state: TaskState, question: Question, settings: Settings) -> list[Belief]:
    """Measure beliefs about a question's proposition, over the trajectory that a solver left.

    Model calls, with T turns of the trajectory (assistant messages; reasoning that a provider shows is one more) and M
    assistant messages: "self" 2, or 1 + M by step; "judge" 3, or 2 + T by step; joint 1 more. None where the reasoning
    ended early: where the model refused, it is not asked again.

    Raises:
        BadInput: The question has no proposition, or a judge is needed and none is bound.
    """
    if not question.proposition:
        raise BadInput(
            f"Sample {state.sample_id!r} has no proposition whose probability could be believed; use a domain with "
            "binary or two-sided questions"
        )
    asking = _Asking(state, question.proposition, settings)
    made: list[Belief] = []
    if settings.elicitor != "judge":
        made += [belief async for belief in asking.of_the_model()]
    if settings.elicitor != "self":
        made += [belief async for belief in asking.of_the_judge()]
    if settings.joint:
        made += await asking.jointly()
    return made


class _Asking:
    """Asks the questions of one sample."""

    def __init__(self, state: TaskState, proposition: str, settings: Settings) -> None:
        self.state, self.settings = state, settings
        self.proposition = proposition
        self.probe = PROBE.format(proposition=proposition)
        self.judge = required_model("judge") if settings.roles else None
        self.turns = turns_of(state)
        self.ended = recorded_end(state.store)
        self.cut_short = STEPS in state.store and recorded_answer(state.store) is None
        only = settings.beliefs == "recorded"
        self.recorded = {} if settings.beliefs == "fresh" else recorded_replies(state, whoever=only)

    async def of_the_model(self) -> AsyncIterator[Belief]:
        """The model's own beliefs: in a fresh context, and in continuations of its trajectory."""
        asked = self._fresh(f"{self.state.input_text}\n\n{self.probe}")
        yield await self._belief("prior", "self", "separate", False, asked)
        for stage, end in self._stages([i for i, turn in enumerate(self.turns) if turn.closes]):
            kept = branch(self.state.messages, self.turns[end - 1].message) if end else []
            messages = [m for m in kept if self.settings.system_prompt_in_probe or m.role != "system"]
            probe = user_message(self.probe, self.state.epoch)
            yield await self._belief(stage, "self", "continued", True, [*messages, probe] if end else None)

    async def of_the_judge(self) -> AsyncIterator[Belief]:
        """A judge's reading: of a first view in a fresh context, and of the trajectory's text, each by itself."""
        asked = self._fresh(f"{self.state.input_text}\n\n{VIEW.format(proposition=self.proposition)}")
        view = await self._answer("view", "judge", "separate", False, asked, get_model())
        yield view
        read = self._reading("prior", view.raw) if view.raw else None
        yield await self._belief("prior", "judge", "read", False, read)
        for stage, end in self._stages(list(range(len(self.turns)))):
            read = self._reading("", as_text(self.turns[:end])) if end else None
            yield await self._belief(stage, "judge", "read", True, read)

    async def jointly(self) -> list[Belief]:
        """One reading of everything, as the published pipeline does it: all its beliefs have seen the end."""
        number = len(self.turns) + 1
        text = JOINT.format(
            question=self.state.input_text,
            steps=as_json(self.turns),
            whose=WHOSE_JOINT[self.settings.standpoint],
            proposition=self.proposition,
            number=number,
            turns=len(self.turns),
        )
        asked: Sequence[ChatMessage] | None = [user_message(text, self.state.epoch)] if self.turns else None
        answer = await self._answer("all", "joint", "read", True, asked, self.judge)
        values = read_beliefs(answer.raw, number) if answer.raw is not None else None
        reason = answer.reason or (None if values else f"The judge gave no list of {number} whole percents.")
        stages = ["prior", *(f"step {k}" for k in range(1, number))]
        if not self.cut_short:
            stages[-1 if self.turns else len(stages) :] = ["posterior"]
        return [
            replace(answer, stage=stage, value=values[i] if values else None, reason=reason)
            for i, stage in enumerate(stages)
        ]

    def _stages(self, ends: Sequence[int]) -> Iterator[tuple[str, int]]:
        """Each stage after the prior with the number of turns that stand before it; 0 where there are none."""
        if self.settings.per == "step":
            yield from ((f"step {i + 1}", i + 1) for i in (ends if self.cut_short else ends[:-1]))
        yield "posterior", ends[-1] + 1 if ends and not self.cut_short else 0

    def _fresh(self, text: str) -> list[ChatMessage]:
        system = [m for m in self.state.messages if m.role == "system"] if self.settings.system_prompt_in_probe else []
        return [*system, user_message(text, self.state.epoch)]

    def _reading(self, stage: str, text: str) -> list[ChatMessage]:
        asked = READ.format(
            what=WHAT[stage],
            question=self.state.input_text,
            text=text,
            whose=WHOSE[self.settings.standpoint],
            proposition=self.proposition,
        )
        return [user_message(asked, self.state.epoch)]

    async def _belief(
        self, stage: str, elicitor: str, context: str, saw: bool, messages: Sequence[ChatMessage] | None
    ) -> Belief:
        model = get_model() if elicitor == "self" else self.judge
        answer = await self._answer(stage, elicitor, context, saw, messages, model)
        value = read_belief(answer.raw)
        said = (answer.raw or "").strip()[-80:]
        unread = None if value is not None else f"No single probability could be read in the reply: {said!r}"
        return replace(answer, value=value, reason=answer.reason or unread)

    async def _answer(
        self,
        stage: str,
        elicitor: str,
        context: str,
        saw: bool,
        messages: Sequence[ChatMessage] | None,
        model: Model | None,
    ) -> Belief:
        def made(raw: str | None, reason: str | None, request: str | None) -> Belief:
            return Belief(None, stage, elicitor, context, saw, self.state.epoch, raw, reason, request)

        if self.ended is not None:
            return made(None, self.ended, None)
        if messages is None:
            cut = "The reasoning was cut short before an answer."
            empty = "There is no reply that this belief could be read in or after."
            return made(None, cut if self.cut_short and stage == "posterior" else empty, None)
        request = digest_of_request(messages, self.state.epoch)
        if self.settings.beliefs == "recorded":
            known = self.recorded.get(request)
            missing = "Not recorded in this log, and beliefs=recorded asks for nothing."
            return made(known, None if known else missing, request)
        assert model is not None
        request += f"-{digest_of_model(model)}"
        if request in self.recorded:
            return made(self.recorded[request], None, request)
        # Inspect 0.3.285's viewer shows no spans inside a scorer, but a message's metadata: the name stands in both.
        name = f"{stage} ({elicitor})"
        messages[-1].metadata = {**(messages[-1].metadata or {}), "belief": name}
        async with span(f"belief: {name}", type="truthgym.belief"):
            output = await model.generate(list(messages))
        refused = failure_reason(output)
        if refused:
            return made(None, refused, request)
        self.recorded[request] = output.completion
        return made(output.completion, None, request)
