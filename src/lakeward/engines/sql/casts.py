"""Keeps DataFusion from comparing the operand of a cast instead of the cast's result.

DataFusion 55 drops a cast from a comparison with a constant if it can cast the constant to the type
of the operand: `CAST(price AS INT) = 3` becomes `price = 3.00`, which is false for 3.55. It does so
although the cast cuts digits, or returns null for values that do not fit. It does not see through
functions, so each such cast in the text of a query gets a function around it that returns its only
argument. Casts to text, floating point, dates and times are not affected, and stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

FUNCTION: Final = "greatest("
_DIALECT: Final = "duckdb"
_MAY_CAST: Final = re.compile(r"cast\s*\(|::", re.IGNORECASE)
_CASTS: Final = frozenset({"cast", "try_cast", "arrow_cast", "arrow_try_cast"})
_NUMBERS: Final = frozenset(
    {
        *("tinyint", "smallint", "int", "integer", "bigint", "int1", "int2", "int4", "int8"),
        *("decimal", "numeric", "dec", "hugeint", "unsigned"),
        *("utinyint", "usmallint", "uinteger", "ubigint"),
    }
)
_OPENING: Final = {"L_PAREN": "R_PAREN", "L_BRACKET": "R_BRACKET", "L_BRACE": "R_BRACE"}
_CLOSING: Final = frozenset(_OPENING.values())
_CONSTANT: Final = frozenset(
    {
        *("NUMBER", "STRING", "NULL", "TRUE", "FALSE", "L_PAREN", "R_PAREN"),
        *("DASH", "PLUS", "STAR", "SLASH", "MOD"),
    }
)
_NOT_FUNCTIONS: Final = frozenset(
    {
        *("and", "as", "between", "by", "case", "distinct", "else", "except", "from", "having"),
        *("ilike", "in", "intersect", "is", "like", "limit", "not", "offset", "on", "or"),
        *("select", "then", "union", "using", "values", "when", "where", "qualify"),
    }
)
"""Words before a parenthesis that is not the list of a function's arguments."""
_WINDOWS: Final = frozenset({"over", "filter"})


@lru_cache(maxsize=256)
def computed(text: str) -> str:
    """Return a query in which DataFusion computes all casts; a text without such is unchanged."""
    if _MAY_CAST.search(text) is None:
        return text
    import sqlglot

    try:
        tokens = list(sqlglot.tokenize(text, dialect=_DIALECT))
    except sqlglot.errors.SqlglotError:
        return text  # DataFusion will say what is wrong with it
    added: list[tuple[int, str]] = []
    for cast in _casts(tokens):
        added += [(tokens[cast.first].start, FUNCTION), (tokens[cast.last].end + 1, ")")]
    parts, at = [], 0
    for place, new in sorted(added, key=lambda one: one[0]):
        parts += [text[at:place], new]
        at = place
    return "".join([*parts, text[at:]])


class _Cast(NamedTuple):
    """The indices of a cast's first and last token, and of its operand's."""

    first: int
    last: int
    operand: tuple[int, int]


def _casts(tokens: Sequence[Token]) -> Iterator[_Cast]:
    """Yield the casts to numbers, and those that return null for what does not fit."""
    for n, token in enumerate(tokens):
        kind = token.token_type.name
        if kind == "DCOLON":
            found = _short_cast(tokens, n)
        elif token.text.lower() in _CASTS and _kind(tokens, n + 1) == "L_PAREN":
            found = _cast_call(tokens, n)
        else:
            continue
        if found is not None and not _is_constant(tokens, *found.operand):
            yield found


def _cast_call(tokens: Sequence[Token], at: int) -> _Cast | None:
    close = _end_of_group(tokens, at + 1)
    if close is None:
        return None
    splits = "COMMA" if tokens[at].text.lower().startswith("arrow_") else "ALIAS"
    split = next((n for n in _on_top(tokens, at + 2, close) if _kind(tokens, n) == splits), None)
    if split is None:
        return None
    if tokens[at].text.lower() == "cast" and not _is_number(tokens, split + 1):
        return None
    return _Cast(at, close, (at + 2, split - 1))


