"""Stages commits of Iceberg REST clients as changes of a transaction of the lake.

A client has written data files and manifests into the table's directory, and requests that the
snapshot that lists them becomes current. Added and removed files are found by comparing manifests,
as for a branch, and become a change that is checked and ratified like every other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.errors import (
    CorruptTable,
    FileMissing,
    InvalidInput,
    LakewardError,
    StorageError,
)
from lakeward.formats.iceberg import metadata
from lakeward.formats.iceberg.defining import check_limits
from lakeward.formats.iceberg.document import Document
from lakeward.formats.iceberg.foreign_avro import check_avro
from lakeward.formats.iceberg.listing import ManifestReader
from lakeward.formats.iceberg.private import is_data
from lakeward.formats.iceberg.requests import TableCommit, applied
from lakeward.formats.iceberg.summary import SNAPSHOT_ID, properties_of
from lakeward.formats.net import Net
from lakeward.model.commit import Head
from lakeward.model.file import is_full
from lakeward.model.names import TableName
from lakeward.write.branch.iceberg import IcebergBranch
from lakeward.write.branch.remote_checked import check_claims, unknown
from lakeward.write.plan.change import Operation
from lakeward.write.stage.added_files import check_rows
from lakeward.write.stage.checks import check_deletable
from lakeward.write.tables.properties import check_properties

if TYPE_CHECKING:
    from lakeward.write.transaction.transaction import Transaction


_PUBLISHED: Final = (2, 3)
"""The format versions that the lake writes."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A client's commit, compared with the current state of the table.

    Attributes:
        head: The table.
        commit: The commit that the client requests.
        before: The table's document.
        newest: The document after the commit.
        as_written: Whether the client's own metadata becomes the table's, because the lake does not
            write such commits itself: changes of definitions and refs, delete files, files outside.
    """

    head: Head
    commit: TableCommit
    before: Document
    newest: Document
    as_written: bool


def compare(context: LakeContext, head: Head, commit: TableCommit, *, trusted: bool) -> Asked:
    """Compare a client's commit with the table.

    Args:
        context: The lake.
        head: The table.
        commit: The commit that the client requests.
        trusted: Whether the client may add files outside of the table's directory.

    Raises:
        Conflict: A requirement of the commit no longer holds.
        InvalidInput: The commit does not fit the table, refers to metadata of others, or sets a
            property to a value that the lake cannot use.
    """
    check_settings(commit.properties)
    before = metadata.document_of(context, head)
    newest = applied(before, commit, str(head.name))
    as_written = not commit.changes_rows_only or newest.format_version not in _PUBLISHED
    if not as_written:
        as_written = _is_unusual(context, head, before, newest, trusted=trusted)
    return Asked(head, commit, before, newest, as_written)


def check_settings(properties: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` if a client sets a property to a value that the lake cannot use."""
    check_limits(check_properties(properties))


def _is_unusual(
    context: LakeContext, head: Head, before: Document, newest: Document, *, trusted: bool
) -> bool:
    """Return whether a snapshot adds delete files, or files outside of the table's directory."""
    path = context.storage.path_of
    root = f"{path(context.storage.uri(head.location))}/"
    source = ManifestReader(inside(context, head, before), root)
    known = source.manifests(before.current)
    with blaming_client(head.name):
        after = source.manifests(newest.current)
        new = [m for place, m in after.items() if place not in known]
        if any(not is_data(m) for m in new):
            return True
        files = (e.data_file.file_path for m in new for e in source.entries(m)) if trusted else ()
        return any(not path(file).startswith(root) for file in files)


@dataclass
class RemoteChange(IcebergBranch):
    """The change that a client's snapshot makes to a table; it has no working copy."""

    newest: Document | None = None

    def look(self) -> Net:
        """Return the files that the client's snapshot adds and removes."""
        assert self.newest is not None  # noqa: S101  as it is made
        base = metadata.document_of(self.context, self.head)
        read = inside(self.context, self.head, base)
        # The lake's own metadata is read here, so errors below are due to the client's.
        with blaming_client(self.head.name):
            net = self._between(base, self.newest, read)
        for file in net.added:
            if is_full(file.path) or ".." in file.path.split("/") or "\0" in file.path:
                what = f"The commit adds a file outside of the directory of {self.head.name}."
                raise InvalidInput(what, table=str(self.head.name))
        return net


