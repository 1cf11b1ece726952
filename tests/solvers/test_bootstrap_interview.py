"""Bootstrap interview on mock models: what is asked before the question, by whom, and what must not be given away."""

import re
from collections.abc import Callable
from datetime import date
from functools import cache
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalSample
from inspect_ai.model import ChatMessage
from inspect_ai.solver import Solver

from tests.fixtures import Fails, Run, Solve, listens, number, rain, reason, samples, says, task_of
from truthgym.datasets.domains import DOMAINS, bundled, truth_seeking_questions
from truthgym.datasets.question import Question
from truthgym.datasets.urns import urns
from truthgym.scorers.brier import brier
from truthgym.scorers.martingale import martingale
from truthgym.solvers.bootstrap_interview import ASK, MAIN, MANNERS, bootstrap_interview, usable_questions
from truthgym.solvers.direct import answer_instruction, evidence, with_evidence
from truthgym.solvers.trajectory import Trajectory

HEADER = re.compile(r"Interview question (\d+) of (\d+), before the main question\.[^\n]*\n\n(.*)", re.DOTALL)


def interviewed(sample: EvalSample) -> list[str]:
    """The auxiliary questions that a sample was asked."""
    return [match[3] for message in sample.messages if (match := HEADER.match(message.text))]


LATE = sorted(bundled("forecasting"), key=lambda item: item.metadata_as(Question).opened_on or date.min, reverse=True)
"""The latest first: only what was written before a question can be asked beside it."""
PARTS = {"forecasting": {"part": "all"}}


@cache
def pool(name: str) -> dict[str, Sample]:
    """The questions of a domain's train split by how they are asked."""
    items = DOMAINS[name](split="train", **PARTS.get(name, {}))
    return {with_evidence(str(i.input), i.metadata_as(Question)): i for i in items}


def test_a_fixed_sequence_is_the_bundled_list_in_order(solve: Solve) -> None:
    model, prompts = listens()
    sample = solve(model, bootstrap_interview(questions=3, mode="fixed_sequence"), rain())
    assert len(prompts) == 3 + 1
    for k, (messages, text) in enumerate(zip(prompts[:3], truth_seeking_questions()[:3], strict=True), start=1):
        assert messages[-1].text == ASK.format(k=k, questions=3, text=text)
        assert "Will it rain?" not in "".join(m.text for m in messages[: 2 * k])
    question = rain().metadata_as(Question)
    parts = [MAIN, "Will it rain?", evidence(question.evidence), answer_instruction(question)]
    assert prompts[-1][-1].text == "\n\n".join(parts)
    assert interviewed(sample) == truth_seeking_questions()[:3]
    assert len(truth_seeking_questions()) == 12
    assert len(interviewed(solve(model, bootstrap_interview(12, "fixed_sequence"), rain()))) == 12


@pytest.mark.parametrize("mode", ["iid", "stationary_ood"])
@pytest.mark.parametrize("domain", ["forecasting", "urns"])
def test_drawn_questions_are_of_train_and_leak_nothing(run: Run, mode: Any, domain: str) -> None:
    other = "urns" if domain == "forecasting" else "forecasting"
    source = other if mode == "stationary_ood" else domain
    items = (LATE if domain == "forecasting" else list(urns(n=30)))[:4]
    solver = bootstrap_interview(4, mode, domains=other if mode == "stationary_ood" else ())
    model, prompts = listens()
    log = run(task_of(items, solver, epochs=2), model)
    assert len(prompts) == 4 * 2 * (4 + 1)
    for sample in samples(log):
        question = Question.model_validate(sample.metadata)
        drawn = [pool(source)[text] for text in interviewed(sample)]  # nothing but the question and its evidence
        assert len({item.id for item in drawn}) == 4
        for item in drawn:
            metadata = item.metadata_as(Question)
            assert metadata.split == "train"
            assert metadata.event != question.event
            assert metadata.proposition != question.proposition
            assert not question.opened_on or not metadata.opened_on or metadata.opened_on <= question.opened_on
            assert str(item.id) not in "".join(m.text for m in sample.messages)


def test_every_epoch_draws_anew_and_a_seed_draws_the_same(run: Run) -> None:
    def drawn(seed: int) -> list[list[str]]:
        task = task_of(LATE[:2], bootstrap_interview(3, seed=seed), epochs=2)
        return [interviewed(sample) for sample in run(task, listens()[0]).samples or []]

    first, again, other = drawn(0), drawn(0), drawn(1)
    assert first == again
    assert len({tuple(texts) for texts in first + other}) == 8, "2 questions x 2 epochs x 2 seeds, none alike"


