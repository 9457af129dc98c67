"""Publishes tags of the lake as refs of an Iceberg table, so that other engines can read them.

A ref needs a new metadata document. It is written while the table's head and its row in the catalog
are locked, and the pointer is updated in the database transaction that records the tag.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakeward.context import LakeContext
from lakeward.errors import AlreadyExists
from lakeward.formats.iceberg.memory import Memory
from lakeward.formats.iceberg.metadata import document_of, manifests_of, place_of
from lakeward.formats.iceberg.publication import metadata_name
from lakeward.formats.iceberg.summary import SNAPSHOT_ID
from lakeward.log import catalog, commits, heads
from lakeward.log.database import Session
from lakeward.model.clock import now_ms
from lakeward.model.commit import Head
from lakeward.model.steps import reach

_TAG = "tag"


def publish_tags(
    context: LakeContext,
    session: Session,
    head: Head,
    tags: Mapping[str, int | None],
    metadata_files: list[str],
    *,
    replace_known: bool,
) -> Head:
    """Write a document with the changed refs, set the table's pointer to it, and return the head.

    `tags` has a version for each name, or None for a ref to remove. A version whose snapshot the
    document does not list any more gets no ref: its tag is only in the log, which keeps its files.
    Raises `AlreadyExists` if the table has a branch of a tag's name, or has the tag and
    `replace_known` is not set.
    """
    document = document_of(context, head)
    listed = document.all_snapshots()
    before = dict(document.body.get("refs") or {})
    refs = dict(before)
    for name, version in tags.items():
        known = refs.pop(name, None)
        is_branch = known is not None and known.get("type") != _TAG
        if is_branch or (known is not None and not replace_known):
            kind = "branch" if is_branch else "tag"
            what = f"Table {head.name} has an Iceberg {kind} {name!r} already."
            hint = f"Choose another name, or drop the {kind} with the engine that made it."
            raise AlreadyExists(what, hint=hint, table=str(head.name), tag=name)
        number = None if version is None else snapshot_id(session, head, version)
        if number in listed:
            refs[name] = {"snapshot-id": number, "type": _TAG}
    if refs == before:
        return head
    place = place_of(context, head)
    location = metadata_name(place.location, document.location)
    at_ms = max(now_ms(), document.updated_ms)
    new = document.after(location, at_ms, {"refs": refs})
    metadata_files.append(location)
    context.storage.create_all([(location, new.encode())])
    reach("tag.prepared")
    if not catalog.swap(session, head.name, document.location, location):
        # Cannot happen: the row was read under the lock.
        message = f"the pointer of {head.name} moved while it was locked"
        raise AssertionError(message)
    manifests = manifests_of(context, document)
    head = replace(head, pointer=location)
    heads.advance(session, head)
    context.cache(Memory).renew(document, new, manifests, {}, {})
    return head


def snapshot_id(session: Session, head: Head, version: int) -> int | None:
    """Return the id of the snapshot of a version; None if it has none."""
    found = commits.newest_with(session, head.table_id, version, SNAPSHOT_ID)
    return None if found is None else int(found)
