"""Validation of what Spark staged: the same checks as for rows from Python, run where the rows are.

Only the rows that the transaction adds are looked at, in one pass over the columns that the checks
name. What comes to the driver is how many rows violate each check, and a few of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakeward.engines.spark.rows import sample, violations
from lakeward.errors import ConstraintViolation
from lakeward.formats.delta.changes import difference
from lakeward.formats.delta.publication import commit_path
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile
from lakeward.model.render import render
from lakeward.model.where import parse
from lakeward.read.parts import Parts
from lakeward.write.branch import DeltaBranch
from lakeward.write.iceberg_branch import IcebergBranch
from lakeward.write.validate import SAMPLE

if TYPE_CHECKING:
    from lakeward.engines.spark.workspace import DataFrame


def check_rows(
    parts: Parts,
    session: Any,
    branch: DeltaBranch | IcebergBranch,
    definition: Definition,
    added: Sequence[DataFile],
) -> None:
    """Pass when the rows that a branch adds satisfy a table's checks.

    Args:
        parts: The lake's.
        session: Of Spark.
        branch: Where the rows are.
        definition: The table's, with its checks.
        added: What the branch comes to.

    Raises:
        ConstraintViolation: Names the check, counts the rows and shows some of them.
    """
    new = [f for f in added if f.path.startswith(f"{branch.directory}/")]
    if not definition.constraints or not new:
        return
    rows = _rows(parts, session, branch, definition, new)
    refuse(rows, definition.constraints, definition, str(branch.head.name))


def refuse(rows: DataFrame, checks: Any, definition: Definition, table: str) -> None:
    """Pass when rows satisfy checks.

    Args:
        rows: To look at.
        checks: SQL boolean expressions by name.
        definition: The table's.
        table: Its name.

    Raises:
        ConstraintViolation: They do not.
    """
    spelled = {name: render(parse(text, definition.schema)) for name, text in checks.items()}
    counts = violations(rows, spelled)
    if not counts:
        return
    name = max(counts, key=lambda n: counts[n])
    shown = sample(rows, spelled[name], SAMPLE)
    count = counts[name]
    others = sorted(set(counts) - {name})
    more = f" Also violated: {', '.join(others)}." if others else ""
    violate = "1 row violates" if count == 1 else f"{count} rows violate"
    what = f"Check {name} ({checks[name]}) of {table}: {violate} it.{more}"
    raise ConstraintViolation(
        what,
        hint=f"Nothing was committed. First of them: {shown[0] if shown else 'gone'}",
        table=table,
        constraint=name,
        expression=checks[name],
        count=count,
        counts=counts,
        sample=shown,
    )


def _rows(
    parts: Parts,
    session: Any,
    branch: DeltaBranch | IcebergBranch,
    definition: Definition,
    new: Sequence[DataFile],
) -> DataFrame:
    """The rows of new files alone, as the table's columns."""
    head, storage = branch.head, parts.storage
    root = storage.uri(head.location)
    if isinstance(branch, IcebergBranch):
        # Spark writes every column into the files, partition columns too.
        return session.read.parquet(*(f"{root}/{f.path}" for f in new))
    place = f"{head.location}/{branch.directory}/_check"
    # A log of the new files alone, so that mapped columns and deletion vectors are honoured.
    task, tables = difference(head, definition, (), new, root=root, place=place)
    for where, data in tables:
        if where == task.after:
            storage.put(commit_path(where, 0), data)
    return session.read.format("delta").load(storage.uri(task.after))
