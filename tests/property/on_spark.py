"""Does operations in transactions on Spark: as SQL, with frames, or by Spark's own writers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import lakeward as lw
from tests.property.model import (
    COLUMNS,
    Append,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Read,
    Row,
    State,
    Update,
)
from tests.property.statements import statement_of, where_of

_TYPES = "k long, p long, v string"


def on_spark(tx: lw.Transaction, operation: Operation, spelling: int) -> State | None:
    """Do an operation, spelled in one of the ways that there are."""
    if spelling % 2 == 0 and _as_sql(tx, operation, spelling):
        return None
    match operation:
        case Append(table, rows):
            if spelling % 3 == 0:
                _frame(tx, rows).writeTo(tx.name(table)).append()
            else:
                tx.append(table, _frame(tx, rows))
        case Overwrite(table, rows, where):
            tx.overwrite(table, _frame(tx, rows), where=None if where is None else where.text)
        case Delete(table, where):
            tx.delete(table, where=where.text)
        case Update(table, where, mark):
            text = None if where is None else where.text
            tx.update(table, set={"v": f"concat(v, '{mark}')"}, where=text)
        case Merge(table, rows, matched, not_matched, alone):
            tx.merge(
                table,
                _frame(tx, rows),
                on="k",
                matched=matched,
                not_matched=not_matched,
                not_matched_by_source=alone,
            )
        case Read(table, where):
            if spelling % 2 == 0:
                found = tx.sql(f"SELECT k, p, v FROM {table}{where_of(where)}")
            else:
                text = None if where is None else where.text
                found = tx.read(table, columns=COLUMNS, where=text)
            return Counter(map(tuple, found.collect()))
    return None


def _as_sql(tx: lw.Transaction, operation: Operation, spelling: int) -> bool:
    """Run an operation as a statement; False where there is none for it."""
    view = None
    if isinstance(operation, Merge) and spelling % 3 == 0:
        view = "source_rows"
        _frame(tx, operation.rows).createOrReplaceTempView(view)
    source = _select(getattr(operation, "rows", ()))
    text = statement_of(operation, source, overwrites=True, view=view)
    if text is not None:
        tx.sql(text)
    return text is not None


def _frame(tx: lw.Transaction, rows: Sequence[Row]) -> Any:
    return tx.spark.createDataFrame(list(rows), _TYPES)


def _select(rows: Sequence[Row]) -> str:
    values = ", ".join(f"({k}L, {p}L, '{v}')" for k, p, v in rows)
    return f"SELECT * FROM VALUES {values} AS data (k, p, v)"
