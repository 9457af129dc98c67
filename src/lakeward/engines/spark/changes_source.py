"""A Spark data source of rows by ranges of versions, for DataFrames and for streams.

An offset of a stream is the last version that was delivered, so a micro-batch is a range of
versions. Versions never change: a batch that Spark runs again after a restart has the same rows.

Spark plans and reads in separate Python processes, on the driver's machine and on workers. They get
the object that reads with the class of the source, which is no part of a query's plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import pyarrow as pa

from lakeward.engines.spark.extra import pyspark
from lakeward.errors import InvalidInput, UnsupportedFeature

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LEAST: Final = 8
"""The least number of versions that a task reads: small commits are read together."""
_SINCE: Final = "since"
_UNTIL: Final = "until"
_TASKS: Final = "tasks"


class Versions(Protocol):
    """Reads the rows of one table by ranges of versions."""

    @property
    def table_id(self) -> str:
        """The id by which a checkpoint identifies the table."""

    def newest(self) -> int:
        """Return the newest version."""

    def check(self, until: int) -> None:
        """Raise if the rows up to a version do not fit the columns of the source."""

    def batches(self, since: int, until: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the versions from `since` to `until`, both included."""

    def close(self) -> None:
        """Close the connections that `newest` keeps open."""


Make: TypeAlias = Callable[[Mapping[str, str]], Versions]
"""Returns a reader for the options of a source, in any process."""


@dataclass(frozen=True, slots=True)
class Source:
    """A registered kind of source: a name, unique for each lake, and a function for its readers."""

    name: str
    make: Make

    def frame(
        self, spark: SparkSession, schema: pa.Schema, options: dict[str, str], span: tuple[int, int]
    ) -> DataFrame:
        """Return the rows of a range of versions as a DataFrame."""
        _register(spark, self)
        more = {**options, _SINCE: str(span[0]), _UNTIL: str(span[1]), _TASKS: _tasks(spark)}
        reader = spark.read.format(self.name).schema(_spark_schema(schema))
        return reader.options(**more).load()

    def stream(
        self, spark: SparkSession, schema: pa.Schema, options: dict[str, str], since: int
    ) -> DataFrame:
        """Return the rows of all versions from `since` on as a stream."""
        _register(spark, self)
        more = {**options, _SINCE: str(since), _TASKS: _tasks(spark)}
        reader = spark.readStream.format(self.name).schema(_spark_schema(schema))
        return reader.options(**more).load()


def spans(since: int, until: int, tasks: int) -> list[tuple[int, int]]:
    """Split a range of versions into at most as many ranges as tasks; none if it is empty."""
    count = until - since + 1
    if count <= 0:
        return []
    size = max(-(-count // max(tasks, 1)), _LEAST)
    return [(low, min(low + size - 1, until)) for low in range(since, until + 1, size)]


def _tasks(spark: SparkSession) -> str:
    return str(spark.sparkContext.defaultParallelism)


def _spark_schema(schema: pa.Schema) -> Any:
    plain = pa.schema([pa.field(f.name, f.type) for f in schema])
    try:
        return pyspark("sql.pandas.types").from_arrow_schema(plain, prefer_timestamp_ntz=True)
    except pyspark("errors").PySparkException as error:
        what = f"Spark has no type for a column: {error}"
        raise UnsupportedFeature(what, hint="Choose columns with columns=.") from error


def _register(spark: SparkSession, source: Source) -> None:
    manager: Any = spark._jsparkSession.sessionState().dataSourceManager()
    if not manager.dataSourceExists(source.name):
        spark.dataSource.register(_source_class(source))


def _source_class(source: Source) -> type:
    """Return the class of a source, which Spark pickles with what it refers to.

    Spark pickles it by value because no module contains the class.
    """
    api = pyspark("sql.datasource")
    name, make = source.name, source.make

    class Changes(api.DataSource):  # type: ignore[misc,name-defined]
        @classmethod
        def name(cls) -> str:
            return name

        def reader(self, schema: Any) -> Any:
            return Reader(self.options, schema)

        def streamReader(self, schema: Any) -> Any:  # noqa: N802  Spark calls it so
            return StreamReader(self.options, schema)

    class Reader(api.DataSourceReader):  # type: ignore[misc,name-defined]
        def __init__(self, options: Mapping[str, str], schema: Any) -> None:
            self.options, self.schema = dict(options), schema

        def partitions(self) -> list[Any]:
            low, high = int(self.options[_SINCE]), int(self.options[_UNTIL])
            found = spans(low, high, int(self.options[_TASKS]))
            return [api.InputPartition(span) for span in found]

        def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
            return _converted(make(self.options).batches(*partition.value), self.schema)

    class StreamReader(api.DataSourceStreamReader):  # type: ignore[misc,name-defined]
        def __init__(self, options: Mapping[str, str], schema: Any) -> None:
            self.options, self.schema = dict(options), schema

        def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark calls it so
            versions = make(self.options)
            return {"table": versions.table_id, "version": int(self.options[_SINCE]) - 1}

        def latestOffset(self) -> dict[str, Any]:  # noqa: N802  Spark calls it so
            versions = make(self.options)
            # The first version may be one that is yet to come.
            newest = max(versions.newest(), int(self.options[_SINCE]) - 1)
            return {"table": versions.table_id, "version": newest}

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
            versions = make(self.options)
            _check_table(versions, start, end)
            versions.check(end["version"])
            found = spans(start["version"] + 1, end["version"], int(self.options[_TASKS]))
            return [api.InputPartition(span) for span in found]

        def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
            return _converted(make(self.options).batches(*partition.value), self.schema)

        def stop(self) -> None:
            make(self.options).close()

    return Changes


def _check_table(versions: Versions, *offsets: dict[str, Any]) -> None:
    other = next((o["table"] for o in offsets if o["table"] != versions.table_id), None)
    if other is not None:
        what = f"The checkpoint is of another table, {other}; this one is {versions.table_id}."
        hint = "The table was dropped and made again, or the checkpoint is of another query."
        raise InvalidInput(what, hint=f"{hint} Start with a new checkpoint.")


def _converted(batches: Iterator[pa.RecordBatch], schema: Any) -> Iterator[pa.RecordBatch]:
    """Yield batches in the types that Spark expects for its schema."""
    expected = pyspark("sql.pandas.types").to_arrow_schema(schema)
    for batch in batches:
        if not batch.num_rows:
            continue
        columns = [
            column if column.type.equals(field.type) else column.cast(field.type)
            for column, field in zip(batch.columns, expected, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, names=expected.names)
