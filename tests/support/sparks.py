"""Spark for tests: rows are few and sessions short, so nothing is worth compiling well."""

from __future__ import annotations

from typing import Final

JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Compiled code that is there at once rather than fast; two cores have no time for more."""

CONF: Final[dict[str, str]] = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.showConsoleProgress": "false",
}
