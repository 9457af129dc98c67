"""Iceberg tables of version 3 that the embedded engine writes: row ids and defaults are kept."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable

import lakeward as lw
from lakeward.errors import Conflict, ConstraintViolation, CorruptTable, InvalidInput
from tests.behaviour.iceberg.theirs import BY_DAY, eventful, rows, their_catalog
from tests.behaviour.lakes import append, column, delete, ids, overwrite
from tests.support.row_ids import check_row_ids, metadata_of, stable_ids


@pytest.fixture
def theirs(tmp_path: Path) -> Generator[SqlCatalog]:
    """A catalog of somebody else's."""
    with their_catalog(tmp_path / "theirs") as found:
        yield found


def _upgraded(made: Any, *fields: dict[str, Any]) -> Path:
    """The table's document as version 3, with more columns; no row has an id yet."""
    path = Path(made.metadata_location.removeprefix("file://"))
    body = json.loads(path.read_text())
    body |= {"format-version": 3, "next-row-id": 0}
    for snapshot in body["snapshots"]:
        snapshot |= {"first-row-id": 0, "added-rows": 0}
    if fields:
        body["schemas"].append({**body["schemas"][0], "schema-id": 1})
        body["schemas"][1]["fields"] = [*body["schemas"][0]["fields"], *fields]
        body |= {"current-schema-id": 1, "last-column-id": 3 + len(fields)}
    path.write_text(json.dumps(body))
    return path


def _document(table: lw.Table) -> dict[str, Any]:
    return metadata_of(str(table.metadata_location))


def _their_rows(table: lw.Table) -> pa.Table:
    return StaticTable.from_metadata(str(table.metadata_location)).scan().to_arrow()


def test_rows_of_a_new_table_get_ids_that_stay(one_lake: lw.Lake, name: str) -> None:
    columns = {"id": "int64", "day": "int64"}
    properties = {"format-version": "3"}
    table = one_lake.create(
        name, columns, partition_by=["day"], format="iceberg", properties=properties
    )
    assert _document(table)["next-row-id"] == 0
    known: dict[str, range] = {}
    # Manifests are merged on the way, which must not give other ids to rows.
    for number in range(40):
        append(one_lake, name, [{"id": 2 * number, "day": 1}, {"id": 2 * number + 1, "day": 2}])
        known = check_row_ids(_document(table), known)
    assert sum(map(len, known.values())) == 80
    assert _document(table)["format-version"] == 3
    overwrite(one_lake, name, [{"id": 100, "day": 1}], where="day = 1")
    known = check_row_ids(_document(table), known)
    delete(one_lake, name, "day = 2 AND id < 1000")
    known = check_row_ids(_document(table), known)
    append(one_lake, name, [{"id": 101, "day": 2}])
    check_row_ids(_document(table), known)

    assert ids(one_lake, name) == [100, 101]
    assert column(_their_rows(table)) == [100, 101]


def test_rows_of_an_upgraded_table_get_ids_with_the_next_commit(
    one_lake: lw.Lake, theirs: SqlCatalog, name: str
) -> None:
    made, expected = eventful(theirs, "shop.orders", partition_spec=BY_DAY)
    table = one_lake.adopt(name, _upgraded(made))
    append(one_lake, name, rows(9))
    known = check_row_ids(_document(table), {})

    assert sum(map(len, known.values())) == 5
    overwrite(one_lake, name, rows(4), where="day = DATE '1970-01-05'")
    after = check_row_ids(_document(table), known)
    assert len(known.keys() - after.keys()) == 1
    assert ids(one_lake, name) == [*expected[-1], 9]
    assert column(_their_rows(table)) == ids(one_lake, name)


def test_rows_of_an_upgraded_table_are_changed_and_get_ids(
    one_lake: lw.Lake, theirs: SqlCatalog, name: str
) -> None:
    made, expected = eventful(theirs, "shop.orders")
    table = one_lake.adopt(name, _upgraded(made))
    with one_lake.transaction() as tx:
        tx.update(name, set={"note": "'x'"}, where="id = 5")
    with one_lake.transaction() as tx:
        tx.merge(name, rows(5, 20), on="id")
    delete(one_lake, name, "id = 6")
    assert ids(one_lake, name) == sorted([*(n for n in expected[-1] if n != 6), 20])
    known = stable_ids(table)
    assert sorted(known) == ids(one_lake, name)
    with one_lake.transaction() as tx:
        tx.update(name, set={"note": "'y'"}, where="id = 5")
    assert {n: i for n, (i, _) in stable_ids(table).items()} == {
        n: i for n, (i, _) in known.items()
    }
    assert column(_their_rows(table)) == ids(one_lake, name)


