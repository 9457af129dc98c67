"""Names and texts as Spark SQL quotes them, so that nothing in them is taken for SQL."""

from __future__ import annotations


def identifier(*parts: str) -> str:
    """A quoted name of one or more parts."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def literal(text: str) -> str:
    """A quoted text."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
