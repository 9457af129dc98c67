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


@pytest.mark.parametrize("torn", [b"", b'{"format-version": 2, "schemas": [{'])
def test_a_document_that_a_killed_creation_did_not_finish_keeps_no_name(
    tmp_path: Path, torn: bytes, table_format: str
) -> None:
    place = tmp_path / "lake" / "t" / "metadata"
    place.mkdir(parents=True)
    document = place / "00000-2d6205e0-ce7a-4e6a-b570-95d99c367ba2.metadata.json"
    document.write_bytes(torn)
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", ROWS.schema, format=table_format)
        table.append(ROWS)
        assert table.to_arrow().equals(ROWS)
        assert lake.doctor().healthy


def test_a_directory_with_a_damaged_table_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    place = tmp_path / "lake" / "t" / "metadata"
    place.mkdir(parents=True)
    (place / "00000-a.metadata.json").write_bytes(b'{"format-version": 2, "damaged": true}')
    (place / "00001-b.metadata.json").write_bytes(b"")
    with lw.open(tmp_path / "lake") as lake, pytest.raises(AlreadyExists):
        lake.create("t", ROWS.schema)
