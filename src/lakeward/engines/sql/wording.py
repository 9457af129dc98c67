"""Edits of a query's text where DataFusion 55 reads it in another way than the SQL standard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

Edit: TypeAlias = tuple[int, int, str]
"""Start and end of a part of the text, and what replaces it."""
_OPENING: Final = frozenset({"L_PAREN", "L_BRACKET", "L_BRACE", "CASE"})
_CLOSING: Final = frozenset({"R_PAREN", "R_BRACKET", "R_BRACE", "END"})
_CONNECTIVES: Final = frozenset({"AND", "OR"})
_SETS: Final = frozenset({"UNION", "EXCEPT", "INTERSECT"})
_BEFORE: Final = frozenset(
    {
        *("ALL", "COMMA", "DISTINCT", "ELSE", "GROUP_BY", "HAVING", "NOT", "ON", "ORDER_BY"),
        *("PARTITION_BY", "QUALIFY", "SELECT", "THEN", "WHEN", "WHERE"),
    }
)
"""Tokens after which an operand of a condition begins."""
_AFTER: Final = frozenset(
    {
        *("ALIAS", "COMMA", "CROSS", "ELSE", "EXCEPT", "FETCH", "FROM", "FULL", "GROUP_BY"),
        *("HAVING", "INNER", "INTERSECT", "JOIN", "LEFT", "LIMIT", "NATURAL", "OFFSET", "ON"),
        *("ORDER_BY", "QUALIFY", "RIGHT", "SEMICOLON", "THEN", "UNION", "WHEN", "WHERE", "WINDOW"),
    }
)
"""Tokens that end an expression."""


BEFORE: Final = _OPENING | _CONNECTIVES | _BEFORE
AFTER: Final = _CLOSING | _CONNECTIVES | _AFTER


def edits(tokens: Sequence[Token], nulls: Sequence[tuple[int, int]] = ()) -> list[Edit]:
    """Return the edits for a query, given the spans of parameters with no value but null.

    - `x IS [NOT] DISTINCT FROM y` gets parentheses where AND or OR follows: DataFusion takes all of
      `y AND z` for the right side.
    - `NULL` moves to the end of a list of `IN`: where DataFusion passes the condition to a dataset,
      it fails with a null in front.
    - A list of `IN` without a value but null becomes a comparison with `NULL`, for the same reason.
    - `FROM t` without SELECT gets `SELECT *`: DataFusion returns rows without columns.
    """
    kinds = [token.token_type.name for token in tokens]
    only = list(_only_nulls(tokens, kinds, nulls))
    moved = [
        edit
        for edit in _nulls(tokens, kinds)
        if not any(start <= edit[0] < end for start, end, _ in only)
    ]
    return [*_distinct(tokens, kinds), *only, *moved, *_selects(tokens, kinds)]


def _distinct(tokens: Sequence[Token], kinds: Sequence[str]) -> Iterator[Edit]:
    for n in range(2, len(kinds)):
        before = kinds[n - 2] if kinds[n - 2] != "NOT" else kinds[n - 3]
        if kinds[n - 1 : n + 1] != ["DISTINCT", "FROM"] or before != "IS":
            continue
        end = _operand_end(kinds, n + 1)
        if end < len(kinds) and kinds[end] in _CONNECTIVES:
            begin = tokens[_operand_begin(kinds, n - 2)].start
            yield begin, begin, "("
            yield tokens[end].start, tokens[end].start, ") "


def _operand_begin(kinds: Sequence[str], end: int) -> int:
    """Return the index of the first token of an operand that ends before `end`."""
    if kinds[end] == "NOT":
        end -= 1
    depth = 0
    for n in range(end - 1, -1, -1):
        if kinds[n] in _CLOSING:
            depth += 1
        elif kinds[n] in _OPENING and depth:
            depth -= 1
        elif not depth and kinds[n] in _OPENING | _CONNECTIVES | _BEFORE:
            return n + 1
    return 0


def _operand_end(kinds: Sequence[str], start: int) -> int:
    """Return the index of the token after an operand that begins at `start`."""
    depth = 0
    for n in range(start, len(kinds)):
        if kinds[n] in _OPENING:
            depth += 1
        elif kinds[n] in _CLOSING and depth:
            depth -= 1
        elif not depth and kinds[n] in _CLOSING | _CONNECTIVES | _AFTER:
            return n
    return len(kinds)


def _nulls(tokens: Sequence[Token], kinds: Sequence[str]) -> Iterator[Edit]:
    for n in range(1, len(kinds)):
        if kinds[n - 1 : n + 3] != ["IN", "L_PAREN", "NULL", "COMMA"]:
            continue
        last = n + 1
        while kinds[last : last + 2] == ["NULL", "COMMA"]:
            last += 2
        close = _list_end(kinds, last)
        if close < len(kinds) and close > last:
            yield tokens[n + 1].start, tokens[last - 1].end + 1, ""
            yield tokens[close].start, tokens[close].start, ", NULL"


def _only_nulls(
    tokens: Sequence[Token], kinds: Sequence[str], nulls: Sequence[tuple[int, int]]
) -> Iterator[Edit]:
    def is_null(n: int) -> bool:
        at = tokens[n].start
        return kinds[n] in ("NULL", "COMMA") or any(start <= at < end for start, end in nulls)

    for n in range(1, len(kinds) - 1):
        if kinds[n : n + 2] != ["IN", "L_PAREN"]:
            continue
        close = _list_end(kinds, n + 2)
        if n + 2 < close < len(kinds) and all(is_null(m) for m in range(n + 2, close)):
            is_negated = kinds[n - 1] == "NOT"
            start = tokens[n - is_negated].start
            yield start, tokens[close].end + 1, "<> NULL" if is_negated else "= NULL"


def _selects(tokens: Sequence[Token], kinds: Sequence[str]) -> Iterator[Edit]:
    """Yield `SELECT *` for each query that is `FROM t …`."""
    states = ["begin"]  # of each open parenthesis: where in a query the tokens are
    for n, kind in enumerate(kinds):
        if kind in _OPENING:
            # trim(FROM x) is a function.
            states.append("in" if n and tokens[n - 1].text.lower() == "trim" else "begin")
        elif kind in _CLOSING:
            states.pop() if len(states) > 1 else None
        elif kind in _SETS and kinds[n - 1] != "STAR":  # SELECT * EXCEPT (x)
            states[-1] = "begin"
        elif kind == "WITH" and states[-1] == "begin":
            states[-1] = "with"
        elif kind == "FROM" and states[-1] != "in":
            if not _has_select(kinds, n):
                yield tokens[n].start, tokens[n].start, "SELECT * "
            states[-1] = "in"
        elif kind == "SELECT" or (states[-1] == "begin" and kind not in ("ALL", "DISTINCT")):
            states[-1] = "in"


def _has_select(kinds: Sequence[str], start: int) -> bool:
    """Return whether SELECT follows in the same query, as in `FROM t SELECT x`."""
    depth = 0
    for kind in kinds[start:]:
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth < 0 or (not depth and kind in _SETS):
            return False
        if not depth and kind == "SELECT":
            return True
    return False


def _list_end(kinds: Sequence[str], start: int) -> int:
    """Return the index of the parenthesis that closes a list whose values begin at `start`."""
    depth = 0
    for n in range(start, len(kinds)):
        if kinds[n] in _OPENING:
            depth += 1
        elif kinds[n] in _CLOSING:
            if not depth:
                return n
            depth -= 1
    return len(kinds)
