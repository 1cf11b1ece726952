r"""`reference/...`: simulated agents with planted beliefs that answer the real prompts in natural language.

    inspect eval truthgym/urns --model reference/bayesian -M noise=0.1 -M seed=1
    inspect eval truthgym/urns --model reference/entrenched -M strength=0.3 -M noise=0.08 -M shared=0.5

They need no key and no download, and every measure is calibrated on them. An agent reads the same messages as any
model. It recognises a question because the conversation contains its text: a generated one, a bundled one, or one of
your own that a Truthgym solver or scorer works on. It knows the truth only through a noisy signal of planted quality;
if the truth is unknown, a fair coin decides it, the same for all agents. A question without a proposition gets a
general answer. Each reasoning turn states the belief in words. An answer ends with `\finalBeliefProb{p}`, and a request
for a whole number gets one: both report the last stated belief with the planted noise. Statements by others are not
evidence for an agent, unless it is `trusting` or `sycophant`, and arguing for a side does not move it. The reports can
have the errors of real models' reports (`-M lazy=0.1 -M stage=prior`: docs/models.md); an agent that refuses to give a
number says so in words. With `-M care=0.5` it also writes sentences that mark careful reasoning
(`models.agents.quality_markers`), which do not move its belief either.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import numpy as np
from inspect_ai.model import (
    ChatMessage,
    GenerateConfig,
    Logprob,
    Logprobs,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    TopLogprob,
    modelapi,
)
from inspect_ai.tool import ToolChoice, ToolInfo
from pydantic import ValidationError

from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.question import ASKED, OWN_ANSWER
from truthgym.models.agents import (
    chain_walker,
    forecaster,
    interviewer,
    judge,
    listener,
    own_answers,
    predictor,
    proposer,
    tool_users,
    values,
)
from truthgym.models.agents.belief_reports import percent, report, wording_of
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
    read_conversation,
)
from truthgym.models.predictor import LETTERS, NO_FIRST, YES_FIRST
from truthgym.solvers.critique_revise import CRITICISE, REVISE
from truthgym.solvers.trajectory import as_words

WHOLE_NUMBER = "whole number from 0 to 100"
SECOND_WORDING = "How many of the 100 statements"
"""In the request for the prior in a second wording. The reports of each wording have noise of their own."""
LETTER = "letter"
"""Form of a report by token probability."""
LEAST_PROBABILITY = 1e-12
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
DECLINED = "I would rather not put a number on this."
"""Said in place of a number by an agent with `refuses` or `min_confidence`."""
CONCLUDE = "Give your answer."
"""The request for an answer to a question without a proposition, as in `solvers.direct`."""
SUBMIT = "submit"
"""The tool with which Inspect's agents submit an answer."""
HAND_IN = "I hand in my answer."
REPORTED = (
    "Here is my answer.",
    "This is how I would state it.",
    "I answer with the number that I have come to.",
)
TAKES = {name: agent.takes for name, agent in AGENTS.items()} | {
    judge.NAME: judge.PARAMETERS,
    interviewer.NAME: interviewer.PARAMETERS,
    forecaster.NAME: forecaster.PARAMETERS,
    **values.TAKES,
    predictor.NAME: predictor.PARAMETERS,
    proposer.NAME: proposer.PARAMETERS,
    listener.NAME: listener.PARAMETERS,
    **{name: AGENTS[tool_users.policy(name)].takes for name in tool_users.TOOL_USERS},
    chain_walker.NAME: chain_walker.PARAMETERS,
}
"""Parameter names by agent."""


@modelapi(name="reference")
def reference() -> type[ModelAPI]:
    """Inspect's hook: the class behind `--model reference/NAME`."""
    return ReferenceAPI


