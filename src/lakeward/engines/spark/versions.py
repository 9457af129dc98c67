"""The versions that work together, by Maven coordinates; the only module that lists them.

Spark 4.1 is the newest that Delta and Iceberg both support. Libraries that Spark itself contains
are excluded: it is undefined which of two copies on the class path is loaded.
"""

from __future__ import annotations

from typing import Final

SPARK: Final = "4.1"
JAVA: Final = (17, 21)
"""The oldest and the newest Java version that Spark and its Hadoop support."""

PACKAGES: Final = (
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.postgresql:postgresql:42.7.7",
    "org.xerial:sqlite-jdbc:3.50.3.0",
)
S3_PACKAGES: Final = (
    "org.apache.hadoop:hadoop-aws:3.4.2",
    "software.amazon.awssdk:s3:2.29.52",
    "software.amazon.awssdk:s3-transfer-manager:2.29.52",
    "software.amazon.awssdk:sts:2.29.52",
)
AZURE_PACKAGES: Final = ("org.apache.hadoop:hadoop-azure:3.4.2",)
GCS_PACKAGES: Final = ("com.google.cloud.bigdataoss:gcs-connector:4.0.4:shaded",)
"""The jar of a classifier, with everything in it; the others need hundreds of further files."""
STORE_PACKAGES: Final = {
    "s3": S3_PACKAGES,
    "s3a": S3_PACKAGES,
    "abfs": AZURE_PACKAGES,
    "abfss": AZURE_PACKAGES,
    "gs": GCS_PACKAGES,
}
"""What a warehouse in an object store needs besides, by the scheme of its address."""
EXCLUDES: Final = (
    "com.fasterxml.jackson.core:*",
    "com.github.luben:*",
    "com.google.code.findbugs:*",
    "commons-logging:*",
    "commons-pool:*",
    "io.airlift:*",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.logging.log4j:*",
    "org.apache.parquet:*",
    "org.checkerframework:*",
    "org.locationtech.jts:*",
    "org.roaringbitmap:*",
    "org.slf4j:*",
    "org.xerial.snappy:*",
    # Everything that Amazon offers, in one jar of 600 MB; the parts needed are named above.
    "software.amazon.awssdk:bundle",
    "software.amazon.awssdk:netty-nio-client",
)
EXTENSIONS: Final = (
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "lakeward.spark.LakeExtensions",
)
LAKE_CATALOG: Final = "lakeward.spark.LakeCatalog"
"""The catalog with all tables of a lake, for reading; its source is in `scala`."""
DELTA_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
ICEBERG_CATALOG: Final = "org.apache.iceberg.spark.SparkCatalog"
JDBC_CATALOG: Final = "org.apache.iceberg.jdbc.JdbcCatalog"
