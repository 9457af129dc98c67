"""A step's rows in Spark: the new rows of its input tables, and writing the rows it returns.

Only methods of the frames are used, so that Spark need not be imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from lakeward.context import LakeContext
from lakeward.engines.spark.settings import with_catalog
from lakeward.engines.spark.types import cut_types
from lakeward.errors import InvalidInput, SchemaMismatch
from lakeward.formats.delta.publication import commit_path
from lakeward.formats.iceberg.summary import SNAPSHOT_ID
from lakeward.formats.registry import format_of
from lakeward.log import commits, files
from lakeward.log.catalog import CATALOG, NAMESPACE
from lakeward.model.definition import Definition
from lakeward.model.file import is_full
from lakeward.model.generated import generated_ids
from lakeward.model.quoting import identifier
from lakeward.pipeline.changed import CHANGE_COLUMNS, DELETES, ORDERED
from lakeward.pipeline.declaration import Mode, Step
from lakeward.pipeline.keys import ORDER
from lakeward.pipeline.plan import NewVersions, Way, way_to_read
from lakeward.pipeline.results import SAMPLE, Notice, named
from lakeward.read.snapshot import at_version
from lakeward.write.commit.publications import publish_backlog
from lakeward.write.spark.executor import append_once, changes_until
from lakeward.write.transaction.transaction import Transaction

DELETE: Final = "_lakeward_delete"
"""The column that marks the rows of a step that delete the row of their key."""
_SCHEME: Final = "^([A-Za-z][A-Za-z0-9+.-]*:)?/*"
_FILE_PATH: Final = (
    f"regexp_replace(url_decode(replace(_metadata.file_path, '+', '%2B')), '{_SCHEME}', '')"
)
"""A SQL expression: the path of a row's file. Spark encodes it as a URI, whose plus is a plus."""
_FEED: Final = ("_change_type", "_commit_version", "_commit_timestamp")


def fresh(tx: Transaction, context: LakeContext, found: NewVersions) -> Any:
    """Return the rows of a table's new versions, up to the planned one, without this run's rows."""
    head = found.head
    way = way_to_read(found, context)
    if way is Way.LOG:
        return _by_log(tx, context, found)
    if format_of(head).has_catalog:
        return _fresh_iceberg(tx, context, found)
    if not context.storage.exists(commit_path(head.location, head.version)):
        publish_backlog(context, head)
    reader = tx.spark.read.format("delta")
    location = context.storage.uri(head.location)
    if way is Way.FEED:
        feed = (
            reader.option("readChangeFeed", "true")
            .option("startingVersion", found.versions[0])
            .option("endingVersion", found.versions[-1])
            .load(location)
        )
        wanted = ",".join(map(str, found.versions))
        rows = feed.filter("_change_type IN ('insert', 'update_postimage')")
        return rows.filter(f"_commit_version IN ({wanted})").drop(*_FEED)
    table = reader.option("versionAsOf", head.version).load(location)
    if found.before is None:
        return table
    with context.database.read() as session:
        added = [f for v in found.versions for f in files.added_at(session, head.table_id, v)]
    names = [_path(f.path if is_full(f.path) else f"{location}/{f.path}") for f in added]
    own = table.selectExpr("*", f"{_FILE_PATH} AS _lakeward_file")
    return own.filter(own["_lakeward_file"].isin(names)).drop("_lakeward_file")


def _by_log(tx: Transaction, context: LakeContext, found: NewVersions) -> Any:
    """Return the rows that new versions added, also if they are in other files by now."""
    head, first = found.head, found.versions[0]
    with context.database.read() as session:
        # A version that added no file, as an alteration makes, has no new rows.
        wanted = {v for v in found.versions if files.added_at(session, head.table_id, v)}
        until = at_version(context, session, head, head.version)
    skip = frozenset(range(first, head.version + 1)) - wanted
    return changes_until(tx, until, first, skip=skip).drop(*_FEED)


