"""Write modes: how rows are written to a table that exists, or that is created by the write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakeward.errors import AlreadyExists, InvalidInput
from lakeward.model import arguments
from lakeward.model.constraints import Constraint
from lakeward.write.plan.change import RowChanges
from lakeward.write.transaction.transaction import Transaction

MODES: Final = ("append", "overwrite", "upsert", "error", "ignore")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How rows are written to a table.

    Attributes:
        mode: `append`; `overwrite` all rows, or those for which `where` is true; `upsert` by the
            key; `error` if the table exists; `ignore`: write nothing if it exists.
        key: The columns that make the key, for `upsert`.
        where: Which rows are replaced, for `overwrite`.
        schema_mode: As in `Transaction.append` and `Transaction.overwrite`.
        format: `delta` or `iceberg`, if the table is created.
        partition_by: The partitioning of the table, if it is created; see `Lake.create`.
        properties: Properties of the table, if it is created.
    """

    mode: str = "append"
    key: str | Sequence[str] | None = None
    where: str | None = None
    schema_mode: str | None = None
    format: str = "delta"
    partition_by: Sequence[str] = ()
    properties: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            what = f"There is no write mode {self.mode!r}."
            raise InvalidInput(what, hint=f"Give one of {', '.join(MODES)}.", parameter="mode")
        if (self.mode == "upsert") != bool(self.key):
            what = "The key of a write goes with mode='upsert', which needs one."
            raise InvalidInput(what, parameter="key")
        if self.where is not None and self.mode != "overwrite":
            what = "`where` of a write goes with mode='overwrite' only."
            raise InvalidInput(what, parameter="where")
        arguments.mapping(self.properties, "properties")


def write_rows(
    tx: Transaction,
    name: str,
    data: Any,
    options: WriteOptions,
    *,
    exists: bool,
    constraints: Mapping[str, str | Constraint] | None = None,
) -> RowChanges:
    """Write rows in a transaction; create the table with their columns unless it `exists`.

    A table that is created gets the `constraints`.

    Raises:
        AlreadyExists: The mode is `error`, and the table exists.
    """
    if not exists:
        tx.create(
            name,
            like=data,
            format=options.format,
            partition_by=options.partition_by,
            properties=options.properties,
        )
        for label, constraint in (constraints or {}).items():
            tx.alter(name).add_constraint(label, constraint)
        return tx.append(name, data)
    match options.mode:
        case "ignore":
            return RowChanges()
        case "error":
            what = f"Table {name} exists already. Nothing was written."
            raise AlreadyExists(what, hint="Give mode='append' or 'overwrite'.", table=name)
        case "upsert":
            return tx.merge(name, data, on=options.key or ())
        case "overwrite":
            mode = options.schema_mode
            return tx.overwrite(name, data, where=options.where, schema_mode=mode)
        case _:
            return tx.append(name, data, schema_mode=options.schema_mode)
