"""Elicitation: what is asked where, what it leaves untouched, and what is never asked twice."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task, score
from inspect_ai.dataset import Sample
from inspect_ai.event import ModelEvent, SpanBeginEvent
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageUser,
    Content,
    ContentReasoning,
    ContentText,
    Model,
    ModelOutput,
    StopDetails,
    get_model,
)
from inspect_ai.solver import Solver, generate, use_tools
from inspect_ai.tool import Tool, tool

from tests.fixtures import Rain, Run, Says
from truthgym.datasets.errors import BadInput
from truthgym.scorers.beliefs import elicitation
from truthgym.scorers.beliefs.elicitation import PROBE, VIEW, ElicitationConfig
from truthgym.scorers.brier import brier
from truthgym.scorers.martingale import martingale
from truthgym.solvers.bootstrap_interview import bootstrap_interview
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.direct import direct
from truthgym.solvers.length_control import length_control
from truthgym.solvers.prepare import prepare
from truthgym.solvers.run_agent import run_agent
from truthgym.solvers.self_debate import self_debate


class Heard:
    """A model that notes every conversation it gets, and answers probes by how long the conversation is."""

    def __init__(self, says: Says) -> None:
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


def one(log: EvalLog, name: str = "martingale") -> tuple[EvalSample, Any]:
    assert log.samples
    done = log.samples[0]
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


def test_the_prior_sees_no_evidence_and_the_posterior_is_asked_in_the_same_words(
    run: Run, says: Says, rain: Rain
) -> None:
    heard = Heard(says)
    done, result = one(ask(run, heard, rain(), direct()))
    prior, posterior = heard.probes()
    probe = PROBE.format(proposition="It rains.")
    assert prior == [f"Will it rain?\n\n{probe}"]
    assert posterior[-1] == probe
    assert posterior[:-1] == [m.text for m in done.messages if m.role != "system"]
    assert any("It thundered." in text for text in posterior)
    assert "You are terse." not in prior + posterior
    assert result.value == {"prior": 0.21, "posterior": 0.23, "change": 0.02}


def test_the_system_prompt_comes_along_where_asked_for(run: Run, says: Says, rain: Rain) -> None:
    heard = Heard(says)
    ask(run, heard, rain(), direct(), system_prompt_in_probe=True)
    assert [probe[0] for probe in heard.probes()] == ["You are terse."] * 2


def test_the_trajectory_is_left_as_it_was(run: Run, says: Says, rain: Rain) -> None:
    heard = Heard(says)
    judge = Heard(says)
    log = ask(run, heard, rain(), chain_of_thought(2), judge.model, elicitor="both", per="step", joint=True)
    done, _ = one(log)
    assert len(done.messages) == 1 + 6
    assert len(done.store["Trajectory:steps"]) == 7
    assert not any("whole number" in m.text for m in done.messages)
    assert set(done.store) <= {"Trajectory:steps"}


def test_every_step_is_asked_after_where_asked_for(run: Run, says: Says, rain: Rain) -> None:
    heard = Heard(says)
    _, result = one(ask(run, heard, rain(), chain_of_thought(3), per="step"))
    made = result.metadata["beliefs"]
    assert [belief["stage"] for belief in made] == ["prior", "step 1", "step 2", "step 3", "posterior"]
    assert [belief["context"] for belief in made] == ["separate"] + ["continued"] * 4
    assert [belief["saw_reasoning"] for belief in made] == [False] + [True] * 4
    assert [len(probe) for probe in heard.probes()] == [1, 3, 5, 7, 9]


def test_a_judge_reads_the_first_impression_and_the_text_apart(run: Run, says: Says, rain: Rain) -> None:
    heard, judge = Heard(says), Heard(says)
    _, result = one(ask(run, heard, rain(), direct(), judge.model, elicitor="judge"))
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


def test_a_judges_own_belief_is_another_question(run: Run, says: Says, rain: Rain) -> None:
    judge = Heard(says)
    ask(run, Heard(says), rain(), direct(), judge.model, elicitor="judge", standpoint="judge")
    assert all("Give your own belief" in probe[0] for probe in judge.probes())


def test_a_joint_reading_is_one_call_and_marked(run: Run, says: Says, rain: Rain) -> None:
    judge = Heard(says)
    _, result = one(ask(run, Heard(says), rain(), chain_of_thought(2), judge.model, joint=True))
    assert len(judge.conversations) == 1
    read = [b for b in result.metadata["beliefs"] if b["elicitor"] == "joint"]
    assert [(b["stage"], b["value"]) for b in read] == [
        ("prior", 0.1),
        ("step 1", 0.11),
        ("step 2", 0.12),
        ("posterior", 0.13),
    ]
    assert all(b["saw_reasoning"] for b in read)
    assert result.value["joint_prior"] == 0.1


def test_reasoning_that_a_provider_shows_is_a_turn_for_the_judge(run: Run, says: Says, rain: Rain) -> None:
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

    judge = Heard(says)
    task = Task(dataset=[rain()], setup=prepare(), solver=direct(), scorer=martingale(elicitor="both", per="step"))
    _, result = one(run(task, says(reply), model_roles={"judge": judge.model}, epochs=1))
    stages = {
        name: [b["stage"] for b in result.metadata["beliefs"] if b["elicitor"] == name] for name in ("self", "judge")
    }
    assert stages["self"] == ["prior", "posterior"], "a context cannot be cut inside a message"
    assert stages["judge"] == ["view", "prior", "step 1", "posterior"]
    step, text = (probe[0] for probe in judge.probes()[1:])
    assert "Clouds, so yes." in step
    assert "umbrella" not in step
    assert "umbrella" in text


def test_every_belief_stands_in_a_span_that_names_its_step(run: Run, says: Says, rain: Rain) -> None:
    done, _ = one(ask(run, Heard(says), rain(), chain_of_thought(2), per="step"))
    names = [e.name for e in done.events if isinstance(e, SpanBeginEvent) and e.type == "truthgym.belief"]
    assert names == [f"belief: {stage} (self)" for stage in ("prior", "step 1", "step 2", "posterior")]
    calls = [e.input[-1].metadata for e in done.events if isinstance(e, ModelEvent)][3:]
    assert calls == [{"epoch": 1, "belief": name.removeprefix("belief: ")} for name in names]


def test_another_solvers_conversation_is_measured_too(run: Run, says: Says, rain: Rain) -> None:
    heard = Heard(says)
    _, result = one(ask(run, heard, rain(), generate()))
    assert result.value["posterior"] == 0.23


def test_an_unreadable_reply_is_nan_with_its_reason(run: Run, says: Says, rain: Rain) -> None:
    log = run(
        Task(dataset=[rain()], setup=prepare(), solver=direct(), scorer=martingale(), epochs=1), says("Hard to say.")
    )
    _, result = one(log)
    assert all(value != value for value in result.value.values())
    assert "No single probability could be read in the reply: 'Hard to say.'" in result.metadata["reason"]
    assert log.results
    assert log.results.scores[0].metrics["share_scored"].value == 0
    assert log.results.scores[0].metrics["n"].value == 0


def test_a_judge_that_never_answers_in_form_is_counted(run: Run, says: Says, rain: Rain) -> None:
    log = ask(run, Heard(says), rain(), direct(), says("I would rather not."), elicitor="both", joint=True)
    _, result = one(log)
    assert result.value["prior"] == 0.21
    assert result.value["judge_prior"] != result.value["judge_prior"]
    assert "The judge gave no list of 2 whole percents." in result.metadata["reason"]


def test_a_judge_is_never_the_model_itself_by_default(run: Run, says: Says, rain: Rain) -> None:
    with pytest.raises(AssertionError, match="add --model-role judge=MODEL"):
        ask(run, Heard(says), rain(), direct(), elicitor="judge")


def test_nothing_measured_is_asked_again(run: Run, says: Says, rain: Rain) -> None:
    heard, judge = Heard(says), Heard(says)
    log = ask(run, heard, rain(), chain_of_thought(2))
    asked = len(heard.conversations)

    def again(**arguments: Any) -> EvalLog:
        return score(log, martingale(**arguments), model=heard.model, model_roles={"judge": judge.model}, display="log")

    same = again()
    assert len(heard.conversations) == asked
    assert one(same, "martingale1")[1].value == one(log)[1].value
    wider = again(elicitor="both", per="step")
    assert len(heard.conversations) == asked + 2 + 1, "two steps and a first impression"
    assert len(judge.conversations) == 4
    assert one(wider, "martingale1")[1].metadata["beliefs"][0] == one(log)[1].metadata["beliefs"][0]
    score(wider, martingale(elicitor="both", per="step"), model=heard.model, model_roles={"judge": judge.model})
    assert len(heard.conversations) == asked + 3
    assert len(judge.conversations) == 4
    again(beliefs="fresh")
    assert len(heard.conversations) == asked + 5


FORMER = {
    "VIEW": "Give a short first view, in two or three sentences: how likely is it, as far as you can say at first "
    "sight, that the following statement is true?\n\n{proposition}",
    "READ": "Below is a question, and {what} of someone who was asked it.\n\n<question>\n{question}\n"
    "</question>\n\n<text>\n{text}\n</text>\n\n{whose}\n\n{proposition}\n\nReply with one whole number from 0 to 100, "
    "the probability in percent, and nothing else.",
    "WHAT": {"prior": "the first view", "": "the reasoning"},
    "WHOSE": {
        "policy": "Where this text ends, how likely does its writer hold the following statement to be? Report the "
        "writer's belief as you read it, whatever you think yourself.",
        "judge": "Having read this, how likely do you hold the following statement to be? Give your own belief, which "
        "need not be the writer's.",
    },
    "JOINT": "Below is a question, and the steps in which someone reasoned about it.\n\n<question>\n{question}\n"
    "</question>\n\n<steps>\n{steps}\n</steps>\n\n{whose}\n\n{proposition}\n\nReply with a JSON list of {number} whole "
    "numbers from 0 to 100, probabilities in percent, and nothing else: the belief before the first step, and then the "
    "belief after each of the {turns} steps, going by that step and all before it.",
    "WHOSE_JOINT": {
        "policy": "How likely does the writer hold the following statement to be, at each point?",
        "judge": "How likely do you hold the following statement to be, at each point? Give your own belief, which "
        "need not be the writer's.",
    },
}
"""The prompts of the versions before November 2026."""


@pytest.mark.parametrize("standpoint", ["policy", "judge"])
def test_beliefs_asked_in_the_former_wording_are_reused(
    run: Run, says: Says, rain: Rain, monkeypatch: pytest.MonkeyPatch, standpoint: str
) -> None:
    heard, judge = Heard(says), Heard(says)
    given: dict[str, Any] = {"elicitor": "both", "per": "step", "joint": True, "standpoint": standpoint}
    with monkeypatch.context() as older:
        for name, wording in FORMER.items():
            older.setattr(elicitation, name, wording)
        log = ask(run, heard, rain(), chain_of_thought(2), judge.model, **given)
    asked = len(heard.conversations), len(judge.conversations)
    again = score(log, martingale(**given), model=heard.model, model_roles={"judge": judge.model}, display="log")
    assert (len(heard.conversations), len(judge.conversations)) == asked
    assert one(again, "martingale1")[1].metadata == one(log)[1].metadata


def test_a_score_that_is_overwritten_still_tells_what_was_measured(run: Run, says: Says, rain: Rain) -> None:
    heard = Heard(says)
    log = ask(run, heard, rain(), direct())
    asked = len(heard.conversations)
    again = score(log, martingale(), model=heard.model, action="overwrite", display="log")
    assert len(heard.conversations) == asked
    assert one(again)[1].value == one(log)[1].value


def test_recorded_asks_for_nothing(run: Run, says: Says, rain: Rain) -> None:
    heard = Heard(says)
    log = ask(run, heard, rain(), chain_of_thought(2))
    asked = len(heard.conversations)
    again = score(log, martingale(per="step", beliefs="recorded"), model=heard.model, display="log")
    made = one(again, "martingale1")[1].metadata["beliefs"]
    assert len(heard.conversations) == asked
    assert ["value" not in b for b in made] == [False, True, True, False]
    assert "beliefs=recorded" in made[1]["reason"]


def test_another_model_or_another_wording_is_asked_anew(run: Run, says: Says, rain: Rain) -> None:
    heard = Heard(says)
    log = ask(run, heard, rain(), direct())
    asked = len(heard.conversations)
    score(log, martingale(system_prompt_in_probe=True), model=heard.model, display="log")
    assert len(heard.conversations) == asked + 2
    reference = get_model("reference/bayesian", noise=0.1)
    with pytest.raises(BadInput, match="knows the questions of"):
        score(log, martingale(), model=reference, display="log")


def test_two_scorers_of_one_pass_share_their_beliefs(run: Run, says: Says, rain: Rain) -> None:
    heard = Heard(says)
    task = Task(dataset=[rain()], setup=prepare(), solver=direct(), scorer=[martingale(), martingale(per="step")])
    log = run(task, heard.model, epochs=1)
    assert len(heard.probes()) == 2
    assert one(log)[1].value == one(log, "martingale1")[1].value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"elicitor": "me"}, "elicitor='me' cannot be used; give 'self', 'judge' or 'both'"),
        ({"standpoint": "poliy"}, "standpoint='poliy' .* 'policy' or 'judge'"),
        ({"per": "steps"}, "per='steps' .* 'trajectory' or 'step'"),
        ({"beliefs": "never"}, "beliefs='never' .* 'reuse', 'fresh' or 'recorded'"),
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


def test_a_question_without_a_proposition_is_refused(run: Run, says: Says, rain: Rain) -> None:
    free = rain(form="free", proposition=None)
    with pytest.raises(AssertionError, match="has no proposition"):
        run(Task(dataset=[free], setup=prepare(), solver=generate(), scorer=martingale()), says("Well."))


def test_tool_calls_are_put_in_words_and_their_results_come_along(run: Run, says: Says, rain: Rain) -> None:
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


def test_reasoning_that_was_cut_short_has_no_posterior(run: Run, says: Says, rain: Rain) -> None:
    heard = Heard(says)
    task = Task(
        dataset=[rain()], setup=prepare(), solver=chain_of_thought(4), scorer=martingale(per="step"), message_limit=4
    )
    _, result = one(run(task, heard.model, epochs=1))
    assert [b["stage"] for b in result.metadata["beliefs"]][-1] == "posterior"
    assert "step 1" in [b["stage"] for b in result.metadata["beliefs"]]
    assert result.value["posterior"] != result.value["posterior"]
    assert "posterior (self): The reasoning was cut short before an answer." in result.metadata["reason"]


def test_what_could_not_be_read_is_asked_again(run: Run, says: Says, rain: Rain) -> None:
    log = run(Task(dataset=[rain()], setup=prepare(), solver=direct(), scorer=martingale(), epochs=1), says("Hm."))
    heard = Heard(says)
    again = score(log, martingale(), model=heard.model, display="log")
    assert len(heard.probes()) == 2
    assert one(again, "martingale1")[1].value["prior"] == 0.21


def test_recorded_needs_no_judge(run: Run, says: Says, rain: Rain) -> None:
    heard, judge = Heard(says), Heard(says)
    log = ask(run, heard, rain(), direct(), judge.model, elicitor="both", joint=True)
    asked = len(heard.conversations), len(judge.conversations)
    again = score(log, martingale(elicitor="both", joint=True, beliefs="recorded"), model="none/none", display="log")
    assert one(again, "martingale1")[1].value == one(log)[1].value
    assert (len(heard.conversations), len(judge.conversations)) == asked


def test_beliefs_survive_an_overwrite_beside_another_scorer(run: Run, says: Says, rain: Rain) -> None:
    heard = Heard(says)
    log = ask(run, heard, rain(), direct())
    asked = len(heard.conversations)
    score(log, [brier(), martingale()], model=heard.model, action="overwrite", display="log")
    assert len(heard.conversations) == asked


def test_bad_arguments_are_explained_on_the_command_line(run: Run, says: Says, rain: Rain, root: Path) -> None:
    log = ask(run, Heard(says), rain(), direct())
    command = ["inspect", "score", log.location, "--scorer", "truthgym/martingale", "--action", "append", "--overwrite"]
    for given, said in (("elicitor=judgee", "elicitor='judgee' cannot be used"), ("granularity=step", "add per=step")):
        done = subprocess.run([*command, "-S", given], capture_output=True, text=True, check=False, cwd=root)
        assert done.returncode != 0
        assert said in " ".join((done.stdout + done.stderr).split())


def test_roles_follow_from_the_settings() -> None:
    assert ElicitationConfig(elicitor="both", beliefs="recorded").roles == ()
    assert ElicitationConfig().roles == ()
    assert ElicitationConfig(elicitor="both").roles == ElicitationConfig(joint=True).roles == ("judge",)


REFUSED = ModelOutput.from_content("mockllm/model", "I would rather not: 40%", stop_reason="content_filter")
REFUSED.choices[0].stop_details = StopDetails(explanation="The provider does not speak of rain.")
OVERFLOWED = ModelOutput.from_content("mockllm/model", "50%", stop_reason="model_length")
ROOM = "The model ran out of context: the conversation is longer than its context window."


@pytest.mark.parametrize(
    ("solver", "calls"),
    [(direct(), 1), (chain_of_thought(2), 1), (self_debate(1), 1), (length_control(9), 1), (run_agent(), 1)],
)
def test_once_the_reasoning_has_ended_nobody_is_asked(
    run: Run, says: Says, rain: Rain, solver: Solver, calls: int
) -> None:
    asked: list[str] = []

    def refuse(messages: list[ChatMessage]) -> ModelOutput:
        asked.append(messages[-1].text)
        return REFUSED.model_copy(deep=True)

    judge = Heard(says)
    task = Task(
        dataset=[rain()],
        setup=prepare(),
        solver=solver,
        scorer=martingale(elicitor="both", per="step", joint=True),
        epochs=1,
    )
    log = run(task, says(refuse), model_roles={"judge": judge.model})
    _, result = one(log)
    assert len(asked) == calls, "no more than the solver"
    assert not judge.conversations
    assert all(value != value for value in result.value.values())
    reasons = {belief["reason"] for belief in result.metadata["beliefs"]}
    assert reasons == {"The provider does not speak of rain."}
    heard = Heard(says)
    again = score(log, martingale(beliefs="fresh"), model=heard.model, display="log")
    assert not heard.conversations, "nor in a later pass, of whatever model"
    assert one(again, "martingale1")[1].value["prior"] != one(again, "martingale1")[1].value["prior"]


@pytest.mark.parametrize(("output", "reason"), [(REFUSED, "The provider does not speak of rain."), (OVERFLOWED, ROOM)])
@pytest.mark.parametrize("place", ["prior", "posterior"])
def test_a_probe_that_got_no_reply_is_nan_and_asked_again(
    run: Run, says: Says, rain: Rain, output: ModelOutput, reason: str, place: str
) -> None:
    """What stands in the place of the reply reads like one, and is none."""

    heard, willing = Heard(says), False

    def reply(messages: list[ChatMessage]) -> str | ModelOutput:
        refusing = not willing and "whole number" in messages[-1].text and (len(messages) == 1) == (place == "prior")
        return output.model_copy(deep=True) if refusing else heard.reply(messages)

    model = says(reply)
    log = run(Task(dataset=[rain()], setup=prepare(), solver=direct(), scorer=martingale(), epochs=1), model)
    _, result = one(log)
    usual = {"prior": 0.21, "posterior": 0.23}
    [(other, there)] = [(name, value) for name, value in usual.items() if name != place]
    assert result.value[other] == there
    assert result.value[place] != result.value[place]
    made = {belief["stage"]: belief for belief in result.metadata["beliefs"]}
    assert made[place]["reason"] == reason
    assert "raw" not in made[place]
    assert f"{place} (self): {reason}" in result.metadata["reason"]
    assert log.results
    assert log.results.scores[0].metrics["share_scored"].value == 0
    willing, asked = True, len(heard.probes())
    again = score(log, martingale(), model=model, display="log")
    assert len(heard.probes()) == asked + 1, "the other belief is taken from its record"
    assert one(again, "martingale1")[1].value == usual | {"change": 0.02}


def test_a_refused_first_impression_leaves_the_judge_nothing_to_read(run: Run, says: Says, rain: Rain) -> None:
    judge = Heard(says)
    model = says(
        lambda m: REFUSED.model_copy(deep=True) if "first impression" in m[-1].text else "I think that it rains."
    )
    _, result = one(ask(run, model, rain(), direct(), judge.model, elicitor="judge"))
    view, prior, posterior = result.metadata["beliefs"]
    assert view["reason"] == "The provider does not speak of rain."
    assert "value" not in prior
    assert posterior["value"] == 0.21
    assert len(judge.conversations) == 1


@pytest.mark.parametrize("solver", [direct(), length_control(9, attempts=0), self_debate(1)])
@pytest.mark.parametrize("listed", [False, True])
def test_the_prior_is_asked_on_the_question_as_it_was_given(
    run: Run, says: Says, rain: Rain, solver: Solver, listed: bool
) -> None:
    """Solvers write evidence, instructions and lengths into the message that asks the question."""
    heard = Heard(says)
    item = rain()
    item.input = [ChatMessageUser(content="Will it rain?")] if listed else item.input
    done, _ = one(ask(run, heard, item, solver))
    assert heard.probes()[0] == [f"Will it rain?\n\n{PROBE.format(proposition='It rains.')}"]
    assert "It thundered." in next(m.text for m in done.messages if m.role == "user")


def test_what_is_said_before_the_question_is_no_step(run: Run, says: Says, rain: Rain) -> None:
    heard, judge = Heard(says), Heard(says)
    log = ask(run, heard, rain(), bootstrap_interview(2, "fixed_sequence"), judge.model, elicitor="both", per="step")
    _, result = one(log)
    stages = [(b["elicitor"], b["stage"]) for b in result.metadata["beliefs"]]
    assert stages == [("self", "prior"), ("self", "posterior")] + [
        ("judge", stage) for stage in ("view", "prior", "posterior")
    ]
    assert heard.probes()[0] == [f"Will it rain?\n\n{PROBE.format(proposition='It rains.')}"]
    assert len(heard.probes()[1]) == 2 * 2 + 2 + 1, "the model itself has heard the interview"
    assert not any("Interview question" in text for probe in judge.probes() for text in probe)
