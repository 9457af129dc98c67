"""The directory of a cache keeps to its limit, also if several lakes share it."""

from __future__ import annotations

from pathlib import Path

import lakeward as lw
from lakeward.storage.object_store.cache import RangeCache

LIMIT = 80_000


def _used(place: Path) -> int:
    return sum(path.stat().st_size for path in place.iterdir())


def test_a_shared_directory_keeps_to_its_limit(tmp_path: Path) -> None:
    asked = lw.Cache(memory=0, directory=tmp_path, disk=LIMIT)
    caches = [RangeCache(asked, lambda what, n: None) for _ in range(3)]
    for n, cache in enumerate(caches):
        for part in range(70):
            cache.put(f"{n} {part}", bytes(1000))
            assert _used(tmp_path) <= LIMIT + len(caches) * LIMIT // 8
    assert _used(tmp_path) > LIMIT // 2
    assert caches[0].get("2 69") == bytes(1000), "the newest entries are kept"


def test_one_lake_uses_the_whole_limit(tmp_path: Path) -> None:
    cache = RangeCache(lw.Cache(memory=0, directory=tmp_path, disk=LIMIT), lambda what, n: None)
    for part in range(200):
        cache.put(str(part), bytes(1000))
        assert _used(tmp_path) <= LIMIT
    assert _used(tmp_path) > LIMIT - 2000
