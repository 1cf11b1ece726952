"""Graders of ours as OpenAI runs them, in reinforcement fine-tuning: 1 is the best reward, 0 the worst."""

import json
from inspect import getsource
from typing import Any

from truthgym.evallog.errors import bad_input

NAMES = ("python_brier", "model_brier", "model")
READER = "gpt-4.1-mini-2025-04-14"
"""The model that reads or grades at OpenAI, unless another is named."""
MOST_BYTES = 256 * 1024
"""Of a python grader's source. From OpenAI's guide on graders."""
REWARD = '''

def grade(sample, item):
    """1 - (belief - outcome)^2. An answer without one readable belief earns what the worst belief does: 0."""
    text = sample.get("output_text") or ""
    belief = read_belief(text) if "finalBeliefProb" in text else None
    return 0.0 if belief is None else 1.0 - (belief - float(item["target"] == "yes")) ** 2
'''
NONE_STATED = -1
"""What the reader of `model_brier` returns where an answer states no belief."""


def grader(name: str, model: str = READER) -> dict[str, Any]:
    r"""Make the JSON of a grader, as `method.reinforcement.grader` of a fine-tuning job takes it.

    What is trained for is what is measured: the programs, prompts and rubric are those of `truthgym.scorers`. Two
    things differ. A reward is higher where it is better, so that a Brier score b is sent as 1 - b. And an answer that
    could not be graded counts as the worst one, where the scorer leaves it out: a policy must not gain by being
    unreadable.

    Args:
        name: "python_brier" (the belief in the marker `\finalBeliefProb{X}`; no model call), "model_brier" (the belief
            that a model reads in the answer), "model" (a model grades by the rubric; of the answer alone, since
            OpenAI shows no grader the reasoning); a specification of OpenAI's in JSON, or the path of a file with
            one, which is sent as it is; or the path of a Python program with `grade(sample, item)`.
        model: The model at OpenAI that reads or grades, for the second and third.

    Raises:
        BadInput: There is no such grader, or it cannot be sent.
    """
    from truthgym.scorers.graders.openai import KINDS
    from truthgym.scorers.graders.resolve import read_grader

    if name == "python_brier":
        from truthgym.scorers.beliefs import parsing as beliefs

        return _python(name, getsource(beliefs) + REWARD)
    if name == "model_brier":
        return _model_brier(model)
    if name == "model":
        return _by_rubric(model)
    if name.endswith(".py"):
        from truthgym.scorers.graders.builtin import read_text

        return _python("program", read_text("grader", name))
    if not name.lstrip().startswith("{") and not name.endswith(".json"):
        raise bad_input(
            f"grader={name}: there is no such grader; it is {', '.join(NAMES)}, a specification in JSON, or the path "
            "of a .json or .py file"
        )
    spec = read_grader(name).spec or ""
    read: dict[str, Any] = json.loads(spec)
    if read["type"] == "label_model":
        sent = ", ".join(kind for kind in KINDS if kind != "label_model")
        raise bad_input(f"grader={name[:60]}: reinforcement fine-tuning takes no label_model; it takes {sent}")
    return {"name": read["type"]} | read  # the API asks for a name, which its guide leaves out


def needs_target(spec: dict[str, Any]) -> bool:
    """Whether a grader reads the truth of a question, so that every row must have it."""
    text = json.dumps(spec).replace("'", '\\"')
    said = ("item.target", "item.reference_answer", 'item[\\"target\\"]', 'item[\\"reference_answer\\"]')
    return any(name in text for name in said)


def _python(name: str, source: str) -> dict[str, Any]:
    if len(source.encode()) > MOST_BYTES:
        raise bad_input(f"grader {name}: its program has more than {MOST_BYTES // 1024} kB; shorten it")
    return {"type": "python", "name": name, "source": source}


def _model_brier(model: str) -> dict[str, Any]:
    from truthgym.scorers.graders.builtin import EXTRACT

    asked = (
        "The score is the stated probability as a number from 0 to 1 (73% is 0.73). Where none is stated, the score "
        f"is {NONE_STATED}."
    )
    belief = _score_model("belief", model, _filled(EXTRACT, asked), NONE_STATED)
    outcome = {
        "type": "string_check",
        "name": "outcome",
        "input": "{{ item.target }}",
        "reference": "yes",
        "operation": "eq",
    }
    # Without a belief the first factor is 0: floor(belief) is -1 there, and 0 or 1 elsewhere.
    return {
        "type": "multi",
        "name": "model_brier",
        "graders": {"belief": belief, "outcome": outcome},
        "calculate_output": "min(1, max(0, 1 + floor(belief))) * (1 - (belief - outcome)^2)",
    }


def _by_rubric(model: str) -> dict[str, Any]:
    from truthgym.scorers.graders.builtin import GRADE, RUBRIC

    asked = "The score is the grade by the rubric, a whole number from 0 to 100."
    text = _filled(GRADE, asked, rubric=RUBRIC)
    grade = _score_model("grade", model, text, 0, 100)
    return {"type": "multi", "name": "model", "graders": {"grade": grade}, "calculate_output": "grade / 100"}


def _filled(template: str, form: str, **more: str) -> str:
    """One of our prompts with OpenAI's variables where a run here puts its texts in."""
    from truthgym.scorers.judges.asking import material

    return template.format(
        proposition="{{ item.proposition }}",
        question=material("question", "{{ item.question }}"),
        text=material("text", "{{ sample.output_text }}"),
        form=form,
        **more,
    )


def _score_model(name: str, model: str, text: str, low: float, high: float = 1) -> dict[str, Any]:
    return {
        "type": "score_model",
        "name": name,
        "model": model,
        "input": [{"role": "user", "content": text}],
        "range": [low, high],
    }
