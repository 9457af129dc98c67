"""Runs a query over one version of a table and the newest versions of others."""

from __future__ import annotations

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.errors import TableNotFound
from lakeward.log import heads
from lakeward.model.names import TableName
from lakeward.read import snapshot as snapshots
from lakeward.read.auditing import audit_read
from lakeward.read.snapshot import TableSnapshot

_TABLE = "{table}"


def query_version(context: LakeContext, own: TableSnapshot, text: str) -> pa.Table:
    """Run a query on DataFusion; `{table}` and the table's name refer to the given version.

    Raises:
        InvalidInput: The query cannot be parsed.
        TableNotFound: The query uses a table that the lake does not have.
        MissingExtra: DataFusion is not installed.
    """
    from lakeward.engines.sql.engines import session_of
    from lakeward.engines.sql.query import quoted, read_query
    from lakeward.engines.sql.remembered import wanted_of
    from lakeward.read.sources import source_of

    name = own.log_head.name
    parts = [part for part in (name.namespace, name.name) if part]
    asked = read_query(text.replace(_TABLE, quoted(*parts)), None)
    tables: list[TableSnapshot] = []
    with context.database.read() as session:
        for ref in asked.tables:
            if TableName.parse(str(ref)) == name:
                tables.append(own)
                continue
            head = heads.find(session, TableName.parse(str(ref)))
            if head is None:
                what = f"The query names table {ref}, which the lake does not have."
                raise TableNotFound(what, table=str(ref))
            tables.append(snapshots.latest(context, session, head))
    session_of_engine = session_of("datafusion")
    try:
        needs = wanted_of(asked, [table.schema for table in tables])
        names = [f"__lakeward_{number}" for number in range(len(tables))]
        for alias, table, need in zip(names, tables, needs, strict=True):
            audit_read(context, table.log_head, table.version, "sql")
            session_of_engine.register(alias, source_of(table, need))
        schemas = [table.schema for table in tables]
        running = session_of_engine.run(asked.rewritten([quoted(n) for n in names], schemas))
        return running.reader().read_all()
    finally:
        session_of_engine.close()
