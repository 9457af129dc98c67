"""The declaration of a pipeline: what each step reads, writes and expects. Nothing runs here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeAlias

from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.model.constraints import Constraint
from lakeward.model.evolution.merging import SchemaMode
from lakeward.model.names import TableName
from lakeward.pipeline.code import Code
from lakeward.pipeline.expectations import Expectations
from lakeward.pipeline.file_kinds import FileFormat, FileKind

Function: TypeAlias = Callable[..., Any]
"""Takes a Spark DataFrame for each source, and returns one."""


@dataclass(frozen=True, slots=True)
class Landing:
    """A directory that gets new files; each file is taken in once.

    Attributes:
        path: The directory, below the run's landing place unless it is a whole path or URL.
        schema: What to read the files as, as Spark spells it; their own schema when None.
        missing_ok: A directory that does not exist is no error.
        kind: What kind of files.
    """

    path: str
    schema: str | None = None
    missing_ok: bool = False
    kind: FileKind = field(default_factory=FileKind)


@dataclass(frozen=True, slots=True)
class New:
    """The rows that came into a table since the step looked last, this run's own among them."""

    table: TableName


@dataclass(frozen=True, slots=True)
class Whole:
    """A table as the run sees it, this run's own changes among it."""

    table: TableName


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a table since the step looked last, this run's own among them.

    `key` has the columns by which a deleted and an inserted row are one update.
    """

    table: TableName
    key: tuple[str, ...] = ()


StepSource: TypeAlias = Landing | New | Whole | Changes


class Mode(StrEnum):
    """What becomes of the rows that a step returns."""

    APPEND = "append"
    MERGE = "merge"
    APPLY = "apply"
    OVERWRITE = "overwrite"


@dataclass(frozen=True)
class Step:
    """One table and the function that makes its rows; see `Pipeline.step`.

    `inputs` are the function's parameters with their sources; `table` has the arguments of
    `lake.create` for a missing table.
    """

    target: TableName
    function: Function
    inputs: Mapping[str, StepSource]
    mode: Mode
    key: tuple[str, ...]
    latest: str | None
    delete: str | None
    expectations: Expectations
    code: Code
    table: Mapping[str, Any] = field(default_factory=dict)
    schema_mode: str | None = None

    def source_name(self, parameter: str) -> str:
        """The log's name for a source of this step."""
        source = self.inputs[parameter]
        what = source.path if isinstance(source, Landing) else str(source.table)
        return f"{self.target} <- {what}"

    @property
    def declared(self) -> dict[str, Any]:
        """All that was declared beside the function, for the hash of the code."""
        return {
            "inputs": {n: repr(s) for n, s in self.inputs.items()},
            "mode": self.mode.value,
            "key": list(self.key),
            "latest": self.latest,
            "delete": self.delete,
            "expectations": repr(self.expectations),
            "table": {n: str(v) for n, v in self.table.items()},
            **({} if self.schema_mode is None else {"schema_mode": self.schema_mode}),
        }

    @property
    def watches(self) -> set[str]:
        """The parameters whose sources make the step run: all of them where all are `whole`."""
        fresh = {n for n, s in self.inputs.items() if isinstance(s, Landing | New | Changes)}
        return fresh or set(self.inputs)

    @property
    def reads(self) -> set[TableName]:
        """The tables that it reads."""
        return {s.table for s in self.inputs.values() if not isinstance(s, Landing)}

    @property
    def rejects(self) -> bool:
        """Whether rows of its sources may not be what is declared."""
        return any(isinstance(s, Landing) and s.kind.is_text for s in self.inputs.values())

    @property
    def has_key(self) -> bool:
        """Whether its rows change the table by key."""
        return self.mode in (Mode.MERGE, Mode.APPLY)

    @property
    def marks_deletes(self) -> bool:
        """Whether some of its rows may delete the row of their key."""
        return self.delete is not None or self.mode is Mode.APPLY


