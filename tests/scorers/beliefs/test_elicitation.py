"""Elicitation: what is asked where, what it leaves untouched, and what is never asked twice."""

from typing import Any

import pytest
from inspect_ai import Task, score
from inspect_ai.event import ModelEvent, SpanBeginEvent
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageUser,
    Content,
    ContentReasoning,
    ContentText,
    ModelOutput,
)
from inspect_ai.solver import Solver, generate, use_tools
from inspect_ai.tool import Tool, tool

from tests.commands import call
from tests.fixtures import Run, metrics, rain, says
from tests.scorers.beliefs.probing import REFUSED, Heard, ask, first_score
from truthgym.datasets.errors import BadInput
from truthgym.scorers.beliefs.elicitation import PROBE, PROBE_2, VIEW
from truthgym.scorers.graded import graded
from truthgym.scorers.martingale import martingale
from truthgym.solvers.bootstrap_interview import bootstrap_interview
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.direct import direct
from truthgym.solvers.length_control import length_control
from truthgym.solvers.prepare import prepare
from truthgym.solvers.run_agent import run_agent
from truthgym.solvers.self_debate import self_debate


def test_prior_without_evidence_and_posterior_with_one_probe(run: Run) -> None:
    heard = Heard()
    done, result = first_score(ask(run, heard, rain(), direct()))
    prior, posterior = heard.probes()
    probe = PROBE.format(proposition="It rains.")
    assert prior == [f"Will it rain?\n\n{probe}"]
    assert posterior[-1] == probe
    assert posterior[:-1] == [m.text for m in done.messages if m.role != "system"]
    assert any("It thundered." in text for text in posterior)
    assert "You are terse." not in prior + posterior
    assert result.value == {"prior": 0.21, "posterior": 0.23, "change": 0.02}


def test_a_second_wording_asks_for_the_prior_once_more(run: Run) -> None:
    heard = Heard()
    _, result = first_score(ask(run, heard, rain(), chain_of_thought(1), per="step", paraphrases=2))
    first, second, *others = heard.probes()
    assert second == [f"Will it rain?\n\n{PROBE_2.format(proposition='It rains.')}"]
    assert first == [f"Will it rain?\n\n{PROBE.format(proposition='It rains.')}"]
    assert all(probe[-1] == PROBE.format(proposition="It rains.") for probe in others)
    beliefs = result.metadata["beliefs"]
    assert [belief["stage"] for belief in beliefs] == ["prior", "prior 2", "step 1", "posterior"]
    reworded = beliefs[1]
    assert (reworded["elicitor"], reworded["context"], reworded["saw_reasoning"]) == ("self", "separate", False)
    assert reworded["request"] != beliefs[0]["request"]
    assert result.value == {"prior": 0.21, "posterior": 0.25, "change": 0.04}
    assert result.metadata["settings"] == {"per": "step", "paraphrases": 2}
    rows = [line.split(" | ")[0] for line in result.explanation.splitlines()]
    assert rows[2:6] == ["| prior", "| prior 2", "| step 1", "| posterior"]


def test_the_trajectory_is_left_as_it_was(run: Run) -> None:
    heard = Heard()
    judge = Heard()
    log = ask(run, heard, rain(), chain_of_thought(2), judge.model, elicitor="both", per="step", joint=True)
    done, _ = first_score(log)
    assert len(done.messages) == 1 + 6
    assert len(done.store["Trajectory:steps"]) == 7
    assert not any("whole number" in m.text for m in done.messages)
    assert set(done.store) <= {"Trajectory:steps"}


def test_every_step_is_asked_after_where_asked_for(run: Run) -> None:
    heard = Heard()
    _, result = first_score(ask(run, heard, rain(), chain_of_thought(3), per="step", system_prompt_in_probe=True))
    beliefs = result.metadata["beliefs"]
    assert [belief["stage"] for belief in beliefs] == ["prior", "step 1", "step 2", "step 3", "posterior"]
    assert [belief["context"] for belief in beliefs] == ["separate"] + ["continued"] * 4
    assert [belief["saw_reasoning"] for belief in beliefs] == [False] + [True] * 4
    assert [len(probe) for probe in heard.probes()] == [2, 4, 6, 8, 10]
    assert {probe[0] for probe in heard.probes()} == {"You are terse."}


