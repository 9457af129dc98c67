"""Plans of DataFusion as bytes: behind a flag, with a record of the codecs that were installed."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pyarrow as pa
import pytest
from datafusion import SessionContext

import lakeward as lw
from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.integrations.datafusion import register
from lakeward.integrations.plans import FLAG, plan_codecs


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", "id int64, day int32", partition_by=["day"])
        for day in (1, 2):
            table.append([{"id": 10 * day + n, "day": day} for n in range(3)])
        lake.create("v", "id int64, v double").append([{"id": 1, "v": float("nan")}])
        yield lake


def test_a_plan_runs_in_another_context_at_its_versions(lake: lw.Lake) -> None:
    here, there = plan_codecs(enabled=True), plan_codecs(enabled=True)
    register(here.context, "t", lake.table("t"))
    query = "SELECT day, sum(id) AS n FROM t WHERE id > 10 GROUP BY day ORDER BY day"
    plan = here.encode(here.context.sql(query))
    lake.table("t").append([{"id": 99, "day": 1}])
    found = pa.table(there.decode(plan)).to_pylist()
    assert found == [{"day": 1, "n": 23}, {"day": 2, "n": 63}]
    assert found == pa.table(here.context.sql(query)).to_pylist()


def test_what_was_installed_is_recorded() -> None:
    other = SessionContext()
    done = plan_codecs(SessionContext(), [other, object()], enabled=True)
    assert done.logical == (other.__datafusion_codec_id__,)
    assert done.physical == done.logical
    assert done.skipped == ("object",)
    assert done.to_json()["reason"] == "enabled= is on"
    assert done.context.logical_extension_codec_ids() == list(done.logical)


def test_without_the_flag_nothing_is_installed_or_encoded(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FLAG, raising=False)
    context = SessionContext()
    done = plan_codecs(context, [SessionContext()])
    assert (done.enabled, done.logical) == (False, ())
    assert done.context is context
    assert context.logical_extension_codec_ids() == []
    register(context, "t", lake.table("t"))
    with pytest.raises(UnsupportedFeature, match=FLAG):
        done.encode(context.sql("SELECT * FROM t"))
    with pytest.raises(UnsupportedFeature, match=FLAG):
        done.decode(b"")
    monkeypatch.setenv(FLAG, "1")
    assert plan_codecs(context).enabled


def test_a_table_of_this_process_and_bytes_that_are_no_plan_are_refused(lake: lw.Lake) -> None:
    done = plan_codecs(enabled=True)
    assert register(done.context, "v", lake.table("v")).way == "dataset"
    with pytest.raises(UnsupportedFeature, match="No codec"):
        done.encode(done.context.sql("SELECT * FROM v"))
    with pytest.raises(InvalidInput, match="no plan"):
        done.decode(b"nonsense")
