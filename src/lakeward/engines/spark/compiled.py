"""Lakeward's own classes for Spark, compiled from `scala` once and cached.

Spark contains the compiler, and the class path is that of the session, so nothing is downloaded.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from lakeward.engines.spark.cache import kept
from lakeward.engines.spark.extra import pyspark
from lakeward.engines.spark.java import java_home
from lakeward.errors import MissingExtra

_SOURCES: Final = Path(__file__).with_name("scala")
_NAME: Final = "lakeward-spark.jar"
_SHOWN: Final = 500


def lake_classes(jars: Sequence[str]) -> str:
    """Return the jar with Lakeward's catalog and rules, compiled for use with these `jars`."""
    sources = sorted(_SOURCES.glob("*.scala"))
    spark = Path(str(pyspark().__file__)).parent / "jars"
    made_of = [*(p.read_bytes() for p in sources), str(pyspark().__version__).encode()]
    made_of += [Path(jar).name.encode() for jar in jars]

    def make(directory: Path) -> None:
        command = [
            str(Path(java_home()) / "bin" / "java"),
            # The compiler runs for a few seconds: code that is there at once is better than fast.
            "-XX:TieredStopAtLevel=1",
            *("-cp", ":".join(map(str, sorted(spark.glob("scala-*.jar"))))),
            "scala.tools.nsc.Main",
            *("-classpath", ":".join((f"{spark}/*", *jars))),
            *("-d", str(directory / _NAME)),
            *map(str, sources),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode != 0:
            what = f"The lake's classes for Spark cannot be compiled: {done.stderr[:_SHOWN]}"
            hint = "Install the versions of Spark that fit: pip install 'lakeward[spark]'."
            raise MissingExtra(what, hint=hint, extra="spark")

    return str(kept(f"classes-{sha256(b'|'.join(made_of)).hexdigest()[:12]}", make) / _NAME)
