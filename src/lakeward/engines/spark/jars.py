"""The jars that Spark needs for the lake, resolved by Maven coordinates once and cached.

Spark's own resolver downloads them in a separate process, with the repositories and settings of the
user's machine; its output is shown as progress, and quoted in the error if it fails. Sessions get
the files, so that only the first session accesses a registry.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from lakeward.engines.spark.cache import kept
from lakeward.engines.spark.compiled import lake_classes
from lakeward.engines.spark.extra import pyspark
from lakeward.engines.spark.java import java_home
from lakeward.engines.spark.versions import EXCLUDES, PACKAGES
from lakeward.errors import MissingExtra

SETTINGS: Final = ("spark.jars.ivySettings", "spark.jars.repositories")
"""Settings of Spark that determine from where jars are downloaded."""
_FETCHED: Final = re.compile(r"^downloading \S+/([^/\s]+\.jar)")
_PROBLEMS: Final = re.compile(r"unresolved dependency|not found|Exception|refused|timed out", re.I)
_SHOWN: Final = 4


def jars(packages: Sequence[str], settings: Mapping[str, str]) -> list[str]:
    """Return the files of packages and of their dependencies."""
    chosen = {key: settings[key] for key in SETTINGS if key in settings}
    name = f"jars-{sha256(repr((packages, EXCLUDES)).encode()).hexdigest()[:12]}"

    def make(directory: Path) -> None:
        with _Progress() as progress, tempfile.TemporaryDirectory(prefix="lakeward-ivy-") as ivy:
            _resolve(packages, {**chosen, "spark.jars.ivy": ivy}, progress)
            for jar in (Path(ivy) / "jars").glob("*.jar"):
                # The temporary directory may be on another disk.
                (directory / jar.name).write_bytes(jar.read_bytes())

    return sorted(str(jar) for jar in kept(name, make).glob("*.jar"))


def _resolve(
    packages: Sequence[str], settings: Mapping[str, str], progress: Callable[[str], None]
) -> None:
    home = str(Path(str(pyspark().__file__)).parent)
    with tempfile.TemporaryDirectory(prefix="lakeward-") as place:
        # Spark resolves packages before it runs a program, so the program may be empty.
        program = Path(place) / "nothing.py"
        program.write_text("")
        command = [
            str(Path(home) / "bin" / "spark-submit"),
            *("--master", "local[1]"),
            *("--packages", ",".join(packages)),
            *("--exclude-packages", ",".join(EXCLUDES)),
            *(f"--conf={key}={value}" for key, value in settings.items()),
            str(program),
        ]
        ours = {"SPARK_HOME": home, "JAVA_HOME": java_home(), "PYSPARK_PYTHON": sys.executable}
        environment = {**os.environ, **ours}
        environment.pop("PYSPARK_SUBMIT_ARGS", None)
        process = subprocess.Popen(  # noqa: S603  Spark's own program, and no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            cwd=place,
        )
        heard: list[str] = []
        with process:
            for line in process.stdout or ():
                heard.append(line.strip())
                fetched = _FETCHED.match(heard[-1])
                if fetched is not None:
                    progress(fetched[1])
    if process.returncode != 0:
        raise _failed(heard)


def _failed(heard: Sequence[str]) -> MissingExtra:
    telling = [line for line in heard if _PROBLEMS.search(line)] or list(heard)
    said = "; ".join(dict.fromkeys(telling[-_SHOWN:]))
    what = f"The jars for Spark cannot be fetched: {said}."
    hint = (
        "Check the network and try again; with a mirror of your own, set spark.jars.ivySettings or"
        " spark.jars.repositories."
    )
    return MissingExtra(what, hint=hint, extra="spark")


class _Progress:
    """Shows on standard error which jar is being downloaded."""

    def __enter__(self) -> Callable[[str], None]:
        from rich.console import Console

        self._console = Console(stderr=True)
        if not self._console.is_terminal:
            self._console.print("Fetching the jars for Spark, this once …")
        self._status = self._console.status("Fetching the jars for Spark, this once …")
        self._status.start()
        return self._tell

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def _tell(self, jar: str) -> None:
        self._status.update(f"Fetching the jars for Spark, this once: {jar}")


if __name__ == "__main__":
    lake_classes(jars(PACKAGES, {}))