def _path(address: str) -> str:
    """Return the address of a file without its scheme, as `_FILE_PATH` computes it."""
    return re.sub(_SCHEME, "", address)


def _fresh_iceberg(tx: Transaction, context: LakeContext, found: NewVersions) -> Any:
    """Return the rows that append scans find in each range of new versions."""
    head = found.head
    versions = found.versions
    if found.before is None:
        # Seen for the first time: the whole table.
        versions = tuple(range(head.version + 1))
    with context.database.read() as session:
        ranges = [
            (
                commits.newest_with(session, head.table_id, low - 1, SNAPSHOT_ID),
                commits.newest_with(session, head.table_id, high, SNAPSHOT_ID),
            )
            for low, high in _ranges(versions)
        ]
    name = f"{CATALOG}.{head.name.namespace or NAMESPACE}.{head.name.name}"
    spark = with_catalog(tx.spark, CATALOG, context.database.jdbc, context.storage.root)
    out = spark.read.format("iceberg").load(name).limit(0)
    for start, end in ranges:
        if start == end:
            continue
        reader = spark.read.format("iceberg")
        if start is None:
            # No snapshot before: all that the table holds is new.
            reader = reader.option("versionAsOf", str(end))
        else:
            reader = reader.option("start-snapshot-id", str(start))
            reader = reader.option("end-snapshot-id", str(end))
        out = out.unionByName(reader.load(name))
    return out


