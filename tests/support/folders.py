"""Tells in which folder a test is: asked of twenty thousand tests, in each worker."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def is_in(path: Path, folder: Path) -> bool:
    """Whether a file is somewhere below a folder."""
    return path.is_relative_to(folder)
