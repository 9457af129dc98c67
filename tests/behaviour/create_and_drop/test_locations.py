"""Tables never lie inside one another, whatever they are called."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakeward as lw
from lakeward.errors import AlreadyExists
from tests.support.s3 import on_disk

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.mark.parametrize("names", [("shop", "shop.orders"), ("shop.orders", "shop")])
def test_a_table_named_like_a_namespace_lies_beside_it_and_both_are_rebuilt(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        for name in names:
            lake.create(name, ROWS.schema)
            with lake.transaction() as tx:
                tx.append(name, ROWS)
        first, second = (on_disk(lake.table(name).location) for name in names)
        assert not first.is_relative_to(second)
        assert not second.is_relative_to(first)
    for store in (tmp_path / "lake").glob("lakeward.db*"):
        store.unlink()
    with lw.open(tmp_path / "lake", take_over=True) as lake:
        assert lake.rebuild().tables == dict.fromkeys(sorted(names), 1)
        assert all(lake.table(name).to_arrow().equals(ROWS) for name in names)


def test_a_dropped_name_is_made_again_beside_the_old_files(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        old = lake.create("shop.orders", ROWS.schema).location
        lake.drop("shop.orders")
        new = lake.create("shop.orders", ROWS.schema).location
        assert new != old
        assert not Path(new).is_relative_to(old)


def test_a_table_inside_another_is_not_adopted(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        outer = lake.create("outer", ROWS.schema)
        inner = on_disk(outer.location) / "inner"
        write_deltalake(inner, ROWS)
        with pytest.raises(AlreadyExists, match="inside table outer"):
            lake.adopt("inner", inner)
        assert [t.name for t in lake.tables()] == ["outer"]
