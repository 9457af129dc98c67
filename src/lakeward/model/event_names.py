"""The names of events, by which listeners subscribe to them."""

from __future__ import annotations

from typing import Final

RATIFIED: Final = "ratified"
PUBLISHED: Final = "published"
COMMIT: Final = "commit"
CONFLICTED: Final = "conflicted"
FAILED: Final = "failed"
VIOLATION: Final = "violation"
MAINTENANCE: Final = "maintenance"
PIPELINE: Final = "pipeline"
QUALITY: Final = "quality"
SERVICE_LEVEL: Final = "service_level"
READ: Final = "read"
NAMES: Final = (
    *(COMMIT, RATIFIED, PUBLISHED, CONFLICTED, FAILED, VIOLATION, MAINTENANCE, PIPELINE, QUALITY),
    *(SERVICE_LEVEL, READ),
)
