"""What an epoch's rows do to the table."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """What an epoch's rows do to the table.

    `append` adds them. `overwrite` lets them take the place of all that is in their partitions.
    `upsert` takes them for changes and merges them by key.
    """

    APPEND = "append"
    UPSERT = "upsert"
    OVERWRITE = "overwrite"
