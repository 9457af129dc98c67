"""Measures the expectations of a table, and records the values of each version.

The log's statistics are used where they suffice. Rows for a condition are counted only in files
that were added since the last measurement, if no file was removed since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.context import LakeContext
from lakeward.engines.arrow.distribution import distance, distribution
from lakeward.engines.arrow.grouped import distinct_rows
from lakeward.errors import InvalidInput, LakewardError
from lakeward.formats.policy import effective_policy
from lakeward.log import definitions, heads, quality
from lakeward.log.quality import QualityRow
from lakeward.log.reach import has_all_files
from lakeward.model import event_names
from lakeward.model.clock import now_ms, to_datetime
from lakeward.model.events import QualityEvent
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import LoggedFile
from lakeward.model.quality.expectation import Expectation, Measure
from lakeward.model.quality.report import Measurement, Quality
from lakeward.model.quoting import identifier
from lakeward.read.counting import count_rows
from lakeward.read.freshness import changed_ms
from lakeward.read.query import query_version
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.commit.publications import follow_all

_LOG: Final = "log"
_FILES: Final = "files"
_QUERY: Final = "query"
_COUNT: Final = "count"
"""The key of the counted rows, from which a later measurement continues."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A measured value, where it comes from, and the facts that a later measurement needs."""

    value: float | None
    origin: str = _LOG
    reason: str | None = None
    kept: Mapping[str, Any] = field(default_factory=dict)


def measure_table(
    context: LakeContext, snapshot: TableSnapshot, given: Mapping[str, Any], *, points: int
) -> Quality:
    """Measure the expectations of a version's policy and those given, and record the values.

    In a read-only lake the expectations are measured, and nothing is recorded.
    """
    every = {**expectations_of(context, snapshot), **given}
    rows: dict[str, QualityRow] = {}
    for name, value in every.items():
        expected = Expectation.of(name, value)
        row = _measured_now(context, snapshot, expected)
        rows[name] = row
        if context.database.read_only is None:
            with context.database.write(durable=False) as session:
                quality.put(session, snapshot.log_head.table_id, name, row)
        if row.body["passed"] is False and context.events.wants(event_names.QUALITY):
            event = QualityEvent(
                table=str(snapshot.log_head.name),
                version=row.version,
                expectation=name,
                wanted=expected.wanted(),
                value=row.body["value"],
                timestamp=to_datetime(row.measured_ms),
            )
            context.events.deliver(event_names.QUALITY, event)
    return _report(context, snapshot, rows, points)


def recorded(context: LakeContext, snapshot: TableSnapshot, *, points: int) -> Quality:
    """Return the recorded values of a version's expectations, without measuring anything."""
    names = expectations_of(context, snapshot)
    return _report(context, snapshot, dict.fromkeys(names), points)


def expectations_of(context: LakeContext, snapshot: TableSnapshot) -> Mapping[str, Any]:
    """Return the expectations of a version's policy; of the newest version, of the present one.

    A policy that was set after the newest commit counts at once.
    """
    head = snapshot.log_head
    if snapshot.version != head.version:
        return snapshot.policy.policy.expectations or {}
    with context.database.read() as session:
        definition = context.definition(session, head)
    return effective_policy(head, definition).policy.expectations or {}


def latest(context: LakeContext) -> list[Quality]:
    """Return the recorded values of all tables' newest versions, without series, from one read."""
    follow_all(context)
    found = []
    with context.database.read() as session:
        for head in heads.all_heads(session):
            # Both are cached, by ids that change with the table's definition and its policies.
            policy = effective_policy(head, context.definition(session, head)).policy
            if not policy.expectations:
                continue
            rows = {
                name: quality.one(session, head.table_id, name, head.version)
                for name in policy.expectations
            }
            now = tuple(_measurement(name, row) for name, row in rows.items() if row is not None)
            found.append(Quality(str(head.name), head.version, now, {}))
    return found


def _report(
    context: LakeContext,
    snapshot: TableSnapshot,
    rows: Mapping[str, QualityRow | None],
    points: int,
) -> Quality:
    own = snapshot.version
    series: dict[str, tuple[Measurement, ...]] = {}
    with context.database.read() as session:
        for name, new in rows.items():
            known = quality.series(session, snapshot.log_head.table_id, name, own, points)
            if new is not None:
                known = [*(row for row in known if row.version != own), new]
            series[name] = tuple(_measurement(name, row) for row in known)
    now = tuple(one[-1] for one in series.values() if one and one[-1].version == own)
    return Quality(str(snapshot.log_head.name), own, now, series)


def _measurement(name: str, row: QualityRow) -> Measurement:
    body = row.body
    return Measurement(
        name,
        body["measure"],
        body["wanted"],
        row.version,
        body["value"],
        body["passed"],
        body["origin"],
        to_datetime(row.measured_ms),
        body.get("reason"),
    )


def _measured_now(
    context: LakeContext, snapshot: TableSnapshot, expected: Expectation
) -> QualityRow:
    with context.database.read() as session:
        earlier = quality.series(
            session, snapshot.log_head.table_id, expected.name, snapshot.version - 1, 1
        )
    before = earlier[0] if earlier and earlier[0].body["wanted"] == expected.wanted() else None
    try:
        found = _Measuring(context, snapshot, expected, before).found()
    except LakewardError as error:
        found = _Found(None, _LOG, error.what)
    body = {
        "measure": str(expected.measure),
        "wanted": expected.wanted(),
        "value": found.value,
        "passed": expected.passes(found.value),
        "origin": found.origin,
        **found.kept,
    }
    if found.reason is not None:
        body["reason"] = found.reason
    return QualityRow(snapshot.version, now_ms(), body)


class _Measuring:
    """Measures one expectation of one version."""

    def __init__(
        self,
        context: LakeContext,
        snapshot: TableSnapshot,
        expected: Expectation,
        before: QualityRow | None,
    ) -> None:
        self._context = context
        self._snapshot = snapshot
        self._expected = expected
        self._before = before

    def found(self) -> _Found:
        """Measure the expectation; raise `InvalidInput` if the table lacks one of its columns."""
        if self._expected.measure is Measure.COLUMNS:
            return self._lacking()
        for name in self._expected.columns:
            if name not in self._snapshot.schema.by_name:
                what = f"the table has no column {name!r}"
                raise InvalidInput(what)
        match self._expected.measure:
            case Measure.ROWS:
                return _Found(self._snapshot.count())
            case Measure.FRESHNESS:
                return self._freshness()
            case Measure.NULL_SHARE:
                return self._null_share()
            case Measure.DISTINCT:
                values = self._column()
                return _Found(pc.count_distinct(values, mode="only_valid").as_py(), _FILES)
            case Measure.DUPLICATES:
                names = list(self._expected.columns)
                rows = self._snapshot.to_arrow(columns=names)
                return _Found(rows.num_rows - distinct_rows(rows).num_rows, _FILES)
            case Measure.RANGE:
                return self._outside()
            case Measure.CONDITION:
                return self._counted(f"NOT ({self._expected.text})", {})
            case Measure.DRIFT:
                return self._drift()
            case Measure.SQL:
                return self._query()
            case Measure.CHECK:
                return self._checked()
        raise AssertionError(self._expected.measure)

    def _lacking(self) -> _Found:
        """Count the expected columns that the table lacks, or has with another type."""
        known = {f.name: str(f.type) for f in self._snapshot.schema}
        pairs = [wanted.partition(" ")[::2] for wanted in self._expected.columns]
        lacking = [n for n, kind in pairs if n not in known or not known[n].startswith(kind)]
        return _Found(len(lacking))

    def _checked(self) -> _Found:
        """Return the number that the user's function returns for the rows; None if it raises."""
        rows = self._snapshot.to_arrow(columns=list(self._expected.columns))
        try:
            value = None if self._expected.check is None else self._expected.check(rows)
        except Exception as error:  # noqa: BLE001  the function is the user's own
            # Its text may have values of rows in it, and this is recorded.
            return _Found(None, _FILES, f"the function raised {type(error).__name__}")
        return _Found(None if value is None else float(value), _FILES)

    def _freshness(self) -> _Found:
        if not self._expected.columns:
            at = self._changed_ms()
            return _Found((now_ms() - at) / 1000)
        newest = pc.max(self._column().cast(pa.timestamp("us", "UTC"))).cast(pa.int64()).as_py()
        if newest is None:
            return _Found(None, _FILES, "the column has no value")
        return _Found((now_ms() * 1000 - newest) / 1_000_000, _FILES)

    def _changed_ms(self) -> int:
        """Return when data was last changed, in milliseconds; a compaction changes no data."""
        with self._context.database.read() as session:
            found = changed_ms(session, self._snapshot.log_head, self._snapshot.version)
        return self._snapshot.timestamp_ms if found is None else found

    def _null_share(self) -> _Found:
        column = self._expected.columns[0]
        field_id = self._snapshot.schema.field(column).id
        rows, nulls = 0, 0
        for file in (one.file for one in self._snapshot.plan()):
            known = None if file.stats is None else file.stats.nulls.get(field_id)
            if field_id in file.partition:
                known = file.rows if file.partition[field_id] is None else 0
            if known is None or file.rows is None or file.deletion_vector is not None:
                total = self._snapshot.count()
                found = self._snapshot.count(f"{identifier(column)} IS NULL")
                return _Found(found / total if total else 0.0, _FILES)
            rows, nulls = rows + file.rows, nulls + known
        return _Found(nulls / rows if rows else 0.0)

    def _outside(self) -> _Found:
        name, terms, params = identifier(self._expected.columns[0]), [], {}
        for key, sign, limit in (
            ("least", "<", self._expected.least),
            ("most", ">", self._expected.most),
        ):
            if limit is not None:
                terms.append(f"{name} {sign} :{key}")
                params[key] = limit
        return self._counted(" OR ".join(terms), params)

    def _counted(self, where: str, params: Mapping[str, Any]) -> _Found:
        """Count rows for a condition; if possible, only in files added since the last count."""
        condition = self._snapshot.parsed(where, params or None)
        before = self._before
        # Counts of older versions of Lakeward lack the key: they may be wrong after a vacuum.
        if before is not None and before.body.get(_COUNT) is not None:
            new = self._new_files(before.version, condition)
            if new is not None:
                return self._count_in(condition, new, before.body[_COUNT])
        return self._count_in(condition, self._snapshot.plan(condition), 0)

    def _count_in(
        self, condition: Expression | None, chosen: list[LoggedFile], before: float
    ) -> _Found:
        own = self._snapshot
        storage = self._context.storage
        count, read = count_rows(storage, own.log_head, own.definition, condition, chosen)
        total = before + count
        return _Found(total, _FILES if read else _LOG, kept={_COUNT: total})

    def _new_files(self, since: int, condition: Expression | None) -> list[LoggedFile] | None:
        """Return the files added since a version; None if files were removed or columns changed."""
        table_id, own = self._snapshot.log_head.table_id, self._snapshot.version
        with self._context.database.read() as session:
            if not has_all_files(session, table_id, own, since):
                return None
            definition, _ = definitions.at(session, table_id, own)
            if definition != definitions.at(session, table_id, since)[0]:
                return None
        return [f for f in self._snapshot.plan(condition) if f.added > since]

    def _drift(self) -> _Found:
        last = None if self._before is None else self._before.body.get("distribution")
        edges = None if last is None else last["edges"]
        now = distribution(self._column(), edges)
        if last is None:
            reason = "there is no earlier version to compare with"
            return _Found(None, _FILES, reason, {"distribution": now})
        return _Found(distance(last, now), _FILES, None, {"distribution": now})

    def _query(self) -> _Found:
        rows = query_version(self._context, self._snapshot, str(self._expected.text))
        if rows.num_rows != 1 or rows.num_columns != 1:
            shape = f"{rows.num_rows} rows of {rows.num_columns} columns"
            return _Found(None, _QUERY, f"the query returns {shape}, and not one number")
        value = rows.column(0)[0].as_py()
        if value is None:
            return _Found(None, _QUERY, "the query returns null")
        return _Found(float(value), _QUERY)

    def _column(self) -> pa.ChunkedArray:
        name = self._expected.columns[0]
        return self._snapshot.to_arrow(columns=[name]).column(0)
