"""Spark for tests: rows are few and sessions short, so nothing is worth compiling well."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.support import class_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Jars are fetched once into the project, as `make jars` does.
os.environ.setdefault("LAKEWARD_CACHE", str(Path(__file__).parents[2] / ".jars"))

JAVA_OPTIONS: Final = " ".join(
    (
        "-XX:TieredStopAtLevel=1",
        # Most of the time goes into code that runs a few hundred times: compile it sooner.
        "-XX:CompileThresholdScaling=0.3",
        "-XX:+UseSerialGC",
        # The default without the second compiler is 48 MB: Spark fills it, and then half of its
        # code is thrown away and compiled again.
        "-XX:ReservedCodeCacheSize=512m",
        # Spark loads 27,000 classes. Their verification, and a full collection each time that the
        # space for them grows, take a tenth of the time.
        "-XX:MetaspaceSize=320m",
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:-BytecodeVerificationRemote",
        *class_archive.options(),
    )
)
"""Compiled code that is there at once rather than fast; two cores have no time for more."""

CONF: Final[dict[str, str]] = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -Xmn256m",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Plans are made once: with so few rows nothing is learned from the first stages.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.maxPlanStringLength": "1000",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
    "spark.broadcast.compress": "false",
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.ui.showConsoleProgress": "false",
}

PROGRAM: Final[dict[str, str]] = {
    "JAVA_TOOL_OPTIONS": JAVA_OPTIONS,
    "PYSPARK_SUBMIT_ARGS": " ".join(
        (
            "--conf spark.sql.codegen.wholeStage=false",
            "--conf spark.sql.codegen.factoryMode=NO_CODEGEN",
            "pyspark-shell",
        )
    ),
}
"""The environment of a program that starts Spark itself, with all other settings its own."""


@contextmanager
def started(place: Path) -> Generator[SparkSession]:
    """Start a session for any lake: it has the lake's catalog of none of them."""
    import lakeward as lw
    from lakeward.spark import session

    with lw.open(place / "lake") as lake:
        found = session(
            lake,
            master="local[2]",
            **{
                **CONF,
                "spark.sql.warehouse.dir": str(place / "warehouse"),
                "spark.local.dir": str(place / "local"),
            },
        )
        yield found
        found.stop()
