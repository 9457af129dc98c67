"""Arguments of the wrong kind: a clear error for every public parameter, and nothing changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import lakeward as lw
from lakeward.errors import InvalidInput, NotFound
from tests.behaviour.lakes import append, unchanged

pytestmark = pytest.mark.before_the_store

Call: TypeAlias = Callable[[lw.Lake], Any]

_NAME = "space.wrong_types"
_ROWS = [{"id": 1, "v": "x"}]
_HUGE = 2**70


class _Nothing:
    """Something that is none of all things."""

    def __repr__(self) -> str:
        return "Nothing"


def _each(
    label: str, values: Iterable[Any], call: Callable[[lw.Lake, Any], Any]
) -> dict[str, Call]:
    """A call for each value, labelled with it."""
    return {label.format(value): partial(_swapped, call, value) for value in values}


def _swapped(call: Callable[[lw.Lake, Any], Any], value: Any, lake: lw.Lake) -> Any:
    return call(lake, value)


def _create(lake: lw.Lake, **options: Any) -> None:
    lake.create("space.never", options.pop("schema", {"id": "int64", "p": "string"}), **options)


def _append(lake: lw.Lake, data: Any = _ROWS, **options: Any) -> None:
    with lake.transaction(**options) as tx:
        tx.append(_NAME, data)


def _tx(lake: lw.Lake, work: Callable[[Any], Any]) -> None:
    with lake.transaction() as tx:
        work(tx)


_NO_NAMES = (None, 5, b"t", ["t"], True, _Nothing())
_NO_WHERE = (5, True, b"id = 1", ["id = 1"], "")
_NO_PATHS = (None, 5, "x.parquet", b"x", [5], [None], [b"x"], [Path("x")])
_NO_COLUMNS = (5, "id", b"id", [5], [None], ["nope"], [["id"]], {"id": 1}, ["ID"])
_NO_SIZES: list[Any] = ["big", -1, 0, None, "1tb", "", []]

CALLS: dict[str, Call] = {
    # the lake
    **_each("table({!r})", _NO_NAMES, lambda lake, v: lake.table(v)),
    **_each("drop({!r})", _NO_NAMES, lambda lake, v: lake.drop(v)),
    **_each("create({!r})", _NO_NAMES, lambda lake, v: lake.create(v, {"id": "int64"})),
    **_each(
        "create(schema={!r})",
        [
            *(None, 5, "id whatever", b"id", [], {}, [5], ["id"], _Nothing(), {5: "int64"}),
            *({"": "int64"}, {"id": 5}, {"id": None}, {"id": "no such type"}, {"id": "list"}),
        ],
        lambda lake, v: _create(lake, schema=v),
    ),
    **_each(
        "create(format={!r})",
        (None, 5, "hudi", "parquet", ""),
        lambda lake, v: _create(lake, format=v),
    ),
    **_each(
        "create(partition_by={!r})",
        (5, None, [5], [None], ["nope"], ["p", "p"], {"p": 1}, b"p", [["p"]]),
        lambda lake, v: _create(lake, partition_by=v),
    ),
    **_each(
        "create(properties={!r})",
        [
            *(5, "a=b", ["a"], {5: "x"}, {"a": None}, {"a": ["x"]}, {"": "x"}, {"a\0": "x"}),
            {"a": "x\0"},
        ],
        lambda lake, v: _create(lake, properties=v),
    ),
    **_each(
        "create(policy={!r})",
        [
            *(5, "x", {5: 1}, {"nope": 1}),
            *({"target_file_size": size} for size in _NO_SIZES),
            *({"compression": codec} for codec in ("zip", 5, "", None)),
            *({"checkpoint_interval": number} for number in (-1, "often", 1.5, None)),
            *({"append_only": flag} for flag in ("maybe", 5, None)),
        ],
        lambda lake, v: _create(lake, policy=v),
    ),
    **_each(
        "create(constraints={!r})",
        (5, "id > 0", ["id > 0"], {"c": 5}, {"c": None}, {5: "id > 0"}, {None: "id > 0"}),
        lambda lake, v: _create(lake, constraints=v),
    ),
    **_each(
        "create(comment={!r})", (5, b"x", ["x"], "nul\0"), lambda lake, v: _create(lake, comment=v)
    ),
    **_each("create(guard={!r})", (None, 5, "yes"), lambda lake, v: _create(lake, guard=v)),
    **_each("run({!r})", (None, 5, "fn", []), lambda lake, v: lake.run(v)),
    **_each(
        "run(retry={!r})",
        (5, "often", {"attempts": 2}, True),
        lambda lake, v: lake.run(lambda tx: None, retry=v),
    ),
    **_each("Retry(attempts={!r})", (0, -1, "x", 1.5, None), lambda _, v: lw.Retry(attempts=v)),
    **_each(
        "Retry(first_delay_seconds={!r})",
        (-1, "x", None, float("nan")),
        lambda _, v: lw.Retry(first_delay_seconds=v),
    ),
    **_each(
        "snapshot(at={!r})",
        (5.5, [], {}, True, date(2026, 1, 1), _HUGE, -_HUGE),
        lambda lake, v: lake.snapshot(at=v),
    ),
    **_each(
        "transactions(limit={!r})",
        (None, -1, "x", 1.5, True, _HUGE),
        lambda lake, v: lake.transactions(limit=v),
    ),
    **_each("backup({!r})", (None, 5, b"x", ""), lambda lake, v: lake.backup(v)),
    **_each("export_store({!r})", (None, 5, b"x", ""), lambda lake, v: lake.export_store(v)),
    **_each("import_store({!r})", (None, 5, b"x", ""), lambda lake, v: lake.import_store(v)),
    **_each("adopt({!r})", (None, 5, b"x", ""), lambda lake, v: lake.adopt("space.never", v)),
    # a transaction
    **_each(
        "transaction(isolation={!r})",
        (None, 5, "", "total", ["snapshot"]),
        lambda lake, v: _append(lake, isolation=v),
    ),
    **_each(
        "transaction(message={!r})",
        (5, b"x", ["x"], "nul\0"),
        lambda lake, v: _append(lake, message=v),
    ),
    **_each(
        "transaction(transaction_id={!r})",
        (5, "", b"x", "a b", "a/b", "'; --", "x" * 129, "ü", "a\n", ["x"]),
        lambda lake, v: _append(lake, transaction_id=v),
    ),
    **_each("transaction(spark={!r})", (5, "local"), lambda lake, v: _append(lake, spark=v)),
    **_each(
        "append({!r})",
        [
            *(None, 5, 1.5, True, "abc", b"x", _Nothing(), [5], [None], [[5]], ["x"]),
            *([*_ROWS, 5], [*_ROWS, None], {"id": 5, "v": 5}, {"id": [1, 2], "v": ["x"]}),
        ],
        _append,
    ),
    **_each(
        "append(name={!r})",
        _NO_NAMES,
        lambda lake, v: _tx(lake, lambda tx: tx.append(v, _ROWS)),
    ),
    **_each(
        "overwrite(name={!r})",
        _NO_NAMES,
        lambda lake, v: _tx(lake, lambda tx: tx.overwrite(v, _ROWS)),
    ),
    **_each(
        "overwrite(where={!r})",
        _NO_WHERE,
        lambda lake, v: _tx(lake, lambda tx: tx.overwrite(_NAME, _ROWS, where=v)),
    ),
    **_each(
        "delete(where={!r})",
        (None, *_NO_WHERE),
        lambda lake, v: _tx(lake, lambda tx: tx.delete(_NAME, where=v)),
    ),
    **_each(
        "add_files({!r})", _NO_PATHS, lambda lake, v: _tx(lake, lambda tx: tx.add_files(_NAME, v))
    ),
    **_each(
        "remove_files({!r})",
        _NO_PATHS,
        lambda lake, v: _tx(lake, lambda tx: tx.remove_files(_NAME, v)),
    ),
    **_each(
        "record(app_id={!r})",
        ("", 5, None, "a\0", b"a"),
        lambda lake, v: _tx(lake, lambda tx: tx.record(_NAME, v, 1)),
    ),
    **_each(
        "record(version={!r})",
        (-1, "1", 1.5, None, True, 2**63),
        lambda lake, v: _tx(lake, lambda tx: tx.record(_NAME, "app", v)),
    ),
    **_each(
        "read(columns={!r})",
        _NO_COLUMNS,
        lambda lake, v: _tx(lake, lambda tx: tx.read(_NAME, columns=v)),
    ),
    **_each(
        "read(where={!r})",
        _NO_WHERE,
        lambda lake, v: _tx(lake, lambda tx: tx.read(_NAME, where=v)),
    ),
    # a table
    **_each(
        "history(limit={!r})",
        ("x", 1.5, True, -1, _HUGE),
        lambda lake, v: lake.table(_NAME).history(limit=v),
    ),
    **_each(
        "history(since={!r})",
        ("x", 1.5, True, [], _HUGE),
        lambda lake, v: lake.table(_NAME).history(since=v),
    ),
    **_each(
        "history(until={!r})",
        ("x", 1.5, True, [], -_HUGE),
        lambda lake, v: lake.table(_NAME).history(until=v),
    ),
    **_each(
        "versions(since={!r})",
        ("x", 1.5, True, [], _HUGE, date(2026, 1, 1)),
        lambda lake, v: lake.table(_NAME).versions(since=v),
    ),
    **_each(
        "versions(until={!r})",
        ("x", 1.5, True, [], -_HUGE, date(2026, 1, 1)),
        lambda lake, v: lake.table(_NAME).versions(until=v),
    ),
    **_each(
        "at(version={!r})",
        ("1", 1.0, True, [1], _HUGE),
        lambda lake, v: lake.table(_NAME).at(version=v),
    ),
    **_each(
        "at(timestamp={!r})",
        ("yesterday", 1.5, True, [], _HUGE, -_HUGE, "", date(2026, 1, 1)),
        lambda lake, v: lake.table(_NAME).at(timestamp=v),
    ),
    **_each("at(tag={!r})", (5, ""), lambda lake, v: lake.table(_NAME).at(tag=v)),
    **_each(
        "diff{!r}",
        [("a", 1), (0, None), (None, 1), (1.0, 1), (True, 1), (0, _HUGE)],
        lambda lake, v: lake.table(_NAME).diff(*v),
    ),
    **_each("files(where={!r})", _NO_WHERE, lambda lake, v: lake.table(_NAME).files(where=v)),
    **_each("to_arrow(where={!r})", _NO_WHERE, lambda lake, v: lake.table(_NAME).to_arrow(where=v)),
    **_each(
        "to_arrow(columns={!r})",
        _NO_COLUMNS,
        lambda lake, v: lake.table(_NAME).to_arrow(columns=v),
    ),
    **_each(
        "to_reader(columns={!r})",
        _NO_COLUMNS,
        lambda lake, v: lake.table(_NAME).to_reader(columns=v),
    ),
    **_each(
        "app_version({!r})",
        (None, 5, "", b"x"),
        lambda lake, v: lake.table(_NAME).app_version(v),
    ),
}


@pytest.fixture(scope="module")
def lake(shared_lake: lw.Lake) -> lw.Lake:
    shared_lake.create(_NAME, {"id": "int64", "v": "string"})
    append(shared_lake, _NAME, _ROWS)
    return shared_lake


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_argument_is_refused_and_changes_nothing(lake: lw.Lake, call: str) -> None:
    with unchanged(lake), pytest.raises(InvalidInput) as caught:
        CALLS[call](lake)

    assert len(str(caught.value)) > 15


@pytest.mark.parametrize("value", [None, 5, "", b"x", "never used", ["x"], "'; DROP TABLE x; --"])
def test_what_is_no_id_has_no_outcome(lake: lw.Lake, value: Any) -> None:
    with unchanged(lake), pytest.raises((InvalidInput, NotFound)):
        lake.outcome(value)


@pytest.mark.parametrize(
    "options",
    [
        *({"target": target} for target in (5, None, b"x", "", "mysql://host/db", "nul\0byte")),
        {"target": "lake", "warehouse": 5},
        {"target": "lake", "warehouse": "ftp://bucket"},
        {"target": "lake", "warehouse": ""},
        {"target": "lake", "storage_options": {"a": "b"}},
        {"target": "lake", "storage_options": 5},
        {"target": "lake", "actor": 5},
        {"target": "lake", "actor": "a\0b"},
        {"target": "lake", "create": "yes"},
    ],
    ids=str,
)
def test_a_lake_that_makes_no_sense_is_not_opened(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InvalidInput):
        lw.open(**options)

    assert list(tmp_path.iterdir()) == []
