"""The changes of a table for a step: those of committed versions, and those of this run.

Committed versions are read through the log: their changed rows are written to Parquet files of the
run's transaction, in batches, and Spark reads these. The changes of an earlier step of the same run
have no version: Spark compares the rows of the keys that the step wrote, before and after.

Only methods of the frames are used, so that Spark need not be imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakeward.model.quoting import identifier
from lakeward.pipeline.declaration import Changes, Mode, Step
from lakeward.pipeline.plan import NewVersions
from lakeward.write.spark.executor import changes_of
from lakeward.write.transaction.transaction import Transaction

_TYPE: Final = "_change_type"
_VERSION: Final = "_commit_version"
CHANGE_COLUMNS: Final = (_TYPE, _VERSION)
DELETES: Final = f"{_TYPE} IN ('delete', 'update_preimage')"
"""A SQL condition that is true for rows that hold the values before a change."""
ORDERED: Final = f"struct(coalesce({_VERSION}, {2**63 - 1}L) AS at, NOT ({DELETES}) AS is_new)"
"""A SQL expression whose value is greatest for the last change of a key."""
_SIDE: Final = "_lakeward_side"
_NUMBER: Final = "_lakeward_number"
_TIMES: Final = "_lakeward_times"
_BOTH: Final = "_lakeward_both"
_NO_VERSION: Final = f"CAST(NULL AS BIGINT) AS {_VERSION}"


@dataclass(frozen=True, slots=True)
class Written:
    """The rows that a step of this run wrote; and the table before, if rows may be removed."""

    step: Step
    rows: Any
    before: Any = None


def changed(
    tx: Transaction, source: Changes, known: NewVersions | None, own: Written | None
) -> tuple[Any, int]:
    """Return the changes that a step has not seen, and the last committed version among them.

    The first time, all rows of the table are returned as inserted rows.
    """
    table = str(source.table)
    rows = tx.read(table)
    base = tx.bases[table]
    if known is None or known.before is None:
        version = _NO_VERSION if own is not None else f"{base}L AS {_VERSION}"
        return rows.selectExpr("*", f"'insert' AS {_TYPE}", version), base
    first = known.before.version + 1
    skip = frozenset(range(first, known.head.version + 1)) - set(known.versions)
    frames = []
    if any(v not in skip for v in range(first, base + 1)):
        frames.append(changes_of(tx, table, first, skip=skip, key=source.key))
    if own is not None:
        frames.append(_own(tx, source, own))
    columns = [*map(identifier, rows.columns), *CHANGE_COLUMNS]
    if not frames:
        return rows.limit(0).selectExpr("*", f"'' AS {_TYPE}", _NO_VERSION), base
    out = frames[0].select(*columns)
    for more in frames[1:]:
        out = out.unionByName(more.select(*columns))
    return out, base


def needs_before(step: Step, later: Sequence[Step]) -> bool:
    """Return whether a later step reads changes of a step's table that may include removed rows."""
    if step.mode is Mode.APPEND:
        return False
    sources = (s for other in later for s in other.inputs.values())
    return any(isinstance(s, Changes) and s.table == step.target for s in sources)


def _own(tx: Transaction, source: Changes, own: Written) -> Any:
    """Return the changes that a step of this run made."""
    if own.before is None:
        return own.rows.selectExpr("*", f"'insert' AS {_TYPE}", _NO_VERSION)
    before, after = own.before, tx.read(str(source.table))
    if own.step.has_key:
        keys = own.rows.select(*map(identifier, own.step.key)).distinct()
        before, after = (_of_keys(side, keys, own.step.key) for side in (before, after))
    return _compared(before, after, source.key)


def _of_keys(rows: Any, keys: Any, key: Sequence[str]) -> Any:
    on = [rows[identifier(k)].eqNullSafe(keys[identifier(k)]) for k in key]
    return rows.join(keys, on, "left_semi")


def _compared(before: Any, after: Any, key: Sequence[str]) -> Any:
    """Return the rows that one side has more often than the other, with their change types."""
    sides = before.selectExpr("*", f"false AS {_SIDE}").unionByName(
        after.selectExpr("*", f"true AS {_SIDE}")
    )
    values = ", ".join(map(_comparable, before.schema.fields))
    numbered = sides.selectExpr(
        "*", f"row_number() OVER (PARTITION BY {values}, {_SIDE} ORDER BY {_SIDE}) AS {_NUMBER}"
    )
    counted = numbered.selectExpr(
        "*", f"count(*) OVER (PARTITION BY {values}, {_NUMBER}) AS {_TIMES}"
    )
    net = counted.filter(f"{_TIMES} = 1")
    kind = f"if({_SIDE}, 'insert', 'delete')"
    if key:
        of_key = f"OVER (PARTITION BY {', '.join(map(identifier, key))})"
        both = f"(bool_or({_SIDE}) {of_key} AND NOT bool_and({_SIDE}) {of_key}) AS {_BOTH}"
        net = net.selectExpr("*", both)
        updated = f"if({_SIDE}, 'update_postimage', 'update_preimage')"
        kind = f"if({_BOTH}, {updated}, {kind})"
    return net.selectExpr(*map(identifier, before.columns), f"{kind} AS {_TYPE}", _NO_VERSION)


def _comparable(field: Any) -> str:
    """Return a SQL expression by which to compare a column: JSON for maps, else the column."""
    name = identifier(field.name)
    if "map<" not in field.dataType.simpleString():
        return name
    return f"to_json({name}, map('ignoreNullFields', 'false'))"