def test_rows_keep_their_ids_through_changes_and_compactions(one_lake: lw.Lake, name: str) -> None:
    properties = {"format-version": "3"}
    table = one_lake.create(name, "id int64, n int64", format="iceberg", properties=properties)
    for start in (0, 5):
        append(one_lake, name, [{"id": n, "n": 0} for n in range(start, start + 5)])
    with one_lake.transaction() as tx:
        tx.update(name, set={"n": "1"}, where="id IN (1, 6)")
        tx.delete(name, where="id = 2")
    with one_lake.transaction() as tx:
        tx.merge(name, [{"id": 1, "n": 5}, {"id": 100, "n": 5}], on="id")
    before = stable_ids(table)
    assert {n: i for n, (i, _) in before.items() if n < 100} == {n: n for n in range(10) if n != 2}
    table.optimize()
    after = stable_ids(table)
    assert len(table.files()) == 1
    assert {n: i for n, (i, _) in after.items()} == {n: i for n, (i, _) in before.items()}
    assert [after[n][1] for n in (0, 5, 6, 1, 100)] == [1, 2, 3, 4, 4]
    check_row_ids(_document(table), {})
    assert column(_their_rows(table)) == ids(one_lake, name)


def test_a_missing_manifest_is_reported_when_rows_keep_their_ids(
    one_lake: lw.Lake, name: str
) -> None:
    table = one_lake.create(
        name, {"id": "int64"}, format="iceberg", properties={"format-version": "3"}
    )
    append(one_lake, name, {"id": [1, 2]})
    for manifest in Path(table.location, "metadata").glob("*.avro"):
        manifest.unlink()
    with pytest.raises(CorruptTable, match=f"metadata file .* of {name} is missing"):
        table.update(set={"id": "3"}, where="id = 1")
    assert ids(one_lake, name) == [1, 2]


def test_defaults_of_both_kinds_are_kept(one_lake: lw.Lake, theirs: SqlCatalog, name: str) -> None:
    made, _ = eventful(theirs, "shop.orders")
    extra = {"id": 4, "name": "extra", "type": "long", "required": False}
    extra |= {"initial-default": 7, "write-default": 8}
    since = {"id": 5, "name": "since", "type": "date", "required": False}
    since |= {"initial-default": "2020-02-03", "write-default": "2021-01-01"}
    exact = {"id": 6, "name": "exact", "type": "decimal(9, 2)", "required": False}
    exact |= {"initial-default": "1.50", "write-default": "2.25"}
    table = one_lake.adopt(name, _upgraded(made, extra, since, exact))
    append(one_lake, name, rows(9))
    given = rows(10).append_column("extra", pa.array([1], pa.int64()))
    append(one_lake, name, given)

    found = {
        r["id"]: (r["extra"], str(r["since"]), str(r["exact"]))
        for r in table.to_arrow().to_pylist()
    }
    old, new = (7, "2020-02-03", "1.50"), (8, "2021-01-01", "2.25")
    assert found == {3: old, 4: old, 5: old, 6: old, 9: new, 10: (1, *new[1:])}
    assert ids(one_lake, name, where="extra = 7") == [3, 4, 5, 6]
    assert ids(one_lake, name, where="extra > 7") == [9]
    assert ids(one_lake, name, where="since < DATE '2021-01-01'") == [3, 4, 5, 6]
    document = _document(table)
    assert document["current-schema-id"] == 1
    assert document["schemas"][1]["fields"][3:] == [extra, since, exact]
    theirs_found = {r["id"]: r["extra"] for r in _their_rows(table).to_pylist()}
    assert theirs_found == {i: values[0] for i, values in found.items()}


def test_a_new_column_has_its_default_in_older_files(one_lake: lw.Lake, name: str) -> None:
    properties = {"format-version": "3"}
    table = one_lake.create(name, {"id": "int64"}, format="iceberg", properties=properties)
    append(one_lake, name, [{"id": 1}, {"id": 2}])
    with one_lake.transaction() as tx:
        tx.alter(name).add_column("currency", "string", default="'EUR'").add_column(
            "since", "date", default="DATE '2020-01-02'"
        )
        tx.append(name, [{"id": 3}])
        tx.append(name, [{"id": 4, "currency": "USD"}])
        assert sorted(tx.read(name)["currency"].to_pylist()) == ["EUR", "EUR", "EUR", "USD"]
    with one_lake.transaction() as tx:
        tx.alter(name).set_default("currency", "'CHF'").rename_column("currency", "money")
        tx.append(name, [{"id": 5}])

    wanted = {1: "EUR", 2: "EUR", 3: "EUR", 4: "USD", 5: "CHF"}
    assert {r["id"]: r["money"] for r in table.to_arrow().to_pylist()} == wanted
    assert {r["id"]: r["money"] for r in _their_rows(table).to_pylist()} == wanted
    assert ids(one_lake, name, where="money = 'EUR'") == [1, 2, 3]
    assert ids(one_lake, name, where="money IS NULL") == []
    assert ids(one_lake, name, where="since = DATE '2020-01-02'") == [1, 2, 3, 4, 5]
    assert table.at(version=1).schema.names == ["id"]
    check_row_ids(_document(table), {})
    document = _document(table)
    fields = {f["name"]: f for f in document["schemas"][-1]["fields"]}
    assert (fields["money"]["initial-default"], fields["money"]["write-default"]) == ("EUR", "CHF")
    assert fields["since"]["initial-default"] == "2020-01-02"


