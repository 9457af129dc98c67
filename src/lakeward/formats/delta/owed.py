"""Finds how far a Delta table is published, by its head and by the files that exist."""

from __future__ import annotations

from lakeward.context import LakeContext
from lakeward.formats.delta.publication import commit_path
from lakeward.model.commit import Head


class DeltaOwed:
    """The part of the format that finds which versions are published."""

    def published(self, head: Head) -> int:
        """Return the version in the head, up to which all versions are published."""
        return head.published

    def first_missing(self, context: LakeContext, head: Head) -> int | None:
        """Return the first version without a file, searching back from the newest; None if none.

        Versions are published in order, so none is missing before one that exists.
        """
        if head.version <= head.published or self._exists(context, head, head.version):
            return None
        version = head.version
        while version - 1 > head.published and not self._exists(context, head, version - 1):
            version -= 1
        return version

    def _exists(self, context: LakeContext, head: Head, version: int) -> bool:
        return context.storage.exists(commit_path(head.location, version))
