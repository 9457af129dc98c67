"""DataFusion through delta-rs, for tables with deletion vectors or mapped columns.

`QueryBuilder` honours both; delta-rs's pyarrow readers give nulls or fail (see the facts), so they
are never used.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakeward.errors import MissingExtra, StorageError


def scan_delta(
    uri: str,
    version: int,
    schema: pa.Schema,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
) -> pa.RecordBatchReader:
    """The rows of a published Delta table at a version.

    Args:
        uri: The table's directory.
        version: Published already.
        schema: What the rows are given as.
        columns: Names, in the order wanted; all when None.
        where: A DataFusion boolean expression rendered from a bound tree.
    """
    try:
        from deltalake import DeltaTable, QueryBuilder
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        what = "Reading deletion vectors or mapped columns needs delta-rs."
        raise MissingExtra(what, hint="Run: pip install 'lakeward[datafusion]'.") from error
    names = list(schema.names if columns is None else columns)
    chosen = ", ".join('"' + n.replace('"', '""') + '"' for n in names)
    query = f"SELECT {chosen} FROM t"  # noqa: S608  quoted identifiers, an expression we rendered
    if where is not None:
        query += f" WHERE {where}"
    wanted = pa.schema([schema.field(n) for n in names])
    try:
        table = DeltaTable(uri, version=version)
        result = pa.table(QueryBuilder().register("t", table).execute(query))
    except (DeltaError, OSError) as error:
        what = f"delta-rs could not read version {version} of {uri}: {error}."
        raise StorageError(what, hint="Read it with Spark.") from error
    return result.cast(wanted).to_reader()
