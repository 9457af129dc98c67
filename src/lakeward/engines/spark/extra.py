"""Loads pyspark if it is installed, and checks whether a session can work on the lake."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

from lakeward.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pyspark(module: str = "") -> ModuleType:
    """Import and return a module of pyspark; raise `MissingExtra` if it is not installed."""
    try:
        return import_module(f"pyspark.{module}" if module else "pyspark")
    except ModuleNotFoundError as error:
        raise _missing() from error


def check_installed() -> None:
    """Raise `MissingExtra` if pyspark is not installed; it is not imported."""
    if find_spec("pyspark") is None:
        raise _missing()


def check(session: SparkSession) -> None:
    """Raise `InvalidInput` unless a session can work on tables of both formats."""
    if not hasattr(session, "sparkContext"):
        what = f"`spark` must be a session of Spark, not {type(session).__name__}."
        raise InvalidInput(what, hint="Make one with lakeward.spark.session(lake).")
    extensions = session.conf.get("spark.sql.extensions", "") or ""
    missing = [name for name in ("delta", "iceberg") if name not in extensions.lower()]
    if missing:
        what = f"This Spark session was started without {' and '.join(missing)}."
        hint = (
            "Extensions cannot be added to a running one: stop it, and start it with"
            " lakeward.spark.session, or from a builder that went through lakeward.spark.configure."
        )
        raise InvalidInput(what, hint=hint)


def _missing() -> MissingExtra:
    what = "Spark needs pyspark, which is not installed."
    return MissingExtra(what, hint="Run: pip install 'lakeward[spark]'.", extra="spark")
