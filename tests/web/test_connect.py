"""`lw.connect`: a lake read through its service is the lake."""

from __future__ import annotations

import pytest

import lakeward as lw
from lakeward.errors import InvalidInput, StoreUnavailable, TableNotFound, VersionNotFound
from lakeward.integrations.remote import RemoteLake
from lakeward.model.records import to_json
from tests.support.service import Service


@pytest.fixture
def remote(shared: Service) -> RemoteLake:
    """The same lake, by HTTP."""
    return lw.connect(shared.url, token=shared.lake.create_token().secret)


def test_tables_and_their_rows_are_those_of_the_lake(shared: Service, remote: RemoteLake) -> None:
    assert [t.name for t in remote.tables()] == [t.name for t in shared.lake.tables()]
    for own in shared.lake.tables():
        there = remote.table(own.name)
        assert (there.version, there.format) == (own.version, own.format)
        assert there.schema == own.to_arrow().schema
        assert there.to_arrow() == own.to_arrow()
        assert there.count() == own.count()
        for version in range(own.version + 1):
            past = own.at(version=version)
            assert there.at(version=version).to_arrow() == past.to_arrow()
            assert there.at(timestamp=past.timestamp).version == version
            assert [f.path for f in there.at(version=version).files()] == [
                f.path for f in past.files()
            ]
        history = to_json(own.history())
        assert [v.transaction_id for v in there.history()] == [v["transaction_id"] for v in history]
        assert [s.since for s in there.schemas()] == [s["since"] for s in to_json(own.schemas())]


def test_conditions_columns_and_frames(shared: Service, remote: RemoteLake) -> None:
    own, there = shared.lake.table("sales.orders"), remote.table("sales.orders")
    wanted = {"where": "amount > 2 and region = 'us'", "columns": ["id", "amount"]}

    assert there.to_arrow(**wanted) == own.to_arrow(**wanted)  # type: ignore[arg-type]
    assert there.count("region = 'us'") == own.count("region = 'us'") == 2
    assert there.to_pandas().equals(own.to_pandas())
    assert there.to_polars().equals(own.to_polars())
    assert there.diff(1, 2).rows_added == to_json(own.diff(1, 2))["rows_added"] == 2
    assert there.health().score == own.health().score


def test_errors_are_those_of_the_lake(shared: Service, remote: RemoteLake) -> None:
    with pytest.raises(TableNotFound) as missing:
        remote.table("sales.none")
    assert missing.value.table == "sales.none"
    with pytest.raises(VersionNotFound):
        remote.table("sales.orders").at(version=99)
    with pytest.raises(InvalidInput):
        remote.table("sales.orders").to_arrow(where="none = 1")
    with pytest.raises(lw.errors.LakewardError, match="valid token"):
        lw.connect(shared.url, token="lkw_none").tables()
    with pytest.raises(StoreUnavailable, match="does not answer"):
        lw.connect("http://127.0.0.1:9").tables()
    with pytest.raises(InvalidInput):
        lw.connect("./lake")
