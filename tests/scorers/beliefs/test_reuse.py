"""Reuse of recorded beliefs: what a log holds is not asked again."""

from typing import Any

import pytest
from inspect_ai import Task, score
from inspect_ai.log import EvalLog
from inspect_ai.model import ChatMessage, ChatMessageUser, ModelOutput, get_model

from tests.fixtures import Run, metrics, rain, says
from tests.scorers.beliefs.probing import OVERFLOWED, REFUSED, ROOM, Heard, ask, first_score
from truthgym.scorers.beliefs.elicitation import JOINT, READ, VIEW, WHAT, WHOSE, WHOSE_JOINT, _former
from truthgym.scorers.beliefs.record import digest_of_request
from truthgym.scorers.brier import brier
from truthgym.scorers.martingale import martingale
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.direct import direct
from truthgym.solvers.prepare import prepare


def test_nothing_measured_is_asked_again(run: Run) -> None:
    heard, judge = Heard(), Heard()
    log = ask(run, heard, rain(), chain_of_thought(2))
    calls = len(heard.conversations)

    def again(**arguments: Any) -> EvalLog:
        return score(log, martingale(**arguments), model=heard.model, model_roles={"judge": judge.model}, display="log")

    same = again()
    assert len(heard.conversations) == calls
    assert first_score(same, "martingale1")[1].value == first_score(log)[1].value
    wider = again(elicitor="both", per="step")
    assert len(heard.conversations) == calls + 2 + 1, "two steps and a first impression"
    assert len(judge.conversations) == 4
    assert first_score(wider, "martingale1")[1].metadata["beliefs"][0] == first_score(log)[1].metadata["beliefs"][0]
    score(wider, martingale(elicitor="both", per="step"), model=heard.model, model_roles={"judge": judge.model})
    assert len(heard.conversations) == calls + 3
    assert len(judge.conversations) == 4
    again(beliefs="fresh")
    assert len(heard.conversations) == calls + 5
    reworded = again(paraphrases=2)
    assert len(heard.conversations) == calls + 6, "the prior in its second wording"
    score(reworded, martingale(paraphrases=2), model=heard.model, display="log")
    assert len(heard.conversations) == calls + 6


FORMER = {
    "view": "14c446b8522974bd",
    "prior policy": "ec3a77de3fa9db2e",
    "posterior policy": "2ad6c6094f3ad093",
    "joint policy": "49d36dda1f5b3334",
    "prior judge": "6916bdd3b4655535",
    "posterior judge": "36a6d6dd7bbcc60b",
    "joint judge": "313ef23dcc3f02d8",
}
"""Digests of the requests below in their wording before November 2026, as old logs hold them."""


@pytest.mark.parametrize("name", FORMER)
def test_beliefs_of_older_logs_are_found(name: str) -> None:
    stage, _, whose = name.partition(" ")
    arguments = {"question": "Will it rain?", "proposition": "It rains."}
    if stage == "view":
        text = f"Will it rain?\n\n{VIEW.format(**arguments)}"
    elif stage == "joint":
        text = JOINT.format(steps="[]", number=2, turns=1, whose=WHOSE_JOINT[whose], **arguments)
    else:
        what = WHAT[stage.replace("posterior", "")]
        text = READ.format(what=what, text="Clouds.", whose=WHOSE[whose], **arguments)
    assert digest_of_request(_former([ChatMessageUser(content=text)]), 1) == FORMER[name]


def test_overwritten_beliefs_are_reused(run: Run) -> None:
    heard = Heard()
    log = ask(run, heard, rain(), direct())
    calls = len(heard.conversations)
    again = score(log, [brier(repair=0), martingale()], model=heard.model, action="overwrite", display="log")
    assert len(heard.conversations) == calls
    assert first_score(again)[1].value == first_score(log)[1].value


def test_scorers_of_one_pass_share_beliefs_by_token(run: Run) -> None:
    scorers = [martingale(elicitor="token", paraphrases=2), brier(read="token")]
    task = Task(dataset=[rain()], setup=prepare(), solver=direct(), scorer=scorers, epochs=1)
    [done] = run(task, "reference/bayesian").samples or []
    assert len([event for event in done.events if event.event == "model"]) == 1 + 6, "the answer and three beliefs"


def test_recorded_asks_for_nothing(run: Run) -> None:
    heard = Heard()
    log = ask(run, heard, rain(), chain_of_thought(2))
    calls = len(heard.conversations)
    again = score(log, martingale(per="step", beliefs="recorded"), model=heard.model, display="log")
    beliefs = first_score(again, "martingale1")[1].metadata["beliefs"]
    assert len(heard.conversations) == calls
    assert ["value" not in b for b in beliefs] == [False, True, True, False]
    assert "beliefs=recorded" in beliefs[1]["reason"]


def test_another_model_or_another_wording_is_asked_anew(run: Run) -> None:
    heard = Heard()
    log = ask(run, heard, rain(), direct())
    calls = len(heard.conversations)
    score(log, martingale(system_prompt_in_probe=True), model=heard.model, display="log")
    assert len(heard.conversations) == calls + 2
    reference = get_model("reference/bayesian", noise=0.1)
    again = score(log, martingale(), model=reference, display="log")
    assert first_score(again, "martingale1")[1].value != first_score(log)[1].value


def test_recorded_needs_no_judge(run: Run) -> None:
    heard, judge = Heard(), Heard()
    log = ask(run, heard, rain(), direct(), judge.model, elicitor="both", joint=True)
    calls = len(heard.conversations), len(judge.conversations)
    again = score(log, martingale(elicitor="both", joint=True, beliefs="recorded"), model="none/none", display="log")
    assert first_score(again, "martingale1")[1].value == first_score(log)[1].value
    assert (len(heard.conversations), len(judge.conversations)) == calls


@pytest.mark.parametrize(
    ("output", "reason"), [(REFUSED, "The model refused: The provider does not speak of rain."), (OVERFLOWED, ROOM)]
)
@pytest.mark.parametrize("place", ["prior", "posterior"])
def test_a_probe_that_got_no_reply_is_nan_and_asked_again(
    run: Run, output: ModelOutput, reason: str, place: str
) -> None:
    """What stands in the place of the reply reads like one, and is none."""

    heard, willing = Heard(), False

    def reply(messages: list[ChatMessage]) -> str | ModelOutput:
        refusing = not willing and "whole number" in messages[-1].text and (len(messages) == 1) == (place == "prior")
        return output.model_copy(deep=True) if refusing else heard.reply(messages)

    model = says(reply)
    log = run(Task(dataset=[rain()], setup=prepare(), solver=direct(), scorer=martingale(), epochs=1), model)
    _, result = first_score(log)
    usual = {"prior": 0.21, "posterior": 0.23}
    [(other, there)] = [(name, value) for name, value in usual.items() if name != place]
    assert result.value[other] == there
    assert result.value[place] != result.value[place]
    beliefs = {belief["stage"]: belief for belief in result.metadata["beliefs"]}
    assert beliefs[place]["reason"] == reason
    assert "raw" not in beliefs[place]
    assert f"{place} (self): {reason}" in result.metadata["reason"]
    assert metrics(log, 0)["share_scored"] == 0
    willing, calls = True, len(heard.probes())
    again = score(log, martingale(), model=model, display="log")
    assert len(heard.probes()) == calls + 1, "the other belief is taken from its record"
    assert first_score(again, "martingale1")[1].value == usual | {"change": 0.02}
