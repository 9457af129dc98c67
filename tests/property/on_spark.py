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
    Where,
)

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
                found = tx.sql(f"SELECT k, p, v FROM {table}{_where(where)}")
            else:
                text = None if where is None else where.text
                found = tx.read(table, columns=COLUMNS, where=text)
            return Counter(map(tuple, found.collect()))
    return None


def _as_sql(tx: lw.Transaction, operation: Operation, spelling: int) -> bool:
    """Run an operation as a statement; False where there is none for it."""
    match operation:
        case Append(table, rows):
            tx.sql(f"INSERT INTO {table} (k, p, v) {_select(rows)}")
        case Overwrite(table, rows, None) if rows:
            tx.sql(f"INSERT OVERWRITE {table} {_select(rows)}")
        case Delete(table, where):
            tx.sql(f"DELETE FROM {table}{_where(where)}")
        case Update(table, where, mark):
            tx.sql(f"UPDATE {table} SET v = concat(v, '{mark}'){_where(where)}")
        case Merge(table, rows, matched, not_matched, alone):
            clauses = {
                "WHEN MATCHED THEN UPDATE SET *": matched == "update",
                "WHEN MATCHED THEN DELETE": matched == "delete",
                "WHEN NOT MATCHED THEN INSERT *": not_matched == "insert",
                "WHEN NOT MATCHED BY SOURCE THEN DELETE": alone == "delete",
            }
            source = f"({_select(rows)})"
            if spelling % 3 == 0:
                _frame(tx, rows).createOrReplaceTempView("source_rows")
                source = "source_rows"
            tx.sql(
                f"MERGE INTO {table} AS t USING {source} AS s ON t.k = s.k "
                + " ".join(text for text, wanted in clauses.items() if wanted)
            )
        case _:
            return False
    return True


def _frame(tx: lw.Transaction, rows: Sequence[Row]) -> Any:
    return tx.spark.createDataFrame(list(rows), _TYPES)


def _select(rows: Sequence[Row]) -> str:
    values = ", ".join(f"({k}L, {p}L, '{v}')" for k, p, v in rows)
    return f"SELECT * FROM VALUES {values} AS data (k, p, v)"


def _where(where: Where | None) -> str:
    return "" if where is None else f" WHERE {where.text}"
