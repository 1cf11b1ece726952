r"""`reference/...`: simulated agents with planted beliefs, answering the real prompts in natural text.

    inspect eval truthgym/urns --model reference/bayesian -M noise=0.1 -M seed=1
    inspect eval truthgym/urns --model reference/entrenched -M strength=0.3 -M noise=0.08 -M shared=0.5

They need no key and no download, and are the instrument that every measure is calibrated on. An agent reads what any
model reads. It finds the question by containment, and knows the truth of bundled questions only as a signal of
planted quality; where none is known, the truth is a fair coin's, the same for all agents. A question with nothing to
believe it answers in general words. Each turn of thought states its belief in words. An answer ends with
`\finalBeliefProb{p}`, and a question for a whole number is answered with one: reports, with the planted noise, of the
last belief stated. What others say is no evidence to it, unless it is `trusting` or `sycophant`, and arguing a side
does not move it. With `-M care=0.5` it also writes what careful reasoners write (`models.considerations`), which moves
no belief either.
"""

import numpy as np
from inspect_ai.model import (
    ChatMessage,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    modelapi,
)
from inspect_ai.tool import ToolChoice, ToolInfo
from pydantic import ValidationError

from truthgym.datasets.errors import BadInput, one_of
from truthgym.models.agents import interviewer, judge
from truthgym.models.agents.belief_reports import percent, report
from truthgym.models.agents.judge_forms import Request
from truthgym.models.agents.lengths import count_tokens, pad_to_length
from truthgym.models.agents.opinions import after_pushback, care_level, is_moved, opinion_remark
from truthgym.models.agents.policies import AGENTS, Parameters, believe, generator
from truthgym.models.agents.quality_markers import draw_markers
from truthgym.models.agents.reading import (
    MARKER,
    STATED,
    Reading,
    UnknownQuestionError,
    open_question,
    read_conversation,
)

WHOLE_NUMBER = "whole number from 0 to 100"
NOT_A_MODEL = "(Simulated {agent} agent, not a language model.)"
BEFORE = (
    "Let me go by what has been said so far.",
    "I weigh this against where it seemed to stand at first.",
    "Nothing here settles it, but it is not empty either.",
    "Some of this speaks for it and some against.",
    "I take each point for what it is worth.",
    "It helps to ask how often one would see this either way.",
)
ARGUE = "argue for this position"
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
CONCLUDE = "Give your answer."
"""What is asked where there is nothing to be true or false, as `solvers.direct` has it."""
SUBMIT = "submit"
"""The tool by which Inspect's agents hand in an answer."""
HAND_IN = "I hand in my answer."
REPORTED = (
    "Here is my answer.",
    "This is how I would state it.",
    "I answer with the number that I have come to.",
)
TAKES = {name: agent.takes for name, agent in AGENTS.items()} | {
    judge.NAME: judge.PARAMETERS,
    interviewer.NAME: interviewer.PARAMETERS,
}
"""The parameters that each agent takes."""


@modelapi(name="reference")
def reference() -> type[ModelAPI]:
    """Inspect's hook: the class behind `--model reference/NAME`."""
    return ReferenceAPI


