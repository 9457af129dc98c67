"""Azure's blob storage for the tests: Azurite, which comes with npm into the project's tools."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import http.client
import secrets
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.support.servers import Server, Unobtainable, is_listening

VERSION: Final = "3.35.0"
ACCOUNT: Final = "devstoreaccount1"
KEY: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""Azurite's own, which everybody knows."""
PORT: Final = 10000
"""Clients of an emulator look for it there."""
_API: Final = "2021-08-06"
_PATIENCE: Final = 200
"""Seconds for the download: less than a test may take, so that its tests are skipped."""
_TOOLS: Final = Path(__file__).parents[2] / ".tools" / "azurite"


class Azurite(Server):
    """A server of its own, in a temporary directory."""

    def __init__(self) -> None:
        program = obtain()
        if is_listening(PORT):
            message = f"somebody listens at port {PORT} already"
            raise Unobtainable(message)
        super().__init__("azure")
        command: list[str | Path] = [
            *(program, "--silent", "--disableTelemetry", "--skipApiVersionCheck"),
            *("--blobHost", "127.0.0.1", "--blobPort", str(PORT)),
            *("--location", self._directory),
        ]
        self._serve(command, PORT)

    def options(self) -> dict[str, str]:
        """The storage options that reach it."""
        return {"AZURE_STORAGE_USE_EMULATOR": "true", "AZURE_STORAGE_ACCOUNT_KEY": KEY}

    def container(self) -> str:
        """The name of a fresh, empty container."""
        name = f"lake-{secrets.token_hex(6)}"
        now = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        said = f"x-ms-date:{now}\nx-ms-version:{_API}\n"
        resource = f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        text = "PUT" + "\n" * 12 + said + resource
        digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
        headers = {
            "x-ms-date": now,
            "x-ms-version": _API,
            "Content-Length": "0",
            "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}",
        }
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=10)
        connection.request("PUT", f"/{ACCOUNT}/{name}?restype=container", headers=headers)
        answer = connection.getresponse()
        assert answer.status == http.HTTPStatus.CREATED, answer.read()
        connection.close()
        return name


def obtain() -> Path:
    """The server's program.

    Raises:
        Unobtainable: There is no npm, or the registry cannot be reached.
    """
    program = _TOOLS / "node_modules" / ".bin" / "azurite-blob"
    _TOOLS.mkdir(parents=True, exist_ok=True)
    with (_TOOLS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if program.exists():
            return program
        npm = shutil.which("npm")
        if npm is None:
            message = "Azurite comes with npm, and there is none"
            raise Unobtainable(message)
        wanted = f"azurite@{VERSION}"
        quiet = ("--no-save", "--no-audit", "--no-fund")
        try:
            done = subprocess.run(
                [npm, "install", *quiet, "--prefix", _TOOLS, wanted],
                capture_output=True,
                text=True,
                check=False,
                timeout=_PATIENCE,
            )
        except subprocess.TimeoutExpired as error:
            message = f"npm did not get Azurite within {_PATIENCE} s"
            raise Unobtainable(message) from error
        if done.returncode:
            message = f"npm could not get Azurite: {(done.stdout + done.stderr)[-400:]}"
            raise Unobtainable(message)
    return program