def test_several_other_domains_take_turns(solve: Solve) -> None:
    solver = bootstrap_interview(5, "stationary_ood", domains=["urns", "forecasting"])
    texts = interviewed(solve(listens()[0], solver, rain()))
    assert [next(name for name in ("urns", "forecasting") if text in pool(name)) for text in texts] == [
        *["urns", "forecasting"] * 2,
        "urns",
    ]
    assert len(set(texts)) == 5


def test_a_preset_interview_is_written_at_once(solve: Solve) -> None:
    model, prompts = listens()
    interviewer, requests = listens("1. What is rain?\n2. What are clouds?\n3. One too many?")
    manner = ["curriculum", "socratic"]
    solver = bootstrap_interview(2, "llm_preset", instructions=manner)
    sample = solve(model, solver, rain(), epochs=2, model_roles={"interviewer": interviewer})
    assert (len(prompts), len(requests)) == (2 * (2 + 1), 2 * 1)
    assert interviewed(sample) == ["What is rain?", "What are clouds?"]
    request = requests[0][0]
    assert [m.role for m in requests[0]] == ["user"]
    assert "<question>\nWill it rain?\n</question>" in request.text
    assert "Write 2 interview questions that lead up to it. " in request.text
    assert MANNERS["curriculum"] + MANNERS["socratic"] in request.text
    assert not any(MANNERS[name] in request.text for name in MANNERS if name not in manner)
    for hidden in (*rain().metadata_as(Question).evidence, "Evidence", "yes", "finalBeliefProb"):
        assert hidden not in request.text
    assert {(r[0].metadata or {})["epoch"] for r in requests} == {1, 2}
    aux = [s for s in sample.store_as(Trajectory).steps if s.speaker]
    assert [(s.role, s.kind, s.trainable, s.speaker) for s in aux] == [("user", "auxiliary", False, "interviewer")] * 2


def test_a_preset_interview_is_as_long_as_what_was_written(solve: Solve) -> None:
    model, prompts = listens()
    roles = {"interviewer": listens("What is rain?\n\nWhat are clouds?")[0]}
    sample = solve(model, bootstrap_interview(5, "llm_preset"), rain(), model_roles=roles)
    assert len(prompts) == 2 + 1
    assert [HEADER.findall(m.text)[0][:2] for m in sample.messages[:3:2]] == [("1", "2"), ("2", "2")]


def test_an_adaptive_interview_goes_by_what_was_said(solve: Solve) -> None:
    model, prompts = listens(lambda messages: f"So I say, {len(messages)}.")
    interviewer, requests = listens(lambda messages: f"What now, {len(messages[0].text)}?\nAnd one too many?")
    solver = bootstrap_interview(3, "llm_adaptive", instructions="contradiction_seeking,synergistic")
    sample = solve(model, solver, rain(), model_roles={"interviewer": interviewer})
    assert (len(prompts), len(requests)) == (3 + 1, 3)
    texts = [messages[0].text for messages in requests]
    questions = interviewed(sample)
    assert len(questions) == 3
    for k, text in enumerate(texts, start=1):
        assert f"Write interview question {k} of 3, " in text
        assert MANNERS["contradiction_seeking"] + MANNERS["synergistic"] in text
        assert "<question>\nWill it rain?\n</question>" in text
        assert not any(piece in text for piece in rain().metadata_as(Question).evidence)
        past = [part for i in range(k - 1) for part in (f"Question: {questions[i]}", f"Reply: So I say, {2 * i + 1}.")]
        assert ("\n\n".join(past) in text) if past else ("<interview>" not in text)
        assert text.count("Question: ") == k - 1


def test_a_sample_without_a_usable_question_is_unscored(run: Run) -> None:
    def write(messages: list[ChatMessage]) -> str:
        return "I cannot help with that." if "Will it rain?" in messages[0].text else "What is hail?"

    model, prompts = listens()
    items = [rain(), rain().model_copy(update={"id": "r", "input": "Will it hail?"})]
    solver = bootstrap_interview(1, "llm_adaptive")
    task = task_of(items, solver, brier(), martingale())
    ended, other = run(task, model, model_roles={"interviewer": says(write)}).samples or []
    message = "The interviewer returned no usable question, but: 'I cannot help with that.'"
    assert ended.store_as(Trajectory).ended == reason(ended, "brier") == message
    assert message in reason(ended, "martingale")
    assert len(prompts) == 2 + 2, "all for the other: interview, answer, and two beliefs"
    assert number(other, "brier", "belief") == 0.6


