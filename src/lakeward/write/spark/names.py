"""Which table of the lake a name in a statement means, if it means one.

Names of the lake come first for what is written; for what is read, a temporary view of the session
hides a table of the same name, as in Spark. Tables of other catalogs and files may be read, but not
those of the lake past the transaction, and nothing but tables of the lake may be written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lakeward.context import LakeContext
from lakeward.engines.spark.statement import TableRef
from lakeward.engines.spark.workspace import Workspace
from lakeward.errors import InvalidName, TableNotFound, UnsupportedFeature
from lakeward.log import heads
from lakeward.log.catalog import CATALOG, NAMESPACE
from lakeward.model.names import TableName
from lakeward.model.quoting import identifier
from lakeward.storage.paths import overlaps

_FILES: Final = frozenset(
    {"avro", "binaryfile", "csv", "delta", "iceberg", "json", "orc", "parquet", "text", "xml"}
)
_SESSION: Final = "spark_catalog"
"""Spark's own catalog, which knows paths too."""


def table_of(
    context: LakeContext, workspace: Workspace, ref: TableRef, knows: Callable[[TableName], bool]
) -> TableName | None:
    """The lake's table that a name means; None for what else may be read."""
    path = _path(ref)
    if path is not None:
        _check_path(context, ref, path)
        return None
    if not ref.writes and len(ref.parts) == 1 and workspace.is_view(ref.parts[0]):
        return None
    name = _name(ref)
    if name is not None and knows(name):
        if ref.travels:
            what = f"A statement in a transaction sees one version of {name}."
            raise UnsupportedFeature(what, hint="Read older ones with lake.table(…).at(…).")
        return name
    if ref.writes:
        if name is None:
            what = f"{ref} is not a table of the lake."
            raise UnsupportedFeature(what, hint="A transaction writes tables of the lake only.")
        raise heads.missing(name)
    if workspace.session.catalog.tableExists(identifier(*ref.parts)):
        return None
    if name is None:
        what = f"There is no table {ref}."
        raise TableNotFound(what, table=str(ref))
    raise heads.missing(name)


def created_name(ref: TableRef) -> TableName:
    """The name of a table that a statement makes."""
    name = _name(ref)
    if name is None:
        what = f"{ref} is not a name for a table of the lake."
        raise UnsupportedFeature(what, hint="Use `name` or `namespace.name`.")
    return name


def _name(ref: TableRef) -> TableName | None:
    parts = ref.parts
    if len(parts) == 3 and parts[0] == CATALOG:
        parts = parts[1:] if parts[1] != NAMESPACE else parts[2:]
    if len(parts) > 2:
        return None
    try:
        return TableName.parse(".".join(parts))
    except InvalidName:
        return None


def _path(ref: TableRef) -> str | None:
    """The path of files that a name stands for; None where it is the name of a table."""
    parts = ref.parts[1:] if ref.parts[0].lower() == _SESSION else ref.parts
    if len(parts) != 2 or parts[0].lower() not in _FILES:
        return None
    return parts[1] if "/" in parts[1] or ":" in parts[1] else None


def _check_path(context: LakeContext, ref: TableRef, path: str) -> None:
    if ref.writes:
        what = f"{ref} is a path; what is written there is seen at once."
        raise UnsupportedFeature(what, hint="Write a table of the lake, by its name.")
    with context.database.read() as session:
        known = heads.all_heads(session)
    for head in known:
        if overlaps(path, context.storage.uri(head.location)):
            what = f"{ref} reaches files of table {head.name}, past the transaction."
            raise UnsupportedFeature(what, hint=f"Write {head.name} instead of the path.")
