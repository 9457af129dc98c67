"""Sources of record batches in Arrow's IPC format, from files and streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lakeward.engines.arrow.files import arrow_batches
from lakeward.errors import InvalidInput, StorageError
from lakeward.stream.source import Files, Portion, ReadOnce


class ArrowFiles(Files):
    """Batches of Arrow IPC files (file or stream format), identified by their full paths."""

    form = "arrow"

    def start(self, progress: Any, schema: pa.Schema, table: str) -> None:
        """Continue each file after the batches that were committed."""
        del schema, table  # batches bring their own
        self._continue(progress, "batches")

    def portions(self) -> Iterator[Portion]:
        """Yield each batch that was not taken before."""
        for path in self._paths:
            name = str(path)
            try:
                with pa.memory_map(name) as mapped:
                    for number, batch in enumerate(arrow_batches(mapped), start=1):
                        if number > self._taken.get(name, 0):
                            self._taken[name] = number
                            yield Portion(batch, batch.num_rows, {"batches": dict(self._taken)})
            except pa.ArrowInvalid as error:
                what = f"{path} is no Arrow file: {error}."
                raise InvalidInput(what, path=name) from error
            except OSError as error:
                what = f"{path} cannot be read: {error}."
                raise StorageError(what, path=name) from error


class ArrowStream(ReadOnce):
    """Batches of a stream that is read once."""

    def start(self, progress: Any, schema: pa.Schema, table: str) -> None:
        """Skip the committed batches, if `replay` says that it is the same stream."""
        del schema, table  # batches bring their own
        self._skip = self._to_skip(progress, "batch")

    def portions(self) -> Iterator[Portion]:
        """Yield each batch as it arrives."""
        try:
            reader = pa.ipc.open_stream(self._stream)
            for number, batch in enumerate(reader, start=1):
                if number > self._skip:
                    yield Portion(batch, batch.num_rows, {"batch": number})
        except pa.ArrowInvalid as error:
            what = f"What came is no Arrow stream: {error}."
            raise InvalidInput(what) from error
