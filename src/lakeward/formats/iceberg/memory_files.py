"""In-memory files for pyiceberg."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Any

from lakeward.formats.iceberg.extra import pyiceberg


def output(location: str) -> Any:
    """Return an in-memory file to write; `data` holds its bytes once it is closed."""
    return _memory_classes()[0](location)


def source(location: str, data: bytes) -> Any:
    """Return an in-memory file to read."""
    return _memory_classes()[1](location, data)


@lru_cache(maxsize=1)
def _memory_classes() -> tuple[type, type]:
    base = pyiceberg("io")

    class MemoryOutput(base.OutputFile):  # type: ignore[misc, name-defined]
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
        def __init__(self, location: str, data: bytes) -> None:
            super().__init__(location)
            self._data = data

        def __len__(self) -> int:
            return len(self._data)

        def exists(self) -> bool:
            return True

        def open(self, seekable: bool = True) -> Any:  # noqa: ARG002, FBT001  as declared
            return io.BytesIO(self._data)

    return MemoryOutput, MemoryInput


class _Sink(io.BytesIO):
    def __init__(self, owner: Any) -> None:
        super().__init__()
        self._owner = owner

    def close(self) -> None:
        if not self.closed:
            self._owner.data = self.getvalue()
        super().close()
