"""Writes frames of DataFusion in a transaction, and records with the commit how they were made.

The commit of the table gets three properties, whose values are texts: `datafusion.ordering`,
`datafusion.schema` and `datafusion.runtime`. History shows them, and they are published as all
properties of commits are.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
import pyarrow as pa

from lakeward.engines.arrow.plain_types import plain_reader
from lakeward.engines.arrow.streams import reader_of
from lakeward.errors import InvalidInput, LakewardError, MissingExtra
from lakeward.integrations.writing import WriteOptions, write_rows
from lakeward.model.names import TableName
from lakeward.write.plan.change import RowChanges
from lakeward.write.transaction.transaction import Transaction

ORDERING: Final = "datafusion.ordering"
"""JSON: the columns by which the rows were sorted, as objects; [] if they were not."""
SCHEMA: Final = "datafusion.schema"
"""A hash of the frame's columns: names, types, nullability and order."""
RUNTIME: Final = "datafusion.runtime"
"""JSON: versions of the libraries, partitions of the plan, settings that are not the defaults."""


def write_frame(
    tx: Transaction,
    name: str,
    frame: Any,
    *,
    mode: str = "append",
    on: str | Sequence[str] | None = None,
    where: str | None = None,
    schema_mode: str | None = None,
    format: str = "delta",  # noqa: A002  the name users know
    partition_by: Sequence[str] = (),
    context: Any = None,
) -> RowChanges:
    """Run a frame of DataFusion and write its rows; record the commit metadata of this module.

    The rows are streamed. The ordering is recorded as none for an `upsert`, and if the transaction
    has added rows to the table before, because it does not hold for all rows of the commit. A
    second frame for the same table replaces the metadata of the first.

    Args:
        tx: The transaction.
        name: The table; if it does not exist, it is created with the columns of the frame.
        frame: A `datafusion.DataFrame`.
        mode: As in `WriteOptions`.
        on: The key columns, for `upsert`.
        where: A SQL boolean expression for the rows to replace, for `overwrite`.
        schema_mode: As in `Transaction.append`.
        format: `delta` or `iceberg`, if the table is created.
        partition_by: The partitioning, if the table is created.
        context: The `datafusion.SessionContext` of the frame, to record its settings; frames do
            not tell theirs.

    Raises:
        InvalidInput: It is no frame of DataFusion, its query fails, or an option is wrong.
        AlreadyExists: The mode is `error`, and the table exists.
        MissingExtra: DataFusion is not installed.
    """
    options = WriteOptions(
        mode=mode,
        key=on,
        where=where,
        schema_mode=schema_mode,
        format=format,
        partition_by=partition_by,
    )
    metadata = commit_metadata(frame, context=context)
    parsed = TableName.parse(name)
    exists = parsed in tx._view.names()
    if exists and mode == "ignore":
        return RowChanges()
    before = tx._view.members.get(parsed)
    if mode == "upsert" or (before is not None and before.change.added):
        metadata[ORDERING] = "[]"
    failures: list[LakewardError] = []

    def failed(error: Exception) -> LakewardError:
        failures.append(_failed(error))
        return failures[-1]

    try:
        rows = plain_reader(reader_of(frame), failed)
        done = write_rows(tx, name, rows, options, exists=exists)
    except pa.ArrowException as error:
        # Arrow passes on only the text of an error in a stream.
        raise failures[0] if failures else error from error
    if parsed in tx._view.members:  # not if a transaction of the same id was ratified before
        tx.set_properties(metadata, table=name)
    return done


def commit_metadata(frame: Any, *, context: Any = None) -> dict[str, str]:
    """Return the properties that `write_frame` records, without running the frame.

    Args:
        frame: A `datafusion.DataFrame`.
        context: The `datafusion.SessionContext` of the frame, for its settings.
    """
    try:
        import datafusion
    except ImportError as error:
        what = "Frames of DataFusion need DataFusion."
        raise MissingExtra(what, hint="Run: pip install 'lakeward[datafusion]'.") from error
    if not isinstance(frame, datafusion.DataFrame):
        what = f"{type(frame).__name__} is no frame of DataFusion."
        raise InvalidInput(what, hint="tx.append takes other frames.", parameter="frame")
    try:
        columns = [[f.name, str(f.type), f.nullable] for f in frame.schema()]
        partitions = frame.execution_plan().partition_count
        ordering = _ordering(frame)
        settings = {} if context is None else _settings(context)
    except Exception as error:
        raise _failed(error) from error
    runtime = {
        "datafusion": datafusion.__version__,
        "pyarrow": pa.__version__,
        "python": platform.python_version(),
        "partitions": partitions,
        "settings": settings,
    }
    return {
        ORDERING: _json(ordering),
        SCHEMA: f"sha256:{hashlib.sha256(_json(columns).encode()).hexdigest()}",
        RUNTIME: _json(runtime),
    }


def _ordering(frame: Any) -> list[dict[str, Any]]:
    """Return the sort keys of a frame up to the first that is not one of its columns."""
    from datafusion import expr

    plan = frame.optimized_logical_plan()
    names: dict[str, str] | None = None  # columns of the frame by their names in this node
    while True:
        node = _variant(plan)
        if isinstance(node, expr.Projection):
            names = _through(node, names)
        elif isinstance(node, expr.Sort):
            return _keys(node, names)
        elif not isinstance(node, expr.Limit):
            return []
        (plan,) = plan.inputs()


def _keys(sort: Any, names: Mapping[str, str] | None) -> list[dict[str, Any]]:
    from datafusion import expr

    found = []
    for key in sort.sort_exprs():
        column = _variant(key.expr())
        full = key.expr().canonical_name()
        if not isinstance(column, expr.Column) or (names is not None and full not in names):
            break
        name = column.name() if names is None else names[full]
        found.append(
            {"column": name, "descending": not key.ascending(), "nulls_first": key.nulls_first()}
        )
    return found


def _through(projection: Any, names: Mapping[str, str] | None) -> dict[str, str]:
    """Return the columns of the frame by their names below a projection."""
    from datafusion import expr

    found: dict[str, str] = {}
    for one in projection.projections():
        given = _variant(one)
        inner = given.expr() if isinstance(given, expr.Alias) else one
        if not isinstance(_variant(inner), expr.Column):
            continue
        above = given.alias() if isinstance(given, expr.Alias) else given.name()
        # A projection above this one names the column in full.
        shown = above if names is None else names.get(one.schema_name())
        if shown is not None:
            found[inner.canonical_name()] = shown
    return found


def _variant(node: Any) -> Any:
    """Return the Python object of a plan or expression; None if DataFusion has none for it."""
    try:
        return node.to_variant()
    except Exception:  # noqa: BLE001  DataFusion raises errors of several classes
        return None


def _settings(context: Any) -> dict[str, str]:
    """Return the settings of a context that differ from DataFusion's defaults."""
    from datafusion import SessionConfig

    usual = _all_settings(SessionConfig())
    found = _all_settings(context.copied_config())
    return {k: v for k, v in sorted(found.items()) if usual.get(k) != v}


def _all_settings(config: Any) -> dict[str, Any]:
    from datafusion import SessionContext

    query = "SELECT name, value FROM information_schema.df_settings"
    rows = SessionContext(config.with_information_schema(True)).sql(query).to_pydict()
    return dict(zip(rows["name"], rows["value"], strict=True))


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _failed(error: Exception) -> LakewardError:
    if isinstance(error, LakewardError):
        return error
    said = str(error).strip().partition("\n")[0].rstrip(".")
    return InvalidInput(f"The query of the frame failed: {said}.", parameter="frame")
