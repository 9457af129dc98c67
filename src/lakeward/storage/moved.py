"""Full names of files after the warehouse that holds them was moved."""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.errors import InvalidInput
from lakeward.storage.places import ObjectPlace


@dataclass(frozen=True, slots=True)
class Move:
    """A warehouse at a new place.

    Attributes:
        old: The roots that names may begin with, in each way that they were spelled.
        new: The root now.
    """

    old: tuple[str, ...]
    new: str

    def __call__(self, name: str) -> str:
        """A file's full name now; names outside the old roots stay as they are."""
        inside = self.inside(name)
        if inside is None:
            return name
        # Files of this machine keep the scheme that their writer gave them, or did without.
        scheme = "" if "://" in self.new else name[: len(name) - len(_plain(name))]
        return f"{scheme}{self.new}/{inside}".rstrip("/")

    def inside(self, name: str) -> str | None:
        """The path below the warehouse of a file that is named in full by an old root."""
        for root in self.old:
            found = _below(name, root)
            if found is not None:
                return found
        return None


def _below(name: str, root: str) -> str | None:
    if "://" in root:
        try:
            return ObjectPlace.parse(name).path_from(ObjectPlace.parse(root))
        except InvalidInput:
            return None
    plain = _plain(name)
    if plain == root:
        return ""
    return plain.removeprefix(f"{root}/") if plain.startswith(f"{root}/") else None


def _plain(name: str) -> str:
    """A local path without `file:` or `file://` before it."""
    if not name.startswith("file:"):
        return name
    return "/" + name.removeprefix("file:").lstrip("/")
