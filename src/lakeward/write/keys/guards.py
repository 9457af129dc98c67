"""What must still hold of a table when a change is ratified whose keys were checked before.

Ratification asks every guard, behind the locked head of its table, about the commits since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from lakeward.context import LakeContext
from lakeward.engines.arrow.key_hash import Hashes
from lakeward.errors import LakewardError
from lakeward.log import files, foreign_keys
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.write.keys.index import added_between, key_index
from lakeward.write.keys.reading import KeyReader


class Moved(LakewardError):
    """What was committed meanwhile may violate a key: the change must be checked again."""


class Guard(Protocol):
    """A condition on one table; `head` is the table as it was checked."""

    @property
    def head(self) -> Head:
        """The table as it was checked."""

    def holds(self, session: Session, current: Head) -> bool:
        """Whether what was committed since the check cannot matter to it."""


@dataclass(frozen=True)
class NoNewKeys:
    """No file that was added since has a key with one of some hashes."""

    context: LakeContext
    head: Head
    definition: Definition
    columns: tuple[str, ...]
    hashes: Hashes

    def holds(self, session: Session, current: Head) -> bool:
        """Read the keys of the files that were added since."""
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
class NothingRemoved:
    """No file was removed since, so every key that was there is there."""

    head: Head

    def holds(self, session: Session, current: Head) -> bool:
        """Look for removed files."""
        if current.version == self.head.version:
            return True
        if current.definition_id != self.head.definition_id:
            return False
        after, version = self.head.version, current.version
        return not files.removed_between(session, current.table_id, after, version)


@dataclass(frozen=True)
class SameReferences:
    """No other table began to refer to the table."""

    head: Head
    known: tuple[tuple[int, str], ...]

    def holds(self, session: Session, current: Head) -> bool:
        """Look for foreign keys to the table."""
        return tuple(foreign_keys.referring_to(session, current.name)) == self.known