WORDS = st.from_regex(r"[A-Za-z][A-Za-z0-9 ,.'%-]{0,40}[a-z0-9]\?", fullmatch=True).filter(
    lambda text: not re.match(r"(?:Q(?:uestion)?\s*)?\d{0,2}\s*[.):]", text)
)
LISTS: dict[str, Callable[[list[str]], str]] = {
    "lines": "\n".join,
    "paragraphs": "\n\n".join,
    "windows": "\r\n".join,
    "numbered": lambda questions: "\n".join(f"{k}. {text}" for k, text in enumerate(questions, start=1)),
    "numbered ): ": lambda questions: "\n".join(f"  {k}) {text}" for k, text in enumerate(questions, start=1)),
    "labelled": lambda questions: "\n".join(f"Question {k}: {text}" for k, text in enumerate(questions, start=1)),
    "Q1": lambda questions: "\n".join(f"Q{k}: {text}" for k, text in enumerate(questions, start=1)),
    "bold": lambda questions: "\n".join(f"**{k}. {text}**" for k, text in enumerate(questions, start=1)),
    "bulleted": lambda questions: "\n".join(f"- {text}" for text in questions),
    "starred": lambda questions: "\n".join(f"* {text}" for text in questions),
    "quoted": lambda questions: "\n".join(f'"{text}"' for text in questions),
    "json": lambda questions: "[" + ", ".join(f'"{text}"' for text in questions) + "]",
    "json without spaces": lambda questions: "[" + ",".join(f'"{text}"' for text in questions) + "]",
    "json over lines": lambda questions: "[\n" + ",\n".join(f'  "{text}"' for text in questions) + "\n]",
    "python": lambda questions: "[" + ", ".join(f"'{text}'" for text in questions) + "]",
    "fenced": lambda questions: "```json\n[\n" + ",\n".join(f'"{text}"' for text in questions) + "\n]\n```",
    "announced": lambda questions: "Here are my questions:\n\n" + "\n".join(questions) + "\n\nI hope that they help.",
}


@given(questions=st.lists(WORDS, min_size=1, max_size=4), form=st.sampled_from(sorted(LISTS)))
def test_questions_are_found_in_every_form_of_list(questions: list[str], form: str) -> None:
    assert usable_questions(LISTS[form](questions), "Will it rain?") == questions


@given(form=st.sampled_from(sorted(LISTS)), main=WORDS | st.just('"Dune" wins, or is it "Barbie"?'))
def test_the_question_itself_is_not_used(form: str, main: str) -> None:
    found = usable_questions(LISTS[form]([main, "Why is that so very hard to say?"]), f"{main}\n\nBackground: it is.")
    assert found == ["Why is that so very hard to say?"]
    assert not usable_questions(LISTS[form]([main.upper()]), main)


@pytest.mark.parametrize(
    "reply", ["", "?", "- ?", "I cannot help with that.", "1. First.\n2. Second.", "[]", "Will  it rain?", '"?"', "```"]
)
def test_lines_that_are_not_questions_are_not_used(reply: str) -> None:
    assert usable_questions(reply, "Will it rain?") == []


@pytest.mark.parametrize(
    "question",
    ["1.5 percent of what?", "10:1 odds on what?", ".5 of what?", "2024: what went wrong?", "3 of how many?"],
)
def test_a_number_that_belongs_to_a_question_stays(question: str) -> None:
    assert usable_questions(question, "Will it rain?") == [question]
    assert usable_questions(f"1. {question}", "Will it rain?") == [question]


@given(st.text(), st.text())
def test_any_reply_can_be_read(reply: str, main: str) -> None:
    assert all(text.endswith("?") and len(text) > 1 for text in usable_questions(reply, main))


def test_a_missing_role_or_domain_is_refused_before_any_call(fails: Fails) -> None:
    model, prompts = listens()

    def said_of(solver: Solver, item: Sample) -> str:
        return fails(task_of(item, solver), model)

    modes: list[Literal["llm_preset", "llm_adaptive"]] = ["llm_preset", "llm_adaptive"]
    for mode in modes:
        message = said_of(bootstrap_interview(mode=mode), rain())
        assert "bootstrap_interview needs the role interviewer" in message
        assert "--model-role interviewer=MODEL" in message
    own = bootstrap_interview(mode="stationary_ood", domains=["urns"])
    message = said_of(own, next(iter(urns(n=1))))
    assert "domains=urns includes the main question's domain, urns; give other domains" in message
    assert "and 'test' has none here; use mode=fixed_sequence" in said_of(bootstrap_interview(), rain())
    assert not prompts
