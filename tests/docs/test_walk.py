"""ARCHITECTURE.md shows the way of the main paths through the code, as `scripts/walk` traces it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT

_PAGE = ROOT / "ARCHITECTURE.md"


@pytest.mark.parametrize("path", ["append", "both", "epoch", "read"])
def test_the_architecture_shows_the_modules_of_a_path(path: str) -> None:
    found = re.search(rf"<!-- walk {path} -->\n```text\n(.*?)```\n", _PAGE.read_text(), re.DOTALL)
    assert found is not None
    traced = subprocess.run(
        [sys.executable, ROOT / "scripts/walk", path], check=True, capture_output=True, text=True
    )
    # By their names: threads may enter modules in another order.
    assert _modules(traced.stdout) == _modules(found[1]), "run `scripts/walk --write`"


def _modules(text: str) -> set[str]:
    return {
        f"{folder.strip()}/{leaf}"
        for folder, _, leaves in (line.partition(": ") for line in text.splitlines()[1:])
        for leaf in leaves.split(", ")
    }
