"""The arguments with which another process opens a lake that is open here."""

from __future__ import annotations

from lakeward.lake.lake import Lake


def storage_options_of(lake: Lake) -> dict[str, str]:
    """Return the storage options that a lake was opened with; they may contain credentials."""
    return dict(lake._address.storage_options)
