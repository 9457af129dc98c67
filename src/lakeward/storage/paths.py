"""Full names of files: their change when a warehouse moves, and whether a path overlaps a place.

`overlaps` may return True for a path that does not overlap, never the reverse: it compares a path
as written and decoded, with and without the version selector at its end, and with links followed
before and after `..` is removed.
"""

from __future__ import annotations

import os.path
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import unquote

from lakeward.errors import InvalidInput
from lakeward.storage.object_store.places import PROVIDERS, ObjectPlace

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_VERSION: Final = re.compile(r"@v?\d+$|#[^/]*$")
"""The version or snapshot selector at the end of a path."""
_CHOICE: Final = re.compile(r"\{[^{}/]*\}")
"""Alternatives in a Hadoop wildcard."""


@dataclass(frozen=True, slots=True)
class Move:
    """A move of a warehouse: all notations of the old root, and the new root."""

    old: tuple[str, ...]
    new: str

    def __call__(self, name: str) -> str:
        """Return a file's full name after the move; names outside the old roots are unchanged."""
        inside = self.inside(name)
        if inside is None:
            return name
        # Files of this machine keep the scheme that their writer gave them, or did without.
        scheme = "" if "://" in self.new else name[: len(name) - len(_without_scheme(name))]
        return f"{scheme}{self.new}/{inside}".rstrip("/")

    def inside(self, name: str) -> str | None:
        """Return the path below the warehouse of a full name; None if it is below no old root."""
        for root in self.old:
            found = _below(name, root)
            if found is not None:
                return found
        return None


def overlaps(path: str, place: str) -> bool:
    """Whether a path is the place, lies in it, or is a directory above it.

    The path is as a user wrote it: with or without scheme, relative, with wildcards. The place is
    the full name of a directory.
    """
    roots = list(_parts(place))
    return any(_meet(one, root) for one in _readings(path) for root in roots)


def _below(name: str, root: str) -> str | None:
    if "://" in root:
        try:
            return ObjectPlace.parse(name).path_from(ObjectPlace.parse(root))
        except InvalidInput:
            return None
    plain = _without_scheme(name)
    if plain == root:
        return ""
    return plain.removeprefix(f"{root}/") if plain.startswith(f"{root}/") else None


def _without_scheme(name: str) -> str:
    """Return a local path without `file:` or `file://` before it."""
    if not name.startswith("file:"):
        return name
    return "/" + name.removeprefix("file:").lstrip("/")


def _readings(path: str) -> Iterator[list[str]]:
    """Yield the parts of each place that a path may refer to."""
    for text in {path, unquote(path)}:
        for one in {text, _VERSION.sub("", text.rstrip("/"))}:
            single = _CHOICE.sub("*", one)
            if "{" in single:
                # Alternatives with directories in them: everything below the parent may be meant.
                single = single[: single.index("{")].rpartition("/")[0] + "/"
            yield from _parts(single)


def _meet(path: list[str], root: list[str]) -> bool:
    """Return whether a path, which may have wildcards, and a root agree as far as both go."""
    return all(r == p or fnmatchcase(r, p) for p, r in zip(path, root, strict=False))


def _parts(name: str) -> Iterator[list[str]]:
    """Yield the parts of a name, as `[kind of store, bucket, *directories]`.

    A local path is yielded twice if symbolic links make `..` ambiguous.
    """
    found = _SCHEME.fullmatch(name)
    scheme, rest = (found[1].lower(), found[2]) if found else ("file", name)
    if scheme == "file":
        if found and rest.startswith("//"):
            # A host, which is this one.
            rest = "/" + rest[2:].partition("/")[2]
        rest = re.sub("/+", "/", rest) or "/"
        # Java removes `..` before links are followed, the system after that.
        for one in {os.path.realpath(rest), os.path.realpath(os.path.normpath(rest))}:
            yield ["file", *filter(None, one.split("/"))]
        return
    authority, _, key = rest.lstrip("/").partition("/")
    # Azure's container stands before its account.
    container = authority.partition("@")[0]
    directories = posixpath.normpath(f"/{key}").split("/")
    yield [PROVIDERS.get(scheme, scheme), container, *filter(None, directories)]
