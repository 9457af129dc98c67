"""Writes paths of files for Spark's readers, which take them for patterns."""

from __future__ import annotations

import re
from typing import Final

_PATTERN: Final = re.compile(r"[\\*?\[\]{}]")
"""Characters that mean something else than themselves in a pattern of Hadoop's file systems."""


def exact(path: str) -> str:
    """Return a pattern that only this path matches, for the readers of Parquet and text files."""
    return _PATTERN.sub(r"\\\g<0>", path)
