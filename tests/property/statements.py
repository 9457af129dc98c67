"""Operations as statements of SQL, for the engines that run it."""

from __future__ import annotations

from tests.property.model import Append, Delete, Merge, Operation, Overwrite, Update, Where


def statement_of(
    operation: Operation, source: str, *, overwrites: bool, view: str | None = None
) -> str | None:
    """An operation as a statement; None where there is none for it.

    `source` is a query for the rows that it brings. `overwrites` says whether the engine knows
    INSERT OVERWRITE, and `view` may name a view with the rows of a merge.
    """
    match operation:
        case Append(table, _):
            return f"INSERT INTO {table} (k, p, v) {source}"
        case Overwrite(table, rows, None) if rows and overwrites:
            return f"INSERT OVERWRITE {table} {source}"
        case Delete(table, where):
            return f"DELETE FROM {table}{where_of(where)}"
        case Update(table, where, mark):
            return f"UPDATE {table} SET v = concat(v, '{mark}'){where_of(where)}"
        case Merge(table, _, matched, not_matched, alone):
            clauses = {
                "WHEN MATCHED THEN UPDATE SET *": matched == "update",
                "WHEN MATCHED THEN DELETE": matched == "delete",
                "WHEN NOT MATCHED THEN INSERT *": not_matched == "insert",
                "WHEN NOT MATCHED BY SOURCE THEN DELETE": alone == "delete",
            }
            wanted = " ".join(text for text, is_wanted in clauses.items() if is_wanted)
            using = view or f"({source})"
            return f"MERGE INTO {table} AS t USING {using} AS s ON t.k = s.k {wanted}"
    return None


def where_of(where: Where | None) -> str:
    """A condition as the end of a statement."""
    return "" if where is None else f" WHERE {where.text}"