class Declaration:
    """The steps of a pipeline; the log knows by its name what was taken in."""

    def __init__(self, name: str) -> None:
        self.name = arguments.text(name, "name")
        self._steps: dict[TableName, Step] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {len(self._steps)} steps)"

    def step(
        self,
        target: str,
        *,
        schema: Any,
        mode: str = "append",
        key: str | Sequence[str] = (),
        latest: str | None = None,
        delete: str | None = None,
        expect: Mapping[str, str] | None = None,
        drop: Mapping[str, str] | None = None,
        warn: Mapping[str, str] | None = None,
        format: str = "delta",  # noqa: A002  the name users know
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        constraints: Mapping[str, str | Constraint] | None = None,
        comment: str | None = None,
        schema_mode: str | None = None,
    ) -> Callable[[Function], Function]:
        """Declare how a table's rows are made, by a function whose defaults say from what.

        Args:
            target: The table; one that is missing is made, empty, before the first run.
            schema: Of the table, as `lake.create` takes it. A table that exists must have these
                columns, and the format, partitioning and constraints that are declared.
            mode: `append`; `merge` by key; `apply` changes by key; or `overwrite` the whole table.
            key: Columns that tell rows apart, for `merge` and `apply`.
            latest: For `merge`, a column that grows with each change of a row: of several rows of
                one key the one with the greatest value counts, and an older one changes nothing.
                Without it, rows of one key that differ end the run.
            delete: For `merge`, a SQL condition: new rows for which it is true delete theirs.
            expect: Conditions by name. A row for which one is not true ends the run; nothing of it
                is committed.
            drop: Conditions by name. Rows for which one is not true are left out and counted.
            warn: Conditions by name. Rows for which one is not true are counted.
            format: `delta` or `iceberg`.
            partition_by: As in `lake.create`.
            properties: As in `lake.create`.
            constraints: As in `lake.create`.
            comment: As in `lake.create`.
            schema_mode: `merge`: columns that the rows have and the table lacks are added, and
                types are widened; `overwrite`, for the mode of that name: the table gets the
                columns of the rows. Unless given, the table's policy decides.

        Raises:
            InvalidInput: What was declared makes no sense.
        """
        table = TableName.parse(target)
        if table in self._steps:
            what = f"Two steps of {self.name} write {table}."
            raise InvalidInput(what, hint="Make one of them.", table=str(table))
        names = (key,) if isinstance(key, str) else tuple(key)
        chosen = arguments.choice(mode, Mode, "mode")
        _check_merge(table, chosen, names, latest, delete)
        _check_schema_mode(table, chosen, schema_mode)
        expectations = Expectations.of(expect or {}, drop or {}, warn or {}, str(table))

        def declare(function: Function) -> Function:
            self._steps[table] = Step(
                table,
                function,
                _inputs(function, table),
                chosen,
                names,
                latest,
                delete,
                expectations,
                Code.of(function),
                {
                    "schema": schema,
                    "format": format,
                    "partition_by": partition_by,
                    "properties": properties,
                    "constraints": constraints,
                    "comment": comment,
                },
                schema_mode,
            )
            return function

        return declare

    def steps(self) -> list[Step]:
        """The steps in the order in which they run: a table's reader after its writer."""
        if not self._steps:
            what = f"The pipeline {self.name} has no steps."
            raise InvalidInput(what, hint="Declare one with @pipeline.step(...).")
        graph = {t: sorted(s.reads & set(self._steps)) for t, s in self._steps.items()}
        own = [t for t, read in graph.items() if t in read]
        if own:
            what = f"The step for {own[0]} reads the table that it writes."
            hint = "Merge by key instead, or read the table in another pipeline."
            raise InvalidInput(what, hint=hint, table=str(own[0]))
        try:
            order = TopologicalSorter(graph).static_order()
            return [self._steps[table] for table in order]
        except CycleError as error:
            circle = " <- ".join(str(t) for t in error.args[1])
            what = f"Steps of {self.name} wait for each other: {circle}."
            raise InvalidInput(what) from error


def landing(
    path: str,
    *,
    schema: str | None = None,
    missing_ok: bool = False,
    format: str = "parquet",  # noqa: A002  the name users know
    header: bool = True,
    delimiter: str = ",",
) -> Landing:
    """New files of a directory, each of them exactly once.

    Files whose names begin with `.` or `_` are left alone: give a file its name when it is whole.
    Files of other formats are not read; the run's report names them. Rows of CSV and JSON files
    that are not what `schema` says go to the table `<target>__rejected`.

    Args:
        path: Below the landing place that the run is given, or a whole path or URL.
        schema: What to read the files as, in Spark's words (`id BIGINT, amount DOUBLE`), so that
            one that lacks a column gives nulls. When not given, the columns of all new files
            together.
        missing_ok: A directory that does not exist has no files. It is an error otherwise.
        format: `parquet` (`.parquet`), `csv` (`.csv`) or `json` (JSON lines: `.json`, `.jsonl` or
            `.ndjson`); text files may be compressed (`.gz`). CSV and JSON need a schema.
        header: Whether the first line of each CSV file names its columns, which may come in any
            order. They are those of the schema, in its order, otherwise.
        delimiter: What is between the fields of a CSV file: one character.

    Raises:
        InvalidInput: A format that there is none of, or CSV or JSON without a schema.
    """
    arguments.text(path, "path")
    kind = FileKind(
        arguments.choice(format, FileFormat, "format"),
        arguments.flag(header, "header"),
        arguments.text(delimiter, "delimiter"),
    )
    if len(kind.delimiter) != 1:
        what = f"The delimiter {delimiter!r} is not one character."
        raise InvalidInput(what, parameter="delimiter")
    if kind.is_text and schema is None:
        what = f"The columns of {kind.format.value} files in {path} are not declared."
        hint = "Give landing(..., schema='id BIGINT, name STRING')."
        raise InvalidInput(what, hint=hint, parameter="schema")
    arguments.optional_text(schema, "schema")
    arguments.flag(missing_ok, "missing_ok")
    return Landing(path.rstrip("/") or path, schema, missing_ok, kind)


