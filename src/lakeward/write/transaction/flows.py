"""Records the sources of a transaction's rows, for lineage: one small row with its commit.

A statement is recorded as its text without comments and without the values of its literals, so that
no values of rows are stored; the dependencies of columns are computed from it when lineage is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

from lakeward.log import lineage
from lakeward.log.codec import dumps
from lakeward.log.database import Session
from lakeward.model.expressions.when import Clauses
from lakeward.model.lineage.literals import without_literals
from lakeward.model.lineage.origin import ROWS, Origin, Versions, of_files, without_credentials
from lakeward.model.lineage.texts import DIALECT, insert_text, merge_text, update_text
from lakeward.model.names import TableName
from lakeward.write.commit.ratify import OnRatify
from lakeward.write.transaction.member import Member

_LONGEST: Final = 100_000
"""Of statements with more characters, only the tables are recorded."""


class Flows:
    """The flows of one transaction: its records of sources."""

    def __init__(self) -> None:
        self._found: list[dict[str, Any]] = []
        self.gaps = 0
        """The number of flows with incomplete sources: unknown ones, or without columns."""

    @property
    def count(self) -> int:
        """The number of flows recorded so far."""
        return len(self._found)

    def statement(
        self,
        text: str,
        dialect: str,
        members: Mapping[TableName, Member],
        *,
        since: int | None = None,
        views: Mapping[str, Origin] | None = None,
    ) -> None:
        """Record a statement that changed something.

        Args:
            text: The statement.
            dialect: The dialect of the text, as sqlglot calls it.
            members: The tables of the transaction.
            since: The `count` before the statement ran; flows that its own operations recorded are
                dropped, because they may contain values of rows.
            views: The sources of views that the statement reads.
        """
        if since is not None:
            del self._found[since:]
        self._statement(text, dialect, _versions(members), views or {})

    def update(self, member: Member, values: Mapping[str, str], where: str | None) -> None:
        """Record the columns that an update computes from others of the same row."""
        name = member.change.head.name
        self.statement(update_text(str(name), values, where), DIALECT, {name: member})

    def data(self, member: Member, data: Any, origin: Origin | None) -> None:
        """Record the sources of rows that an operation added, as far as they are known."""
        if isinstance(data, str | PurePath):
            self.files(member, [str(data)])
        elif origin is not None:
            self.rows(str(member.change.head.name), member, origin)

    def files(self, member: Member, paths: Sequence[str]) -> None:
        """Record files with the rows that were added; of many files, their directory."""
        _, shown = of_files(paths)
        name = str(member.change.head.name)
        flow = {"by": "files", "target": name, "files": list(shown), "tables": {}}
        self._found.append(flow)

    def rows(self, target: str, member: Member, origin: Origin) -> None:
        """Record the sources of rows that were added to a table."""
        if origin.columns is None and origin.query is None:
            self._unresolved(target, origin)
        else:
            tables = _with(origin, target, member)
            self._statement(insert_text(target), DIALECT, tables, {ROWS: origin})

    def merge(
        self,
        member: Member,
        data: Any,
        on: str | Sequence[str],
        clauses: Clauses,
        origin: Origin | None,
    ) -> None:
        """Record the sources of rows that were merged into a table, as far as they are known."""
        if origin is None:
            self.data(member, data, None)
            return
        target = str(member.change.head.name)
        if origin.columns is None and origin.query is None:
            self._unresolved(target, origin)
            return
        names = member.change.definition.schema.names
        given = None if origin.columns is None else list(origin.columns)
        text = merge_text(target, names, given, on, clauses)
        self._statement(text, DIALECT, _with(origin, target, member), {ROWS: origin})

    def declared(
        self, target: str, tables: Mapping[str, tuple[int, int]], files: Iterable[str]
    ) -> None:
        """Record sources that the caller gives."""
        name = str(TableName.parse(target))
        shown = [without_credentials(path) for path in files]
        flow = {"by": "declared", "target": name, "files": shown, "tables": dict(tables)}
        self._found.append(flow)

    def on_branch(self, target: str, branch: str) -> None:
        """Record that rows were written on a branch, from sources that only its writer knows."""
        name = str(TableName.parse(target))
        self._found.append({"by": "branch", "target": name, "branch": branch, "tables": {}})

    def recording(
        self,
        transaction_id: str,
        written: Mapping[TableName, Member],
        every: Mapping[TableName, Member],
    ) -> list[OnRatify]:
        """Return a callback that records the flows during ratification, if there are any.

        Without flows, tables that the transaction only read are recorded as possible sources of
        rows that it wrote from memory.
        """
        flows = list(self._found)
        if len(every) > len(written) and not flows:
            read = {n: m for n, m in every.items() if n not in written}
            flows = [{"by": "read", "tables": _versions(read)}]
        if not flows or not written:
            return []

        def record(session: Session) -> None:
            lineage.put(session, transaction_id, flows)

        return [record]

    def _statement(
        self, text: str, dialect: str, tables: Versions, views: Mapping[str, Origin]
    ) -> None:
        sources = {name: version for v in views.values() for name, version in v.tables.items()}
        flow: dict[str, Any] = {"by": "sql", "tables": {**sources, **tables}}
        if len(text) > _LONGEST or len(dumps(_bodies(views))) > _LONGEST:
            self._found.append({**flow, "target": None})
            self.gaps += 1
            return
        self.gaps += any(not origin.is_complete for origin in views.values())
        flow |= {"text": without_literals(text, dialect), "dialect": dialect}
        if views:
            flow["views"] = _bodies(views)
        self._found.append(flow)

    def _unresolved(self, target: str, origin: Origin) -> None:
        """Record sources whose columns are not known."""
        files = [path for paths in origin.files.values() for path in paths]
        flow = {"by": "unresolved", "target": target, "files": files}
        self._found.append({**flow, "tables": dict(origin.tables)})
        self.gaps += 1


def _bodies(views: Mapping[str, Origin]) -> dict[str, Any]:
    made = {}
    for name, origin in views.items():
        made[name] = origin.to_json()
        if origin.query is not None:
            text, dialect = origin.query
            made[name]["query"] = [without_literals(text, dialect), dialect]
    return made


def _with(origin: Origin, target: str, member: Member) -> dict[str, tuple[int, int]]:
    """Return the tables of an origin, and the one that its rows are written to, with versions."""
    return {**origin.tables, **_versions({TableName.parse(target): member})}


def _versions(members: Mapping[TableName, Member]) -> dict[str, tuple[int, int]]:
    return {
        str(name): (0 if m.change.is_new else m.change.head.table_id, m.change.head.version)
        for name, m in members.items()
    }
