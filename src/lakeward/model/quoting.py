"""Quotes names and texts for Spark SQL, so that nothing in them is interpreted as SQL."""

from __future__ import annotations


def identifier(*parts: str) -> str:
    """Return a quoted name of one or more parts, separated by dots."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def literal(text: str) -> str:
    """Return a quoted string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
