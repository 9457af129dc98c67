"""Google's object store for the tests: fake-gcs-server, which comes as a Go module.

The program of `fake_gcs` adds the requests of the XML API that it lacks. Go builds it, once, into
the project's own directory of tools.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import json
import os
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.support.servers import Server, Unobtainable, free_port

TOKEN: Final = "a-token-of-the-tests"
_SOURCES: Final = Path(__file__).with_name("fake_gcs")
_TOOLS: Final = Path(__file__).parents[2] / ".tools" / "gcs"
_PATIENCE: Final = 200
"""Seconds for the modules and the build: less than a test may take, so that tests are skipped."""


class Gcs(Server):
    """A server of its own, which keeps its objects in memory.

    Args:
        careless: It overwrites objects whatever the condition of a put.
        strict: It takes writes with `TOKEN` only, and reads with it or with none.
    """

    def __init__(self, *, careless: bool = False, strict: bool = False) -> None:
        program = obtain()
        super().__init__("gcs")
        self.port = free_port()
        more = [*(["-careless"] if careless else []), *(["-token", TOKEN] if strict else [])]
        self._serve([program, "-address", f"127.0.0.1:{self.port}", *more], self.port)

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        """The storage options that reach it, or a proxy before it.

        delta-rs takes a key, pyiceberg a token; the server asks for neither.
        """
        key = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
        return {
            "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(key),
            "GOOGLE_BEARER_TOKEN": TOKEN,
            "GOOGLE_BASE_URL": endpoint or self.endpoint,
            "GOOGLE_ALLOW_HTTP": "true",
        }

    def unsigned(self) -> dict[str, str]:
        """The storage options that reach it without credentials."""
        return {
            "GOOGLE_SKIP_SIGNATURE": "true",
            "GOOGLE_BASE_URL": self.endpoint,
            "GOOGLE_ALLOW_HTTP": "true",
        }

    def bucket(self) -> str:
        """The name of a fresh, empty bucket."""
        name = f"lake-{secrets.token_hex(6)}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        body = json.dumps({"name": name})
        headers = {"Authorization": f"Bearer {TOKEN}"}
        connection.request("POST", "/storage/v1/b?project=tests", body, headers)
        answer = connection.getresponse()
        assert answer.status == http.HTTPStatus.OK, answer.read()
        connection.close()
        return name


def obtain() -> Path:
    """The server's program.

    Raises:
        Unobtainable: There is no Go, or it cannot get the modules or build the program.
    """
    digest = hashlib.sha256()
    for source in sorted(path for path in _SOURCES.rglob("*") if path.is_file()):
        digest.update(source.read_bytes())
    program = _TOOLS / f"server-{digest.hexdigest()[:16]}"
    _TOOLS.mkdir(parents=True, exist_ok=True)
    # Several processes of one test run want it at once.
    with (_TOOLS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _build(program)
    return program


def _build(program: Path) -> None:
    go = shutil.which("go")
    if go is None:
        message = "fake-gcs-server is built by Go, and there is none"
        raise Unobtainable(message)
    scratch = program.with_suffix(".new")
    try:
        done = subprocess.run(
            [go, "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", scratch, "."],
            cwd=_SOURCES,
            env={**os.environ, "CGO_ENABLED": "0"},
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired as error:
        message = f"Go did not build fake-gcs-server within {_PATIENCE} s"
        raise Unobtainable(message) from error
    if done.returncode:
        message = f"Go could not build fake-gcs-server: {' '.join(done.stderr[-400:].split())}"
        raise Unobtainable(message)
    scratch.replace(program)
