"""Conditions that must still hold when a change is ratified whose keys were checked before.

Ratification locks the head of each guard's table, and checks the guard against commits since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lakeward.context import LakeContext
from lakeward.engines.arrow.key_hash import Hashes
from lakeward.errors import Conflict, LakewardError
from lakeward.log import files, foreign_keys
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.write.keys.index import added_between, key_index
from lakeward.write.keys.reading import KeyReader


class Moved(LakewardError):
    """Commits since the check may violate a key: the change must be checked again."""


def overtaken(error: Moved) -> Conflict:
    """Return the error for a change whose keys others make invalid after every check."""
    what = f"{error.what} Others changed rows of the table after each of many checks."
    hint = f"Nothing was committed. Lock the table first: tx.lock({error.table!r})."
    return Conflict(what, hint=hint, table=error.table)


class Guard(Protocol):
    """A condition on one table that commits since a check must not break."""

    @property
    def head(self) -> Head:
        """The head of the table when it was checked."""

    def holds(self, session: Session, current: Head) -> bool:
        """Return whether the commits since the check certainly do not break the condition."""


@dataclass(frozen=True)
class NoNewKeys:
    """The condition that no file added since the check has a key with one of the hashes."""

    context: LakeContext
    head: Head
    definition: Definition
    columns: tuple[str, ...]
    hashes: Hashes

    def holds(self, session: Session, current: Head) -> bool:
        """Read the keys of the files added since the check; return whether none is in `hashes`.

        Returns False if the definition has changed.
        """
        if current.version == self.head.version:
            return True
        if current.definition_id != self.head.definition_id:
            return False
        reader = KeyReader(self.context, current, self.definition, self.columns)
        fields = [self.definition.schema.by_name[c] for c in self.columns]
        index = key_index(self.context, current, fields)
        for file in added_between(session, current, self.head.version):
            found = index.recall(file.path)
            if found is None:
                ((_, found),) = reader.all_hashes([file])
                index.remember(file.path, found)
            if np.isin(found, self.hashes).any():
                return False
        return True


@dataclass(frozen=True)
class NothingAdded:
    """The condition that no file was added since the check, so that all rows were checked."""

    head: Head

    def holds(self, session: Session, current: Head) -> bool:
        """Return whether no file was added, and the definition is unchanged."""
        if current.version == self.head.version:
            return True
        if current.definition_id != self.head.definition_id:
            return False
        return not added_between(session, current, self.head.version)


@dataclass(frozen=True)
class NothingRemoved:
    """The condition that no file was removed since the check, so that all keys still exist."""

    head: Head

    def holds(self, session: Session, current: Head) -> bool:
        """Return whether no file was removed, and definition and policies are unchanged."""
        if current.policy_id != self.head.policy_id:
            return False  # The policy may no longer declare the key.
        if current.version == self.head.version:
            return True
        if current.definition_id != self.head.definition_id:
            return False
        after, version = self.head.version, current.version
        return not files.removed_between(session, current.table_id, after, version)


@dataclass(frozen=True)
class SameReferences:
    """The condition that the foreign keys that refer to the table are still the same."""

    head: Head
    known: tuple[tuple[int, str], ...]

    def holds(self, session: Session, current: Head) -> bool:
        """Return whether the foreign keys that refer to the table are those in `known`."""
        return tuple(foreign_keys.referring_to(session, current.name)) == self.known
