"""Runs OpenAI grader specifications locally where possible, and keeps them unchanged for that API."""

import ast
import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Annotated, Any

from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageUser, GenerateConfig
from pydantic import BaseModel, Field, ValidationError

from truthgym.datasets.errors import BadInput, one_of, shown
from truthgym.scorers.graders.builtin import ROLE, the_grader
from truthgym.scorers.graders.grader import CannotGrade, Grade, Grader, GraderInput, grade, sample_fields
from truthgym.scorers.graders.python import DEFAULTS, ProgramOptions, python_grader
from truthgym.scorers.judges.asking import Form, ask, form_instruction
from truthgym.scorers.statistics.direction import Fault

OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: math.pow,
}
FUNCTIONS: dict[str, Callable[..., float]] = {
    "min": lambda *grades: min(grades),
    "max": lambda *grades: max(grades),
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "exp": math.exp,
    "sqrt": math.sqrt,
    "log": math.log,
}
VARIADIC = ("min", "max")
"""Functions of one or more arguments. The others take exactly one; `log` is the natural logarithm."""
ALLOWED = f"it can hold grades by name, numbers, + - * / ^, brackets and {', '.join(FUNCTIONS)}"

Formula = Callable[[Mapping[str, float]], float]


def read_formula(text: str, names: Collection[str], where: str) -> Formula:
    """Read a formula such as `0.7 * exact + 0.3 * min(style, 1)`. `^` is the power, and binds as in mathematics."""
    try:
        if "**" in text:
            raise SyntaxError("** is not an operator; write ^")
        formula = _compile(ast.parse(text.strip().replace("^", "**"), mode="eval").body, names, where)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadInput(f"{where}: {text!r} is not a formula ({error}); {ALLOWED}") from None

    def compute(grades: Mapping[str, float]) -> float:
        try:
            return float(formula(grades))
        except (ArithmeticError, ValueError) as error:
            raise CannotGrade(f"The formula {text!r} has no value for {dict(grades)} ({error}).", "setting") from None

    return compute


def _compile(node: ast.expr, names: Collection[str], where: str) -> Formula:
    """Turn an expression into a function. Anything that is not listed here is refused."""

    def compiled(inner: ast.expr) -> Formula:
        return _compile(inner, names, where)

    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            constant = float(number)
            return lambda grades: constant
        case ast.Name(id=name) if name in names:
            return lambda grades: grades[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            operand = compiled(inner)
            return lambda grades: -operand(grades)
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            return compiled(inner)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            operator, a, b = OPERATORS[type(op)], compiled(left), compiled(right)
            return lambda grades: operator(a(grades), b(grades))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS and arguments:
            if name not in VARIADIC and len(arguments) != 1:
                raise BadInput(f"{where}: {name} takes one argument in {ast.unparse(node)!r}; {ALLOWED}")
            function, values = FUNCTIONS[name], [compiled(argument) for argument in arguments]
            return lambda grades: function(*(value(grades) for value in values))
    raise BadInput(
        f"{where}: {ast.unparse(node)!r} cannot be used in a formula; {ALLOWED}; the grades are {', '.join(names)}"
    )


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


OPERATIONS: dict[str, Callable[[str, str], bool]] = {
    "eq": lambda text, reference: text == reference,
    "ne": lambda text, reference: text != reference,
    "like": lambda text, reference: reference in text,
    "ilike": lambda text, reference: reference.casefold() in text.casefold(),
}
"""Operations of a string check, on the rendered `input` and the rendered `reference`."""
KINDS = ("string_check", "score_model", "python", "multi", "text_similarity", "label_model")
"""Kinds of graders. The last two run at OpenAI only."""


class ReasoningStep(Form):
    """A step of the reasoning behind a score."""

    description: str
    conclusion: str


class ModelScore(Form):
    """The form of a score model's reply, which is OpenAI's own: the reasoning comes first."""

    steps: list[ReasoningStep] = Field(
        description='list of the steps of your reasoning, each {"description": "...", "conclusion": "..."}'
    )
    result: float = Field(description="the score, a number within the range")


class MultiGrader(BaseModel):
    """A multi grader as OpenAI's API takes it."""

    graders: Annotated[dict[str, Any], Field(min_length=1)]
    calculate_output: str


def parse_spec(spec: str) -> dict[str, Any]:
    """Parse the JSON of a specification and validate it against OpenAI's types."""
    try:
        fields = json.loads(spec)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"grader: the specification is not JSON ({error}); it begins: {spec.strip()[:80]!r}") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("type"), str):
        raise BadInput(
            "grader: a specification is a JSON object with a type, such as "
            '{"type": "string_check", "name": "exact", "input": "{{ sample.output_text }}", "reference": "yes", '
            '"operation": "like"}'
        )
    one_of("type of grader", fields["type"], KINDS)
    _check_types(fields["type"], fields)
    return fields


def openai_grader(spec: str, program: ProgramOptions = DEFAULTS, cache: bool = True) -> Grader:
    """Make a grader from the JSON of OpenAI's API."""
    fields = parse_spec(spec)
    kind = fields["type"]
    name = str(fields.get("name") or kind)
    match kind:
        case "string_check":
            grader = _string_check(name, fields)
        case "score_model":
            grader = _score_model(name, fields, cache)
        case "python":
            grader = python_grader(name, fields["source"], program)
        case "multi":
            grader = _multi(name, fields, program, cache)
        case _:
            grader = Grader(name, None)
    return replace(grader, spec=spec)


