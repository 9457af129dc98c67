"""Change files list old and new values in any order; changes have the old ones first."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeward.read import change_files

_KINDS = {"d": "delete", "o": "update_preimage", "n": "update_postimage", "i": "insert"}


@pytest.mark.parametrize("memory", [0, 2**30])
@pytest.mark.parametrize(
    "kinds", ["", "d", "i", "on", "onon", "oonn", "nnoo", "ddddddi", "odiiiiii"]
)
def test_every_row_comes_once_with_old_values_first(
    kinds: str, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_files, "_MEMORY", memory)
    names = [_KINDS[k] for k in kinds]
    rows = pa.record_batch(
        {
            "id": pa.array(range(len(kinds)), pa.int64()),
            "_change_type": pa.array(names, pa.string()),
        }
    )

    found = [row for _, part in change_files.old_first([rows, rows]) for row in part.to_pylist()]

    pairs = [(n, name) for n, name in enumerate(names)] * 2
    old = [p for p in pairs if p[1] in {"delete", "update_preimage"}]
    new = [p for p in pairs if p not in old]
    assert [(row["id"], row["_change_type"]) for row in found] == [*old, *new]
