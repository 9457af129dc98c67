"""What an OPTIMIZE asks for: which table, which of its files, and an order for their rows.

Delta understands the statement itself. Iceberg has a procedure for the same, which is called
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
    """An OPTIMIZE, taken apart."""

    table: tuple[str, ...]  # the parts of the table's name
    start: int  # where the name begins in the text
    end: int  # where the text goes on behind it
    where: str | None  # which files are rewritten, as it was written
    columns: tuple[str, ...]  # by which rows are clustered


def read_optimize(text: str) -> Optimize | None:
    """What an OPTIMIZE asks for; None where the text is something else."""
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
    """The call that has Iceberg rewrite files of a table.

    Small files are put together wherever there are two of them; an order takes all files.
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
    """What comes before a ZORDER BY, and its columns."""
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
