"""One transaction over several tables: all of them change, or none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lakeward as lw
from lakeward.errors import Conflict, ConstraintViolation
from tests.behaviour.lakes import append, data_files, ids, overwrite, unchanged
from tests.behaviour.published import told


@pytest.fixture
def three(shared_lake: lw.Lake, new_name: Callable[[], str]) -> list[str]:
    names = [new_name() for _ in range(3)]
    for name in names:
        shared_lake.create(name, {"id": "int64"}, constraints={"small": "id < 100"})
        append(shared_lake, name, {"id": [1]})
    return names


def test_all_tables_change_at_once(shared_lake: lw.Lake, three: list[str]) -> None:
    a, b, c = three
    with shared_lake.transaction(message="month end") as tx:
        tx.append(c, {"id": [2]})
        tx.overwrite(a, {"id": [3]})
        tx.delete(b, where="id = 1")
        assert [shared_lake.table(n).version for n in three] == [1, 1, 1]

    result = tx.commit()
    assert dict(result.versions) == {a: 2, b: 2, c: 2}
    assert [ids(shared_lake, n) for n in three] == [[3], [], [1, 2]]
    newest = [shared_lake.table(n).history(limit=1)[0] for n in three]
    assert {v.transaction_id for v in newest} == {result.transaction_id}
    assert {v.timestamp for v in newest} == {result.timestamp}
    assert {v.members for v in newest} == {3}
    assert {v.message for v in newest} == {"month end"}


def test_every_published_member_carries_the_transaction_id(
    shared_lake: lw.Lake, three: list[str]
) -> None:
    with shared_lake.transaction(message="why") as tx:
        for name in three:
            tx.append(name, {"id": [2]})

    for name in three:
        newest = told(shared_lake, name)[-1]
        assert (newest.transaction_id, newest.message) == (tx.transaction_id, "why")
        assert newest.members == 3


def test_a_conflict_in_one_table_keeps_all_back(shared_lake: lw.Lake, three: list[str]) -> None:
    a, b, c = three
    tx = shared_lake.transaction()
    tx.append(a, {"id": [2]})
    tx.overwrite(b, {"id": [2]})
    tx.append(c, {"id": [2]})
    overwrite(shared_lake, b, {"id": [9]})

    with unchanged_but_for_staged_files(shared_lake, three), pytest.raises(Conflict) as caught:
        tx.commit()

    assert caught.value.table == b
    assert [ids(shared_lake, n) for n in three] == [[1], [9], [1]]


def test_a_violation_in_one_table_keeps_all_back(shared_lake: lw.Lake, three: list[str]) -> None:
    a, b, c = three
    with unchanged(shared_lake):
        tx = shared_lake.transaction()
        tx.append(a, {"id": [2]})
        tx.append(c, {"id": [2]})
        with pytest.raises(ConstraintViolation):
            tx.append(b, {"id": [200]})


def test_tables_that_were_only_read_get_no_version(shared_lake: lw.Lake, three: list[str]) -> None:
    a, b, _ = three
    with shared_lake.transaction() as tx:
        tx.append(b, tx.read(a))

    assert dict(tx.commit().versions) == {b: 2}
    assert shared_lake.table(a).version == 1


def test_a_transaction_that_changes_nothing_commits_nothing(
    shared_lake: lw.Lake, three: list[str]
) -> None:
    with unchanged(shared_lake), shared_lake.transaction() as tx:
        tx.read(three[0])

    result = tx.commit()
    assert dict(result.versions) == {}


def test_committing_again_gives_the_same_result(shared_lake: lw.Lake, three: list[str]) -> None:
    tx = shared_lake.transaction()
    tx.append(three[0], {"id": [2]})
    first = tx.commit()

    assert tx.commit() == first
    assert shared_lake.table(three[0]).version == 2


def test_many_tables_in_one_transaction(lake: lw.Lake) -> None:
    names = [f"t{n}" for n in range(30)]
    for name in names:
        lake.create(name, {"id": "int64"})

    with lake.transaction() as tx:
        for name in reversed(names):
            tx.append(name, {"id": [1]})

    assert dict(tx.commit().versions) == dict.fromkeys(names, 1)
    with lake.snapshot() as snapshot:
        assert set(snapshot.versions.values()) == {1}


def unchanged_but_for_staged_files(lake: lw.Lake, names: list[str]) -> _SameTables:
    return _SameTables(lake, names)


class _SameTables:
    """Versions stay, and data files that the failed transaction staged are gone afterwards."""

    def __init__(self, lake: lw.Lake, names: list[str]) -> None:
        self._lake, self._names = lake, names

    def __enter__(self) -> None:
        self._versions = [self._lake.table(n).version for n in self._names]

    def __exit__(self, *_: object) -> None:
        assert [self._lake.table(n).version for n in self._names] == self._versions
        for name in self._names:
            table = self._lake.table(name)
            known = {f.path for v in range(table.version + 1) for f in table.at(version=v).files()}
            assert data_files(self._lake, name) == known
