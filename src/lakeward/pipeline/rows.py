"""A step's rows in Spark: what it reads, and how what it returns gets into its table.

Frames are Spark's; only their own methods are used here, so that Spark is not imported.
"""

from __future__ import annotations

from typing import Any, Final

from lakeward.engines.spark.catalog import with_catalog
from lakeward.errors import InvalidInput
from lakeward.formats.iceberg.summary import SNAPSHOT_ID
from lakeward.log import commits, files
from lakeward.log.catalog import CATALOG, NAMESPACE
from lakeward.pipeline.declaration import Mode, Step
from lakeward.pipeline.plan import NewFiles, NewVersions, check_readable
from lakeward.read.parts import Parts
from lakeward.write.spark_transaction import SparkTransaction

_NEWEST: Final = "_lakeward_newest"
_FEED: Final = ("_change_type", "_commit_version", "_commit_timestamp")


def landed(tx: SparkTransaction, found: NewFiles) -> Any:
    """The rows of new files; none where there are none, with the columns that files have.

    Raises:
        InvalidInput: There is no file at all, so nobody knows what columns they have.
    """
    reader = tx.spark.read
    if found.schema is not None:
        reader = reader.schema(found.schema)
    if found.files:
        return reader.parquet(*(found.directory.full(f) for f in found.files))
    if found.schema is not None:
        return tx.spark.createDataFrame([], found.schema)
    example = found.directory.example()
    if example is None:
        what = f"The landing directory {found.directory} has no files."
        raise InvalidInput(what, hint="Give landing(...) a schema.")
    return reader.parquet(example).limit(0)


def fresh(tx: SparkTransaction, parts: Parts, found: NewVersions) -> Any:
    """The rows that others brought into a table since a step looked last.

    Raises:
        UnsupportedFeature: Rows were changed, and nothing tells which.
    """
    if found.before is None:
        return tx.read(str(found.head.name))
    by_feed = check_readable(found, parts)
    if found.head.format == "iceberg":
        return _fresh_iceberg(tx, parts, found)
    reader = tx.spark.read.format("delta")
    location = parts.storage.uri(found.head.location)
    if by_feed:
        feed = (
            reader.option("readChangeFeed", "true")
            .option("startingVersion", found.versions[0])
            .option("endingVersion", found.versions[-1])
            .load(location)
        )
        wanted = ",".join(map(str, found.versions))
        rows = feed.filter("_change_type IN ('insert', 'update_postimage')")
        return rows.filter(f"_commit_version IN ({wanted})").drop(*_FEED)
    with parts.database.read() as session:
        names = [
            f.path.rpartition("/")[2]
            for v in found.versions
            for f in files.added_at(session, found.head.table_id, v)
        ]
    table = reader.option("versionAsOf", found.head.version).load(location)
    own = table.selectExpr("*", "substring_index(_metadata.file_path, '/', -1) AS _lakeward_file")
    return own.filter(own["_lakeward_file"].isin(names)).drop("_lakeward_file")


def _fresh_iceberg(tx: SparkTransaction, parts: Parts, found: NewVersions) -> Any:
    head = found.head
    seen = -1 if found.before is None else found.before.version
    with parts.database.read() as session:
        start = commits.newest_with(session, head.table_id, seen, SNAPSHOT_ID)
        end = commits.newest_with(session, head.table_id, head.version, SNAPSHOT_ID)
    name = f"{CATALOG}.{head.name.namespace or NAMESPACE}.{head.name.name}"
    spark = with_catalog(tx.spark, CATALOG, parts.database.jdbc, parts.storage.root)
    reader = spark.read.format("iceberg").option("end-snapshot-id", str(end))
    if start is not None:
        reader = reader.option("start-snapshot-id", str(start))
    return reader.load(name)


def put_once(tx: SparkTransaction, step: Step, rows: Any) -> Any:
    """Write the rows of a step that can be read back from its table; None where they cannot.

    Written first and looked at then, they are computed once and need not be kept.
    """
    return tx.append_once(str(step.target), rows) if step.mode is Mode.APPEND else None


def put(tx: SparkTransaction, step: Step, rows: Any) -> None:
    """Bring the rows of a step into its table."""
    target = str(step.target)
    if step.mode is Mode.APPEND:
        tx.append(target, rows)
    elif step.mode is Mode.OVERWRITE:
        tx.overwrite(target, rows)
    else:
        _merge(tx, step, rows)


def distinct(step: Step, rows: Any) -> Any:
    """The rows with one of each key: the newest, where that is known."""
    if step.mode is not Mode.MERGE:
        return rows
    missing = [c for c in (*step.key, *filter(None, [step.latest])) if c not in rows.columns]
    if missing:
        what = f"The step for {step.target} gives no column {missing[0]!r}."
        raise InvalidInput(what, table=str(step.target), column=missing[0])
    if step.latest is None:
        return rows.dropDuplicates(list(step.key))
    key, latest = ", ".join(map(_quoted, step.key)), _quoted(step.latest)
    ranked = rows.selectExpr(
        "*",
        f"row_number() OVER (PARTITION BY {key} ORDER BY {latest} DESC NULLS LAST) AS {_NEWEST}",
    )
    return ranked.filter(f"{_NEWEST} = 1").drop(_NEWEST)


def _merge(tx: SparkTransaction, step: Step, rows: Any) -> None:
    view = f"_lakeward_{step.target.namespace or 'default'}_{step.target.name}"
    rows.createOrReplaceTempView(view)
    on = " AND ".join(f"t.{_quoted(k)} <=> s.{_quoted(k)}" for k in step.key)
    newer = ""
    if step.latest is not None:
        column = _quoted(step.latest)
        newer = f" AND (t.{column} IS NULL OR s.{column} >= t.{column})"
    clauses = []
    if step.delete is not None:
        gone = f"s.{_quoted(_DELETE)}"
        clauses.append(f"WHEN MATCHED{newer} AND {gone} THEN DELETE")
        insert = f"WHEN NOT MATCHED AND NOT {gone}"
    else:
        insert = "WHEN NOT MATCHED"
    names = [c for c in rows.columns if c != _DELETE]
    sets = ", ".join(f"t.{_quoted(c)} = s.{_quoted(c)}" for c in names)
    columns = ", ".join(map(_quoted, names))
    values = ", ".join(f"s.{_quoted(c)}" for c in names)
    clauses.append(f"WHEN MATCHED{newer} THEN UPDATE SET {sets}")
    clauses.append(f"{insert} THEN INSERT ({columns}) VALUES ({values})")  # noqa: S608  quoted
    target = ".".join(_quoted(p) for p in str(step.target).split("."))
    tx.sql(f"MERGE INTO {target} AS t USING {view} AS s ON {on} {' '.join(clauses)}")


_DELETE: Final = "_lakeward_delete"


def marked(step: Step, rows: Any) -> Any:
    """The rows with a mark on those that delete theirs, and without what the table lacks."""
    if step.delete is None:
        return rows
    return rows.selectExpr("*", f"coalesce(({step.delete}), false) AS {_DELETE}")


def fitted(step: Step, rows: Any, columns: list[str]) -> Any:
    """The rows with the table's columns, in its order.

    Raises:
        InvalidInput: The step's rows lack one of them.
    """
    missing = [c for c in columns if c not in rows.columns]
    if missing:
        what = f"The step for {step.target} gives no column {missing[0]!r}."
        hint = f"It gives {', '.join(rows.columns)}."
        raise InvalidInput(what, hint=hint, table=str(step.target), column=missing[0])
    wanted = [*columns, _DELETE] if step.delete is not None else columns
    return rows.select(*(_quoted(c) for c in wanted))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
