"""Chromium for the tests, without a system package: node comes from a wheel, Chromium with npm."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

from tests.support.servers import Unobtainable

ENVIRONMENT: Final = Path(__file__).parents[2] / ".venv-browser"
PACKAGES: Final = ("@sparticuz/chromium@153.0.0", "axe-core@4.14.0")
_HOME: Final = ENVIRONMENT / "browser"
_PROGRAM: Final = "import c from '@sparticuz/chromium'; console.log(await c.executablePath())"
_WALK: Final = Path(__file__).parents[1] / "web" / "browser_walk.py"


def walk(
    url: str, token: str, pages: list[tuple[str, str | None]], shots: Path | None
) -> dict[str, Any]:
    """What a browser finds on pages, by their paths.

    Raises:
        Unobtainable: There is no browser on this machine, and none could be fetched.
    """
    browser = _obtain()
    asked = {
        "url": url,
        "token": token,
        "pages": pages,
        "browser": browser,
        "axe": str(_HOME / "node_modules" / "axe-core" / "axe.min.js"),
        "shots": None if shots is None else str(shots),
    }
    command = [str(ENVIRONMENT / "bin" / "python"), str(_WALK)]
    done = subprocess.run(
        command, input=json.dumps(asked), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _obtain() -> str:
    """The path of Chromium's program, fetched once into the environment."""
    npm, node = ENVIRONMENT / "bin" / "npm", ENVIRONMENT / "bin" / "node"
    if not npm.exists():
        message = "there is no .venv-browser; `make browser` makes it"
        raise Unobtainable(message)
    _HOME.mkdir(exist_ok=True)
    with (_HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (_HOME / "node_modules" / "axe-core").exists():
            options = ["--no-save", "--no-audit", "--no-fund", "--prefix", str(_HOME)]
            _run([str(npm), "install", *options, *PACKAGES], "npm could not get Chromium")
        command = [str(node), "--input-type=module", "-e", _PROGRAM]
        return _run(command, "Chromium could not be unpacked").strip()


def _run(command: list[str], what: str) -> str:
    # npm is a script that looks for node in the path. Chromium is unpacked into the temporary
    # directory: in one that users share, it could be the program of another user.
    path = f"{ENVIRONMENT / 'bin'}:{os.environ.get('PATH', '')}"
    own = _HOME / "tmp"
    own.mkdir(exist_ok=True)
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=_HOME,
        env={**os.environ, "PATH": path, "TMPDIR": str(own)},
    )
    if done.returncode:
        message = f"{what}: {(done.stdout + done.stderr)[-400:]}"
        raise Unobtainable(message)
    return done.stdout
