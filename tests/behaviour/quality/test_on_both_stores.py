"""What observes a lake asks the log in SQL, which both databases must understand."""

from __future__ import annotations

import pytest

import lakeward as lw


@pytest.mark.formats("delta")
def test_quality_statistics_service_levels_and_lineage_on_every_store(lake: lw.Lake) -> None:
    table = lake.create("t", {"id": "int64", "name": "string"})
    lake.set_policy("t", {"expectations": {"few": {"measure": "rows", "max": 3}}})
    lake.set_service_level("x", {"objective": "throughput", "table": "t", "min": 0.001})
    lake.set_service_level("x", {"objective": "throughput", "table": "t", "min": 10**12})
    table.append([{"id": n, "name": str(n)} for n in range(3)])
    assert lake.quality()[0].passed
    done = table.append([{"id": n, "name": str(n)} for n in range(2, 5)])
    (measured,) = lake.quality()
    assert [(m.version, m.value, m.passed) for m in measured.series["few"]] == [
        (1, 3, True),
        (2, 6, False),
    ]
    assert table.statistics(distinct=["id"]).columns["id"].distinct == 5
    assert table.statistics(distinct=["id"]).columns["id"].maximum == 4
    assert [size.rows for size in table.growth()] == [0, 3, 6]
    assert [(one.name, one.attained) for one in lake.sla()] == [("x", 0.0)]
    lake.set_service_level("x", None)
    assert lake.sla() == []
    lake.set_policy("t", {"audit_reads": True})
    lake.set_service_level("q", {"objective": "query_latency", "table": "t", "max": "1 hour"})
    table.to_arrow()
    assert [(one.name, one.good) for one in lake.sla()] == [("q", 1)]
    assert [(e.action, e.detail) for e in lake.audit(limit=1)] == [("READ", {"how": "rows"})]
    assert lake.verify_audit().is_whole
    assert table.affected("id") == []
    (edge,) = lake.lineage(transaction=done.transaction_id).edges
    assert (edge.source.name, edge.version) == ("unknown", 2)
