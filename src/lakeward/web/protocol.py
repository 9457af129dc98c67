"""HTTP/1.1 with a time limit for the head of a request.

Uvicorn limits how long a connection is idle between requests, but waits without a limit for the
first request and for the rest of a head. Connections that send nothing could use up all the
connections that are allowed.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

HEAD_SECONDS: Final = 20.0


class TimedProtocol(H11Protocol):
    """A connection that is closed when the head of a request does not arrive in time."""

    head_seconds = HEAD_SECONDS
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the time limit for the head of the first request."""
        super().connection_made(transport)
        # asyncio does this only for sockets that name their protocol, which uvicorn's do not: the
        # body of an answer would wait 40 ms for the client to confirm the head.
        found = transport.get_extra_info("socket")
        if found is not None and found.family in (socket.AF_INET, socket.AF_INET6):
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Process received data; keep the time limit until the head of a request is complete."""
        super().data_received(data)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            self._wait()
        else:
            self._cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the time limit of the closed connection."""
        self._cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.head_seconds, self._give_up)

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()
