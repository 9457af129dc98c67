"""Base classes whose objects `with` and `async with` close at the end of the block."""

from __future__ import annotations

from typing import Self


class Closing:
    """A context manager whose `close` is called at the end of the block."""

    def close(self) -> None:
        """Release all resources."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncClosing:
    """An asynchronous context manager whose `close` is awaited at the end of the block."""

    async def close(self) -> None:
        """Release all resources."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
