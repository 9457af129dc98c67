"""Named branches, on which other engines work, are published under the policies of their tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakeward as lw
from lakeward.errors import ConstraintViolation, PolicyViolation


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
