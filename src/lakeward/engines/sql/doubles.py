"""Keeps DataFusion from making decimals of doubles where a query compares the two.

DataFusion casts the double to a decimal with 15 digits after the point, which is another number:
749106.57 becomes 749106.569999999959040. Numbers with a point are doubles for it, too. So a decimal
column, or a value, that is compared with a double is cast to a double, as DuckDB, Spark and
conditions of Lakeward do, and a number that is compared with a decimal column is a decimal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal as Number
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakeward.model.types import Decimal, Primitive

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

_DECIMAL: Final = re.compile(r"\d*\.\d+")
_MOST_DIGITS: Final = 38
COMPARISONS: Final = frozenset({"EQ", "NEQ", "LT", "LTE", "GT", "GTE"})


class Operand(NamedTuple):
    """A column or a value that is compared: its span, and its place in what was given."""

    start: int
    end: int
    key: int


Pair = tuple[Operand, Operand]


def pairs(
    tokens: Sequence[Token],
    known: Mapping[int, int],
    before: frozenset[str],
    after: frozenset[str],
) -> Iterator[Pair]:
    """Yield the columns and values that are compared with each other.

    Args:
        tokens: The tokens of the query.
        known: The end of each column and value, by its start.
        before: Kinds of tokens after which an operand begins.
        after: Kinds of tokens that end an operand.
    """
    ends = {end: start for start, end in known.items()}
    kinds = [token.token_type.name for token in tokens]
    for n, kind in enumerate(kinds):
        if kind not in COMPARISONS and kind not in ("IN", "BETWEEN", "DISTINCT"):
            continue
        last, first = n - 1, n + 1
        last -= kinds[last] == "NOT"
        if kind == "DISTINCT":  # IS [NOT] DISTINCT FROM
            if kinds[first : first + 1] != ["FROM"]:
                continue
            last, first = last - 1, first + 1
        left = _left(tokens, kinds, last, ends)
        if left is None or (left[1] >= 0 and kinds[left[1]] not in before):
            continue
        for right, end in _others(tokens, kinds, kind, first, known):
            if end >= len(kinds) or kinds[end] in after:
                yield left[0], right


def number(token: Token) -> bool:
    """Return whether a token is a number with a point and without an exponent."""
    return token.token_type.name == "NUMBER" and _DECIMAL.fullmatch(token.text) is not None


def edits(
    text: str, compared: Sequence[Pair], kinds: Mapping[int, str | None]
) -> list[tuple[int, int, str]]:
    """Return edits by which operands are of one type; `kinds` has what is known by key."""
    found = set()
    for pair in compared:
        own = {kinds.get(one.key): one for one in pair}
        if own.keys() == {"double", "decimal"}:
            one = own["decimal"]
            found |= {(one.start, one.start, "CAST("), (one.end, one.end, " AS DOUBLE)")}
        elif own.keys() == {"number", "decimal"}:
            one = own["number"]
            digits = text[one.start : one.end]
            scale = len(digits.partition(".")[2])
            if len(digits) - 1 <= _MOST_DIGITS:
                exact = f"CAST('{digits}' AS DECIMAL({len(digits) - 1}, {scale}))"
                found.add((one.start, one.end, exact))
    return list(found)


def kind_of(value: Any) -> str | None:
    """Return `double` or `decimal` for a type of a column, or a value, of these kinds."""
    if isinstance(value, float) or value in (Primitive("float"), Primitive("double")):
        return "double"
    return "decimal" if isinstance(value, Number | Decimal) else None


def _others(
    tokens: Sequence[Token], kinds: Sequence[str], kind: str, first: int, known: Mapping[int, int]
) -> Iterator[tuple[Operand, int]]:
    """Yield the operands on the right, each with the index of the token after it."""
    if kind == "IN":
        if kinds[first : first + 1] != ["L_PAREN"]:
            return
        first += 1
    between = {"IN": "COMMA", "BETWEEN": "AND"}.get(kind)
    while (found := _right(tokens, kinds, first, known)) is not None:
        yield found
        end = found[1]
        if between is None or end >= len(kinds) or kinds[end] != between:
            return
        first, between = end + 1, between if kind == "IN" else None


def _left(
    tokens: Sequence[Token], kinds: Sequence[str], last: int, ends: Mapping[int, int]
) -> tuple[Operand, int] | None:
    """Return the operand that ends at a token, and the index of the token before it."""
    if last < 0 or tokens[last].end + 1 not in ends:
        return None
    end = tokens[last].end + 1
    begin = last
    while begin > 0 and tokens[begin].start > ends[end]:  # the tokens of a parameter
        begin -= 1
    while begin > 1 and kinds[begin - 1] == "DOT":
        begin -= 2
    return Operand(tokens[begin].start, end, ends[end]), begin - 1


def _right(
    tokens: Sequence[Token], kinds: Sequence[str], first: int, known: Mapping[int, int]
) -> tuple[Operand, int] | None:
    """Return the operand that begins at a token, and the index of the token after it."""
    while first < len(kinds) and kinds[first] == "DASH":
        first += 1
    last = first
    while last + 2 < len(tokens) and kinds[last + 1] == "DOT":
        last += 2
    if last >= len(tokens) or tokens[last].start not in known:
        return None
    start = tokens[last].start
    end = known[start]
    while last + 1 < len(tokens) and tokens[last].end + 1 < end:
        last += 1
    return Operand(tokens[first].start, end, start), last + 1
