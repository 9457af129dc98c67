"""The subdirectories of a table's directory in which the formats keep their metadata."""

from __future__ import annotations

from typing import Final

LOG_DIRECTORY: Final = "_delta_log"
METADATA_DIRECTORY: Final = "metadata"
