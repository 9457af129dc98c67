"""The plan of a run: the steps that have new input, and that input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.errors import SchemaMismatch, UnsupportedFeature, VersionNotFound
from lakeward.formats.policy import effective_policy
from lakeward.formats.registry import format_of
from lakeward.log import commits, heads, inputs, retired
from lakeward.log import files as logged
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.constraints import declared
from lakeward.model.definition import Definition
from lakeward.model.inputs import Cursor, InputFile
from lakeward.model.names import TableName
from lakeward.model.types import Field
from lakeward.pipeline.arrivals import Arrivals, LandingDirectory
from lakeward.pipeline.declaration import Declaration, Landing, Mode, Step
from lakeward.pipeline.file_kinds import FileKind
from lakeward.pipeline.results import SAMPLE, Notice, counted, named
from lakeward.write.tables.create import define

_MANY = 2**31


@dataclass(frozen=True, slots=True)
class NewFiles:
    """New files of a landing directory; `source` is its name in the log.

    `schemas` has the columns of each file, by path, as far as they are known before its rows are
    read; `schema` the declared columns, if any.
    """

    source: str
    directory: LandingDirectory
    files: tuple[InputFile, ...]
    schemas: Mapping[str, pa.Schema]
    schema: str | None

    @property
    def kind(self) -> FileKind:
        """The kind of the files."""
        return self.directory.kind


@dataclass(frozen=True, slots=True)
class NewVersions:
    """Versions of a table that a step has not read and that changed rows, oldest first.

    Versions that only moved rows to other files, as compaction makes, are left out. `source` is the
    log's name for the step's input; `before` is the position that the step has reached, or None.
    """

    source: str
    head: Head
    before: Cursor | None
    versions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step with its new input, by parameter.

    `upstream` are the parameters that read the table of an earlier step of the same run.
    """

    step: Step
    files: Mapping[str, NewFiles] = field(default_factory=dict)
    tables: Mapping[str, NewVersions] = field(default_factory=dict)
    upstream: frozenset[str] = frozenset()

    @property
    def has_news(self) -> bool:
        """Whether the step has new input."""
        fresh = any(f.files for f in self.files.values())
        return fresh or bool(self.upstream) or any(t.versions for t in self.tables.values())


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps that have new input, in order, and notices of files that are not read."""

    steps: tuple[PlannedStep, ...]
    notices: tuple[Notice, ...]


def plan(pipeline: Declaration, context: LakeContext, landing: str | None) -> Plan:
    """Plan a run: find the new input of each step, and check tables against their declarations."""
    out: list[PlannedStep] = []
    notices: list[Notice] = []
    written: set[TableName] = set()
    with context.database.read() as session:
        check_declared(session, context, pipeline)
        for step in pipeline.steps():
            found = _planned(session, pipeline, step, written, landing, notices)
            if found.has_news:
                written.add(step.target)
                out.append(found)
    return Plan(tuple(out), tuple(notices))


def _planned(
    session: Session,
    pipeline: Declaration,
    step: Step,
    written: set[TableName],
    landing: str | None,
    notices: list[Notice],
) -> PlannedStep:
    files: dict[str, NewFiles] = {}
    tables: dict[str, NewVersions] = {}
    upstream = set()
    for name, source in step.inputs.items():
        known = step.source_name(name)
        if isinstance(source, Landing):
            directory = LandingDirectory(
                landing, source.path, missing_ok=source.missing_ok, kind=source.kind
            )
            found = directory.look(inputs.files(session, pipeline.name, known))
            notices += _noticed(str(step.target), directory, found)
            schemas = found.schemas or {}
            files[name] = NewFiles(known, directory, found.new, schemas, source.schema)
        elif name in step.watches:
            if source.table in written:
                upstream.add(name)
            head = heads.find(session, source.table)
            if head is not None:
                tables[name] = _versions(session, pipeline.name, known, head)
    return PlannedStep(step, files, tables, frozenset(upstream))


def _versions(session: Session, consumer: str, source: str, head: Head) -> NewVersions:
    before = inputs.position(session, consumer, source)
    if before is not None and before.table_id != head.table_id:
        # Another table has the name now: all of it is new.
        before = None
    low = 0 if before is None else before.version + 1
    found = commits.history(session, head.table_id, low=low, high=head.version, limit=_MANY)
    own = None if before is None else before.transaction_id
    fresh = [
        c.version for c in reversed(found) if c.info.transaction_id != own and c.info.data_change
    ]
    if 0 in fresh and not logged.added_at(session, head.table_id, 0):
        # The table was made empty.
        fresh.remove(0)
    return NewVersions(source, head, before, tuple(fresh))


def _noticed(table: str, directory: LandingDirectory, found: Arrivals) -> list[Notice]:
    out = []
    if found.is_missing:
        message = f"The landing directory {directory} does not exist yet."
        out.append(Notice("landing_missing", table, message, 1, (str(directory),)))
    if found.not_taken:
        who = counted(len(found.not_taken), "file")
        message = (
            f"{who} of {directory} not taken, because only"
            f" {named(directory.kind.suffixes)} files are read:"
            f" {named(found.not_taken)}."
        )
        sample = found.not_taken[:SAMPLE]
        out.append(Notice("files_not_taken", table, message, len(found.not_taken), sample))
    return out


class Way(Enum):
    """How the rows of new versions are read."""

    FILES = "files"
    """The files that they added, from the newest version, which still has all of them."""
    FEED = "feed"
    """The table's change feed, because they changed rows."""
    LOG = "log"
    """The files that they added, by the log, because later versions moved rows to other files."""


