"""The changes of a table for a step: those of committed versions, and those of this run.

Committed versions come from the log: their changed rows are written to Parquet files of the run's
transaction, some at a time, and Spark reads these. What an earlier step of the run did has no
version: Spark compares the rows of the keys that it wrote, before and after.

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
"""A condition that is true for rows with the values before a change."""
ORDERED: Final = f"struct(coalesce({_VERSION}, {2**63 - 1}L) AS at, NOT ({DELETES}) AS is_new)"
"""An expression by which the last change of a key is the greatest."""
_SIDE: Final = "_lakeward_side"
_NUMBER: Final = "_lakeward_number"
_TIMES: Final = "_lakeward_times"
_BOTH: Final = "_lakeward_both"
_NO_VERSION: Final = f"CAST(NULL AS BIGINT) AS {_VERSION}"


@dataclass(frozen=True, slots=True)
class Written:
    """What a step of this run wrote: its rows, and the table before it, where rows may go."""

    step: Step
    rows: Any
    before: Any = None


def changed(
    tx: Transaction, source: Changes, known: NewVersions | None, own: Written | None
) -> tuple[Any, int]:
    """The changes that a step has not seen, and the version up to which they were committed.

    The first time all rows of the table are inserted ones.
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
    """Whether a later step wants changes of the table that a step writes, and rows of it may go."""
    if step.mode is Mode.APPEND:
        return False
    sources = (s for other in later for s in other.inputs.values())
    return any(isinstance(s, Changes) and s.table == step.target for s in sources)


def _own(tx: Transaction, source: Changes, own: Written) -> Any:
    """What a step of this run changed."""
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
    """The rows that one side has more often than the other, with the kind of their change."""
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
    """An expression by which rows are compared: Spark does not compare maps."""
    name = identifier(field.name)
    if "map<" not in field.dataType.simpleString():
        return name
    return f"to_json({name}, map('ignoreNullFields', 'false'))"