def test_a_judge_reads_the_first_impression_and_the_text_apart(run: Run) -> None:
    heard, judge = Heard(), Heard()
    _, result = first_score(ask(run, heard, rain(), direct(), judge.model, elicitor="judge"))
    assert not heard.probes(), "the model itself is asked for no number"
    assert heard.conversations[-1][-1].text == f"Will it rain?\n\n{VIEW.format(proposition='It rains.')}"
    view, text = judge.probes()
    assert len(view) == len(text) == 1
    assert "I think that it rains." in view[0]
    assert "It thundered." not in view[0]
    assert "It thundered." in text[0]
    assert "whatever you think yourself" in view[0]
    stages = [(b["stage"], b["elicitor"], b["context"], b["saw_reasoning"]) for b in result.metadata["beliefs"]]
    assert stages == [
        ("view", "judge", "separate", False),
        ("prior", "judge", "read", False),
        ("posterior", "judge", "read", True),
    ]


def test_a_joint_reading_is_one_call_and_marked(run: Run) -> None:
    judge = Heard()
    _, result = first_score(ask(run, Heard(), rain(), chain_of_thought(2), judge.model, joint=True, standpoint="judge"))
    assert len(judge.conversations) == 1
    assert "Give your own belief" in judge.conversations[0][0].text
    read = [b for b in result.metadata["beliefs"] if b["elicitor"] == "joint"]
    assert [(b["stage"], b["value"]) for b in read] == [
        ("prior", 0.1),
        ("step 1", 0.11),
        ("step 2", 0.12),
        ("posterior", 0.13),
    ]
    assert all(b["saw_reasoning"] for b in read)
    assert result.value["joint_prior"] == 0.1


def test_shown_reasoning_is_a_turn_for_the_judge(run: Run) -> None:
    def reply(messages: list[ChatMessage]) -> str | ModelOutput:
        if "whole number" in messages[-1].text:
            return "30%"
        content: list[Content] = [
            ContentReasoning(reasoning="Clouds, so yes."),
            ContentText(text="I conclude: umbrella."),
        ]
        output = ModelOutput.from_content("mockllm/model", "")
        output.choices[0].message = ChatMessageAssistant(content=content)
        output.completion = output.choices[0].message.text
        return output

    judge = Heard()
    task = Task(dataset=[rain()], setup=prepare(), solver=direct(), scorer=martingale(elicitor="both", per="step"))
    _, result = first_score(run(task, says(reply), model_roles={"judge": judge.model}, epochs=1))
    stages = {
        name: [b["stage"] for b in result.metadata["beliefs"] if b["elicitor"] == name] for name in ("self", "judge")
    }
    assert stages["self"] == ["prior", "posterior"], "a context cannot be cut inside a message"
    assert stages["judge"] == ["view", "prior", "step 1", "posterior"]
    step, text = (probe[0] for probe in judge.probes()[1:])
    assert "Clouds, so yes." in step
    assert "umbrella" not in step
    assert "umbrella" in text


def test_every_belief_stands_in_a_span_that_names_its_step(run: Run) -> None:
    done, _ = first_score(ask(run, Heard(), rain(), chain_of_thought(2), per="step"))
    names = [e.name for e in done.events if isinstance(e, SpanBeginEvent) and e.type == "truthgym.belief"]
    assert names == [f"belief: {stage} (self)" for stage in ("prior", "step 1", "step 2", "posterior")]
    calls = [e.input[-1].metadata for e in done.events if isinstance(e, ModelEvent)][3:]
    assert calls == [{"epoch": 1, "belief": name.removeprefix("belief: ")} for name in names]


def test_an_unreadable_reply_is_nan_with_its_reason(run: Run) -> None:
    log = run(
        Task(dataset=[rain()], setup=prepare(), solver=direct(), scorer=martingale(), epochs=1), says("Hard to say.")
    )
    _, result = first_score(log)
    assert all(value != value for value in result.value.values())
    assert "No single probability could be read in the reply: 'Hard to say.'" in result.metadata["reason"]
    assert metrics(log, 0)["share_scored"] == 0
    assert metrics(log, 0)["n"] == 0


