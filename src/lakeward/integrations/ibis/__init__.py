"""Ibis over a lake: `from lakeward.integrations import ibis; con = ibis.connect(lake)`."""

from __future__ import annotations

from lakeward.integrations.ibis.connection import LakeIbis, connect

__all__ = ["LakeIbis", "connect"]
