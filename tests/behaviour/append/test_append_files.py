"""Files by path and pattern, in every format, read by the table's types."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.engines.arrow.json_lines import JsonLines
from lakeward.errors import InvalidInput, NotFound, SchemaMismatch
from tests.behaviour.lakes import append, data_files, unchanged

pytestmark = pytest.mark.before_the_store

_COLUMNS = "id int32, name string, price decimal(10,2), at timestamp, day date, ok boolean"
_ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "name": "a, b",
        "price": Decimal("9.90"),
        "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "day": date(2026, 1, 2),
        "ok": True,
    },
    {"id": 2, "name": "", "price": None, "at": None, "day": None, "ok": False},
    {"id": None, "name": None, "price": None, "at": None, "day": None, "ok": None},
]
_CSV = (
    "id,name,price,at,day,ok\n"
    '1,"a, b",9.9,2026-01-02 03:04:05,2026-01-02,true\n'
    '2,"",,,,FALSE\n'
    ",,,,,\n"
)
_JSON = (
    '{"id": 1, "name": "a, b", "price": 9.9, "at": "2026-01-02T03:04:05", "day": "2026-01-02",'
    ' "ok": true}\n'
    '{"id": 2, "name": "", "ok": false}\n'
    "{}\n"
)


def _table() -> pa.Table:
    """The rows with types that are not the table's own."""
    kinds: list[tuple[str, pa.DataType]] = [
        *(("id", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(20, 4))),
        *(("at", pa.timestamp("us")), ("day", pa.date32()), ("ok", pa.bool_())),
    ]
    rows = [{**row, "at": row["at"] and row["at"].replace(tzinfo=None)} for row in _ROWS]
    return pa.Table.from_pylist(rows, pa.schema(kinds))


def _ipc(path: Path) -> None:
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_stream(out, _table().schema) as writer:
        writer.write_table(_table())


_FILES: dict[str, Callable[[Path], object]] = {
    "x.parquet": lambda path: pq.write_table(_table(), path, row_group_size=1),
    "x.csv": lambda path: path.write_text(_CSV),
    "x.CSV": lambda path: path.write_text(_CSV),
    "x.csv.gz": lambda path: path.write_bytes(gzip.compress(_CSV.encode())),
    "x.tsv": lambda path: path.write_text(
        _CSV.replace('"a, b"', "a; b").replace(",", "\t").replace("a; b", "a, b")
    ),
    "x.jsonl": lambda path: path.write_text(_JSON),
    "x.ndjson.gz": lambda path: path.write_bytes(gzip.compress(_JSON.encode())),
    "x.feather": lambda path: pyarrow.feather.write_feather(_table(), path),
    "x.arrow": _ipc,
}


@pytest.mark.parametrize("file", _FILES)
@pytest.mark.parametrize("operation", ["append", "overwrite", "merge"])
def test_a_file_is_read_by_its_path(
    shared_lake: lw.Lake, name: str, tmp_path: Path, file: str, operation: str
) -> None:
    shared_lake.create(name, _COLUMNS)
    _FILES[file](tmp_path / file)

    with shared_lake.transaction() as tx:
        if operation == "merge":
            tx.merge(name, tmp_path / file, on="target.id = source.id AND target.ok = source.ok")
        else:
            getattr(tx, operation)(name, str(tmp_path / file))

    assert shared_lake.table(name).to_arrow().to_pylist() == _ROWS


