"""Text with half of a surrogate pair, which UTF-8 cannot have, is refused before it is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lakeward as lw
from lakeward.errors import LakewardError
from tests.behaviour.lakes import unchanged

_HALF = "x\ud800"


def _altered(change: Callable[[lw.Alter], object]) -> Callable[[lw.Lake], object]:
    def alter(lake: lw.Lake) -> None:
        with lake.transaction() as tx:
            change(tx.alter("t"))

    return alter


def _with_message(lake: lw.Lake) -> None:
    with lake.transaction(message=_HALF) as tx:
        tx.append("t", [{"id": 2}])


def _with_properties(lake: lw.Lake) -> None:
    with lake.transaction(properties={"job": _HALF}) as tx:
        tx.append("t", [{"id": 2}])


_CASES: dict[str, Callable[[lw.Lake], object]] = {
    "comment": lambda lake: lake.create("u", "id int64", comment=_HALF),
    "property": lambda lake: lake.create("u", "id int64", properties={"k": _HALF}),
    "name of a property": lambda lake: lake.create("u", "id int64", properties={_HALF: "k"}),
    "name of a column": lambda lake: lake.create("u", {_HALF: "int64"}),
    "name of a table": lambda lake: lake.create(_HALF, "id int64"),
    "iceberg": lambda lake: lake.create("u", "id int64", comment=_HALF, format="iceberg"),
    "constraint": lambda lake: lake.create("u", "id int64", constraints={_HALF: "id > 0"}),
    "message": _with_message,
    "properties of a commit": _with_properties,
    "tag": lambda lake: lake.tag(_HALF),
    "message of a tag": lambda lake: lake.tag("one", message=_HALF),
    "policy": lambda lake: lake.set_policy("t", {"expectations": {_HALF: "id > 0"}}),
    "message of a policy": lambda lake: lake.set_policy("t", {"retention": "90d"}, message=_HALF),
    "altered comment": _altered(lambda alter: alter.set_comment(None, _HALF)),
    "altered property": _altered(lambda alter: alter.set_property("k", _HALF)),
    "added column": _altered(lambda alter: alter.add_column(_HALF, "int64")),
    "comment of a column": _altered(lambda alter: alter.add_column("n", "int64", comment=_HALF)),
    "renamed column": _altered(lambda alter: alter.rename_column("id", _HALF)),
}


@pytest.mark.before_the_store
@pytest.mark.formats("delta")
def test_text_that_cannot_be_encoded_is_refused_and_nothing_is_written(lake: lw.Lake) -> None:
    lake.create("t", {"id": "int64"})
    for case in _CASES.values():
        with unchanged(lake), pytest.raises(LakewardError, match=r"surrogate|is not a"):
            case(lake)
