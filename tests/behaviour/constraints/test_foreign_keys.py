"""Foreign keys: rows refer to rows that are there, whichever of the two tables is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.engines.arrow.key_hash import key_hashes
from lakeward.errors import ConstraintViolation, InvalidInput, UnsupportedFeature
from lakeward.write.keys import check
from lakeward.write.keys.reactions import check_foreign_keys
from lakeward.write.tables import clone, undrop
from tests.behaviour.lakes import append, column, delete, ids, unchanged

Write = Callable[[lw.Transaction, str, str], Any]


@pytest.fixture
def tables(shared_lake: lw.Lake, new_name: Callable[[], str]) -> tuple[str, str]:
    """Customers 1 to 3, and orders 10 and 11 of customers 1 and 2."""
    customers, orders = new_name(), new_name()
    shared_lake.create(
        customers, {"id": "int64", "name": "string"}, constraints={"key": lw.Unique("id")}
    )
    shared_lake.create(
        orders,
        {"id": "int64", "customer": "int64"},
        constraints={"customer": lw.ForeignKey("customer", references=customers, key="id")},
    )
    append(shared_lake, customers, {"id": [1, 2, 3], "name": ["a", "b", "c"]})
    append(shared_lake, orders, {"id": [10, 11], "customer": [1, 2]})
    return customers, orders


def test_a_dropped_table_comes_back_only_if_its_rows_still_have_what_they_refer_to(
    shared_lake: lw.Lake, tables: tuple[str, str]
) -> None:
    customers, orders = tables
    shared_lake.drop(orders)
    delete(shared_lake, customers, "id = 1")

    with unchanged(shared_lake), pytest.raises(ConstraintViolation) as caught:
        shared_lake.undrop(orders)
    assert (caught.value.table, caught.value.sample) == (orders, [{"customer": 1}])

    shared_lake.drop(customers)
    with unchanged(shared_lake), pytest.raises(InvalidInput, match="not there"):
        shared_lake.undrop(orders)
    shared_lake.create(customers, {"id": "int64"})
    append(shared_lake, customers, {"id": [1, 2]})
    with unchanged(shared_lake), pytest.raises(InvalidInput, match="no unique key"):
        shared_lake.undrop(orders)

    shared_lake.table(customers).alter().add_constraint("key", lw.Unique("id")).commit()
    shared_lake.undrop(orders)
    assert ids(shared_lake, orders) == [10, 11]
    with pytest.raises(ConstraintViolation):
        delete(shared_lake, customers, "id = 1")


def test_a_table_comes_back_only_if_nobody_deletes_what_it_refers_to_meanwhile(
    shared_lake: lw.Lake, tables: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    customers, orders = tables
    shared_lake.drop(orders)

    def then_delete(*given: Any, **options: Any) -> Any:
        monkeypatch.undo()
        checked = check_foreign_keys(*given, **options)
        delete(shared_lake, customers, "id = 1")
        return checked

    monkeypatch.setattr(undrop, "check_foreign_keys", then_delete)
    with pytest.raises(ConstraintViolation):
        shared_lake.undrop(orders)

    assert ids(shared_lake, customers) == [2, 3]


def test_a_dropped_table_that_refers_to_itself_comes_back(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(
        name,
        {"id": "int64", "above": "int64"},
        constraints={
            "key": lw.Unique("id"),
            "above": lw.ForeignKey("above", references=name, key="id"),
        },
    )
    append(shared_lake, name, {"id": [1, 2], "above": [None, 1]})
    shared_lake.drop(name)

    shared_lake.undrop(name)

    assert ids(shared_lake, name) == [1, 2]
    with pytest.raises(ConstraintViolation):
        delete(shared_lake, name, "id = 1")


@pytest.mark.parametrize("is_late", [False, True], ids=["before", "meanwhile"])
def test_a_clone_of_an_older_version_has_only_rows_that_refer_to_others(
    shared_lake: lw.Lake,
    tables: tuple[str, str],
    new_name: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    is_late: bool,
) -> None:
    customers, orders = tables
    version, copy, fine = shared_lake.table(orders).version, new_name(), new_name()
    shared_lake.clone(orders, fine, version=version)
    shared_lake.drop(fine)
    delete(shared_lake, orders, "id = 10")

    def then_delete(*given: Any, **options: Any) -> Any:
        monkeypatch.undo()
        checked = check_foreign_keys(*given, **options)
        delete(shared_lake, customers, "id = 1")
        return checked

    if is_late:
        monkeypatch.setattr(clone, "check_foreign_keys", then_delete)
    else:
        delete(shared_lake, customers, "id = 1")
    with pytest.raises(ConstraintViolation) as caught:
        shared_lake.clone(orders, copy, version=version)

    assert caught.value.sample == [{"customer": 1}]
    assert copy not in [t.name for t in shared_lake.tables()]
    shared_lake.clone(orders, copy)
    assert ids(shared_lake, copy) == [11]


def test_rows_that_a_dropped_table_refers_to_are_deleted_with_the_drop(
    shared_lake: lw.Lake, tables: tuple[str, str]
) -> None:
    customers, orders = tables
    with shared_lake.transaction() as tx:
        tx.drop(orders)
        tx.delete(customers, where="id = 1")

    assert ids(shared_lake, customers) == [2, 3]


def test_a_foreign_key_cannot_refer_to_a_table_that_the_transaction_drops(
    shared_lake: lw.Lake, tables: tuple[str, str], new_name: Callable[[], str]
) -> None:
    customers, orders = tables
    other = shared_lake.create(new_name(), {"customer": "int64"})
    foreign = lw.ForeignKey("customer", references=customers, key="id")
    with unchanged(shared_lake):
        tx = shared_lake.transaction()
        tx.alter(other.name).add_constraint("customer", foreign)
        tx.drop(orders)
        tx.drop(customers)
        with pytest.raises(InvalidInput, match="refers to"):
            tx.commit()


VIOLATIONS: dict[str, Write] = {
    "append": lambda tx, _, o: tx.append(o, {"id": [12], "customer": [4]}),
    "update": lambda tx, _, o: tx.update(o, set={"customer": "9"}, where="id = 10"),
    "overwrite": lambda tx, _, o: tx.overwrite(o, {"id": [12, 13], "customer": [1, 4]}),
    "delete_parent": lambda tx, c, _: tx.delete(c, where="id = 1"),
    "update_parent": lambda tx, c, _: tx.update(c, set={"id": "7"}, where="id = 2"),
    "overwrite_parent": lambda tx, c, _: tx.overwrite(c, {"id": [1, 3], "name": ["x", "y"]}),
    "both": lambda tx, c, o: (
        tx.append(o, {"id": [12], "customer": [3]}),
        tx.delete(c, where="id = 3"),
    ),
}


@pytest.mark.parametrize("write", VIOLATIONS.values(), ids=VIOLATIONS)
def test_rows_without_the_row_they_refer_to_are_refused(
    shared_lake: lw.Lake, tables: tuple[str, str], write: Write
) -> None:
    customers, orders = tables
    before = [shared_lake.table(t).to_arrow() for t in tables]

    with pytest.raises(ConstraintViolation) as caught, shared_lake.transaction() as tx:
        write(tx, customers, orders)

    assert (caught.value.table, caught.value.constraint) == (orders, "customer")
    assert caught.value.count == 1
    assert [shared_lake.table(t).to_arrow() for t in tables] == before
    (found,) = shared_lake.violations(table=orders)
    assert (found.constraint, found.action, found.count) == ("customer", "fail", 1)


PASSING: dict[str, Write] = {
    "append": lambda tx, _, o: tx.append(o, {"id": [12, 13], "customer": [3, None]}),
    "both_appended": lambda tx, c, o: (
        tx.append(o, {"id": [12], "customer": [4]}),
        tx.append(c, {"id": [4], "name": ["d"]}),
    ),
    "both_deleted": lambda tx, c, o: (
        tx.delete(c, where="id = 1"),
        tx.delete(o, where="customer = 1"),
    ),
    "delete_unused": lambda tx, c, _: tx.delete(c, where="id = 3"),
    "other_columns": lambda tx, c, _: tx.update(c, set={"name": "'x'"}),
    "replaced_with_the_same_keys": lambda tx, c, _: tx.overwrite(
        c, {"id": [2, 1], "name": ["x", "y"]}
    ),
}


@pytest.mark.parametrize("write", PASSING.values(), ids=PASSING)
def test_rows_that_refer_to_rows_after_the_transaction_pass(
    shared_lake: lw.Lake, tables: tuple[str, str], write: Write
) -> None:
    customers, orders = tables

    with shared_lake.transaction() as tx:
        write(tx, customers, orders)

    referred = column(shared_lake.table(orders).to_arrow(), "customer")
    assert {c for c in referred if c is not None} <= set(ids(shared_lake, customers))


@pytest.mark.formats("delta")
def test_a_parent_that_was_deleted_in_place_is_not_there(
    shared_lake: lw.Lake, new_name: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a table that is too large to be read for every append.
    monkeypatch.setattr(check, "_READ_ROWS", 0)
    customers, orders = new_name(), new_name()
    policy = {"merge_on_read": True, "merge_on_read_fraction": 1}
    key = {"key": lw.Unique("id")}
    shared_lake.create(customers, {"id": "int64"}, policy=policy, constraints=key)
    foreign = {"customer": lw.ForeignKey("id", references=customers)}
    shared_lake.create(orders, {"id": "int64"}, constraints=foreign)
    append(shared_lake, customers, {"id": [1, 2, 3]})
    with shared_lake.transaction() as tx:
        tx.delete(customers, where="id = 2")

    append(shared_lake, orders, {"id": [1, 3]})
    with pytest.raises(ConstraintViolation):
        append(shared_lake, orders, {"id": [2]})


@pytest.mark.before_the_store
@pytest.mark.parametrize("kind", ["text", "two numbers"])
def test_a_key_with_the_hash_of_another_is_not_taken_for_it(
    shared_lake: lw.Lake, new_name: Callable[[], str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    # As in a table that is too large to be read for every append.
    monkeypatch.setattr(check, "_READ_ROWS", 0)
    there, lacking, types = _pair_with_one_hash(kind)
    key, names = lw.Unique(*types), list(types)
    parents, children = new_name(), new_name()
    shared_lake.create(parents, types, constraints={"key": key})
    foreign = {"parent": lw.ForeignKey(*names, references=parents)}
    shared_lake.create(children, types, constraints=foreign)
    # Rows around the key that is lacking, so that statistics do not exclude the file.
    append(shared_lake, parents, pa.concat_tables([there, *_around(lacking)]))

    append(shared_lake, children, there)
    with pytest.raises(ConstraintViolation):
        append(shared_lake, children, lacking)

    assert shared_lake.table(children).count() == 1


def _pair_with_one_hash(kind: str) -> tuple[pa.Table, pa.Table, dict[str, str]]:
    """Two keys with the same hash, as a table each, and the types of their columns."""
    if kind == "text":
        types, arrow = {"k": "string"}, pa.schema({"k": pa.string()})
        rows: list[dict[str, Any]] = [{"k": "a"}, {"k": "b\0"}]
    else:
        types, arrow = {"k": "int64", "l": "int64"}, pa.schema({"k": pa.int64(), "l": pa.int64()})
        rows = [dict(zip(("k", "l"), words, strict=True)) for words in _words_with_one_hash()]
    there, lacking = (pa.Table.from_pylist([row], arrow) for row in rows)
    assert _hash(there) == _hash(lacking)
    return there, lacking, types


def _words_with_one_hash() -> tuple[tuple[int, int], tuple[int, int]]:
    """Two pairs of numbers with the same hash."""
    low = [_hash(pa.table({"k": pa.array([n], pa.int64())})) for n in (1, 2)]
    second = low[0] ^ low[1] ^ 5
    return (1, 5), (2, second - 2**64 if second >= 2**63 else second)


def _around(keys: pa.Table) -> list[pa.Table]:
    """For each column, rows with a smaller and a larger value."""
    (row,) = keys.to_pylist()
    step: Callable[[Any, int], Any] = (
        (lambda v, by: "A" if by < 0 else "z")
        if isinstance(row["k"], str)
        else lambda v, by: v + by
    )
    return [
        pa.Table.from_pylist([{n: step(v, by) for n, v in row.items()}], keys.schema)
        for by in (-1, 1)
    ]


def _hash(keys: pa.Table) -> int:
    return int(key_hashes(keys.columns)[0][0])


def test_a_table_may_refer_to_itself(shared_lake: lw.Lake, name: str) -> None:
    boss = lw.ForeignKey("boss", references=name, key="id")
    schema = {"id": "int64", "boss": "int64"}
    shared_lake.create(name, schema, constraints={"key": lw.Unique("id"), "boss": boss})

    append(shared_lake, name, {"id": [1, 2, 3], "boss": [None, 1, 2]})
    for where in ("id = 1", "id = 2"):
        with pytest.raises(ConstraintViolation), shared_lake.transaction() as tx:
            tx.delete(name, where=where)
    with shared_lake.transaction() as tx:
        tx.delete(name, where="id > 1")

    assert ids(shared_lake, name) == [1]


def test_a_table_that_others_refer_to_is_not_dropped(
    shared_lake: lw.Lake, tables: tuple[str, str]
) -> None:
    customers, orders = tables

    with unchanged(shared_lake), pytest.raises(InvalidInput, match=orders):
        shared_lake.drop(customers)
    shared_lake.drop(orders)
    shared_lake.drop(customers)


def test_a_table_without_references_forgets_them(
    shared_lake: lw.Lake, tables: tuple[str, str]
) -> None:
    customers, orders = tables
    shared_lake.drop(orders)

    with shared_lake.transaction() as tx:
        tx.delete(customers, where="id = 1")

    assert ids(shared_lake, customers) == [2, 3]


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        (lw.ForeignKey("customer", references="no.table"), "not there"),
        (lw.ForeignKey("customer", references="customers", key="name"), "string"),
        (lw.ForeignKey("customer", references="customers", key="age"), "no unique key"),
    ],
)
@pytest.mark.before_the_store
def test_a_foreign_key_that_refers_to_no_key_is_refused(
    shared_lake: lw.Lake, new_name: Callable[[], str], key: lw.ForeignKey, wanted: str
) -> None:
    customers = new_name()
    schema = {"id": "int64", "name": "string", "age": "int64"}
    shared_lake.create(customers, schema, constraints={"key": lw.Unique("id")})
    if key.references != "no.table":
        key = lw.ForeignKey(*key.columns, references=customers, key=key.key)

    with unchanged(shared_lake), pytest.raises(InvalidInput, match=wanted):
        shared_lake.create(new_name(), {"customer": "int64"}, constraints={"customer": key})


@pytest.mark.formats("delta")
@pytest.mark.before_the_store
def test_a_foreign_key_needs_guarded_tables(
    shared_lake: lw.Lake, tables: tuple[str, str], name: str
) -> None:
    key = lw.ForeignKey("customer", references=tables[0], key="id")
    with pytest.raises(UnsupportedFeature, match="guarded"):
        shared_lake.create(name, {"customer": "int64"}, guard=False, constraints={"k": key})
