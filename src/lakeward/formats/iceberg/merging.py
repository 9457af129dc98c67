"""Merges manifests, so that the manifest list stays short.

New manifests list one commit's files. Sixteen of similar size are merged into one, whose entries
are complete: they inherit nothing from their manifest. Complete manifests are merged again by
copying the blocks of their files, because decoding and encoding thousands of entries would hold up
a commit for hundreds of milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from lakeward.formats.iceberg import manifests as api
from lakeward.formats.iceberg import private
from lakeward.formats.iceberg.manifests import Written
from lakeward.formats.iceberg.memory_files import source
from lakeward.formats.iceberg.private import COMPLETE, is_data

_FAN: Final = 16
"""How many manifests of similar size are merged into one."""
_TIER: Final = 16
_LARGEST: Final = 4_096
"""A manifest with this many files is no longer merged: each merge writes all its bytes again."""


def to_merge(manifests: Sequence[Any], spec_id: int) -> list[Any]:
    """Return manifests of similar size, if there are enough of them to merge; else none."""
    tiers: dict[int, list[Any]] = {}
    for manifest in manifests:
        count = (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
        if is_data(manifest) and manifest.partition_spec_id == spec_id and count < _LARGEST:
            tiers.setdefault(_tier(count), []).append(manifest)
    full = [members for _, members in sorted(tiers.items()) if len(members) >= _FAN]
    return full[0] if full else []


def merged(
    manifests: Sequence[Any],
    location: str,
    snapshot_id: int,
    body: Mapping[str, Any],
    *,
    read: Callable[[str], bytes],
    entries: Callable[[Any], list[Any]],
) -> Written:
    """Merge manifests of the default partition spec into one of `snapshot_id`, at `location`.

    `body` is that of the table's document; `read` returns a file's bytes by its path, `entries` the
    live entries of a manifest.
    """
    layout = api.layout_of(body, None, read=read)
    if all(not m.added_files_count and not m.deleted_files_count for m in manifests):
        files = [read(m.manifest_path) for m in manifests]
        joined = _joined(manifests, files, location, snapshot_id, layout.spec)
        if joined is not None:
            return joined
    every = [e for m in manifests for e in api.inherit_row_ids(m, entries(m))]
    if all(private.is_complete(e, body["format-version"]) for e in every):
        layout = private.complete(layout)
    return api.written(layout, location, snapshot_id, existing=every)


def _joined(
    manifests: Sequence[Any], files: Sequence[bytes], location: str, snapshot_id: int, spec: bytes
) -> Written | None:
    """Return a manifest with the blocks of complete manifests; None if their headers differ."""
    headers = [
        private.read_header(source(m.manifest_path, data))
        for m, data in zip(manifests, files, strict=True)
    ]
    metadata, sync, _ = headers[0]
    if COMPLETE not in metadata or any(found != metadata for found, _, _ in headers):
        return None
    parts = [files[0]]
    for data, (_, other, end) in zip(files[1:], headers[1:], strict=True):
        # The sixteen random bytes after each block occur nowhere else.
        parts.append(data[end:].replace(other, sync))
    data = b"".join(parts)
    schema = metadata["schema"].encode()
    manifest = private.new_manifest(
        manifest_path=location,
        manifest_length=len(data),
        partition_spec_id=manifests[0].partition_spec_id,
        sequence_number=private.unassigned(),
        min_sequence_number=min(m.min_sequence_number for m in manifests),
        added_snapshot_id=snapshot_id,
        added_files_count=0,
        existing_files_count=sum(m.existing_files_count for m in manifests),
        deleted_files_count=0,
        added_rows_count=0,
        existing_rows_count=sum(m.existing_rows_count for m in manifests),
        deleted_rows_count=0,
        partitions=private.joined_summaries(spec, schema, [m.partitions or () for m in manifests]),
        key_metadata=None,
    )
    return Written(private.finished(manifest, len(data)), data, None)


def _tier(count: int) -> int:
    tier = 0
    while count >= _TIER:
        count //= _TIER
        tier += 1
    return tier
