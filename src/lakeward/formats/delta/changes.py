"""The difference of rows between two versions, as a task that any engine can do.

The task consists of three small tables, each of which is only a log: one lists the removed files,
one the added files, and an empty one takes the rows by which these differ, each with the kind of
its change. Files that both versions have are not read. The engine reads the first two and appends
to the third; it handles mapped columns, deletion vectors and partitions as in any table.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from lakeward.formats.delta.branch import absolute, branch_definition
from lakeward.formats.delta.mapping import MAPPED_ID
from lakeward.formats.delta.publication import add, metadata
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.schema import Schema
from lakeward.model.types import Field, Primitive

CHANGE_TYPE: Final = "_change_type"
INSERTED: Final = "insert"
DELETED: Final = "delete"
UPDATED_FROM: Final = "update_preimage"
UPDATED_TO: Final = "update_postimage"
_MAPPING: Final = "delta.columnMapping."
_MAX_ID: Final = "delta.columnMapping.maxColumnId"


@dataclass(frozen=True, slots=True)
class Difference:
    """Two tables to compare, and one for the rows by which they differ.

    A row that one table has n times more often than the other is written n times.

    Attributes:
        before: Address of the table of removed rows.
        after: Address of the table of added rows.
        target: Address of the table that gets the rows: the columns of both, and `_change_type`,
            which is `delete` for rows of `before` and `insert` for rows of `after`.
        columns: The names of the columns of both tables, in order.
    """

    before: str
    after: str
    target: str
    columns: tuple[str, ...]


def difference(
    head: Head,
    definition: Definition,
    removed: Iterable[LoggedFile],
    added: Iterable[DataFile],
    *,
    root: str,
    place: str,
) -> tuple[Difference, list[tuple[str, bytes]]]:
    """Return the task, and for each of its tables the directory and the first commit's bytes.

    The tables are created below the directory `place`; `root` is the table's full address, and
    `definition` is the one after the change.
    """
    plain = _plain(branch_definition(definition))
    marked = with_change_type(plain)
    # The task may have been done before, for a commit that failed.
    token = secrets.token_hex(4)
    task = Difference(
        f"{place}/_before/{token}",
        f"{place}/_after/{token}",
        f"{place}/_change_data/{token}",
        tuple(plain.schema.names),
    )
    tables = [
        (task.before, _log(head, plain, (f.file for f in removed), root)),
        (task.after, _log(head, plain, added, root)),
        (task.target, _log(head, marked, (), root)),
    ]
    return task, tables


def with_change_type(definition: Definition) -> Definition:
    """Return the definition of change files: the table's, with a column `_change_type`."""
    schema, properties = definition.schema, dict(definition.properties)
    marks: dict[str, Any] = {}
    if _MAX_ID in properties:
        highest = _highest(schema.walk(), int(properties[_MAX_ID])) + 1
        properties[_MAX_ID] = str(highest)
        marks = {MAPPED_ID: highest, "delta.columnMapping.physicalName": CHANGE_TYPE}
    kind = Field(schema.last_id + 1, CHANGE_TYPE, Primitive("string"), metadata=marks)
    return replace(
        definition,
        schema=Schema((*schema.fields, kind), schema.last_id + 1),
        properties=properties,
    )


def _log(head: Head, definition: Definition, files: Iterable[DataFile], root: str) -> bytes:
    lines: list[dict[str, Any]] = [
        {"protocol": dict(definition.protocol)},
        {"metaData": metadata(head, definition)},
    ]
    schema = definition.schema
    lines += [{"add": add(absolute(f, root, definition), schema, changed=True)} for f in files]
    return b"\n".join(map(orjson.dumps, lines)) + b"\n"


def _plain(definition: Definition) -> Definition:
    """Return the definition without constraints and defaults, which old rows may violate."""
    fields = tuple(
        replace(f, nullable=True, default=None, metadata=_mapping_of(f))
        for f in definition.schema.fields
    )
    return replace(
        definition,
        schema=Schema(fields, definition.schema.last_id),
        properties={k: v for k, v in definition.properties.items() if k.startswith(_MAPPING)},
        constraints={},
        derived={},
    )


def _mapping_of(field: Field) -> dict[str, Any]:
    kept = (_MAPPING, "delta.typeChanges")
    return {k: v for k, v in field.metadata.items() if k.startswith(kept)}


def _highest(fields: Iterable[Field] | Sequence[Field], known: int) -> int:
    return max([known, *(int(f.metadata[MAPPED_ID]) for f in fields if MAPPED_ID in f.metadata)])
