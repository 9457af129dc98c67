"""A lake's tables, and one of them in detail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words
from lakeward.cli.output.base import View
from lakeward.context import context_of
from lakeward.lake.lake import Lake
from lakeward.model.types import Field
from lakeward.read.snapshot import TableSnapshot, Totals


@dataclass(frozen=True, slots=True)
class TableLine:
    """A table in the list."""

    name: str
    format: str
    guarded: bool
    version: int
    timestamp: datetime
    totals: Totals
    location: str

    @classmethod
    def of(cls, source: TableSnapshot) -> TableLine:
        """A table as it is."""
        head = source.head
        return cls(
            source.name,
            head.format,
            head.guarded,
            source.version,
            source.timestamp,
            source.totals(),
            source.context.storage.uri(head.location),
        )

    def to_json(self) -> dict[str, Any]:
        """As a program sees it."""
        return {
            "name": self.name,
            "format": self.format,
            "guarded": self.guarded,
            "version": self.version,
            "timestamp": self.timestamp,
            "files": self.totals.files,
            "rows": self.totals.rows,
            "bytes": self.totals.bytes,
            "location": self.location,
        }


@dataclass(frozen=True, slots=True)
class TablesView(View):
    """All tables of a lake."""

    lake: str
    tables: tuple[TableLine, ...]

    @classmethod
    def of(cls, lake: Lake) -> TablesView:
        """The tables at one consistent cut."""
        return cls(
            context_of(lake).database.label,
            tuple(TableLine.of(snapshot) for snapshot in lake.snapshot()),
        )

    def to_json(self) -> dict[str, Any]:
        """`{"lake": …, "tables": […]}`."""
        return {"lake": self.lake, "tables": [t.to_json() for t in self.tables]}

    def to_text(self) -> Iterator[RenderableType]:
        """A table of tables."""
        if not self.tables:
            yield Text(f"The lake {self.lake} has no tables yet.")
            return
        yield words.grid(
            ["table", "format", "version", "rows", "files", "size", "committed"],
            (
                (
                    t.name,
                    t.format if t.guarded else f"{t.format}, open",
                    str(t.version),
                    words.number(t.totals.rows),
                    words.number(t.totals.files),
                    words.size(t.totals.bytes),
                    words.moment(t.timestamp),
                )
                for t in self.tables
            ),
            right=("version", "rows", "files", "size"),
        )


@dataclass(frozen=True, slots=True)
class TableView(View):
    """A table at a version."""

    line: TableLine
    uuid: str
    drift: str
    snapshot_id: int | None
    metadata_location: str | None
    columns: tuple[Field, ...]
    partition_by: tuple[str, ...]
    constraints: Mapping[str, str]
    properties: Mapping[str, str]
    protocol: Mapping[str, Any]
    comment: str | None
    newest: int

    @classmethod
    def of(cls, source: TableSnapshot) -> TableView:
        """A table as it is or was."""
        definition = source.definition
        return cls(
            TableLine.of(source),
            source.head.uuid,
            source.head.drift,
            source.snapshot_id,
            source.metadata_location,
            definition.schema.fields,
            tuple(definition.partitioning),
            definition.constraints,
            definition.properties,
            definition.protocol,
            definition.comment,
            source.head.version,
        )

    def to_json(self) -> dict[str, Any]:
        """The table, its schema and settings."""
        return {
            **self.line.to_json(),
            "newest_version": self.newest,
            "uuid": self.uuid,
            "drift": None if self.line.guarded else self.drift,
            "snapshot_id": self.snapshot_id,
            "metadata_location": self.metadata_location,
            "comment": self.comment,
            "schema": [
                {
                    "id": f.id,
                    "name": f.name,
                    "type": str(f.type),
                    "nullable": f.nullable,
                    "comment": f.comment,
                }
                for f in self.columns
            ],
            "partition_by": list(self.partition_by),
            "constraints": dict(self.constraints),
            "properties": dict(self.properties),
            "protocol": dict(self.protocol),
        }

    def to_text(self) -> Iterator[RenderableType]:
        """Facts first, then columns, checks and properties."""
        line = self.line
        yield words.heading(line.name)
        yield words.facts(self._facts())
        yield Text("")
        yield words.grid(
            ["column", "type", "null", "comment"],
            (
                (
                    f.name,
                    str(f.type),
                    "" if f.nullable else "not null",
                    f.comment or "",
                )
                for f in self.columns
            ),
        )
        if self.constraints:
            yield words.heading("checks")
            yield words.facts(self.constraints.items())
        if self.properties:
            yield words.heading("properties")
            yield words.facts(self.properties.items())

    def _facts(self) -> Iterator[tuple[str, RenderableType]]:
        line, totals = self.line, self.line.totals
        newest = "" if line.version == self.newest else f" (the newest is {self.newest})"
        yield "version", f"{line.version}{newest}, committed {words.moment(line.timestamp)}"
        rows = "rows unknown" if totals.rows is None else words.counted(totals.rows, "row")
        yield (
            "holds",
            f"{rows} in {words.counted(totals.files, 'file')}, {words.size(totals.bytes)}",
        )
        yield "format", f"{line.format}, {self._guard()}"
        if self.partition_by:
            yield "partitions", ", ".join(self.partition_by)
        if self.comment:
            yield "comment", self.comment
        yield "location", line.location
        if self.snapshot_id is not None:
            yield "snapshot", str(self.snapshot_id)
        if self.metadata_location is not None:
            yield "metadata", self.metadata_location

    def _guard(self) -> str:
        if self.metadata_location is not None:
            return "in the lake's catalog"
        return "guarded" if self.line.guarded else f"open to other writers (drift: {self.drift})"
