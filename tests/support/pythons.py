"""The Python versions that the project promises, and where this machine has them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def promised() -> list[str]:
    """The versions that `pyproject.toml` names, such as "3.11", oldest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [c.rpartition(" :: ")[2] for c in project["classifiers"] if ":: Python :: 3." in c]
    return sorted(named, key=lambda v: int(v.partition(".")[2]))


def found() -> dict[str, Path]:
    """The interpreter of each promised version that this machine has."""
    present = {version: _interpreter(version) for version in promised()}
    return {version: path for version, path in present.items() if path is not None}


def _interpreter(version: str) -> Path | None:
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    try:
        kept = list(map(str, sorted(home.glob(f"versions/{version}.*/bin/python3"))))
    except PermissionError:  # the directory of another user, whose environment was inherited
        kept = []
    for candidate in filter(None, [shutil.which(f"python{version}"), *kept]):
        # The shim of a version manager can be on PATH with no interpreter behind it.
        run = subprocess.run(
            [candidate, "-c", "import sys; print(sys.executable)"],
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode == 0:
            return Path(run.stdout.strip())
    return None
