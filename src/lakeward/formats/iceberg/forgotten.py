"""Finds metadata files that neither the current document nor a readable version refers to.

These are documents that newer ones no longer list, manifest lists of versions that vacuum retired,
manifests that only such lists contain, and files of transactions that were not ratified.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

from lakeward.context import LakeContext
from lakeward.formats.iceberg import manifests as api
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, Document
from lakeward.formats.iceberg.expiry import DELETE_DOCUMENTS, list_name
from lakeward.formats.iceberg.hints import document_number
from lakeward.formats.iceberg.metadata import document_of, reader
from lakeward.formats.iceberg.summary import SNAPSHOT_ID
from lakeward.log import commits, retired, transactions
from lakeward.log.database import Session
from lakeward.model.commit import CommitInfo, Head, TransactionState

_RETURNING: Final = ("RESTORE", "UNDO", "ROLLBACK")
_LIST: Final = re.compile(r"snap-\d+-([A-Za-z0-9_-]+)(?:\.[0-9a-f]{8})?\.avro")
_MANIFEST: Final = re.compile(r"([A-Za-z0-9_-]+?)-(?:[0-9a-f]{4}){1,2}-m\d+\.avro")


def forgotten_files(context: LakeContext, session: Session, head: Head) -> list[str]:
    """Return the paths, below the table's directory, of metadata files that can be deleted."""
    directory = f"{head.location}/{METADATA_DIRECTORY}"
    listed = [f.path.rpartition("/")[2] for f in context.storage.listing(directory)]
    document = document_of(context, head)
    looking = _Looking(context, session, head, document)
    return sorted(f"{METADATA_DIRECTORY}/{n}" for n in listed if looking.is_forgotten(n))


class _Looking:
    """One scan of a table's metadata directory."""

    def __init__(
        self, context: LakeContext, session: Session, head: Head, document: Document
    ) -> None:
        self._session = session
        self._table_id = head.table_id
        self._ranges = retired.ranges(session, head.table_id)
        self._number = document_number(document.location) or 0
        self._keeps_documents = document.properties.get(DELETE_DOCUMENTS, "true") == "false"
        self._named = {_name(document.location)}
        for entry in document.metadata_log:
            self._named.add(_name(str(orjson.loads(entry).get("metadata-file", ""))))
        read = reader(context)
        lists = {str(s.get("manifest-list", "")) for s in document.all_snapshots().values()}
        lists |= set(_kept_lists(context, session, head))
        for place in filter(None, lists):
            self._named.add(_name(place))
            for manifest in _manifests(place, read):
                self._named.add(_name(manifest.manifest_path))

    def is_forgotten(self, name: str) -> bool:
        """Return whether a file of the directory can be deleted."""
        if name in self._named:
            return False
        number = document_number(name)
        if number is not None:
            return number < self._number and not self._keeps_documents
        found = _LIST.fullmatch(name) or _MANIFEST.fullmatch(name)
        return found is not None and self._is_over(found[1])

    def _is_over(self, transaction_id: str) -> bool:
        """Return whether a transaction ended without a commit, or its versions are all expired."""
        row = transactions.get(self._session, transaction_id)
        if row is None or row.state is TransactionState.OPEN:
            return False
        members = commits.members(self._session, transaction_id)
        own = [version for _, table_id, version in members if table_id == self._table_id]
        if not own:
            return row.state is not TransactionState.RATIFIED
        return all(any(low <= v < high for low, high in self._ranges) for v in own)


def _kept_lists(context: LakeContext, session: Session, head: Head) -> Iterator[str]:
    """Yield the manifest lists of readable versions that may contain manifests of retired ones.

    Manifests are reused from version to version, so these are the first versions after retired
    ones, and versions that restored an older one, whose manifests a restore may reuse.
    """
    table_id, root = head.table_id, context.storage.uri(head.location)
    first = retired.first_readable(session, table_id)
    returned = {
        c.version
        for operation in (*_RETURNING, "TRANSACTION")
        for c in commits.newest_of(session, table_id, operation, limit=head.version + 1)
        if _brings_back(c.info) and not retired.is_retired(session, table_id, c.version)
    }
    for version in sorted({*first, *returned}):
        found = commits.newest_commit_with(session, table_id, version, SNAPSHOT_ID)
        if found is not None and found.info.extra and found.info.extra[SNAPSHOT_ID] is not None:
            place = list_name(root, found.info.extra[SNAPSHOT_ID], found.info)
            if context.storage.exists(context.storage.path_of(place)):
                yield place


def _brings_back(info: CommitInfo) -> bool:
    done = (info.operation, *info.parameters.get("operations", "").split(", "))
    return not set(_RETURNING).isdisjoint(done)


def _manifests(place: str, read: Any) -> list[Any]:
    return list(api.read_list(place, read(place)))


def _name(location: str) -> str:
    return location.rpartition("/")[2]
