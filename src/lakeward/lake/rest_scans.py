"""Plans scans for clients of the Iceberg REST catalog: which files a scan has to read.

The plan comes from the log, as for a scan of the lake, and is complete in one answer. What the log
cannot answer exactly is refused, and clients plan such scans themselves: incremental scans,
snapshots that are no version, files with delete files, several partition specs, and version 3,
whose files have row ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.log import commits
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import LoggedFile
from lakeward.model.names import TableName
from lakeward.model.types import Decimal, Primitive
from lakeward.model.values import from_neutral
from lakeward.read import snapshot as snapshots

if TYPE_CHECKING:
    from lakeward.formats.iceberg.document import Document
    from lakeward.read.snapshot import TableSnapshot

_HINT: Final = "Let the client plan the scan: scan-planning-mode=client."
_PLAIN: Final = frozenset({"boolean", "int8", "int16", "int32", "int64", "float", "double"})
_TEXTS: Final = frozenset({"string", "date", "timestamp", "timestamp_ntz"})
_PLANNED_VERSIONS: Final = (1, 2)


def planned(context: LakeContext, head: Head, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the files that a scan of an Iceberg table reads, in the form of the protocol.

    Raises:
        InvalidInput: The request is wrong, or the table has no such snapshot.
        UnsupportedFeature: The log cannot answer this exactly.
    """
    from lakeward.formats.iceberg.definition import specs_of
    from lakeward.formats.iceberg.metadata import document_of, place_of
    from lakeward.formats.iceberg.publication import full_path

    wanted, case_sensitive = _checked(body)
    document = document_of(context, head)
    specs = specs_of(document.body)
    if document.format_version not in _PLANNED_VERSIONS or len(specs) != 1:
        raise _refused(head.name, "has row ids, or files of several partition specs")
    found = _snapshot(context, head, document, wanted)
    given = body.get("filter")
    files = [] if found is None else _files(found, given, head, case_sensitive=case_sensitive)
    if any(one.file.deletion_vector is not None for one in files):
        raise _refused(head.name, "has files with deleted rows")
    location = place_of(context, head).location
    ((spec_id, spec),) = specs.items()
    tasks = []
    for one in files:
        assert found is not None  # noqa: S101  as there are files
        data_file = {
            "content": "data",
            "file-path": full_path(one.file, location),
            "file-format": "parquet",
            "spec-id": spec_id,
            "partition": _partition(head.name, spec, found.definition, one),
            "file-size-in-bytes": one.size,
            "record-count": _rows(head.name, one),
        }
        residual = {} if given is None else {"residual-filter": given}
        tasks.append({"data-file": data_file, "delete-file-references": [], **residual})
    return {"status": "completed", "delete-files": [], "file-scan-tasks": tasks}


def _checked(body: Mapping[str, Any]) -> tuple[int | None, bool]:
    """Return the id of the snapshot, and whether names are compared by case."""
    for key in ("start-snapshot-id", "end-snapshot-id"):
        if body.get(key) is not None:
            what = "The service does not plan incremental scans."
            raise UnsupportedFeature(what, hint=_HINT)
    wanted, case_sensitive = body.get("snapshot-id"), body.get("case-sensitive", True)
    if isinstance(wanted, bool) or not isinstance(wanted, int | None):
        what = "`snapshot-id` is no number."
        raise InvalidInput(what, parameter="snapshot-id")
    if not isinstance(case_sensitive, bool):
        what = "`case-sensitive` is neither true nor false."
        raise InvalidInput(what, parameter="case-sensitive")
    return wanted, case_sensitive


def _snapshot(
    context: LakeContext, head: Head, document: Document, wanted: int | None
) -> TableSnapshot | None:
    """Return the table at a snapshot, by default the current one; None before the first."""
    from lakeward.formats.iceberg.summary import SNAPSHOT_ID

    if wanted is None and document.current_id is None:
        return None
    with context.database.read() as session:
        if wanted is None or wanted == document.current_id:
            return snapshots.latest(context, session, head)
        count = head.version + 1
        for commit in commits.history(
            session, head.table_id, low=0, high=head.version, limit=count
        ):
            if (commit.info.extra or {}).get(SNAPSHOT_ID) == wanted:
                return snapshots.at_version(context, session, head, commit.version)
    if wanted in document.all_snapshots():
        raise _refused(head.name, "has this snapshot on a branch")
    what = f"Table {head.name} has no snapshot {wanted}."
    raise InvalidInput(what, parameter="snapshot-id")


def _files(
    found: TableSnapshot, given: Any, head: Head, *, case_sensitive: bool
) -> list[LoggedFile]:
    """Return the files to read; all of them if the columns were others at that version."""
    from lakeward.formats.iceberg.scan_filter import condition_of

    where = None
    if given is not None:
        where = condition_of(given, found.schema, case_sensitive=case_sensitive)
    with found.context.database.read() as session:
        newest = found.context.definition(session, head).schema
    is_same = found.version == head.version or found.schema.fields == newest.fields
    return found.files(where=where if is_same else None)


def _partition(
    name: TableName, spec: Mapping[str, Any], definition: Definition, file: LoggedFile
) -> list[Any]:
    out = []
    for field in spec["fields"]:
        own_id = -field["field-id"]
        if own_id not in definition.derived or field["transform"] == "void":
            raise _refused(name, "has dropped partition fields")
        out.append(_single_value(name, definition, own_id, file))
    return out


def _single_value(name: TableName, definition: Definition, own_id: int, file: LoggedFile) -> Any:
    """Return a partition value in the JSON form of Iceberg's single values."""
    kind, value = definition.field(own_id).type, file.partition[own_id]
    known = kind.name if isinstance(kind, Primitive) else ""
    if value is None or known in _PLAIN:
        return value
    if known not in _TEXTS and not isinstance(kind, Decimal):
        raise _refused(name, f"has partitions of type {kind}")
    found = from_neutral(kind, value)
    if isinstance(found, datetime):
        return found.isoformat(timespec="microseconds")
    return found.isoformat() if isinstance(found, date) else str(found)


def _rows(name: TableName, file: LoggedFile) -> int:
    if file.rows is None:
        raise _refused(name, "has files of an unknown number of rows")
    return file.rows


def _refused(name: TableName, why: str) -> UnsupportedFeature:
    what = f"The service does not plan this scan: table {name} {why}."
    return UnsupportedFeature(what, hint=_HINT, table=str(name))