def way_to_read(found: NewVersions, context: LakeContext) -> Way:
    """Return how the rows of new versions must be read.

    Raise `UnsupportedFeature` if rows were changed and the table has no change feed, and
    `VersionNotFound` if vacuum deleted what tells which rows are new.
    """
    if found.before is None or not found.versions:
        return Way.FILES
    head = found.head
    with context.database.read() as session:
        lost = retired.removals_lost(session, head.table_id, found.versions)
        if lost is not None:
            raise _vacuumed(head, lost)
        definition = context.definition(session, head)
        changed = [v for v in found.versions if commits.full(session, head.table_id, v).removed]
        moves = commits.moves(session, head.table_id, found.versions[0], head.version)
        moved = [v for v in found.versions if moves and v < moves[-1]]
        if not changed:
            gone = next((v for v in moved if retired.is_retired(session, head.table_id, v)), None)
            if gone is not None:
                raise _vacuumed(head, gone)
            return Way.LOG if moved else Way.FILES
    if format_of(head).has_change_feed(definition):
        return Way.FEED
    what = (
        f"Rows of {head.name} were changed in version {changed[0]}, and it has no change feed that"
        " would tell which."
    )
    hint = (
        "Read it with changes(...) or whole(...); a Delta table may have"
        " delta.enableChangeDataFeed instead."
    )
    raise UnsupportedFeature(what, hint=hint, table=str(head.name), version=changed[0])


def _vacuumed(head: Head, version: int) -> VersionNotFound:
    what = (
        f"The changes of version {version} of {head.name} were vacuumed before the step read them:"
        " which of its rows are new is no longer known."
    )
    hint = "Read the table with whole(...), and give it a retention longer than runs are apart."
    return VersionNotFound(what, hint=hint, table=str(head.name), version=version)


def check_declared(session: Session, context: LakeContext, pipeline: Declaration) -> None:
    """Raise `SchemaMismatch` if a table differs from its declaration.

    A run does not change the format, partitioning or constraints of a table that exists, nor its
    columns unless the step or the table's policy says so: it would ignore a new column or
    constraint.
    """
    for step in pipeline.steps():
        head = heads.find(session, step.target)
        if head is None:
            continue
        definition = context.definition(session, head)
        evolves = schema_mode_of(step, head, definition) is not None
        found = _differences(step.table, head.format, definition, evolves=evolves)
        if found:
            raise _mismatch(step, found)


def schema_mode_of(step: Step, head: Head, definition: Definition) -> str | None:
    """Return the schema mode of a step, else that of the table's policy; None if it is `strict`.

    `overwrite` counts as `merge` for a step that does not overwrite the table.
    """
    chosen = step.schema_mode or effective_policy(head, definition).policy.schema_mode
    if chosen == "overwrite" and step.mode is not Mode.OVERWRITE:
        return "merge"
    return None if chosen == "strict" else chosen


def _differences(
    table: Mapping[str, Any], found_format: str, has: Definition, *, evolves: bool
) -> dict[str, str]:
    """Return descriptions of the differences, by column or option; ignore columns if it evolves."""
    if table["format"] != found_format:
        return {"format": f"format {table['format']} (the table is {found_format})"}
    by = table["partition_by"]
    asked = define(
        table["schema"],
        table["format"],
        partition_by=[by] if isinstance(by, str) else list(by),
        properties=dict(table["properties"] or {}),
        constraints=dict(table["constraints"] or {}),
        comment=table["comment"],
        guard=True,
    )
    out = {}
    for name, column in () if evolves else asked.schema.by_name.items():
        own = has.schema.by_name.get(name)
        if own is None:
            out[name] = f"{name} {column.type} (the table has no such column)"
        elif _spelled(own) != _spelled(column):
            out[name] = f"{name} {_spelled(column)} (the table has {_spelled(own)})"
    for name in () if evolves else has.schema.by_name:
        if name not in asked.schema.by_name:
            out[name] = f"no {name} (the table has {_spelled(has.schema.by_name[name])})"
    if asked.partitioning != has.partitioning:
        asks, has_them = (", ".join(d.partitioning) or "nothing" for d in (asked, has))
        out["partition_by"] = f"partition_by {asks} (the table has {has_them})"
    known = declared(has)
    for name, check in declared(asked).items():
        if known.get(name) != check:
            own_check = known.get(name, "none of this name")
            out[name] = f"constraint {name}: {check} (the table has {own_check})"
    return out


def _spelled(field: Field) -> str:
    return f"{field.type}{'' if field.nullable else ' not null'}"


def _mismatch(step: Step, found: Mapping[str, str]) -> SchemaMismatch:
    what = f"The step for {step.target} declares another table than there is:"
    hint = (
        "A run changes no table's definition. Declare the table as it is, or write into a new one."
    )
    return SchemaMismatch(
        f"{what} {'; '.join(found.values())}.",
        hint=hint,
        table=str(step.target),
        columns=list(found),
    )
