"""Row tracking of Delta tables: every row has an id, and the version that last changed it.

A file's rows get consecutive ids, starting at `baseRowId`, when the file is committed: above the
highest id ever assigned, which the domain `delta.rowTracking` stores. Ids are assigned in the
ratifying transaction, under the table's lock, so no two files share one. Rows that are moved to
another file, or updated, keep their ids in a hidden column of the file.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from lakeward.errors import CorruptTable, UnsupportedFeature
from lakeward.formats.base import Ratified
from lakeward.formats.properties import ROW_TRACKING
from lakeward.log import domains
from lakeward.log.database import Session
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile
from lakeward.model.row_ids import RowIds

FEATURES: Final = ("rowTracking", "domainMetadata")
DOMAIN: Final = "delta.rowTracking"
BASE: Final = "baseRowId"
COMMITTED: Final = "defaultRowCommitVersion"
_MARK: Final = "rowIdHighWaterMark"
_SUSPENDED: Final = "delta.rowTrackingSuspended"
_ID_COLUMN: Final = "delta.rowTracking.materializedRowIdColumnName"
_VERSION_COLUMN: Final = "delta.rowTracking.materializedRowCommitVersionColumnName"


def tracked(definition: Definition) -> Definition:
    """Return the definition with row tracking; name its hidden columns if they have no names."""
    names = {
        _ID_COLUMN: f"_row-id-col-{uuid.uuid4()}",
        _VERSION_COLUMN: f"_row-commit-version-col-{uuid.uuid4()}",
    }
    properties = {**names, **definition.properties, ROW_TRACKING: "true"}
    return replace(definition, properties=properties)


def named(definition: Definition, columns: tuple[str, str]) -> Definition:
    """Return a definition with row tracking, and `columns` as its hidden columns.

    These are the columns of row ids and of commit versions in data files.
    """
    names = dict(zip((_ID_COLUMN, _VERSION_COLUMN), columns, strict=True))
    return replace(definition, properties={**definition.properties, **names, ROW_TRACKING: "true"})


def mark_of(high: int) -> dict[str, str | None]:
    """Return domain metadata that says that `high` is the highest assigned row id."""
    return {DOMAIN: orjson.dumps({_MARK: high}).decode()}


def with_first(file: DataFile, first: int) -> DataFile:
    """Return a file whose rows have consecutive ids from `first` on, and the commit version 0."""
    return replace(file, extra={**(file.extra or {}), BASE: first, COMMITTED: 0})


def is_supported(definition: Definition) -> bool:
    """Return whether the protocol requires that writers assign row ids."""
    features = definition.protocol.get("writerFeatures") or ()
    return FEATURES[0] in features and definition.properties.get(_SUSPENDED) != "true"


def is_enabled(definition: Definition) -> bool:
    """Return whether all rows have stable ids."""
    return definition.properties.get(ROW_TRACKING) == "true" and is_supported(definition)


def row_ids(definition: Definition) -> RowIds | None:
    """Return the columns in which files store ids of moved rows; None without row tracking."""
    if not is_enabled(definition):
        return None
    try:
        names = definition.properties[_ID_COLUMN], definition.properties[_VERSION_COLUMN]
    except KeyError as error:
        what = f"The table has row tracking and lacks the property {error.args[0]}."
        raise CorruptTable(what) from error
    return RowIds(*names, first_of)


def first_of(file: DataFile) -> tuple[int, int] | None:
    """Return a file's first row id and its rows' commit version; None if it has no ids yet."""
    extra = file.extra or {}
    if BASE not in extra:
        return None
    return int(extra[BASE]), int(extra.get(COMMITTED, 0))


def without_ids(extra: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a file's extra fields without row ids, so that new ids are assigned; None for none."""
    kept = {k: v for k, v in (extra or {}).items() if k not in (BASE, COMMITTED)}
    return kept or None


def check_moved_ids(definition: Definition, table: str) -> None:
    """Raise `UnsupportedFeature` if the table has row tracking.

    Called for a branch that added rows and then rewrote them: their ids could equal other rows'.
    """
    if not is_enabled(definition):
        return
    what = f"Rows of table {table} were added and written again on one branch; they would share ids"
    what += " with rows of others."
    hint = "Commit what adds rows first, and change them in the next transaction."
    raise UnsupportedFeature(what, hint=hint, table=table)


def numbered(session: Session, member: Ratified) -> Ratified:
    """Return the commit with row ids for files that have none. The caller holds the table's lock.

    Raise `UnsupportedFeature` for a file whose number of rows is not known.
    """
    head, commit = member.head, member.commit
    known = _high(domains.newest(session, head.table_id, DOMAIN), str(head.name))
    high, added = known, list[DataFile]()
    for file in commit.added:
        first = first_of(file)
        rows = file.rows
        if rows is None:
            what = f"The number of rows of {file.path} in {head.name} is not known."
            hint = "Rows get no ids without it. Write the file again first, with Spark."
            raise UnsupportedFeature(what, hint=hint, table=str(head.name), path=file.path)
        if first is None:
            first = (high + 1, commit.version)
            ids = {BASE: first[0], COMMITTED: first[1]}
            file = replace(file, extra={**(file.extra or {}), **ids})
        high = max(high, first[0] + rows - 1)
        added.append(file)
    if high == known and not added:
        return member
    found = dict(commit.domains)
    if high > known:
        found[DOMAIN] = orjson.dumps({_MARK: high}).decode()
    return replace(member, commit=replace(commit, added=tuple(added), domains=found))


def _high(text: str | None, table: str) -> int:
    """Return the highest assigned row id in domain metadata; -1 if there is none."""
    if text is None:
        return -1
    try:
        return int(orjson.loads(text)[_MARK])
    except (ValueError, KeyError, TypeError) as error:
        what = f"The row tracking of {table} cannot be understood: {text}."
        raise CorruptTable(what, table=table) from error
