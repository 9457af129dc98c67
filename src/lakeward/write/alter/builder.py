"""The methods by which users change a table's definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.model.constraints import Check, Constraint, ForeignKey, OnViolation, Unique
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


class Alter:
    """Changes of one table's definition; every method returns the same object.

    Columns may be parts of others: `address.street` is a member of a struct, `items.element.price`
    one of the elements of a list, `prices.value` the value of a map. No change touches a file that
    is there: rows that were written before keep their values.
    """

    def __init__(self, do: Callable[[Alteration], None]) -> None:
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
            type: As `lake.create` takes it: `string`, `decimal(10,2)`, an Arrow type.
            default: A SQL literal, such as `'EUR'` or `0`, that is written from now on if data
                lacks the column. Existing rows stay null, unless `backfill` is set.
            nullable: Whether a value may be missing. A table with rows accepts a required column
                only with `backfill`.
            comment: A description.
            after: The column that it follows; by default it becomes the last one.
            first: Whether it becomes the first one.
            backfill: Give the default to existing rows, too. That rewrites their files, or marks
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
        """Give a column another name; `new` is its name alone, also for a part of another column.

        The first rename or drop in a Delta table switches column mapping by name on.

        Raises:
            InvalidInput: The name is taken, also by case, or a check or a generated column uses it.
        """
        return self._then(RenameColumn(arguments.text(old, "old"), arguments.text(new, "new")))

    def drop_column(self, name: str) -> Self:
        """Drop a column. Older versions of the table still have it.

        Raises:
            InvalidInput: It is required, or the partitioning, a check or a generated column needs
                it.
        """
        return self._then(DropColumn(arguments.text(name, "name")))

    def move_column(self, name: str, *, after: str | None = None, first: bool = False) -> Self:
        """Put a column behind another one, or first."""
        place = arguments.optional_text(after, "after")
        return self._then(
            MoveColumn(arguments.text(name, "name"), place, arguments.flag(first, "first"))
        )

    def change_type(self, name: str, type: Any) -> Self:  # noqa: A002  the word users know
        """Give a column a wider type: one that holds all its values.

        Raises:
            InvalidInput: The type is narrower, or the format does not widen to it.
        """
        return self._then(ChangeType(arguments.text(name, "name"), named_type(type)))

    def set_nullable(self, name: str) -> Self:
        """Allow nulls in a column."""
        return self._then(SetNullable(arguments.text(name, "name"), nullable=True))

    def set_not_null(self, name: str) -> Self:
        """Forbid nulls in a column, after a look at the rows that are there.

        Raises:
            ConstraintViolation: A value is missing.
        """
        return self._then(SetNullable(arguments.text(name, "name"), nullable=False))

    def set_default(self, name: str, default: str | None) -> Self:
        """Give a column a default, a SQL literal that is written where data lacks it; or none."""
        text = arguments.optional_text(default, "default")
        return self._then(SetDefault(arguments.text(name, "name"), text))

    def set_comment(self, name: str | None, comment: str | None) -> Self:
        """Describe a column, or the table where `name` is None; None removes the comment."""
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
        return self._then(SetProperty(arguments.text(key, "key"), str(text)))

    def unset_property(self, key: str) -> Self:
        """Remove a table property."""
        return self._then(UnsetProperty(arguments.text(key, "key")))

    def add_constraint(self, name: str, expression: str | Constraint) -> Self:
        """Add a constraint that every row must satisfy, after a look at the rows that are there.

        For a unique key, a foreign key and a check that does not refuse rows, that look is part of
        the commit.

        Args:
            name: By which it is dropped, and named in errors.
            expression: A check as SQL, or a `lw.Check`, `lw.Unique` or `lw.ForeignKey`.

        Raises:
            ConstraintViolation: A row does not satisfy it.
        """
        own = arguments.text(name, "name")
        if isinstance(expression, Check) and expression.on_violation == OnViolation.FAIL:
            expression = expression.expression
        if isinstance(expression, Check | Unique | ForeignKey):
            return self._then(AddRule(own, expression))
        return self._then(AddConstraint(own, arguments.text(expression, "expression")))

    def drop_constraint(self, name: str) -> Self:
        """Remove a constraint."""
        return self._then(DropConstraint(arguments.text(name, "name")))

    def add_partition_field(self, transform: str) -> Self:
        """Partition files that are written from now on by one more term, such as `day(ts)`.

        Only Iceberg tables can; older files stay as they are.
        """
        return self._then(AddPartitionField(arguments.text(transform, "transform")))

    def drop_partition_field(self, transform: str) -> Self:
        """No longer partition files by a term. Only Iceberg tables can."""
        return self._then(DropPartitionField(arguments.text(transform, "transform")))

    def enable(self, feature: str) -> Self:
        """Switch a feature of the format on.

        For Delta: `change_data_feed`, `deletion_vectors`, `column_mapping`, `type_widening`.

        Raises:
            UnsupportedFeature: Only another engine can; says which.
        """
        return self._then(EnableFeature(arguments.text(feature, "feature")))

    def sql(self, clause: str) -> Self:
        """Make the changes of a clause of ALTER TABLE, as Spark and Iceberg write it.

        `table.alter().sql("ADD COLUMN currency string AFTER amount").commit()`

        Raises:
            InvalidInput: It cannot be understood; says where.
        """
        from lakeward.model.evolution.clauses import parse_clause

        for change in parse_clause(arguments.text(clause, "clause")):
            self._then(change)
        return self

    def apply(self, change: Alteration) -> Self:
        """Make a change that is given as a value."""
        return self._then(change)

    def _then(self, change: Alteration) -> Self:
        self._do(change)
        return self
