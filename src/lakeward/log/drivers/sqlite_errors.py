"""Translates errors of the SQLite driver to Lakeward's errors."""

from __future__ import annotations

import sqlite3

from lakeward.errors import StoreCorrupt, StoreError, StoreUnavailable


def raise_translated(error: BaseException, label: str) -> None:
    """Raise the Lakeward error for an error of the driver; return for any other error."""
    if isinstance(error, sqlite3.Error):
        raise translated(error, label) from error


def translated(error: sqlite3.Error, label: str) -> StoreError:
    """Return the Lakeward error for an error of the driver."""
    text = str(error)
    if "locked" in text or "busy" in text:
        what = f"The store {label} stayed locked by another program."
        return StoreUnavailable(what, hint="Try again.")
    if "malformed" in text or "not a database" in text or "no such table" in text:
        what = f"The store {label} is damaged or is not a Lakeward store: {text}."
        return StoreCorrupt(what, hint="Restore a backup, or run `lakeward rebuild`.")
    if "readonly" in text or "unable to open" in text:
        what = f"The store {label} cannot be opened for this: {text}."
        return StoreError(what, hint="Check the path and its permissions.")
    if "full" in text or "I/O" in text:
        what = f"The store {label} could not be written or read: {text}."
        return StoreError(what, hint="Free disk space or check the disk.")
    return StoreError(f"The store {label} failed: {text}.")
