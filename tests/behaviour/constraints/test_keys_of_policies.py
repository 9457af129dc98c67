"""Unique keys of policies: a policy keeps the keys that foreign keys refer to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import ConstraintViolation, InvalidInput
from lakeward.write.keys import check
from lakeward.write.keys.declare import check_target
from tests.behaviour.lakes import append, delete, ids, unchanged

_KEY = {"constraints": {"one": {"unique": ["id"]}}}


@pytest.fixture
def parent(shared_lake: lw.Lake, name: str) -> str:
    """A table with the rows 1 and 2, whose unique key only a policy declares."""
    shared_lake.create(name, {"id": "int64", "other": "int64"})
    append(shared_lake, name, {"id": [1, 2], "other": [1, 2]})
    shared_lake.set_policy(name, _KEY)
    return name


def _foreign(parent: str) -> lw.ForeignKey:
    return lw.ForeignKey("ref", references=parent, key="id")


@pytest.mark.parametrize(
    "policy",
    [None, {"stats_columns": ["id"]}, {"constraints": {"one": {"unique": ["other"]}}}],
    ids=["removed", "without the key", "with another key"],
)
def test_a_policy_keeps_the_key_that_a_foreign_key_refers_to(
    shared_lake: lw.Lake, parent: str, new_name: Callable[[], str], policy: Any
) -> None:
    child = new_name()
    shared_lake.create(child, {"ref": "int64"}, constraints={"up": _foreign(parent)})
    append(shared_lake, child, {"ref": [1]})

    refused = pytest.raises(InvalidInput, match=f"up of {child} refers to")
    with unchanged(shared_lake), refused as caught:
        shared_lake.set_policy(parent, policy)
    assert caught.value.hint == f"Drop the foreign key of {child} first."
    with pytest.raises(ConstraintViolation):
        delete(shared_lake, parent, "id = 1")

    shared_lake.table(child).alter().drop_constraint("up").commit()
    shared_lake.set_policy(parent, policy)
    delete(shared_lake, parent, "id = 1")
    assert ids(shared_lake, parent) == [2]


def test_a_policy_may_change_if_the_table_has_the_key_itself(
    shared_lake: lw.Lake, parent: str, new_name: Callable[[], str]
) -> None:
    child = new_name()
    shared_lake.create(child, {"ref": "int64"}, constraints={"up": _foreign(parent)})
    append(shared_lake, child, {"ref": [1]})
    shared_lake.table(parent).alter().add_constraint("own", lw.Unique("id")).commit()

    shared_lake.set_policy(parent, None)

    with pytest.raises(ConstraintViolation):
        delete(shared_lake, parent, "id = 1")


def test_a_policy_keeps_the_key_to_which_its_own_table_refers(
    shared_lake: lw.Lake, parent: str
) -> None:
    change = shared_lake.table(parent).alter()
    change.add_constraint("up", lw.ForeignKey("other", references=parent, key="id")).commit()

    with unchanged(shared_lake), pytest.raises(InvalidInput, match="up refers to"):
        shared_lake.set_policy(parent, None)


def test_a_foreign_key_is_not_added_to_a_key_that_a_policy_loses_meanwhile(
    shared_lake: lw.Lake,
    parent: str,
    new_name: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = shared_lake.create(new_name(), {"ref": "int64"})
    append(shared_lake, child.name, {"ref": [1]})

    def then_remove(*given: Any) -> None:
        monkeypatch.undo()
        check_target(*given)
        shared_lake.set_policy(parent, None)

    monkeypatch.setattr(check, "check_target", then_remove)
    with pytest.raises(InvalidInput, match="no unique key"):
        child.alter().add_constraint("up", _foreign(parent)).commit()
    assert child.version == 1


@pytest.mark.parametrize("written", ["id", "`id`"])
def test_a_column_of_a_policys_key_is_not_renamed(
    shared_lake: lw.Lake, parent: str, written: str
) -> None:
    with unchanged(shared_lake), shared_lake.transaction() as tx:
        with pytest.raises(InvalidInput, match=f"key one of the policy of {parent}") as caught:
            tx.alter(parent).rename_column(written, "number")
        assert "policy" in (caught.value.hint or "")
        tx.rollback()
    shared_lake.table(parent).alter().rename_column("other", "more").commit()


@pytest.mark.parametrize("written", ["id", "`id`"])
def test_a_column_that_a_foreign_key_refers_to_is_refused_when_it_is_altered(
    shared_lake: lw.Lake, new_name: Callable[[], str], written: str
) -> None:
    above, below = new_name(), new_name()
    shared_lake.create(above, {"id": "int64"}, constraints={"one": lw.Unique("id")})
    shared_lake.create(below, {"ref": "int64"}, constraints={"up": _foreign(above)})
    tx = shared_lake.transaction()
    with pytest.raises(InvalidInput, match=f"up of {below} refers to this key") as caught:
        tx.alter(above).rename_column(written, "number")
    assert caught.value.hint == f"Drop the foreign key of {below} first."
    tx.rollback()
