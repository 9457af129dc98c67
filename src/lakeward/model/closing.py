"""What `with` does for things that are closed at the end, however the block ended."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """Is itself inside `with`, and closed after it."""

    def close(self) -> None:
        """Let go of everything."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClosing:
    """Is itself inside `async with`, and closed after it."""

    async def close(self) -> None:
        """Let go of everything."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
