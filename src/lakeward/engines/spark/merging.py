"""Rewrites MERGE WITH SCHEMA EVOLUTION to a plain MERGE with the same effect.

The target is altered first, by Lakeward's own rules. Then `UPDATE SET *` and `INSERT *` mean the
columns of the source, matched by name; columns that only the target has keep their values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lakeward.model.quoting import identifier
from lakeward.model.words import Words

if TYPE_CHECKING:
    from sqlglot import exp

_BEGUN: Final = re.compile(r"(\s*merge)(\s+with\s+schema\s+evolution)(?=\s+into\b)", re.IGNORECASE)
_HINT: Final = "Write MERGE WITH SCHEMA EVOLUTION INTO … USING … ON … WHEN …"


@dataclass(frozen=True, slots=True)
class Evolving:
    """Which columns of its source a MERGE may add to its target.

    Attributes:
        source: The name or alias of the source.
        assigned: Columns assigned by name, in lower case.
        takes_all: Whether an action takes all columns with a star.
    """

    source: str
    assigned: frozenset[str]
    takes_all: bool


def plain(text: str) -> str | None:
    """Return a MERGE WITH SCHEMA EVOLUTION as a plain MERGE of the same length; None for others."""
    found = _BEGUN.match(text)
    return None if found is None else f"{found[1]}{' ' * len(found[2])}{text[found.end() :]}"


def read_evolving(text: str) -> Evolving:
    """Return which columns a plain MERGE takes from its source."""
    import sqlglot

    return evolving(sqlglot.parse_one(text, dialect="databricks"))


def evolving(tree: exp.Expr) -> Evolving:
    """Return which columns a parsed MERGE takes from its source."""
    from sqlglot import exp

    assigned: set[str] = set()
    takes_all = False
    for when in tree.args["whens"].expressions:
        then = when.args["then"]
        columns = then.expressions if isinstance(then, exp.Update) else [then.this]
        for column in columns if isinstance(then, exp.Update | exp.Insert) else ():
            takes_all = takes_all or isinstance(column, exp.Star)
            if isinstance(column, exp.EQ):
                assigned.add(column.this.name.lower())
            elif isinstance(column, exp.Tuple):
                assigned |= {c.name.lower() for c in column.expressions}
    return Evolving(tree.args["using"].alias_or_name, frozenset(assigned), takes_all)


def source_of(text: str) -> str:
    """Return the text between USING and ON of a MERGE."""
    words = Words(text, _HINT)
    start = words.skip_to("USING")
    end = words.skip_to("ON")
    return text[start[1] : end[0]].strip()


def with_columns(text: str, source: str, columns: Sequence[str]) -> str:
    """Return a MERGE with the source's columns in place of each star."""
    own = identifier(source)
    listed = ", ".join(map(identifier, columns))
    values = ", ".join(f"{own}.{identifier(c)}" for c in columns)
    pairs = ", ".join(f"{identifier(c)} = {own}.{identifier(c)}" for c in columns)
    words, out, done = Words(text, _HINT), [], 0
    while (star := words.next_star()) is not None:
        before, start, end = star
        if before == "SET":
            out += [text[done:start], pairs]
        elif before == "INSERT":
            out += [text[done:start], f"({listed}) VALUES ({values})"]
        else:
            continue
        done = end
    return "".join([*out, text[done:]])
