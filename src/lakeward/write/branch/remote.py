"""Commits of clients of the Iceberg REST catalog, as changes of a transaction of the lake.

A client has written data files and manifests into the table's directory, and asks to move the table
to a snapshot that lists them. The files that come and go by that are found by comparing manifests,
as for a branch, and become a change that is checked and ratified like every other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakeward.context import LakeContext
from lakeward.errors import (
    Conflict,
    CorruptTable,
    InvalidInput,
    LakewardError,
    UnsupportedFeature,
)
from lakeward.formats.iceberg import metadata
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document
from lakeward.formats.iceberg.foreign_avro import check_avro
from lakeward.formats.iceberg.listing import ManifestReader
from lakeward.formats.iceberg.private import is_data
from lakeward.formats.iceberg.publication import metadata_name
from lakeward.formats.iceberg.requests import TableCommit, applied
from lakeward.formats.net import Net
from lakeward.log import catalog, heads
from lakeward.model.commit import Head
from lakeward.model.file import is_full
from lakeward.model.names import TableName
from lakeward.write.branch.iceberg import IcebergBranch
from lakeward.write.commit import publications
from lakeward.write.plan.change import Operation
from lakeward.write.stage.added_files import check_rows

if TYPE_CHECKING:
    from lakeward.write.transaction.transaction import Transaction


@dataclass
class RemoteChange(IcebergBranch):
    """What a client's snapshot does to a table, without a directory of its own."""

    newest: Document | None = None

    def look(self) -> Net:
        """The files that come and go by the client's snapshot."""
        assert self.newest is not None  # noqa: S101  as it is made
        base = metadata.document_of(self.context, self.head)
        read = _inside(self.context, self.head, base)
        # Everything that the lake has itself is read here, so what fails below is the client's.
        with _blaming_client(self.head.name):
            net = self._between(base, self.newest, read)
        for file in net.added:
            if is_full(file.path) or ".." in file.path.split("/"):
                what = f"The commit adds a file outside of the directory of {self.head.name}."
                raise InvalidInput(what, table=str(self.head.name))
        return net


def stage(context: LakeContext, tx: Transaction, head: Head, commit: TableCommit) -> None:
    """Make a client's commit of rows a part of a transaction; its rows are checked.

    Raises:
        Conflict: What the commit requires does not hold any more.
        InvalidInput: It names files that are not the table's, or does not fit the table.
        ConstraintViolation: Rows that a constraint refuses.
    """
    with context.database.read() as session:
        definition = context.definition(session, head)
    RemoteChange.check(definition, str(head.name))
    newest = applied(metadata.document_of(context, head), commit, str(head.name))
    change_of = RemoteChange(context, head, definition, "", newest=newest)
    net = change_of.net()
    if net.is_empty:
        return
    change = tx._begin_at(head, definition)
    # What a client compared its commit with is this version, and no later one.
    change.exact = commit.requires_base
    operations = [Operation(_operation(newest), {"client": "Iceberg REST"})]
    change_of.fill(change, net, operations)
    check_rows(context.storage, change, [f for f in net.added if f.deletion_vector is None])


def adds_delete_files(context: LakeContext, head: Head, commit: TableCommit) -> bool:
    """Whether a commit deletes rows by files that name them, which the lake does not publish."""
    base = metadata.document_of(context, head)
    newest = applied(base, commit, str(head.name))
    source = ManifestReader(_inside(context, head, base), "")
    before = source.manifests(base.current)
    with _blaming_client(head.name):
        after = source.manifests(newest.current)
    return any(not is_data(m) for place, m in after.items() if place not in before)


def swap(context: LakeContext, head: Head, commit: TableCommit) -> Head:
    """Commit what the lake cannot publish itself, as the engine behind the client wrote it.

    That is what changes the table's definition, and what deletes rows by delete files.

    The pointer moves and the log records the commit in one database transaction.

    Raises:
        Conflict: Another writer committed meanwhile.
        UnsupportedFeature: The table becomes one that the lake cannot read, or has constraints
            that new rows would have to be checked by.
    """
    with context.database.read() as session:
        definition = context.definition(session, head)
    if commit.changes_rows and (definition.constraints or definition.rules):
        what = f"Table {head.name} has constraints, by which rows of this commit are not checked."
        hint = "Commit columns and rows one after the other, and rewrite files to delete rows."
        raise UnsupportedFeature(what, hint=hint, table=str(head.name))
    before = metadata.document_of(context, head)
    newest = applied(before, commit, str(head.name))
    _check_location(context, head, newest)
    _check_files(context, head, before, newest)
    place = metadata_name(context.storage.uri(head.location), before.location)
    document = replace(newest, location=place)
    name = place.rpartition("/")[2]
    context.storage.put(f"{head.location}/{METADATA_DIRECTORY}/{name}", document.encode())
    with context.database.write() as session:
        locked = heads.lock(session, head.table_id, head.name)
        if locked.pointer != before.location or not catalog.swap(
            session, head.name, before.location, place
        ):
            what = f"Somebody else committed to table {head.name} meanwhile."
            raise Conflict(what, hint="Load the table, and commit again.", table=str(head.name))
        return publications.take_over_or_refuse(context, session, locked, actor=context.actor)


def _check_location(context: LakeContext, head: Head, newest: Document) -> None:
    """Refuse to move a table, and snapshots whose lists are not in its directory."""
    root = context.storage.uri(head.location)
    places = [str(newest.body.get("location"))]
    if newest.current is not None:
        places.append(str(newest.current.get("manifest-list")))
    path = context.storage.path_of
    if any(not f"{path(place)}/".startswith(f"{path(root)}/") for place in places):
        what = f"The commit names places outside of the directory of {head.name}."
        raise InvalidInput(what, table=str(head.name))


def _check_files(context: LakeContext, head: Head, base: Document, newest: Document) -> None:
    source = ManifestReader(_inside(context, head, base), "")
    check_new_files(
        context,
        head.name,
        head.location,
        _inside(context, head, base),
        newest,
        source.manifests(base.current),
        base.all_snapshots(),
    )


def check_new_files(
    context: LakeContext,
    name: TableName,
    location: str,
    read: Callable[[str], bytes],
    newest: Document,
    known: Collection[str] = (),
    before: Collection[int] = (),
) -> None:
    """Refuse new snapshots that list files outside of the table's directory."""
    path = context.storage.path_of
    root = f"{path(context.storage.uri(location))}/"
    source = ManifestReader(read, root)
    for number, snapshot in newest.all_snapshots().items():
        if number in before:
            continue
        with _blaming_client(name):
            listed = source.manifests(snapshot)
            new = [e for p, m in listed.items() if p not in known for e in source.entries(m)]
            is_inside = all(path(e.data_file.file_path).startswith(root) for e in new)
        if not is_inside:
            what = f"The commit adds a file outside of the directory of {name}."
            raise InvalidInput(what, table=str(name))


@contextmanager
def _blaming_client(name: TableName) -> Generator[None]:
    """Raise `InvalidInput` where manifests of a client are missing, or are none.

    Decoders raise errors of many kinds for bytes that are no Avro.
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


def _inside(context: LakeContext, head: Head, base: Document) -> Callable[[str], bytes]:
    known = {m.manifest_path for m in metadata.manifests_of(context, base)}  # type: ignore[attr-defined]
    if base.current is not None:
        known.add(base.current["manifest-list"])
    return reader_inside(context, head.name, head.location, known)


def reader_inside(
    context: LakeContext, table: TableName, location: str, known: Collection[str] = ()
) -> Callable[[str], bytes]:
    """Reads metadata that the table has, or that lies in its directory, and nothing else."""
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
