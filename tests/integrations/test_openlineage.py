"""Events of OpenLineage: valid by the published schemas, complete, the same when sent again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from openlineage.client.serde import Serde
from referencing import Registry, Resource

import lakeward as lw
from lakeward.errors import ConstraintViolation
from lakeward.integrations.openlineage import Sender, _without_secrets, send_commits

SCHEMAS = Path(__file__).parents[1] / "support" / "openlineage"


class Collected:
    """A client that keeps what it is given, as JSON."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def emit(self, event: Any) -> None:
        self.events.append(json.loads(Serde.to_json(event)))


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[lw.Lake]:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("raw", {"id": "int64", "amount": "double"})
        lake.create("gold", {"id": "int64", "total": "double"}, format="iceberg")
        yield lake


def checked(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events, each valid by the schemas of the event and of every facet in it."""
    known = [json.loads(path.read_text()) for path in SCHEMAS.glob("*.json")]
    registry: Any = Registry().with_resources(
        [(one["$id"], Resource.from_contents(one)) for one in known]
    )

    def check(value: Any, reference: str) -> None:
        schema = {"$schema": known[0]["$schema"], "$ref": reference}
        validator = jsonschema.Draft202012Validator
        validator(schema, registry=registry, format_checker=validator.FORMAT_CHECKER).validate(
            value
        )

    for event in events:
        check(event, event["schemaURL"])
        holders = [event["run"], event["job"], *event["inputs"], *event["outputs"]]
        facets = [
            facet
            for holder in holders
            for kind in ("facets", "inputFacets", "outputFacets")
            for facet in holder.get(kind, {}).values()
        ]
        assert facets
        for facet in facets:
            check(facet, facet["_schemaURL"])
    return events


def sent(lake: lw.Lake, client: Collected) -> list[dict[str, Any]]:
    assert lake.wait_for_listeners()
    return checked(client.events)


def test_a_commit_is_an_event_with_schema_version_columns_and_counts(opened: lw.Lake) -> None:
    client = Collected()
    opened.table("raw").append([{"id": 1, "amount": 2.5}])
    send_commits(opened, client=client, namespace="shop")
    with opened.transaction() as tx:
        tx.sql("INSERT INTO gold SELECT id, sum(amount) FROM raw WHERE amount > 1 GROUP BY id")
    (event,) = sent(opened, client)
    assert (event["eventType"], event["job"]["name"]) == ("COMPLETE", "transaction.gold")
    (source,), (target,) = event["inputs"], event["outputs"]
    assert (source["namespace"], source["name"]) == ("shop", "raw")
    assert source["facets"]["version"]["datasetVersion"] == "1"
    assert [f["name"] for f in target["facets"]["schema"]["fields"]] == ["id", "total"]
    assert target["facets"]["version"]["datasetVersion"] == "1"
    assert target["outputFacets"]["outputStatistics"]["rowCount"] == 1
    columns = {
        name: {(i["field"], i["transformations"][0]["type"]) for i in one["inputFields"]}
        for name, one in target["facets"]["columnLineage"]["fields"].items()
    }
    rows = {("id", "INDIRECT"), ("amount", "INDIRECT")}
    assert columns == {"id": {("id", "DIRECT"), *rows}, "total": {("amount", "DIRECT"), *rows}}
    del target["facets"]["columnLineage"]["fields"]["id"]["inputFields"]
    with pytest.raises(jsonschema.ValidationError, match="inputFields"):
        checked([event])


def test_a_source_that_was_dropped_since_is_sent_by_its_name(opened: lw.Lake) -> None:
    client = Collected()
    with opened.transaction() as tx:
        tx.sql("CREATE TABLE tmp AS SELECT id FROM raw")
    heard: list[Any] = []
    opened.on("commit", heard.append)
    with opened.transaction() as tx:
        tx.sql("CREATE TABLE last AS SELECT id FROM tmp")
    assert opened.wait_for_listeners()
    opened.drop("tmp")
    Sender(opened, client, "shop").commit(heard[0])
    (event,) = sent(opened, client)
    assert [source["name"] for source in event["inputs"]] == ["tmp"]


def test_a_table_that_is_created_with_rows_has_their_statistics(opened: lw.Lake) -> None:
    client = Collected()
    opened.table("raw").append([{"id": 1, "amount": 2.5}, {"id": 2, "amount": 3.0}])
    send_commits(opened, client=client)
    with opened.transaction() as tx:
        tx.sql("CREATE TABLE made AS SELECT id FROM raw")
    opened.clone("raw", "cloned")
    for event in sent(opened, client):
        (target,) = event["outputs"]
        written = target["outputFacets"]["outputStatistics"]
        assert (written["rowCount"], written["fileCount"]) == (2, 1)
        assert written["size"] > 0


def test_tables_that_were_dropped_renamed_or_vacuumed_meanwhile_stop_no_event(
    opened: lw.Lake,
) -> None:
    class Waiting(Collected):
        go = threading.Event()

        def emit(self, event: Any) -> None:
            assert self.go.wait(60)
            super().emit(event)

    client = Waiting()
    send_commits(opened, client=client)
    opened.table("raw").append([{"id": 1, "amount": 2.5}])
    with opened.transaction() as tx:
        tx.sql("INSERT INTO gold SELECT id, amount FROM raw")
        tx.append("raw", [{"id": 2, "amount": 2.5}])
    opened.table("raw").overwrite([{"id": 3, "amount": 2.5}])
    opened.vacuum(retention=0, force=True)
    opened.drop("gold")
    opened.rename("raw", "gold")
    client.go.set()

    names = [[o["name"] for o in e["outputs"]] for e in sent(opened, client)]
    assert names == [["raw"], ["gold", "raw"], ["raw"], ["gold"]]
    gold = client.events[1]["outputs"][0]
    assert not gold.get("outputFacets"), "the table that has the name now is another one"


def test_a_failed_send_is_repeated_with_the_same_run(opened: lw.Lake) -> None:
    class Broken(Collected):
        def emit(self, event: Any) -> None:
            super().emit(event)
            if len(self.events) == 1:
                message = "no network"
                raise OSError(message)

    client = Broken()
    send_commits(opened, client=client)
    opened.table("raw").append([{"id": 1, "amount": 2.5}])
    first, second = sent(opened, client)
    assert first == second


def test_a_failure_tells_the_kind_of_error_and_nothing_of_rows(opened: lw.Lake) -> None:
    client = Collected()
    send_commits(opened, client=client, name=None)
    opened.create("checked", "name string", policy={"constraints": {"short": "length(name) < 3"}})
    client.events.clear()
    with pytest.raises(ConstraintViolation):
        opened.table("checked").append([{"name": "secret-value"}], message="secret-message")
    (event,) = sent(opened, client)
    assert event["eventType"] == "FAIL"
    assert event["run"]["facets"]["errorMessage"]["message"] == "ConstraintViolation"
    assert "secret" not in json.dumps(event)


def test_events_have_no_texts_messages_or_credentials(opened: lw.Lake) -> None:
    client = Collected()
    send_commits(opened, client=client)
    with opened.transaction(message="secret-message") as tx:
        tx.sql("INSERT INTO gold SELECT id, amount FROM raw WHERE CAST(id AS TEXT) = 'secret-text'")
        tx.sources("raw", files=["s3://user:secret-key@bucket/in?token=secret-token"])
        tx.append("raw", [{"id": 1, "amount": 2.5}])
    (event,) = sent(opened, client)
    assert {d["name"] for d in event["inputs"]} == {"raw", "s3://bucket/in"}
    assert "secret" not in json.dumps(event)
    assert _without_secrets("/plain/path?x") == "/plain/path?x"


def test_measured_expectations_are_assertions(opened: lw.Lake) -> None:
    client = Collected()
    sender = send_commits(opened, client=client)
    sender.quality(opened.table("raw").quality(expectations={"x": {"measure": "rows", "min": 1}}))
    (event,) = sent(opened, client)
    (found,) = event["inputs"][0]["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert (found["assertion"], found["success"], found["name"]) == ("rows", False, "x")
