"""The directories in a table's own in which the formats keep their metadata."""

from __future__ import annotations

from typing import Final

LOG_DIRECTORY: Final = "_delta_log"
METADATA_DIRECTORY: Final = "metadata"
