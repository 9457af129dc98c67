"""Finds the manifest entries of files that a restore brings back from an older version.

They are added again with their original sequence numbers, row ids and partition specs, so readers
and change logs of other engines see which files the new snapshot adds and removes. If there are
delete files, the older snapshot's manifests are reused unchanged, because which deletes apply
depends on all of the manifests together.
"""

from __future__ import annotations

from typing import Any

from lakeward.context import LakeContext
from lakeward.errors import UnsupportedFeature, VersionNotFound
from lakeward.formats.iceberg import manifests as api
from lakeward.formats.iceberg.document import Document
from lakeward.formats.iceberg.expiry import list_name
from lakeward.formats.iceberg.metadata import manifests_of, place_of, reader
from lakeward.formats.iceberg.private import is_data
from lakeward.formats.iceberg.publication import full_path
from lakeward.formats.iceberg.returning import Returning
from lakeward.formats.iceberg.summary import SNAPSHOT_ID
from lakeward.log import commits
from lakeward.log.database import Session
from lakeward.model.commit import Commit, Head, Return


def returning(
    context: LakeContext, session: Session, head: Head, commit: Commit, document: Document
) -> Returning | None:
    """Return the entries or manifests that a commit restores; None if it restores no files.

    Raises:
        VersionNotFound: The snapshot of the restored version was expired.
        UnsupportedFeature: Only some files would be restored, and there are delete files.
    """
    asked = commit.returns
    if asked is None:
        return None
    place = place_of(context, head)
    gone = {full_path(f.file, place.location) for f in commit.removed}
    wanted = {full_path(f, place.location) for f in commit.added} - gone
    current: list[Any] = list(manifests_of(context, document))
    snapshot = _snapshot(context, session, head, document, asked)
    old = [] if snapshot is None else _manifests(context, snapshot)
    if any(not is_data(m) for m in (*current, *old)):
        if not asked.exact:
            what = f"Other engines keep deleted rows of table {head.name} in files of their own."
            hint = "Restore the whole table to a version, or undo the change with Spark."
            raise UnsupportedFeature(what, hint=hint, table=str(head.name))
        return Returning(whole=[m for m in old if api.is_live(m)], totals=_totals(snapshot))
    if not wanted:
        return None
    known = {m.manifest_path for m in current}
    found: dict[int, tuple[Any, list[Any]]] = {}
    for manifest in old:
        if manifest.manifest_path in known:
            continue
        entries = api.inherit_row_ids(manifest, place.entries(manifest))
        back = [e for e in entries if e.data_file.file_path in wanted]
        if back:
            found.setdefault(manifest.partition_spec_id, (manifest, []))[1].extend(back)
    paths = {e.data_file.file_path for _, entries in found.values() for e in entries}
    return Returning(list(found.values()), frozenset(paths))


def _snapshot(
    context: LakeContext, session: Session, head: Head, document: Document, asked: Return
) -> dict[str, Any] | None:
    number = commits.newest_with(session, head.table_id, asked.version, SNAPSHOT_ID)
    if number is None:
        return None
    found = document.all_snapshots().get(int(number))
    if found is None:
        found = _unlisted(context, session, head, asked.version, int(number))
    if found is None:
        what = f"Snapshot {number} of version {asked.version} of table {head.name} was expired."
        hint = "t.retention() names the oldest version that can be restored."
        raise VersionNotFound(what, hint=hint, table=str(head.name), version=asked.version)
    return found


def _unlisted(
    context: LakeContext, session: Session, head: Head, version: int, number: int
) -> dict[str, Any] | None:
    """Return a snapshot that the document no longer lists; None if its manifest list is gone."""
    wrote = commits.newest_commit_with(session, head.table_id, version, SNAPSHOT_ID)
    if wrote is None:
        return None
    root = context.storage.uri(head.location)
    place = list_name(root, number, wrote.info)
    if not context.storage.exists(context.storage.path_of(place)):
        return None
    return {"snapshot-id": number, "manifest-list": place}


def _manifests(context: LakeContext, snapshot: dict[str, Any]) -> list[Any]:
    place = snapshot["manifest-list"]
    return api.read_list(place, reader(context)(place))


def _totals(snapshot: dict[str, Any] | None) -> dict[str, str]:
    if snapshot is None:
        return {}
    return {k: v for k, v in (snapshot.get("summary") or {}).items() if k.startswith("total-")}
