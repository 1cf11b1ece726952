"""Formulas of multi graders: arithmetic over named grades, read by its syntax and never run as code."""

import ast
import math
from collections.abc import Callable, Collection, Mapping

from truthgym.datasets.errors import BadInput
from truthgym.scorers.graders.grader import Ungraded

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
MANY = ("min", "max")
"""Functions of any number of arguments. The others take one: `log` is the natural logarithm."""
LONGEST = 2000
"""Characters."""
CAN = f"it can hold grades by name, numbers, + - * / ^, brackets and {', '.join(FUNCTIONS)}"

Formula = Callable[[Mapping[str, float]], float]


def read_formula(text: str, names: Collection[str], where: str) -> Formula:
    """Read a formula such as `0.7 * exact + 0.3 * min(style, 1)`. `^` is the power, and binds as in mathematics.

    Args:
        text: The formula.
        names: The grades that it can name.
        where: The place to name in an error.

    Returns:
        A function from grades by name to the result, which raises `Ungraded` where the result is none: division by 0,
        a root or logarithm of a negative number, a number too large.

    Raises:
        BadInput: It holds something else, or a name that is not among them.
    """
    if len(text) > LONGEST:
        raise BadInput(f"{where}: the formula has {len(text)} characters; write it in {LONGEST}")
    try:
        if "**" in text:
            raise SyntaxError("** is no operator; write ^")
        tree = ast.parse(text.strip().replace("^", "**"), mode="eval").body
        _check(tree, names, where)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadInput(f"{where}: {text!r} is no formula ({error}); {CAN}") from None

    def compute(grades: Mapping[str, float]) -> float:
        try:
            return float(_value(tree, grades))
        except (ArithmeticError, ValueError) as error:
            raise Ungraded(f"The formula {text!r} has no value for {dict(grades)} ({error}).") from None

    return compute


def _check(node: ast.expr, names: Collection[str], where: str) -> None:
    """Refuse every part that is not named here."""
    match node:
        case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
            return
        case ast.Name(id=name) if name in names:
            return
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=inner):
            _check(inner, names, where)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            _check(left, names, where)
            _check(right, names, where)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS and arguments:
            if name not in MANY and len(arguments) != 1:
                raise BadInput(f"{where}: {name} takes one argument in {ast.unparse(node)!r}; {CAN}")
            for argument in arguments:
                _check(argument, names, where)
        case _:
            known = f"the grades are {', '.join(names)}"
            raise BadInput(f"{where}: {ast.unparse(node)!r} cannot stand in a formula; {CAN}; {known}")


def _value(node: ast.expr, grades: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id=name):
            return grades[name]
        case ast.UnaryOp(op=op, operand=inner):
            return -_value(inner, grades) if isinstance(op, ast.USub) else _value(inner, grades)
        case ast.BinOp(left=left, op=op, right=right):
            return OPERATORS[type(op)](_value(left, grades), _value(right, grades))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return FUNCTIONS[name](*(_value(argument, grades) for argument in arguments))
    raise ValueError(ast.unparse(node))  # not reached: `_check` passes nothing else
