"""All tables of a remote lake at one cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Self

from lakeward.errors import TableNotFound
from lakeward.integrations.remote.table import RemoteTable
from lakeward.model.names import TableName, hint_for_unknown

if TYPE_CHECKING:
    from lakeward.integrations.remote.answers import Answer
    from lakeward.integrations.remote.service import Service


class RemoteSnapshot:
    """All tables at one cut: every transaction is in it with all its tables, or with none.

    The versions are not pinned: vacuum may delete those that are older than the lake's retention.
    A table that was dropped since cannot be read.
    """

    def __init__(self, service: Service, found: Answer) -> None:
        self._service = service
        self._found = found
        moment = found["moment"]
        self.moment: datetime | None = None if moment is None else datetime.fromisoformat(moment)
        """The time of the cut, or of the transaction in `at`; None for the newest versions."""
        self.tag: str | None = found["tag"]
        """Name of the tag this snapshot was opened at, or None."""
        self.position: int | None = found["position"]
        """The cut's position in the order of transactions; None for the newest versions."""

    def __repr__(self) -> str:
        return f"RemoteSnapshot({self.tag or self.moment or 'now'}, versions={dict(self.versions)})"

    @property
    def versions(self) -> Mapping[str, int]:
        """The version of each table in the cut."""
        return dict(self._found._body["versions"])

    @property
    def names_now(self) -> Mapping[str, str]:
        """The name of each table now, or its last one if it was dropped, by its name in the cut."""
        return dict(self._found._body["names_now"])

    def table(self, name: str) -> RemoteTable:
        """Return a table at its version in the cut.

        Raises:
            TableNotFound: The cut has no such table.
        """
        wanted, versions = str(TableName.parse(name)), self.versions
        if wanted not in versions:
            what = f"The snapshot has no table {name}: the lake had none of this name then."
            known = [TableName.parse(one) for one in versions]
            hint = hint_for_unknown(TableName.parse(name), known) if known else None
            raise TableNotFound(what, hint=hint, table=name)
        own_id = self._found._body["table_ids"][wanted]
        return RemoteTable(self._service, wanted, versions[wanted], self.names_now[wanted], own_id)

    def __iter__(self) -> Iterator[RemoteTable]:
        return (self.table(name) for name in self.versions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass
