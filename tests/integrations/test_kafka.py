"""Topics into tables: offsets are committed with rows. The broker is librdkafka's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer

import lakeward as lw
from lakeward.errors import InvalidInput, StorageError
from lakeward.integrations.kafka import KafkaSource

SCHEMA = {"id": "int64"}
Send = Callable[[str, Sequence[Any]], None]


@pytest.fixture(scope="module")
def broker() -> tuple[str, Producer]:
    """A broker that speaks Kafka's protocol on a port of this machine."""
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (found,) = producer.list_topics(timeout=30).brokers.values()
    return f"{found.host}:{found.port}", producer


@pytest.fixture
def servers(broker: tuple[str, Producer]) -> str:
    return broker[0]


@pytest.fixture
def send(broker: tuple[str, Producer]) -> Send:
    def one(topic: str, values: Sequence[Any]) -> None:
        for number, value in enumerate(values):
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            broker[1].produce(topic, data, partition=number % 2)
        assert broker[1].flush(30) == 0

    return one


def take(lake: lw.Lake, servers: str, topic: str, **options: Any) -> Any:
    source = KafkaSource(servers, [topic], follow=False, settings={"log_level": 0})
    with lake.sink("t", writer_id="w", schema=SCHEMA) as sink:
        return sink.consume(source, **options)


def ids(lake: lw.Lake) -> list[int]:
    return sorted(lake.table("t").to_arrow()["id"].to_pylist())


def test_messages_are_taken_once_however_often_it_is_run(
    lake: lw.Lake, servers: str, send: Send, store: str, broker: tuple[str, Producer]
) -> None:
    topic, cluster = f"once-{store}", broker[1].list_topics(timeout=30).cluster_id
    send(topic, [{"id": n} for n in range(10)])
    done = take(lake, servers, topic, epoch_rows=3)
    assert ids(lake) == list(range(10))
    assert done.progress["kafka"] == {f"{cluster}/{topic}:{n}": 5 for n in range(2)}
    assert take(lake, servers, topic).rows == 0
    send(topic, [{"id": 10}])
    take(lake, servers, topic)
    assert ids(lake) == list(range(11))


def test_a_topic_of_another_cluster_is_read_from_its_beginning(
    lake: lw.Lake, servers: str, send: Send, store: str
) -> None:
    topic = f"twice-{store}"
    other = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (found,) = other.list_topics(timeout=30).brokers.values()
    send(topic, [{"id": n} for n in range(4)])
    for n in range(100, 106):
        other.produce(topic, json.dumps({"id": n}).encode(), partition=n % 2)
    assert other.flush(30) == 0

    for address in (servers, f"{found.host}:{found.port}") * 2:
        take(lake, address, topic)
    assert ids(lake) == [*range(4), *range(100, 106)]
    send(topic, [{"id": 4}])
    take(lake, servers, topic)
    assert ids(lake) == [*range(5), *range(100, 106)]


def test_offsets_that_were_stored_without_a_cluster_belong_to_the_first_that_is_read(
    lake: lw.Lake, servers: str, send: Send, store: str
) -> None:
    topic = f"older-{store}"
    send(topic, [{"id": n} for n in range(4)])
    with lake.sink("t", writer_id="w", schema=SCHEMA) as sink:
        sink.write([{"id": 0}, {"id": 1}])
        sink.commit_epoch(1, progress={"kafka": {f"{topic}:0": 1, f"{topic}:1": 1}})
    done = take(lake, servers, topic)
    assert ids(lake) == [0, 1, 2, 3]
    assert [name.partition("/")[2] for name in done.progress["kafka"]] == [
        f"{topic}:0",
        f"{topic}:1",
    ]


def test_offsets_that_were_not_committed_with_rows_do_not_count(
    lake: lw.Lake, servers: str, send: Send, store: str
) -> None:
    topic = f"refused-{store}"
    send(topic, [{"id": 1}, {"id": "two"}])
    with pytest.raises(InvalidInput, match="no row"):
        take(lake, servers, topic)
    with lake.sink("t", writer_id="w") as sink:
        assert (sink.last_epoch, sink.progress) == (None, None)


def test_a_cluster_without_an_id_is_not_taken_for_another_one() -> None:
    source = KafkaSource("127.0.0.1:1", ["t"])
    source._clusters, source._offsets = {"t": None}, {"one/t:0": 5}
    with pytest.raises(StorageError, match="the id of its cluster"):
        source._adopt("t")


def test_empty_messages_are_no_rows(lake: lw.Lake, servers: str, send: Send, store: str) -> None:
    topic = f"empty-{store}"
    send(topic, [b"", b"", {"id": 1}])
    assert take(lake, servers, topic).rows == 1


def test_a_broker_that_is_not_there_is_named(lake: lw.Lake) -> None:
    source = KafkaSource("127.0.0.1:1", ["t"], settings={"log_level": 0}, timeout_seconds=0.2)
    with lake.sink("t", writer_id="w", schema=SCHEMA) as sink, pytest.raises(StorageError):
        sink.consume(source, restarts=0)