def test_a_judge_is_never_the_model_itself_by_default(run: Run) -> None:
    with pytest.raises(AssertionError, match="add --model-role judge=MODEL"):
        ask(run, Heard(), rain(), direct(), elicitor="judge")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"elicitor": "me"}, "elicitor='me' cannot be used; give 'self', 'judge', 'token' or 'both'"),
        ({"standpoint": "poliy"}, "standpoint='poliy' .* 'policy' or 'judge'"),
        ({"per": "steps"}, "per='steps' .* 'trajectory' or 'step'"),
        ({"beliefs": "never"}, "beliefs='never' .* 'reuse', 'fresh' or 'recorded'"),
        ({"paraphrases": 3}, "paraphrases=3 cannot be used; give 1 or 2"),
        ({"paraphrases": 2, "elicitor": "judge"}, "with elicitor=judge .* use elicitor=self or elicitor=token"),
        ({"joint": "yes"}, "joint='yes' cannot be used; give true or false"),
        ({"belief_change": "log"}, "belief_change='log' .* 'difference' or 'logit'"),
        ({"granularity": "step"}, "add per=step"),
        ({"domains": "all"}, "domains='all' .* 'pooled' or 'each'"),
        ({"information_weight": -1}, "information_weight=-1 .* greater than or equal to 0"),
        ({"information_weight": float("inf")}, "information_weight=inf .* finite"),
        ({"information_weight": True}, "information_weight=True"),
    ],
)
def test_refusals(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        martingale(**arguments)


def test_a_question_without_a_proposition_is_refused(run: Run) -> None:
    free = rain(form="free", proposition=None)
    with pytest.raises(AssertionError, match="has no proposition"):
        run(Task(dataset=[free], setup=prepare(), solver=generate(), scorer=martingale()), says("Well."))


def test_tool_calls_and_results_become_text(run: Run) -> None:
    @tool
    def look() -> Tool:
        async def execute() -> str:
            """Look out of the window."""
            return "It pours."

        return execute

    sent: list[list[ChatMessage]] = []

    def reply(messages: list[ChatMessage]) -> str | ModelOutput:
        if "whole number" in messages[-1].text:
            sent.append(list(messages))
            return "90%"
        if any(m.role == "tool" for m in messages):
            return "It rains."
        return ModelOutput.for_tool_call("mockllm/model", "look", {}, content="Let me look.")

    for limit in (None, 2):
        task = Task(
            dataset=[rain()], setup=prepare(), solver=[use_tools(look()), generate()], scorer=martingale(per="step")
        )
        run(task, says(reply), epochs=1, message_limit=limit)
    whole, cut = [m for m in sent if len(m) > 3], [m for m in sent if 1 < len(m) <= 3]
    for messages in sent:
        assert all(m.role != "tool" and not getattr(m, "tool_calls", None) for m in messages)
    assert [m.text for m in whole[0][1:3]] == ["Let me look.\n\n(I call look with {}.)", "look answers:\n\nIt pours."]
    assert whole[-1][-2].text == "It rains."
    assert cut, "a call that was never answered is told as one"


def test_reasoning_that_was_cut_short_has_no_posterior(run: Run) -> None:
    heard = Heard()
    task = Task(
        dataset=[rain()], setup=prepare(), solver=chain_of_thought(4), scorer=martingale(per="step"), message_limit=4
    )
    _, result = first_score(run(task, heard.model, epochs=1))
    assert [b["stage"] for b in result.metadata["beliefs"]][-1] == "posterior"
    assert "step 1" in [b["stage"] for b in result.metadata["beliefs"]]
    assert result.value["posterior"] != result.value["posterior"]
    assert "posterior (self): The reasoning was cut short before an answer." in result.metadata["reason"]


@pytest.mark.slow
def test_bad_arguments_are_explained_on_the_command_line(run: Run, environment: dict[str, str]) -> None:
    log = ask(run, Heard(), rain(), direct())
    options = ["--scorer", "truthgym/brier", "-S", "figrues=all", "--action", "append", "--overwrite"]
    done = call("inspect", "score", log.location, *options, environment=environment)
    assert done.returncode != 0
    assert "no argument 'figrues'; did you mean 'figures'" in " ".join((done.stdout + done.stderr).split())
    with pytest.raises(BadInput, match="no argument 'grder'; did you mean 'grader'"):
        graded(grder="model")  # type: ignore[call-arg]
    with pytest.raises(BadInput, match="add per=step"):
        martingale(granularity="step")


@pytest.mark.parametrize(
    ("solver", "calls"),
    [(direct(), 1), (chain_of_thought(2), 1), (self_debate(1), 1), (length_control(9), 1), (run_agent(), 1)],
)
def test_once_the_reasoning_has_ended_nobody_is_asked(run: Run, solver: Solver, calls: int) -> None:
    requests: list[str] = []

    def refuse(messages: list[ChatMessage]) -> ModelOutput:
        requests.append(messages[-1].text)
        return REFUSED.model_copy(deep=True)

    judge = Heard()
    task = Task(
        dataset=[rain()],
        setup=prepare(),
        solver=solver,
        scorer=martingale(elicitor="both", per="step", joint=True),
        epochs=1,
    )
    log = run(task, says(refuse), model_roles={"judge": judge.model})
    _, result = first_score(log)
    assert len(requests) == calls, "no more than the solver"
    assert not judge.conversations
    assert all(value != value for value in result.value.values())
    reasons = {belief["reason"] for belief in result.metadata["beliefs"]}
    assert {reason.partition(" refused: ")[2] for reason in reasons} == {"The provider does not speak of rain."}
    heard = Heard()
    again = score(log, martingale(beliefs="fresh"), model=heard.model, display="log")
    assert not heard.conversations, "nor in a later pass, of whatever model"
    assert first_score(again, "martingale1")[1].value["prior"] != first_score(again, "martingale1")[1].value["prior"]


def test_a_refused_first_impression_leaves_no_prior(run: Run) -> None:
    judge = Heard()
    model = says(
        lambda m: REFUSED.model_copy(deep=True) if "first impression" in m[-1].text else "I think that it rains."
    )
    _, result = first_score(ask(run, model, rain(), direct(), judge.model, elicitor="judge"))
    view, prior, posterior = result.metadata["beliefs"]
    assert view["reason"] == "The model refused: The provider does not speak of rain."
    assert "value" not in prior
    assert posterior["value"] == 0.21
    assert len(judge.conversations) == 1


@pytest.mark.parametrize("solver", [direct(), length_control(9, attempts=0), self_debate(1)])
@pytest.mark.parametrize("listed", [False, True])
def test_the_prior_is_asked_on_the_question_as_it_was_given(run: Run, solver: Solver, listed: bool) -> None:
    """Solvers write evidence, instructions and lengths into the message that asks the question."""
    heard = Heard()
    item = rain()
    item.input = [ChatMessageUser(content="Will it rain?")] if listed else item.input
    done, _ = first_score(ask(run, heard, item, solver))
    assert heard.probes()[0] == [f"Will it rain?\n\n{PROBE.format(proposition='It rains.')}"]
    assert "It thundered." in next(m.text for m in done.messages if m.role == "user")


def test_what_is_said_before_the_question_is_no_step(run: Run) -> None:
    heard, judge = Heard(), Heard()
    log = ask(run, heard, rain(), bootstrap_interview(2, "fixed_sequence"), judge.model, elicitor="both", per="step")
    _, result = first_score(log)
    stages = [(b["elicitor"], b["stage"]) for b in result.metadata["beliefs"]]
    assert stages == [("self", "prior"), ("self", "posterior")] + [
        ("judge", stage) for stage in ("view", "prior", "posterior")
    ]
    assert heard.probes()[0] == [f"Will it rain?\n\n{PROBE.format(proposition='It rains.')}"]
    assert len(heard.probes()[1]) == 2 * 2 + 2 + 1, "the model itself has heard the interview"
    assert not any("Interview question" in text for probe in judge.probes() for text in probe)
