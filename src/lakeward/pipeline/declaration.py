"""A pipeline as it is declared: what each step reads, writes and expects. Nothing runs here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, TypeAlias

from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.model.names import TableName
from lakeward.pipeline.code import Code
from lakeward.pipeline.expectations import Expectations
from lakeward.pipeline.sources import Landing, New, Source, Whole

if TYPE_CHECKING:
    from lakeward.pipeline.outcome import RunResult
    from lakeward.pipeline.run import LakeLike, Observer

Function: TypeAlias = Callable[..., Any]
"""Takes a Spark DataFrame for each source, and returns one."""


class Mode(StrEnum):
    """What becomes of the rows that a step returns."""

    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"


@dataclass(frozen=True)
class Step:
    """One table and how its rows are made.

    Attributes:
        target: The table.
        function: Makes the rows.
        inputs: The function's parameters, each with its source.
        mode: Whether rows are appended, merged by key, or replace all others.
        key: Columns that tell rows apart, for `merge`.
        latest: A column by which the newest of several rows of one key is known.
        delete: A condition on the new rows: a row of that key goes.
        expectations: What the rows must be like.
        code: Where the function stands, and its hashes.
        table: How the table is made when it is missing, as `lake.create` takes it.
    """

    target: TableName
    function: Function
    inputs: Mapping[str, Source]
    mode: Mode
    key: tuple[str, ...]
    latest: str | None
    delete: str | None
    expectations: Expectations
    code: Code
    table: Mapping[str, Any] = field(default_factory=dict)

    def source_name(self, parameter: str) -> str:
        """By which the log knows how far this step got with a source."""
        source = self.inputs[parameter]
        what = source.path if isinstance(source, Landing) else str(source.table)
        return f"{self.target} <- {what}"

    @property
    def declared(self) -> dict[str, Any]:
        """Everything that was declared beside the function, for the hash of the code."""
        return {
            "inputs": {n: repr(s) for n, s in self.inputs.items()},
            "mode": self.mode.value,
            "key": list(self.key),
            "latest": self.latest,
            "delete": self.delete,
            "expectations": repr(self.expectations),
            "table": {n: str(v) for n, v in self.table.items()},
        }

    @property
    def watches(self) -> set[str]:
        """The parameters whose sources make it run: where all are `whole`, all of them."""
        fresh = {n for n, s in self.inputs.items() if isinstance(s, Landing | New)}
        return fresh or set(self.inputs)

    @property
    def reads(self) -> set[TableName]:
        """The tables that it looks at."""
        return {s.table for s in self.inputs.values() if isinstance(s, New | Whole)}


class Pipeline:
    """Steps from sources to tables. A run of all of them is one transaction.

    Args:
        name: By which the log knows what was taken in: it must not change.
    """

    def __init__(self, name: str) -> None:
        self.name = arguments.text(name, "name")
        self._steps: dict[TableName, Step] = {}

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, {len(self._steps)} steps)"

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
        constraints: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> Callable[[Function], Function]:
        """Declare how a table's rows are made, by a function whose defaults say from what.

        Args:
            target: The table; one that is missing is made, empty, before the first run.
            schema: Of the table, as `lake.create` takes it. A table that exists must have these
                columns, and the format, partitioning and constraints that are declared.
            mode: `append`; `merge` by key; or `overwrite` the whole table.
            key: Columns that tell rows apart, for `merge`.
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
            )
            return function

        return declare

    def steps(self) -> list[Step]:
        """The steps in the order in which they run: what is read comes after what writes it.

        Raises:
            InvalidInput: They wait for each other in a circle, or there are none.
        """
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

    def run(
        self,
        lake: LakeLike,
        spark: Any,
        *,
        landing: str | None = None,
        observe: Observer | None = None,
    ) -> RunResult:
        """Take in what is new, in one transaction over all tables.

        What was taken in is recorded in that transaction, so each input has its effect once,
        whatever dies and however often this is run. With nothing new, nothing is committed.

        Args:
            lake: Where the tables are.
            spark: A session that `lakeward.spark.session` made.
            landing: Where landing directories are; the working directory unless given.
            observe: Called with each step as it begins and ends.

        Raises:
            NotFound: There is no such landing directory.
            SchemaMismatch: A table is not what its step declares, or the rows do not fit it.
            StepFailed: A step raised an error of its own. Nothing was committed.
            ExpectationFailed: Rows that a step does not expect. Nothing was committed.
            ConstraintViolation: Rows that a table refuses. Nothing was committed.
            Conflict: Others were in the way each time it was tried. Nothing was committed.
        """
        from lakeward.pipeline.run import run

        return run(self, lake, spark, landing=landing, observe=observe)


def _inputs(function: Function, target: TableName) -> dict[str, Source]:
    found: dict[str, Source] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        source = parameter.default
        if not isinstance(source, Landing | New | Whole):
            what = f"Parameter {name} of the step for {target} does not say where it comes from."
            hint = f"Write {name}=landing(...), {name}=new(...) or {name}=whole(...)."
            raise InvalidInput(what, hint=hint, table=str(target))
        found[name] = source
    if not found:
        what = f"The step for {target} has no source, so it would never run."
        hint = "Give it a landing(...), new(...) or whole(...)."
        raise InvalidInput(what, hint=hint, table=str(target))
    return found


def _check_merge(
    table: TableName, mode: Mode, key: tuple[str, ...], latest: str | None, delete: str | None
) -> None:
    if mode is Mode.MERGE and not key:
        what = f"The step for {table} merges, and has no key."
        raise InvalidInput(what, hint="Give key=...", table=str(table))
    if mode is not Mode.MERGE and (key or latest or delete):
        what = f"The step for {table} does not merge, so key, latest and delete mean nothing."
        raise InvalidInput(what, hint="Give mode='merge', or leave them out.", table=str(table))
