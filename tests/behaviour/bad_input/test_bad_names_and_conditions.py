"""Names and conditions that are malformed or hostile: refused, or taken for what they are."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import InvalidExpression, InvalidInput, InvalidName
from tests.behaviour.lakes import append, ids, unchanged

pytestmark = pytest.mark.before_the_store

_NAME = "space.conditions"
_INJECTION = "'; DROP TABLE lakeward_head; --"


@pytest.fixture(scope="module")
def lake(shared_lake: lw.Lake) -> lw.Lake:
    shared_lake.create(
        _NAME,
        {
            "id": "int64",
            "note": "string",
            "day": "date",
            "flag": "boolean",
            "tags": pa.list_(pa.string()),
        },
    )
    append(shared_lake, _NAME, [{"id": 1, "note": "x", "day": None, "flag": True, "tags": []}])
    return shared_lake


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        ".",
        "..",
        "a.",
        ".a",
        "a..b",
        "a.b.c",
        "../a",
        "a/b",
        "/etc/passwd",
        "a\\b",
        "a b",
        "a'b",
        'a"b',
        "a`b",
        "a;b",
        "a\0b",
        "a\n",
        "-a",
        "a.-b",
        "~",
        "$HOME",
        "a*",
        "file://x",
        "%2e%2e",
        "x" * 129,
        _INJECTION,
        "_delta_log",
        "a._delta_log",
        "lakeward.db.x",
    ],
)
def test_a_name_that_could_lead_elsewhere_is_refused(lake: lw.Lake, name: str) -> None:
    for use in (lake.create, lambda n, _: lake.table(n), lambda n, _: lake.drop(n)):
        with unchanged(lake), pytest.raises(InvalidName) as caught:
            use(name, {"id": "int64"})
        assert caught.value.hint


@pytest.mark.parametrize("column", ["", "a\nb", "a\0b", "a\tb"])
def test_a_column_needs_a_printable_name(lake: lw.Lake, column: str) -> None:
    with unchanged(lake), pytest.raises(InvalidInput):
        lake.create("space.never", {"id": "int64", column: "int64"})


def test_columns_that_differ_in_case_only_are_refused(lake: lw.Lake) -> None:
    with unchanged(lake), pytest.raises(InvalidInput) as caught:
        lake.create("space.never", {"id": "int64", "ID": "int64"})
    assert caught.value.column == "ID"


_MALFORMED = [
    "id >",
    "id > > 1",
    "(id = 1",
    "id = 1)",
    "id = 'open",
    "id = 1 AND",
    "AND id = 1",
    "id = = 1",
    "id",
    "note",
    "1",
    "'x'",
    "nope = 1",
    "id.part = 1",
    "id = 'x'",
    "note = 5",
    "day = 'yesterday'",
    "day = 5",
    "flag = 'yes'",
    "tags = 'x'",
    "id LIKE 'x%'",
    "note > DATE '2026-01-01'",
    "id IN ()",
    "id IN (1, 'x')",
    "id BETWEEN 1",
    "id = 1; DELETE FROM x",
    "id = 1; SELECT 2",
    "SELECT 1",
    "id = (SELECT max(id) FROM lakeward_head)",
    "EXISTS (SELECT 1)",
    "id IN (SELECT 1)",
    "count(*) > 0",
    "max(id) > 0",
    "rand() < 0.5",
    "current_timestamp() > day",
    "load_extension('x')",
    "id > 1e999",
    "id = ?",
    "id = :x",
    "id = $1",
    "id = @x",
    "/* open",
    "id = 1 UNION SELECT 2",
    "1 = 1 OR lakeward_head.id = 1",
    "\x00",
    "id = 1" + " AND (id = 1" * 60 + ")" * 60,
    "(" * 2000 + "id = 1" + ")" * 2000,
    "NOT " * 500 + "flag",
    "id = 1" + " " * 200_000,
    "CAST(id AS nonsense) = 1",
    "id = 99999999999999999999999999999999999999999",
]


@pytest.mark.parametrize("where", _MALFORMED, ids=[w[:40] for w in _MALFORMED])
def test_a_malformed_condition_is_refused_everywhere(lake: lw.Lake, where: str) -> None:
    table = lake.table(_NAME)
    tx = lake.transaction
    for use in (
        lambda: table.to_arrow(where=where),
        lambda: table.files(where=where),
        lambda: tx().delete(_NAME, where=where),
        lambda: tx().overwrite(_NAME, [], where=where),
        lambda: tx().read(_NAME, where=where),
        lambda: lake.create("space.never", table.schema, constraints={"c": where}),
    ):
        with unchanged(lake), pytest.raises(InvalidExpression) as caught:
            use()
        assert caught.value.expression == where[:1000]


@pytest.mark.parametrize(
    "where",
    [
        f"note = '{_INJECTION.replace(chr(39), chr(39) * 2)}'",
        "note = 'x' -- a comment",
        "note /* inside */ = 'y'",
        "`note` = '`'",
        "note = '%_\\\\'",
        "note LIKE '%'';%'",
        "note = '\U0001f986'",
    ],
)
def test_sql_inside_text_is_only_text(lake: lw.Lake, where: str) -> None:
    with unchanged(lake):
        found = ids(lake, _NAME, where=where)

    assert found == ([1] if "'x'" in where else [])


def test_hostile_text_is_kept_as_it_is(lake: lw.Lake, name: str) -> None:
    column = 'note"; DROP TABLE lakeward_head; --'
    lake.create(
        name,
        {"id": "int64", column: "string"},
        partition_by=[column],
        properties={_INJECTION: _INJECTION},
        comment=_INJECTION,
    )
    with lake.transaction(message=_INJECTION) as tx:
        tx.append(name, [{"id": 1, column: _INJECTION}])
        tx.record(name, _INJECTION, 5)

    table = lake.table(name)
    assert table.to_arrow().to_pylist() == [{"id": 1, column: _INJECTION}]
    assert table.app_version(_INJECTION) == 5
    assert table.history(limit=1)[0].message == _INJECTION
    assert table.properties[_INJECTION] == _INJECTION
    assert table.definition.comment == _INJECTION
