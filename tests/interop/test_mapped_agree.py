"""Tables with mapped columns that we write: strangers read our rows, from old files and new."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.errors import ConstraintViolation, SchemaMismatch
from tests.behaviour.lakes import append, unchanged
from tests.interop.readers import DeltaRs, DuckDb, Reader
from tests.support.mapped_table import (
    FIRST_ROWS,
    IDS,
    MAX_ID,
    SCHEMA,
    mapped_table,
    stored_name,
)

Row = dict[str, Any]
_SETTINGS: Final = {
    "delta.enableChangeDataFeed": "true",
    "delta.constraints.known": "id > 0",
    "delta.checkpointInterval": "4",
}
_NEW: Final[list[Row]] = [
    {"id": 11, "note": "n", "p": "u", "part": {"x": 5}, "list": [{"k": "9"}], "map": [("q", 2)]},
    {"id": 12, "note": None, "p": "v/w", "part": None, "list": [], "map": None},
    {"id": 13, "note": "é", "p": None, "part": {"x": None}, "list": [{"k": None}], "map": []},
]


_OWN: Final[Row] = {"id": 30, "remark": "own", "p": "u", "list": []}


@pytest.fixture(params=["name", "id"])
def mode(request: pytest.FixtureRequest) -> str:
    """How columns are mapped."""
    found: str = request.param
    return found


@pytest.fixture(params=["delta-rs", pytest.param("duckdb", marks=pytest.mark.peers)])
def honest(request: pytest.FixtureRequest) -> Reader:
    """A reader that knows mapped columns."""
    if request.param == "delta-rs":
        return DeltaRs()
    found: DuckDb = request.getfixturevalue("duckdb")
    return found


def test_every_change_is_read_alike(
    own_lake: lw.Lake, name: str, tmp_path: Path, mode: str, honest: Reader
) -> None:
    table = own_lake.adopt(name, mapped_table(tmp_path / "t", mode, _SETTINGS))
    model = {r["id"]: r for r in FIRST_ROWS}

    def agree() -> None:
        wanted = sorted(map(_plain, model.values()), key=_key)
        assert sorted(map(_plain, table.to_arrow().to_pylist()), key=_key) == wanted
        found = sorted(map(_plain, honest.rows(table.location).to_pylist()), key=_key)
        # DuckDB reads null for every partition value of a table with mapped columns.
        blind = {"p": None} if isinstance(honest, DuckDb) else {}
        assert found == [{**row, **blind} for row in wanted]

    agree()
    append(own_lake, name, pa.Table.from_pylist(_NEW, SCHEMA))
    model |= {r["id"]: r for r in _NEW}
    agree()
    with own_lake.transaction() as tx:
        tx.update(name, set={"note": "concat(note, '!')"}, where="part.x = 1 OR id = 11")
        tx.delete(name, where="id = 2")
        seen = {r["id"]: r["note"] for r in tx.read(name).to_pylist()}
        assert seen == {1: "a!", 3: "c", 11: "n!", 12: None, 13: "é"}
    model[1], model[11] = {**model[1], "note": "a!"}, {**model[11], "note": "n!"}
    del model[2]
    agree()
    came = {"id": [12, 14], "note": ["twelve", "fourteen"], "p": ["v/w", "x"]}
    with own_lake.transaction() as tx:
        tx.merge(name, pa.table(came), on="id")
    empty = {"part": None, "list": None, "map": None}
    model[12] = {**model[12], "note": "twelve"}
    model[14] = {"id": 14, "note": "fourteen", "p": "x", **empty}
    agree()
    with own_lake.transaction() as tx:
        tx.overwrite(name, pa.Table.from_pylist([{**_NEW[0], "id": 20}], SCHEMA), where="p = 'u'")
    model = {i: r for i, r in model.items() if r["p"] != "u"} | {20: {**_NEW[0], "id": 20}}
    agree()
    for condition, wanted in {
        "id > 13": [14, 20],
        "p IS NULL": [13],
        "note >= 't' AND p = 'v/w'": [12],
        "part.x > 4": [20],
        "p = 'u' AND id < 20": [],
    }.items():
        found = table.to_arrow(columns=["id"], where=condition)["id"].to_pylist()
        assert (condition, sorted(found)) == (condition, wanted)
    with unchanged(own_lake), pytest.raises(ConstraintViolation, match="known"):
        append(own_lake, name, pa.Table.from_pylist([{**_NEW[0], "id": -1}], SCHEMA))


def test_rows_marked_in_place_are_gone(
    own_lake: lw.Lake, name: str, tmp_path: Path, mode: str, honest: Reader
) -> None:
    marks = {"delta.enableDeletionVectors": "true", "lakeward.mergeOnRead.fraction": "0.5"}
    table = own_lake.adopt(name, mapped_table(tmp_path / "t", mode, marks))
    rows = [{**_NEW[0], "id": n} for n in range(100, 140)]
    append(own_lake, name, pa.Table.from_pylist(rows, SCHEMA))
    with own_lake.transaction() as tx:
        tx.delete(name, where="id IN (2, 103, 104)")
    with own_lake.transaction() as tx:
        tx.update(name, set={"p": "'moved'"}, where="id = 105")

    assert sum(f.file.deletion_vector is not None for f in table.files()) == 2
    wanted = [1, 3, 100, 101, 102, *range(105, 140)]
    assert sorted(table.to_arrow()["id"].to_pylist()) == wanted
    found = honest.rows(table.location)
    assert sorted(found["id"].to_pylist()) == wanted
    assert table.to_arrow(columns=["id"], where="p = 'moved'")["id"].to_pylist() == [105]


def test_columns_are_found_by_ids_where_names_say_nothing(
    own_lake: lw.Lake, name: str, tmp_path: Path
) -> None:
    """Spark reads such files, as conversions leave them; delta-rs and DuckDB go by names."""
    table = own_lake.adopt(name, mapped_table(tmp_path / "t", "id", odd_names=True))
    assert list(map(_plain, table.to_arrow().to_pylist())) == FIRST_ROWS
    append(own_lake, name, pa.Table.from_pylist(_NEW, SCHEMA))
    for condition, wanted in {
        "id > 1 AND id < 12": [2, 3, 11],
        "p = 'u' AND part.x >= 1": [1, 11],
        "note IS NULL": [2, 12],
    }.items():
        found = table.to_arrow(columns=["id"], where=condition)["id"].to_pylist()
        assert (condition, sorted(found)) == (condition, wanted)
    with own_lake.transaction() as tx:
        tx.delete(name, where="id = 2")
        tx.update(name, set={"note": "concat(note, p)"}, where="id IN (1, 11)")
    found = {r["id"]: _plain(r) for r in table.to_arrow().to_pylist()}
    assert found[1] == {**FIRST_ROWS[0], "note": "au"}
    assert found[3] == FIRST_ROWS[2]
    assert {i: r["note"] for i, r in found.items()} == {
        1: "au",
        3: "c",
        11: "nu",
        12: None,
        13: "é",
    }


def test_the_published_log_and_the_files_have_the_names_in_files(
    own_lake: lw.Lake, name: str, tmp_path: Path, mode: str
) -> None:
    where = mapped_table(tmp_path / "t", mode, _SETTINGS)
    table = own_lake.adopt(name, where)
    append(own_lake, name, pa.Table.from_pylist(_NEW[:1], SCHEMA))
    with own_lake.transaction() as tx:
        tx.update(name, set={"note": "'new'"}, where="id = 1")

    actions = _actions(where)
    mine = next(a["add"] for a in actions if "add" in a and a["add"]["path"] != "first.parquet")
    assert mine["partitionValues"] == {stored_name("p"): "u"}
    stats = json.loads(mine["stats"])
    assert stats["minValues"][stored_name("id")] == 11
    stored = {stored_name(n) for n in IDS}
    assert stored >= stats["minValues"].keys() | stats["maxValues"].keys()
    assert stored >= stats["nullCount"].keys()
    assert table.at(version=1).schema.names == SCHEMA.names
    expected = {stored_name(n): i for n, i in IDS.items() if n != "p"}
    assert _ids(pq.read_schema(where / mine["path"])) == expected
    (change,) = [a["cdc"] for a in actions if "cdc" in a]
    found = _ids(pq.read_schema(where / change["path"]))
    kind = found.pop("_change_type")
    assert found == expected
    assert kind not in IDS.values()


def test_a_file_is_added_by_the_names_and_ids_in_files(
    own_lake: lw.Lake, name: str, tmp_path: Path, mode: str
) -> None:
    where = mapped_table(tmp_path / "t", mode)
    table = own_lake.adopt(name, where)
    (where / "p=u").mkdir()
    shutil.copy(where / "first.parquet", where / "p=u" / "mine.parquet")
    pq.write_table(pa.table({"id": [5]}), where / "p=u" / "named.parquet")
    unnumbered = pa.table({stored_name("id"): [6]})
    pq.write_table(unnumbered, where / "p=u" / "unnumbered.parquet")
    with own_lake.transaction() as tx:
        tx.add_files(name, ["p=u/mine.parquet"])

    assert sorted(table.to_arrow(where="p = 'u'")["id"].to_pylist()) == [1, 1, 2, 2, 3, 3]
    assert [r["id"] for r in table.to_arrow(where="id > 2").to_pylist()] == [3, 3]
    with unchanged(own_lake), pytest.raises(SchemaMismatch, match="Append the rows"):
        _add(own_lake, name, "p=u/named.parquet")
    if mode == "id":
        with unchanged(own_lake), pytest.raises(SchemaMismatch, match="no field id"):
            _add(own_lake, name, "p=u/unnumbered.parquet")
    else:
        _add(own_lake, name, "p=u/unnumbered.parquet")
        assert table.to_arrow(columns=["id"], where="id = 6")["id"].to_pylist() == [6]


def test_a_mapped_table_is_altered_and_read_alike(
    own_lake: lw.Lake, name: str, tmp_path: Path, mode: str
) -> None:
    where = mapped_table(tmp_path / "t", mode)
    table = own_lake.adopt(name, where)
    with own_lake.transaction() as tx:
        change = tx.alter(name).add_column("extra", "int64").add_column("part.y", "string")
        change.rename_column("note", "remark").rename_column("part.x", "z").drop_column("map")
        tx.append(name, [{**_OWN, "extra": 5, "part": {"z": 6, "y": "seven"}}])
    with own_lake.transaction() as tx:
        tx.alter(name).add_column("note", "int64")
        tx.update(name, set={"extra": "id"}, where="part.z = 1")

    wanted = {
        1: ("a", {"z": 1, "y": None}, 1),
        2: (None, None, None),
        3: ("c", {"z": None, "y": None}, None),
        30: ("own", {"z": 6, "y": "seven"}, 5),
    }
    for found in (table.to_arrow(), DeltaRs().rows(table.location)):
        assert set(found.column_names) == {"id", "remark", "p", "part", "list", "extra", "note"}
        rows = {r["id"]: (r["remark"], r["part"], r["extra"]) for r in found.to_pylist()}
        assert rows == wanted
        assert found["note"].null_count == len(found)
    assert table.at(version=0).schema.names == SCHEMA.names
    assert table.at(version=0).to_arrow()["note"].to_pylist() == ["a", None, "c"]
    last = [a["metaData"] for a in _actions(where) if "metaData" in a][-1]
    numbers = _mapped_ids(json.loads(last["schemaString"]))
    assert len(set(numbers)) == len(numbers)
    assert sorted(numbers)[-3:] == [MAX_ID + 1, MAX_ID + 2, MAX_ID + 3]
    assert last["configuration"]["delta.columnMapping.maxColumnId"] == str(MAX_ID + 3)


def test_a_new_table_has_mapped_columns_if_it_asks_for_them(
    own_lake: lw.Lake, name: str, mode: str, honest: Reader
) -> None:
    properties = {"delta.columnMapping.mode": mode, "delta.enableTypeWidening": "false"}
    columns = pa.schema([("id", pa.int64()), ("part", pa.struct([("x", pa.int64())]))])
    table = own_lake.create(name, columns, properties=properties)
    append(own_lake, name, [{"id": 1, "part": {"x": 2}}])
    with own_lake.transaction() as tx:
        tx.alter(name).rename_column("part.x", "y").add_column("x", "int64")
        tx.append(name, [{"id": 3, "part": {"y": 4}, "x": 5}])

    wanted = [
        {"id": 1, "part": {"y": 2}, "x": None},
        {"id": 3, "part": {"y": 4}, "x": 5},
    ]
    assert table.to_arrow().sort_by("id").to_pylist() == wanted
    assert honest.rows(table.location).sort_by("id").to_pylist() == wanted
    assert table.at(version=0).details().properties["delta.columnMapping.mode"] == mode


def _mapped_ids(source: Any) -> list[int]:
    """The ids of column mapping at every depth of a schema's JSON."""
    if isinstance(source, list):
        return [i for part in source for i in _mapped_ids(part)]
    if not isinstance(source, dict):
        return []
    own = (source.get("metadata") or {}).get("delta.columnMapping.id")
    below = _mapped_ids([v for k, v in source.items() if k != "metadata"])
    return below if own is None else [own, *below]


def _add(lake: lw.Lake, name: str, path: str) -> None:
    with lake.transaction() as tx:
        tx.add_files(name, [path])


def _ids(source: Any) -> dict[str, int | None]:
    """The field ids of a file's columns, of parts of structs too."""
    out: dict[str, int | None] = {}
    for field in source:
        number = (field.metadata or {}).get(b"PARQUET:field_id")
        out[field.name] = None if number is None else int(number)
        kind = field.type.value_type if pa.types.is_list(field.type) else field.type
        if pa.types.is_struct(kind):
            out |= _ids(kind)
    return out


def _actions(where: Path) -> list[dict[str, Any]]:
    logs = sorted((where / "_delta_log").glob("*.json"))
    return [json.loads(line) for log in logs for line in log.read_text().splitlines()]


def _plain(row: Row) -> Row:
    """A row with maps as lists of pairs, whoever read it."""
    pairs = row["map"]
    return {**row, "map": None if pairs is None else [tuple(p) for p in _pairs(pairs)]}


def _pairs(source: Any) -> list[Any]:
    if isinstance(source, dict):
        return list(source.items())
    return [tuple(p.values()) if isinstance(p, dict) else p for p in source]


def _key(row: Row) -> int:
    found: int = row["id"]
    return found
