"""Files told in lines: each once and in its order, however many come at once."""

from __future__ import annotations

import pytest

import lakeward as lw
from lakeward.log import files, heads
from lakeward.model.names import TableName
from tests.behaviour.lakes import append, delete
from tests.support.inside import context_of


@pytest.mark.parametrize("at_once", [1, 4, 9, 100])
def test_every_file_of_a_version_is_told_once(lake: lw.Lake, at_once: int) -> None:
    lake.create("t", {"id": "int64", "part": "string"}, partition_by=["part"])
    lake.create("other", {"id": "int64"})
    for n in range(3):
        append(lake, "t", {"id": [n, n, n], "part": ["a", "b", "c"]})
        append(lake, "other", {"id": [n]})
    delete(lake, "t", "id = 1 AND part = 'b'")
    append(lake, "t", {"id": [9], "part": ["z"]})

    with context_of(lake).database.read() as session:
        head = heads.get(session, TableName.parse("t"))
        before, now = (
            [
                line.split("\x1f")[0]
                for some in files.lines_at(session, head.table_id, version, at_once)
                for line in some.text.split("\n")
            ]
            for version in (3, head.version)
        )
        known = {
            v: {f.file.path for f in files.at(session, head.table_id, v)} for v in (3, head.version)
        }
        few = [files.are_at_most(session, head.table_id, 3, most) for most in (8, 9)]

    assert len(before) == len(known[3]) == 9
    assert set(before) == known[3]
    assert len(now) == len(set(now)) == 9
    assert set(now) == known[head.version]
    assert few == [False, True]
