"""Every safeguard that can be removed is where its entry says it is, and what is left could run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.safeguard import Safeguard
from tests.faults.safeguards import SAFEGUARDS, SOURCE, apply

_safeguards = pytest.mark.parametrize("safeguard", SAFEGUARDS, ids=lambda s: s.what)


@_safeguards
def test_its_edits_fit_the_source(safeguard: Safeguard) -> None:
    for edit in safeguard.edits:
        assert edit.old in (SOURCE / edit.file).read_text(), edit.file
        assert edit.new != edit.old


@_safeguards
def test_without_it_no_name_is_unknown(safeguard: Safeguard, tmp_path: Path) -> None:
    """A test that goes red for a `NameError` has not noticed that a safeguard is gone."""
    for edit in safeguard.edits:
        copy = tmp_path / edit.file
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / edit.file, copy)
        apply(edit, copy)

    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821,F823", "-q"]
    found = subprocess.run([*command, tmp_path], capture_output=True, text=True)

    assert found.returncode == 0, found.stdout
