"""A member of a transaction after ratification: all that its publication needs."""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.model.commit import Commit, Head
from lakeward.model.definition import Definition
from lakeward.storage.base import Prepared


@dataclass(frozen=True, slots=True)
class Ratified:
    """One member of a transaction as it was ratified.

    Attributes:
        head: The table after the commit.
        commit: With all its actions.
        definition: That holds at the commit's version.
        prepared: Its published file, written while the commit was ratified; it has no name yet.
    """

    head: Head
    commit: Commit
    definition: Definition
    prepared: Prepared | None = None
