"""The methods of a table that compare versions, and return changed rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.model.file import LIVE
from lakeward.model.names import TableName
from lakeward.model.parameters import Params
from lakeward.write.commit.publications import current

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeward.read.diff import Diff


class Changed:
    """The part of a table's interface that compares versions and returns changed rows."""

    _context: LakeContext
    _name: TableName

    def diff(
        self,
        a: int,
        b: int,
        *,
        rows: bool = False,
        key: str | Sequence[str] | None = None,
        sample: int = 20,
    ) -> Diff:
        """Compare version `a` with version `b`: files, columns, properties, statistics.

        With `rows`, the differing rows are counted and some are shown in `rows` of the result; only
        files that one of the versions lacks are read.

        Args:
            a: A version.
            b: Another version, older or newer.
            rows: Compare rows too.
            key: With `rows`, columns that identify a row: rows with other values under the same key
                are changed, and the changed values are counted by column.
            sample: How many inserted, deleted and changed rows to show at most.

        Raises:
            VersionNotFound: There is no such version.
            InvalidInput: A column of the key does not exist.
        """
        from lakeward.read.diff import diff
        from lakeward.read.snapshot import at_version

        for value, parameter in ((a, "a"), (b, "b")):
            arguments.whole(value, parameter, least=-LIVE)
        arguments.whole(sample, "sample")
        if key is not None and not rows:
            what = "`key` needs rows=True, because it compares rows."
            raise InvalidInput(what, hint="Give rows=True, or leave key= out.", parameter="key")
        head = current(self._context, self._name)
        with self._context.database.read() as session:
            first, second = (at_version(self._context, session, head, v) for v in (a, b))
        return diff(first, second, rows=arguments.flag(rows, "rows"), key=key, sample=sample)

    def changes(
        self,
        *,
        since: int | str | datetime,
        until: int | str | datetime | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
        key: str | Sequence[str] | None = None,
    ) -> pa.RecordBatchReader:
        """Return the rows that a range of versions changed, as a stream of record batches.

        Both ends are in the range: `since=4, until=6` has the changes of versions 4, 5 and 6;
        applied to the rows of version 3 they give the rows of version 6. Rows have the columns of
        the last version, each in the widest type that it had in the range and right before it, are
        ordered by version, and have four more columns: `_change_type`
        (`insert`, `update_preimage`, `update_postimage`, `delete`), `_commit_version`,
        `_commit_timestamp` and `_transaction_id`.

        If a Delta table has a change feed, its change files are read. For other tables, and for
        Iceberg, the changes are computed from the files that each commit added and removed: rows
        that were only rewritten are not changes.

        Args:
            since: The first version. Or a time (a datetime, or ISO 8601 text): the first version
                that is not older. Or a transaction's id: the version that it made. Or a tag: the
                version after the tag's, because a tag refers to a state, not to a change.
            until: The last version, given in the same ways: for a time, the newest version that is
                not newer; for a tag, the tag's version. None for the newest version.
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; changed rows for which it is true are returned. Old and
                new values of an update are tested separately.
            params: Values for `:name`, by name, or for `?`, in order.
            key: Columns that identify a row: a row that a commit deleted and one that it inserted
                under the same key become an `update_preimage` and an `update_postimage`.

        Raises:
            VersionNotFound: There is no such version, or the log no longer has it.
            InvalidInput: The range ends before it begins, or a column does not exist.
        """
        from lakeward.read import changes, snapshot

        head = current(self._context, self._name)
        with self._context.database.read() as session:
            first = changes.first_version(session, head, since)
            last = changes.last_version(session, head, until)
            changes.check_range(head, first, last)
            shown = snapshot.at_version(self._context, session, head, last)
        return changes.read_changes(
            shown, first, columns=columns, where=where, params=params, key=key
        )
