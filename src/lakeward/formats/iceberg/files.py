"""Files in memory, as pyiceberg's Avro readers and writers ask for them.

What they write goes to the warehouse as every file does: whole and synced. What they read came from
the warehouse.
"""

from __future__ import annotations

import io
from typing import Any

from lakeward.formats.iceberg.extra import pyiceberg


def output(location: str) -> Any:
    """A file to write; `data` holds its bytes once it is closed."""
    return _classes()[0](location)


def source(location: str, data: bytes) -> Any:
    """A file to read."""
    return _classes()[1](location, data)


_CLASSES: list[tuple[type, type]] = []


def _classes() -> tuple[type, type]:
    """The two classes, made when pyiceberg is first needed."""
    if _CLASSES:
        return _CLASSES[0]
    base = pyiceberg("io")

    class MemoryOutput(base.OutputFile):  # type: ignore[misc, name-defined]
        """Bytes that a writer leaves."""

        def __init__(self, location: str) -> None:
            super().__init__(location)
            self.data = b""

        def __len__(self) -> int:
            return len(self.data)

        def exists(self) -> bool:
            return False

        def to_input_file(self) -> Any:
            return MemoryInput(self.location, self.data)

        def create(self, overwrite: bool = False) -> Any:  # noqa: ARG002, FBT001  as declared
            return _Sink(self)

    class MemoryInput(base.InputFile):  # type: ignore[misc, name-defined]
        """Bytes that a reader takes."""

        def __init__(self, location: str, data: bytes) -> None:
            super().__init__(location)
            self._data = data

        def __len__(self) -> int:
            return len(self._data)

        def exists(self) -> bool:
            return True

        def open(self, seekable: bool = True) -> Any:  # noqa: ARG002, FBT001  as declared
            return io.BytesIO(self._data)

    _CLASSES.append((MemoryOutput, MemoryInput))
    return _CLASSES[0]


class _Sink(io.BytesIO):
    def __init__(self, owner: Any) -> None:
        super().__init__()
        self._owner = owner

    def close(self) -> None:
        if not self.closed:
            self._owner.data = self.getvalue()
        super().close()
