"""Checks that every clause of a parsed SQL statement is one that is carried out.

The table below lists the clauses that the code reads. All others are refused, also those that a
newer parser knows and this code does not, so that no clause is left out silently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lakeward.errors import UnsupportedFeature

if TYPE_CHECKING:
    from sqlglot import exp

Nodes: TypeAlias = "Mapping[str, Mapping[str, Nodes | None]]"
"""Kinds of nodes; for each the parts that are read, and the nodes in them. None: any node."""

_TABLE: Final[Nodes] = {
    "Table": {"this": None, "db": None, "catalog": None, "alias": {"TableAlias": {"this": None}}}
}
_COLUMN: Final[Nodes] = {"Column": {"this": None, "table": None, "db": None}}
_STAR: Final[Nodes] = {"Star": {}}
_WHERE: Final[Nodes] = {"Where": {"this": None}}
_ASSIGNED: Final[Nodes] = {"EQ": {"this": _COLUMN, "expression": None}}
_LISTED: Final[Nodes] = {
    "Schema": {"this": _TABLE, "expressions": {"Identifier": {"this": None, "quoted": None}}}
}
_ACTIONS: Final[Nodes] = {
    "Update": {"expressions": {**_ASSIGNED, **_STAR}},
    "Insert": {
        "this": {"Tuple": {"expressions": _COLUMN}, **_STAR},
        "expression": {"Tuple": {"expressions": None}},
    },
    "Var": {"this": None},
}
_WHEN: Final[Nodes] = {
    "When": {"matched": None, "source": None, "condition": None, "then": _ACTIONS}
}
_STATEMENTS: Final[Nodes] = {
    "Insert": {
        "this": {**_TABLE, **_LISTED},
        "expression": None,
        "with_": None,
        "overwrite": None,
        "by_name": None,
    },
    "Update": {"this": _TABLE, "expressions": _ASSIGNED, "where": _WHERE},
    "Delete": {"this": _TABLE, "where": _WHERE},
    "Merge": {
        "this": _TABLE,
        "using": None,
        "on": None,
        "whens": {"Whens": {"expressions": _WHEN}},
    },
    "Create": {
        "this": {**_TABLE, "Schema": {"this": _TABLE, "expressions": None}},
        "kind": None,
        "expression": None,
        "exists": None,
        "properties": {"Properties": {"expressions": None}},
        "replace": None,
    },
}
_HINT: Final = "Leave it out, write a MERGE, or use Spark: lake.transaction(spark=spark)."
_WORDS: Final = {"alternative": "OR"}
_SHOWN: Final = 100


def check_clauses(statement: exp.Expr) -> None:
    """Raise `UnsupportedFeature` if a statement has a clause that is not carried out.

    Statements that change rows, and CREATE TABLE, are checked; all others are left alone.
    """
    if type(statement).__name__ not in _STATEMENTS:
        return
    for unused in _unused("", statement, _STATEMENTS):
        what = f"{statement.key.upper()} with {unused} is not supported here."
        raise UnsupportedFeature(what, hint=_HINT)


def _unused(part: str, value: Any, nodes: Nodes) -> Iterator[str]:
    """Yield the texts of the clauses below a part of a statement that are not read."""
    for node in value if isinstance(value, list) else [value]:
        read = nodes.get(type(node).__name__)
        if read is None:
            yield _shown(part, node)
            continue
        for name, child in node.args.items():
            if child is None or child is False or child == []:
                continue
            if name not in read:
                yield _shown(name, child)
            elif (below := read[name]) is not None:
                yield from _unused(name, child, below)


def _shown(part: str, value: Any) -> str:
    """Return a clause as text, such as `LIMIT 1`."""
    word = _WORDS.get(part, part.rstrip("_").upper())
    values = value if isinstance(value, list) else [value]
    text = ", ".join(v if isinstance(v, str) else v.sql() for v in values if v is not True)
    is_named = text.upper().startswith(word) or word in ("THIS", "EXPRESSION", "EXPRESSIONS")
    return (text if is_named else f"{word} {text}").strip()[:_SHOWN]
