"""pyiceberg where it is installed, and its name where it is not."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from lakeward.errors import MissingExtra


def pyiceberg(module: str) -> ModuleType:
    """One of pyiceberg's modules, loaded when it is first needed.

    Raises:
        MissingExtra: pyiceberg is not installed.
    """
    try:
        return import_module(f"pyiceberg.{module}")
    except ModuleNotFoundError as error:
        raise _missing() from error


def check_installed() -> None:
    """Find out whether pyiceberg is there, without loading it, before a byte is written.

    Raises:
        MissingExtra: It is not installed.
    """
    if find_spec("pyiceberg") is None:
        raise _missing()


def _missing() -> MissingExtra:
    what = "Iceberg tables need pyiceberg, which is not installed."
    return MissingExtra(what, hint="Run: pip install 'lakeward[iceberg]'.", extra="iceberg")
