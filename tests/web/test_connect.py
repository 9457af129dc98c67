"""`lw.connect`: a lake read through its service is the lake."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

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
    assert there.to_arrow(columns=[]).num_rows == own.to_arrow(columns=[]).num_rows == 5
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


@pytest.mark.parametrize("token", ["lkw_secret\n", "lkw_секрет", "lkw secret", ""])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(InvalidInput, match="`token`") as refused:
        lw.connect("http://127.0.0.1:9", token=token).tables()
    assert not token or token.strip() not in str(refused.value)


def test_a_cut_has_the_versions_and_the_tables_of_its_time(own: Service) -> None:
    lake = own.lake
    remote = lw.connect(own.url, token=lake.create_token().secret)
    lake.tag("close")
    with lake.snapshot(at="close") as here, remote.snapshot(at="close") as there:
        assert dict(there.versions) == dict(here.versions)
        assert (there.tag, there.moment, there.position) == ("close", here.moment, here.position)
        assert {t.name: t.to_arrow() for t in there} == {t.name: t.to_arrow() for t in here}
    lake.drop("gold.secret_plans")
    lake.rename("sales.totals", "gold.secret_plans")

    cut = remote.snapshot(at="close")
    assert cut.names_now["sales.totals"] == "gold.secret_plans"
    assert cut.table("sales.totals").count() == 1
    with pytest.raises(TableNotFound, match="another has its name"):
        cut.table("gold.secret_plans").to_arrow()
    with pytest.raises(TableNotFound, match="had none of this name"):
        cut.table("sales.none")


def test_queries_take_values_of_every_type(shared: Service, remote: RemoteLake) -> None:
    moment = datetime(2026, 2, 28, 1, 2, 3, tzinfo=UTC)
    asked = "SELECT ? AS day, ? AS at, ? AS price, id FROM sales.orders WHERE id IN (?)"
    params = [date(2026, 2, 28), moment, Decimal("1.50"), [2, 9]]

    found = remote.sql(asked, params)
    assert found.to_arrow() == shared.lake.sql(asked, params).to_arrow()
    assert found.to_pylist()[0]["day"] == params[0]
    with pytest.raises(TableNotFound):
        remote.sql("SELECT * FROM sales.none")
    with pytest.raises(InvalidInput, match="no value for :ids"):
        remote.sql("SELECT * FROM sales.orders WHERE id IN (:ids)", {})
    reader = remote.sql("SELECT * FROM sales.orders").to_reader()
    assert reader.read_all().num_rows == 5


def test_records_have_the_types_that_a_lake_gives_them(shared: Service, remote: RemoteLake) -> None:
    own, there = shared.lake.table("sales.orders"), remote.table("sales.orders")

    assert there.history() == own.history()
    assert there.history()[0].timestamp == own.history()[0].timestamp
    assert there.history()[0].changed == own.history()[0].changed == (2, 0, 0)
    assert there.diff(1, 2).before == own.diff(1, 2).before
    assert there.definition == own.definition
    assert (there.constraints, there.partition_by) == (own.constraints, own.partition_by)
    assert [(f.path, f.partition) for f in there.files()] == [
        (f.path, f.partition) for f in own.files()
    ]
    first = remote.transactions(limit=1)[0]
    assert first.state is shared.lake.transaction_record(first.transaction_id).state
    assert remote.jobs(kind="vacuum") == []
    changed = there.changes(since=1, where="id > :least", params={"least": 2}).read_all()
    assert changed == own.changes(since=1, where="id > 2").read_all()
