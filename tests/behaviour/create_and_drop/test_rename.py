"""Tables that get another name: files, history and id stay, and other readers see the new name."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeward as lw
from lakeward.errors import AlreadyExists, InvalidInput, Locked, PolicyViolation, TableNotFound
from tests.behaviour.lakes import append, ids


def test_a_renamed_table_keeps_its_rows_and_its_history(shared_lake: lw.Lake, name: str) -> None:
    old = shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, [{"id": 1}])
    uuid, location, before = old.uuid, old.location, [v.operation for v in old.history()]

    new = shared_lake.rename(name, f"{name}_new")

    assert (new.name, new.uuid, new.location) == (f"{name}_new", uuid, location)
    assert [v.operation for v in new.history()] == ["RENAME TABLE", *before]
    assert new.at(version=1).to_arrow().num_rows == 1
    with pytest.raises(TableNotFound):
        shared_lake.table(name)
    append(shared_lake, new.name, [{"id": 2}])
    assert ids(shared_lake, new.name) == [1, 2]
    assert [e.action for e in shared_lake.audit(table=new.name)][1] == "RENAME TABLE"
    assert shared_lake.doctor(tables=[new.name]).healthy
    # The old name is free, and is another table.
    shared_lake.create(name, {"other": "string"})
    assert shared_lake.table(name).version == 0
    assert ids(shared_lake, new.name) == [1, 2]


def test_the_new_name_must_be_free(shared_lake: lw.Lake, name: str) -> None:
    for one in (name, f"{name}_b"):
        shared_lake.create(one, {"id": "int64"})

    with pytest.raises(AlreadyExists):
        shared_lake.rename(name, f"{name}_b")
    with pytest.raises(AlreadyExists):
        shared_lake.rename(name, name)
    with pytest.raises(TableNotFound):
        shared_lake.rename(f"{name}_none", f"{name}_c")

    assert shared_lake.table(name).version == 0


def test_a_transaction_that_began_before_commits_to_the_renamed_table(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(name, {"id": "int64"})
    with shared_lake.transaction() as tx:
        tx.append(name, [{"id": 1}])
        shared_lake.rename(name, f"{name}_new")

    assert ids(shared_lake, f"{name}_new") == [1]
    assert shared_lake.doctor(tables=[f"{name}_new"]).healthy


def test_what_knows_the_table_by_its_name_holds_it(shared_lake: lw.Lake, name: str) -> None:
    parent, child = f"{name}_parent", f"{name}_child"
    shared_lake.create(parent, {"id": "int64"}, constraints={"one": lw.Unique("id")})
    shared_lake.create(
        child, {"id": "int64"}, constraints={"known": lw.ForeignKey("id", references=parent)}
    )
    with pytest.raises(InvalidInput, match="Foreign key"):
        shared_lake.rename(parent, f"{name}_x")
    shared_lake.rename(child, f"{name}_y")
    with pytest.raises(lw.errors.ConstraintViolation):
        append(shared_lake, f"{name}_y", [{"id": 1}])

    shared_lake.create(name, {"id": "int64"})
    with shared_lake.transaction(locks={name: "write"}) as tx:
        with pytest.raises(Locked):
            shared_lake.rename(name, f"{name}_z")
        tx.append(name, [{"id": 1}])
    shared_lake.set_policy(f"{name}_z", {"append_only": True})
    with pytest.raises(PolicyViolation):
        shared_lake.rename(name, f"{name}_z")
    shared_lake.set_policy(f"{name}_z", None)
    assert shared_lake.rename(name, f"{name}_z").to_arrow().num_rows == 1


def test_a_branch_holds_the_name(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})
    branch = shared_lake.branch(f"of_{name.replace('.', '_')}", tables=[name])

    with pytest.raises(InvalidInput, match="branch"):
        shared_lake.rename(name, f"{name}_new")
    branch.drop()

    assert shared_lake.rename(name, f"{name}_new").version == 1


def test_a_rebuilt_store_has_the_new_name(tmp_path: Path, table_format: str) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("old", {"id": "int64"}, format=table_format)
        append(lake, "old", [{"id": 1}])
        lake.rename("old", "ns.new")
    for path in (tmp_path / "lake").glob("lakeward.db*"):
        path.unlink()

    with lw.open(tmp_path / "lake", take_over=True) as lake:
        assert lake.rebuild().tables == {"ns.new": 2}
        assert ids(lake, "ns.new") == [1]
