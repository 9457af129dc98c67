"""pyiceberg where it is installed, and its name where it is not."""

from __future__ import annotations

from importlib import import_module
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
        what = "Iceberg tables need pyiceberg, which is not installed."
        raise MissingExtra(what, hint="pip install 'lakeward[iceberg]'", extra="iceberg") from error
