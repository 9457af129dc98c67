"""A standalone Spark cluster on loopback, from the installed pyspark: a master and two workers."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.support.servers import free_port
from tests.support.sparks import JAVA_OPTIONS

_PATIENCE_SECONDS: Final = 90.0


class Cluster:
    """Started by `with`, and gone after it."""

    def __init__(self, directory: Path, *, workers: int = 2) -> None:
        self._directory = directory
        self._workers = workers
        self._port = free_port()
        self._stack = ExitStack()

    @property
    def master(self) -> str:
        """What Spark calls it."""
        return f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        port, web = str(self._port), str(free_port())
        self._start("master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", web)
        self._wait("master.Master", "I have been elected leader")
        for number in range(self._workers):
            self._start(
                "worker.Worker",
                *("--host", "127.0.0.1", "--webui-port", str(free_port())),
                *("--cores", "1", "--memory", "1g"),
                *("--work-dir", str(self._directory / f"work-{number}"), self.master),
                log=f"worker-{number}",
            )
        for number in range(self._workers):
            self._wait(f"worker-{number}", "Successfully registered with master")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _start(self, what: str, *arguments: str, log: str | None = None) -> None:
        import pyspark

        from lakeward.engines.spark.java import java_home

        home = Path(pyspark.__file__).parent
        output = (self._directory / f"{log or what}.log").open("wb")
        self._stack.callback(output.close)
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *arguments],
            env={
                **os.environ,
                "JAVA_HOME": java_home(),
                "SPARK_HOME": str(home),
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        self._stack.callback(_end, process)

    def _wait(self, log: str, text: str) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            if text in (self._directory / f"{log}.log").read_text(errors="replace"):
                return
            time.sleep(0.2)
        told = (self._directory / f"{log}.log").read_text(errors="replace")
        message = f"{log} did not say {text!r}: {told[-2000:]}"
        raise AssertionError(message)


def _end(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
