"""An Airflow in a directory of its own, for tests: its database, its DAGs, and its processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.servers import free_port

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "airflow"
BIN = Path(sys.executable).parent
PATIENCE_SECONDS = 300


@dataclass(frozen=True)
class Airflow:
    """An Airflow that is set up.

    Attributes:
        place: Everything is below it.
        env: The environment of its processes.
    """

    place: Path
    env: Mapping[str, str]

    @classmethod
    def made(cls, place: Path, *, dags: Mapping[str, str]) -> Airflow:
        """Set up an Airflow with the example DAGs and more, and a lake in `place` / `lake`."""
        connections = {
            "LAKEWARD_DEFAULT": {"lake": str(place / "lake")},
            "SECOND": {"lake": str(place / "lake")},
            "NOWHERE": {"lake": "postgresql://nobody@127.0.0.1:1/nothing"},
        }
        folder = place / "dags"
        folder.mkdir()
        shutil.copy(EXAMPLES / "lake_dags.py", folder)
        for name, text in dags.items():
            (folder / name).write_text(text)
        port = free_port()
        env = {
            **os.environ,
            # `airflow standalone` looks for its own program there.
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "AIRFLOW_HOME": str(place / "home"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(folder),
            "AIRFLOW__CORE__PARALLELISM": "2",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
            "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
            "LAKEWARD_CACHE": str(ROOT / ".jars"),
            "SHOP_PIPELINE": str(place / "pipelines" / "shop.py"),
            "KILL_FLAG": str(place / "killed-"),
            **{
                f"AIRFLOW_CONN_{name}": json.dumps({"conn_type": "lakeward", "extra": extra})
                for name, extra in connections.items()
            },
        }
        found = cls(place, env)
        found.program("airflow", "db", "migrate")
        return found

    @property
    def lake(self) -> Path:
        return self.place / "lake"

    @property
    def dags(self) -> Path:
        return self.place / "dags"

    def program(self, *words: str) -> str:
        """What a program of the environment prints."""
        command = [str(BIN / words[0]), *words[1:]]
        done = subprocess.run(
            command, env=dict(self.env), capture_output=True, text=True, check=False, timeout=600
        )
        if done.returncode != 0:
            print(done.stdout[-4000:], done.stderr[-4000:])
            raise subprocess.CalledProcessError(done.returncode, command)
        return done.stdout

    def python(self, text: str, *words: str) -> str:
        """What a program in Python prints."""
        return self.program("python", "-c", text, *words)


class Running:
    """An Airflow whose scheduler, triggerer, DAG processor and API server run."""

    def __init__(self, home: Airflow, log: Path, process: subprocess.Popen[bytes]) -> None:
        self._home = home
        self._log = log
        self._process = process

    def trigger(self, dag: str) -> None:
        """Start a run of a DAG."""
        self._home.program("airflow", "dags", "trigger", dag)

    def was_triggered(self, dag: str) -> bool:
        """Whether an event of an asset has started a DAG."""
        return any(run["run_id"].startswith("asset_triggered__") for run in self.runs(dag))

    def runs(self, dag: str) -> list[dict[str, Any]]:
        """The runs of a DAG, newest first."""
        text = self._home.program("airflow", "dags", "list-runs", dag, "--output", "json")
        for start in re.finditer(r"^\[", text, re.MULTILINE):
            # Airflow prints warnings, too, and their lines may begin like a list.
            with suppress(json.JSONDecodeError):
                found: list[dict[str, Any]] = json.JSONDecoder().raw_decode(text, start.start())[0]
                return found
        return []

    def succeeded(self, dag: str) -> bool:
        """Whether the newest run of a DAG succeeded; fails if it failed."""
        states = [run["state"] for run in self.runs(dag)]
        assert "failed" not in states, states
        return states[:1] == ["success"]

    def wait_until(self, is_so: Callable[[], object], what: str) -> None:
        """Wait for something, and fail with the log of Airflow if it does not come."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            said = self._log.read_text()[-6000:]
            assert self._process.poll() is None, f"Airflow ended:\n{said}"
            assert time.monotonic() < deadline, f"{what} did not come:\n{said}"
            time.sleep(1)


@contextmanager
def started(home: Airflow, dags: Sequence[str]) -> Iterator[Running]:
    """Run all processes of Airflow in the block, with these DAGs active and all others paused."""
    home.program("airflow", "dags", "reserialize")
    for dag in dags:
        home.program("airflow", "dags", "unpause", dag)
    log = home.place / "standalone.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(BIN / "airflow"), "standalone"],
            env=dict(home.env),
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield Running(home, log, process)
        finally:
            # The processes are a group of their own, which is theirs alone.
            os.killpg(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
