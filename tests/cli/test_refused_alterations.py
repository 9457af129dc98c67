"""Alterations that are refused through Python, SQL and the command line, with nothing changed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import InvalidInput
from lakeward.lake.altering import TableAlter
from tests.behaviour.lakes import unchanged
from tests.cli.console import run

_TABLE = "sales.orders"
_COLUMNS = (
    "id int64 not null, part string, price double, code string, region string, line int64,"
    " net double, note string"
)


@dataclass(frozen=True)
class Refused:
    """A change that a table refuses.

    Attributes:
        ask: The change in Python.
        clause: The change in SQL, after ALTER TABLE.
        what: The reason, as the error says it.
        hint: What would work.
        formats: The formats that have it.
    """

    ask: Callable[[TableAlter], Any]
    clause: str
    what: str
    hint: str
    formats: tuple[str, ...] = ("delta", "iceberg")


CASES = {
    "drop required": Refused(
        lambda a: a.drop_column("id"), "DROP COLUMN id", "it is required", "set_nullable"
    ),
    "drop partition source": Refused(
        lambda a: a.drop_column("part"), "DROP COLUMN part", "partitioned by part", ""
    ),
    "drop in a unique key": Refused(
        lambda a: a.drop_column("region"),
        "DROP COLUMN region",
        "it is in the key place",
        "constraint",
    ),
    "drop in a foreign key": Refused(
        lambda a: a.drop_column("line"), "DROP COLUMN line", "it is in the key line", "constraint"
    ),
    "drop in a check": Refused(
        lambda a: a.drop_column("price"), "DROP COLUMN price", "check positive", "drop_constraint"
    ),
    "drop source of a generated column": Refused(
        lambda a: a.drop_column("net"), "DROP COLUMN net", "gross", "", ("delta",)
    ),
    "drop what another table refers to": Refused(
        lambda a: a.drop_constraint("code").drop_column("code"),
        "DROP CONSTRAINT code",
        "sales.lines",
        "",
    ),
    "drop a column that another table refers to": Refused(
        lambda a: a.drop_column("code"),
        "DROP COLUMN code",
        "of sales.lines refers to this key",
        "Drop the foreign key of sales.lines",
    ),
    "forbidden value of Delta": Refused(
        lambda a: a.set_property("delta.logRetentionDuration", "soon"),
        "SET TBLPROPERTIES ('delta.logRetentionDuration' = 'soon')",
        "not a duration",
        "interval 30 days",
        ("delta",),
    ),
    "narrow": Refused(
        lambda a: a.change_type("id", "int32"),
        "ALTER COLUMN id TYPE int",
        "not all of its values",
        "add a column",
    ),
    "add required": Refused(
        lambda a: a.add_column("more", "int64", nullable=False),
        "ADD COLUMN more bigint NOT NULL",
        "existing rows have no value",
        "tx.update",
    ),
    "name taken": Refused(
        lambda a: a.add_column("note", "string"), "ADD COLUMN note string", "taken", "another"
    ),
    "name taken by case": Refused(
        lambda a: a.rename_column("note", "PART"),
        "RENAME COLUMN note TO PART",
        "only by case",
        "another",
    ),
    "unknown property": Refused(
        lambda a: a.set_property("lakeward.nosuch", "1"),
        "SET TBLPROPERTIES ('lakeward.nosuch' = '1')",
        "lakeward.nosuch",
        "",
    ),
    "forbidden value": Refused(
        lambda a: a.set_property("lakeward.retry.attempts", "often"),
        "SET TBLPROPERTIES ('lakeward.retry.attempts' = 'often')",
        "attempts",
        "",
    ),
    "feature of another engine": Refused(
        lambda a: a.enable("clustering"), "CLUSTER BY (id)", "", "", ("delta", "iceberg")
    ),
}
_ALL = [(f, name) for name, case in CASES.items() for f in case.formats]


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, lw.Lake]]:
    """A lake for each format; no test changes it."""
    opened: dict[str, lw.Lake] = {}
    for format_ in ("delta", "iceberg"):
        lake = opened[format_] = lw.open(tmp_path_factory.mktemp(format_) / "lake")
        generated = ", gross double generated always as (net * 2)" if format_ == "delta" else ""
        lake.create(
            "sales.books", "line int64", constraints={"k": lw.Unique("line")}, format=format_
        )
        rules: dict[str, Any] = {
            "positive": "price > 0",
            "place": lw.Unique("region"),
            "code": lw.Unique("code"),
            "line": lw.ForeignKey("line", references="sales.books"),
        }
        lake.create(
            _TABLE, _COLUMNS + generated, partition_by=["part"], constraints=rules, format=format_
        )
        lake.create(
            "sales.lines",
            "code string",
            constraints={"order": lw.ForeignKey("code", references=_TABLE)},
            format=format_,
        )
        with lake.transaction() as tx:
            tx.append("sales.books", {"line": [1]})
            row = {"id": 1, "part": "a", "price": 1.0, "code": "x", "region": "r", "line": 1}
            tx.append(_TABLE, [{**row, "net": 1.0, "note": None}])
        # The first to open a lake again notes what is published.
        lw.open(Path(lake.warehouse)).close()
    yield opened
    for lake in opened.values():
        lake.close()


@pytest.mark.parametrize("way", ["python", "sql", "cli"])
@pytest.mark.parametrize(("format_", "case"), _ALL)
def test_an_alteration_is_refused_in_every_way_with_nothing_changed(
    lakes: dict[str, lw.Lake], format_: str, case: str, way: str
) -> None:
    lake, refused = lakes[format_], CASES[case]

    with unchanged(lake):
        what, hint = _ask(lake, refused, way)

    assert refused.what in what
    assert refused.hint in hint
    assert what + hint


def _ask(lake: lw.Lake, refused: Refused, way: str) -> tuple[str, str]:
    """Ask for a change that must be refused; return the reason and the hint."""
    if way == "cli":
        place = Path(lake.warehouse)
        answer = run("--json", "alter", _TABLE, refused.clause, "--lake", place)
        assert answer.code == 2
        return answer.error["message"], answer.error["hint"] or ""
    with pytest.raises(InvalidInput) as caught:
        _change(lake, refused, way)
    return caught.value.what, caught.value.hint or ""


def _change(lake: lw.Lake, refused: Refused, way: str) -> None:
    if way == "python":
        refused.ask(lake.table(_TABLE).alter()).commit()
        return
    with lake.transaction() as tx:
        tx.sql(f"ALTER TABLE {_TABLE} {refused.clause}")