def test_a_pattern_takes_files_in_the_order_of_their_names(
    shared_lake: lw.Lake, name: str, tmp_path: Path
) -> None:
    shared_lake.create(name, "id int64")
    for number in (3, 1, 2):
        (tmp_path / f"{number}.csv").write_text(f"id\n{number}\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "4.csv").write_text("id\n4\n")
    (tmp_path / "a[1].csv").write_text("id\n5\n")

    append(shared_lake, name, str(tmp_path / "[0-9].csv"))
    append(shared_lake, name, [tmp_path / "a[1].csv", str(tmp_path / "**" / "4.csv")])

    assert shared_lake.table(name).to_arrow()["id"].to_pylist() == [1, 2, 3, 5, 4]


def test_a_map_beside_them_changes_nothing_for_other_columns(
    shared_lake: lw.Lake, name: str, tmp_path: Path
) -> None:
    shared_lake.create(name, f"{_COLUMNS}, tags map<string, int64>")
    tags = '"tags": {"a": 1}}'
    lines = [f"{line[:-1]}{', ' if line != '{}' else ''}{tags}" for line in _JSON.splitlines()]
    (tmp_path / "x.jsonl").write_text("\n".join(lines) + "\n")

    append(shared_lake, name, tmp_path / "x.jsonl")

    expected = [{**row, "tags": [("a", 1)]} for row in _ROWS]
    assert shared_lake.table(name).to_arrow().to_pylist() == expected


def test_values_in_maps_are_read_as_those_of_columns(
    shared_lake: lw.Lake, name: str, tmp_path: Path
) -> None:
    exact = "decimal(30,2)"
    shared_lake.create(
        name,
        f"price {exact}, prices map<string, {exact}>, days map<date, timestamp_ntz>,"
        " s struct<d: date, m: map<string, boolean>>, l list<map<string, double>>,"
        " deep map<string, map<string, date>>, numbers map<int64, string>",
    )
    (tmp_path / "x.jsonl").write_text(
        '\ufeff{"price": 123456789012345678901.25, "prices": {"b": 123456789012345678901.25,'
        ' "a": "0.5"}, "days": {"2026-01-02": "2026-01-02 03:04:05"},'
        ' "s": {"d": "2026-01-02", "m": {"x": true, "é": null}}, "l": [{}, null, {"x": 1}],'
        ' "deep": {"x": {"y": "2026-01-02"}}, "numbers": [[1, "a"], [2, null]]}\n'
        "\n"
        '{"prices": null, "s": {"d": null}}{"prices": {}, "s": null}\n'
    )

    append(shared_lake, name, tmp_path / "x.jsonl")

    price, day = Decimal("123456789012345678901.25"), date(2026, 1, 2)
    none = dict.fromkeys(["price", "prices", "days", "s", "l", "deep", "numbers"])
    assert shared_lake.table(name).to_arrow().to_pylist() == [
        {
            "price": price,
            "prices": [("b", price), ("a", Decimal("0.50"))],
            "days": [(day, datetime(2026, 1, 2, 3, 4, 5))],  # noqa: DTZ001  a wall clock
            "s": {"d": day, "m": [("x", True), ("é", None)]},
            "l": [[], None, [("x", 1.0)]],
            "deep": [("x", [("y", day)])],
            "numbers": [(1, "a"), (2, None)],
        },
        none | {"s": {"d": None, "m": None}},
        none | {"prices": []},
    ]


_NESTED = pa.schema(
    {
        "id": pa.int64(),
        "m": pa.map_(pa.string(), pa.int64()),
        "s": pa.struct({"d": pa.date32(), "f": pa.float32()}),
        "l": pa.list_(pa.map_(pa.date32(), pa.float32())),
        "r": pa.struct([pa.field("a", pa.int64(), nullable=False)]),
        "n": pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)),
    }
)
_WRONG_PARTS: dict[str, tuple[str, type[Exception], str]] = {
    "value": ('{"m": {"a": 1.5}}', SchemaMismatch, '{"a":1.5} in line 2 of '),
    "text for a number": ('{"m": {"a": "1"}}', SchemaMismatch, '{"a":"1"} in line 2 of '),
    "no map": ('{"m": 1}', SchemaMismatch, "1 in line 2 of "),
    "no pairs": ('{"m": [1]}', SchemaMismatch, "[1] in line 2 of "),
    "entries": ('{"m": [{"key": "a"}]}', SchemaMismatch, '[{"key":"a"}] in line 2 of '),
    "key": ('{"m": [[null, 1]]}', SchemaMismatch, "[[null,1]] in line 2 of "),
    "name twice": ('{"m": {"a": 1, "a": 2}}', InvalidInput, "a name twice"),
    "column twice": ('{"id": 1, "id": 2}', InvalidInput, "a name twice"),
    "unknown column": ('{"mm": {}}', SchemaMismatch, "no column 'mm', which line 2 of "),
    "unknown part": ('{"s": {"e": 1}}', SchemaMismatch, '{"e":1} in line 2 of '),
    "not JSON": ('{"m": {"a": 1}', InvalidInput, "Line 2 of "),
    "half a character": ('{"m": {"\\ud800": 1}}', InvalidInput, "Line 2 of "),
    "required part": ('{"r": {}}', SchemaMismatch, "{} in line 2 of "),
    "required value": ('{"n": {"a": null}}', SchemaMismatch, '{"a":null} in line 2 of '),
    "time of a day": ('{"s": {"d": "2026-01-02T05:00:00"}}', SchemaMismatch, "in line 2 of "),
    "large number": ('{"s": {"f": 1e300}}', SchemaMismatch, "in line 2 of "),
    "time in a key": ('{"l": [{"2026-01-02 05:00:00": 1}]}', SchemaMismatch, "in line 2 of "),
    "large number in a map": ('{"l": [{"2026-01-02": 1e300}]}', SchemaMismatch, "in line 2 of "),
}


