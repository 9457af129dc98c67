"""Roles of those who use the service: what each of them may do, in one order."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What somebody may do with the tables that are open to them; each includes the one before."""

    READER = "reader"
    WRITER = "writer"
    ADMIN = "admin"

    def includes(self, other: Role) -> bool:
        """Whether somebody with this role may do what `other` may."""
        order = list(Role)
        return order.index(self) >= order.index(other)
