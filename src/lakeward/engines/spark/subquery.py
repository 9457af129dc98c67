"""Rewrites UPDATE and DELETE with subqueries as a MERGE: Delta allows none in their conditions.

Spark evaluates the condition, and the new values, in a query over the table itself, so that nulls
and duplicates have their meaning in SQL. The rows that the query finds are the source of the MERGE,
equal rows once, and are matched by all columns. The condition has the same result for rows that are
equal in all columns, so exactly the right rows are matched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lakeward.errors import UnsupportedFeature
from lakeward.model.quoting import identifier

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

_DIALECT: Final = "databricks"
_TARGET: Final = "`lakeward target`"
_SOURCE: Final = "`lakeward source`"
_DEPTH: Final = {"(": 1, "[": 1, ")": -1, "]": -1}


def as_merge(text: str, *, target: str, columns: Sequence[str], floats: Sequence[str] = ()) -> str:
    """Return an UPDATE or DELETE as a MERGE."""
    found = _Parts(text)
    keys = [f"CAST({identifier(c)} AS STRING)" if c in floats else identifier(c) for c in columns]
    pairs = [
        f"CAST({_TARGET}.{identifier(c)} AS STRING)"
        if c in floats
        else f"{_TARGET}.{identifier(c)}"
        for c in columns
    ]
    assigned = found.assignments(columns)
    values = {n: value for n, (_, value) in enumerate(assigned) if value.upper() != "DEFAULT"}
    chosen = [f"{key} AS k{n}" for n, key in enumerate(keys)]
    chosen += [f"({value}\n) AS n{n}" for n, value in values.items()]
    where = "" if found.where is None else f" WHERE ({found.where}\n)"
    names = [f"k{n}" for n in range(len(keys))]
    # A function of chance may give rows that are alike several values: one of them counts.
    taken = ", ".join([*names, *(f"first(n{n}) AS n{n}" for n in values)])
    rows = f"SELECT {', '.join(chosen)} FROM {found.relation}{where}"
    source = f"SELECT {taken} FROM ({rows}) GROUP BY {', '.join(names)}"
    on = " AND ".join(f"{pair} <=> {_SOURCE}.k{n}" for n, pair in enumerate(pairs))
    does = "DELETE"
    if assigned:
        values_sql = [f"{_SOURCE}.n{n}" if n in values else "DEFAULT" for n in range(len(assigned))]
        new = zip((path for path, _ in assigned), values_sql, strict=True)
        does = "UPDATE SET " + ", ".join(f"{_TARGET}.{path} = {value}" for path, value in new)
    begun = f"MERGE INTO {target} AS {_TARGET} USING ({source}) AS {_SOURCE} ON {on}"
    return f"{begun} WHEN MATCHED THEN {does}"


class _Parts:
    """The parts of an UPDATE or DELETE, as texts.

    Attributes:
        relation: The target, with its alias.
        where: The condition.
    """

    def __init__(self, text: str) -> None:
        import sqlglot

        self._text = text
        tokens = sqlglot.tokenize(text, dialect=_DIALECT)
        while tokens and _word(tokens[-1]) == ";":
            tokens.pop()
        self._end = tokens[-1].end + 1
        top = _top_level(tokens)
        first, second = _word(tokens[0]), _word(tokens[1])
        begins = 2 if (first, second) == ("DELETE", "FROM") else 1
        if first not in ("DELETE", "UPDATE") or (first == "DELETE") != (begins == 2):
            raise _unknown(text)
        where = next((t for t in top if _word(t) == "WHERE"), None)
        words = [t for t in top if _word(t) == "SET"] if first == "UPDATE" else []
        if (first == "UPDATE") != bool(words):
            raise _unknown(text)
        stop = self._end if where is None else where.start
        self._set = words[0] if words else None
        self._stop = stop
        self._top = [t for t in top if self._set and self._set.end < t.start < stop]
        head = self._set.start if self._set else stop
        self.relation = text[tokens[begins].start : head].strip()
        self._names = {
            t.text.lower() for t in tokens[begins:] if t.start < head and _word(t) != "AS"
        }
        self.where = None if where is None else text[where.end + 1 : self._end].strip()

    def assignments(self, columns: Sequence[str]) -> list[tuple[str, str]]:
        """Return the columns, or nested fields, that an UPDATE sets, each with its new value."""
        if self._set is None:
            return []
        out, begins = [], self._set.end + 1
        commas = [t.start for t in self._top if _word(t) == ","]
        for end in [*commas, self._stop]:
            piece = [t for t in self._top if begins <= t.start < end]
            equals = next((t for t in piece if _word(t) == "="), None)
            if equals is None:
                raise _unknown(self._text)
            names = [t.text for t in piece if t.start < equals.start and _word(t) != "."]
            path = identifier(*self._path(names, {c.lower() for c in columns}))
            out.append((path, self._text[equals.end + 1 : end].strip()))
            begins = end + 1
        return out

    def _path(self, names: list[str], columns: set[str]) -> list[str]:
        """Return the path of a column without the table's names before it."""
        while len(names) > 1 and names[0].lower() in self._names:
            if names[0].lower() in columns and names[1].lower() not in columns:
                break
            names = names[1:]
        return names


def _word(token: Token) -> str:
    """Return a keyword or a symbol, in upper case; empty for string literals and quoted names."""
    return "" if token.token_type.name in ("STRING", "IDENTIFIER") else str(token.text).upper()


def _top_level(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens outside all brackets."""
    depth, out = 0, []
    for token in tokens:
        change = _DEPTH.get(_word(token), 0)
        depth += change
        if depth == 0 and not change:
            out.append(token)
    return out


def _unknown(text: str) -> UnsupportedFeature:
    shown = " ".join(text.split())[:200]
    what = f"The statement asks other tables in a way that is not known: {shown}"
    return UnsupportedFeature(what, hint="Write a MERGE.", statement=text)
