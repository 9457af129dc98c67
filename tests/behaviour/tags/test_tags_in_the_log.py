"""Tags in the store: what they hold is known by table, for whoever deletes old files."""

from __future__ import annotations

import pytest

import lakeward as lw
from lakeward.log import tags
from lakeward.log.tags import LoggedTag
from tests.support.inside import context_of


@pytest.mark.one_pair
def test_the_versions_that_tags_name_are_held_until_the_last_tag_is_gone(lake: lw.Lake) -> None:
    def tag(name: str, versions: dict[int, int]) -> LoggedTag:
        return LoggedTag(name, 1_000, True, "me", None, 2_000, versions)

    database = context_of(lake).database
    with database.write() as session:
        assert tags.insert(session, tag("a", {1: 3, 2: 0}))
        assert tags.insert(session, tag("b", {1: 7}))
        assert tags.insert(session, tag("c", {1: 3}))
        assert not tags.insert(session, tag("a", {9: 9}))
    with database.read() as session:
        assert tags.held_versions(session, 1) == {3, 7}
        assert tags.held_versions(session, 2) == {0}
        assert tags.held_versions(session, 9) == set()
        assert tags.names_of(session, 1) == {"a": 3, "c": 3, "b": 7}
        assert tags.version_of(session, "b", 2) is None
        assert [t.versions for t in tags.every(session)] == [{1: 3, 2: 0}, {1: 7}, {1: 3}]
    with database.write() as session:
        assert tags.delete(session, "a")
        assert not tags.delete(session, "a")
        assert tags.held_versions(session, 1) == {3, 7}
        assert tags.delete(session, "c")
        assert tags.held_versions(session, 1) == {7}
        assert tags.held_versions(session, 2) == set()
