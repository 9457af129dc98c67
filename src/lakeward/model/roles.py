"""Roles of users of the service, from the lowest to the highest."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What a user may do with the tables they have access to; each role includes the one before."""

    READER = "reader"
    WRITER = "writer"
    ADMIN = "admin"

    def includes(self, other: Role) -> bool:
        """Whether this role includes the rights of `other`."""
        order = list(Role)
        return order.index(self) >= order.index(other)
