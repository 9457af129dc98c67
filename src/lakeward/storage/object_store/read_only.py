"""Warehouses in an object store that are open read-only."""

from __future__ import annotations

from lakeward.storage.object_store.storage import ObjectStorage
from lakeward.storage.read_only import Unwritable


class ReadOnlyObjectStorage(Unwritable, ObjectStorage):
    """Files below a prefix of a bucket or container, which are only read."""
