"""What a transaction records of the sources of its rows: one small row with its commit.

A statement is recorded as its text, with empty texts in the place of literals, so that no values of
rows are kept; which columns depend on which is computed from it when lineage is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any, Final

from lakeward.log import lineage
from lakeward.log.database import Session
from lakeward.model.lineage.texts import DIALECT, update_text
from lakeward.model.names import TableName
from lakeward.write.commit.ratify import OnRatify
from lakeward.write.transaction.member import Member

_LONGEST: Final = 100_000
"""Longer statements are recorded by their tables alone."""


class Flows:
    """The flows of one transaction."""

    def __init__(self) -> None:
        self._found: list[dict[str, Any]] = []

    @property
    def count(self) -> int:
        """How many flows are recorded so far."""
        return len(self._found)

    def statement(
        self,
        text: str,
        dialect: str,
        members: Mapping[TableName, Member],
        *,
        since: int | None = None,
    ) -> None:
        """Record a statement that changed something.

        Args:
            text: The statement.
            dialect: Of sqlglot.
            members: The tables of the transaction.
            since: The `count` before the statement ran; what its own operations recorded is
                dropped, because it may have values of rows in it.
        """
        if since is not None:
            del self._found[since:]
        tables = _versions(members)
        if len(text) <= _LONGEST:
            flow = {"by": "sql", "text": without_texts(text, dialect), "dialect": dialect}
            self._found.append({**flow, "tables": tables})
        else:
            self._found.append({"by": "sql", "target": None, "tables": tables})

    def update(self, member: Member, values: Mapping[str, str], where: str | None) -> None:
        """Record the columns that an update computes from others of the same row."""
        name = member.change.head.name
        self.statement(update_text(str(name), values, where), DIALECT, {name: member})

    def data(self, target: str, data: Any) -> None:
        """Record the files that an operation was given, if it was given files."""
        if isinstance(data, str | PurePath):
            name = str(TableName.parse(target))
            flow = {"by": "files", "target": name, "files": [str(data)], "tables": {}}
            self._found.append(flow)

    def declared(
        self, target: str, tables: Mapping[str, tuple[int, int]], files: Iterable[str]
    ) -> None:
        """Record sources that the caller names."""
        name = str(TableName.parse(target))
        flow = {"by": "declared", "target": name, "files": list(files), "tables": dict(tables)}
        self._found.append(flow)

    def recording(
        self,
        transaction_id: str,
        written: Mapping[TableName, Member],
        every: Mapping[TableName, Member],
    ) -> list[OnRatify]:
        """Records the flows with the commit; nothing where nothing is known of sources.

        Tables that the transaction only read may be sources of what it wrote from memory.
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


def without_texts(text: str, dialect: str) -> str:
    """A statement with empty literals in the place of its texts, but for those of intervals."""
    import sqlglot
    from sqlglot.errors import SqlglotError
    from sqlglot.tokenizer_core import TokenType

    if "'" not in text:
        return text
    try:
        tokens = sqlglot.tokenize(text, dialect=dialect)
    except SqlglotError:
        return ""
    out, at, before = [], 0, None
    for token in tokens:
        if token.token_type is TokenType.STRING and before is not TokenType.INTERVAL:
            out += [text[at : token.start], "''"]
            at = token.end + 1
        before = token.token_type
    return "".join([*out, text[at:]])


def _versions(members: Mapping[TableName, Member]) -> dict[str, tuple[int, int]]:
    return {
        str(name): (0 if m.change.is_new else m.change.head.table_id, m.change.head.version)
        for name, m in members.items()
    }
