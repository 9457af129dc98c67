"""What Lakeward published comes back, so that a lost store is rebuilt without loss."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from lakeward.formats.delta.checkpoint import checkpoint_bytes
from lakeward.formats.delta.history import (
    read_history,
)
from lakeward.formats.delta.publication import commit_bytes, commit_path
from lakeward.model.file import LIVE, LoggedFile
from lakeward.model.types import Primitive
from lakeward.model.values import from_neutral
from lakeward.storage.local import LocalStorage
from tests.support.delta_log import (
    UUID,
    Log,
    column,
    metadata_action,
    own_commits,
)


def test_what_we_publish_comes_back_without_loss(tmp_path: Path, storage: LocalStorage) -> None:
    head, definition, commits = own_commits()
    for commit in commits:
        storage.put_if_absent(
            commit_path("t", commit.version), commit_bytes(head, commit, definition)
        )

    history = read_history(storage, "t")

    assert (history.uuid, history.name) == (UUID, "sales.orders")
    assert history.definitions == [(0, definition)]
    assert history.definitions[0][1].schema.last_id == definition.schema.last_id
    assert [f.file for f in history.files] == list(commits[1].added)
    assert [(f.added, f.ordinal, f.removed) for f in history.files] == [
        (1, 0, LIVE),
        (1, 1, 2),
        (1, 2, LIVE),
    ]
    for ours, theirs in zip(commits, history.commits, strict=True):
        assert theirs.timestamp_ms == ours.timestamp_ms
        assert theirs.info == replace(ours.info, adopted=True, extra=theirs.info.extra)
    assert history.app_transactions == [(1, commits[1].app_transactions[0])]
    assert [c.change_files for c in history.commits] == [(), (), commits[2].change_files]
    assert DeltaTable(tmp_path / "t").version() == 2


def test_what_we_checkpoint_comes_back(tmp_path: Path, storage: LocalStorage) -> None:
    head, definition, commits = own_commits()
    live = [LoggedFile(f, 1, n) for n, f in enumerate(commits[1].added)]
    data, _ = checkpoint_bytes(head, definition, live, [], commits[1].app_transactions)
    storage.put(f"t/_delta_log/{1:020}.checkpoint.parquet", data)

    history = read_history(storage, "t")

    assert history.definitions == [(1, definition)]
    assert [replace(f.file, stats=None) for f in history.files] == [
        replace(f.file, stats=None) for f in live
    ]
    for found, known in zip(history.files, live, strict=True):
        assert found.file.stats is not None
        assert known.file.stats is not None
        assert found.file.stats.nulls == known.file.stats.nulls
        for field_id, value in known.file.stats.minimum.items():
            kind = definition.schema.by_id[field_id].type
            low = from_neutral(kind, found.file.stats.minimum[field_id])
            high = from_neutral(kind, found.file.stats.maximum[field_id])
            assert low <= from_neutral(kind, value)
            assert from_neutral(kind, known.file.stats.maximum[field_id]) <= high


def test_marks_that_engines_copied_elsewhere_do_no_harm(log: Log, storage: LocalStorage) -> None:
    twice = [column("a", "long", **{"lakeward.id": 3}), column("b", "long", **{"lakeward.id": 3})]
    log.start(
        (), schemaString=json.dumps({"type": "struct", "fields": [*twice, column("c", "long")]})
    )
    changed = [
        column("c", "long"),
        column("a", "string", **{"lakeward.id": 3, "lakeward.type": "timestamp_ms"}),
    ]
    log.commit(
        {
            "metaData": metadata_action(
                (), schemaString=json.dumps({"type": "struct", "fields": changed})
            )
        }
    )

    (_, first), (_, second) = read_history(storage, "t").definitions

    assert {f.name: f.id for f in first.schema.fields} == {"a": 3, "b": 4, "c": 5}
    assert {f.name: f.id for f in second.schema.fields} == {"c": 5, "a": 3}
    assert second.schema.field("a").type == Primitive("string")


def test_a_copy_by_another_engine_is_adopted_with_its_marks(
    tmp_path: Path, storage: LocalStorage
) -> None:
    head, definition, commits = own_commits()
    storage.put_if_absent(commit_path("t", 0), commit_bytes(head, commits[0], definition))
    query = QueryBuilder().register("t", DeltaTable(tmp_path / "t"))
    write_deltalake(tmp_path / "copy", query.execute("SELECT * FROM t").read_all())

    copied = read_history(storage, "copy").definitions[0][1].schema

    ours = {f.id: f.name for f in definition.schema.walk()}
    assert {f.id: f.name for f in copied.walk()} == ours


@pytest.mark.parametrize("junk", ["x", "-1", -1, True, 1.5, [], {}, None, "9" * 400, 2**80])
def test_marks_that_are_no_ids_are_not_believed(log: Log, storage: LocalStorage, junk: Any) -> None:
    nested = {"type": "array", "elementType": "long", "containsNull": True}
    marks = {"lakeward.id": junk, "lakeward.nestedIds": junk, "lakeward.type": junk}
    fields = [
        column("a", nested, **marks),
        column("b", nested, **{"lakeward.nestedIds": {"element": junk}}),
    ]
    log.start((), schemaString=json.dumps({"fields": fields}))

    schema = read_history(storage, "t").definitions[0][1].schema

    assert sorted(f.id for f in schema.walk()) == [1, 2, 3, 4]
