"""Every safeguard that can be removed is where its entry says it is."""

from __future__ import annotations

import pytest

from tests.faults.safeguards import SAFEGUARDS, SOURCE, Safeguard


@pytest.mark.parametrize("safeguard", SAFEGUARDS, ids=lambda s: s.what)
def test_its_edits_fit_the_source(safeguard: Safeguard) -> None:
    for edit in safeguard.edits:
        assert edit.old in (SOURCE / edit.file).read_text(), edit.file
        assert edit.new != edit.old