def test_a_required_column_has_its_default_in_older_files(one_lake: lw.Lake, name: str) -> None:
    properties = {"format-version": "3"}
    table = one_lake.create(name, {"id": "int64"}, format="iceberg", properties=properties)
    append(one_lake, name, [{"id": 1}])
    files = [f.file.path for f in table.files()]
    with pytest.raises(InvalidInput, match="existing rows have no value"):
        table.alter().add_column("plain", "string", nullable=False).commit()
    late = one_lake.transaction()
    late.append(name, [{"id": 3}])

    table.alter().add_column("currency", "string", default="'EUR'", nullable=False).commit()
    with pytest.raises(Conflict, match="currency"):
        late.commit()
    append(one_lake, name, [{"id": 2, "currency": "USD"}])

    assert files[0] in [f.file.path for f in table.files()]
    wanted = {1: "EUR", 2: "USD"}
    assert {r["id"]: r["currency"] for r in table.to_arrow().to_pylist()} == wanted
    assert {r["id"]: r["currency"] for r in _their_rows(table).to_pylist()} == wanted
    with pytest.raises(ConstraintViolation):
        append(one_lake, name, [{"id": 4, "currency": None}])


def _with_short_log(lake: lw.Lake, name: str) -> lw.Table:
    """A table of two rows whose commits delete all documents but the newest two."""
    properties = {"format-version": "3", "write.metadata.previous-versions-max": "1"}
    table = lake.create(name, "id int64", format="iceberg", properties=properties)
    append(lake, name, {"id": [1, 2]})
    return table


def test_a_pinned_version_is_read_after_later_commits_deleted_its_document(
    one_lake: lw.Lake, name: str
) -> None:
    table = _with_short_log(one_lake, name)
    table.alter().add_column("d", "int64", default="7").commit()

    with one_lake.snapshot() as pinned:
        for n in range(3):
            append(one_lake, name, {"id": [10 + n], "d": [0]})
        assert pinned.table(name).to_arrow().to_pylist() == [{"id": 1, "d": 7}, {"id": 2, "d": 7}]


def test_rows_keep_their_ids_in_a_transaction_whose_document_later_commits_deleted(
    one_lake: lw.Lake, name: str
) -> None:
    table = _with_short_log(one_lake, name)
    before = stable_ids(table)

    with one_lake.transaction() as tx:
        assert tx.read(name).num_rows == 2
        for n in range(3):
            append(one_lake, name, {"id": [10 + n]})
        tx.update(name, set={"id": "id + 100"}, where="id = 1")

    after = stable_ids(table)
    assert (after[101][0], after[2][0]) == (before[1][0], before[2][0])
    assert sorted(after) == [2, 10, 11, 12, 101]


def test_rows_that_others_changed_are_refused_after_their_document_was_deleted(
    one_lake: lw.Lake, name: str
) -> None:
    _with_short_log(one_lake, name)

    with one_lake.transaction() as tx:
        assert tx.read(name).num_rows == 2
        overwrite(one_lake, name, {"id": [9]})
        for n in range(3):
            append(one_lake, name, {"id": [10 + n]})
        with pytest.raises(CorruptTable, match="missing"):
            tx.update(name, set={"id": "id + 100"}, where="id = 1")
        tx.rollback()

    assert ids(one_lake, name) == [9, 10, 11, 12]


def test_a_clone_gives_no_row_id_out_that_a_shared_file_has(one_lake: lw.Lake, name: str) -> None:
    table = one_lake.create(name, "id int64", format="iceberg", properties={"format-version": "3"})
    append(one_lake, name, {"id": [1, 2]})
    append(one_lake, name, {"id": [3, 4]})
    with one_lake.transaction() as tx:
        tx.update(name, set={"id": "30"}, where="id = 3")
    delete(one_lake, name, "id < 3")

    made = one_lake.clone(name, f"{name}_copy")
    append(one_lake, f"{name}_copy", {"id": [5, 6, 7, 8]})

    # Fails if two rows have one id.
    assert sorted(stable_ids(made)) == [4, 5, 6, 7, 8, 30]
    shared, own = _document(table), _document(made)
    assert own["last-sequence-number"] > shared["last-sequence-number"]
    findings = one_lake.doctor().findings
    assert [f for f in findings if f.table in (name, f"{name}_copy")] == []
