"""A commit that comes before its predecessor is published publishes that one too, and no more."""

from __future__ import annotations

import pytest

import lakeward as lw
from lakeward.log.statement import Statement
from tests.behaviour.lakes import append, log_files
from tests.support.inside import context_of

pytestmark = pytest.mark.formats("delta")

VERSIONS = 8


@pytest.fixture
def reads(lake: lw.Lake, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of published files that are read from now on."""
    read = context_of(lake).storage.read
    seen: list[str] = []

    def noted(path: str) -> bytes:
        seen.append(path.rpartition("/")[2])
        return read(path)

    monkeypatch.setattr(context_of(lake).storage, "read", noted)
    return seen


@pytest.mark.parametrize("owed", [1, 3])
def test_only_what_is_owed_is_published_however_old_the_note_of_the_store(
    lake: lw.Lake, reads: list[str], owed: int
) -> None:
    lake.create("t", {"id": "int64"})
    for number in range(VERSIONS):
        append(lake, "t", {"id": [number]})
    files = log_files(lake, "t")
    before = [path.read_bytes() for path in files]
    with context_of(lake).database.write() as session:
        session.run(Statement("UPDATE lakeward_head SET published = 0"))
    for path in files[-owed:]:
        path.unlink()
    reads.clear()

    append(lake, "t", {"id": [VERSIONS]})

    assert [path.read_bytes() for path in log_files(lake, "t")][:-1] == before
    assert len(log_files(lake, "t")) == VERSIONS + 2
    # Whoever looked at more would hold up all others, who wait for their turn.
    assert set(reads) <= {path.name for path in files[-owed - 1 :]}
