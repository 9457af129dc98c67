"""The commands of maintenance: their plans, exit codes and records, and maintenance in a loop."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import lakeward as lw
from lakeward.cli.commands import optimizing
from lakeward.cli.output.base import Advance
from lakeward.cli.output.text_form import TextOutput
from lakeward.errors import StoreError
from lakeward.maintain import expire
from lakeward.maintain.optimize import planning
from lakeward.maintain.vacuum import plan
from tests.cli.console import ask, run
from tests.support.s3 import on_disk


@pytest.fixture
def worn(tmp_path: Path) -> Path:
    """A lake with a table of six small files in two partitions."""
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", {"n": "int64", "p": "string"}, partition_by=["p"])
        for n in range(3):
            table.append([{"n": n, "p": p} for p in "ab"])
    return tmp_path / "lake"


def test_exit_codes_of_maintenance(worn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "_UNIT_GROUPS", 1)
    planned = ask("optimize", "t", "--dry-run", "--lake", worn)
    assert planned["state"] == "planned"
    assert all(u["what"] and u["why"] and u["gain"] for u in planned["plan"]["units"])
    assert all(u["reads"] and u["writes"] for u in planned["plan"]["units"])

    assert run("optimize", "t", "--budget", "0s", "--lake", worn).code == 20
    assert run("optimize", "t", "--lake", worn).code == 0
    assert run("optimize", "t", "--lake", worn).code == 19
    assert run("vacuum", "t", "--retention", "1d", "--lake", worn).code == 2
    assert run("vacuum", "t", "--retention", "0s", "--force", "--lake", worn).code == 0
    assert run("vacuum", "t", "--retention", "0s", "--force", "--lake", worn).code == 19
    assert run("checkpoint", "t", "--lake", worn).code == 0
    assert run("expire", "t", "--retention", "0s", "--force", "--lake", worn).code == 0
    kinds = {j["kind"] for j in ask("jobs", "--lake", worn)["jobs"]}
    assert kinds >= {"optimize", "vacuum", "checkpoint", "expire"}


def test_every_command_of_maintenance_takes_the_same_options(
    worn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "_UNIT_GROUPS", 1)
    monkeypatch.setattr(plan, "_AT_ONCE", 1)
    monkeypatch.setattr(expire, "_AT_ONCE", 1)
    shown: list[int] = []

    @contextmanager
    def working(_form: TextOutput, _what: str) -> Generator[Advance]:
        yield lambda done, _total: shown.append(done)

    monkeypatch.setattr(TextOutput, "working", working)
    with lw.open(worn) as lake:
        lake.create("u", "n int64").append([{"n": 1}])
    now = ("--retention", "0s", "--force")
    for command in (
        ("optimize", "t"),
        ("checkpoint",),
        ("vacuum", "t", *now),
        ("expire", "t", *now),
    ):
        shown.clear()
        assert ask(*command, "--dry-run", "--lake", worn)["state"] == "planned", command
        assert run(*command, "--budget", "never", "--lake", worn).code == 2, command
        first = run(*command, "--budget", "0s", "--lake", worn).code
        codes = [run(*command, "--budget", "30m", "--lake", worn).code for _ in range(2)]
        assert (first, codes) == (20, [0, 19]), command
        assert shown[:2] == [1, 1], command


def test_maintain_names_what_failed_and_ends_with_its_code(worn: Path) -> None:
    with lw.open(worn) as lake:
        table = lake.table("t")
        (on_disk(table.location) / table.files()[0].path).unlink()

    answer = run("maintain", "--lake", worn)

    assert answer.code == 8
    assert "optimize of t failed" in answer.out


def test_maintain_in_a_loop_goes_on_after_an_error(
    worn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[float] = []
    maintain = lw.Lake.maintain

    def pause(seconds: float) -> None:
        rounds.append(seconds)
        if len(rounds) == 3:
            raise KeyboardInterrupt

    def unsteady(self: lw.Lake, **given: object) -> object:
        if len(rounds) == 1:
            message = "The store cannot be reached."
            raise StoreError(message)
        return maintain(self, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(optimizing, "_pause", pause)
    monkeypatch.setattr(lw.Lake, "maintain", unsteady)
    answer = run("maintain", "--loop", "--interval", "2s", "--lake", worn)

    assert (rounds, answer.code) == ([2.0] * 3, 130)
    assert run("maintain", "--loop", "--window", "never", "--lake", worn).code == 2
