"""How far a Delta table is published, by its head and by the files that are there."""

from __future__ import annotations

from lakeward.context import LakeContext
from lakeward.formats.delta.publication import commit_path
from lakeward.model.commit import Head


class DeltaOwed:
    """The part of the format that finds which versions are published."""

    def published(self, head: Head) -> int:
        """Return what the head says: versions are published after they are ratified."""
        return head.published

    def first_missing(self, context: LakeContext, head: Head) -> int | None:
        """Look for the newest commit's file, and back from there: they are written in order."""
        if head.version <= head.published or self._exists(context, head, head.version):
            return None
        version = head.version
        while version - 1 > head.published and not self._exists(context, head, version - 1):
            version -= 1
        return version

    def _exists(self, context: LakeContext, head: Head, version: int) -> bool:
        return context.storage.exists(commit_path(head.location, version))
