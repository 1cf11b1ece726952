"""What measuring beliefs costs: as many model calls as `martingale` says."""

import pytest
from inspect_ai.event import ModelEvent
from inspect_ai.model import ChatMessage, ContentReasoning, ModelOutput

from tests.fixtures import Run, Solve, listens, rain, samples, thinks
from truthgym.scorers.martingale import martingale
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.tasks.worlds import urns

ALL = [("both", "trajectory", True), ("both", "step", True)]
SOME = [(elicitor, per, False) for elicitor in ("self", "judge") for per in ("trajectory", "step")]


def formula(elicitor: str, per: str, joint: bool, messages: int, turns: int, paraphrases: int = 1) -> int:
    """Model calls for each sample and epoch, word for word as in the docstring of `martingale`."""
    of_model = 2 if per == "trajectory" else 1 + messages
    of_judge = 3 if per == "trajectory" else 2 + turns
    return {"self": of_model, "judge": of_judge, "both": of_model + of_judge}[elicitor] + joint + paraphrases - 1


@pytest.mark.parametrize(
    ("elicitor", "per", "joint", "paraphrases"), [*((*case, 1) for case in [*SOME, *ALL]), ("self", "step", True, 2)]
)
def test_calls_are_those_of_the_formula(run: Run, elicitor: str, per: str, joint: bool, paraphrases: int) -> None:
    arguments = {"elicitor": elicitor, "per": per, "joint": joint, "paraphrases": paraphrases}
    task = urns(n=2, paradigms={"martingale": arguments})
    log = run(task, solver=chain_of_thought(2), epochs=2, model_roles={"judge": "reference/judge"})
    for sample in samples(log):
        calls = sum(isinstance(event, ModelEvent) for event in sample.events)
        assert calls - 3 == formula(elicitor, per, joint, messages=3, turns=3, paraphrases=paraphrases)


@pytest.mark.parametrize(("elicitor", "per", "joint"), [("self", "step", False), *ALL])
def test_reasoning_that_is_shown_is_a_turn_more_but_no_message(
    solve: Solve, elicitor: str, per: str, joint: bool
) -> None:
    def reply(messages: list[ChatMessage]) -> str | ModelOutput:
        if "JSON list of" in messages[-1].text:
            return str([30] * int(messages[-1].text.partition("JSON list of ")[2].split()[0]))
        if messages[-1].text.endswith("nothing else."):
            return "30"
        return thinks("Take an umbrella.", ContentReasoning(reasoning="Clouds, so yes."))

    model, requests = listens(reply)
    scorer = martingale(elicitor=elicitor, per=per, joint=joint)  # type: ignore[arg-type]
    solve(model, chain_of_thought(1), rain(), scorers=[scorer], model_roles={"judge": model})
    assert len(requests) - 2 == formula(elicitor, per, joint, messages=2, turns=4)
