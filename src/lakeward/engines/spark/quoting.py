"""Names and texts as Spark SQL spells them, so that nothing in them is taken for SQL."""

from __future__ import annotations


def identifier(*parts: str) -> str:
    """A name of one or more parts."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def literal(text: str) -> str:
    """A text."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
