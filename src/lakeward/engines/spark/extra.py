"""pyspark where it is installed, and the name of the extra where it is not."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from lakeward.errors import MissingExtra


def pyspark(module: str = "") -> ModuleType:
    """One of pyspark's modules, loaded when it is first needed."""
    try:
        return import_module(f"pyspark.{module}" if module else "pyspark")
    except ModuleNotFoundError as error:
        raise _missing() from error


def check_installed() -> None:
    """Find out whether pyspark is there, without loading it."""
    if find_spec("pyspark") is None:
        raise _missing()


def _missing() -> MissingExtra:
    what = "Spark needs pyspark, which is not installed."
    return MissingExtra(what, hint="Run: pip install 'lakeward[spark]'.", extra="spark")
