"""Compaction after commits, and Bloom filters, by the policy of a table."""

from __future__ import annotations

import secrets

import pytest

import lakeward as lw
from lakeward.maintain.optimize import automatic
from lakeward.write.transaction import publishing


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compact after every sixth version, from six small files on."""
    monkeypatch.setattr(publishing, "_COMPACTED_EVERY", 6)
    monkeypatch.setattr(automatic, "ENOUGH", 6)
    monkeypatch.setattr(automatic, "_TIER", 4)


@pytest.mark.usefixtures("often")
def test_small_files_are_compacted_in_the_background_in_tiers(lake: lw.Lake) -> None:
    lake.set_policy("auto.*", {"auto_compaction": True})
    table, plain = (lake.create(n, "n int64, text string") for n in ("auto.t", "plain"))
    for number in range(18):
        for one in (table, plain):
            one.append([{"n": number, "text": secrets.token_hex(20_000)}])
        lake.publish()

    assert len(plain.files()) == 18
    assert len(table.files()) < 12
    assert sorted(r["n"] for r in table.to_arrow().to_pylist()) == list(range(18))
    moved = [v.version for v in table.history() if v.operation == "OPTIMIZE"]
    assert len(moved) >= 2
    assert len(list(table.changes(since=0).read_all().to_pylist())) == 18
    first = table.at(version=min(moved)).files()
    assert {f.path for f in first if (f.rows or 0) >= 3} & {
        f.path for f in table.at(version=max(moved) - 1).files()
    }, "a file of the next tier is left alone"


def test_a_policy_of_a_pattern_gives_files_bloom_filters(lake: lw.Lake) -> None:
    lake.set_policy("keyed.*", {"bloom_filters": ["id"]})
    table = lake.create("keyed.t", "id string")
    for part in range(4):
        table.append([{"id": f"{n * 7919 % 1000:03d}-{part}"} for n in range(200)])

    assert len(table.files(where="id = '919-3'")) < 4
    own = lake.create("own", "id string", policy={"bloom_filters": ["id"]})
    assert own.properties["lakeward.bloom"] == "id"
