"""The jars that Spark needs for the lake, resolved by Maven coordinates once and cached.

Spark's own resolver downloads them in a separate process, with the repositories and settings of the
user's machine; its output is shown as progress, and quoted in the error if it fails. Sessions get
the files, so that only the first session accesses a registry.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from lakeward.engines.spark.cache import kept
from lakeward.engines.spark.compiled import lake_classes
from lakeward.engines.spark.java import java_home
from lakeward.engines.spark.resolvers import (
    IVY_SETTINGS,
    REPOSITORIES,
    failed,
    fetch_jar,
    has_classifier,
    run,
    spark_home,
)
from lakeward.engines.spark.versions import EXCLUDES, PACKAGES

SETTINGS: Final = (IVY_SETTINGS, REPOSITORIES)
"""Settings of Spark that determine from where jars are downloaded."""


def jars(packages: Sequence[str], settings: Mapping[str, str]) -> list[str]:
    """Return the files of packages and of their dependencies."""
    chosen = {key: settings[key] for key in SETTINGS if key in settings}
    name = f"jars-{sha256(repr((packages, EXCLUDES)).encode()).hexdigest()[:12]}"

    def make(directory: Path) -> None:
        plain = [package for package in packages if not has_classifier(package)]
        with _Progress() as progress, tempfile.TemporaryDirectory(prefix="lakeward-ivy-") as ivy:
            _resolve(plain, {**chosen, "spark.jars.ivy": ivy}, progress)
            for jar in (Path(ivy) / "jars").glob("*.jar"):
                # The temporary directory may be on another disk.
                (directory / jar.name).write_bytes(jar.read_bytes())
            for package in packages:
                if has_classifier(package):
                    fetch_jar(package, chosen, directory, Path(ivy), progress)

    return sorted(str(jar) for jar in kept(name, make).glob("*.jar"))


def _resolve(
    packages: Sequence[str], settings: Mapping[str, str], progress: Callable[[str], None]
) -> None:
    home = str(spark_home())
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
        code, heard = run(command, ours, Path(place), progress)
    if code != 0:
        raise failed(heard)


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
