"""The error for rows that take more memory than one request may have."""

from __future__ import annotations

from lakeward.errors import InvalidInput


class TooLarge(InvalidInput):
    """Rows that were sent are too large in memory. Nothing was written."""


def too_many(rows: int) -> TooLarge:
    """Return the error for rows that have more than `rows` bytes in all."""
    what = f"The rows have more than {rows:,} bytes in memory."
    return TooLarge(what, hint="Nothing was written. Send them in several requests.")


def too_many_columns(size: int) -> TooLarge:
    """Return the error for names and types of columns that have more than `size` bytes."""
    what = f"The columns of the body have more than {size:,} bytes of names, types and metadata."
    return TooLarge(what, hint="Nothing was written. Send fewer columns, with less metadata.")
