"""Whether a path as an engine's user wrote it reaches files below a place, however it is spelled.

It errs on the side of yes: a path is compared as it stands and decoded, with and without what
selects a version behind it, and with links followed before and after `..` is taken away.
"""

from __future__ import annotations

import os.path
import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import unquote

from lakeward.storage.places import PROVIDERS

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_VERSION: Final = re.compile(r"@v?\d+$|#[^/]*$")
"""What selects a version or a snapshot behind a path."""
_CHOICE: Final = re.compile(r"\{[^{}/]*\}")
"""A choice of names, as Hadoop's wildcards have it."""


def overlaps(path: str, place: str) -> bool:
    """Whether a path is a place, lies in it, or is a directory that it lies in.

    Args:
        path: As it was written: with or without a scheme, relative to the working directory, with
            wildcards.
        place: The full name of a directory.
    """
    roots = list(_plain(place))
    return any(_meet(one, root) for one in _readings(path) for root in roots)


def _readings(path: str) -> Iterator[list[str]]:
    """The places that a path may mean."""
    for text in {path, unquote(path)}:
        for one in {text, _VERSION.sub("", text.rstrip("/"))}:
            single = _CHOICE.sub("*", one)
            if "{" in single:
                # A choice of several directories: all below the one before it may be meant.
                single = single[: single.index("{")].rpartition("/")[0] + "/"
            yield from _plain(single)


def _meet(path: list[str], root: list[str]) -> bool:
    """Whether two lists of directories are the same as far as both go; the first has wildcards."""
    return all(r == p or fnmatchcase(r, p) for p, r in zip(path, root, strict=False))


def _plain(name: str) -> Iterator[list[str]]:
    """A name as its parts: kind of store, bucket, and directories."""
    found = _SCHEME.fullmatch(name)
    scheme, rest = (found[1].lower(), found[2]) if found else ("file", name)
    if scheme == "file":
        if found and rest.startswith("//"):
            # A host, which is this one.
            rest = "/" + rest[2:].partition("/")[2]
        rest = re.sub("/+", "/", rest) or "/"
        # Java takes `..` away before links are followed, and the system after that.
        for one in {os.path.realpath(rest), os.path.realpath(os.path.normpath(rest))}:
            yield ["file", *filter(None, one.split("/"))]
        return
    authority, _, key = rest.lstrip("/").partition("/")
    # Azure's container stands before its account.
    container = authority.partition("@")[0]
    directories = posixpath.normpath(f"/{key}").split("/")
    yield [PROVIDERS.get(scheme, scheme), container, *filter(None, directories)]
