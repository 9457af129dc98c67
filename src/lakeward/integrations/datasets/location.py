"""The location of a dataset: its table or path, the version, and scan options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs

from lakeward.engines.arrow.file_access import FileAccess, ReadOptions
from lakeward.errors import InvalidInput
from lakeward.formats.registry import FORMATS
from lakeward.model import arguments

MASK: Final = "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """How an engine scans the files of a dataset.

    Attributes:
        file_name_column: Add a column of this name, which has the file of each row.
        pruning: Skip row groups by the statistics in the files.
        view_types: Read text and binary columns as Arrow's view types.
        schema: Read the columns as these types.
    """

    file_name_column: str | None = None
    pruning: bool = True
    view_types: bool = False
    schema: pa.Schema | None = None

    @classmethod
    def of(cls, given: Any) -> ScanOptions:
        """Return options from a mapping; raise `InvalidInput` if one is unknown."""
        if isinstance(given, ScanOptions):
            return given
        return cls(**known(cls, arguments.mapping(given, "scan"), "scan option"))


@dataclass(frozen=True, kw_only=True)
class DatasetLocation:
    """A table of a lake, or a Delta table at a path, at a version.

    Attributes:
        table: The name of a table of the lake.
        path: Instead of a table: the path or URL of a Delta table that is not in the lake. It can
            only be read; `lake.adopt` adopts it into the lake.
        format: The format that a table of the lake must have; any unless given.
        version: The version to read; the newest unless given.
        timestamp: Read the newest version that is not later than this time.
        columns: Names, in the order wanted; all when None.
        where: A SQL boolean expression; rows for which it is true are read.
        files: Only rows of these files, given by their paths in `table.files()`. Each must be a
            file of the version.
        storage_options: Options to access a path in an object store. They are never shown. With
            `filesystem` they are for the table's log only.
        scan: How engines scan the files.
        read: Options of the Parquet reader; at a path only together with `filesystem`.
        filesystem: A filesystem of pyarrow that reads the data files instead of the storage of the
            lake or the path. Its root is the directory of the table; `SubTreeFileSystem` gives a
            filesystem that root.
    """

    table: str | None = None
    path: str | None = None
    format: str | None = None
    version: int | None = None
    timestamp: datetime | str | None = None
    columns: Sequence[str] | None = None
    where: str | None = None
    files: Sequence[str] | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    scan: ScanOptions = field(default_factory=ScanOptions)
    read: ReadOptions = field(default_factory=ReadOptions)
    filesystem: pyarrow.fs.FileSystem | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if (self.table is None) == (self.path is None):
            what = "A dataset is either a table of the lake or at a path."
            raise InvalidInput(what, hint="Give `table` or `path`.", parameter="table")
        if self.version is not None and self.timestamp is not None:
            what = f"{self.place} is asked for at a version and at a timestamp."
            raise InvalidInput(what, hint="Give one of them.", parameter="timestamp")
        if self.format is not None and self.format not in FORMATS:
            what = f"{self.place} cannot have the format {self.format!r}."
            hint = "Give delta or iceberg. Parquet files are written by `export`."
            raise InvalidInput(what, hint=hint, parameter="format")
        if self.path is not None and self.format is not None:
            what = f"Only Delta tables are read at a path, so {self.path} needs no format."
            raise InvalidInput(what, hint="lake.adopt takes others into the lake.")
        if self.path is not None and self.files is not None:
            what = "Single files are read of tables of the lake only."
            raise InvalidInput(what, hint="Take it into the lake with lake.adopt.")
        if self.table is not None and self.storage_options:
            what = f"Table {self.table} is reached by the options of its lake."
            raise InvalidInput(what, parameter="storage_options")
        if self.version is not None:
            arguments.whole(self.version, "version")
        for name in ("columns", "files"):
            if getattr(self, name) is not None:
                arguments.texts(getattr(self, name), name)
        arguments.mapping(self.storage_options, "storage_options")
        object.__setattr__(self, "scan", ScanOptions.of(self.scan))
        object.__setattr__(self, "read", _read_options(self.read))
        if self.filesystem is not None:
            _check_filesystem(self.filesystem)
        elif self.path is not None and self.read != ReadOptions():
            what = f"Read options are not for {self.path}, whose files delta-rs reads."
            hint = "Give a `filesystem` for its data files, or take it into the lake."
            raise InvalidInput(what, hint=hint, parameter="read")

    @property
    def place(self) -> str:
        """The table or the path, for messages."""
        return str(self.table or self.path)

    @property
    def access(self) -> FileAccess:
        """How the data files are opened."""
        return FileAccess(self.filesystem, self.read)

    def to_json(self) -> dict[str, Any]:
        """Return all fields that are set as JSON values, with storage options masked.

        Of a filesystem only its class is shown.
        """
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        found["storage_options"] = dict.fromkeys(sorted(self.storage_options), MASK)
        scan = {f.name: getattr(self.scan, f.name) for f in fields(self.scan)}
        scan["schema"] = None if self.scan.schema is None else str(self.scan.schema)
        found["scan"] = {k: v for k, v in scan.items() if v != getattr(ScanOptions(), k)}
        read = {f.name: getattr(self.read, f.name) for f in fields(self.read)}
        found["read"] = {k: v for k, v in read.items() if v != getattr(ReadOptions(), k)}
        found["filesystem"] = None if self.filesystem is None else type(self.filesystem).__name__
        return {k: v for k, v in found.items() if v not in (None, {}, ())}


def known(kind: Any, given: Mapping[str, Any], what_it_is: str) -> dict[str, Any]:
    """Return the arguments for a dataclass; raise `InvalidInput` if it lacks one of the fields."""
    names = [f.name for f in fields(kind)]
    wrong = next((k for k in given if k not in names), None)
    if wrong is not None:
        what = f"There is no {what_it_is} {wrong!r}."
        raise InvalidInput(what, hint=f"There are {', '.join(names)}.", parameter=wrong)
    return dict(given)


def _read_options(given: Any) -> ReadOptions:
    if isinstance(given, ReadOptions):
        return given
    return ReadOptions(**known(ReadOptions, arguments.mapping(given, "read"), "read option"))


def _check_filesystem(given: Any) -> None:
    if not isinstance(given, pyarrow.fs.FileSystem):
        what = f"`filesystem` must be a filesystem of pyarrow, not {type(given).__name__}."
        hint = (
            "A file of datasets cannot have one: give it in code, by `datasets.add`. Wrap one of"
            " fsspec in pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(…))."
        )
        raise InvalidInput(what, hint=hint, parameter="filesystem")
