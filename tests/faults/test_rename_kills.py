"""Renames whose process is killed: the table has one of its names, whole, and can be written."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection

import pytest

import lakeward as lw
from lakeward.model.steps import RENAME_STEPS
from tests.support import processes
from tests.support.target import LakeTarget

pytestmark = [pytest.mark.slow, pytest.mark.crash]


def test_a_killed_rename_leaves_one_name(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake]
) -> None:
    lake = make_lake()
    for form in ("delta", "iceberg"):
        lake.create(form, {"id": "int64"}, format=form)
        for number, step in enumerate((*RENAME_STEPS, "publish.started")):
            if step == "publish.started" and form == "iceberg":
                continue
            lake.close()
            worker = processes.start(rename_until_killed, lake_target, form, step)
            worker.finish()
            assert worker.killed, (form, step)

            lake = make_lake()
            is_renamed = step in ("rename.committed", "publish.started")
            name = f"{form}_new" if is_renamed else form
            names = [t.name for t in lake.tables() if t.name.startswith(form)]
            assert names == [name], (form, step)
            with lake.transaction() as tx:
                tx.append(name, [{"id": number}])
            assert lake.table(name).count() == number + 1
            assert lake.doctor().healthy, (form, step)
            if is_renamed:
                lake.rename(name, form)


def rename_until_killed(pipe: Connection, target: LakeTarget, name: str, step: str) -> None:
    """Rename a table, and die at a step of it."""
    lake = target.open()
    processes.kill_myself_at(step, 1)
    lake.rename(name, f"{name}_new")
    pipe.send("not killed")
