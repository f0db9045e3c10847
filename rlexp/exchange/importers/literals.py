"""A parser for values that another tool wrote as Python, which executes no code."""

import ast
from dataclasses import dataclass
from math import isfinite
from typing import Any

LONGEST = 2000
"""Characters of the longest expression that is parsed."""


class NotLiteral(ValueError):  # noqa: N818
    """A text contains more than values and would have to be executed."""


@dataclass(frozen=True, slots=True)
class ClassName:
    """A dotted name of a class in a library (`nn.ReLU`)."""

    name: str


def parse_literal(text: str) -> Any:
    """The value of `dict(key=…)`, `{'key': …}`, lists, tuples, numbers, texts and dotted names.

    Raises:
        NotLiteral: The text contains anything else; the message names it.
    """
    if len(text) > LONGEST:
        raise NotLiteral(f"it has more than {LONGEST:,} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        return _value(tree.body)
    # Deeply nested text makes Python's parser raise RecursionError or MemoryError.
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, NotLiteral):
            raise
        raise NotLiteral(f"{_shown(text)} is not an expression of values") from error


def _value(node: ast.expr) -> Any:
    match node:
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {_key(key): _value(item) for key, item in zip(keys, values, strict=True)}
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            return {_keyword(keyword): _value(keyword.value) for keyword in keywords}
        case ast.Name() | ast.Attribute():
            return ClassName(_dotted(node))
    return _constant(node)


def _constant(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=None | bool() | int() | str()):
            return node.value
        case ast.Constant(value=float() as number) if isfinite(number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant() as unsigned):
            number = _constant(unsigned)
            if type(number) in {int, float}:
                return -number
    raise NotLiteral(f"{_shown(ast.unparse(node))} would have to be executed")


def _key(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise NotLiteral("a key is not a text")


def _keyword(keyword: ast.keyword) -> str:
    if keyword.arg is None:
        raise NotLiteral(f"**{_shown(ast.unparse(keyword.value))} would have to be executed")
    return keyword.arg


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    raise NotLiteral(f"{_shown(ast.unparse(node))} would have to be executed")


def _shown(text: str) -> str:
    short = " ".join(text.split())
    return repr(short if len(short) <= 80 else f"{short[:79]}…")
