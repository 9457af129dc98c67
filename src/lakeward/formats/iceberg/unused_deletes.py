"""Finds delete files that apply to no data file any more, so that new snapshots do not list them.

A commit that removes data files may leave delete files that no other data file needs. Vacuum
deletes these once no version that is kept needs them, so snapshots must not go on listing them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lakeward.formats.iceberg.deletes import DELETE_FILES, DeleteIndex
from lakeward.formats.iceberg.private import content_size, is_data, with_spec
from lakeward.model.file import LoggedFile

_COUNTS = {
    "POSITION_DELETES": "position-deletes",
    "EQUALITY_DELETES": "equality-deletes",
}


def candidates(removed: Iterable[LoggedFile]) -> set[str]:
    """Return the paths of delete files that apply to removed data files."""
    vectors = (f.file.deletion_vector for f in removed)
    return {str(d["path"]) for v in vectors if v is not None for d in v.get(DELETE_FILES, ())}


def unused(
    manifests: Sequence[Any],
    paths: set[str],
    entries: Callable[[Any], list[Any]],
    index: DeleteIndex,
) -> set[str]:
    """Return those of the delete files at `paths` that apply to no data file of the manifests.

    `entries` returns the live entries of a manifest; `index` is empty.
    """
    newest = -1
    for manifest in manifests:
        if is_data(manifest):
            continue
        for entry in with_spec(manifest, entries(manifest)):
            if entry.data_file.file_path in paths:
                index.add(entry)
                newest = max(newest, entry.sequence_number or 0)
    left = set(paths)
    for manifest in manifests:
        # A delete file applies to data files that are as old as it is or older.
        if not is_data(manifest) or not 0 <= manifest.min_sequence_number <= newest:
            continue
        for entry in with_spec(manifest, entries(manifest)):
            left -= {str(d["path"]) for d in index.applying(entry)}
        if not left:
            break
    return left


def counts(before: Mapping[str, str], size: str | None, gone: Sequence[Any]) -> dict[str, str]:
    """Return the part of a snapshot's summary about delete files that it removes.

    `before` is the summary of the snapshot before, and `size` the total size with these files.
    """
    if not gone:
        return {}
    removed = {"delete-files": len(gone)}
    for file in gone:
        name = _COUNTS[file.content.name]
        removed[name] = removed.get(name, 0) + file.record_count
    out = {f"removed-{name}": str(count) for name, count in removed.items()}
    for name, count in removed.items():
        total = before.get(f"total-{name}")
        if total is not None:
            out[f"total-{name}"] = str(max(0, int(total) - count))
    if size is not None:
        out["total-files-size"] = str(max(0, int(size) - sum(map(content_size, gone))))
    return out
