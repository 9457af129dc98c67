"""Expressions over a table's columns, bound to the schema.

A bound expression has fields instead of names, every node has a type, and both sides of an
operation have the same type. Conditions follow SQL's three-valued logic, and a filter keeps the
rows for which its condition is true. As in Spark, NaN equals itself and is above every number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import repeat
from typing import Any, ClassVar, Final, TypeAlias, get_args
from typing import Literal as Choice

from lakeward.model.types import Field, Primitive, Struct, Type
from lakeward.model.values import Value

BOOLEAN: Final = Primitive("boolean")

Comparison: TypeAlias = Choice["=", "!=", "<", "<=", ">", ">=", "<=>"]
Operator: TypeAlias = Choice["+", "-", "*", "/", "%"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or the member of a struct at `path` below the column."""

    field: Field
    path: tuple[str, ...] = ()

    @property
    def leaf(self) -> Field:
        """The field at the end of the path."""
        found = self.field
        for name in self.path:
            assert isinstance(found.type, Struct)  # noqa: S101  the binder walked the same path
            found = next(member for member in found.type.fields if member.name == name)
        return found

    @property
    def type(self) -> Type:
        """The type of the leaf."""
        return self.leaf.type


@dataclass(frozen=True, slots=True)
class Literal:
    """A value in the neutral form of `lakeward.model.values`; None is a typed null."""

    value: Value
    type: Type


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of two values of one type; `<=>` treats null as a value that equals itself."""

    op: Comparison
    left: Expression
    right: Expression
    type: ClassVar[Type] = BOOLEAN


@dataclass(frozen=True, slots=True)
class And:
    """Whether all of two or more conditions are true."""

    terms: tuple[Expression, ...]
    type: ClassVar[Type] = BOOLEAN


@dataclass(frozen=True, slots=True)
class Or:
    """Whether any of two or more conditions is true."""

    terms: tuple[Expression, ...]
    type: ClassVar[Type] = BOOLEAN


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a condition; unknown remains unknown."""

    operand: Expression
    type: ClassVar[Type] = BOOLEAN


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a value is null; never unknown."""

    operand: Expression
    type: ClassVar[Type] = BOOLEAN


@dataclass(frozen=True, slots=True)
class In:
    """Whether a value is one of some literals, none of which is null."""

    operand: Expression
    values: tuple[Literal, ...]
    type: ClassVar[Type] = BOOLEAN


@dataclass(frozen=True, slots=True)
class Like:
    r"""Whether a string matches a pattern: `%` is any text, `_` one character, `\` escapes."""

    operand: Expression
    pattern: str
    ignore_case: bool = False
    type: ClassVar[Type] = BOOLEAN


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """A calculation on two numbers. A division by zero gives null, an overflow is an error."""

    op: Operator
    left: Expression
    right: Expression
    type: Type


@dataclass(frozen=True, slots=True)
class Negate:
    """The negated number."""

    operand: Expression

    @property
    def type(self) -> Type:
        """The type of the operand."""
        return self.operand.type


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function in `functions.NAMES`, whose result is the same in every engine."""

    name: str
    arguments: tuple[Expression, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Cast:
    """A value cast to another type; a value that the type cannot hold is an error."""

    operand: Expression
    type: Type


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch whose condition is true, otherwise the default."""

    branches: tuple[tuple[Expression, Expression], ...]
    default: Expression

    @property
    def type(self) -> Type:
        """The common type of the values of all branches and of the default."""
        return self.default.type


Expression: TypeAlias = (
    Column
    | Literal
    | Compare
    | And
    | Or
    | Not
    | IsNull
    | In
    | Like
    | Arithmetic
    | Negate
    | Call
    | Cast
    | Case
)
_NODES: Final = get_args(Expression)


def with_columns(expression: Expression, replaced: Callable[[Column], Column]) -> Expression:
    """Return the expression with `replaced` applied to every column."""

    def of(value: Any) -> Any:
        if isinstance(value, Column):
            return replaced(value)
        if isinstance(value, tuple):
            return tuple(map(of, value))
        return with_columns(value, replaced) if isinstance(value, _NODES) else value

    if isinstance(expression, Column):
        return replaced(expression)
    return replace(
        expression, **{f.name: of(getattr(expression, f.name)) for f in fields(expression)}
    )


def columns(expression: Expression) -> frozenset[int]:
    """Return the ids of the top-level fields that the expression reads."""
    return frozenset(column.field.id for column in columns_in(expression))


def columns_in(expression: Expression) -> Iterator[Column]:
    """Yield the columns and struct members that the expression reads, with repetitions."""
    return (node for node in walk(expression) if isinstance(node, Column))


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """Return the conditions that must all be true for the expression to be true."""
    if not isinstance(expression, And):
        return (expression,)
    return tuple(part for term in expression.terms for part in conjuncts(term))


def cost(expression: Expression) -> int:
    """Return an upper bound of the steps that an engine takes for one row.

    Engines compute the operand of some nodes more than once, so the costs of nested nodes multiply.
    """
    known: dict[int, int] = {}

    def of(node: Expression) -> int:
        if id(node) not in known:
            parts = (
                times * of(child) for child, times in zip(children(node), _uses(node), strict=False)
            )
            known[id(node)] = 1 + sum(parts)
        return known[id(node)]

    return of(expression)


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield every node of the expression, parents first."""
    stack = [expression]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def children(expression: Expression) -> tuple[Expression, ...]:
    """Return the direct children of a node, in order."""
    match expression:
        case Compare(_, left, right) | Arithmetic(_, left, right, _):
            return (left, right)
        case And(terms) | Or(terms):
            return terms
        case Call(_, arguments, _):
            return arguments
        case Case(branches, default):
            return (*(part for branch in branches for part in branch), default)
        case In(operand, values):
            return (operand, *values)
        case Not(operand) | IsNull(operand) | Negate(operand):
            return (operand,)
        case Like(operand, _, _) | Cast(operand, _):
            return (operand,)
        case _:
            return ()


def _uses(node: Expression) -> Iterable[int]:
    """Return how often an engine may compute each child."""
    match node:
        case Compare():
            return (4, 4)
        case Arithmetic("%"):
            return (2, 4)
        case Arithmetic("/"):
            return (1, 2)
        case In(_, values):
            return (2 * len(values), *repeat(1, len(values)))
        case _:
            return repeat(1)
