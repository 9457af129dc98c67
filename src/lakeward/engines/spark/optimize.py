"""Parses OPTIMIZE: which table, which of its files, and the columns to cluster its rows by.

Delta supports the statement itself. Iceberg has a procedure for the same purpose, which is called
instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from lakeward.errors import InvalidInput
from lakeward.model.quoting import identifier, literal

_NAME: Final = r"(?:`[^`]+`|[\w-]+)(?:\s*\.\s*(?:`[^`]+`|[\w-]+))*"
_OPTIMIZE: Final = re.compile(
    rf"\s*optimize\s+(?P<table>{_NAME})(?P<rest>\s+where\b.*|\s+zorder\b.*)?\s*;?\s*",
    re.IGNORECASE | re.DOTALL,
)
_WHERE: Final = re.compile(r"\s*where\b", re.IGNORECASE)
_PART: Final = re.compile(r"`([^`]+)`|([\w-]+)")


@dataclass(frozen=True, slots=True)
class Optimize:
    """The parts of an OPTIMIZE statement."""

    table: tuple[str, ...]  # the parts of the table's name
    start: int  # where the name begins in the text
    end: int  # where the text continues after the name
    where: str | None  # the condition that selects files, as written
    columns: tuple[str, ...]  # columns by which rows are clustered


def read_optimize(text: str) -> Optimize | None:
    """Parse an OPTIMIZE; return None if the text is another statement."""
    found = _OPTIMIZE.fullmatch(text)
    if found is None:
        return None
    rest = (found["rest"] or "").strip().removesuffix(";").rstrip()
    before, columns = _ordered(rest)
    where = _WHERE.sub("", before, count=1).strip() or None
    return Optimize(
        _parts(found["table"]), found.start("table"), found.end("table"), where, columns
    )


def rewriting_call(
    procedures: str, table: str, *, where: str | None, columns: Sequence[str]
) -> str:
    """Return the CALL of the Iceberg procedure that rewrites files of a table.

    Without columns, small files are combined, two or more at a time; with columns, all files are
    rewritten.
    """
    options = {"rewrite-all": "true"} if columns else {"min-input-files": "2"}
    given = {"table": literal(table), "options": f"map({', '.join(_pairs(options))})"}
    if where is not None:
        given["where"] = literal(where)
    if columns:
        given["strategy"] = literal("sort")
        given["sort_order"] = literal(f"zorder({', '.join(map(identifier, columns))})")
    arguments = ", ".join(f"{name} => {value}" for name, value in given.items())
    return f"CALL {procedures}.rewrite_data_files({arguments})"


def _ordered(rest: str) -> tuple[str, tuple[str, ...]]:
    """Return the text before ZORDER BY, and the columns of ZORDER BY."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        # As tokens, because the words may be part of a text too.
        tokens = list(sqlglot.tokenize(rest, dialect="databricks"))
    except SqlglotError as error:
        what = f"What follows the table cannot be understood: {rest}"
        raise InvalidInput(what, hint="Write OPTIMIZE name WHERE … ZORDER BY (…).") from error
    for token, following in pairwise(tokens):
        if (token.text.upper(), following.text.upper()) == ("ZORDER", "BY"):
            listed = rest[int(following.end) + 1 :].strip()
            if listed.startswith("(") and listed.endswith(")"):
                listed = listed[1:-1]
            names = [name.strip() for name in listed.split(",")]
            if not all(re.fullmatch(_NAME, name) for name in names):
                what = f"ZORDER BY takes names of columns, not {listed!r}."
                raise InvalidInput(what, hint="Write ZORDER BY (a, b).")
            return rest[: int(token.start)], tuple(".".join(_parts(name)) for name in names)
    return rest, ()


def _parts(name: str) -> tuple[str, ...]:
    return tuple(quoted or plain for quoted, plain in _PART.findall(name))


def _pairs(options: dict[str, str]) -> list[str]:
    return [f"{literal(key)}, {literal(value)}" for key, value in options.items()]
