"""Roles of users of the service, from the lowest to the highest."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What a user may do with the tables they have access to; each role includes the one before."""

    READER = "reader"
    WRITER = "writer"
    ADMIN = "admin"

    def includes(self, other: Role) -> bool:
        """Whether this role includes the rights of `other`."""
        return _RANKS[self] >= _RANKS[other]


_RANKS: Final = {role: rank for rank, role in enumerate(Role)}
