"""Every reasoning mode on a mock model: its steps and calls, and what each message and each call carries."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from inspect_ai import Task, task_with
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessage, ChatMessageAssistant
from inspect_ai.scorer import Scorer, choice, includes
from inspect_ai.solver import Solver, generate, multiple_choice

from tests.fixtures import Run, Solve, listens, rain, samples, says, values, write_rows
from truthgym.datasets.questions import questions as own_questions
from truthgym.scorers.brier import brier
from truthgym.solvers.best_of_n import best_of_n
from truthgym.solvers.bootstrap_interview import bootstrap_interview
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.critique_revise import critique_revise
from truthgym.solvers.dialogue import dialogue
from truthgym.solvers.direct import direct
from truthgym.solvers.few_shot import few_shot
from truthgym.solvers.length_control import length_control
from truthgym.solvers.prepare import PRESETS
from truthgym.solvers.run_agent import run_agent
from truthgym.solvers.self_debate import self_debate
from truthgym.solvers.trajectory import Trajectory
from truthgym.tasks.domains import questions


class Mode(NamedTuple):
    solver: Callable[[], Solver]
    steps: str
    """By letter, without the system prompt."""
    calls: int
    """Calls of the evaluated model."""
    spans: str


LETTERS = {
    ("user", "auxiliary", False, None): "u",
    ("user", "auxiliary", False, "interlocutor"): "o",
    ("assistant", "auxiliary", False, None): "a",
    ("assistant", "reasoning", True, None): "r",
    ("assistant", "answer", True, None): "A",
}
"""By role, kind, whether it is trained on, and whose words it holds."""


MODES = {
    "direct": Mode(direct, "u A", 1, ""),
    "chain of one": Mode(lambda: chain_of_thought(1), "u r u A", 2, "step 1, answer"),
    "chain of three": Mode(lambda: chain_of_thought(3), "u r u r u r u A", 4, "step 1, step 2, step 3, answer"),
    "self_debate": Mode(lambda: self_debate(1), "u r u r u A", 3, "turn 1, turn 2, answer"),
    "dialogue": Mode(lambda: dialogue(1), "u r o r u A", 3, "opening, interlocutor 1, turn 1, answer"),
    "interview": Mode(lambda: bootstrap_interview(1, "fixed_sequence"), "u a u A", 2, "interview 1, answer"),
    "critique_revise": Mode(critique_revise, "u A", 3, "draft, critique 1, revision 1"),
    "length_control": Mode(lambda: length_control(5, attempts=1), "u r u A", 2, "revision 1"),
    "best_of_n": Mode(lambda: best_of_n(2, "inspect_ai/exact"), "u A", 2, ""),
    "run_agent": Mode(lambda: run_agent("react", {"submit": False, "prompt": None}), "u A", 1, ""),
}


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_records_its_steps_and_calls(solve: Solve, mode: str) -> None:
    make, letters, calls, spans = MODES[mode]
    model, requests = listens()
    other, requests_to_other = listens("I object.")
    roles = {"interlocutor": other}
    sample = solve(model, make(), rain(), epochs=2, prompt="critical_thinking", model_roles=roles)
    system, *steps = sample.store_as(Trajectory).steps
    assert (system.role, system.kind, system.trainable) == ("system", "auxiliary", False)
    assert " ".join(LETTERS[step.role, step.kind, step.trainable, step.speaker] for step in steps) == letters
    assert [(step.message_id, step.text) for step in [system, *steps]] == [(m.id, m.text) for m in sample.messages]
    assert len(requests) == 2 * calls, "in two epochs"
    names = [e.name.split(":")[0] for e in sample.events if e.event == "span_begin" and e.type == "truthgym.step"]
    assert ", ".join(names) == spans
    prompts = [message for message in sample.messages if not isinstance(message, ChatMessageAssistant)]
    assert all((message.metadata or {})["epoch"] == 2 for message in prompts)
    for messages in requests:
        assert [m.text for m in messages if m.role == "system"] == [PRESETS["critical_thinking"]]
    assert not any(m.role == "system" for messages in requests_to_other for m in messages), "it is the model's alone"


@pytest.mark.parametrize("mode", [*MODES, "interview of other questions"])
def test_each_mode_takes_ones_own_questions(run: Run, mode: str, tmp_path: Path) -> None:
    rows = [{"id": f"q{i}", "question": f"Was bus {i} late?", "outcome": "yes", "type": "bus"} for i in range(20)]
    path = write_rows(tmp_path / "mine.jsonl", *rows)
    make = MODES[mode].solver if mode in MODES else lambda: bootstrap_interview(2)
    model, heard = listens()
    task = task_with(questions(path, n=3, paradigms="brier"), solver=make())
    log = run(task, model, epochs=1, model_roles={"interlocutor": listens("I object.")[0]})
    assert [done.metadata["type"] for done in samples(log)] == ["bus"] * 3
    assert [values(done, "brier")["brier_score"] for done in samples(log)] == pytest.approx([0.16] * 3)
    if mode not in MODES:
        others = {message.text.partition("\n\n")[2] for messages in heard for message in messages[:1]}
        train = {str(item.input) for item in own_questions(path, split="train")}
        assert {str(row["question"]) for row in rows} >= train >= others


LISTED = "A) Rome\nB) Po\nC) Etna"
ANY_TASK: dict[str, tuple[dict[str, Any], str, Scorer, float | str]] = {
    "choices": ({"choices": ["Rome", "Po", "Etna"], "target": "B"}, "'ANSWER: $LETTER'", choice(), "C"),
    "several": ({"choices": ["Rome", "Po", "Etna"], "target": ["B", "C"]}, "'ANSWER: $LETTERS'", choice(), "C"),
    "yes or no": ({"target": "Yes"}, r"\finalBeliefProb{p}", brier(), 0.04),
    "free text": ({"target": ["Po", "Rhine"]}, "Give your answer.", includes(), "C"),
}
"""What a sample of another project holds, the form of the answer that a mode asks for, a scorer and its value."""


AGENTS = ("plan_and_execute", "planner_team", "scratchpad", "workers")
"""Those that `run_agent` runs by name, without the tools of an agent task."""


def in_form(messages: list[ChatMessage]) -> str:
    """An answer in the form that is asked for, or a thought."""
    request = messages[-1].text
    forms = {"$LETTERS'": "ANSWER: B, C", "$LETTER'": "I say so.\nANSWER: B", r"{p}": r"\finalBeliefProb{0.8}"}
    forms["Give your answer."] = "The Po."
    return next((reply for form, reply in forms.items() if form in request), "Hm.")


@pytest.mark.parametrize("kind", ANY_TASK)
@pytest.mark.parametrize("mode", [*MODES, "few_shot", *AGENTS])
def test_each_mode_answers_any_task_in_its_own_form(run: Run, mode: str, kind: str) -> None:
    fields, form, scorer, value = ANY_TASK[kind]
    text = "Is it the Po?" if kind == "yes or no" else "Which is it?"
    make = MODES[mode].solver if mode in MODES else partial(run_agent, f"truthgym/{mode}")
    if mode == "few_shot":
        plain = multiple_choice(multiple_correct=kind == "several") if "choices" in fields else generate()
        items = [Sample(id=f"s{i}", input=f"{text} {i}", metadata={"split": "train"}, **fields) for i in range(3)]
        reply = r"\finalBeliefProb{0.8}" if kind == "yes or no" else "The Po.\nANSWER: B"
        source = run(Task(items, solver=plain, scorer=scorer), says(reply)).location
        key = {"choices": "choice", "several": "choice", "yes or no": "brier_score", "free text": "includes"}[kind]
        make = partial(few_shot, source, share=1.0, score=key, best="highest")
    model, heard = listens(in_form)
    task = Task([Sample(id="s", input=text, **fields)], solver=make(), scorer=scorer)
    others = dict.fromkeys(("interlocutor", "executor"), says("I object."))
    (done,) = samples(run(task, model, model_roles=others))
    (score,) = (done.scores or {}).values()
    assert (score.value["brier_score"] if isinstance(score.value, dict) else score.value) == value
    assert form in heard[-1][-1].text or "$LETTER" in heard[-1][-1].text
    conversation = "\n\n".join(message.text for message in heard[-1])
    assert conversation.count(f"{text}\n\n{LISTED}") == ("choices" in fields)
    if mode == "few_shot":
        assert [message.role for message in heard[-1]] == ["user", "assistant"] * 3 + ["user"]
