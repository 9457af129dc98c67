"""Named branches, on which other engines work, are published under the policies of their tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakeward as lw
from lakeward.errors import ConstraintViolation, PolicyViolation, UnsupportedFeature
from lakeward.log import catalog
from lakeward.model.names import TableName
from tests.behaviour.adoption.vectors import delete_rows
from tests.behaviour.lakes import append, ids
from tests.support.iceberg import stranger_catalog


def test_what_another_engine_did_on_a_branch_keeps_to_the_policy(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", {"id": "int64"})
        said = {"allowed_evolutions": [], "constraints": {"positive": "id > 0"}}
        cases: list[tuple[pa.Table, str, type[Exception]]] = [
            (pa.table({"id": [1], "more": ["x"]}), "more", PolicyViolation),
            (pa.table({"id": [-1]}), "positive", ConstraintViolation),
        ]
        for number, (rows, word, kind) in enumerate(cases):
            lake.set_policy("t", None)
            branch = lake.branch(f"work{number}", tables=["t"])
            place = branch.table("t").location
            write_deltalake(place, rows, mode="append", schema_mode="merge")
            lake.set_policy("t", said)
            with pytest.raises(kind, match=word):
                branch.publish()
            branch.drop()
        assert table.version == 0


@pytest.mark.parametrize(("deleted", "left"), [(0, [7]), (1, [-5])])
def test_rows_of_a_new_file_with_a_deletion_vector_keep_to_the_policy(
    tmp_path: Path, deleted: int, left: list[int]
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create(
            "t", {"id": "int64"}, properties={"delta.enableDeletionVectors": "true"}
        )
        lake.set_policy("t", {"constraints": {"positive": "id > 0"}})
        branch = lake.branch("work", tables=["t"])
        place = Path(branch.table("t").location)
        write_deltalake(place, pa.table({"id": [-5, 7]}), mode="append")
        (path,) = [p.name for p in place.glob("*.parquet")]
        delete_rows(place, 2, path, [deleted])
        assert branch.table("t").to_arrow().column("id").to_pylist() == left

        if min(left) > 0:
            branch.publish()
            assert table.to_arrow().column("id").to_pylist() == left
        else:
            with pytest.raises(ConstraintViolation, match="positive"):
                branch.publish()
            assert table.version == 0


def test_rows_of_an_append_only_table_are_not_removed_on_a_branch(
    tmp_path: Path, table_format: str
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("s.t", {"id": "int64"}, format=table_format)
        append(lake, "s.t", {"id": [1, 2]})
        removing, adding = (lake.branch(n, tables=["s.t"]) for n in ("removing", "adding"))
        rows = pa.table({"id": [3]})
        if table_format == "delta":
            write_deltalake(removing.table("s.t").location, rows, mode="overwrite")
            write_deltalake(adding.table("s.t").location, rows, mode="append")
        else:
            _open(lake, removing).delete("id = 1")
            _open(lake, adding).append(rows)
        lake.set_policy("s.*", {"append_only": True})

        with pytest.raises(UnsupportedFeature, match="append-only"):
            removing.publish()
        assert ids(lake, "s.t") == [1, 2]
        adding.publish()

        assert ids(lake, "s.t") == [1, 2, 3]
        assert table.version == 2


def _open(lake: lw.Lake, branch: lw.Branch) -> Any:
    """The branch's Iceberg table `s.t`, as pyiceberg loads it."""
    found = stranger_catalog(lake, str(branch.table("s.t").catalog))
    return found.load_table(catalog.identifier(TableName.parse("s.t")))
