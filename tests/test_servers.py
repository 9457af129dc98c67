"""The PostgreSQL servers of the tests start on a machine that never ran them, several at once."""

from __future__ import annotations

import multiprocessing
import os
import pwd
import re
import subprocess
import sys

import psycopg
import pytest

from tests.support.postgres import Postgres
from tests.support.pythons import ROOT

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


def start_one() -> None:
    with Postgres() as server, psycopg.connect(server.url("postgres")) as connection:
        found = connection.execute("SELECT 1").fetchone()
    os._exit(0 if found == (1,) else 1)


def test_servers_start_at_the_same_time_and_create_no_user() -> None:
    users = pwd.getpwall()
    context = multiprocessing.get_context("spawn")
    started = [context.Process(target=start_one) for _ in range(3)]

    for process in started:
        process.start()
    for process in started:
        process.join(120)

    assert [process.exitcode for process in started] == [0, 0, 0]
    assert pwd.getpwall() == users


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_server_that_does_not_start_ends_the_run_with_the_reason(workers: str) -> None:
    options = ["-q", "-n", workers, "-m", "postgres", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "tests/behaviour/append/test_append_inputs.py"],
        cwd=ROOT,
        env=os.environ | {"LC_ALL": "no_such_locale"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode != 0
    assert "invalid locale" in ran.stdout
    assert "PostgreSQL does not start; the error above says why" in ran.stdout
    assert re.search(r"\b[12] errors?\b", ran.stdout), ran.stdout[-300:]
