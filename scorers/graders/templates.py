"""Templates of grader specifications: variables such as `{{ item.proposition }}`, without loops or conditions."""

import json
import re
from collections.abc import Mapping
from typing import Any

from truthgym.datasets.errors import BadInput
from truthgym.scorers.graders.grader import CannotGrade
from truthgym.scorers.statistics.direction import Fault

VARIABLE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
PATH = re.compile(r"(item|sample)((?:\.[\w-]+|\[[0-9]+\])+)")
KEY = re.compile(r"\.([\w-]+)|\[([0-9]+)\]")
SAMPLE_FIELDS = ("output_text", "output_json", "choices")
"""Fields of `sample` that a template can use here. Tool calls and audio are available at OpenAI only."""
EXAMPLES = "write {{ item.NAME }} or {{ sample.output_text }}"


def check_template(template: str, where: str) -> None:
    """Refuse a template that could not be rendered for any answer."""
    for variable in VARIABLE.finditer(template):
        path = PATH.fullmatch(variable[1].strip())
        if not path:
            raise BadInput(f"{where}: {variable[0]!r} is not a variable; {EXAMPLES}")
        if path[1] == "sample" and _keys(path[2])[0] not in SAMPLE_FIELDS:
            raise BadInput(
                f"{where}: {variable[0]!r} is not available here; the fields of `sample` are {', '.join(SAMPLE_FIELDS)}"
            )
    if "{{" in VARIABLE.sub("", template):
        raise BadInput(f"{where}: a {{{{ is not closed; {EXAMPLES}")


def render(template: str, values: Mapping[str, Any]) -> str:
    """Render a template that `check_template` has passed. Braces within the values are not rendered again.

    Text is inserted as it is, any other value as JSON.
    """

    def value(variable: re.Match[str]) -> str:
        path = PATH.fullmatch(variable[1].strip())
        assert path  # `check_template` has passed it
        current: Any = values[path[1]]
        for key in _keys(path[2]):
            in_object = isinstance(current, Mapping) and key in current
            in_list = isinstance(current, list) and isinstance(key, int) and key < len(current)
            if not (in_object or in_list):
                known = f"; known are {', '.join(sorted(current))}" if isinstance(current, Mapping) else ""
                fault: Fault = "answer" if path[1] == "sample" else "setting"
                raise CannotGrade(
                    f"The variable {variable[0]} of the grader's template has no value here{known}.", fault
                )
            current = current[key]
        return current if isinstance(current, str) else json.dumps(current, ensure_ascii=False)

    return VARIABLE.sub(value, template)


def _keys(path: str) -> list[str | int]:
    return [name or int(index) for name, index in KEY.findall(path)]
