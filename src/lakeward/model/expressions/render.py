"""Renders bound expressions as SQL text, for Spark and for DataFusion.

The text is made from the tree, with every name and literal quoted, so that no text of a user
reaches an engine unparsed. Parsing the text of `render` gives an equivalent expression.
"""

from __future__ import annotations

import base64
import math
from typing import ClassVar, Final, cast

from lakeward.model.expressions.nodes import (
    And,
    Arithmetic,
    Call,
    Case,
    Cast,
    Column,
    Compare,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Not,
    Or,
)
from lakeward.model.quoting import identifier
from lakeward.model.types import Decimal, Primitive, Type
from lakeward.model.values import from_neutral


def render(expression: Expression) -> str:
    """Return the expression as Spark SQL, as messages show it and table properties store it."""
    return _SPARK.write(expression)


def to_sql(expression: Expression) -> str:
    """Return the expression as DataFusion SQL."""
    return _DATAFUSION.write(expression)


# Precedence of operators; an operand of lower precedence than required gets parentheses.
_OR: Final = 1
_AND: Final = 2
_NOT: Final = 3
_PREDICATE: Final = 4
_SUM: Final = 5
_PRODUCT: Final = 6
_SIGN: Final = 7
_ATOM: Final = 8

_CHAIN: Final = 32
"""Longer chains of AND and OR are grouped, because engines recurse once per term."""
_SIGNS: Final = {"!=": "<>", "<=>": "="}


class _Dialect:
    """The SQL that both dialects share."""

    functions: ClassVar[dict[str, str]] = {}
    types: ClassVar[dict[str, str]]

    def write(self, expression: Expression, floor: int = _OR) -> str:
        text, strength = self._write(expression)
        return text if strength >= floor else f"({text})"

    def _write(self, expression: Expression) -> tuple[str, int]:
        match expression:
            case Column(field, path):
                return self.column(field.name, path), _ATOM
            case Literal(value, kind):
                return self._literal(expression) if value is not None else self._null(kind)
            case And(terms):
                return self._chain(" AND ", _AND, terms)
            case Or(terms):
                return self._chain(" OR ", _OR, terms)
            case Not(operand):
                return self._negation(operand)
            case Compare() | IsNull() | In() | Like():
                return self._predicate(expression, ""), _PREDICATE
            case Arithmetic(op, left, right, _):
                return self._arithmetic(op, left, right)
            case Negate(operand):
                return f"-{self.write(operand, _ATOM)}", _SIGN
            case Call():
                return self.call(expression)
            case Cast(operand, kind):
                return self.cast(self.write(operand), kind), _ATOM
            case Case(branches, default):
                return self._case(branches, default), _ATOM

    def _literal(self, literal: Literal) -> tuple[str, int]:
        text = self.literal(literal)
        return text, _SIGN if text.startswith("-") else _ATOM

    def _null(self, kind: Type) -> tuple[str, int]:
        return self.cast("NULL", kind), _ATOM

    def _chain(self, word: str, strength: int, terms: tuple[Expression, ...]) -> tuple[str, int]:
        texts = [self.write(term, strength + 1) for term in terms]
        while len(texts) > _CHAIN:
            groups = [texts[i : i + _CHAIN] for i in range(0, len(texts), _CHAIN)]
            texts = [f"({word.join(group)})" for group in groups]
        return word.join(texts), strength

    def _negation(self, operand: Expression) -> tuple[str, int]:
        match operand:
            case IsNull() | In() | Like():
                return self._predicate(operand, "NOT "), _PREDICATE
            case _:
                return f"NOT {self.write(operand, _ATOM)}", _NOT

    def _predicate(self, predicate: Compare | IsNull | In | Like, negation: str) -> str:
        match predicate:
            case Compare(op, left, right):
                sign = "<>" if op == "!=" else op
                return f"{self.write(left, _SUM)} {sign} {self.write(right, _SUM)}"
            case IsNull(operand):
                return f"{self.write(operand, _SUM)} IS {negation}NULL"
            case In(operand, values):
                listed = ", ".join(self.write(value) for value in values)
                return f"{self.write(operand, _SUM)} {negation}IN ({listed})"
            case Like(operand, pattern, ignore_case):
                word = "ILIKE" if ignore_case else "LIKE"
                return f"{self.write(operand, _SUM)} {negation}{word} {self.string(pattern)}"

    def _arithmetic(self, op: str, left: Expression, right: Expression) -> tuple[str, int]:
        strength = _SUM if op in "+-" else _PRODUCT
        divisor = self.write(right, strength + 1)
        if op in "/%" and not (isinstance(right, Literal) and right.value):
            divisor = self.not_zero(self.write(right))
        return f"{self.write(left, strength)} {op} {divisor}", strength

    def _case(
        self, branches: tuple[tuple[Expression, Expression], ...], default: Expression
    ) -> str:
        parts = [f"WHEN {self.write(when)} THEN {self.write(then)}" for when, then in branches]
        return f"CASE {' '.join(parts)} ELSE {self.write(default)} END"

    def call(self, call: Call) -> tuple[str, int]:
        listed = ", ".join(self.write(argument) for argument in call.arguments)
        return f"{self.functions.get(call.name, call.name)}({listed})", _ATOM

    def cast(self, text: str, kind: Type) -> str:
        name = str(kind).upper() if isinstance(kind, Decimal) else self.types[str(kind)]
        return f"CAST({text} AS {name})"

    def literal(self, literal: Literal) -> str:
        value, kind = literal.value, literal.type
        match value:
            case bool():
                return "TRUE" if value else "FALSE"
            case float():
                return self._double(value, kind)
            case str() if kind == Primitive("binary"):
                return f"X'{base64.b64decode(value).hex()}'"
            case str() if kind == Primitive("string"):
                return self.string(value)
            case str():
                return self.decimal(value, kind)
            case _ if kind == Primitive("date"):
                return f"DATE '{from_neutral(kind, value).isoformat()}'"
            case _ if isinstance(kind, Primitive) and kind.name.startswith("timestamp"):
                return self.timestamp(cast(int, value), kind.name)
            case _:
                return str(value)

    def _double(self, value: float, kind: Type) -> str:
        if not math.isfinite(value):
            spelled = "NaN" if math.isnan(value) else ("-" if value < 0 else "") + "Infinity"
            return self.cast(self.string(spelled), kind)
        return repr(value)

    def not_zero(self, text: str) -> str:
        return f"nullif({text}, 0)"

    def column(self, name: str, path: tuple[str, ...]) -> str:
        raise NotImplementedError

    def string(self, text: str) -> str:
        raise NotImplementedError

    def decimal(self, text: str, kind: Type) -> str:
        raise NotImplementedError

    def timestamp(self, microseconds: int, name: str) -> str:
        raise NotImplementedError


