"""Clauses of ALTER TABLE become changes, and nothing of a text is left out."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeward.errors import InvalidInput
from lakeward.model.constraints import ForeignKey, Unique
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
    MoveColumn,
    RenameColumn,
    SetComment,
    SetDefault,
    SetNullable,
    SetProperty,
    UnsetProperty,
)
from lakeward.model.evolution.clauses import parse_clause


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("ADD COLUMN a string", [AddColumn("a", pa.string())]),
        (
            "add column a.b bigint not null default -1 comment 'it''s' after `c d`",
            [AddColumn("a.b", pa.int64(), "-1", False, "it's", "c d")],
        ),
        (
            "ADD COLUMNS (a decimal(10,2) DEFAULT 1.5, b array<struct<x: int, y: string>> FIRST)",
            [
                AddColumn("a", pa.decimal128(10, 2), "1.5"),
                AddColumn(
                    "b",
                    pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())])),
                    first=True,
                ),
            ],
        ),
        ("ADD `columns` int", [AddColumn("columns", pa.int32())]),
        ("RENAME COLUMN a.b TO c", [RenameColumn("a.b", "c")]),
        ("RENAME COLUMN `a.b` TO `c d`", [RenameColumn("`a.b`", "c d")]),
        ("DROP COLUMN a", [DropColumn("a")]),
        ("DROP COLUMNS (a, b.element.c)", [DropColumn("a"), DropColumn("b.element.c")]),
        ("ALTER COLUMN a TYPE bigint", [ChangeType("a", pa.int64())]),
        ("CHANGE COLUMN a SET NOT NULL", [SetNullable("a", nullable=False)]),
        ("ALTER COLUMN a DROP NOT NULL", [SetNullable("a", nullable=True)]),
        ("ALTER COLUMN a SET DEFAULT DATE '2026-01-31'", [SetDefault("a", "DATE '2026-01-31'")]),
        ("ALTER COLUMN a DROP DEFAULT", [SetDefault("a", None)]),
        ("ALTER COLUMN a COMMENT 'x, y'", [SetComment("a", "x, y")]),
        ("ALTER COLUMN a FIRST", [MoveColumn("a", first=True)]),
        ("ALTER COLUMN a AFTER b", [MoveColumn("a", after="b")]),
        (
            "SET TBLPROPERTIES ('k' = 'v', 'delta.appendOnly' = 'true')",
            [SetProperty("k", "v"), SetProperty("delta.appendOnly", "true")],
        ),
        (
            "SET TBLPROPERTIES (a.b = true, 'c' 1)",
            [SetProperty("a.b", "true"), SetProperty("c", "1")],
        ),
        ("UNSET TBLPROPERTIES ('k')", [UnsetProperty("k")]),
        ("UNSET TBLPROPERTIES IF EXISTS ('k')", [UnsetProperty("k")]),
        (
            "ALTER COLUMN a TYPE bigint COMMENT 'x' FIRST, b.c DROP NOT NULL",
            [
                ChangeType("a", pa.int64()),
                SetComment("a", "x"),
                MoveColumn("a", first=True),
                SetNullable("b.c", nullable=True),
            ],
        ),
        ("CHANGE COLUMN a b bigint", [ChangeType("a", pa.int64()), RenameColumn("a", "b")]),
        ("CHANGE a a bigint AFTER c", [ChangeType("a", pa.int64()), MoveColumn("a", after="c")]),
        ("ADD CONSTRAINT k UNIQUE (a, b)", [AddRule("k", Unique("a", "b"))]),
        ("ADD CONSTRAINT k PRIMARY KEY (a)", [AddRule("k", Unique("a"))]),
        (
            "ADD CONSTRAINT k FOREIGN KEY (a) REFERENCES s.t (b)",
            [AddRule("k", ForeignKey("a", references="s.t", key="b"))],
        ),
        (
            "REPLACE PARTITION FIELD day(ts) WITH hour(ts)",
            [DropPartitionField("day(ts)"), AddPartitionField("hour(ts)")],
        ),
        (
            "ADD CONSTRAINT n CHECK (a > 0 AND (b = ')' OR c))",
            [AddConstraint("n", "a > 0 AND (b = ')' OR c)")],
        ),
        ("DROP CONSTRAINT n", [DropConstraint("n")]),
        ("ADD PARTITION FIELD bucket(16, id)", [AddPartitionField("bucket(16, id)")]),
        ("DROP PARTITION FIELD day(ts)", [DropPartitionField("day(ts)")]),
    ],
)
def test_a_clause_becomes_its_changes(text: str, changes: list[Alteration]) -> None:
    assert parse_clause(text) == changes


@pytest.mark.parametrize(
    "text",
    [
        *("", "ADD", "ADD COLUMN", "ADD COLUMN a", "ADD COLUMN a string b", "ADD COLUMN a nosuch"),
        *(
            "DROP COLUMN",
            "DROP COLUMN a b",
            "DROP COLUMNS (a",
            "RENAME COLUMN a b",
            "RENAME a TO b",
        ),
        *("ALTER COLUMN a", "ALTER COLUMN a TYPE", "ALTER COLUMN a TYPE bigint int", "TRUNCATE"),
        *("SET TBLPROPERTIES (k = )", "ADD CONSTRAINT n CHECK a > 0", "ADD CONSTRAINT n"),
        *("DROP COLUMN a; DROP COLUMN b", "ALTER COLUMN a COMMENT 'x", "SET LOCATION '/x'"),
    ],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_clause(text)
