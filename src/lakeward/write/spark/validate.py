"""Validates rows that Spark staged, by the same checks as for rows from Python, in Spark.

Besides a table's checks and its required columns, partition values that are derived from a column
are compared with the rows: a session in another zone computes other days than the lake reads by.

Only the rows that the transaction adds are checked, in one pass over the columns that the checks
use. The driver gets the number of rows that violate each check, and a few of them. Checks that the
statistics of the new files already prove, such as that no value is negative, are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lakeward.engines.spark.rows import load_by_id, sample, violations
from lakeward.errors import ConstraintViolation
from lakeward.formats.delta.generated import expression
from lakeward.model.constraints import lenient_ids, plain_checks
from lakeward.model.definition import Definition
from lakeward.model.derived_values import agrees
from lakeward.model.expressions.nodes import Expression
from lakeward.model.expressions.render import render
from lakeward.model.expressions.where import parse
from lakeward.model.file import DataFile
from lakeward.model.quoting import identifier
from lakeward.model.types import Field
from lakeward.read.plan import file_always_matches
from lakeward.write.branch.base import Branch, NewRows
from lakeward.write.stage.checks import SAMPLE
from lakeward.write.stage.lacking import may_lack

if TYPE_CHECKING:
    from lakeward.engines.spark.workspace import DataFrame


_ZONE: Final = "Write with a session whose spark.sql.session.timeZone is UTC, or with tx.append. "


def check_rows(
    session: Any,
    branch: Branch,
    definition: Definition,
    added: Sequence[DataFile],
) -> None:
    """Raise `ConstraintViolation` if rows that a branch adds violate required columns or checks.

    Derived partition values must be those of the rows, too.
    """
    new = [f for f in added if f.path.startswith(f"{branch.directory}/")]
    later = lenient_ids(definition)
    required = [
        f for f in definition.schema if not f.nullable and f.id not in later and may_lack(f, new)
    ]
    open_checks = {
        name: text
        for name, text in plain_checks(definition).items()
        if not _proven(parse(text, definition.schema), new)
    }
    derived = _derived(definition, new, str(branch.head.name))
    if open_checks or required or derived:
        rows = load(session, branch.new_rows(new))
        checks = _checks(open_checks, definition) | _present(required) | derived
        _refuse(rows, checks, str(branch.head.name))


def refuse(rows: DataFrame, checks: Mapping[str, str], definition: Definition, table: str) -> None:
    """Raise `ConstraintViolation` if rows violate checks, given by name."""
    _refuse(rows, _checks(checks, definition), table)


def refuse_missing(rows: DataFrame, column: str, sql: str, table: str) -> None:
    """Raise `ConstraintViolation` if a column has missing values, by a Spark condition."""
    _refuse(rows, {f"{column} is not null": _Check(sql, sql, column)}, table)


def load(session: Any, new: NewRows) -> DataFrame:
    """Return the rows of new files as a DataFrame."""
    reader = session.read.format(new.source)
    if new.by_id is None:
        return reader.load(new.addresses)
    return load_by_id(session, new.addresses, new.by_id)


@dataclass(frozen=True, slots=True)
class _Check:
    """A condition that every row must satisfy: a required column, or a check of the table."""

    text: str  # as its author wrote it
    sql: str  # as Spark reads it
    # the column, if the condition only requires that it is not null, or generated
    column: str | None = None
    is_generated: bool = False  # whether the column's values must be those of an expression

    def violated(self, name: str, table: str, count: int) -> str:
        """Return the message for a number of rows that violate the check."""
        if self.is_generated:
            many = "1 row has" if count == 1 else f"{count} rows have"
            column = f"Column {self.column} of {table}"
            return f"{column} is generated as {self.text}, and {many} another value."
        if self.column is not None:
            missing = "1 value is" if count == 1 else f"{count} values are"
            return f"Column {self.column} of {table} is required, and {missing} missing."
        violate = "1 row violates" if count == 1 else f"{count} rows violate"
        return f"Check {name} ({self.text}) of {table}: {violate} it."


def _checks(texts: Mapping[str, str], definition: Definition) -> dict[str, _Check]:
    schema = definition.schema
    return {name: _Check(text, render(parse(text, schema))) for name, text in texts.items()}


def _present(required: Iterable[Field]) -> dict[str, _Check]:
    # No check of a table can have such a name.
    return {
        f"{f.name} is not null": _Check(sql, sql, f.name)
        for f in required
        for sql in (f"{identifier(f.name)} IS NOT NULL",)
    }


def _derived(definition: Definition, new: Sequence[DataFile], table: str) -> dict[str, _Check]:
    """Return checks of the derived partition values that the files' statistics do not prove."""
    out: dict[str, _Check] = {}
    for own_id in definition.partition_by:
        found = definition.derived.get(own_id)
        if found is None or not found.utc:
            # Others may have partitioned rows of such a table in any zone; readers expect that.
            continue
        found_right = {agrees(file, own_id, definition) for file in new if own_id in file.partition}
        source, name = definition.schema.by_id[found.source], found.name
        term = found.transform.of(source.name)
        if own_id < 0:
            if False in found_right:
                what = f"Files of {table} are in partitions of {term} that their rows are not in."
                raise ConstraintViolation(what, hint="Nothing was committed.", table=table)
        elif found_right - {True}:
            sql = f"({expression(found.transform, source)}) <=> {identifier(name)}"
            out[f"{name} = {term}"] = _Check(term, sql, name, is_generated=True)
    return out


def _proven(check: Expression, files: Iterable[DataFile]) -> bool:
    """Return whether the statistics of files prove that a check holds for all their rows."""
    return all(file_always_matches(check, file) for file in files)


def _refuse(rows: DataFrame, checks: Mapping[str, _Check], table: str) -> None:
    counts = violations(rows, {name: check.sql for name, check in checks.items()})
    if not counts:
        return
    name = max(counts, key=lambda n: counts[n])
    check, count = checks[name], counts[name]
    shown = sample(rows, check.sql, SAMPLE)
    others = sorted(set(counts) - {name})
    more = f" Also violated: {', '.join(others)}." if others else ""
    what = check.violated(name, table, count) + more
    zone = _ZONE if check.is_generated else ""
    raise ConstraintViolation(
        what,
        hint=f"Nothing was committed. {zone}First of them: {shown[0] if shown else 'gone'}",
        table=table,
        constraint=name,
        expression=check.text,
        count=count,
        counts=counts,
        sample=shown,
        **({} if check.column is None else {"column": check.column}),
    )
