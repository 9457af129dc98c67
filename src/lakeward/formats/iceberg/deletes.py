"""Which delete files apply to a data file.

A position delete applies to data files with the same or a lower data sequence number, and to the
files that it names. An equality delete applies to data files with a lower sequence number: rows
that are written together with it, or later, stay. Both apply within their own partition; equality
deletes of an unpartitioned spec apply to all data files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakeward.errors import UnsupportedFeature
from lakeward.formats.iceberg.private import position_deletes

DELETE_FILES: Final = "delete_files"
"""The key of a deletion vector: the delete files that apply, each with its path and format."""
EQUALITY_IDS: Final = "equality_ids"
"""The key of an equality delete in there: the ids of the fields that are compared."""


class DeleteIndex:
    """The delete files of a snapshot; `specs` are the table's partition specs by id."""

    def __init__(self, specs: Mapping[int, Mapping[str, Any]], location: str) -> None:
        self._location = location
        self._positions = position_deletes()
        self._equality: list[tuple[int, Any, Any]] = []
        self._unpartitioned = {
            number
            for number, spec in specs.items()
            if all(f["transform"] == "void" for f in spec["fields"])
        }

    def add(self, entry: Any) -> None:
        """Add a manifest's entry of a delete file. Raises `UnsupportedFeature`."""
        found = entry.data_file
        is_equality = found.content.name == "EQUALITY_DELETES"
        formats = ("PARQUET",) if is_equality else ("PARQUET", "PUFFIN")
        if found.file_format.name not in formats:
            what = f"The table at {self._location} has deletes in {found.file_format.name}."
            hint = "The lake reads Parquet and Puffin. Compact the table with Spark."
            raise UnsupportedFeature(what, hint=hint, path=found.file_path)
        if is_equality:
            is_global = (found.spec_id or 0) in self._unpartitioned
            self._equality.append((entry.sequence_number or 0, is_global, found))
        else:
            self._positions.add_delete_file(entry, partition_key=found.partition)

    def applying(self, entry: Any) -> list[dict[str, Any]]:
        """Paths and formats of the delete files that apply to a data file, sorted."""
        found, sequence = entry.data_file, entry.sequence_number or 0
        positions = self._positions.for_data_file(sequence, found, partition_key=found.partition)
        out = [{"path": d.file_path, "format": d.file_format.name} for d in positions]
        for number, is_global, deletes in self._equality:
            if number > sequence and (is_global or _is_same_partition(deletes, found)):
                ids = sorted(deletes.equality_ids or ())
                out.append({"path": deletes.file_path, "format": "PARQUET", EQUALITY_IDS: ids})
        return sorted(out, key=lambda d: str(d["path"]))


def _is_same_partition(deletes: Any, data: Any) -> bool:
    return _partition(deletes) == _partition(data)


def _partition(file: Any) -> tuple[Any, ...]:
    """A value that identifies a partition; NaN, which does not equal itself, by its name."""
    values = [file.partition[i] for i in range(len(file.partition))]
    return (file.spec_id or 0, *("NaN" if v != v else v for v in values))
