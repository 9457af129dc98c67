"""The script that builds the environments, with a damaged download cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support import pythons

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the script, its pins, and one small package to install."""
    project = tmp_path / "project"
    for name in ("scripts/bootstrap", "requirements/uv.txt", "requirements/build.txt"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(pythons.ROOT / name, project / name)
    tools = project / ".tools" / "bin"
    tools.mkdir(parents=True)
    (tools / "uv").symlink_to(pythons.ROOT / ".tools" / "bin" / "uv")
    lines = (pythons.ROOT / "requirements" / "peers.txt").read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("tzdata=="))
    hashes = [line for line in lines[first + 1 :] if line.startswith("    --hash")]
    (project / "small.txt").write_text("\n".join([lines[first], *hashes]) + "\n")
    return project


def test_a_damaged_file_in_the_cache_does_not_stop_the_set_up(project: Path) -> None:
    assert "trying again" not in bootstrap(project, "one")
    archives = project / "cache" / "archive-v0"
    (described,) = archives.glob("*/tzdata-*.dist-info")
    shutil.rmtree(described)
    assert "trying again without the cache" in bootstrap(project, "two")
    assert list((project / "two").glob("lib/python3*/site-packages/tzdata-*.dist-info/METADATA"))


def test_a_failure_of_a_known_cause_is_not_tried_again(project: Path) -> None:
    wrong = (project / "small.txt").read_text().split()[0] + " --hash=sha256:" + "0" * 64
    (project / "small.txt").write_text(wrong + "\n")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        bootstrap(project, "one")
    assert "a download is not the file that was pinned" in failed.value.stderr
    assert "trying again" not in failed.value.stdout


def test_what_is_declared_of_pyspark_is_what_it_asks_for() -> None:
    (declared,) = tomllib.loads((pythons.ROOT / "pyproject.toml").read_text())["tool"]["uv"][
        "dependency-metadata"
    ]
    pyspark = metadata.distribution("pyspark")
    asked = [Requirement(line) for line in pyspark.requires or ()]
    assert {Requirement(line) for line in declared["requires-dist"]} == {
        requirement for requirement in asked if "extra" not in str(requirement.marker)
    }
    assert declared["version"] == pyspark.version
    assert declared["requires-python"] == pyspark.metadata["Requires-Python"]


def bootstrap(project: Path, environment: str) -> str:
    """What the script prints while it builds an environment of the small package."""
    done = subprocess.run(
        ["scripts/bootstrap", environment, "small.txt"],
        cwd=project,
        env=os.environ | {"UV_CACHE_DIR": str(project / "cache")},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
