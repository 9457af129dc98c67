"""Tags and branches that other engines made in an Iceberg table, and the files that they need.

They are not in the log, and the snapshots of a branch are not versions of the table. So the files
that they need are read from their manifests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakeward.context import LakeContext
from lakeward.formats.iceberg.listing import ManifestReader, relative
from lakeward.formats.iceberg.metadata import document_of, reader
from lakeward.formats.iceberg.tagging import snapshot_id
from lakeward.log import tags
from lakeward.log.database import Session
from lakeward.model.commit import Head

_MAIN = "main"


def foreign_refs(context: LakeContext, session: Session, head: Head) -> dict[str, int]:
    """Return the refs of a head's document that are not the lake's, with their snapshot ids.

    A ref with the name of a tag of the lake, but of another snapshot, is another engine's.
    """
    if head.pointer is None:
        return {}
    refs = document_of(context, head).body.get("refs") or {}
    found = {name: int(ref["snapshot-id"]) for name, ref in refs.items() if name != _MAIN}
    for name, version in tags.names_of(session, head.table_id).items():
        if name in found and found[name] == snapshot_id(session, head, version):
            del found[name]
    return found


def files_of_refs(context: LakeContext, head: Head, refs: Mapping[str, int]) -> Iterator[str]:
    """Yield the data and delete files of the refs' snapshots, by their paths in the log."""
    if not refs:
        return
    location = context.storage.uri(head.location)
    source = ManifestReader(reader(context), location)
    snapshots = document_of(context, head).all_snapshots()
    seen: set[str] = set()
    for number in sorted(set(refs.values())):
        for path, manifest in source.manifests(snapshots[number]).items():
            if path in seen:
                continue
            seen.add(path)
            for entry in source.entries(manifest):
                yield relative(entry.data_file.file_path, location)
            source.forget([path])