@pytest.mark.parametrize("case", _WRONG_PARTS)
def test_what_is_wrong_within_a_value_is_named(case: str) -> None:
    line, kind, message = _WRONG_PARTS[case]
    text = f'{{"id": 1, "m": {{"a": 1}}, "r": null}}\n{line}\n'
    with pytest.raises(kind) as caught:
        JsonLines(_NESTED, "t").table(text.encode(), path="x.jsonl")
    assert message in str(caught.value)
    assert "ine 2 of x.jsonl" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.struct({"d": pa.date32()}), b'{"d": "2026-01-02T05:00:00"}'),
        (pa.list_(pa.date32()), b'["2026-01-02 05:00:00"]'),
        (pa.struct({"f": pa.float32()}), b'{"f": 1e300}'),
        (pa.string(), b'"\xff"'),
    ],
    ids=["time in a struct", "time in a list", "large number", "no UTF-8"],
)
def test_no_value_is_changed_without_a_word(kind: pa.DataType, value: bytes) -> None:
    with pytest.raises(InvalidInput, match="ine 1 of x"):
        JsonLines(pa.schema({"c": kind}), "t").table(b'{"c": %b}\n' % value, path="x")


@pytest.mark.parametrize("value", ['"nan"', '"1.5"', '"infinity"', "1e300"])
@pytest.mark.parametrize("other", ["1.5", '"NaN"', '"Infinity"'])
def test_texts_of_numbers_are_refused_but_for_those_that_are_no_json(
    value: str, other: str
) -> None:
    schema = pa.schema({"c": pa.list_(pa.float32()), "m": pa.map_(pa.string(), pa.float64())})
    lines = f'{{"c": [{other}], "m": {{"a": {other}, "b": 1e300}}}}\n'
    found = JsonLines(schema, "t").table(lines.encode())
    read = float(other.strip('"'))
    assert str(found["c"].to_pylist()) == f"[[{read}]]"
    assert str(found["m"].to_pylist()) == f"[[('a', {read}), ('b', 1e+300)]]"
    with pytest.raises(InvalidInput, match="ine 2 of x"):
        JsonLines(schema, "t").table(f'{lines}{{"c": [{value}]}}'.encode(), path="x")


_WRONG: dict[str, tuple[str, str, type[Exception], str]] = {
    "number": ("x.csv", "id\n1\n2\nx\n", SchemaMismatch, "'x' in line 4 of "),
    "number in json": ("x.jsonl", '{"id": 1}\n{"id": 1.5}\n', SchemaMismatch, "1.5 in line 2 of "),
    "lines in text": ("x.csv", 'id\n"1\n"\nx\n', SchemaMismatch, "'x' in row 1 of "),
    "broken json": ("x.jsonl", '{"id": 1}\n{"id"\n', InvalidInput, "Line 2 of "),
    "array": ("x.json", '[{"id": 1}]', InvalidInput, "one JSON array"),
    "fields": ("x.csv", "id\n1,2\n", InvalidInput, "has 2 fields; the first line names 1 column"),
    "empty": ("x.csv", "", InvalidInput, "is empty"),
    "header": ("x.csv", "1\n2\n", SchemaMismatch, "names no column of"),
    "unknown field": ("x.jsonl", '{"idd": 1}\n', SchemaMismatch, "no column 'idd'"),
    "no parquet": ("x.parquet", "id", InvalidInput, "cannot be read as parquet"),
    "no arrow": ("x.feather", "id", InvalidInput, "cannot be read as arrow"),
    "unknown format": ("x.xlsx", "id", InvalidInput, "is not the name of a file"),
}


@pytest.mark.parametrize("case", _WRONG)
def test_what_is_wrong_with_a_file_is_named(
    shared_lake: lw.Lake, name: str, tmp_path: Path, case: str
) -> None:
    file, text, kind, message = _WRONG[case]
    shared_lake.create(name, "id int64")
    (tmp_path / file).write_text(text)

    with unchanged(shared_lake), pytest.raises(kind) as caught:
        append(shared_lake, name, tmp_path / file)

    assert message in str(caught.value)
    assert file in str(caught.value)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("nothing.csv", NotFound),
        ("nothing-*.csv", NotFound),
        (".", InvalidInput),
    ],
)
def test_files_that_are_not_there_are_an_error(
    shared_lake: lw.Lake, name: str, given: str, kind: type[Exception]
) -> None:
    shared_lake.create(name, "id int64")

    with unchanged(shared_lake), pytest.raises(kind, match=given[:7]):
        append(shared_lake, name, given)


