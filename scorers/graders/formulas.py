"""Formulas of multi graders: arithmetic over named grades, parsed as an expression and never executed as code."""

import ast
import math
from collections.abc import Callable, Collection, Mapping

from truthgym.datasets.errors import BadInput
from truthgym.scorers.graders.grader import CannotGrade

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
