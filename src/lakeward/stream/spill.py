"""Tables that move to disk, so that they take no memory while they wait."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pyarrow as pa

from lakeward.errors import StorageError


def spilled(table: pa.Table) -> pa.Table:
    """The same rows, in a file that is gone with the last reference to them.

    Raises:
        StorageError: The directory for temporary files cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(prefix="lakeward-", suffix=".arrow")
        path = Path(name)
        try:
            with os.fdopen(handle, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            # What is mapped stays readable without its name.
            with pa.memory_map(name) as mapped:
                return pa.ipc.open_file(mapped).read_all()
        finally:
            path.unlink()
    except OSError as error:
        what = f"Changes could not be kept in {tempfile.gettempdir()}: {error}."
        raise StorageError(what, hint="Free space there, or set TMPDIR.") from error