def new(table: str) -> New:
    """The rows that came into a table since the step looked last.

    Of a table that an earlier step of the same run writes, these are the rows that it wrote. What
    others committed since the last run comes from the table's change feed, or from the files they
    added where nothing was removed; updated rows come as they are now, deleted rows do not come.
    The values that rows had before do not come either, so the group that a row has left would keep
    its old total: use `changes`, which has them.
    """
    return New(TableName.parse(table))


def changes(table: str, *, key: str | Sequence[str] = ()) -> Changes:
    """The rows that were inserted, updated and deleted in a table since the step looked last.

    Tables of both formats have changes, with or without a change feed. Rows have the columns of the
    table, `_change_type` (`insert`, `update_preimage`, `update_postimage` or `delete`) and
    `_commit_version`, which is null for what an earlier step of the same run did: it has no version
    yet. The first time all rows of the table come as inserted ones. `mode="apply"` applies such
    rows to a table by key.

    Args:
        table: The table.
        key: Columns that tell rows apart: a deleted and an inserted row of one key and commit are
            the two images of an update. Without it only a change feed of Delta has updates.
    """
    names = (key,) if isinstance(key, str) else tuple(arguments.texts(key, "key"))
    return Changes(TableName.parse(table), names)


def whole(table: str) -> Whole:
    """A table as the run sees it, with what earlier steps of the same run did to it.

    A step that has no other sources runs when one of these tables has changed.
    """
    return Whole(TableName.parse(table))


def _inputs(function: Function, target: TableName) -> dict[str, StepSource]:
    found: dict[str, StepSource] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        source = parameter.default
        if not isinstance(source, Landing | New | Whole | Changes):
            what = f"Parameter {name} of the step for {target} does not say where it comes from."
            hint = (
                f"Write {name}=landing(...), {name}=new(...), {name}=changes(...) or"
                f" {name}=whole(...)."
            )
            raise InvalidInput(what, hint=hint, table=str(target))
        found[name] = source
    if not found:
        what = f"The step for {target} has no source, so it would never run."
        hint = "Give it a landing(...), new(...), changes(...) or whole(...)."
        raise InvalidInput(what, hint=hint, table=str(target))
    followed = [s.table for s in found.values() if isinstance(s, New | Changes)]
    twice = next((t for t in followed if followed.count(t) > 1), None)
    if twice is not None:
        what = f"The step for {target} has two sources that follow {twice}."
        hint = "Keep one of them: the step has one position in a table."
        raise InvalidInput(what, hint=hint, table=str(target))
    return found


def _check_merge(
    table: TableName, mode: Mode, key: tuple[str, ...], latest: str | None, delete: str | None
) -> None:
    if mode in (Mode.MERGE, Mode.APPLY) and not key:
        does = "merges" if mode is Mode.MERGE else "applies changes"
        what = f"The step for {table} {does}, and has no key."
        raise InvalidInput(what, hint="Give key=...", table=str(table))
    if mode is Mode.APPLY and (latest or delete):
        what = f"The step for {table} applies changes, so latest and delete mean nothing."
        hint = "The changes say what is deleted and in which order: leave them out."
        raise InvalidInput(what, hint=hint, table=str(table))
    if mode not in (Mode.MERGE, Mode.APPLY) and (key or latest or delete):
        what = f"The step for {table} does not merge, so key, latest and delete mean nothing."
        raise InvalidInput(what, hint="Give mode='merge', or leave them out.", table=str(table))


def _check_schema_mode(table: TableName, mode: Mode, schema_mode: str | None) -> None:
    if schema_mode is None:
        return
    chosen = arguments.choice(schema_mode, SchemaMode, "schema_mode")
    if chosen is SchemaMode.OVERWRITE and mode is not Mode.OVERWRITE:
        what = f"The step for {table} keeps rows, so it cannot replace the table's columns."
        hint = "Give mode='overwrite', or schema_mode='merge'."
        raise InvalidInput(what, hint=hint, table=str(table))
