"""Lakes opened again, opened twice, moved, and used after they were closed."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import lakeward as lw
from lakeward.errors import CorruptTable, LakeNotFound, LakewardError
from tests.behaviour.lakes import append, ids, unchanged
from tests.support.s3 import on_disk
from tests.support.target import LakeTarget

pytestmark = pytest.mark.empty_store


def test_a_lake_opened_again_is_as_it_was(make_lake: Callable[..., lw.Lake]) -> None:
    first = make_lake()
    first.create("t", {"id": "int64"}, constraints={"small": "id < 10"}, comment="kept")
    append(first, "t", {"id": [1]})
    definition, history = first.table("t").definition, first.table("t").history()
    first.close()

    second = make_lake()

    assert ids(second, "t") == [1]
    assert second.table("t").definition == definition
    assert second.table("t").history() == history
    assert append(second, "t", {"id": [2]}) == 2


def test_a_lake_opened_twice_is_one_lake(make_lake: Callable[..., lw.Lake]) -> None:
    one, two = make_lake(), make_lake()
    one.create("t", {"id": "int64"})
    append(two, "t", {"id": [1]})
    append(one, "t", {"id": [2]})

    assert ids(two, "t") == ids(one, "t") == [1, 2]
    two.drop("t")
    assert one.tables() == []


def test_a_table_held_through_another_handle_sees_what_is_new(
    make_lake: Callable[..., lw.Lake],
) -> None:
    one, two = make_lake(), make_lake()
    table = one.create("t", {"id": "int64"})
    append(two, "t", {"id": [1]})

    assert table.version == 1
    assert table.to_arrow().num_rows == 1


def test_a_lake_that_is_not_there_is_not_made_unless_wanted(
    lake_target: LakeTarget, tmp_path: Path
) -> None:
    with pytest.raises(LakeNotFound) as caught:
        lake_target.open(create=False)

    assert caught.value.hint
    assert not lake_target.warehouse.exists()


@pytest.mark.parametrize("typo", ["sales_lkae", "sales_lake/shop", "."])
def test_a_mistyped_lake_is_not_made_and_the_one_meant_is_named(tmp_path: Path, typo: str) -> None:
    for name in ("sales_lake", "a/thing") if typo != "." else ("sales_lake",):
        lw.open(tmp_path / name).close()
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(LakeNotFound) as caught:
        lw.open(tmp_path / typo, create=False)

    assert str(tmp_path / "sales_lake") in str(caught.value)
    assert caught.value.nearest == str(tmp_path / "sales_lake")
    assert "create=True" in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_without_any_lake_near_none_is_suggested(tmp_path: Path) -> None:
    with pytest.raises(LakeNotFound) as caught:
        lw.open(tmp_path / "lake", create=False)

    assert caught.value.nearest is None
    assert "Did you mean" not in str(caught.value)


def test_opening_an_existing_lake_needs_no_create(make_lake: Callable[..., lw.Lake]) -> None:
    make_lake().create("t", {"id": "int64"})

    assert [t.name for t in make_lake(create=False).tables()] == ["t"]


def test_the_actor_is_whoever_opened_the_lake(make_lake: Callable[..., lw.Lake]) -> None:
    make_lake(actor="ada").create("t", {"id": "int64"})
    append(make_lake(actor="grace"), "t", {"id": [1]})

    assert [v.actor for v in make_lake().table("t").history()] == ["grace", "ada"]


def test_a_lake_is_a_context_manager(lake_target: LakeTarget) -> None:
    with lake_target.open() as lake:
        lake.create("t", {"id": "int64"})
    with lake_target.open() as lake:
        assert lake.table("t").version == 0


def test_closing_twice_does_no_harm(lake_target: LakeTarget) -> None:
    lake = lake_target.open()
    lake.create("t", {"id": "int64"})
    lake.close()
    lake.close()


@pytest.mark.formats("delta")
@pytest.mark.local
def test_a_lake_moved_to_another_directory_works(lake_target: LakeTarget, tmp_path: Path) -> None:
    with lake_target.open() as lake:
        lake.create("a.t", {"id": "int64", "p": "string"}, partition_by=["p"])
        append(lake, "a.t", {"id": [1, 2], "p": ["x/y", None]})
    moved = tmp_path / "elsewhere" / "lake"
    moved.parent.mkdir()
    shutil.move(lake_target.warehouse, moved)
    url = lake_target.url if lake_target.is_postgres else str(moved)

    with lw.open(url, warehouse=moved) as lake:
        table = lake.table("a.t")
        assert on_disk(table.location) == moved / "a" / "t"
        assert ids(lake, "a.t") == [1, 2]
        assert append(lake, "a.t", {"id": [3], "p": ["z"]}) == 2
        assert table.at(version=1).to_arrow().num_rows == 2
    assert not lake_target.warehouse.exists()


@pytest.mark.formats("iceberg")
@pytest.mark.local
def test_a_moved_lake_reads_its_iceberg_tables_and_says_why_it_cannot_write_them(
    lake_target: LakeTarget, tmp_path: Path
) -> None:
    """The format names every file in full, so no engine follows a table that was moved."""
    with lake_target.open() as lake:
        lake.create("a.t", {"id": "int64"})
        append(lake, "a.t", {"id": [1, 2]})
    moved = tmp_path / "elsewhere" / "lake"
    moved.parent.mkdir()
    shutil.move(lake_target.warehouse, moved)
    url = lake_target.url if lake_target.is_postgres else str(moved)

    with lw.open(url, warehouse=moved) as lake:
        assert ids(lake, "a.t") == [1, 2]
        with unchanged(lake), pytest.raises(CorruptTable, match="relocate") as caught:
            append(lake, "a.t", {"id": [3]})
        assert str(lake_target.warehouse) in caught.value.path
    assert not lake_target.warehouse.exists()


def test_a_directory_may_be_given_in_any_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with lw.open("lake") as lake:
        lake.create("t", {"id": "int64"})
    for form in ("./lake", tmp_path / "lake", "~/lake", f"file://{tmp_path}/lake", "lake/"):
        with lw.open(form, create=False) as lake:
            assert [t.name for t in lake.tables()] == ["t"], form


def test_errors_survive_pickling(lake: lw.Lake) -> None:
    with pytest.raises(LakewardError) as caught:
        lake.table("nowhere")

    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is type(caught.value)
    assert (str(copy), copy.table, copy.hint) == (
        str(caught.value),
        caught.value.table,
        caught.value.hint,
    )
