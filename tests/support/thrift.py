"""Spark's Thrift server, started by settings alone, and beeline, a JDBC client."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyspark

from lakeward.engines.spark.java import java_home
from tests.support.servers import Server, free_port, is_listening
from tests.support.sparks import CONF

_PATIENCE_SECONDS: Final = 300.0
_HOME: Final = Path(pyspark.__file__).parent
_PROMPT: Final = re.compile(r"^(0: jdbc:\S+> )+")
_SERVER: Final = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"


class ThriftServer(Server):
    """A server with the settings of a lake in a `spark-defaults.conf`."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__("thrift")
        self._port = free_port()
        # It needs no metastore of Hive's.
        both = {**settings, **CONF, "spark.sql.catalogImplementation": "in-memory"}
        lines = "".join(f"{key} {value}\n" for key, value in both.items())
        (self._directory / "spark-defaults.conf").write_text(lines)
        own = {
            "JAVA_HOME": java_home(),
            "SPARK_HOME": str(_HOME),
            "SPARK_CONF_DIR": str(self._directory),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "HIVE_SERVER2_THRIFT_PORT": str(self._port),
            "HIVE_SERVER2_THRIFT_BIND_HOST": "127.0.0.1",
        }
        variables = [f"{key}={value}" for key, value in own.items()]
        submit = str(_HOME / "bin" / "spark-submit")
        process = self._launch(["env", *variables, submit, "--class", _SERVER], mortal=True)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not is_listening(self._port):
            if process.poll() is not None or time.monotonic() > deadline:
                log = (self._directory / "log").read_text()
                self.close()
                message = f"The Thrift server does not answer: {log[-2000:]}"
                raise AssertionError(message)
            time.sleep(0.1)

    def beeline(self, *statements: str) -> tuple[list[str], str]:
        """The lines that beeline prints for statements, and what it says on standard error."""
        done = subprocess.run(
            [
                *(str(_HOME / "bin" / "beeline"), "-u", f"jdbc:hive2://127.0.0.1:{self._port}/"),
                *("--outputformat=csv2", "--showHeader=false", "--silent=true", "--force=true"),
                *(part for statement in statements for part in ("-e", statement)),
            ],
            env={**os.environ, "JAVA_HOME": java_home(), "SPARK_HOME": str(_HOME)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        lines = [_PROMPT.sub("", line) for line in done.stdout.splitlines()]
        return [line for line in lines if line.strip()], done.stderr
