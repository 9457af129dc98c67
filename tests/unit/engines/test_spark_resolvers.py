"""Single jars with a classifier, from repositories of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakeward.engines.spark.resolvers import IVY_SETTINGS, REPOSITORIES, fetch_jar
from lakeward.errors import MissingExtra

PACKAGE = "org.example:tool:1.2:shaded"
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>tool</artifactId><version>1.2</version>
<dependencies><dependency><groupId>org.example</groupId><artifactId>not-there</artifactId>
<version>1</version></dependency></dependencies></project>
"""


def repository(place: Path, *, shaded: bool) -> str:
    """The address of a repository with the plain jar, and with the shaded one on demand."""
    directory = place / "org" / "example" / "tool" / "1.2"
    directory.mkdir(parents=True)
    (directory / "tool-1.2.pom").write_text(_POM)
    (directory / "tool-1.2.jar").write_bytes(b"plain")
    if shaded:
        (directory / "tool-1.2-shaded.jar").write_bytes(b"shaded")
    return place.as_uri() + "/"


def by_settings(place: Path, root: str) -> dict[str, str]:
    """Settings that name an Ivy file of the user's own."""
    own = place / "own.xml"
    own.write_text(
        '<ivysettings><settings defaultResolver="mine"/><resolvers>'
        f'<ibiblio name="mine" m2compatible="true" root="{root}"/></resolvers></ivysettings>'
    )
    return {IVY_SETTINGS: str(own)}


def by_repositories(_: Path, root: str) -> dict[str, str]:
    """Settings that name repositories."""
    return {REPOSITORIES: root}


def fetched(place: Path, settings: dict[str, str]) -> dict[str, bytes]:
    """The files that are fetched with these settings."""
    out, work = place / "out", place / "work"
    out.mkdir()
    work.mkdir()
    fetch_jar(PACKAGE, settings, out, work, lambda _: None)
    return {found.name: found.read_bytes() for found in out.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [by_settings, by_repositories])
def test_the_jar_of_a_classifier_comes_alone_from_where_the_user_says(
    tmp_path: Path, chosen: Callable[[Path, str], dict[str, str]]
) -> None:
    settings = chosen(tmp_path, repository(tmp_path / "repository", shaded=True))
    assert fetched(tmp_path, settings) == {"org.example_tool-1.2-shaded.jar": b"shaded"}


@pytest.mark.slow
def test_a_jar_that_is_not_there_is_told_with_the_settings_to_change(tmp_path: Path) -> None:
    settings = by_settings(tmp_path, repository(tmp_path / "repository", shaded=False))
    with pytest.raises(MissingExtra, match=r"cannot be fetched.*tool") as caught:
        fetched(tmp_path, settings)
    assert IVY_SETTINGS in str(caught.value)
