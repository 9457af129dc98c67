"""Statistics of versions, from the log, and estimated numbers of distinct values, from sketches.

Results are kept in the log. The statistics of a later version are computed from them and the new
files; if files were removed since, they are computed from all files. Where many files are added up,
the sums at versions between are kept too, so that any other version needs few files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.engines.arrow.sketches import can_be_sketched, estimate, sketch_of
from lakeward.errors import InvalidInput
from lakeward.log import commits, definitions, files, retired, statistics
from lakeward.log.database import Session
from lakeward.log.reach import has_all_files
from lakeward.model.clock import to_datetime
from lakeward.model.file import LoggedFile
from lakeward.model.progress import advance, expect
from lakeward.model.statistics import ColumnStatistics, Growth, Sums, TableStatistics
from lakeward.model.types import Field
from lakeward.read.scan import read_files
from lakeward.read.snapshot import TableSnapshot
from lakeward.read.totals import KnownTotals

_EVERY: Final = 50
"""How many versions apart results are kept, at least."""
_MOST: Final = 200
"""How many results between one computation keeps, at most."""


def version_statistics(
    context: LakeContext, snapshot: TableSnapshot, distinct: Sequence[str]
) -> TableStatistics:
    """Return the statistics of a version, with distinct counts for the columns `distinct`."""
    table_id, version = snapshot.log_head.table_id, snapshot.version
    with context.database.read() as session:
        kept = statistics.nearest(session, table_id, version)
        is_kept = kept is not None and kept[0] == version
        before, new, stops = None, list[LoggedFile](), list[int]()
        if not is_kept:
            since, new = _new_files(session, snapshot, None if kept is None else kept[0])
            before = kept[1] if kept is not None and since is not None else None
            stops = _stops(session, snapshot, since) if len(new) > _EVERY else []
    sums = Sums(snapshot.schema, kept[1] if is_kept and kept is not None else before)
    made = _added_up(sums, new, stops)
    if not is_kept and context.database.read_only is None:
        with context.database.write(durable=False) as session:
            for at, body in (*made, (version, sums.body())):
                statistics.put(session, table_id, at, body)
    columns = sums.columns()
    for name in distinct:
        columns[name] = _with_estimate(context, snapshot, name, columns.get(name))
    name = str(snapshot.log_head.name)
    return TableStatistics(name, version, sums.rows, sums.files, sums.bytes, columns)


def growth(context: LakeContext, snapshot: TableSnapshot, limit: int) -> list[Growth]:
    """Return the size of a table after each of its newest versions, oldest first."""
    table_id, version = snapshot.log_head.table_id, snapshot.version
    with context.database.read() as session:
        shown = commits.history(session, table_id, low=0, high=version, limit=limit)
        if not shown:
            return []
        total = context.cache(KnownTotals).at(session, table_id, version)
        changed = statistics.changes(session, table_id, shown[-1].version, version)
    # Backwards from the newest version, so that a long history is not added up.
    size, order, found = (total.rows, total.files, total.size), sorted(changed), []
    for commit in shown:
        while order and order[-1] > commit.version:
            gained = changed[order.pop()]
            size = size[0] - gained[0], size[1] - gained[1], size[2] - gained[2]
        at = to_datetime(commit.timestamp_ms)
        found.append(Growth(commit.version, at, commit.info.operation, *size))
    return found[::-1]


def _new_files(
    session: Session, snapshot: TableSnapshot, since: int | None
) -> tuple[int | None, list[LoggedFile]]:
    """Return `since` and the files added after it; None and all files if some were removed."""
    table_id, version = snapshot.log_head.table_id, snapshot.version
    if since is None or not has_all_files(session, table_id, version, since):
        return None, list(files.at(session, table_id, version))
    return since, list(files.at(session, table_id, version, after=since))


def _stops(session: Session, snapshot: TableSnapshot, since: int | None) -> list[int]:
    """Return versions whose files are the first of a snapshot's files, and whose columns agree."""
    table_id, version = snapshot.log_head.table_id, snapshot.version
    first = max(statistics.last_removal(session, table_id, version), 0 if since is None else since)
    step = max(_EVERY, (version - first) // _MOST)
    own = definitions.at(session, table_id, version)[0]
    found: list[int] = []
    for stop in range((version - 1) // step * step, first, -step):
        is_same = definitions.at(session, table_id, stop)[0] == own
        if not is_same or retired.is_retired(session, table_id, stop):
            break
        found.append(stop)
    return found[::-1]


def _added_up(
    sums: Sums, new: Sequence[LoggedFile], stops: Sequence[int]
) -> list[tuple[int, dict[str, Any]]]:
    """Add files to sums; return what these were at each of some versions."""
    made: list[tuple[int, dict[str, Any]]] = []
    ordered = sorted(new, key=lambda file: file.added) if stops else new
    begin = 0
    for stop in stops:
        end = bisect_right(ordered, stop, lo=begin, key=lambda file: file.added)
        sums.add(file.file for file in ordered[begin:end])
        made.append((stop, sums.body()))
        begin = end
    sums.add(file.file for file in ordered[begin:])
    return made


def _with_estimate(
    context: LakeContext, snapshot: TableSnapshot, name: str, known: ColumnStatistics | None
) -> ColumnStatistics:
    field = snapshot.schema.by_name.get(name)
    if field is None or known is None:
        what = f"Table {snapshot.log_head.name} has no column {name!r}."
        raise InvalidInput(what, hint=f"It has {', '.join(snapshot.schema.names)}.")
    if not can_be_sketched(snapshot.schema.arrow.field(name).type):
        what = f"Column {name} has no single values, so different ones cannot be counted."
        raise InvalidInput(what, column=name)
    count, low, high = estimate(_sketch(context, snapshot, field))
    return replace(known, distinct=count, distinct_low=low, distinct_high=high)


def _sketch(context: LakeContext, snapshot: TableSnapshot, field: Field) -> bytes:
    table_id, version = snapshot.log_head.table_id, snapshot.version
    with context.database.read() as session:
        kept = statistics.nearest_sketch(session, table_id, field.id, version)
        if kept is not None and kept[0] == version:
            return kept[1]
        if kept is not None and not _has_type(session, table_id, kept[0], field):
            # Equal values of another type have another hash.
            kept = None
        since, new = _new_files(session, snapshot, None if kept is None else kept[0])
    before = kept[1] if kept is not None and since is not None else None
    made = sketch_of(_values(context, snapshot, field, new), before)
    if context.database.read_only is None:
        with context.database.write(durable=False) as session:
            statistics.put_sketch(session, table_id, field.id, version, made)
    return made


def _has_type(session: Session, table_id: int, version: int, field: Field) -> bool:
    """Return whether a column had its present type in a version."""
    schema = definitions.at(session, table_id, version)[1].schema
    return any(one.id == field.id and one.type == field.type for one in schema)


def _values(
    context: LakeContext, snapshot: TableSnapshot, field: Field, chosen: Sequence[LoggedFile]
) -> Iterator[pa.Array]:
    if not chosen:
        return
    with read_files(
        context.storage,
        snapshot.log_head,
        snapshot.definition,
        chosen,
        columns=[field.name],
        where=None,
    ) as reader:
        expect(sum(file.file.logged_rows for file in chosen))
        for batch in reader:
            yield batch.column(0)
            advance(batch.num_rows)
