"""What a run would do: which steps have something new, and what that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeward.errors import UnsupportedFeature
from lakeward.log import commits, heads, inputs
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.inputs import Cursor, InputFile
from lakeward.model.names import TableName
from lakeward.pipeline.arrivals import LandingDirectory
from lakeward.pipeline.declaration import Pipeline, Step
from lakeward.pipeline.sources import Landing, New
from lakeward.read.parts import Parts

_MANY = 2**31


@dataclass(frozen=True, slots=True)
class NewFiles:
    """Files of a landing directory that nobody took yet."""

    source: str
    directory: LandingDirectory
    files: tuple[InputFile, ...]
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
        tables: Tables of which it takes the new rows.
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


def plan(pipeline: Pipeline, parts: Parts, landing: str | None) -> list[PlannedStep]:
    """The steps that have something to do, in order.

    Raises:
        InvalidInput: A file that was taken in has changed.
        UnsupportedFeature: What others did to a table cannot be told row by row.
    """
    out: list[PlannedStep] = []
    written: set[TableName] = set()
    with parts.database.read() as session:
        for step in pipeline.steps():
            found = _planned(session, pipeline, step, written, landing)
            if found.has_news:
                written.add(step.target)
                out.append(found)
    return out


def _planned(
    session: Session, pipeline: Pipeline, step: Step, written: set[TableName], landing: str | None
) -> PlannedStep:
    files: dict[str, NewFiles] = {}
    tables: dict[str, NewVersions] = {}
    upstream = set()
    for name, source in step.inputs.items():
        known = step.source_name(name)
        if isinstance(source, Landing):
            directory = LandingDirectory(landing, source.path)
            fresh = directory.new(inputs.files(session, pipeline.name, known))
            files[name] = NewFiles(known, directory, tuple(fresh), source.schema)
        elif isinstance(source, New):
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
    # The first version of a table made it, and has no rows.
    return NewVersions(source, head, before, tuple(v for v in fresh if v > 0))


def check_readable(found: NewVersions, parts: Parts) -> bool:
    """Whether the new versions must be read from the change feed; False where files tell it all.

    Raises:
        UnsupportedFeature: Rows were changed and the table has no change feed.
    """
    if found.before is None:
        return False
    with parts.database.read() as session:
        definition = parts.definition(session, found.head)
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
