"""Structured Streaming into tables of a lake: each micro-batch is one transaction, exactly once.

Spark numbers the micro-batches of a query, and repeats a batch of unknown outcome with the same
number and rows when the query starts from its checkpoint. The number is recorded in the batch's
transaction, so a batch that was committed is skipped.

Numbers belong to a checkpoint. Spark keeps the id of a query in its checkpoint, so the id is
recorded too, and a query with another id is refused: its batches would be skipped by mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from lakeward.context import LakeLike, context_of
from lakeward.engines.spark.lineage import QUERY_ID
from lakeward.engines.spark.settings import with_catalog
from lakeward.errors import Conflict, InvalidInput
from lakeward.formats.registry import format_of
from lakeward.log import heads, inputs
from lakeward.log.catalog import CATALOG, NAMESPACE
from lakeward.log.database import Session
from lakeward.model import arguments
from lakeward.model.inputs import Cursor
from lakeward.model.names import TableName
from lakeward.model.steps import reach
from lakeward.write.commit.progress import BATCHES, of_stream, stream_name
from lakeward.write.commit.publications import follow_all
from lakeward.write.transaction.transaction import Transaction

Writer: TypeAlias = Callable[[Transaction, Any], object]
"""A function that writes the rows of a micro-batch to any tables, by a transaction."""


def sink(lake: LakeLike, into: str | Writer, *, query: str) -> Callable[[Any, int], None]:
    """Return a function for `writeStream.foreachBatch` that commits each micro-batch exactly once.

    ::

        stream.writeStream.foreachBatch(sink(lake, "bronze.events", query="events"))
            .option("checkpointLocation", place).start()

    Args:
        lake: The lake of the tables.
        into: The table to which rows are appended; or a function of a transaction and a frame,
            which may write to any number of tables, of both formats: they change together or not at
            all.
        query: The name under which the lake records the query's last batch. It belongs to the
            checkpoint: a query that begins with a new checkpoint needs another name. If it keeps
            the name, its first batch is refused with `InvalidInput`, and so is a second query of
            the same name.

    Raises:
        InvalidInput: The name is empty, or `into` is neither a table's name nor a function.
        TableNotFound: There is no such table.
    """
    arguments.text(query, "query")
    write = _writer(lake, into)
    consumer = stream_name(query)

    def commit(rows: Any, batch: int) -> None:
        # The last batch may be committed to an open table, and not be in the log yet.
        follow_all(context_of(lake))
        with context_of(lake).database.read() as session:
            before = inputs.position(session, consumer, BATCHES)
        reader = rows.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        if before is not None:
            _check_reader(query, before, reader, batch)
            if batch == before.version:
                return
        with lake.transaction(
            spark=rows.sparkSession, message=f"batch {batch} of the stream {query}"
        ) as tx:
            write(tx, rows)
            after = Cursor(0, batch, tx.transaction_id, reader)

            def record(session: Session) -> None:
                if not inputs.move(session, consumer, BATCHES, before, after):
                    what = f"Another instance of the stream {query} is at work."
                    raise Conflict(what, hint="Stop one of them.", query=query, batch=batch)

            tx.on_ratify(record, of_stream(query, reader, batch))
            reach("stream.written")
        reach("stream.committed")

    return commit


def _check_reader(query: str, before: Cursor, reader: str | None, batch: int) -> None:
    """Raise `InvalidInput` for a batch of another query, or of an older state of the checkpoint."""
    facts = {"query": query, "batch": batch, "last_batch": before.version}
    if before.reader is not None and reader != before.reader:
        who = f"query {reader}" if reader else "a caller outside of a Spark query"
        what = (
            f"The stream {query} belongs to the Spark query {before.reader}, which got to batch"
            f" {before.version}; batch {batch} of {who} was not committed."
        )
        hint = (
            "The checkpoint was lost or is another one, or two queries have this name. Start from"
            " the old checkpoint; or give the query a new name, and let its source begin where the"
            " old one ended, because a new checkpoint reads the source again."
        )
        raise InvalidInput(what, hint=hint, query_id=reader, bound_to=before.reader, **facts)
    if batch < before.version:
        what = (
            f"The stream {query} got to batch {before.version}, and its query gives batch {batch}:"
            " the checkpoint is older than the lake."
        )
        hint = (
            "Spark gives only its last batch again. Start from the newest state of the checkpoint;"
            " or give the query a new name, and let its source begin where the lake ends."
        )
        raise InvalidInput(what, hint=hint, **facts)


def read_stream(lake: LakeLike, spark: Any, name: str) -> Any:
    """Return a streaming frame of a table's new rows; see `lakeward.spark.read_stream`."""
    context = context_of(lake)
    with context.database.read() as session:
        head = heads.get(session, TableName.parse(name))
    if format_of(head).has_catalog:
        own = with_catalog(spark, CATALOG, context.database.jdbc, context.storage.root)
        place = f"{CATALOG}.{head.name.namespace or NAMESPACE}.{head.name.name}"
        return own.readStream.format("iceberg").load(place)
    return spark.readStream.format("delta").load(context.storage.uri(head.location))


def _writer(lake: LakeLike, into: str | Writer) -> Writer:
    if isinstance(into, str):
        with context_of(lake).database.read() as session:
            heads.get(session, TableName.parse(into))
        name = into
        return lambda tx, rows: tx.append(name, rows)
    if not callable(into):
        what = f"A stream goes into a table or a function, not {type(into).__name__}."
        raise InvalidInput(what, hint="Give a name, or a function of a transaction and a frame.")
    return into
