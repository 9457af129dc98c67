"""What a lake is made of, for tests that look behind its surface."""

from __future__ import annotations

from lakeward.context import context_of

__all__ = ["context_of"]