class _Spark(_Dialect):
    types: ClassVar = {
        "boolean": "BOOLEAN",
        "int8": "TINYINT",
        "int16": "SMALLINT",
        "int32": "INT",
        "int64": "BIGINT",
        "float": "FLOAT",
        "double": "DOUBLE",
        "string": "STRING",
        "binary": "BINARY",
        "date": "DATE",
        "timestamp": "TIMESTAMP",
        "timestamp_ntz": "TIMESTAMP_NTZ",
        "timestamp_ms": "TIMESTAMP",
        "timestamp_ms_ntz": "TIMESTAMP_NTZ",
    }

    def column(self, name: str, path: tuple[str, ...]) -> str:
        return ".".join(identifier(part) for part in (name, *path))

    def string(self, text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def decimal(self, text: str, kind: Type) -> str:
        return text if "." in text else f"CAST({text} AS {str(kind).upper()})"

    def timestamp(self, microseconds: int, name: str) -> str:
        moment = from_neutral(Primitive("timestamp_ntz"), microseconds).isoformat(" ")
        return f"TIMESTAMP_NTZ '{moment}'" if name.endswith("ntz") else f"TIMESTAMP '{moment}Z'"


class _DataFusion(_Dialect):
    functions: ClassVar = {
        "length": "character_length",
        "substring": "substr",
        "trim": "btrim",
    }
    types: ClassVar = {
        **_Spark.types,
        "float": "REAL",
        "string": "VARCHAR",
        "binary": "BYTEA",
    }

    def column(self, name: str, path: tuple[str, ...]) -> str:
        quoted = '"' + name.replace('"', '""') + '"'
        return quoted + "".join(f"[{self.string(part)}]" for part in path)

    def string(self, text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    def decimal(self, text: str, kind: Type) -> str:
        return self.cast(f"'{text}'", kind)

    def timestamp(self, microseconds: int, name: str) -> str:
        steps = microseconds // 1000 if name.startswith("timestamp_ms") else microseconds
        return f"arrow_cast({steps}, {self.string(_ARROW_TYPES[name])})"

    def not_zero(self, text: str) -> str:
        return f"CASE WHEN {text} = 0 THEN NULL ELSE {text} END"  # its nullif lets -0.0 pass

    def cast(self, text: str, kind: Type) -> str:
        if isinstance(kind, Primitive) and kind.name in _ARROW_TYPES:
            return f"arrow_cast({text}, {self.string(_ARROW_TYPES[kind.name])})"
        return super().cast(text, kind)

    def _write(self, expression: Expression) -> tuple[str, int]:
        match expression:
            case Compare(op, left, Literal(float() as value, _)):
                return self._floating(op, left, value)
            case In(operand, (Literal(float(), _), *_) as values):
                each = tuple(Compare("=", operand, value) for value in values)
                return self._write(Or(each) if len(each) > 1 else each[0])
            case Not(In(_, (Literal(float(), _), *_)) as several):
                return f"NOT ({self.write(several)})", _NOT
            case Compare("<=>", left, right):
                # DataFusion takes everything that follows as the right side.
                text = f"{self.write(left, _SUM)} IS NOT DISTINCT FROM {self.write(right, _SUM)}"
                return f"({text})", _ATOM
            case Cast(operand, kind) if isinstance(operand.type, Decimal):
                return self.cast(self._rounded(operand, operand.type, kind), kind), _ATOM
            case _:
                return super()._write(expression)

    def _rounded(self, operand: Expression, source: Decimal, target: Type) -> str:
        """Return a decimal rounded before a cast drops digits, which DataFusion would reorder."""
        text = self.write(operand)
        if isinstance(target, Decimal):
            return f"round({text}, {target.scale})" if target.scale < source.scale else text
        return f"trunc({text})" if str(target).startswith("int") else text

    def _floating(self, op: str, left: Expression, value: float) -> tuple[str, int]:
        """Return a comparison with a float, as text and its precedence.

        DataFusion skips files by statistics, which leave NaN out, so NaN is tested separately.
        """
        subject, nan = self.write(left, _SUM), f"isnan({self.write(left)})"
        if math.isnan(value):
            return self._with_nan(op, subject, nan)
        plain = f"{subject} {_SIGNS.get(op, op)} {self._double(value, left.type)}"
        match op:
            case "<=>":
                return f"coalesce({plain} AND NOT {nan}, FALSE)", _ATOM
            case ">" | ">=" | "!=":
                return f"{plain} OR {nan}", _OR
            case _:
                return f"{plain} AND NOT {nan}", _AND

    def _with_nan(self, op: str, subject: str, nan: str) -> tuple[str, int]:
        match op:
            case "<=>":
                return f"coalesce({nan}, FALSE)", _ATOM
            case "=" | ">=":
                return nan, _ATOM
            case "!=" | "<":
                return f"NOT {nan}", _NOT
            case _:
                return f"{subject} {'=' if op == '<=' else '<>'} {subject}", _PREDICATE

    def call(self, call: Call) -> tuple[str, int]:
        subject = self.write(call.arguments[0])
        match call.name:
            case "concat":  # its function takes null for an empty string, its operator does not
                return self._chain(" || ", _SUM, call.arguments)
            case "year" | "month" | "day" | "hour":
                return f"date_part('{call.name}', {subject})", _ATOM
            case "floor" | "ceil" if isinstance(call.type, Decimal):
                return f"{call.name}({self.cast(subject, call.type)})", _ATOM
            case _:
                return super().call(call)


_ARROW_TYPES: Final = {
    "timestamp": 'Timestamp(Microsecond, Some("UTC"))',
    "timestamp_ntz": "Timestamp(Microsecond, None)",
    "timestamp_ms": 'Timestamp(Millisecond, Some("UTC"))',
    "timestamp_ms_ntz": "Timestamp(Millisecond, None)",
}


_SPARK: Final = _Spark()
_DATAFUSION: Final = _DataFusion()
