"""Real servers for the tests, each with a temporary directory of its own, stopped at the end."""

from __future__ import annotations

import contextlib
import ctypes
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from lakeward.model.closing import Closing

PATIENCE_SECONDS: Final = 60.0
_LOOKS: Final = 1200


class Unobtainable(Exception):
    """A server cannot run on this machine; the reason says what is missing."""


class Server(Closing):
    """A process, and a directory for what it keeps and says.

    Args:
        name: Of the directory.
    """

    farewell: ClassVar = signal.SIGKILL
    """The signal that stops it."""

    def __init__(self, name: str) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix=f"lakeward-{name}-")).resolve()
        self._process: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        """Stop the server and forget its data."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(self.farewell)
            self._process.wait(PATIENCE_SECONDS)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _launch(
        self, command: Sequence[str | Path], *, user: str | None = None, mortal: bool = False
    ) -> subprocess.Popen[bytes]:
        """Begin the process.

        Args:
            command: Program and arguments.
            user: Who runs it; this one unless given.
            mortal: It ends when the tests are killed, where the system can see to it.
        """
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                user=user,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent if mortal else None,
                # Ctrl-C is for pytest, which stops the server when it has cleaned up.
                start_new_session=True,
            )
        return self._process

    def _serve(self, command: Sequence[str | Path], port: int) -> None:
        """Begin the process, and wait until it listens; it is stopped when it does not."""
        process = self._launch(command, mortal=True)
        try:
            # Looks are counted, not seconds: a machine that was asleep has not looked.
            for _ in range(_LOOKS):
                if is_listening(port):
                    return
                if process.poll() is not None:
                    break
                time.sleep(0.05)
            raise self._silent()
        except BaseException:
            self.close()
            raise

    def _silent(self) -> RuntimeError:
        said = (self._directory / "log").read_text()
        return RuntimeError(f"{type(self).__name__} did not start:\n{said}")


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_listening(port: int) -> bool:
    """Whether somebody answers at a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _end_with_parent() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