class ReferenceAPI(ModelAPI):
    """A simulated agent as an Inspect model.

    Deterministic: a reply depends only on the parameters, the conversation and the epoch, not on concurrency, during a
    run and when a finished log is scored. The epoch is read from the metadata of the messages.

    Args:
        model_name: The agent: a key of `policies.AGENTS`, "judge", "interviewer", "forecaster", "listener", "person" or
            "values".
        base_url: Not used: replaced by the agent's parameters, so that Inspect's cache tells agents apart.
        api_key: Not used.
        config: Not used.
        **parameters: Fields of `policies.Parameters` that the agent takes, or of `values.ValueParameters`.

    Raises:
        BadInput: The agent or a parameter is unknown, or a value is outside its range.
    """

    simulated = True
    """For code that would otherwise log or cache each of thousands of calls."""

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),  # noqa: B008 (Inspect's own signature)
        **parameters: float | str,
    ) -> None:
        # Inspect's cache identifies a model by name and base URL only, and agents with other parameters must not share
        # entries.
        planted = ",".join(f"{name}={parameters[name]}" for name in sorted(parameters)) or None
        super().__init__(model_name, planted, api_key, [], config)
        one_of("reference agent", model_name, sorted(TAKES))
        for name in parameters:
            one_of(f"argument of reference/{model_name}", name, sorted(TAKES[model_name]))
        self.policy = tool_users.policy(model_name)
        self.fixed_belief = tool_users.fixed_belief(model_name)
        self.naive = self.policy in AGENTS and AGENTS[self.policy].naive
        limits = {"max_strength": AGENTS[self.policy].max_strength} if self.policy in AGENTS else None
        try:
            if model_name in values.TAKES:
                self.values = values.ValueParameters.model_validate(parameters)
            else:
                self.parameters = Parameters.model_validate(parameters, context=limits)
        except ValidationError as error:
            problems = [f"-M {one['loc'][0]}={one['input']} cannot be used: {one['msg']}" for one in error.errors()]
            raise BadInput(f"reference/{model_name}: {'; '.join(problems)}") from None

    async def generate(
        self, input: list[ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: GenerateConfig
    ) -> ModelOutput:
        """Reply to a conversation.

        Raises:
            BadInput: The conversation contains no question that the agent knows, or no message has an epoch.
        """
        if self.model_name in values.TAKES:
            return self._output(values.reply(self.model_name, input, self.values), input, config)
        text = "\n\n".join(message.text for message in input)
        if self.model_name == predictor.NAME:
            return self._output(predictor.rate(text, self.parameters) or DECLINED, input, config)
        worked_on = ASKED.get() if tool_users.question_in(text) else None
        epoch = worked_on.epoch if worked_on else _epoch(input)  # an executor's messages have none
        if self.model_name == listener.NAME:
            stated = f"\\{MARKER}{{{listener.belief(input, epoch, self.parameters):.4f}}}"
            return self._output(f"{NOT_A_MODEL.format(agent=self.model_name)}\n\n{stated}", input, config)
        request = next((message.text for message in reversed(input) if message.role == "user"), "")
        if any(message.role == "tool" for message in input):
            input = [as_words(message) for message in input]
            text = "\n\n".join(message.text for message in input)
        walks = self.model_name == chain_walker.NAME
        called = None if tool_choice == "none" else tool_users.call_of(self.model_name, text, tools)
        if walks and tools:
            called = chain_walker.call_of(text, epoch, self.parameters)
        if called:
            name = f"reference/{self.model_name} (simulated)"
            return self._counted(ModelOutput.for_tool_call(name, *called, content=""), text, str(called))
        complete = tool_users.report_of(text, request) or None  # a reply without the introduction
        letters = self._letters(text, request, epoch, input) if self._is_letter_probe(request) else None
        if letters:
            complete, body = letters[0].token, ""
        elif complete:
            body = ""
        elif OWN_ANSWER in request:
            body = f"\n\n{own_answers.reply(self.model_name, text, epoch, self.parameters)}"
        elif self.model_name == judge.NAME:
            complete = judge.fill_or_comment(self._judge_request(input, epoch))
            body = "" if complete else f"\n\n{judge.report_belief(text, epoch, self.parameters)}"
        elif self.model_name == proposer.NAME:
            complete = proposer.write_rubric(request, self.parameters.seed, _draw(input))
            body = ""
        elif self.model_name == forecaster.NAME:
            complete, body = forecaster.rewrite(request), ""
        elif self.model_name == interviewer.NAME:
            body = f"\n\n{interviewer.interview_questions(text, epoch, self.parameters)}"
        else:
            # An agent asked to read a text reports the belief in it. Otherwise only its own messages state its belief.
            body = self._reply(text, request, epoch, None if judge.READING in request else _own_spans(input))
        fact = ""
        if MARKER in request or CONCLUDE in request:
            fact = tool_users.answer_of(self.model_name, text)
        if fact and walks:
            fact = chain_walker.answer_of(text, epoch, self.parameters)
        body = f"\n\nAnswer: {fact}\n\n{body.strip()}" if fact else body
        body = body if OWN_ANSWER in request else tool_users.repair_of(self.model_name, text) or body
        reply = complete or f"{NOT_A_MODEL.format(agent=self.model_name)}{body}"
        answering = MARKER in request or CONCLUDE in request
        reply = pad_to_length(text, request, reply) if answering and complete is None else reply
        if answering and any(tool.name == SUBMIT for tool in tools):
            name = f"reference/{self.model_name} (simulated)"
            return self._counted(
                ModelOutput.for_tool_call(name, SUBMIT, {"answer": reply}, content=HAND_IN), text, reply
            )
        return self._output(letters or reply, input, config)

    def _output(self, reply: str | list[TopLogprob], input: list[ChatMessage], config: GenerateConfig) -> ModelOutput:
        """The output of a reply, or of letters, the likeliest first."""
        letters = [] if isinstance(reply, str) else reply
        content = reply if isinstance(reply, str) else letters[0].token
        name = f"reference/{self.model_name} (simulated)"
        output = ModelOutput.from_content(name, content)
        if letters and config.logprobs:
            first = Logprob(**letters[0].model_dump(), top_logprobs=letters)
            output.choices[0].logprobs = Logprobs(content=[first])
        return self._counted(output, "\n\n".join(message.text for message in input), content)

    def _counted(self, output: ModelOutput, text: str, reply: str) -> ModelOutput:
        # Usage is reported so that Inspect does not download a tokenizer to count tokens.
        tokens_in, tokens_out = count_tokens(text), count_tokens(reply)
        output.usage = ModelUsage(input_tokens=tokens_in, output_tokens=tokens_out, total_tokens=tokens_in + tokens_out)
        return output

    async def count_text_tokens(self, text: str) -> int:
        """Count tokens as `generate` does. Inspect's default would download a tokenizer."""
        return count_tokens(text)

    @property
    def score_replies(self) -> Callable[..., Awaitable[tuple[list[list[tuple[str, float]] | str], int]]]:
        """What `models.predictor.reply_logprobs` calls: forecaster and predictor give log-probabilities of texts."""
        if self.model_name not in (forecaster.NAME, predictor.NAME):
            raise AttributeError(f"reference/{self.model_name} gives no log-probabilities of given texts")
        return self._score_replies

    async def _score_replies(
        self, api: ModelAPI, messages: Sequence[ChatMessage], replies: Sequence[str]
    ) -> tuple[list[list[tuple[str, float]] | str], int]:
        if self.model_name == predictor.NAME:
            scored = [predictor.score(messages[-1].text, reply, self.parameters) for reply in replies]
        else:
            scored = [forecaster.observation_logprobs(messages, reply, self.parameters) for reply in replies]
        read = count_tokens("".join(message.text for message in messages)) + sum(map(count_tokens, replies))
        return [one or "The reply is empty." for one in scored], read

    def _judge_request(self, input: list[ChatMessage], epoch: int) -> Request:
        said = tuple((message.role, message.text) for message in input)
        return Request(said, epoch, _draw(input), self.parameters)

    def _reply(self, text: str, request: str, epoch: int, own: list[tuple[int, int]] | None) -> str:
        """Give a number, answer, argue or reason, as the last message requests."""
        number, view, answer = WHOLE_NUMBER in request, judge.FIRST_VIEW in request, MARKER in request
        try:
            thoughts = text.count(DECLINED) + (0 if number or view else 1)
            reading = read_conversation(text, epoch, thoughts, self.parameters, own, self.naive)
        except UnknownQuestionError:
            if number or view or answer:
                raise
            return f" {self._general_reply(text, epoch, own or [])}"
        name, parameters, case, belief = self.policy, self.parameters, reading.case, reading.belief
        belief = belief if self.fixed_belief is None else self.fixed_belief
        if belief is not None:
            belief = float(after_pushback(name, belief, reading.pushback, parameters))
        if number:
            form = "percent, second wording" if SECOND_WORDING in request else "percent"
            whole = percent(self._report(reading, belief, epoch, form, request))
            return f"\n\n{DECLINED if np.isnan(whole) else f'{100 * whole:.0f}%'}"
        rng = generator(parameters.seed, name, epoch, text)
        if CRITICISE in request:  # no evidence: it neither states nor changes a belief
            return f" {NO_FAULT}"
        words = _choose(REPORTED, rng)
        if belief is not None and is_moved(name, reading.pushback):
            words = f"{_choose(GIVING_WAY, rng)} {_choose(STATED, rng).format(percent=f'{100 * belief:.2f}')}"
        elif belief is None or not answer or REVISE in request:
            if REVISE not in request or belief is None:  # a revision states the draft's belief again
                belief = believe(name, case, epoch, reading.stated, parameters)
            opening = _choose(ARGUING if ARGUE in request else BEFORE, rng)
            words = f"{opening} {_choose(STATED, rng).format(percent=f'{100 * belief:.2f}')}"
        stage = (answer, reading.stated, len(case.evidence))
        care = care_level(name, case, parameters)
        markers = draw_markers(care, parameters.seed, name, case.key, epoch, *stage)
        remark = opinion_remark(name, case, epoch, reading.stated, parameters)
        words = " ".join([*markers, *[remark] * bool(remark), words])
        if not answer:
            return f" {words}"
        reported = self._report(reading, belief, epoch, "marker", request)
        if np.isnan(reported):
            return f" {' '.join([*markers, DECLINED])}"
        return f" {words}\n\n\\{MARKER}{{{reported:.4f}}}"

    def _is_letter_probe(self, request: str) -> bool:
        forms = (LETTERS.replace(YES_FIRST, form) for form in (YES_FIRST, NO_FIRST))
        return self.policy in AGENTS and request.endswith(tuple(forms))

    def _letters(self, text: str, request: str, epoch: int, input: list[ChatMessage]) -> list[TopLogprob]:
        """Both letters with their log-probabilities, the likelier first. `item` and `wording` alone affect them."""
        reading = read_conversation(text, epoch, text.count(DECLINED), self.parameters, _own_spans(input), self.naive)
        belief = reading.belief
        if belief is not None:
            belief = float(after_pushback(self.policy, belief, reading.pushback, self.parameters))
        yes = self._report(reading, belief, epoch, LETTER, request)
        masses = (yes, 1 - yes) if YES_FIRST in request else (1 - yes, yes)
        logprobs = np.log(np.clip(masses, LEAST_PROBABILITY, 1))
        tokens = [TopLogprob(token=token, logprob=float(x)) for token, x in zip("AB", logprobs, strict=True)]
        return sorted(tokens, key=lambda token: -token.logprob)

    def _general_reply(self, text: str, epoch: int, own: list[tuple[int, int]]) -> str:
        """Reply to a question without a proposition, with the planted care if the question is known."""
        parameters, asked = self.parameters, ASKED.get()
        worked_on = asked.id if asked and asked.input in text and not asked.question.proposition else ""
        care = parameters.care if worked_on else None
        markers = draw_markers(care, parameters.seed, self.model_name, worked_on, epoch, len(own))
        return " ".join([*markers, _choose(GENERAL, generator(parameters.seed, self.model_name, epoch, text))])

    def _report(self, reading: Reading, belief: float | None, epoch: int, form: str, request: str) -> float:
        name, case, stated, parameters = self.policy, reading.case, reading.stated, self.parameters
        if belief is None:
            belief = believe(name, case, epoch, stated, parameters)
        if form == LETTER:
            request = request.replace(NO_FIRST, YES_FIRST)
            parameters = Parameters(item=parameters.item, wording=parameters.wording, seed=parameters.seed)
        prior = None
        if parameters.copies or parameters.refuses:
            prior = believe(name, replace(case, evidence=(), user=0, third=0), epoch, 0, parameters)
        wording = wording_of(request, reading.question, reading.proposition)
        place = (form, stated, len(case.evidence))
        return report(belief, parameters, name, case.key, epoch, *place, prior, wording)


def _choose(sentences: tuple[str, ...], rng: np.random.Generator) -> str:
    return sentences[rng.integers(len(sentences))]


def _own_spans(messages: list[ChatMessage]) -> list[tuple[int, int]]:
    """Start and end of each of the agent's own messages in the joined text."""
    spans, start = [], 0
    for message in messages:
        end = start + len(message.text)
        if message.role == "assistant":
            spans.append((start, end))
        start = end + 2
    return spans


def _draw(messages: list[ChatMessage]) -> int:
    return int((messages[-1].metadata or {}).get("draw", 0))


def _epoch(messages: list[ChatMessage]) -> int:
    for message in reversed(messages):
        if message.metadata and "epoch" in message.metadata:
            return int(message.metadata["epoch"])
    raise BadInput(
        "A reference agent needs the epoch in the metadata of a message, and no message has it. Truthgym's tasks and "
        "solvers write it; in your own solver, create messages with truthgym.solvers.trajectory.user_message"
    )
