"""The simulated interviewer: as many questions as are asked for, and nothing given away."""

import re
from typing import Any

import pytest

from tests.models import simulated
from truthgym.datasets.domains import bundled
from truthgym.datasets.urns import urns
from truthgym.models.agents.agent import NOT_A_MODEL, Asks
from truthgym.models.agents.interviewer import QUESTIONS
from truthgym.models.agents.lengths import TARGET
from truthgym.models.agents.reading import MARKER, stated_beliefs
from truthgym.solvers.bootstrap_interview import ALL, MANNERS, NEXT, SO_FAR, WRITE, usable_questions
from truthgym.solvers.trajectory import user_message

URN = str(urns(n=1)[0].input)


def request(request_parts: tuple[str, str], questions: int, k: int = 1, question: str = URN, so_far: str = "") -> str:
    """What the solver asks of it."""
    what, reply = (part.format(k=k, questions=questions) for part in request_parts)
    return WRITE.format(what=what, manner="".join(MANNERS.values()), question=question, interview=so_far, reply=reply)


def ask(text: str, epoch: int = 1, **parameters: Any) -> str:
    return simulated.ask(user_message(text, epoch), model="interviewer", **parameters).completion


@pytest.mark.parametrize("questions", [1, 2, len(QUESTIONS), len(QUESTIONS) + 3])
def test_it_writes_as_many_questions_as_are_asked_for(questions: int) -> None:
    questions_written = usable_questions(ask(request(ALL, questions)), URN)
    assert len(questions_written) == questions
    assert set(questions_written) <= set(QUESTIONS)
    assert len(set(questions_written)) == min(questions, len(QUESTIONS)), "none comes twice before all have come"


def test_asked_for_the_next_question_it_writes_one() -> None:
    so_far = SO_FAR.format(exchanges=f"Question: {QUESTIONS[0]}\n\nReply: Write 3 of them yourself.")
    for k in (1, 2, 3):
        assert len(usable_questions(ask(request(NEXT, 3, k, so_far=so_far)), URN)) == 1


def test_it_says_that_it_is_simulated() -> None:
    assert ask(request(ALL, 2)).startswith(NOT_A_MODEL.format(agent="interviewer") + "\n\n")


def test_its_questions_depend_on_epoch_seed_and_request_alone() -> None:
    first = ask(request(ALL, 5))
    assert ask(request(ALL, 5)) == first
    assert ask(request(ALL, 5), epoch=2) != first
    assert ask(request(ALL, 5), seed=1) != first
    assert ask(request(ALL, 5, question=str(bundled("forecasting")[0].input))) != first


def test_its_questions_fit_any_subject_and_give_nothing_away() -> None:
    for question in QUESTIONS:
        assert question.endswith("?")
        assert not re.search(r"[0-9%]", question)
        assert not any(phrase in question for phrase in (MARKER, Asks.PERCENT, Asks.FIRST_VIEW))
        assert not TARGET.search(question)
        assert stated_beliefs(question) == []
