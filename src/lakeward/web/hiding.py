"""Removes secrets and paths of the server from everything that the service answers and logs.

Rows of tables are data and are answered as they are; everything else goes through a `Hiding`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from lakeward.model.masking import Mask
from lakeward.storage.object_store.settings import environment_secrets

if TYPE_CHECKING:
    from lakeward.lake.lake import Lake

WAREHOUSE: Final = "warehouse:"
_STORE: Final = "store:"


class Hiding:
    """Replaces secrets by `***`, and the lake's own directories by `warehouse:` and `store:`.

    Args:
        lake: Whose directories are hidden; places in object stores are not paths of the server.
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
        """A text without secrets and paths."""
        for place, shown in self._places:
            text = text.replace(place, shown)
        return self._mask(text)

    def deeply(self, value: Any) -> Any:
        """The same for every text inside mappings and lists."""
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {k: self.deeply(v) for k, v in value.items()}
            case list() | tuple():
                return [self.deeply(v) for v in value]
            case _:
                return value
