"""How data files are opened: by which filesystem, and with which options of the Parquet reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow.dataset as ds
import pyarrow.fs

from lakeward.model import arguments

_NUMBERS: Final = (
    "batch_size",
    "buffer_size",
    "thrift_string_size_limit",
    "thrift_container_size_limit",
)
_FLAGS: Final = ("pre_buffer", "use_threads", "use_buffered_stream", "page_checksum_verification")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of the Parquet reader.

    Attributes:
        batch_size: The most rows of a record batch; 131,072 unless given.
        pre_buffer: Fetch the neighbouring parts of a file together; for files in an object store
            unless given.
        use_threads: Read columns and files in several threads.
        use_buffered_stream: Read through a buffer of `buffer_size` bytes instead of whole column
            chunks, which takes less memory.
        buffer_size: The size of that buffer.
        page_checksum_verification: Compare pages with their checksums, where files have some.
        thrift_string_size_limit: The most bytes of strings in a footer; Arrow's limit unless given.
        thrift_container_size_limit: The most entries of lists in a footer; Arrow's limit unless
            given.
    """

    batch_size: int | None = None
    pre_buffer: bool | None = None
    use_threads: bool = True
    use_buffered_stream: bool = False
    buffer_size: int = 8_192
    page_checksum_verification: bool = False
    thrift_string_size_limit: int | None = None
    thrift_container_size_limit: int | None = None

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            if getattr(self, name) is not None or name == "buffer_size":
                arguments.whole(getattr(self, name), name, least=1)
        for name in _FLAGS:
            if getattr(self, name) is not None or name != "pre_buffer":
                arguments.flag(getattr(self, name), name)

    def format(self, dictionaries: Sequence[str], *, is_remote: bool) -> ds.ParquetFileFormat:
        """Return the format that reads some columns as dictionaries."""
        return ds.ParquetFileFormat(
            # Nanoseconds would not reach the years before 1678 and after 2262.
            read_options=ds.ParquetReadOptions(
                dictionary_columns=dictionaries, coerce_int96_timestamp_unit="us"
            ),
            default_fragment_scan_options=self.of_fragments(is_remote=is_remote),
        )

    def of_fragments(self, *, is_remote: bool) -> ds.ParquetFragmentScanOptions:
        """Return the options for Arrow's scanner."""
        return ds.ParquetFragmentScanOptions(
            pre_buffer=is_remote if self.pre_buffer is None else self.pre_buffer,
            use_buffered_stream=self.use_buffered_stream,
            buffer_size=self.buffer_size,
            page_checksum_verification=self.page_checksum_verification,
            thrift_string_size_limit=self.thrift_string_size_limit,
            thrift_container_size_limit=self.thrift_container_size_limit,
        )


NO_OPTIONS: Final = ReadOptions()
"""Options with the default values."""


@dataclass(frozen=True, slots=True)
class FileAccess:
    """How the data files of a table are opened.

    Attributes:
        filesystem: A filesystem whose root is the directory of the table; that of the lake's
            storage when None.
        options: Options of the Parquet reader.
    """

    filesystem: pyarrow.fs.FileSystem | None = None
    options: ReadOptions = NO_OPTIONS

    @property
    def reason(self) -> str | None:
        """Why only Lakeward's own reader can open the files; None if others can, too."""
        if self.filesystem is not None:
            return "the location has a filesystem of its own"
        return None if self.options == NO_OPTIONS else "the location has read options"

    @property
    def is_remote(self) -> bool:
        """Whether the filesystem is, or may be, that of an object store."""
        found = self.filesystem
        while isinstance(found, pyarrow.fs.SubTreeFileSystem):
            found = found.base_fs
        return found is not None and not isinstance(found, pyarrow.fs.LocalFileSystem)


DEFAULT_ACCESS: Final = FileAccess()
"""The lake's own filesystem, with no options."""
