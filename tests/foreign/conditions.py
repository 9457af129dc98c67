"""Random conditions over the columns of a table, with values that occur in it or nearly do."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from tests.foreign.language import (
    FLOATING,
    INTEGERS,
    Row,
    Term,
    between,
    both,
    calculate,
    call,
    case,
    cast,
    coalesce,
    column,
    compare,
    constant,
    either,
    finds,
    is_nan,
    is_null,
    is_truth,
    like,
    member,
    negated,
)
from tests.foreign.values import MEMBERS, NESTED, STRUCT, literals, neighbours, pool

_SIGNS = ("=", "<>", "<", "<=", ">", ">=", "==", "!=", "<=>")
_DISTINCT = ("IS DISTINCT FROM", "IS NOT DISTINCT FROM")
_PARTS = ("", "a", "b", "%", "_", "é", "A", " ", "a%", "abc", "\\%", "\\_", "\\\\", "'")
_SAFE_INTEGER = 2**53
_BESIDE_INTEGERS: list[tuple[str, str, Any]] = [
    ("2.5", "double", 2.5),
    ("-0.5", "double", -0.5),
    ("1e0", "double", 1.0),
    ("1e30", "double", 1e30),
    ("CAST('NaN' AS DOUBLE)", "double", math.nan),
    ("300", "int64", 300),
    ("9223372036854775808", "decimal(19,0)", 2**63),
]
"""Literals that an integer column is compared with and that have no place in its type."""


class Conditions:
    """Makes conditions.

    Args:
        columns: Kinds of the table's columns by name.
        rows: Of the table.
        pick: Chooses.
    """

    def __init__(
        self, columns: Mapping[str, str], rows: Sequence[Row], pick: random.Random
    ) -> None:
        self._pick = pick
        self._columns = [column(name, kind) for name, kind in columns.items()]
        self._leaves = [c for c in self._columns if c.kind not in NESTED]
        for name in (name for name, kind in columns.items() if kind == STRUCT):
            self._leaves += [column(f"{name}.{m}", kind) for m, kind in MEMBERS.items()]
        self._seen = {c.sql: [v for v in map(c.of, rows) if v is not None] for c in self._leaves}

    def one(self, depth: int = 2) -> Term:
        """A condition; most have one or two parts."""
        pick = self._pick
        if depth and pick.random() < 0.4:
            parts = [self.one(depth - 1) for _ in range(pick.choice((2, 2, 3)))]
            joined = pick.choice((both, either))(parts)
            return negated(joined) if pick.random() < 0.2 else joined
        found = self._simple()
        if pick.random() < 0.2:
            return negated(found)
        if pick.random() < 0.05:
            return is_truth(found, pick.choice((True, False)), positive=pick.random() < 0.5)
        return found

    def _simple(self) -> Term:
        pick = self._pick
        if pick.random() < 0.1:
            return is_null(
                pick.choice([*self._columns, *self._leaves]), positive=pick.random() < 0.5
            )
        subject = pick.choice(self._leaves)
        if subject.kind == "boolean" and pick.random() < 0.4:
            return subject
        shapes = [self._comparison] * 6 + [self._member] * 3 + [self._between] * 2
        shapes += [self._calculation, self._pair, self._distinct, self._other_type]
        if subject.kind == "string":
            shapes += [self._pattern] * 4
        if subject.kind in FLOATING:
            shapes += [lambda a: is_nan(a)] * 2
        return pick.choice(shapes)(subject)

    def _comparison(self, a: Term) -> Term:
        b, sign = self._literal(a), self._pick.choice(_SIGNS)
        return compare(sign, b, a) if self._pick.random() < 0.2 else compare(sign, a, b)

    def _distinct(self, a: Term) -> Term:
        return compare(self._pick.choice(_DISTINCT), a, self._literal(a))

    def _member(self, a: Term) -> Term:
        values = [self._literal(a) for _ in range(self._pick.randint(1, 4))]
        if self._pick.random() < 0.3:
            values.insert(self._pick.randrange(len(values) + 1), constant("NULL", a.kind, None))
        return member(a, values, positive=self._pick.random() < 0.6)

    def _between(self, a: Term) -> Term:
        low, high = self._literal(a), self._literal(a)
        return between(a, low, high, positive=self._pick.random() < 0.7)

    def _pattern(self, a: Term) -> Term:
        pick = self._pick
        if pick.random() < 0.3:
            name = pick.choice(("startswith", "endswith", "contains"))
            return finds(name, a, pick.choice([*_PARTS[:9], *self._starts(a)]))
        pattern = "".join(pick.choice(_PARTS) for _ in range(pick.randint(0, 3)))
        starts = self._starts(a)
        if starts and pick.random() < 0.4:
            plain = pick.choice(starts).replace("\\", "\\\\")
            pattern = plain.replace("%", "\\%").replace("_", "\\_") + "%"
        return like(a, pattern, positive=pick.random() < 0.6, any_case=pick.random() < 0.2)

    def _starts(self, a: Term) -> list[str]:
        return [v[:n] for v in self._seen[a.sql] for n in (1, 8, 33)]

    def _calculation(self, a: Term) -> Term:
        """A comparison of something computed from the column."""
        pick = self._pick
        subject, kind = a, a.kind
        if kind in INTEGERS or kind in FLOATING:
            op = pick.choice("+-*/%" if kind in INTEGERS else "+-*/")
            number = pick.choice((1, 2, 3, -1, 0))
            forms = [calculate(op, a, constant(str(number), "int64", number)), call("abs", a)]
            subject = pick.choice(forms)
            value: Any = pick.choice([-1, 0, 1, 2, 3, 7])
        elif kind == "string":
            subject = call(pick.choice(("lower", "upper", "trim", "length")), a)
            value = pick.choice(("", "a", "A", "ab", "é"))
            value = pick.choice((0, 1, 2, 52)) if subject.kind == "int64" else value
        elif kind == "date" or kind.startswith("timestamp"):
            subject = call(pick.choice(("year", "month", "day", "hour")), a)
            value = pick.choice((-9999, 1, 12, 31, 1970, 2026, 9999, 0, 23))
        else:
            return compare(pick.choice(_SIGNS), coalesce(a, self._known(a)), self._literal(a))
        right = pick.choice(
            literals(subject.kind, float(value) if subject.kind == "double" else value)
        )
        return compare(pick.choice(_SIGNS), subject, right)

    def _pair(self, a: Term) -> Term:
        """Two columns of one kind, or what a choice between them gives."""
        others = [c for c in self._leaves if c.kind == a.kind and c.sql != a.sql]
        if not others:
            return self._comparison(a)
        b = self._pick.choice(others)
        if self._pick.random() < 0.3:
            chosen = case(is_null(a), b, a)
            return compare(self._pick.choice(_SIGNS), chosen, self._literal(b))
        return compare(self._pick.choice((*_SIGNS, *_DISTINCT)), a, b)

    def _other_type(self, a: Term) -> Term:
        """A cast, or a literal of a neighbouring type."""
        pick, sign = self._pick, self._pick.choice(_SIGNS)
        if a.kind in INTEGERS:
            if pick.random() < 0.4:
                subject = cast(a, pick.choice(("string", "int64", "double", "decimal(38,2)")))
                if subject.kind == "string":
                    return compare(sign, subject, constant("'1'", "string", "1"))
                return compare(sign, subject, constant("1", "int64", 1))
            text, kind, value = pick.choice(_BESIDE_INTEGERS)
            huge = any(abs(v) > _SAFE_INTEGER for v in self._seen[a.sql])
            return (
                self._comparison(a)
                if huge and kind == "double"
                else compare(sign, a, constant(text, kind, value))
            )
        if a.kind == "double":
            return compare(sign, cast(a, "float"), self._of_kind("float"))
        if a.kind == "float":
            return compare(sign, cast(a, "double"), self._of_kind("double"))
        if a.kind == "date":
            return compare(sign, a, self._of_kind("timestamp"))
        if a.kind.startswith("timestamp"):
            return compare(sign, cast(a, "date"), self._of_kind("date"))
        if a.kind == "boolean":
            return compare(sign, cast(a, "string"), constant("'true'", "string", "true"))
        return self._comparison(a)

    def _of_kind(self, kind: str) -> Term:
        """A literal of another kind than the column's, made from the column's odd values."""
        found: list[Term] = []
        while not found:
            found = literals(kind, self._pick.choice(pool(kind)))
        return self._pick.choice([f for f in found if not f.sql.startswith("'")])

    def _literal(self, a: Term) -> Term:
        """A value beside the column: one of the data, one next to it, an odd one, or null."""
        pick = self._pick
        for _ in range(10):
            chance, seen = pick.random(), self._seen[a.sql]
            if chance < 0.04:
                value = None
            elif chance < 0.6 and seen:
                value = pick.choice(seen)
            elif chance < 0.85 and seen:
                near = neighbours(a.kind, pick.choice(seen))
                value = pick.choice(near) if near else pick.choice(seen)
            else:
                value = pick.choice(pool(a.kind))
            forms = literals(a.kind, value)
            if forms:
                return pick.choice(forms)
        return constant("NULL", a.kind, None)

    def _known(self, a: Term) -> Term:
        """A literal of exactly the column's kind."""
        found = self._literal(a)
        return found if found.kind == a.kind and found.sql[:1] != "'" else cast(found, a.kind)
