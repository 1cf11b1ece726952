"""A model that records what it is asked about its beliefs, for the tests of elicitation."""

from typing import Any

from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import ChatMessage, Model, ModelOutput, StopDetails

from tests.fixtures import Run, samples, says
from truthgym.scorers.martingale import martingale
from truthgym.solvers.prepare import prepare
from truthgym.solvers.trajectory import OUT_OF_CONTEXT


class Heard:
    """A model that notes every conversation it gets, and answers probes by how long the conversation is."""

    def __init__(self) -> None:
        self.conversations: list[list[ChatMessage]] = []
        self.model = says(self.reply)

    def reply(self, messages: list[ChatMessage]) -> str:
        self.conversations.append(list(messages))
        if "JSON list of" in messages[-1].text:
            number = int(messages[-1].text.split("JSON list of ")[1].split()[0])
            return str(list(range(10, 10 + number)))
        return f"{20 + len(messages)}%" if "whole number" in messages[-1].text else "I think that it rains."

    def probes(self) -> list[list[str]]:
        return [[m.text for m in c] for c in self.conversations if "whole number" in c[-1].text]


def first_score(log: EvalLog, name: str = "martingale") -> tuple[EvalSample, Any]:
    done = samples(log)[0]
    assert done.scores
    return done, done.scores[name]


def ask(
    run: Run, heard: Heard | Model, item: Sample, solver: Any, judge: Model | None = None, **arguments: Any
) -> EvalLog:
    task = Task(
        dataset=[item], setup=prepare("You are terse."), solver=solver, scorer=martingale(**arguments), epochs=1
    )
    return run(
        task, heard.model if isinstance(heard, Heard) else heard, model_roles={"judge": judge} if judge else None
    )


REFUSED = ModelOutput.from_content("mockllm/model", "I would rather not: 40%", stop_reason="content_filter")
REFUSED.choices[0].stop_details = StopDetails(explanation="The provider does not speak of rain.")
OVERFLOWED = ModelOutput.from_content("mockllm/model", "50%", stop_reason="model_length")
ROOM = OUT_OF_CONTEXT.format(who="The model")
