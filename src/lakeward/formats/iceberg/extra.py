"""Imports pyiceberg when it is needed; raises `MissingExtra` if it is not installed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from lakeward.errors import MissingExtra


@cache
def pyiceberg(module: str) -> ModuleType:
    """Return a module of pyiceberg; raise `MissingExtra` if pyiceberg is not installed."""
    try:
        return import_module(f"pyiceberg.{module}")
    except ModuleNotFoundError as error:
        raise _missing() from error


def check_installed() -> None:
    """Raise `MissingExtra` if pyiceberg is missing, without loading it."""
    if find_spec("pyiceberg") is None:
        raise _missing()


def _missing() -> MissingExtra:
    what = "Iceberg tables need pyiceberg, which is not installed."
    return MissingExtra(what, hint="Run: pip install 'lakeward[iceberg]'.", extra="iceberg")
