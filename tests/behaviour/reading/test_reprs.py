"""What objects show in a console and in a notebook."""

from __future__ import annotations

from typing import Any

import lakeward as lw
from tests.behaviour.lakes import append

NASTY = "<script>alert(1)</script>"


def test_what_is_shown_in_a_console(lake: lw.Lake, table_format: str) -> None:
    table = lake.create("s.t", {f"c{n}": "int64" for n in range(12)})
    append(lake, "s.t", [{f"c{n}": n for n in range(12)}])
    columns = "c0 int64, c1 int64, c2 int64, c3 int64, c4 int64, c5 int64, c6 int64, c7 int64"

    assert repr(table) == (
        f"Table('s.t', format='{table_format}', version=1, columns='{columns}, and 4 more')"
    )
    assert repr(table.at(version=0)).startswith("TableSnapshot('s.t', version=0, timestamp='20")
    assert repr(lake.snapshot()) == "LakeSnapshot('now', versions={'s.t': 1})"
    assert "read_only" not in repr(lake)

    tx = lake.transaction(transaction_id="mine")
    assert repr(tx) == "Transaction('mine', open, isolation='snapshot', bases={})"
    tx.append("s.t", table)
    assert repr(tx) == "Transaction('mine', open, isolation='snapshot', bases={'s.t': 1})"
    done = tx.commit()
    assert repr(done).startswith(
        "CommitResult(transaction_id='mine', versions={'s.t': 2}, timestamp="
    )
    counts = lake.run(lambda tx: tx.delete("s.t", where="c0 = 99")).value
    assert repr(counts).startswith("RowChanges(inserted=0, updated=0, deleted=0,")
    assert repr(tx).endswith(
        "ratified, isolation='snapshot', bases={'s.t': 1}, versions={'s.t': 2})"
    )

    assert repr(table.diff(1, 2)) == (
        "Diff('s.t', 1 to 2, changed=RowCounts(inserted=1, updated=0, deleted=0), files_added=1)"
    )

    lake.drop("s.t")
    assert repr(table) == "Table('s.t', TableNotFound)"


def test_what_is_shown_in_a_notebook_is_escaped(lake: lw.Lake) -> None:
    table = lake.create("t", {"a<b>&c": "int64", "ok": "string"})
    with lake.transaction(message=NASTY) as tx:
        tx.append("t", [{"a<b>&c": 1, "ok": NASTY}])

    assert tx.result is not None
    for thing in (lake, table, table.at(), lake.snapshot(), tx, tx.result):
        html = thing._repr_html_()
        assert html.startswith("<div>")
        assert "<script" not in html
        assert "a<b>" not in html
        assert "t</td><td>" in html or "a&lt;b&gt;&amp;c</td><td>int64" in html
    history: Any = table.history()
    assert "<script" not in history._repr_html_()
    assert "&lt;script&gt;" in history._repr_html_()
    assert "files added</td><td>1" in table.diff(0, 1)._repr_html_()
