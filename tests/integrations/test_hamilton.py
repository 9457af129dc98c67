"""Hamilton over a lake: loaders and savers, a run as one transaction, a cache that is not stale."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw

hamilton = pytest.importorskip("hamilton")

from hamilton import ad_hoc_utils, driver  # noqa: E402  after it is known to be there
from hamilton.io.materialization import from_, to  # noqa: E402

from lakeward.integrations import hamilton as lake_hamilton  # noqa: E402
from tests.integrations import hamilton_flow  # noqa: E402


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    """A lake with tables of both formats that the graph reads and writes."""
    hamilton_flow.CALLS.clear()
    with lw.open(tmp_path / "lake") as lake:
        lake.create("sales.orders", "id int64, amount int64, note string")
        lake.create("ref.limits", "least int64", format="iceberg")
        lake.create("gold.total", "k string, amount int64", format="iceberg")
        rows = [{"id": n, "amount": 10 * n, "note": "x"} for n in range(5)]
        lake.table("sales.orders").append(rows)
        lake.table("ref.limits").append([{"least": 20}])
        yield lake


def _driver(cache: Path | None = None) -> Any:
    builder = driver.Builder().with_modules(hamilton_flow)
    return (builder if cache is None else builder.with_cache(path=str(cache))).build()


def _execute(lake: lw.Lake, built: Any, divisor: int = 1) -> Any:
    with lake_hamilton.run(lake, message="a run of Hamilton") as run:
        built.execute(
            ["big_saved", "total_saved"],
            inputs={
                "orders": run.table("sales.orders"),
                "limits": run.table("ref.limits"),
                "big_orders": run.target("gold.big"),
                "totals": run.target("gold.total"),
                "divisor": divisor,
            },
        )
    return run.result


def test_a_run_is_one_transaction_over_tables_of_both_formats(lake: lw.Lake) -> None:
    done = _execute(lake, _driver())
    assert done.versions == {"gold.big": 0, "gold.total": 1}
    assert lake.table("gold.big").to_arrow().to_pylist() == [
        {"id": 2, "amount": 20},
        {"id": 3, "amount": 30},
        {"id": 4, "amount": 40},
    ]
    assert lake.table("gold.total").to_arrow().to_pylist() == [{"k": "all", "amount": 90}]
    assert lake.table("gold.total").history(limit=1)[0].message == "a run of Hamilton"


def test_a_failed_node_commits_nothing(lake: lw.Lake) -> None:
    with pytest.raises(ZeroDivisionError):
        _execute(lake, _driver(), divisor=0)
    assert "big" in hamilton_flow.CALLS, "the node before it did not run"
    assert lake.table("gold.total").version == 0
    assert "gold.big" not in [t.name for t in lake.tables()]


def test_the_cache_is_used_and_is_not_stale_after_an_append(lake: lw.Lake, tmp_path: Path) -> None:
    built = _driver(tmp_path / "cache")
    _execute(lake, built)
    first = list(hamilton_flow.CALLS)
    _execute(lake, built)
    assert first == hamilton_flow.CALLS, "nothing changed, and nodes ran again"
    assert lake.table("gold.total").version == 2, "the save of the second run was skipped"

    lake.table("sales.orders").append([{"id": 9, "amount": 100, "note": None}])
    _execute(lake, built)
    assert lake.table("gold.total").to_arrow().to_pylist() == [{"k": "all", "amount": 190}]
    assert "least" not in hamilton_flow.CALLS[len(first) :], "a node of an unchanged table ran"


def test_an_older_version_is_not_answered_with_a_newer_one(lake: lw.Lake, tmp_path: Path) -> None:
    built = _driver(tmp_path / "cache")
    table, limits = lake.table("sales.orders"), lake.table("ref.limits").at()
    newest = built.execute(["big"], inputs={"orders": table.at(), "limits": limits})
    assert newest["big"].num_rows == 3
    before = built.execute(["big"], inputs={"orders": table.at(version=0), "limits": limits})
    assert before["big"].num_rows == 0


def test_materializers_load_and_save(lake: lw.Lake) -> None:
    with lake_hamilton.run(lake) as run:
        metadata, found = _driver().materialize(
            to.lake(
                id="saved",
                dependencies=["big"],
                target=run.target("gold.copy"),
                mode="append",
                format="iceberg",
            ),
            additional_vars=["big"],
            inputs={"orders": run.table("sales.orders"), "limits": run.table("ref.limits")},
        )
    assert metadata["saved"]["inserted"] == found["big"].num_rows == 3
    assert lake.table("gold.copy").format == "iceberg"
    assert lake.table("gold.copy").count() == 3
    counted = ad_hoc_utils.create_temporary_module(rows_of, module_name="counting")
    copy = from_.lake(target="found", table=lake.table("gold.copy").at(), where="amount > 20")
    built = driver.Builder().with_modules(counted).with_materializers(copy).build()
    assert built.execute(["rows_of"]) == {"rows_of": 2}


def rows_of(found: pa.Table) -> int:
    return found.num_rows


def test_a_table_that_the_run_reads_and_others_change_is_a_conflict(lake: lw.Lake) -> None:
    def read_and_write() -> None:
        with lake_hamilton.run(lake) as run:
            rows = run.table("sales.orders").to_arrow()
            lake.table("sales.orders").append([{"id": 9, "amount": 1, "note": None}])
            run.save("sales.orders", rows, mode="overwrite")

    with pytest.raises(lw.errors.Conflict, match=r"sales\.orders"):
        read_and_write()
    assert lake.table("sales.orders").count() == 6


def test_modes_do_what_they_say(lake: lw.Lake) -> None:
    rows = pa.table({"k": ["a"], "amount": [1]})
    with lake_hamilton.run(lake) as run:
        assert run.save("gold.new", rows, mode="error").inserted == 1
    with lake_hamilton.run(lake) as run:
        assert run.save("gold.new", rows, mode="ignore").inserted == 0
    with pytest.raises(lw.errors.AlreadyExists), lake_hamilton.run(lake) as run:
        run.save("gold.new", rows, mode="error")
    with lake_hamilton.run(lake) as run:
        run.save("gold.new", rows, mode="overwrite", where="k = 'a'")
    assert lake.table("gold.new").count() == 1


@pytest.mark.parametrize(
    "options",
    [{"mode": "replace"}, {"mode": "upsert"}, {"on": "k"}, {"where": "k = 'a'"}],
    ids=lambda o: "-".join(o),
)
def test_bad_modes_are_refused_before_a_byte_is_written(
    lake: lw.Lake, options: dict[str, str]
) -> None:
    rows = pa.table({"k": ["a"], "amount": [1]})
    with pytest.raises(lw.errors.InvalidInput), lake_hamilton.run(lake) as run:
        run.save("gold.total", rows, **options)
    assert lake.table("gold.total").version == 0


def test_a_table_without_a_version_is_refused(lake: lw.Lake) -> None:
    loader = lake_hamilton.LakeLoader(lake.table("sales.orders"))
    with pytest.raises(lw.errors.InvalidInput, match="at"):
        loader.load_data(pa.Table)
    assert [f.name for f in dataclasses.fields(loader)] == ["table", "columns", "where"]
