"""Delete files of Iceberg tables: Parquet files that name rows of data files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq


def deleted_positions(filesystem: pa.fs.FileSystem, path: str, of: str) -> Any:
    """The positions of a data file's rows that a position delete file names, as a numpy array.

    Args:
        filesystem: Where the delete file is.
        path: Of the delete file.
        of: The data file, as manifests spell it.
    """
    found = pq.read_table(
        path,
        columns=["pos"],
        filters=pc.field("file_path") == of,
        filesystem=filesystem,
        partitioning=None,
    )
    return found["pos"].cast(pa.uint64()).to_numpy()
