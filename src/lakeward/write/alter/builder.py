"""The methods by which users change a table's definition."""

from __future__ import annotations

from typing import Any, Protocol, Self

from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.model.constraints import (
    Check,
    Constraint,
    ForeignKey,
    NotNull,
    OnViolation,
    Unique,
)
from lakeward.model.evolution.alterations import (
    AddColumn,
    AddConstraint,
    AddPartitionField,
    AddRule,
    Alteration,
    ChangeType,
    DropColumn,
    DropConstraint,
    DropPartitionField,
    EnableFeature,
    MoveColumn,
    RenameColumn,
    SetComment,
    SetDefault,
    SetNullable,
    SetProperty,
    UnsetProperty,
)
from lakeward.model.schema import named_type


class _Do(Protocol):
    """Makes or notes a change; with `if_needed` none that would change nothing."""

    def __call__(self, asked: Alteration, *, if_needed: bool) -> None: ...


class Alter:
    """Changes of one table's definition; every method returns the same object.

    Columns may be parts of others: `address.street` is a member of a struct, `items.element.price`
    is a member of a list's elements, `prices.value` is the value of a map. Existing files are not
    rewritten, except by `backfill`: existing rows keep their values.
    """

    def __init__(self, do: _Do) -> None:
        self._do = do

    def add_column(
        self,
        name: str,
        type: Any,  # noqa: A002  the word users know
        *,
        default: str | None = None,
        nullable: bool = True,
        comment: str | None = None,
        after: str | None = None,
        first: bool = False,
        backfill: bool = False,
    ) -> Self:
        """Add a column, or a member of a struct. Existing rows have no value in it.

        Args:
            name: The column's name; for a member of a struct its path.
            type: A type, as for `lake.create`: `string`, `decimal(10,2)`, an Arrow type.
            default: A SQL literal, such as `'EUR'` or `0`, that is written from now on if data
                lacks the column. Existing rows stay null, unless `backfill` is set.
            nullable: Whether a value may be missing. A table with rows accepts a required column
                only with `backfill`.
            comment: A description.
            after: The column after which to insert it; by default it becomes the last column.
            first: Whether it becomes the first column.
            backfill: Set the default in existing rows, too. That rewrites their files, or marks
                their rows, as `tx.update` does.

        Raises:
            InvalidInput: The name is in use, or the type or the default is invalid.
        """
        if backfill and default is None:
            what = f"Column {name} has no default, so there is nothing to fill it with."
            raise InvalidInput(what, hint="Give `default=`, or leave `backfill` out.")
        return self._then(
            AddColumn(
                arguments.text(name, "name"),
                named_type(type),
                arguments.optional_text(default, "default"),
                arguments.flag(nullable, "nullable"),
                arguments.optional_text(comment, "comment"),
                arguments.optional_text(after, "after"),
                arguments.flag(first, "first"),
                arguments.flag(backfill, "backfill"),
            )
        )

    def rename_column(self, old: str, new: str) -> Self:
        """Rename a column; `new` is a name without a path, also for a part of another column.

        The first rename or drop in a Delta table enables column mapping by name.

        Raises:
            InvalidInput: The new name is in use, in any case, or a check or a generated column uses
                the column.
        """
        return self._then(RenameColumn(arguments.text(old, "old"), arguments.text(new, "new")))

    def drop_column(self, name: str) -> Self:
        """Drop a column. Older versions of the table still have it.

        Raises:
            InvalidInput: The column is required, or the partitioning, a check or a generated column
                needs it.
        """
        return self._then(DropColumn(arguments.text(name, "name")))

    def move_column(self, name: str, *, after: str | None = None, first: bool = False) -> Self:
        """Move a column after another one, or to the first position."""
        place = arguments.optional_text(after, "after")
        return self._then(
            MoveColumn(arguments.text(name, "name"), place, arguments.flag(first, "first"))
        )

    def change_type(self, name: str, type: Any) -> Self:  # noqa: A002  the word users know
        """Change a column's type to a wider one, which can represent all its values.

        Raises:
            InvalidInput: The type is narrower, or the format does not widen to it.
        """
        return self._then(ChangeType(arguments.text(name, "name"), named_type(type)))

    def set_nullable(self, name: str) -> Self:
        """Allow nulls in a column."""
        return self._then(SetNullable(arguments.text(name, "name"), nullable=True))

    def set_not_null(self, name: str) -> Self:
        """Forbid nulls in a column, after checking the existing rows.

        Raises:
            ConstraintViolation: A value is missing.
        """
        return self._then(SetNullable(arguments.text(name, "name"), nullable=False))

    def set_default(self, name: str, default: str | None) -> Self:
        """Set a column's default, a SQL literal for data that lacks the column; None removes it."""
        text = arguments.optional_text(default, "default")
        return self._then(SetDefault(arguments.text(name, "name"), text))

    def set_comment(self, name: str | None, comment: str | None) -> Self:
        """Set the comment of a column, or of the table if `name` is None; None removes it."""
        path = arguments.optional_text(name, "name")
        return self._then(SetComment(path, arguments.optional_text(comment, "comment")))

    def set_property(self, key: str, value: Any) -> Self:
        """Set a table property.

        Raises:
            InvalidInput: There is no such property, or it cannot have that value.
        """
        text = str(value).lower() if isinstance(value, bool) else value
        if not isinstance(text, str | int | float):
            what = f"Property {key} must be text, a number or a boolean."
            raise InvalidInput(what, property=key)
        arguments.optional_text(str(text), "value")
        return self._then(SetProperty(arguments.text(key, "key"), str(text)))

    def unset_property(self, key: str) -> Self:
        """Remove a table property."""
        return self._then(UnsetProperty(arguments.text(key, "key")))

    def add_constraint(self, name: str, expression: str | Constraint) -> Self:
        """Add a constraint that every row must satisfy, after checking the existing rows.

        For a unique key, a foreign key and a check that does not reject rows, existing rows are
        checked during the commit.

        Args:
            name: The name by which it is dropped, and shown in errors.
            expression: A check as SQL, or a `lw.Check`, `lw.Unique`, `lw.ForeignKey` or
                `lw.NotNull`.

        Raises:
            ConstraintViolation: A row does not satisfy it.
        """
        own = arguments.text(name, "name")
        if isinstance(expression, Check) and expression.on_violation == OnViolation.FAIL:
            expression = expression.expression
        if isinstance(expression, Check | Unique | ForeignKey | NotNull):
            return self._then(AddRule(own, expression))
        return self._then(AddConstraint(own, arguments.text(expression, "expression")))

    def drop_constraint(self, name: str) -> Self:
        """Remove a constraint."""
        return self._then(DropConstraint(arguments.text(name, "name")))

    def add_partition_field(self, transform: str) -> Self:
        """Partition files written from now on by one more term, such as `day(ts)`.

        Only for Iceberg tables; existing files do not change.
        """
        return self._then(AddPartitionField(arguments.text(transform, "transform")))

    def drop_partition_field(self, transform: str) -> Self:
        """Stop partitioning files by a term. Only for Iceberg tables."""
        return self._then(DropPartitionField(arguments.text(transform, "transform")))

    def enable(self, feature: str) -> Self:
        """Enable a feature of the format.

        For Delta: `change_data_feed`, `deletion_vectors`, `v2_checkpoint`, `column_mapping`,
        `type_widening`, `row_tracking`, and `in_commit_timestamps`, which guarded tables have. For
        Iceberg: `row_lineage`, which is format version 3.

        Raises:
            UnsupportedFeature: Only another engine can enable it.
        """
        return self._then(EnableFeature(arguments.text(feature, "feature")))

    def sql(self, clause: str) -> Self:
        """Apply the changes of a clause of ALTER TABLE, in the syntax of Spark and Iceberg.

        `table.alter().sql("ADD COLUMN currency string AFTER amount").commit()`

        Raises:
            InvalidInput: The clause cannot be parsed; the message says where.
        """
        from lakeward.model.evolution.clauses import parse_with_ifs

        for change, if_needed in parse_with_ifs(arguments.text(clause, "clause")):
            self.apply(change, if_needed=if_needed)
        return self

    def apply(self, change: Alteration, *, if_needed: bool = False) -> Self:
        """Apply a change that is given as an object.

        Args:
            change: The change.
            if_needed: Do nothing if the column that it adds exists, or what it drops does not.
        """
        self._do(change, if_needed=if_needed)
        return self

    def _then(self, change: Alteration) -> Self:
        return self.apply(change)
