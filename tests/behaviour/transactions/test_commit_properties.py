"""A user's own properties of a commit are kept in the log and published in the format's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lakeward as lw

OWN = {"job": "nightly", "ordering-keys": "id, day", "Team.cost_center": "ü 'quoted'"}


@pytest.mark.local
def test_properties_are_in_the_history_and_in_the_published_files(
    lake: lw.Lake, table_format: str
) -> None:
    table = lake.create("t", "id int64", format=table_format)
    with lake.transaction(properties=OWN) as tx:
        tx.append("t", [{"id": 1}])
        tx.set_properties({"job": "late", "more": "1"})
    wanted = {**OWN, "job": "late", "more": "1"}
    assert tx.properties == wanted
    assert table.history(limit=1)[0].properties == wanted
    published = _published(Path(lake.warehouse), table_format)
    assert {k: published.get(k) for k in wanted} == wanted
    table.append([{"id": 2}])
    assert table.history(limit=1)[0].properties == {}, "another commit has them too"


def test_a_rebuilt_store_knows_the_properties(tmp_path: Path, table_format: str) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("t", "id int64", format=table_format)
        lake.run(lambda tx: tx.append("t", [{"id": 1}]), properties=OWN)
    with lw.open(tmp_path / "again") as other:
        adopted = other.adopt("t", tmp_path / "lake" / "t", take_over=True)
        assert adopted.history()[1].properties == OWN, "before the commit that adopts it"


@pytest.mark.before_the_store
@pytest.mark.parametrize(
    "wrong",
    [
        *({name: "x"} for name in ("", "delta.x", "lakeward.members", "added-records", "a b")),
        *({"operation": "x"}, {"n": 1}, {"n": None}, ["x"]),
    ],
    ids=str,
)
def test_names_of_the_formats_and_values_that_are_no_text_are_refused(
    lake: lw.Lake, wrong: Any
) -> None:
    with pytest.raises(lw.errors.InvalidInput, match="propert"):
        lake.transaction(properties=wrong)


def _published(warehouse: Path, table_format: str) -> dict[str, str]:
    found: dict[str, str]
    if table_format == "delta":
        first = (warehouse / "t/_delta_log/00000000000000000001.json").read_text().splitlines()[0]
        found = json.loads(first)["commitInfo"]["tags"]
        return found
    newest = max((warehouse / "t/metadata").glob("*.metadata.json"))
    found = json.loads(newest.read_text())["snapshots"][-1]["summary"]
    return found
