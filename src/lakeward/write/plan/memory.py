"""The limit of memory for the data of a merge."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from lakeward.errors import InvalidInput
from lakeward.model import arguments

VARIABLE: Final = "LAKEWARD_MERGE_MEMORY"
_SHARE: Final = 4
_CONTROL_GROUP: Final = Path("/sys/fs/cgroup/memory.max")


def memory_allowed(given: int | None) -> int:
    """Return the limit in bytes: as given, as in the environment, or a quarter of all memory."""
    if given is not None:
        return arguments.whole(given, "merge_memory", least=1)
    named = os.environ.get(VARIABLE)
    if named is None:
        return _machine() // _SHARE
    if not named.isdecimal() or not int(named):
        what = f"{VARIABLE} is {named!r}, which is no number of bytes."
        raise InvalidInput(what, hint="Write 2147483648 for 2 GiB.", parameter="merge_memory")
    return int(named)


def _machine() -> int:
    """Return the bytes of memory of the machine, or of the container."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):
        # The file has the word `max` if there is no limit.
        found = min(found, int(_CONTROL_GROUP.read_text()))
    return found
