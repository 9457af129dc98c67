"""The built wheel works in environments that have nothing else: alone, and with each extra alone.

Every environment of the project's own has packages that no dependency declares; these have not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Generator
from functools import partial
from importlib import metadata
from pathlib import Path

import pytest

from tests.docs.pages import Page
from tests.docs.pasting import PRINTS, follow, shell, started
from tests.support import pythons
from tests.support.postgres import Postgres
from tests.support.s3 import S3Server

EXTRAS = tomllib.loads((pythons.ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
PRESENT = pythons.found()
OLDEST, NEWEST = next(iter(PRESENT)), list(PRESENT)[-1]
# What an extra lacks is the same in every Python, so each is alone in the oldest one. In the newest
# one environment shows that all fit together, and Spark runs, which depends on the version most.
# There the wheel alone is installed as the README says.
EXTRAS_OF = {NEWEST: ("spark", "all")}
EXTRAS_OF |= {OLDEST: ("", *(e for e in EXTRAS if e != "all" or OLDEST == NEWEST))}
CASES = [
    pytest.param(
        version,
        extra,
        id=f"{extra or 'alone'}-{version}",
        marks=pytest.mark.xdist_group(f"wheel-{version}"),
    )
    for version, extras in EXTRAS_OF.items()
    for extra in extras
]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, built from a copy of what git knows."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(pythons.ROOT / name, source)
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("src", "examples"):
        shutil.copytree(pythons.ROOT / name, source / name, ignore=ignored)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", source / "dist"],
        cwd=source,
        check=True,
        capture_output=True,
    )
    (built,) = (source / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="session")
def environments() -> Generator[Path]:
    """A directory for environments, on the disk of the project, where packages are linked."""
    build = pythons.ROOT / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="wheel-", dir=build) as directory:
        yield Path(directory)


@pytest.mark.postgres
@pytest.mark.s3
@pytest.mark.parametrize(("version", "extra"), CASES)
def test_the_wheel_works_with_nothing_but_what_it_declares(
    version: str,
    extra: str,
    wheel: Path,
    postgres_server: Postgres,
    s3_server: S3Server,
    tmp_path: Path,
    environments: Path,
) -> None:
    # One place for all environments of a Python, so that its compiled modules serve them all.
    place = environments / f"wheel-{version}"
    place.mkdir(exist_ok=True)
    python = installed(wheel, extra, PRESENT[version], place)
    around = {"LAKEWARD_CACHE": str(pythons.ROOT / ".jars"), "HOME": str(tmp_path)}
    around |= s3_server.options() | {"LAKEWARD_SMOKE_BUCKET": s3_server.bucket()}
    if version == NEWEST and extra == "spark":
        around["LAKEWARD_SMOKE_SPARK"] = "run"
    with postgres_server.database() as database:
        around["LAKEWARD_SMOKE_POSTGRES"] = postgres_server.url(database)
        ran = subprocess.run(
            # Isolated: neither the project's directory nor the user's packages are on the path.
            [
                python,
                "-I",
                f"-Xpycache_prefix={place}/cache",
                Path(__file__).with_name("smoke.py"),
                *filter(None, [extra]),
            ],
            cwd=tmp_path,
            env=_environment() | around,
            capture_output=True,
            text=True,
            check=False,
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"smoke passed {extra or 'alone'} {version}." in ran.stdout


@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", [pytest.param(NEWEST, marks=pytest.mark.xdist_group("readme"))])
def test_the_readme_and_the_quickstart_work_as_written_with_the_wheel_alone(
    version: str, wheel: Path, tmp_path: Path
) -> None:
    """Only settings of pip are ours: where it finds the wheel, and the versions that we test."""
    pins = (pythons.ROOT / "requirements" / "dev.txt").read_text()
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("\n".join(re.findall(r"^[\w.-]+==[^\\\n]+", pins, re.MULTILINE)))
    links = f"{wheel.parent} {os.environ.get('PIP_FIND_LINKS', '')}"
    around = {"PIP_FIND_LINKS": links, "PIP_CONSTRAINT": str(constraints), "HOME": str(tmp_path)}
    executable = ""
    for name in ("README.md", "docs/quickstart.md"):
        page, home = Page(pythons.ROOT / name), tmp_path / Path(name).stem
        home.mkdir()
        (install,) = [b for b in page.blocks if b.language == "sh" and "pip install" in b.text]
        if home.name == "README":
            shell(install.text, home, around, str(PRESENT[version].with_name("python3")))
        else:  # the same lines, which need not run twice
            assert install.text in Page(pythons.ROOT / "README.md").text
            (home / ".venv").symlink_to(tmp_path / "README" / ".venv")
        executable = str(home / ".venv" / "bin" / "python")
        with started({}, executable) as python:
            for block, printed in follow(
                page, home, python, partial(shell, directory=home, around={}, executable=executable)
            ):
                after = page.blocks[page.blocks.index(block) + 1 :]
                if block.language == "python" and after and after[0].title == PRINTS:
                    assert printed == after[0].text, str(block)
        assert not python.told_at_the_end
    smoke = [executable, "-I", str(Path(__file__).with_name("smoke.py"))]
    ran = subprocess.run(
        smoke, cwd=tmp_path, env=_environment(), capture_output=True, text=True, check=False
    )
    assert f"smoke passed alone {version}." in ran.stdout, ran.stdout + ran.stderr


def installed(wheel: Path, extra: str, python: Path, place: Path) -> Path:
    """The interpreter of a new environment with the wheel and what it asks for, as pinned."""
    environment, wanted = place / "environment", place / "wanted.txt"
    new, pins = environment / "bin" / "python", pythons.ROOT / "requirements"
    chosen = ["--extra", extra] if extra else []
    _uv("venv", "--clear", "--python", python, environment)
    how = ("--python", new, "--constraint", pins / "dev.txt", "--no-annotate")
    _uv("pip", "compile", pythons.ROOT / "pyproject.toml", *chosen, *how, "--output-file", wanted)
    names = wanted.read_text().splitlines()
    others = [line for line in names if not line.startswith("pyspark==")]
    wanted.write_text("\n".join(others))
    _uv("pip", "sync", "--python", new, "--only-binary", ":all:", wanted)
    if others != names:
        _link_pyspark(environment)
    _uv("pip", "install", "--python", new, "--no-deps", "--offline", wheel)
    _uv("pip", "check", "--python", new)
    return new


def _link_pyspark(environment: Path) -> None:
    """Put this environment's pyspark into another one: it comes as source, slow to build."""
    (target,) = environment.glob("lib/python3*/site-packages")
    source = Path(str(metadata.distribution("pyspark").locate_file("")))
    for directory in source.glob("pyspark*"):
        shutil.copytree(directory, target / directory.name, copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # on another file system
        shutil.copy2(source, target)


def _uv(*command: str | Path) -> None:
    done = subprocess.run(
        [pythons.ROOT / ".tools" / "bin" / "uv", *command],
        env=_environment() | {"UV_SYSTEM_CERTS": "1", "UV_PYTHON_DOWNLOADS": "never"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _environment() -> dict[str, str]:
    """This process's environment without what would show the new one other packages."""
    hidden = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX"}
    return {k: v for k, v in os.environ.items() if k not in hidden}
