"""Templates of grader specifications: `{{ item.proposition }}`, `{{ sample.output_text }}`, and nothing cleverer."""

import json
import re
from collections.abc import Mapping
from typing import Any

from truthgym.datasets.errors import BadInput
from truthgym.scorers.graders.grader import Ungraded

VARIABLE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
PATH = re.compile(r"(item|sample)((?:\.[\w-]+|\[[0-9]+\])+)")
PART = re.compile(r"\.([\w-]+)|\[([0-9]+)\]")
SAMPLE = ("output_text", "output_json", "choices")
"""What of an answer a template can name here. Tool calls and audio are OpenAI's own."""


def check_template(template: str, where: str) -> None:
    """Refuse a template that could not be filled in for any answer.

    Args:
        template: The template.
        where: The place to name in an error.

    Raises:
        BadInput: Braces without a variable in them, a namespace other than `item` and `sample`, or a field of `sample`
            that there is not.
    """
    for found in VARIABLE.finditer(template):
        path = PATH.fullmatch(found[1].strip())
        if not path:
            raise BadInput(
                f"{where}: {found[0]!r} is no variable; write {{{{ item.NAME }}}} or {{{{ sample.output_text }}}}"
            )
        first = _parts(path[2])[0]
        if path[1] == "sample" and first not in SAMPLE:
            raise BadInput(f"{where}: {found[0]!r} cannot be filled in here; of `sample` there is {', '.join(SAMPLE)}")
    if "{{" in VARIABLE.sub("", template):
        raise BadInput(f"{where}: a {{{{ is not closed; write {{{{ item.NAME }}}} or {{{{ sample.output_text }}}}")


def render(template: str, values: Mapping[str, Any]) -> str:
    """Fill in a template that `check_template` has passed. What is filled in is not read as a template again.

    Text is put in as it is, anything else as JSON.

    Args:
        template: The template.
        values: What stands under `item` and under `sample`.

    Raises:
        Ungraded: A variable has no value for this answer.
    """

    def value(found: re.Match[str]) -> str:
        path = PATH.fullmatch(found[1].strip())
        held: Any = values[path[1]] if path else None
        for part in _parts(path[2]) if path else []:
            inside = isinstance(held, Mapping) and part in held
            placed = isinstance(held, list) and isinstance(part, int) and part < len(held)
            if not (inside or placed):
                there = f"; there is {', '.join(sorted(held))}" if isinstance(held, Mapping) else ""
                raise Ungraded(f"The variable {found[0]} of the grader's template has no value here{there}.")
            held = held[part]
        return held if isinstance(held, str) else json.dumps(held, ensure_ascii=False)

    return VARIABLE.sub(value, template)


def _parts(path: str) -> list[str | int]:
    return [name or int(place) for name, place in PART.findall(path)]
