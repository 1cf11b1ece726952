"""How rubrics are written and changed: by the initialiser from prompts alone, by the proposer from two good answers."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from inspect_ai.model import Model
from pydantic import Field, ValidationError

from truthgym.scorers.beliefs.escaping import material
from truthgym.scorers.judges.asking import Form, ask, form_instruction, judge_failure
from truthgym.scorers.rubrics.reward import PROMPTS, Language, fill
from truthgym.scorers.rubrics.rubric import Criterion, Rubric

Mode = Literal[
    "raise_bar", "decompose", "factual_focus", "anti_fluff", "counterexample_trigger", "weight_perturb"
]  # fmt: skip
MODES: tuple[Mode, ...] = get_args(Mode)
"""The ways of changing a rubric. The last needs no model."""
MOST_CRITERIA = 12
SHOWN_PROMPTS = 4
"""Prompts that the initialiser sees."""


class Draft(Form):
    """One criterion as a model writes it."""

    text: str
    weight: float = Field(ge=0, le=1000)


class Drafts(Form):
    """A rubric as a model writes it."""

    reasons: str = Field(description="two or three sentences")
    criteria: list[Draft] = Field(
        min_length=1,
        max_length=MOST_CRITERIA,
        description='JSON list of objects {"text": what to look for, "weight": number from 1 to 3}',
    )


@dataclass(frozen=True)
class Wording:
    """What the writing models are asked, in one language."""

    rules: str
    initial: str
    revise: str
    modes: dict[Mode, str]


WORDINGS: dict[Language, Wording] = {
    language: Wording(**texts)
    for language, texts in json.loads(Path(__file__).with_name("wordings.json").read_text(encoding="utf-8")).items()
}


async def initial_rubric(model: Model, prompts: Sequence[str], base: Rubric, language: Language) -> Rubric | str:
    """A rubric that the initialiser writes from some prompts, without seeing an answer; or why there is none."""
    texts = "\n\n".join(material("question", prompt) for prompt in prompts[:SHOWN_PROMPTS])
    return await _write(model, WORDINGS[language].initial, {"prompts": texts}, base, language, draw=0)


async def revised_rubric(
    model: Model, mode: Mode, rubric: Rubric, prompt: str, better: str, worse: str, language: Language, draw: int
) -> Rubric | str:
    """A rubric that the proposer writes from another one and two answers; or why there is none."""
    lines = "\n".join(f"- {criterion.text} ({criterion.weight:g})" for criterion in rubric.criteria)
    wording = WORDINGS[language]
    parts = {
        "mode": wording.modes[mode],
        "rubric": material("rubric", lines),
        "question": material("question", prompt),
        "better": material("better", better),
        "worse": material("worse", worse),
    }
    return await _write(model, wording.revise, parts, rubric, language, draw)


async def _write(
    model: Model, template: str, parts: dict[str, str], base: Rubric, language: Language, draw: int
) -> Rubric | str:
    form = PROMPTS[language].form
    request = fill(template, parts | {"rules": WORDINGS[language].rules, "form": form_instruction(Drafts, form)})
    try:
        answer = await ask(model, request, Drafts, epoch=1, name="rubric", draw=draw, instruction=form)
    except Exception as error:
        return judge_failure(model, error)
    if answer.form is None:
        return str(answer.reason)
    names: dict[str, int] = {}
    try:
        criteria = tuple(
            Criterion(id=_name(draft.text, names), text=draft.text, weight=draft.weight)
            for draft in answer.form.criteria
        )
        return changed(base, criteria=criteria)
    except ValidationError as error:
        return f"The rubric cannot be used ({error.errors()[0]['msg']})."


def _name(text: str, names: dict[str, int]) -> str:
    """An id for a criterion: its first words, with a number if another has them."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    name = "_".join(["c", *words])[:34].rstrip("_")
    names[name] = names.get(name, 0) + 1
    return name if names[name] == 1 else f"{name}_{names[name]}"


def perturb_weights(rubric: Rubric, rng: np.random.Generator) -> Rubric:
    """The rubric with one weight halved or doubled, within 0.25 and 8. Needs no model."""
    place = int(rng.integers(len(rubric.criteria)))
    factor = float(rng.choice([0.5, 2.0]))
    criteria = list(rubric.criteria)
    weight = float(np.clip(max(criteria[place].weight, 0.25) * factor, 0.25, 8))
    criteria[place] = criteria[place].model_copy(update={"weight": weight})
    return changed(rubric, criteria=tuple(criteria))


def changed(rubric: Rubric, **fields: Any) -> Rubric:  # noqa: ANN401
    """A validated copy of a rubric with other fields."""
    return Rubric.model_validate({name: getattr(rubric, name) for name in Rubric.model_fields} | fields)