def _ranges(versions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the versions as ranges without gaps: first and last version of each."""
    low = high = versions[0]
    for version in versions[1:]:
        if version != high + 1:
            yield low, high
            low = version
        high = version
    yield low, high


def put_once(tx: Transaction, step: Step, rows: Any) -> Any:
    """In mode `append`, append rows and return them as read back from the table; else None.

    Spark computes the rows once, and they need not be persisted.
    """
    if step.mode is not Mode.APPEND:
        return None
    return append_once(tx, str(step.target), rows, step.schema_mode)


def put(tx: Transaction, step: Step, rows: Any) -> None:
    """Append, overwrite or merge the rows of a step, according to its mode."""
    target = str(step.target)
    if step.mode is Mode.APPEND:
        tx.append(target, rows, schema_mode=step.schema_mode)
    elif step.mode is Mode.OVERWRITE:
        tx.overwrite(target, rows, schema_mode=step.schema_mode)
    else:
        _merge(tx, step, rows)


def _merge(tx: Transaction, step: Step, rows: Any) -> None:
    view = f"_lakeward_{step.target.namespace or 'default'}_{step.target.name}"
    rows.createOrReplaceTempView(view)
    on = " AND ".join(f"t.{identifier(k)} <=> s.{identifier(k)}" for k in step.key)
    newer = ""
    if step.latest is not None:
        column = identifier(step.latest)
        newer = f" AND (t.{column} IS NULL OR s.{column} >= t.{column})"
    clauses = []
    if step.marks_deletes:
        gone = f"s.{identifier(DELETE)}"
        clauses.append(f"WHEN MATCHED{newer} AND {gone} THEN DELETE")
        insert = f"WHEN NOT MATCHED AND NOT {gone}"
    else:
        insert = "WHEN NOT MATCHED"
    names = [c for c in rows.columns if c != DELETE]
    sets = ", ".join(f"t.{identifier(c)} = s.{identifier(c)}" for c in names)
    columns = ", ".join(map(identifier, names))
    values = ", ".join(f"s.{identifier(c)}" for c in names)
    clauses.append(f"WHEN MATCHED{newer} THEN UPDATE SET {sets}")
    clauses.append(f"{insert} THEN INSERT ({columns}) VALUES ({values})")  # noqa: S608  quoted
    target = ".".join(identifier(p) for p in str(step.target).split("."))
    word = "MERGE" if step.schema_mode is None else "MERGE WITH SCHEMA EVOLUTION"
    tx.sql(f"{word} INTO {target} AS t USING {view} AS s ON {on} {' '.join(clauses)}")


def written(tx: Transaction, step: Step, rows: Any) -> Any:
    """Return the rows that a step wrote, as its table has them now, for a later step.

    Deleted rows are left out. If the table had a newer row of a key, it is returned instead.
    """
    if step.latest is None:
        return rows.filter(f"NOT {DELETE}").drop(DELETE) if step.marks_deletes else rows
    table = tx.read(str(step.target))
    keys = rows.select(*map(identifier, step.key)).distinct()
    on = [table[identifier(k)].eqNullSafe(keys[identifier(k)]) for k in step.key]
    return table.join(keys, on, "left_semi")


def marked(step: Step, rows: Any) -> Any:
    """Return the rows with a column that marks deletions, and, for changes, one that orders them.

    Raise `InvalidInput` if changes are to be applied and the rows lack the columns of changes.
    """
    if step.mode is Mode.APPLY:
        missing = [c for c in CHANGE_COLUMNS if c not in rows.columns]
        if missing:
            what = f"The step for {step.target} applies changes, and gives no {missing[0]}."
            hint = "Return rows of a changes(...) source with the columns that it adds."
            raise InvalidInput(what, hint=hint, table=str(step.target), column=missing[0])
        return rows.selectExpr("*", f"{DELETES} AS {DELETE}", f"{ORDERED} AS {ORDER}")
    if step.delete is None:
        return rows
    return rows.selectExpr("*", f"coalesce(({step.delete}), false) AS {DELETE}")


def checked(step: Step, returned: Any) -> Any:
    """Return the frame that a step's function returned; raise `InvalidInput` if it is no frame."""
    if hasattr(returned, "_jdf"):
        return returned
    kind = type(returned).__name__
    what = f"{step.code.function}, the step for {step.target}, returned {kind}."
    hint = f"Return a Spark DataFrame in {step.code.file}:{step.code.line}."
    raise InvalidInput(what, hint=hint, table=str(step.target))


def fitted(step: Step, rows: Any, definition: Definition) -> tuple[Any, list[Notice]]:
    """Select the table's columns in its order; return the rows, and notices of other columns.

    With a `schema_mode`, columns that the table lacks are kept, and nullable columns may be
    missing. Raise `InvalidInput` for a missing column, `SchemaMismatch` if values would be
    truncated.
    """
    table = str(step.target)
    generated = generated_ids(definition)
    columns = {f.name: f for f in definition.schema if f.id not in generated}
    missing = [c for c in columns if c not in rows.columns]
    if step.schema_mode is not None:
        missing = [c for c in missing if step.schema_mode == "merge" and not columns[c].nullable]
    if missing:
        what = f"The step for {table} gives no column {missing[0]!r}."
        hint = f"It gives {', '.join(rows.columns)}."
        raise InvalidInput(what, hint=hint, table=table, column=missing[0])
    for column, kind, kept in cut_types(rows.schema, definition.schema):
        what = f"Column {column} of {table} is {kept}, and the step gives {kind}."
        hint = "Values would lose a part: cast or round the column in the step."
        raise SchemaMismatch(what, hint=hint, table=table, column=column)
    own = {DELETE, ORDER} | (set(CHANGE_COLUMNS) if step.mode is Mode.APPLY else set())
    extra = [c for c in rows.columns if c not in own and c not in definition.schema.by_name]
    notices = []
    wanted = [c for c in columns if c in rows.columns]
    if step.schema_mode is not None:
        wanted += extra
    elif extra:
        message = f"{table}: the step gives columns that the table does not have: {named(extra)}."
        notices.append(
            Notice("columns_not_written", table, message, len(extra), tuple(extra[:SAMPLE]))
        )
    wanted += [c for c in (DELETE, ORDER) if c in rows.columns]
    return rows.select(*(identifier(c) for c in wanted)), notices
