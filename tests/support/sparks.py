"""Spark for tests: rows are few and sessions short, so nothing is worth compiling well."""

from __future__ import annotations

from typing import Final

JAVA_OPTIONS: Final = " ".join(
    (
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        # Spark loads 27,000 classes. Their verification, and a full collection each time that the
        # space for them grows, take a tenth of the time.
        "-XX:MetaspaceSize=320m",
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:-BytecodeVerificationRemote",
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
