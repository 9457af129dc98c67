"""Vacuum of dropped tables while, or after, somebody adopts a table in their place."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import AlreadyExists, Conflict, LakewardError
from lakeward.formats.base import Format
from lakeward.formats.registry import format_named
from lakeward.log import retired
from tests.behaviour.iceberg.strangers import Stranger
from tests.maintain.test_vacuum import ALL, data_files, drop, grown
from tests.maintain.test_vacuum_hostile import BOTH, DELTA, ICEBERG, when
from tests.support.s3 import on_disk


@pytest.fixture
def store() -> str:
    """What depends on the store says so."""
    return "sqlite"


STORES = pytest.mark.parametrize(
    "store", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)


def _dropped(lake: lw.Lake, versions: int = 3) -> str:
    """The place of a dropped table."""
    table = lake.create("t", {"n": "int64"})
    for n in range(versions):
        table.append([{"n": n}])
    place = table.location
    drop(lake)
    return place


@BOTH
@STORES
def test_a_table_adopted_between_plan_and_retirement_keeps_its_files(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    place, other = _dropped(lake), make_lake()

    with when("vacuum.planned", lambda: other.adopt("heir", place, take_over=True)):
        lake.vacuum(**ALL)

    assert lake.table("heir").to_arrow().num_rows == 3
    assert lake.doctor().healthy


@BOTH
@STORES
@pytest.mark.parametrize("step", ["vacuum.retired", "vacuum.deleted"])
def test_a_table_whose_files_are_being_deleted_cannot_be_adopted(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake], step: str
) -> None:
    place, other = _dropped(lake), make_lake()

    def adopt() -> None:
        # Once files are missing, the table may be none any more.
        kinds = Conflict if step == "vacuum.retired" else LakewardError
        with pytest.raises(kinds):
            other.adopt("heir", place, take_over=True)

    with when(step, adopt):
        lake.vacuum(**ALL)

    assert lake.tables() == []


@BOTH
@STORES
def test_a_table_that_was_vacuumed_after_it_was_read_cannot_be_adopted(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, other = _dropped(lake), make_lake()
    kind = type(format_named("iceberg" if (on_disk(place) / "metadata").exists() else "delta"))
    read = kind.read_table

    def read_and_vacuum(self: Format, *given: Any, **named: Any) -> Any:
        found = read(self, *given, **named)
        other.vacuum(**ALL)
        return found

    monkeypatch.setattr(kind, "read_table", read_and_vacuum)
    with pytest.raises(Conflict, match="files of the dropped table t"):
        lake.adopt("heir", place, take_over=True)

    assert lake.tables() == []


@DELTA
def test_a_new_table_in_the_place_of_a_vacuumed_one_can_be_adopted(
    lake: lw.Lake, tmp_path: Path
) -> None:
    place = _dropped(lake)
    lake.vacuum(**ALL)
    with lw.open(tmp_path / "other", warehouse=tmp_path / "apart") as other:
        made = other.create("t", {"n": "int64"})
        made.append([{"n": 7}])
        source = on_disk(made.location)
        on_disk(place).mkdir(exist_ok=True)
        for file in sorted(p for p in source.rglob("*") if p.is_file()):
            copy = on_disk(place) / file.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())

    heir = lake.adopt("heir", place, take_over=True)

    assert heir.to_arrow().to_pylist() == [{"n": 7}]


@BOTH
@pytest.mark.postgres
@pytest.mark.parametrize("store", ["postgres"])
def test_an_adoption_waits_for_a_vacuum_that_is_retiring_the_versions(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, other, retire = _dropped(lake), make_lake(), retired.retire
    refused: list[Conflict] = []

    def adopt() -> None:
        try:
            other.adopt("heir", place, take_over=True)
        except Conflict as error:
            refused.append(error)

    def slow(*given: Any) -> None:
        retire(*given)
        thread.start()
        thread.join(0.5)

    thread = threading.Thread(target=adopt)
    monkeypatch.setattr(retired, "retire", slow)
    lake.vacuum(**ALL)
    thread.join()

    assert refused
    assert lake.tables() == []


@BOTH
@pytest.mark.parametrize("holder", ["tag", "pin"])
def test_a_version_of_a_dropped_table_that_is_held_after_the_plan_of_its_heir_is_kept(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake], holder: str
) -> None:
    table = grown(lake)
    then, place, other = table.at(version=2).timestamp, table.location, make_lake()
    drop(lake)
    heir = lake.adopt("t", place, take_over=True)
    heir.append([{"n": 9}])
    pinned: list[lw.LakeSnapshot] = []

    def hold() -> None:
        if holder == "tag":
            other.tag("held", at=then)
        else:
            pinned.append(other.snapshot(at=then).__enter__())

    with when("vacuum.planned", hold):
        heir.vacuum(**ALL)

    cut = lake.snapshot(at="held") if holder == "tag" else pinned[0]
    assert cut.table("t").to_arrow().to_pylist() == [{"n": 1}]
    for pin in pinned:
        pin.__exit__(None, None, None)


@ICEBERG
def test_a_ref_of_another_engine_is_kept_while_a_dropped_table_can_come_back(
    lake: lw.Lake, stranger: Stranger
) -> None:
    grown(lake)
    theirs = stranger.table("t")
    theirs.manage_snapshots().create_tag(theirs.snapshots()[1].snapshot_id, "theirs").commit()
    lake.table("t").append([{"n": 9}])
    lake.tag("ours")
    drop(lake)

    lake.vacuum(**ALL)

    lake.undrop("t")
    assert stranger.table("t").scan().use_ref("theirs").to_arrow().to_pylist() == [{"n": 1}]
    lake.untag("ours")
    drop(lake)
    lake.vacuum(**ALL)
    assert not list(on_disk(lake.warehouse).rglob("*.parquet")), "nothing holds the table"


@BOTH
@pytest.mark.parametrize("writes", [0, 1, 6])
def test_a_dropped_table_that_another_lake_took_over_keeps_its_files(
    lake: lw.Lake, tmp_path: Path, writes: int
) -> None:
    mine = grown(lake, name="mine")
    place = _dropped(lake)
    with lw.open(tmp_path / "other", warehouse=tmp_path / "apart") as other:
        taken = other.adopt("theirs", place, take_over=True)
        for n in range(writes):
            taken.append([{"n": 10 + n}])
        if writes > 1:
            # What shows the adoption need not stay.
            other.checkpoint()
            taken.expire(retention="0s", force=True)
        expected = taken.count()

        done = lake.vacuum(**ALL)

        assert len(data_files(lake, "mine")) == 1, "other tables are vacuumed"
        assert mine.to_arrow().to_pylist() == [{"n": 3}]
        (note,) = [n for n in done.plan.notes if n.startswith("t:")]
        assert "another lake" in note
        assert place in note
        assert taken.to_arrow().num_rows == expected
        assert other.doctor().healthy


@BOTH
def test_a_dropped_table_that_another_lake_takes_over_after_the_plan_keeps_its_files(
    lake: lw.Lake, tmp_path: Path
) -> None:
    place = _dropped(lake)
    with lw.open(tmp_path / "other", warehouse=tmp_path / "apart") as other:
        with when("vacuum.planned", lambda: other.adopt("theirs", place, take_over=True)):
            lake.vacuum(**ALL)

        assert other.table("theirs").to_arrow().num_rows == 3


@DELTA
def test_a_place_that_a_table_of_the_lake_has_cannot_be_adopted(lake: lw.Lake) -> None:
    table = grown(lake)

    with pytest.raises(AlreadyExists, match="as t"):
        lake.adopt("again", table.location, take_over=True)