def _short_cast(tokens: Sequence[Token], at: int) -> _Cast | None:
    """Return the cast of `operand::type`, given the index of the colons."""
    if not _is_number(tokens, at + 1):
        return None
    last = at + 1
    if _kind(tokens, last + 1) == "L_PAREN":
        last = _end_of_group(tokens, last + 1) or last
    if last + 1 < len(tokens) and tokens[last + 1].text.lower() == "unsigned":
        last += 1
    first = _operand_begin(tokens, at - 1)
    if first is None or _kind(tokens, last + 1) == "L_BRACKET":
        return None
    return _Cast(first, last, (first, at - 1))


def _operand_begin(tokens: Sequence[Token], last: int) -> int | None:
    """Return the index of the first token of the operand whose last token is given."""
    n = last
    while n >= 0:
        kind, word = _kind(tokens, n), tokens[n].text.lower()
        if kind in _CLOSING:
            start = _begin_of_group(tokens, n)
            if start is None:
                return None
            before = tokens[start - 1].text.lower() if start else ""
            if before in _WINDOWS:  # sum(x) OVER (…), count(*) FILTER (…)
                n = start - 2
                continue
            if kind == "R_BRACKET" or (start and _is_function(tokens, start - 1)):
                n = start - 1
                continue
            return start
        if kind == "END":
            return _begin_of_case(tokens, n)
        if _kind(tokens, n - 1) == "DCOLON":  # a::int::decimal
            n -= 2
            continue
        if _kind(tokens, n - 1) == "DOT":
            n -= 2
            continue
        if _kind(tokens, n - 1) in ("PARAMETER", "COLON"):
            return n - 1
        return n if word else None
    return None


def _is_function(tokens: Sequence[Token], at: int) -> bool:
    text = tokens[at].text.lower()
    is_name = text.isidentifier() or _kind(tokens, at) == "IDENTIFIER"
    return is_name and text not in _NOT_FUNCTIONS and _kind(tokens, at) != "STRING"


def _is_number(tokens: Sequence[Token], at: int) -> bool:
    return at < len(tokens) and tokens[at].text.lower() in _NUMBERS


def _is_constant(tokens: Sequence[Token], first: int, last: int) -> bool:
    """Return whether an operand has no column and calls no function."""
    return all(
        _kind(tokens, n) in _CONSTANT
        or _kind(tokens, n) == "PARAMETER"
        or _kind(tokens, n - 1) == "PARAMETER"
        for n in range(first, last + 1)
    )


def _on_top(tokens: Sequence[Token], start: int, end: int) -> Iterator[int]:
    """Yield the indices of the tokens that are in no parentheses of their own."""
    depth = 0
    for n in range(start, end):
        kind = _kind(tokens, n)
        if not depth:
            yield n
        depth += (kind in _OPENING) - (kind in _CLOSING)


def _end_of_group(tokens: Sequence[Token], start: int) -> int | None:
    depth = 0
    for n in range(start, len(tokens)):
        depth += (_kind(tokens, n) in _OPENING) - (_kind(tokens, n) in _CLOSING)
        if not depth:
            return n
    return None


def _begin_of_group(tokens: Sequence[Token], end: int) -> int | None:
    depth = 0
    for n in range(end, -1, -1):
        depth += (_kind(tokens, n) in _CLOSING) - (_kind(tokens, n) in _OPENING)
        if not depth:
            return n
    return None


def _begin_of_case(tokens: Sequence[Token], end: int) -> int | None:
    depth = 0
    for n in range(end, -1, -1):
        depth += (_kind(tokens, n) == "END") - (_kind(tokens, n) == "CASE")
        if not depth:
            return n
    return None


def _kind(tokens: Sequence[Token], n: int) -> str:
    return tokens[n].token_type.name if 0 <= n < len(tokens) else ""
