"""A table of a named branch that is an Iceberg table: engines open it by a catalog of the branch's.

The catalog lies in the same tables as the lake's own, under the name `branch_<name>`. Whoever works
on the branch moves the pointer there; the lake's own pointer stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.errors import CorruptTable
from lakeward.formats.delta.net import Net
from lakeward.formats.iceberg.document import METADATA_DIRECTORY, parse
from lakeward.log import catalog, files
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.expressions.where import parse as parse_where
from lakeward.model.file import LoggedFile
from lakeward.read.scan import read_files
from lakeward.write.branch.directory import clear
from lakeward.write.branch.iceberg import IcebergBranch
from lakeward.write.commit import iceberg
from lakeward.write.plan.change import Change, Operation


@dataclass
class CatalogBranch:
    """A zero-copy working copy of one version of one Iceberg table, under a branch's name.

    Attributes:
        context: The lake's.
        head: The table at the version that the branch was made from.
        definition: Of the table at that version.
        directory: Of the branch, below the table's location.
        branch: The branch's name.
        newest: The table's newest version.
    """

    context: LakeContext
    head: Head
    definition: Definition
    directory: str
    branch: str
    newest: int

    @property
    def is_made(self) -> bool:
        """Whether engines find the table in the branch's catalog."""
        with self.context.database.read() as session:
            return catalog.branch_pointer(session, self.branch, self.head.name) is not None

    def make(self) -> None:
        """Write the first document, and enter the table into the branch's catalog.

        Raises:
            CorruptTable: The table has gone on since somebody began to make the branch.
        """
        if self.newest != self.head.version:
            what = f"The branch {self.branch!r} of table {self.head.name} was never finished."
            raise CorruptTable(what, hint="Drop it, and make it anew.", branch=self.branch)
        made = IcebergBranch.make(self.context, self.head, self.definition, self.directory)
        with self.context.database.write() as session:
            catalog.enter_branch(session, self.branch, self.head.name, made.document.location)

    @property
    def catalog(self) -> str:
        """The name of the catalog by which engines open the table."""
        return catalog.branch_catalog(self.branch)

    @property
    def metadata_location(self) -> str:
        """The newest metadata document on the branch.

        Raises:
            CorruptTable: Somebody took the table out of the branch's catalog.
        """
        with self.context.database.read() as session:
            found = catalog.branch_pointer(session, self.branch, self.head.name)
        if found is None:
            what = f"Somebody took table {self.head.name} out of the branch {self.branch!r}."
            raise CorruptTable(what, hint="Drop the branch.", branch=self.branch)
        return found

    @property
    def location(self) -> str:
        """The directory that the branch writes to."""
        return self.context.storage.uri(self._place)

    @property
    def current(self) -> Definition:
        """What holds on the branch: columns do not change there."""
        return self.definition

    @property
    def version(self) -> int:
        """How many documents the branch has had after its first."""
        name = self.metadata_location.rpartition("/")[2]
        return int(name.partition("-")[0])

    def read(self, columns: Sequence[str] | None, where: str | None) -> pa.Table:
        """The rows as they are on the branch now."""
        net = self.look()
        gone = {(f.added, f.ordinal) for f in net.removed}
        with self.context.database.read() as session:
            base = files.at(session, self.head.table_id, self.head.version)
            kept = [f for f in base if (f.added, f.ordinal) not in gone]
        new = [LoggedFile(f, self.head.version + 1, n) for n, f in enumerate(net.added)]
        return read_files(
            self.context.storage,
            self.head,
            self.definition,
            [*kept, *new],
            columns=columns,
            where=None if where is None else parse_where(where, self.definition.schema),
        ).read_all()

    def look(self) -> Net:
        """What the branch's commits come to by now."""
        return self._inner().net(self.metadata_location)

    def net(self, *, evolve: bool = False, differ: Callable[[Any], None] | None = None) -> Net:  # noqa: ARG002  as of Delta tables
        """What the branch's commits come to, as one commit on the table."""
        return self.look()

    def fill(self, change: Change, found: Net) -> None:
        """Make the branch's net effect part of a change of its table."""
        self._inner().fill(change, found)
        change.operations.append(Operation("PUBLISH BRANCH", {"branch": self.branch}))

    def tidy(self, found: Net) -> None:
        """Delete what the commit does not need."""
        self._inner().tidy(found)

    def discard(self) -> None:
        """Delete the branch with all that was written on it."""
        clear(self.context, self.head, self.directory)

    @property
    def _place(self) -> str:
        return f"{self.head.location}/{self.directory}"

    def _inner(self) -> IcebergBranch:
        """The branch with its first document, whose name begins with a zero."""
        storage = self.context.storage
        names = [f.path for f in storage.listing(f"{self._place}/{METADATA_DIRECTORY}")]
        first = next((n for n in names if n.rpartition("/")[2].startswith("00000-")), None)
        if first is None:
            what = f"The first metadata document of the branch {self.branch!r} is missing."
            raise CorruptTable(what, hint="Drop the branch.", branch=self.branch)
        name = first.rpartition("/")[2]
        full = f"{self.location}/{METADATA_DIRECTORY}/{name}"
        document = parse(full, iceberg.reader(self.context)(full))
        return IcebergBranch(self.context, self.head, self.definition, self.directory, document)
