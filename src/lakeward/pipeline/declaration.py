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
"""A function that takes a Spark DataFrame for each source, and returns one."""


@dataclass(frozen=True, slots=True)
class Landing:
    """A directory to which new files are delivered; each file is read once.

    Attributes:
        path: The directory, relative to the run's landing directory unless it is a full path or
            URL.
        schema: The columns with which to read the files, in Spark's syntax; None: those of the
            files.
        missing_ok: Whether a directory that does not exist is treated as empty.
        kind: The kind of files.
    """

    path: str
    schema: str | None = None
    missing_ok: bool = False
    kind: FileKind = field(default_factory=FileKind)


@dataclass(frozen=True, slots=True)
class New:
    """The rows added to a table since the step last read it, including those of this run."""

    table: TableName


@dataclass(frozen=True, slots=True)
class Whole:
    """All rows of a table as the run sees it, with the changes of this run."""

    table: TableName


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a table since the step last read it, including those of this run.

    `key` has the columns by which a deleted and an inserted row are paired to an update.
    """

    table: TableName
    key: tuple[str, ...] = ()


StepSource: TypeAlias = Landing | New | Whole | Changes


class Mode(StrEnum):
    """How the rows that a step returns are written to its table."""

    APPEND = "append"
    MERGE = "merge"
    APPLY = "apply"
    OVERWRITE = "overwrite"


@dataclass(frozen=True)
class Step:
    """One table and the function that computes its rows; see `Pipeline.step`.

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
        """Return the name under which the log records a source of this step."""
        source = self.inputs[parameter]
        what = source.path if isinstance(source, Landing) else str(source.table)
        return f"{self.target} <- {what}"

    @property
    def declared(self) -> dict[str, Any]:
        """All declared options beside the function, for the hash of the code."""
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
        """The parameters whose sources cause the step to run: all of them if all are `whole`."""
        fresh = {n for n, s in self.inputs.items() if isinstance(s, Landing | New | Changes)}
        return fresh or set(self.inputs)

    @property
    def reads(self) -> set[TableName]:
        """The tables that the step reads."""
        return {s.table for s in self.inputs.values() if not isinstance(s, Landing)}

    @property
    def rejects(self) -> bool:
        """Whether some rows of the step's sources may not fit the declared columns."""
        return any(isinstance(s, Landing) and s.kind.is_text for s in self.inputs.values())

    @property
    def has_key(self) -> bool:
        """Whether the step's rows change its table by key."""
        return self.mode in (Mode.MERGE, Mode.APPLY)

    @property
    def marks_deletes(self) -> bool:
        """Whether some of the step's rows may delete the row of their key."""
        return self.delete is not None or self.mode is Mode.APPLY


class Declaration:
    """The steps of a pipeline; the log records consumed inputs under the pipeline's name."""

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
        """Declare how a table's rows are computed, by a function whose defaults are its sources.

        Args:
            target: The table; if it is missing, it is created, empty, before the first run.
            schema: The table's schema, as for `lake.create`. A table that exists must have these
                columns, and the format, partitioning and constraints that are declared.
            mode: `append`; `merge` by key; `apply` changes by key; or `overwrite` the whole table.
            key: Columns that identify a row, for `merge` and `apply`.
            latest: For `merge`, a column that grows with each change of a row: of several rows of
                one key the one with the greatest value is written, unless the table's row is newer.
                Without it, the run fails if rows of one key differ.
            delete: For `merge`, a SQL condition: new rows for which it is true delete the table's
                row of the same key.
            expect: Conditions by name. If one is not true for a row, the run fails and commits
                nothing.
            drop: Conditions by name. Rows for which one is not true are left out and counted.
            warn: Conditions by name. Rows for which one is not true are counted.
            format: `delta` or `iceberg`.
            partition_by: As in `lake.create`.
            properties: As in `lake.create`.
            constraints: As in `lake.create`.
            comment: As in `lake.create`.
            schema_mode: `merge`: columns that the rows have and the table lacks are added, and
                types are widened; `overwrite`, for the mode of that name: the table's columns are
                replaced by those of the rows. If None, the table's policy decides.

        Raises:
            InvalidInput: The declaration is contradictory, or another step writes the table.
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
        """Return the steps in the order in which they run: readers of a table after its writer."""
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
    """Declare a source: the new files of a directory, each read exactly once.

    Files whose names begin with `.` or `_` are ignored: rename a file when it is complete. Files of
    other formats are not read; the run's report names them. Rows of CSV and JSON files that do not
    fit `schema` are written to the table `<target>__rejected`.

    Args:
        path: Relative to the landing directory of the run, or a full path or URL.
        schema: The columns to read, in Spark's syntax (`id BIGINT, amount DOUBLE`); a column that a
            file lacks is null. If None, the columns of all new files together.
        missing_ok: Treat a directory that does not exist as empty; otherwise it is an error.
        format: `parquet` (`.parquet`), `csv` (`.csv`) or `json` (JSON lines: `.json`, `.jsonl` or
            `.ndjson`); text files may be compressed (`.gz`). CSV and JSON need a schema.
        header: Whether the first line of each CSV file has the names of its columns, in any order.
            If not, the columns are those of the schema, in its order.
        delimiter: The character between the fields of a CSV file.

    Raises:
        InvalidInput: The format is unknown, the delimiter is not one character, or CSV or JSON has
            no schema.
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
    """Declare a source: the rows added to a table since the step last read it.

    Of a table that an earlier step of the same run writes, these are the rows that the step wrote.
    Commits of others since the last run are read from the table's change feed, or from the files
    they added if nothing was removed. Updated rows have their new values; deleted rows are not
    included. The values before an update are not included either, so an aggregate by group would
    keep its old total for the group that a row has left: use `changes`, which has these values.
    """
    return New(TableName.parse(table))


def changes(table: str, *, key: str | Sequence[str] = ()) -> Changes:
    """Declare a source: the rows inserted, updated and deleted since the step last read a table.

    Tables of both formats have changes, with or without a change feed. Rows have the columns of the
    table, `_change_type` (`insert`, `update_preimage`, `update_postimage` or `delete`) and
    `_commit_version`, which is null for changes of an earlier step of the same run: they have no
    version yet. The first time all rows of the table are read as inserted rows. `mode="apply"`
    applies such rows to a table by key.

    Args:
        table: The table.
        key: Columns that identify a row: a deleted and an inserted row of one key and commit are
            the two images of an update. Without a key only Delta's change feed has updates.
    """
    names = (key,) if isinstance(key, str) else tuple(arguments.texts(key, "key"))
    return Changes(TableName.parse(table), names)


def whole(table: str) -> Whole:
    """Declare a source: a table as the run sees it, with the changes of this run's earlier steps.

    A step with only such sources runs when one of these tables has changed.
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
