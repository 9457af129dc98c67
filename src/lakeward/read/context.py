"""What a lake is made of, handed to whoever reads or writes it."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakeward.errors import WrongWarehouse
from lakeward.formats.iceberg.memory import Memory
from lakeward.log import binding, definitions
from lakeward.log.binding import Binding
from lakeward.log.database import Database, Session
from lakeward.model.commit import Head
from lakeward.model.counters import Counters
from lakeward.model.definition import Definition
from lakeward.storage.base import Storage


@dataclass(frozen=True)
class LakeContext:
    """A lake's store, its warehouse, and who works with it.

    Attributes:
        database: The log.
        storage: The files.
        actor: Who; recorded with everything that is done.
        engine: What program; recorded with commits.
        merge_memory: So many bytes the data of a merge may take in memory.
        bound: The warehouse that the store recorded when the lake was opened.
        memory: Iceberg metadata that was read or written before.
        counters: What happened through this lake object so far.
    """

    database: Database
    storage: Storage
    actor: str
    engine: str
    merge_memory: int
    bound: Binding | None = None
    memory: Memory = field(default_factory=Memory, repr=False)
    counters: Counters = field(default_factory=Counters)
    _definitions: dict[tuple[int, int], Definition] = field(default_factory=dict, repr=False)

    def check_bound(self, session: Session) -> None:
        """Refuse to write where the store has got another warehouse since the lake was opened.

        Raises:
            WrongWarehouse: It has.
        """
        if self.bound is not None and binding.read(session) != self.bound:
            what = "The lake was relocated since it was opened here. Nothing was written."
            hint = "Open it again."
            raise WrongWarehouse(what, hint=hint, warehouse=self.storage.root)

    def definition(self, session: Session, head: Head) -> Definition:
        """A head's definition. Definitions never change once committed, so they are remembered."""
        key = (head.table_id, head.definition_id)
        found = self._definitions.get(key)
        if found is None:
            found = self._definitions[key] = definitions.get(session, *key)
        return found
