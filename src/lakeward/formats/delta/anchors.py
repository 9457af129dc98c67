"""Reads the audit-trail anchors in the commits of a published Delta log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import orjson

from lakeward.errors import FileMissing
from lakeward.formats.delta.publication import AUDIT_TAG, commit_path
from lakeward.formats.delta.segment import segment_of
from lakeward.model import progress
from lakeward.storage.base import Storage


def published_anchors(storage: Storage, location: str) -> Iterator[tuple[int, str]]:
    """Yield each version that has an anchor, with the anchor: `number:hash`."""
    versions = sorted(segment_of(storage, location).commits)
    for version in progress.counted(versions, len(versions)):
        with suppress(FileMissing, orjson.JSONDecodeError):
            first = storage.read(commit_path(location, version)).partition(b"\n")[0]
            found = (orjson.loads(first).get("commitInfo") or {}).get("tags") or {}
            if AUDIT_TAG in found:
                yield version, str(found[AUDIT_TAG])
