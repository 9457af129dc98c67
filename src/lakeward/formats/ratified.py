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
        commit: The commit, with all its actions.
        definition: The definition at the commit's version.
        prepared: The file to publish, written during ratification, not yet under its final name.
    """

    head: Head
    commit: Commit
    definition: Definition
    prepared: Prepared | None = None
