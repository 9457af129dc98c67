"""Another process that drives the Spark of the tests: it can be killed, and Spark goes on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Gateway:
    """How a process reaches a running Spark."""

    port: int
    secret: str

    @classmethod
    def of(cls, spark: Any) -> Gateway:
        """That of a session."""
        found = spark.sparkContext._gateway.gateway_parameters
        return cls(found.port, found.auth_token)

    def session(self) -> Any:
        """The session, in a process that has no Spark of its own."""
        os.environ["PYSPARK_GATEWAY_PORT"] = str(self.port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = self.secret
        from pyspark import SparkConf, SparkContext, java_gateway
        from pyspark.sql import SparkSession

        gateway: Any = java_gateway.launch_gateway()  # type: ignore[no-untyped-call]
        java: Any = gateway.jvm
        own = java.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get()
        context = java.JavaSparkContext(own.sparkContext())
        conf = SparkConf(_jvm=java, _jconf=context.getConf())
        return SparkSession(SparkContext(gateway=gateway, jsc=context, conf=conf), own)
