"""What measuring beliefs costs: as many model calls as `martingale` says, and as many tokens as its questions hold."""

from typing import Any

import pytest
from inspect_ai import Task
from inspect_ai.event import ModelEvent
from inspect_ai.log import EvalSample
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ContentReasoning, ContentText, ModelOutput

from tests.fixtures import Run, rain, says
from truthgym.models.agents.lengths import count_tokens
from truthgym.scorers.beliefs.elicitation import JOINT, PROBE, PROBE_2, READ, VIEW, WHAT, WHOSE, WHOSE_JOINT
from truthgym.scorers.beliefs.transcript import Turn, as_json, as_text
from truthgym.scorers.martingale import martingale
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.direct import direct
from truthgym.solvers.prepare import prepare
from truthgym.tasks.worlds import urns

MODEL, JUDGE = "reference/bayesian", "reference/judge"
ALL = [("both", "trajectory", True), ("both", "step", True)]
SOME = [(elicitor, per, False) for elicitor in ("self", "judge") for per in ("trajectory", "step")]


def formula(elicitor: str, per: str, joint: bool, messages: int, turns: int, paraphrases: int = 1) -> int:
    """Model calls for each sample and epoch, word for word as in the docstring of `martingale`."""
    of_model = 2 if per == "trajectory" else 1 + messages
    of_judge = 3 if per == "trajectory" else 2 + turns
    return {"self": of_model, "judge": of_judge, "both": of_model + of_judge}[elicitor] + joint + paraphrases - 1


@pytest.mark.parametrize(
    ("thoughts", "elicitor", "per", "joint", "paraphrases"),
    [(2, *case, 1) for case in [*SOME, *ALL]] + [(2, "self", "step", True, 2)],
)
def test_calls_and_tokens_are_those_of_the_formula(
    run: Run, thoughts: int, elicitor: str, per: str, joint: bool, paraphrases: int
) -> None:
    arguments = {"elicitor": elicitor, "per": per, "joint": joint, "paraphrases": paraphrases}
    task = urns(n=2, paradigms={"martingale": arguments})
    task.solver = chain_of_thought(thoughts) if thoughts else direct()
    log = run(task, MODEL, epochs=2, model_roles={"judge": JUDGE})
    assert log.samples
    assert len(log.samples) == 4
    spent: dict[str, list[str]] = {MODEL: [], JUDGE: []}
    heard: dict[str, list[str]] = {MODEL: [], JUDGE: []}
    for sample in log.samples:
        replies = [message.text for message in sample.messages if message.role == "assistant"]
        assert len(replies) == thoughts + 1
        calls = [event for event in sample.events if isinstance(event, ModelEvent)]
        assert len(calls) - len(replies) == formula(elicitor, per, joint, len(replies), len(replies), paraphrases)
        prompts = requests(sample, elicitor, per, joint, paraphrases)
        assert {name: len(texts) for name, texts in prompts.items()} == {
            name: sum(call.model == name for call in calls) for name in prompts
        }
        for name, texts in prompts.items():
            spent[name] += texts
        heard[MODEL] += replies
        for name, texts in replies_of(sample).items():
            heard[name] += texts
    used = {name: (usage.input_tokens, usage.output_tokens) for name, usage in log.stats.model_usage.items()}
    due = {name: (counted(spent[name]), counted(heard[name])) for name in spent if spent[name]}
    assert used == due


def requests(sample: EvalSample, elicitor: str, per: str, joint: bool, paraphrases: int) -> dict[str, list[str]]:
    """Every text that each model reads, put together from the recorded conversation and first view alone."""
    question, proposition = str(sample.input), str(sample.metadata["proposition"])
    whole = [message.text for message in sample.messages]
    turns = [Turn(prompt, wrote, 0, True) for prompt, wrote in zip(whole[::2], whole[1::2], strict=True)]
    ends = list(range(1, len(turns) + 1)) if per == "step" else [len(turns)]
    probe = PROBE.format(proposition=proposition)
    of_model = [joined(whole[: 2 * turn + 1]) for turn in range(len(turns))]
    of_judge: list[str] = []
    if elicitor != "judge":
        of_model += [joined([question, probe]), *(joined([*whole[: 2 * end], probe]) for end in ends)]
    if paraphrases == 2:
        of_model += [joined([question, PROBE_2.format(proposition=proposition)])]
    if elicitor != "self":
        of_model += [joined([question, VIEW.format(proposition=proposition)])]
        view = next(b["raw"] for b in beliefs(sample) if b["stage"] == "view")
        read = {"question": question, "whose": WHOSE["policy"], "proposition": proposition}
        of_judge += [READ.format(what=WHAT["prior"], text=view, **read)]
        of_judge += [READ.format(what=WHAT[""], text=as_text(turns[:end]), **read) for end in ends]
    if joint:
        number = {"number": len(turns) + 1, "turns": len(turns)}
        whose = WHOSE_JOINT["policy"]
        steps = as_json(turns)
        of_judge += [JOINT.format(question=question, steps=steps, whose=whose, proposition=proposition, **number)]
    return {MODEL: of_model, JUDGE: of_judge}


def replies_of(sample: EvalSample) -> dict[str, list[str]]:
    """Every reply to the scorer. A joint reading is one, from which each of its beliefs is read."""
    elicited = beliefs(sample)
    of_model = [b["raw"] for b in elicited if b["elicitor"] == "self" or b["stage"] == "view"]
    of_judge = [b["raw"] for b in elicited if b["elicitor"] == "judge" and b["stage"] != "view"]
    together = [b["raw"] for b in elicited if b["elicitor"] == "joint"]
    return {MODEL: of_model, JUDGE: of_judge + together[:1]}


def beliefs(sample: EvalSample) -> list[dict[str, Any]]:
    assert sample.scores
    entries: list[dict[str, Any]] = (sample.scores["martingale"].metadata or {})["beliefs"]
    return entries


def joined(texts: list[str]) -> str:
    return "\n\n".join(texts)


def counted(texts: list[str]) -> int:
    return sum(count_tokens(text) for text in texts)


@pytest.mark.parametrize(("elicitor", "per", "joint"), [("self", "step", False), *ALL])
def test_reasoning_that_is_shown_is_a_turn_more_but_no_message(run: Run, elicitor: str, per: str, joint: bool) -> None:
    heard = 0

    def reply(messages: list[ChatMessage]) -> ModelOutput:
        nonlocal heard
        heard += 1
        output = ModelOutput.from_content("mockllm/model", "30")
        if not messages[-1].text.endswith("nothing else."):
            thought, answer = ContentReasoning(reasoning="Clouds, so yes."), ContentText(text="Take an umbrella.")
            output.choices[0].message = ChatMessageAssistant(content=[thought, answer])
        return output

    scorer = martingale(elicitor=elicitor, per=per, joint=joint)  # type: ignore[arg-type]
    task = Task(dataset=[rain()], setup=prepare(), solver=chain_of_thought(1), scorer=scorer, epochs=1)
    model = says(reply)
    run(task, model, model_roles={"judge": model})
    assert heard - 2 == formula(elicitor, per, joint, messages=2, turns=4)
