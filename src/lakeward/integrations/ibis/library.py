"""Imports Ibis, which is an optional extra."""

from __future__ import annotations

from typing import Any

from lakeward.errors import MissingExtra


def library() -> Any:
    """Return the module `ibis`; raise `MissingExtra` if it is not installed."""
    try:
        import ibis
        import pyarrow_hotfix  # noqa: F401  Ibis' backends import it
    except ImportError as error:
        what = "This needs Ibis."
        raise MissingExtra(what, hint="Run: pip install 'lakeward[ibis]'.") from error
    return ibis
