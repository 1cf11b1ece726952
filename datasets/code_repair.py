"""Code repair: a function that does not do what its description says. Can a model put it right?"""

import ast
import re
from textwrap import dedent
from typing import Annotated, Any, Literal

from inspect_ai.dataset import Sample
from pydantic import BaseModel, Field

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.domain import Domain, DomainRow
from truthgym.datasets.loading.row_files import RowFilter
from truthgym.datasets.question import Question, Text

ASK = """This Python function does not do what its description says.

{description}

```python
{faulty}
```

Repair it. Keep its name and its parameters. It may use Python's standard library, and must not change its arguments. \
Your answer is the whole corrected function in one block of Python code. It is called on inputs that are not shown."""
TIERS = (1, 2, 3)
BLOCK = re.compile(
    r"^[ \t]*(`{3,}|~{3,})[ \t]*(?:python|py|python3)?[ \t]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.M | re.S | re.I
)
"""A block of code in an answer. The last one may have no end."""

Tier = Literal[1, 2, 3]


class HiddenTest(BaseModel, frozen=True, extra="forbid"):
    """One call of the function."""

    arguments: list[Any]
    expected: Any
    """What it must return, as a value of JSON."""


class RepairQuestion(Question, frozen=True):
    """A function to repair."""

    function: str
    tier: Tier
    """Where the fault is: 1, in one statement; 2, in what the function keeps from one step to the next; 3, in its
    method."""
    tests: Annotated[list[HiddenTest], Field(min_length=2)]
    tools: tuple[str, ...] = ("python",)
    """What `run_agent` gives to its agent."""


class RepairRow(DomainRow):
    """A row. The data card, `code_repair.md`, describes the fields."""

    function: Text
    tier: Tier
    description: Text
    faulty: Text
    fixed: Text | None = None
    tests: Annotated[list[HiddenTest], Field(min_length=2)]

    def to_sample(self) -> Sample:
        """The sample of the row."""
        for field in ("faulty", "fixed"):
            source = getattr(self, field)
            if source is not None and self.function not in functions_of(source):
                raise ValueError(f"`{field}` is not Python with a function {self.function}; correct it")
        text = ASK.format(description=self.description, faulty=self.faulty)
        return self.build(RepairQuestion, text, domain="code_repair", form="free")


def functions_of(source: str) -> list[str]:
    """Names of the functions at the top level of a program. None if it is not Python."""
    try:
        return [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def code_blocks(answer: str) -> list[str]:
    """The blocks of code in an answer, in order, or the answer itself if it has none."""
    return [dedent(match[2]) for match in BLOCK.finditer(answer)] or [answer]


def find_program(answer: str, function: str) -> str | None:
    """The last block of code in an answer that is Python and defines a function, or the answer itself if it is."""
    return next((block for block in reversed(code_blocks(answer)) if function in functions_of(block)), None)


def _of_tier(tier: int | None) -> RowFilter:
    if tier not in (None, *TIERS):
        raise BadInput(f"code_repair: tier={tier!r} is none; give 1, 2 or 3, or leave it out for all")

    def reason_to_drop(row: dict[str, Any]) -> str | None:
        return None if tier in (None, row.get("tier")) else f"of other tiers than {tier}"

    return reason_to_drop


code_repair = Domain("code_repair", RepairRow, row_filter=_of_tier)
