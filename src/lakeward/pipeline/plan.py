"""What a run would do: which steps have something new, and what that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.errors import UnsupportedFeature
from lakeward.log import commits, heads, inputs
from lakeward.log import files as logged
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.inputs import Cursor, InputFile
from lakeward.model.names import TableName
from lakeward.pipeline.arrivals import Arrivals, LandingDirectory
from lakeward.pipeline.declaration import Pipeline, Step
from lakeward.pipeline.declared import check_declared
from lakeward.pipeline.notices import SAMPLE, Notice, counted, named
from lakeward.pipeline.sources import Landing

_MANY = 2**31


@dataclass(frozen=True, slots=True)
class NewFiles:
    """Files of a landing directory that nobody took yet.

    Attributes:
        source: By which the log knows the directory.
        directory: Where they are.
        files: The new ones.
        schemas: The columns of each, by path.
        schema: What to read them as, where that was declared.
    """

    source: str
    directory: LandingDirectory
    files: tuple[InputFile, ...]
    schemas: Mapping[str, pa.Schema]
    schema: str | None


@dataclass(frozen=True, slots=True)
class NewVersions:
    """What others did to a table since a step looked last.

    Attributes:
        source: By which the log knows it.
        head: The table now.
        before: How far the step got; None where it never looked.
        versions: The versions that are new, oldest first.
    """

    source: str
    head: Head
    before: Cursor | None
    versions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step with what is new for it, by parameter.

    Attributes:
        step: As declared.
        files: New files of landing directories.
        tables: Tables of which it takes the new rows, or whose changes make it run.
        upstream: Parameters that get the rows of an earlier step of the same run.
    """

    step: Step
    files: Mapping[str, NewFiles] = field(default_factory=dict)
    tables: Mapping[str, NewVersions] = field(default_factory=dict)
    upstream: frozenset[str] = frozenset()

    @property
    def has_news(self) -> bool:
        """Whether it has anything to do."""
        fresh = any(f.files for f in self.files.values())
        return fresh or bool(self.upstream) or any(t.versions for t in self.tables.values())


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would do.

    Attributes:
        steps: The steps that have something to do, in order.
        notices: What landing directories have beside files that can be taken.
    """

    steps: tuple[PlannedStep, ...]
    notices: tuple[Notice, ...]


def plan(pipeline: Pipeline, context: LakeContext, landing: str | None) -> Plan:
    """What a run would do now.

    Raises:
        NotFound: There is no such landing directory.
        SchemaMismatch: A table is not what its step declares.
        InvalidInput: A file that was taken in has changed, or a new one is damaged.
        UnsupportedFeature: What others did to a table cannot be told row by row.
    """
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
    pipeline: Pipeline,
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
            directory = LandingDirectory(landing, source.path, missing_ok=source.missing_ok)
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
    fresh = [c.version for c in reversed(found) if c.info.transaction_id != own]
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
            f"{who} of {directory} not taken, because only .parquet files are read:"
            f" {named(found.not_taken)}."
        )
        sample = found.not_taken[:SAMPLE]
        out.append(Notice("files_not_taken", table, message, len(found.not_taken), sample))
    return out


def check_readable(found: NewVersions, context: LakeContext) -> bool:
    """Whether the new versions must be read from the change feed; False where files tell it all.

    Raises:
        UnsupportedFeature: Rows were changed and the table has no change feed.
    """
    if found.before is None:
        return False
    with context.database.read() as session:
        definition = context.definition(session, found.head)
        changed = [
            v for v in found.versions if commits.full(session, found.head.table_id, v).removed
        ]
    if not changed:
        return False
    if definition.properties.get("delta.enableChangeDataFeed") == "true":
        return True
    what = (
        f"Rows of {found.head.name} were changed in version {changed[0]}, and it has no change"
        " feed that would tell which."
    )
    hint = "Set delta.enableChangeDataFeed on the table, or read it with whole(...)."
    raise UnsupportedFeature(what, hint=hint, table=str(found.head.name), version=changed[0])
