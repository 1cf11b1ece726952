"""Exports graders to OpenAI's reinforcement fine-tuning, where 1 is the best reward and 0 the worst."""

import json
import re
from inspect import getsource
from typing import Any

from truthgym.evallog.errors import bad_input

NAMES = ("python_brier", "model_brier", "model")
READER = "gpt-4.1-mini-2025-04-14"
"""Default model that reads or grades at OpenAI."""
MAX_BYTES = 256 * 1024
"""Maximum size of a python grader's source, from OpenAI's guide on graders."""
REWARD = '''

def grade(sample, item):
    """1 - (belief - outcome)^2. An answer without a readable belief gets the worst reward: 0."""
    text = sample.get("output_text") or ""
    belief = read_belief(text, decimal=True) if "finalBeliefProb" in text else None
    outcome = float(str(item["target"]).strip().lower() in ("yes", "true", "1", "1.0", "y"))
    return 0.0 if belief is None else 1.0 - (belief - outcome) ** 2
'''
NO_BELIEF = -1
"""Returned by the reader of `model_brier` if an answer states no belief."""


def grader(name: str, model: str = READER) -> dict[str, Any]:
    r"""Make the JSON of a grader for `method.reinforcement.grader` of a fine-tuning job.

    The model is trained on what it is measured by: programs, prompts and rubric are those of `truthgym.scorers`. Two
    things differ. A higher reward is better, so a Brier score b is sent as 1 - b. And an answer that cannot be graded
    gets the worst reward, whereas the scorer leaves it out: a policy must not gain by being unreadable.
    """
    from truthgym.scorers.graders.openai import KINDS
    from truthgym.scorers.graders.resolve import read_grader

    if name == "python_brier":
        from truthgym.scorers.beliefs import parsing
        from truthgym.solvers import thoughts

        reader = "".join(getsource(module) for module in (thoughts, parsing))
        reader = re.sub(r"^from truthgym\S+ import (?:\([^)]*\)|.*)\n", "", reader, flags=re.MULTILINE)
        return _python(name, reader + REWARD)
    if name == "model_brier":
        return _model_brier(model)
    if name == "model":
        return _by_rubric(model)
    if name.endswith(".py"):
        from truthgym.scorers.judges.rubric import read_text

        return _python("program", read_text("grader", name))
    if not name.lstrip().startswith("{") and not name.endswith(".json"):
        raise bad_input(
            f"Unknown grader {name!r}; give {', '.join(NAMES)}, a specification in JSON, or the path of a .json or "
            ".py file"
        )
    spec = read_grader(name).spec or ""
    read: dict[str, Any] = json.loads(spec)
    if read["type"] == "label_model":
        supported = ", ".join(kind for kind in KINDS if kind != "label_model")
        raise bad_input(
            f"grader={name[:60]}: reinforcement fine-tuning does not support label_model; it supports {supported}"
        )
    return {"name": read["type"]} | read  # the API asks for a name, which its guide leaves out


def needs_target(spec: dict[str, Any]) -> bool:
    """Whether a grader reads the true answer, so that every row must have one."""
    text = json.dumps(spec).replace("'", '\\"')
    names = ("item.target", "item.reference_answer", 'item[\\"target\\"]', 'item[\\"reference_answer\\"]')
    return any(name in text for name in names)


def _python(name: str, source: str) -> dict[str, Any]:
    if len(source.encode()) > MAX_BYTES:
        raise bad_input(f"grader {name}: its program is larger than {MAX_BYTES // 1024} KiB; shorten it")
    return {"type": "python", "name": name, "source": source}


def _model_brier(model: str) -> dict[str, Any]:
    from truthgym.scorers.graders.builtin import EXTRACT

    instruction = (
        "The score is the stated probability as a number from 0 to 1 (73% is 0.73). If none is stated, the score is "
        f"{NO_BELIEF}."
    )
    belief = _score_model("belief", model, _render(EXTRACT, instruction), NO_BELIEF)
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

    instruction = "The score is the grade by the rubric, a whole number from 0 to 100."
    text = _render(GRADE, instruction, rubric=RUBRIC)
    grade = _score_model("grade", model, text, 0, 100)
    return {"type": "multi", "name": "model", "graders": {"grade": grade}, "calculate_output": "grade / 100"}


def _render(template: str, form: str, **more: str) -> str:
    """One of the prompts here, with OpenAI's variables in place of the texts of a sample."""
    from truthgym.scorers.beliefs.escaping import material

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
