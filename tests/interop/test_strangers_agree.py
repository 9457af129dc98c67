"""What we write, strangers read: row for row, version for version."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from tests.behaviour.lakes import append, delete, log_files, overwrite
from tests.behaviour.samples import PARTITIONING, VALUES, exact_rows, partition_sample, sample
from tests.interop.readers import Reader, as_ours


def _agree(stranger: Reader, table: lw.Table, *, version: int | None = None) -> int:
    """Assert that the stranger reads what we read; how many rows that are."""
    ours = table.at(version=version).to_arrow()
    theirs = stranger.rows(table.location, version=version)
    assert exact_rows(as_ours(theirs, ours.schema)) == exact_rows(ours)
    return ours.num_rows


@pytest.fixture(scope="module")
def kinds(own_lake: lw.Lake) -> dict[str, lw.Table]:
    """A table of each type, its values in two files."""
    made = {}
    for kind in VALUES:
        data = sample(kind)
        made[kind] = own_lake.create(f"kinds.{kind}", data.schema)
        append(own_lake, f"kinds.{kind}", data.slice(0, 2))
        append(own_lake, f"kinds.{kind}", data.slice(2))
    return made


@pytest.mark.parametrize("kind", VALUES)
def test_every_type_reads_the_same(stranger: Reader, kinds: dict[str, lw.Table], kind: str) -> None:
    assert _agree(stranger, kinds[kind]) == len(VALUES[kind][1]) + 1


@pytest.fixture(scope="module")
def parted(own_lake: lw.Lake) -> dict[str, lw.Table]:
    """A table partitioned by each type that can partition one, with a null."""
    made = {}
    for kind in PARTITIONING:
        data = partition_sample(kind)
        name = f"parted.{kind}"
        made[kind] = own_lake.create(name, data.schema, partition_by=["x"])
        append(own_lake, name, data)
    return made


@pytest.mark.parametrize("kind", PARTITIONING)
def test_every_partition_type_reads_the_same(
    stranger: Reader, parted: dict[str, lw.Table], kind: str
) -> None:
    assert _agree(stranger, parted[kind]) == partition_sample(kind).num_rows


_AWKWARD = [
    "a/b",
    "a=b",
    "a b",
    "a%2Fb",
    "%",
    "..",
    "ünï🦆",
    "quote'd",
    'double"quote',
    "back\\slash",
    "a:b*c?d",
    "#hash&more",
    "{brace}",
    "a+b",
    "x" * 250,
]


@pytest.fixture(scope="module")
def awkward(own_lake: lw.Lake) -> lw.Table:
    table = own_lake.create(
        "awkward", {"id": "int64", "p": "string", "q": "date"}, partition_by=["p", "q"]
    )
    rows: list[dict[str, Any]] = [
        {"id": n, "p": p, "q": None if n % 2 else date(2026, 1, 1)} for n, p in enumerate(_AWKWARD)
    ]
    append(own_lake, "awkward", [*rows, {"id": 1000, "p": None, "q": None}])
    return table


def test_awkward_partition_values_read_the_same(stranger: Reader, awkward: lw.Table) -> None:
    assert _agree(stranger, awkward) == len(_AWKWARD) + 1


@pytest.fixture(scope="module")
def eventful(own_lake: lw.Lake) -> lw.Table:
    """Appends, overwrites, deletes, files by hand, empty commits, on partitions."""
    name = "eventful"
    schema = {"id": "int64", "p": "string", "v": pa.struct([("n", pa.list_(pa.int64()))])}
    table = own_lake.create(name, schema, partition_by=["p"])

    def rows(start: int, count: int) -> list[dict[str, Any]]:
        return [
            {"id": n, "p": ("a", "b/c", None)[n % 3], "v": {"n": [n, None]}}
            for n in range(start, start + count)
        ]

    append(own_lake, name, rows(0, 10))
    append(own_lake, name, rows(10, 10))
    delete(own_lake, name, "id = 4")
    overwrite(own_lake, name, [{"id": 100, "p": "a", "v": None}], where="p = 'a'")
    append(own_lake, name, [])
    with own_lake.transaction() as tx:
        tx.remove_files(name, [table.files(where="p = 'b/c'")[0].path])
        tx.record(name, "app", 1)
    delete(own_lake, name, "p IS NULL AND id > 10")
    overwrite(own_lake, name, rows(50, 5))
    append(own_lake, name, rows(60, 5))
    return table


@pytest.mark.parametrize("version", range(10))
def test_every_version_reads_the_same(stranger: Reader, eventful: lw.Table, version: int) -> None:
    assert eventful.version == 9
    _agree(stranger, eventful, version=version)


@pytest.fixture(scope="module")
def long_lived(own_lake: lw.Lake) -> lw.Table:
    """Two hundred versions with checkpoints on the way."""
    name = "long_lived"
    table = own_lake.create(
        name,
        {"id": "int64", "p": "int32", "note": "string"},
        partition_by=["p"],
        policy={"checkpoint_interval": 30},
    )
    for version in range(1, 201):
        data = {"id": [version], "p": [version % 4], "note": [f"row {version}"]}
        if version % 25 == 0:
            delete(own_lake, name, f"id < {version - 60}")
        elif version % 40 == 7:
            overwrite(own_lake, name, data, where=f"p = {version % 4}")
        else:
            append(own_lake, name, data)
    return table


@pytest.mark.parametrize("version", [None, 0, 1, 29, 30, 31, 60, 89, 90, 91, 150, 199, 200])
def test_two_hundred_versions_and_checkpoints_read_the_same(
    stranger: Reader, long_lived: lw.Table, version: int | None
) -> None:
    assert long_lived.version == 200
    _agree(stranger, long_lived, version=version)


def test_a_checkpoint_stands_for_the_commits_before_it(
    stranger: Reader, own_lake: lw.Lake, name: str
) -> None:
    """With the commits gone, readers have only the checkpoint to go by."""
    table = own_lake.create(name, sample("deep").schema, policy={"checkpoint_interval": 3})
    for _ in range(3):
        append(own_lake, name, sample("deep"))
    append(own_lake, name, sample("deep"))
    own_lake.publish()
    for path in log_files(own_lake, name)[:3]:
        path.unlink()

    assert _agree(stranger, table) == 4 * sample("deep").num_rows


def test_empty_tables_read_the_same(stranger: Reader, own_lake: lw.Lake, name: str) -> None:
    table = own_lake.create(name, {"id": "int64", "x": "string"})

    assert _agree(stranger, table) == 0
    append(own_lake, name, [])
    assert _agree(stranger, table) == 0


@pytest.mark.parametrize(
    "column", ["with space", "Ünïcode 🦆", "a.b", "quote'd", "a=b/c", "select"]
)
def test_awkward_column_names_read_the_same(
    stranger: Reader, own_lake: lw.Lake, name: str, column: str
) -> None:
    table = own_lake.create(name, {"id": "int64", column: "string"})
    append(own_lake, name, [{"id": 1, column: "x"}])

    assert _agree(stranger, table) == 1


def test_constraints_comments_and_properties_do_not_keep_readers_out(
    stranger: Reader, own_lake: lw.Lake, name: str
) -> None:
    table = own_lake.create(
        name,
        pa.schema([pa.field("id", pa.int64(), nullable=False, metadata={"comment": "key"})]),
        constraints={"positive": "id > 0"},
        properties={"owner": "me", "delta.enableChangeDataFeed": "true"},
        comment="words",
    )
    append(own_lake, name, {"id": [1, 2]})

    assert _agree(stranger, table) == 2
