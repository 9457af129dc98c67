"""Requests to the database, and its answers, that get lost.

What is lost, and when, is decided by `Losses`; both kinds of store ask it at every request:
PostgreSQL in a real TCP proxy before the server, SQLite at the driver.
"""

from __future__ import annotations

import select
import socket
import sqlite3
import struct
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Any, Final

import pytest

from lakeward.log.drivers.sqlite import Connection
from lakeward.model import steps
from lakeward.model.closing import Closing

_RESET: Final = struct.pack("ii", 1, 0)
_ANSWER_SECONDS: Final = 0.5


class Loss(Enum):
    """What gets lost; after either the connection is dead."""

    REQUEST = "request"
    ANSWER = "answer"


class Losses:
    """Decides what is lost. Nothing is, until a plan is set.

    Attributes:
        happened: Every loss so far.
    """

    def __init__(self) -> None:
        self.happened: list[Loss] = []
        self._anywhere: Callable[[], Loss | None] | None = None
        self._at_commit: Callable[[], Loss | None] | None = None
        self._pending: Loss | None = None

    @contextmanager
    def of_ratifications(self, choose: Callable[[], Loss | None]) -> Generator[None]:
        """Ask `choose` at each ratification what its COMMIT shall lose."""
        self._at_commit = choose
        steps.observe(self._observe)
        try:
            yield
        finally:
            steps.observe(None)
            self._at_commit = None
            self._pending = None

    @contextmanager
    def anywhere(self, choose: Callable[[], Loss | None]) -> Generator[None]:
        """Ask `choose` at every request."""
        self._anywhere = choose
        try:
            yield
        finally:
            self._anywhere = None

    def take(self) -> Loss | None:
        """What the request just made shall lose."""
        loss, self._pending = self._pending, None
        if loss is None and self._anywhere is not None:
            loss = self._anywhere()
        if loss is not None:
            self.happened.append(loss)
        return loss

    def _observe(self, step: str) -> None:
        # The next request after all rows are inserted is the COMMIT.
        if step == "ratify.inserted" and self._at_commit is not None:
            self._pending = self._at_commit()


class LossyProxy(Closing):
    """Stands between clients and a PostgreSQL server."""

    def __init__(self, upstream: Path, losses: Losses) -> None:
        self._upstream = upstream
        self._losses = losses
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._gone = False
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, database: str) -> str:
        """How a client reaches a database through the proxy."""
        port = self._listener.getsockname()[1]
        return f"postgresql://postgres@127.0.0.1:{port}/{database}?sslmode=disable"

    def vanish(self) -> None:
        """Let the server be unreachable from now on: open connections die, new ones are refused."""
        self._gone = True
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def come_back(self) -> None:
        """Let the server be reachable again."""
        self._gone = False

    def close(self) -> None:
        """Take no more connections, and end those that are there."""
        # Closing alone does not wake a thread that waits in accept.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.vanish()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._gone:
                _reset(client)
                continue
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        self._open |= {client, server}
        try:
            server.connect(str(self._upstream))
            # The first message has a form of its own and is no request.
            server.sendall(client.recv(65536))
            self._relay(client, server)
        except OSError:
            pass
        finally:
            self._open -= {client, server}
            _reset(client)
            server.close()

    def _relay(self, client: socket.socket, server: socket.socket) -> None:
        while True:
            for ready in select.select([client, server], [], [])[0]:
                data = ready.recv(65536)
                if not data:
                    return
                if ready is server:
                    client.sendall(data)
                    continue
                loss = self._losses.take()
                if loss is Loss.REQUEST:
                    return
                server.sendall(data)
                if loss is Loss.ANSWER:
                    _await_answer(server)
                    return


def lossy_sqlite(monkeypatch: pytest.MonkeyPatch, losses: Losses) -> None:
    """Let SQLite connections made from now on lose what `losses` says.

    SQLite has no network: what gets lost is a statement that fails before it did anything, or one
    that did all and then reports an error, as a failing disk does.
    """

    class LossyConnection(Connection):
        def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
            # A ROLLBACK is the driver's own business after an error, not a request.
            loss = None if sql == "ROLLBACK" or sql.startswith("PRAGMA") else losses.take()
            message = "disk I/O error"
            if loss is Loss.REQUEST:
                raise sqlite3.OperationalError(message)
            cursor = super().execute(sql, *args)
            if loss is Loss.ANSWER:
                raise sqlite3.OperationalError(message)
            return cursor

    connect = sqlite3.connect

    def lossy_connect(*args: Any, **options: Any) -> sqlite3.Connection:
        return connect(*args, **{**options, "factory": LossyConnection})

    monkeypatch.setattr("lakeward.log.drivers.sqlite.sqlite3.connect", lossy_connect)


def _await_answer(server: socket.socket) -> None:
    """Wait until the server is ready for the next request: then it has done this one."""
    # A part of a longer request has no answer of its own.
    server.settimeout(_ANSWER_SECONDS)
    data = b""
    while chunk := server.recv(65536):
        data += chunk
        while len(data) >= 5 and len(data) > (size := int.from_bytes(data[1:5], "big")):
            if data[:1] == b"Z":
                return
            data = data[1 + size :]


def _reset(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    connection.close()
