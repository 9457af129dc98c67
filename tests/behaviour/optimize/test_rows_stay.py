"""Compaction and clustering: rows stay, files change, and only where it pays off."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.engines.arrow import clustering
from lakeward.errors import InvalidInput, LakewardError, UnsupportedFeature
from lakeward.maintain.optimize import choice
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.row_counts import RowCounts
from tests.support.tables import table_of

_SCHEMA = {"id": "int64", "k": "string", "v": "float64", "p": "string"}
LAYOUTS: list[dict[str, Any]] = [
    {},
    {"zorder": ["id", "k"]},
    {"hilbert": ["id", "v"]},
    {"sort": ["k", "id"]},
]


def batch(start: int, count: int = 40) -> pa.Table:
    """Rows whose ids are spread, with nulls and NaN among the values."""
    ids = [(start + n) * 7919 % 1000 for n in range(count)]
    return pa.table(
        {
            "id": ids,
            "k": [None if i % 13 == 0 else f"k{i % 50}" for i in ids],
            "v": pa.array([float("nan") if i % 97 == 0 else i / 3 for i in ids], pa.float64()),
            "p": [f"p{i % 2}" for i in ids],
        }
    )


SMALL = table_of(**_SCHEMA).rows(*(batch(40 * n) for n in range(6)))


def rows(table: lw.Table | lw.TableSnapshot) -> list[str]:
    """All rows in an order of their own; NaN is equal to itself."""
    return sorted(str(r) for r in table.to_arrow().to_pylist())


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("parts", [(), ("p",)], ids=["whole", "partitioned"])
def test_rows_are_the_same_in_fewer_files_after_one_version(
    shared_lake: lw.Lake, name: str, layout: dict[str, Any], parts: tuple[str, ...]
) -> None:
    table = SMALL.partitioned(*parts).make(shared_lake, name)
    before, version = rows(table), table.version

    done = table.optimize(**layout)

    assert done.state == "done"
    assert rows(table) == before
    assert rows(table.at(version=version)) == before
    assert len(table.files()) == max(1, 2 * len(parts))
    assert table.version == version + 1
    (newest,) = table.history(limit=1)
    assert newest.operation == "OPTIMIZE"
    assert newest.changed == RowCounts(0, 0, 0)
    assert table.optimize(**layout).state == "nothing"
    assert table.version == version + 1
    assert not shared_lake.doctor(tables=[name]).findings


@pytest.mark.parametrize("kind", ["zorder", "hilbert"])
def test_conditions_on_every_clustered_column_skip_files(
    shared_lake: lw.Lake, name: str, kind: str
) -> None:
    ids = pa.array(range(20_000))
    data = pa.table({"a": [int(i) * 7919 % 20_000 for i in range(20_000)], "b": ids})
    table = table_of(a="int64", b="int64").rows(data).make(shared_lake, name)

    asked: dict[str, Any] = {kind: ["a", "b"]}
    table.optimize(**asked, target_size=20_000)

    count = len(table.files())
    assert count > 6
    for where in ("a between 100 and 200", "b between 100 and 200"):
        assert len(table.files(where=where)) <= count * 0.7, where
        assert table.count(where) == 101


def test_sorted_files_follow_each_other(shared_lake: lw.Lake, name: str) -> None:
    data = pa.table({"a": [int(i) * 7919 % 20_000 for i in range(20_000)]})
    table = table_of(a="int64").rows(data).make(shared_lake, name)

    table.optimize(sort="a", target_size=10_000)

    known: list[Any] = [f.file.stats for f in table.files()]
    bounds = sorted((stats.minimum[1], stats.maximum[1]) for stats in known)
    assert len(bounds) > 3
    assert all(high < low for (_, high), (low, _) in itertools.pairwise(bounds))
    assert table.to_arrow()["a"].to_pylist() == list(range(20_000))


@pytest.mark.formats("delta")
def test_deleted_rows_are_purged(shared_lake: lw.Lake, name: str) -> None:
    table = SMALL.merging_on_read().make(shared_lake, name)
    table.delete(where="id < 20")
    assert any(f.file.deletion_vector for f in table.files())
    before = rows(table)

    table.optimize()

    assert rows(table) == before
    assert not any(f.file.deletion_vector for f in table.files())
    table.delete(where="id = 919")
    assert table.optimize().state == "nothing"
    assert table.optimize(purge=True).state == "done"
    assert not any(f.file.deletion_vector for f in table.files())


def test_only_partitions_that_a_condition_names_are_rewritten(
    shared_lake: lw.Lake, name: str
) -> None:
    table = SMALL.partitioned("p").make(shared_lake, name)

    table.optimize(where="p = 'p1'")

    assert len(table.files(where="p = 'p1'")) == 1
    assert len(table.files(where="p = 'p0'")) == 6


def test_new_rows_are_clustered_without_the_clustered_ones(shared_lake: lw.Lake, name: str) -> None:
    numbers = [i * 7919**3 % 10**9 for i in range(20_000)]
    table = table_of(a="int64").rows(pa.table({"a": numbers})).make(shared_lake, name)
    table.optimize(zorder="a")
    (old,) = table.files()
    table.append(pa.table({"a": [5, 6]}))

    done = table.optimize(zorder="a")

    assert done.state == "done"
    assert old.path in [f.path for f in table.files()]
    assert table.optimize(zorder="a").state == "nothing"


def test_a_dry_run_changes_nothing(shared_lake: lw.Lake, name: str) -> None:
    table = SMALL.make(shared_lake, name)
    version, files = table.version, [f.path for f in table.files()]

    planned = table.optimize(dry_run=True)

    assert planned.state == "planned"
    assert planned.plan.files == 6
    assert (table.version, [f.path for f in table.files()]) == (version, files)
    assert shared_lake.jobs(table=name) == []


def test_a_budget_stops_between_units_and_the_next_run_goes_on(
    shared_lake: lw.Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeward.maintain.optimize import planning

    monkeypatch.setattr(planning, "_UNIT_GROUPS", 1)
    table = SMALL.partitioned("p").make(shared_lake, name)
    before = rows(table)

    assert table.optimize(budget="0s").state == "stopped"
    assert len(table.files()) == 7
    assert table.optimize(budget="0s").state == "done"
    assert len(table.files()) == 2
    assert rows(table) == before


@pytest.mark.before_the_store
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"zorder": ["idd"]}, "no such column"),
        ({"zorder": []}, "at least one column"),
        ({"zorder": ["id", "id"]}, "more than once"),
        ({"zorder": ["p"]}, "partitions"),
        ({"sort": ["deep"]}, "nested"),
        ({"zorder": ["id"], "sort": ["id"]}, "at once"),
        ({"where": "nothing = 1"}, "nothing"),
        ({"target_size": 0}, "target_size"),
        ({"target_size": "much"}, "target_size"),
        ({"budget": "soon"}, "budget"),
        ({"zorder": 5}, "zorder"),
    ],
    ids=str,
)
@pytest.mark.representative
def test_bad_input_is_refused_and_nothing_changes(
    shared_lake: lw.Lake, name: str, given: dict[str, Any], message: str
) -> None:
    schema = pa.schema(
        [("id", pa.int64()), ("p", pa.string()), ("deep", pa.struct([("x", pa.int64())]))]
    )
    table = shared_lake.create(name, schema, partition_by=["p"])
    for n in range(2):
        table.append(pa.table({"id": [n], "p": ["a"], "deep": [{"x": n}]}, schema))

    with pytest.raises(LakewardError, match=message) as caught:
        table.optimize(**given)

    assert isinstance(caught.value, InvalidInput) or caught.value.exit_code == 2
    assert table.version == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"hilbert": "id"}, "has no hilbert"),
        ({"sort": "id"}, "has no sort"),
        ({"target_size": "1mb"}, "takes no target_size"),
        ({"purge": True}, "takes no purge"),
    ],
    ids=str,
)
def test_options_that_spark_would_leave_out_are_refused(
    shared_lake: lw.Lake, name: str, given: dict[str, Any], message: str
) -> None:
    table = SMALL.make(shared_lake, name)
    version = table.version
    for dry_run in (True, False):
        with pytest.raises(UnsupportedFeature, match=message):
            table.optimize(spark=object(), dry_run=dry_run, **given)
    assert table.version == version


def test_a_plan_looks_at_each_file_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 400
    files = [
        LoggedFile(
            DataFile(path=f"{n}.parquet", size=10, rows=1, partition={}, modified_ms=0), n, 0
        )
        for n in range(count)
    ]
    looked = [0]
    size, same = vars(LoggedFile)["size"].fget, LoggedFile.__eq__

    def counted_size(self: LoggedFile) -> int:
        looked[0] += 1
        return int(size(self))

    def counted_same(self: LoggedFile, other: object) -> bool:
        looked[0] += 1
        return bool(same(self, other))

    monkeypatch.setattr(LoggedFile, "size", property(counted_size))
    monkeypatch.setattr(LoggedFile, "__eq__", counted_same)
    (group,) = choice.to_cluster(files, lambda f: f.added % 2 == 0, purge=False)

    assert len(group.files) == count
    assert looked[0] <= 10 * count


@pytest.mark.parametrize("layout", LAYOUTS[1:], ids=str)
def test_rows_that_do_not_fit_in_memory_are_clustered_from_a_file(
    shared_lake: lw.Lake, name: str, layout: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    spilled = []
    spill = clustering.Buckets._spill

    def counted(self: clustering.Buckets) -> None:
        spilled.append(1)
        spill(self)

    monkeypatch.setattr(clustering.Buckets, "_spill", counted)
    monkeypatch.setattr(clustering, "_HELD_BYTES", 500)
    monkeypatch.setattr(clustering, "_BUCKET_BYTES", 500)
    table = SMALL.make(shared_lake, name)
    before = rows(table)

    table.optimize(**layout)

    assert spilled
    assert rows(table) == before


@pytest.mark.parametrize("layout", ["zorder", "sort"])
def test_a_column_may_be_named_as_the_one_of_the_codes_was(
    shared_lake: lw.Lake, name: str, layout: str
) -> None:
    column = "__lakeward_code"
    made = table_of(pa.schema([(column, pa.int64())]))
    table = made.rows({column: [2, 1]}, {column: [3]}).make(shared_lake, name)
    given: dict[str, Any] = {layout: [column]}
    assert table.optimize(**given).state == "done"
    assert sorted(table.to_arrow()[column].to_pylist()) == [1, 2, 3]
