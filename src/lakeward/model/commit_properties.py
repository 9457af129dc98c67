"""Properties that a user records with a commit: the check of their names and values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from lakeward.errors import InvalidInput
from lakeward.model import arguments

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
_RESERVED: Final = re.compile(
    r"(lakeward|delta|iceberg)\.|(added|deleted|removed|total|changed|replace|manifests)-|operation$"
    r"|engine-|entries-|spark\.|app-id$|snapshot|wap\.|source-|published-"
)
"""Prefixes and names that Lakeward, tags of Delta or summaries of Iceberg snapshots use."""
_LONGEST: Final = 10_000


def checked_properties(given: Mapping[str, str] | None) -> dict[str, str]:
    """Return the properties; raise `InvalidInput` if a name or a value is not allowed."""
    found = arguments.mapping(given, "properties")
    for name, value in found.items():
        if _NAME.fullmatch(name) is None or _RESERVED.match(name):
            what = f"A property of a commit cannot be called {name!r}."
            hint = "Begin with a letter; use letters, digits, _ . and -, and a name of your own."
            raise InvalidInput(what, hint=hint, parameter="properties")
        if not isinstance(value, str) or len(value) > _LONGEST:
            what = (
                f"The property {name} of a commit must be a text of at most {_LONGEST} characters."
            )
            raise InvalidInput(what, hint="Write numbers as texts.", parameter="properties")
    return found
