"""Where a table that is to be adopted lies, as the log keeps it."""

from __future__ import annotations

from pathlib import Path

from lakeward.errors import InvalidInput
from lakeward.storage.base import Storage


def relative_location(storage: Storage, location: str | Path) -> str:
    """A directory as the log keeps it: below the warehouse where it is, absolute elsewhere.

    Raises:
        InvalidInput: It is the warehouse itself, or lies on no disk of this machine.
    """
    path = local_path(location)
    root = Path(storage.root).resolve()
    if path == root:
        what = f"{path} is the warehouse itself, not a table in it."
        raise InvalidInput(what)
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def local_path(location: str | Path) -> Path:
    """A path of this machine, in full.

    Raises:
        InvalidInput: It is none.
    """
    text = str(location).removeprefix("file://")
    if "://" in text:
        what = f"Tables on {text.split('://')[0]}:// cannot be adopted yet."
        raise InvalidInput(what, hint="Give a directory.")
    return Path(text).expanduser().resolve()