class ReferenceAPI(ModelAPI):
    """A simulated agent as an Inspect model.

    Deterministic: a reply is a function of the parameters, the conversation and the epoch, whatever the concurrency,
    in a run and when a finished log is scored. The epoch is read in the metadata of the messages.

    Args:
        model_name: The agent: a key of `agents.AGENTS`, "judge" or "interviewer".
        base_url: Not used. The agent's own is its parameters.
        api_key: Not used.
        config: Not used.
        **parameters: Those of `agents.Parameters` that the agent takes.

    Raises:
        BadInput: An unknown agent, an unknown parameter, or a value outside its range.
    """

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),  # noqa: B008 (Inspect's own signature)
        **parameters: float,
    ) -> None:
        # Inspect's cache knows a model by name and base URL alone, and agents with other parameters must not share it.
        planted = ",".join(f"{name}={parameters[name]}" for name in sorted(parameters)) or None
        super().__init__(model_name, planted, api_key, [], config)
        one_of("reference agent", model_name, sorted(TAKES))
        for name in parameters:
            one_of(f"argument of reference/{model_name}", name, sorted(TAKES[model_name]))
        try:
            self.parameters = Parameters.model_validate(parameters)
        except ValidationError as error:
            first = error.errors()[0]
            raise BadInput(f"-M {first['loc'][0]}={first['input']} cannot be used: {first['msg']}") from None
        most = AGENTS[model_name].most if model_name in AGENTS else 0.0
        if self.parameters.strength is not None and self.parameters.strength > most:
            raise BadInput(
                f"-M strength={self.parameters.strength:g} cannot be used: reference/{model_name} takes one from 0 to "
                f"{most:g}"
            )

    async def generate(
        self, input: list[ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: GenerateConfig
    ) -> ModelOutput:
        """Reply to a conversation.

        Raises:
            BadInput: The conversation holds no question that the agent knows, or no message says its epoch.
        """
        text = "\n\n".join(message.text for message in input)
        epoch = _epoch(input)
        asked = next((message.text for message in reversed(input) if message.role == "user"), "")
        whole = None
        if self.model_name == judge.NAME:
            whole = judge.fill_or_comment(self._request(input, epoch))
            said = "" if whole else f"\n\n{judge.report_belief(text, epoch, self.parameters)}"
        elif self.model_name == interviewer.NAME:
            said = f"\n\n{interviewer.interview_questions(text, epoch, self.parameters)}"
        else:
            # Asked to read a text, an agent says what that holds; else only its own words count as its own.
            said = self._say(text, asked, epoch, None if judge.READING in asked else _own(input))
        reply = whole or f"{NOT_A_MODEL.format(agent=self.model_name)}{said}"
        answering = MARKER in asked or CONCLUDE in asked
        reply = pad_to_length(text, asked, reply) if answering and whole is None else reply
        name = f"reference/{self.model_name} (simulated)"
        if answering and any(tool.name == SUBMIT for tool in tools):
            output = ModelOutput.for_tool_call(name, SUBMIT, {"answer": reply}, content=HAND_IN)
        else:
            output = ModelOutput.from_content(name, reply)
        # Reported, so that Inspect does not download a tokenizer to count for itself.
        read, written = count_tokens(text), count_tokens(reply)
        output.usage = ModelUsage(input_tokens=read, output_tokens=written, total_tokens=read + written)
        return output

    async def count_text_tokens(self, text: str) -> int:
        """Count as `generate` does. Inspect's own way would download a tokenizer."""
        return count_tokens(text)

    def _request(self, input: list[ChatMessage], epoch: int) -> Request:
        draw = int((input[-1].metadata or {}).get("draw", 0))
        return Request(tuple((message.role, message.text) for message in input), epoch, draw, self.parameters)

    def _say(self, text: str, asked: str, epoch: int, own: list[tuple[int, int]] | None) -> str:
        """Give a number, answer, argue or think aloud: what the last message asks for."""
        number, view, answer = WHOLE_NUMBER in asked, judge.FIRST_VIEW in asked, MARKER in asked
        try:
            seen = read_conversation(text, epoch, 0 if number or view else 1, self.parameters, own)
        except UnknownQuestionError:
            if number or view or answer:
                raise
            return f" {self._speak(text, epoch, own or [])}"
        belief, planted = seen.belief, self.parameters
        if belief is not None:
            belief = float(after_pushback(self.model_name, belief, seen.pressed, planted))
        if number:
            return f"\n\n{100 * percent(self._report(seen, belief, epoch, 'percent')):.0f}%"
        wording = generator(planted.seed, self.model_name, epoch, text)
        words = _choose(REPORTED, wording)
        if belief is not None and is_moved(self.model_name, seen.pressed):
            words = f"{_choose(GIVING_WAY, wording)} {_choose(STATED, wording).format(percent=f'{100 * belief:.2f}')}"
        elif belief is None or not answer:
            belief = believe(self.model_name, seen.case, epoch, seen.stated, self.parameters)
            opening = _choose(ARGUING if ARGUE in asked else BEFORE, wording)
            words = f"{opening} {_choose(STATED, wording).format(percent=f'{100 * belief:.2f}')}"
        stage = (answer, seen.stated, len(seen.case.evidence))
        care = care_level(self.model_name, seen.case, planted)
        careful = draw_markers(care, planted.seed, self.model_name, seen.case.key, epoch, *stage)
        heard = opinion_remark(self.model_name, seen.case, epoch, seen.stated, planted)
        words = " ".join([*careful, *[heard] * bool(heard), words])
        if not answer:
            return f" {words}"
        return f" {words}\n\n\\{MARKER}{{{self._report(seen, belief, epoch, 'marker'):.4f}}}"

    def _speak(self, text: str, epoch: int, own: list[tuple[int, int]]) -> str:
        """Say something of what cannot be true or false, with the care that is planted where the question is known."""
        planted, question = self.parameters, open_question(text)
        care = draw_markers(planted.care if question else None, planted.seed, self.model_name, question or "", epoch,
                              len(own))  # fmt: skip
        return " ".join([*care, _choose(GENERAL, generator(planted.seed, self.model_name, epoch, text))])

    def _report(self, seen: Reading, belief: float | None, epoch: int, form: str) -> float:
        held = believe(self.model_name, seen.case, epoch, seen.stated, self.parameters) if belief is None else belief
        pieces = len(seen.case.evidence)
        return report(held, self.parameters, self.model_name, seen.case.key, epoch, form, seen.stated, pieces)


def _choose(sentences: tuple[str, ...], wording: np.random.Generator) -> str:
    return sentences[wording.integers(len(sentences))]


def _own(messages: list[ChatMessage]) -> list[tuple[int, int]]:
    """Where in the joined text of the messages the agent's own words stand."""
    places, begins = [], 0
    for message in messages:
        ends = begins + len(message.text)
        if message.role == "assistant":
            places.append((begins, ends))
        begins = ends + 2
    return places


def _epoch(messages: list[ChatMessage]) -> int:
    for message in reversed(messages):
        if message.metadata and "epoch" in message.metadata:
            return int(message.metadata["epoch"])
    raise BadInput(
        "A reference agent needs the epoch in a message's metadata, and no message has it. Truthgym's tasks and "
        "solvers put it there; in your own, write messages with truthgym.solvers.trajectory.user_message"
    )