def test_a_zone_has_no_place_in_a_wall_clock(
    shared_lake: lw.Lake, name: str, tmp_path: Path
) -> None:
    shared_lake.create(name, "at timestamp_ntz")
    (tmp_path / "x.csv").write_text("at\n2026-01-01T00:00:00Z\n")
    (tmp_path / "x.jsonl").write_text('{"at": "2026-01-01T00:00:00+02:00"}\n')

    for file in ("x.csv", "x.jsonl"):
        with unchanged(shared_lake), pytest.raises(SchemaMismatch, match="2026-01-01T00:00:00"):
            append(shared_lake, name, tmp_path / file)


def test_a_lazy_frame_is_computed_part_by_part(
    shared_lake: lw.Lake, name: str, tmp_path: Path
) -> None:
    shared_lake.create(name, "id int32, name string")
    (tmp_path / "x.csv").write_text("id,name\n1,a\n2,b\n3,c\n")
    frame = pl.scan_csv(tmp_path / "x.csv")

    append(shared_lake, name, frame.filter(pl.col("id") > 1))
    append(shared_lake, name, frame.filter(pl.col("id") > 9))

    expected = [{"id": 2, "name": "b"}, {"id": 3, "name": "c"}]
    assert shared_lake.table(name).to_arrow().to_pylist() == expected


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_large_file_is_read_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    from lakeward.engines.arrow.files import rows_of

    # Arrow reads so many blocks ahead that a file of moderate size would be read at once.
    monkeypatch.setattr("lakeward.engines.arrow.csv._BLOCK", 2**16)
    count = 1_000_000
    frame = pl.DataFrame({"id": range(count)}).with_columns(
        name=pl.lit("x" * 40) + pl.col("id").cast(pl.String)
    )
    path = tmp_path / f"x.{kind}"
    match kind:
        case "csv":
            frame.write_csv(path)
        case "jsonl":
            frame.write_ndjson(path)
        case _:
            frame.write_parquet(path, row_group_size=50_000)
    del frame
    before, most, rows, size = pa.total_allocated_bytes(), 0, 0, 0

    for part in rows_of(path, pa.schema({"id": pa.int64(), "name": pa.string()}), "t"):
        rows, size = rows + part.num_rows, size + part.nbytes
        most = max(most, pa.total_allocated_bytes() - before)
        del part

    assert rows == count
    assert most < size / 2


@pytest.mark.parametrize("operation", ["append", "overwrite", "merge"])
def test_a_file_that_is_wrong_at_its_end_leaves_nothing_behind(
    shared_lake: lw.Lake, name: str, tmp_path: Path, operation: str
) -> None:
    shared_lake.create(name, "id int64", policy={"target_file_size": "16kb"})
    append(shared_lake, name, [{"id": 1}])
    files = data_files(shared_lake, name)
    (tmp_path / "a.csv").write_text("id\n" + "".join(f"{n}\n" for n in range(50_000)))
    (tmp_path / "b.csv").write_text("id\n1\nlast\n")
    options = {"on": "id"} if operation == "merge" else {}

    with (
        unchanged(shared_lake),
        pytest.raises(SchemaMismatch, match=r"'last' in line 3 of .*b.csv"),
    ):
        getattr(shared_lake.transaction(), operation)(name, str(tmp_path / "*.csv"), **options)

    assert data_files(shared_lake, name) == files


@pytest.mark.one_pair
@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("null\n", 1),
        (' null\n{"id": 2}\n', 1),
        ('{"id": 1}\n\tnull\n{"id": 2}\n', 2),
        ('{"id": 1}\n\n5', 3),
        ('{"id": 1}\n{"id": 2}{"id": 3} null\n', 2),
        ('\n\n{"id": 1} null\n\n\n', 3),
    ],
)
def test_lines_that_are_no_objects_are_refused(
    shared_lake: lw.Lake, name: str, tmp_path: Path, suffix: str, text: str, line: int
) -> None:
    """pyarrow crashes on a first line `null`, and takes a later one for a row of nulls."""
    table = shared_lake.create(name, "id int64, s string")
    path = tmp_path / f"rows.{suffix}"
    path.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())

    with pytest.raises(InvalidInput, match=f"Line {line} of .* JSON"):
        table.append(path)
    if "null\n" in text[:6]:
        with pytest.raises(InvalidInput, match="no JSON object"):
            shared_lake.create(f"{name}_like", like=path)
    assert table.count() == 0
