"""Removes secrets and paths of the server from all responses and logs of the service.

Rows of tables are data and are returned as they are; everything else passes through a `Hiding`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from lakeward.model.masking import Mask
from lakeward.storage.object_store.settings import environment_secrets

if TYPE_CHECKING:
    from lakeward.lake.lake import Lake

WAREHOUSE: Final = "warehouse:"
_STORE: Final = "store:"
_PATHS: Final = ("path", "file", "message")
_SAMPLES: Final = ("sample", "samples")
_IN_QUOTES: Final = re.compile(r"""(['"`])(?:file://)?/[^'"`]*/([^'"`]*)\1""")
_IN_TEXT: Final = re.compile(r"""(?<![\w./:])(?:file://)?/(?:[^\s/'"`]+/)+""")


class Hiding:
    """Replaces secrets by `***`, and the lake's directories by `warehouse:` and `store:`.

    Args:
        lake: The lake whose directories are hidden; locations in object stores are not hidden.
        target: The path or URL that the lake was opened with; a URL may have a password.
    """

    def __init__(self, lake: Lake, target: str) -> None:
        self._mask = Mask(target, *environment_secrets(os.environ))
        self._places: list[tuple[str, str]] = []
        for place, shown in ((lake.warehouse, WAREHOUSE), (lake.label, _STORE)):
            plain = place.removeprefix("file://")
            if plain.startswith("/") and plain != "/":
                self._places += [(f"file://{plain}", shown), (plain, shown)]
        self._places.sort(key=lambda pair: len(pair[0]), reverse=True)

    def text(self, text: str) -> str:
        """Return a text without secrets and paths."""
        for place, shown in self._places:
            text = text.replace(place, shown)
        return self._mask(text)

    def deeply(self, value: Any) -> Any:
        """Return a value without secrets and paths in any text inside mappings and lists."""
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {k: self.deeply(v) for k, v in value.items()}
            case list() | tuple():
                return [self.deeply(v) for v in value]
            case _:
                return value


def with_names_only(value: Any, key: str = "") -> Any:
    """Return the record of a run in which paths of this machine have no directories.

    These are the paths of files that the run read, of its code, and in messages of errors. Samples
    of rows stay as they are.
    """
    match value:
        case str() if key in _PATHS:
            if key != "message" and value.startswith(("/", "file:///")):
                return value.rpartition("/")[2]
            return _IN_TEXT.sub("", _IN_QUOTES.sub(r"\1\2\1", value))
        case Mapping():
            return {k: v if k in _SAMPLES else with_names_only(v, k) for k, v in value.items()}
        case list() | tuple():
            return [with_names_only(one, key) for one in value]
        case _:
            return value
