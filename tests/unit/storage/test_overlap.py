"""Paths that reach a table's files, in every spelling, and paths that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.storage.paths import overlaps


@pytest.mark.parametrize(
    "spelling",
    [
        "{p}",
        "{p}/",
        "{p}/part=1/x.parquet",
        "{p}//part=1",
        "//{p}",
        "{d}/other/../table",
        "{d}/./table",
        "{d}//table",
        "{d}/missing/../table/_delta_log",
        "file:{p}",
        "file://{p}",
        "FILE:///{p}",
        "file://localhost{p}",
        "file:{d}/other/../table",
        "{d}/t%61ble",
        "file:{d}/t%61ble",
        "{d}/link",
        "{d}/link/x",
        "{d}/links/../table",
        "{p}@v3",
        "{p}@20260101000000000",
        "{p}#123",
        "{d}/tab*",
        "{d}/*/x.parquet",
        "{d}/t?ble",
        "{d}/[s-u]able",
        "{d}/{{x,table}}",
        "{d}/{{x/y,table/z}}",
        "{d}",
        "/",
    ],
)
def test_a_path_that_reaches_the_table_is_known_in_any_spelling(
    tmp_path: Path, spelling: str
) -> None:
    place = tmp_path / "table"
    place.mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "links").mkdir()
    (tmp_path / "link").symlink_to(place)
    path = spelling.format(p=place, d=tmp_path)
    assert overlaps(path, place.as_uri())
    assert overlaps(path, str(place))


def test_a_path_through_a_link_is_followed_as_java_and_as_the_system_do(tmp_path: Path) -> None:
    place = tmp_path / "lake" / "table"
    place.mkdir(parents=True)
    (tmp_path / "aside").symlink_to(place)
    assert overlaps(f"{tmp_path}/aside/../table", str(place)), "as the system follows it"
    assert overlaps(f"{tmp_path}/aside/../lake/table", str(place)), "as Java follows it"


def test_a_path_from_the_working_directory_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "table").mkdir()
    monkeypatch.chdir(tmp_path)
    assert overlaps("./table", str(tmp_path / "table"))
    assert overlaps("../" + tmp_path.name + "/table", str(tmp_path / "table"))
    assert not overlaps("./tables", str(tmp_path / "table"))


@pytest.mark.parametrize(
    "spelling",
    ["{d}/tables", "{d}/tabl", "{d}/*.csv", "{d}/table/../other", "s3://bucket{p}"],
)
def test_a_path_beside_the_table_is_none_of_its(tmp_path: Path, spelling: str) -> None:
    place = tmp_path / "table"
    assert not overlaps(spelling.format(p=place, d=tmp_path), str(place))


@pytest.mark.parametrize(
    ("path", "place", "expected"),
    [
        ("s3a://bucket/lake/table", "s3://bucket/lake/table", True),
        ("S3N://bucket/lake//x/../table/y", "s3://bucket/lake/table", True),
        ("s3a://bucket/lake/t%61ble", "s3://bucket/lake/table", True),
        ("s3a://bucket/lake/*", "s3://bucket/lake/table", True),
        ("s3a://other/lake/table", "s3://bucket/lake/table", False),
        ("s3a://bucket/lake/tables", "s3://bucket/lake/table", False),
        ("abfss://c@account.dfs.core.windows.net/lake/table", "az://c/lake/table", True),
        ("gs://c/lake/table", "az://c/lake/table", False),
        ("gcs://c/lake/table", "gs://c/lake/table", True),
    ],
)
def test_object_stores_are_compared_by_bucket_and_key(
    path: str, place: str, expected: bool
) -> None:
    assert overlaps(path, place) is expected