def _check_types(kind: str, fields: dict[str, Any]) -> None:
    """Validate a specification against the types of the openai package. The name may be missing, as in OpenAI's guide.

    Only `multi` has a type of its own: that of the package has a single grader, whereas the API takes graders by name.
    """
    from openai.types import graders as types  # takes a second to import

    models: dict[str, type[BaseModel]] = {
        "multi": MultiGrader,
        "string_check": types.StringCheckGrader,
        "score_model": types.ScoreModelGrader,
        "python": types.PythonGrader,
        "text_similarity": types.TextSimilarityGrader,
        "label_model": types.LabelModelGrader,
    }
    try:
        models[kind].model_validate({"name": kind} | fields)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"grader of type {kind}, field {place}: {first['msg']}; correct the specification") from None


def _string_check(name: str, fields: dict[str, Any]) -> Grader:
    for field in ("input", "reference"):
        check_template(fields[field], f"grader {name}, {field}")
    operation = OPERATIONS[fields["operation"]]

    def function(case: GraderInput) -> Grade:
        values = _values(case)
        text, reference = (render(fields[field], values) for field in ("input", "reference"))
        result = operation(text, reference)
        explanation = f"{shown(text)} {fields['operation']} {shown(reference)} is {str(result).lower()}."
        return Grade(float(result), explanation=explanation)

    return Grader(name, function)


def _score_model(name: str, fields: dict[str, Any], cache: bool) -> Grader:
    low, high = _range(name, fields.get("range"))
    templates = [(message["role"], _text(message, f"grader {name}, input")) for message in fields["input"]]
    if not templates:
        raise BadInput(f"grader {name}: `input` is empty; give at least one message")
    config = _config(fields.get("sampling_params") or {})
    instruction = f"The score is a number from {low:g} to {high:g}.\n\n{form_instruction(ModelScore)}"

    async def function(case: GraderInput) -> Grade:
        values = _values(case)
        messages = [(role, render(template, values)) for role, template in templates]
        if messages[-1][0] == "user":
            messages[-1] = ("user", f"{messages[-1][1]}\n\n{instruction}")
        else:
            messages.append(("user", instruction))
        request = [_message(role, text) for role, text in messages]
        answer = await ask(
            the_grader(), request, ModelScore, epoch=case.epoch, name=f"score model {name}", cache=cache, config=config
        )
        if answer.form is None:
            raise CannotGrade(str(answer.reason), "judge")
        explanation = " ".join(f"{step.description}: {step.conclusion}" for step in answer.form.steps)
        return Grade(answer.form.result, explanation=explanation, repaired=answer.repaired)

    return Grader(name, function, low, high, roles=(ROLE,))


def _multi(name: str, fields: dict[str, Any], program: ProgramOptions, cache: bool) -> Grader:
    # A program within it declares no range: only the formula's result must be within the range.
    unbounded = replace(program, low=-1e300, high=1e300, higher_is_better=True)
    parts: dict[str, Grader] = {}
    for part, spec in fields["graders"].items():
        try:
            if isinstance(spec, dict) and spec.get("type") == "multi":
                raise BadInput("a multi grader cannot be nested in another; write its formula out")
            parts[part] = openai_grader(json.dumps(spec), unbounded, cache)
        except BadInput as error:
            raise BadInput(f"grader {name}, part {part}: {error}") from None
        if parts[part].function is None:
            raise BadInput(f"grader {name}: its part {part} is of type {spec['type']}, which runs at OpenAI only")
    compute = read_formula(fields["calculate_output"], parts, f"grader {name}, calculate_output")

    async def function(case: GraderInput) -> Grade:
        values, repaired = {}, False
        for part, grader in parts.items():
            result = await grade(grader, case)
            if result.value is None:
                raise CannotGrade(f"{part}: {result.reason}", result.fault)
            values[part], repaired = result.value, repaired or result.repaired
        listed = ", ".join(f"{part} {value:.4g}" for part, value in values.items())
        explanation = f"{fields['calculate_output']} with {listed}."
        return Grade(compute(values), explanation=explanation, repaired=repaired)

    return Grader(
        name,
        function,
        low=program.low,
        high=program.high,
        higher_is_better=program.higher_is_better,
        roles=tuple(sorted({role for grader in parts.values() for role in grader.roles})),
        sandbox=any(grader.sandbox for grader in parts.values()),
    )


def _range(name: str, bounds: Sequence[float] | None) -> tuple[float, float]:
    match bounds:
        case None:
            return 0.0, 1.0
        case [int() | float() as low, int() | float() as high] if -inf < low < high < inf:
            return float(low), float(high)
    raise BadInput(f"grader {name}: range={bounds!r} cannot be used; give two numbers, the lower first")


def _text(message: Mapping[str, Any], where: str) -> str:
    """The text of a message, which may consist of parts. Images and audio are supported at OpenAI only."""
    content = message["content"]
    parts = content if isinstance(content, list) else [content]
    texts = [part if isinstance(part, str) else part.get("text") for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise BadInput(f"{where}: a message holds an image or audio, which runs at OpenAI only; give text")
    text = "\n\n".join(texts)
    check_template(text, where)
    return text


def _message(role: str, text: str) -> ChatMessage:
    if role in ("system", "developer"):
        return ChatMessageSystem(content=text)
    return ChatMessageAssistant(content=text) if role == "assistant" else ChatMessageUser(content=text)


def _config(sampling: Mapping[str, Any]) -> GenerateConfig:
    same = {name: sampling.get(name) for name in ("temperature", "top_p", "seed", "reasoning_effort")}
    return GenerateConfig(max_tokens=sampling.get("max_completions_tokens"), **same)


def _values(case: GraderInput) -> dict[str, Any]:
    return {"item": dict(case.item), "sample": sample_fields(case)}