def stage(context: LakeContext, tx: Transaction, asked: Asked) -> None:
    """Add a client's commit of rows to a transaction, after checking its rows.

    Raises:
        InvalidInput: The commit has files outside of the table, or missing or damaged ones, or
            its manifests claim what the files' footers do not say.
        UnsupportedFeature: The table is append-only, and the commit removes rows.
        ConstraintViolation: A row violates a constraint.
    """
    head, newest = asked.head, asked.newest
    with context.database.read() as session:
        definition = context.definition(session, head)
    RemoteChange.check(definition, str(head.name))
    change_of = RemoteChange(context, head, definition, "", newest=newest)
    with blaming_files(head.name):
        net = change_of.net()
        check_claims(context, head.name, head.location, unknown(context, head, net.added))
    if net.is_empty:
        return
    change = tx._begin_at(head, definition)
    if net.removed and net.data_change:
        check_deletable(change)
    # The client based its commit on this version, and not on a later one.
    change.exact = asked.commit.requires_base
    # Clients refer to their snapshot by the id that they chose.
    change.extra = {SNAPSHOT_ID: newest.current_id}
    change.properties = properties_of(newest.current)
    operations = [Operation(_operation(newest), {"client": "Iceberg REST"})]
    change_of.fill(change, net, operations)
    with blaming_files(head.name):
        check_rows(context.storage, change, [f for f in net.added if f.deletion_vector is None])


def check_new_files(
    context: LakeContext,
    name: TableName,
    location: str,
    read: Callable[[str], bytes],
    newest: Document,
    known: Collection[str] = (),
    before: Mapping[int, Mapping[str, Any]] | None = None,
    *,
    anywhere: bool = False,
) -> None:
    """Raise `InvalidInput` if new snapshots list files outside of the table's directory.

    `known` are paths of manifests not to check, and `before` the snapshots that exist, by their
    ids; one that a commit removes and adds again with other content is new. With `anywhere` such
    files are allowed; the manifests are read and checked anyway.
    """
    path = context.storage.path_of
    root = f"{path(context.storage.uri(location))}/"
    source = ManifestReader(read, root)
    for number, snapshot in newest.all_snapshots().items():
        if snapshot == (before or {}).get(number):
            continue
        with blaming_client(name):
            listed = source.manifests(snapshot)
            new = [e for p, m in listed.items() if p not in known for e in source.entries(m)]
            is_inside = all(path(e.data_file.file_path).startswith(root) for e in new)
        if not is_inside and not anywhere:
            what = f"The commit adds a file outside of the directory of {name}."
            raise InvalidInput(what, table=str(name))


@contextmanager
def blaming_client(name: TableName) -> Generator[None]:
    """Raise `InvalidInput` if manifests of a client are missing or malformed.

    Decoders raise errors of many kinds for bytes that are not Avro.
    """
    try:
        yield
    except CorruptTable as error:
        what = f"The commit's metadata of table {name} cannot be read: {error.what}"
        raise InvalidInput(what, table=str(name)) from error
    except LakewardError:
        raise
    except Exception as error:
        what = f"The commit's metadata does not fit table {name}, or is no Iceberg metadata."
        raise InvalidInput(what, table=str(name)) from error


@contextmanager
def blaming_files(name: TableName) -> Generator[None]:
    """Raise `InvalidInput` if data files of a client are missing, or cannot be read."""
    try:
        yield
    except (FileMissing, CorruptTable) as error:
        what = f"A data file of the commit to table {name} cannot be read: {error.what}"
        raise InvalidInput(what, table=str(name)) from error
    except StorageError as error:
        if isinstance(error.__cause__, pa.ArrowInvalid):
            what = f"A data file of the commit to table {name} is not Parquet."
            raise InvalidInput(what, table=str(name)) from error
        raise


def inside(context: LakeContext, head: Head, base: Document) -> Callable[[str], bytes]:
    """Return a reader of metadata files that are the table's, or in its directory."""
    known = {m.manifest_path for m in metadata.manifests_of(context, base)}  # type: ignore[attr-defined]
    if base.current is not None:
        known.add(base.current["manifest-list"])
    return reader_inside(context, head.name, head.location, known)


def reader_inside(
    context: LakeContext, table: TableName, location: str, known: Collection[str] = ()
) -> Callable[[str], bytes]:
    """Return a reader of metadata files that are in `known` or in the table's directory.

    For other files it raises `InvalidInput`.
    """
    read, path = metadata.reader(context), context.storage.path_of
    root = f"{path(context.storage.uri(location))}/"

    def checked(name: str) -> bytes:
        if name not in known and not path(name).startswith(root):
            what = f"The commit names metadata outside of the directory of {table}."
            raise InvalidInput(what, table=str(table))
        data = read(name)
        if name not in known:
            check_avro(data)
        return data

    return checked


def _operation(newest: Document) -> str:
    summary = (newest.current or {}).get("summary") or {}
    return str(summary.get("operation") or "append").upper()
