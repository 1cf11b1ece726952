r"""`reference/...`: simulated agents with planted beliefs that answer the real prompts in natural language.

    inspect eval truthgym/urns --model reference/bayesian -M noise=0.1 -M seed=1
    inspect eval truthgym/urns --model reference/entrenched -M strength=0.3 -M noise=0.08 -M shared=0.5

docs/simulated_agents.md describes them, and the errors that their reports can have.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence

from inspect_ai.model import ChatMessage, GenerateConfig, Logprob, Logprobs, ModelAPI, ModelOutput, ModelUsage, modelapi
from inspect_ai.tool import ToolChoice, ToolInfo
from pydantic import ValidationError

from truthgym.datasets.errors import BadInput, one_of
from truthgym.models.agents import (
    forecaster,
    interviewer,
    investigator,
    judge,
    listener,
    predictor,
    proposer,
    tool_users,
    values,
)
from truthgym.models.agents.agent import Call, Conversation, Letters, SimulatedAgent
from truthgym.models.agents.believer import Believer, Walker
from truthgym.models.agents.lengths import count_tokens
from truthgym.models.agents.policies import AGENTS

REGISTRY: dict[str, tuple[type[SimulatedAgent] | type[values.ValueAgent], Collection[str]]] = {
    **{name: (Believer, agent.takes) for name, agent in AGENTS.items()},
    judge.NAME: (judge.Judge, judge.PARAMETERS),
    interviewer.NAME: (interviewer.Interviewer, interviewer.PARAMETERS),
    investigator.NAME: (investigator.Investigator, investigator.PARAMETERS),
    forecaster.NAME: (forecaster.Forecaster, forecaster.PARAMETERS),
    **{name: (values.ValueAgent, takes) for name, takes in values.TAKES.items()},
    predictor.NAME: (predictor.Predictor, predictor.PARAMETERS),
    proposer.NAME: (proposer.Proposer, proposer.PARAMETERS),
    listener.NAME: (listener.Listener, listener.PARAMETERS),
    **{name: (Believer, AGENTS[tool_users.policy(name)].takes) for name in tool_users.TOOL_USERS},
    tool_users.WALKER: (Walker, tool_users.WALKER_PARAMETERS),
}
"""Class and parameter names of each agent, by name."""
TAKES = {name: takes for name, (_, takes) in REGISTRY.items()}


@modelapi(name="reference")
def reference() -> type[ModelAPI]:
    """Inspect's hook: the class behind `--model reference/NAME`."""
    return ReferenceAPI


class ReferenceAPI(ModelAPI):
    """A simulated agent as an Inspect model.

    Deterministic: a reply depends only on the parameters, the conversation, the question that is worked on and the
    epoch, not on concurrency, during a run and when a finished log is scored.

    Its name is a key of `REGISTRY`, its parameters are the fields of `policies.Parameters` that the agent takes, or of
    `values.ValueParameters`. They stand in place of the base URL, so that Inspect's cache tells agents apart.
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
        values_text = ",".join(f"{name}={parameters[name]}" for name in sorted(parameters)) or None
        super().__init__(model_name, values_text, api_key, [], config)
        one_of("reference agent", model_name, sorted(REGISTRY))
        for name in parameters:
            one_of(f"argument of reference/{model_name}", name, sorted(TAKES[model_name]))
        try:
            self.agent = REGISTRY[model_name][0].planted(model_name, parameters)
        except ValidationError as error:
            problems = [
                f"-M {problem['loc'][0]}={problem['input']} cannot be used: {problem['msg']}"
                for problem in error.errors()
            ]
            raise BadInput(f"reference/{model_name}: {'; '.join(problems)}") from None

    async def generate(
        self, input: list[ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: GenerateConfig
    ) -> ModelOutput:
        talk = Conversation.of(input, tools, tool_choice != "none")
        reply = self.agent.reply(talk)
        name = f"reference/{self.model_name} (simulated)"
        if isinstance(reply, Call):
            output = ModelOutput.for_tool_call(name, reply.function, reply.arguments, content=reply.content)
            written = reply.counted or str((reply.function, reply.arguments))
        elif isinstance(reply, Letters):
            written = reply.tokens[0].token
            output = ModelOutput.from_content(name, written)
            if config.logprobs:
                first = Logprob(**reply.tokens[0].model_dump(), top_logprobs=reply.tokens)
                output.choices[0].logprobs = Logprobs(content=[first])
        else:
            written = reply
            output = ModelOutput.from_content(name, written)
        # Usage is reported so that Inspect does not download a tokenizer to count tokens.
        input_tokens, output_tokens = count_tokens(talk.text), count_tokens(written)
        output.usage = ModelUsage(
            input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=input_tokens + output_tokens
        )
        return output

    async def count_text_tokens(self, text: str) -> int:
        """Count tokens as `generate` does. Inspect's default would download a tokenizer."""
        return count_tokens(text)

    @property
    def score_replies(self) -> Callable[..., Awaitable[tuple[list[list[tuple[str, float]] | str], int]]]:
        """What `models.predictor.reply_logprobs` calls: forecaster and predictor give log-probabilities of texts."""
        if not isinstance(self.agent, forecaster.Forecaster | predictor.Predictor):
            raise AttributeError(f"reference/{self.model_name} gives no log-probabilities of given texts")
        return self._score_replies

    async def _score_replies(
        self, api: ModelAPI, messages: Sequence[ChatMessage], replies: Sequence[str]
    ) -> tuple[list[list[tuple[str, float]] | str], int]:
        assert isinstance(self.agent, forecaster.Forecaster | predictor.Predictor)
        scored = [self.agent.logprobs(messages, reply) for reply in replies]
        input_tokens = count_tokens("".join(message.text for message in messages)) + sum(map(count_tokens, replies))
        return [words or "The reply is empty." for words in scored], input_tokens
