"""Full names on object stores: which mean the same, and which lead nowhere."""

from __future__ import annotations

import pytest

from lakeward.errors import InvalidInput
from lakeward.storage.object_store.places import ObjectPlace


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3a://bucket/a/b/", "s3://bucket/a/b"),
        ("S3N://bucket/p=a%20b", "s3://bucket/p=a%20b"),
        ("gs://bucket/x", "gs://bucket/x"),
        ("az://box/x", "az://box/x"),
        (
            "abfss://box@acct.dfs.core.windows.net/x",
            "abfss://box@acct.dfs.core.windows.net/x",
        ),
        (
            "wasbs://box@acct.blob.core.windows.net/x",
            "abfss://box@acct.dfs.core.windows.net/x",
        ),
    ],
)
def test_spellings_of_one_place_become_one(name: str, uri: str) -> None:
    assert ObjectPlace.parse(name).uri() == uri


@pytest.mark.parametrize(
    "name",
    [
        "s3://",
        "s3:///key",
        "s3://bucket/a/../b",
        "s3://bucket/a//b",
        "s3://bucket/./b",
        "s3://user:hidden-value@bucket/x",
        "abfss://box:hidden-value@acct/x",
        "s3://bucket?x=hidden-value/y",
        "http://bucket/x",
        "/plain",
    ],
)
def test_what_leads_nowhere_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ObjectPlace.parse(name)

    assert "hidden-value" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "root", "path"),
    [
        ("s3://b/wh/t", "s3://b/wh", "t"),
        ("s3a://b/wh/t/u", "s3://b/wh", "t/u"),
        ("s3://b/wh", "s3://b/wh", ""),
        ("s3://b/t", "s3://b", "t"),
        ("s3://b/wh2/t", "s3://b/wh", None),
        ("s3://c/wh/t", "s3://b/wh", None),
        ("abfss://x@one/t", "abfss://x@two", None),
        ("az://x/t", "abfss://x@two", "t"),
    ],
)
def test_a_path_leads_from_a_root_to_what_is_below_it(
    name: str, root: str, path: str | None
) -> None:
    assert ObjectPlace.parse(name).path_from(ObjectPlace.parse(root)) == path
