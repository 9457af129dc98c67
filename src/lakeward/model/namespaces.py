"""Maps Iceberg's namespaces of several levels to the one level of table names.

The levels are joined by two underscores: `["sales", "eu"]` is the namespace `sales__eu`. So a level
must not contain two underscores in a row, nor begin or end with one, unless it is the only level.
Iceberg requires a namespace, so tables without one are in `default`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakeward.errors import InvalidName
from lakeward.model.names import TableName

DEFAULT: Final = "default"
"""The namespace that Iceberg shows for tables without one."""
_BETWEEN: Final = "__"


def joined(levels: Sequence[str]) -> str:
    """Return the namespace of a table name for levels of Iceberg.

    Raises:
        InvalidName: There are no levels, or a level cannot be used.
    """
    found = _BETWEEN.join(levels)
    if not levels or (len(levels) > 1 and levels_of(found) != tuple(levels)):
        raise _invalid(levels)
    if not all(levels) or any("." in level for level in levels):
        raise _invalid(levels)
    # Raises `InvalidName` for all other characters that a name cannot have.
    TableName.parse(f"{found}.t")
    return found


def levels_of(namespace: str) -> tuple[str, ...]:
    """Return the levels of a namespace; one level if a part between `__` would be invalid."""
    parts = tuple(namespace.split(_BETWEEN))
    if any(not part or part.startswith("_") or part.endswith("_") for part in parts):
        return (namespace,)
    return parts


def ancestors(namespace: str) -> list[str]:
    """Return the namespaces that contain a namespace, the outermost first."""
    levels = levels_of(namespace)
    return [_BETWEEN.join(levels[:count]) for count in range(1, len(levels))]


def _invalid(levels: Sequence[str]) -> InvalidName:
    shown = ".".join(map(str, levels))
    what = f"{shown!r} is not a namespace."
    hint = "Use levels of letters, digits and single '_', with a letter or digit at both ends."
    return InvalidName(what, hint=hint, name=shown)
