"""Topics of Kafka, and of brokers with the same protocol, as a source for sinks.

Offsets are committed with the rows in the lake, and sent to the broker afterwards, for tools that
monitor the lag. So a consumer that restarts continues after the last row in the table, regardless
of the offset that the broker has. Offsets belong to the cluster that gave them, whatever address it
has: their names are `CLUSTER/TOPIC:PARTITION`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from lakeward.engines.arrow.json_lines import JsonLines
from lakeward.errors import InvalidInput, MissingExtra, StorageError
from lakeward.stream.lines import given
from lakeward.stream.source import Portion, Source

_FETCHED: Final = 10_000
_KEY: Final = "kafka"


class KafkaSource(Source):
    """Reads messages from all partitions of topics; each message is one JSON object.

    Args:
        servers: `host:port`, several separated by commas.
        topics: The topics to read.
        follow: Wait for more at the end of the topics; otherwise end there.
        settings: More settings of librdkafka, by name.
        wait_seconds: How long to wait for a message before an empty portion is yielded.
        timeout_seconds: How long to wait for the broker's response about its topics.
    """

    def __init__(
        self,
        servers: str,
        topics: Sequence[str],
        *,
        follow: bool = True,
        settings: Mapping[str, Any] | None = None,
        wait_seconds: float = 0.5,
        timeout_seconds: float = 10.0,
    ) -> None:
        self._library = _library()
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        self._follow = follow
        self._wait = wait_seconds
        self._timeout = timeout_seconds
        self._settings = {
            "group.id": "lakeward",
            # Expired messages are an error, not a silent gap.
            "auto.offset.reset": "error",
            **(settings or {}),
            "bootstrap.servers": servers,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        self._consumer: Any = None
        self._offsets: dict[str, int] = {}
        self._clusters: dict[str, str | None] = {}
        self._unread: set[tuple[str, int]] = set()

    def start(self, progress: Any, schema: pa.Schema, table: str) -> None:
        """Connect, and begin every partition after its last message that is in the lake.

        Raises:
            StorageError: The broker cannot be reached, or has no such topic.
        """
        self.close()
        self._lines = JsonLines(schema, table)
        self._offsets = dict((progress or {}).get(_KEY, {}))
        self._consumer = self._library.Consumer(self._settings, logger=None)
        found = [p for topic in self._topics for p in self._partitions(topic)]
        self._unread = {(p.topic, p.partition) for p in found}
        self._consumer.assign(found)

    def portions(self) -> Iterator[Portion]:
        """Yield messages as they arrive; yield an empty portion if none arrives in time."""
        while self._unread or self._follow:
            yield self._portion(self._consumer.consume(_FETCHED, self._wait))

    def places(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> Sequence[str]:
        """Return the topics with messages between the positions, as `kafka://SERVERS/TOPIC`."""
        known, servers = before.get(_KEY) or {}, self._settings["bootstrap.servers"]
        moved = {topic for (_, topic, _), _ in _parts(dict(after[_KEY].items() - known.items()))}
        return [f"kafka://{servers}/{topic}" for topic in sorted(moved)]

    def committed(self, position: Mapping[str, Any]) -> None:
        """Send the offsets to the broker, for tools that monitor the lag."""
        own = set(self._clusters.items())
        offsets = [
            self._library.TopicPartition(topic, number, offset)
            for (cluster, topic, number), offset in _parts(position[_KEY])
            if (topic, cluster) in own
        ]
        self._consumer.commit(offsets=offsets, asynchronous=True)

    def close(self) -> None:
        """Close the consumer."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None

    def _partitions(self, topic: str) -> list[Any]:
        error = self._library.KafkaException
        try:
            metadata = self._consumer.list_topics(topic, timeout=self._timeout)
        except error as failure:
            what = f"The broker cannot be asked for topic {topic}: {failure.args[0].str()}."
            raise StorageError(what, topic=topic) from failure
        found = metadata.topics[topic]
        if found.error is not None:
            what = f"Topic {topic} cannot be read: {found.error.str()}."
            raise StorageError(what, topic=topic)
        self._clusters[topic] = metadata.cluster_id
        self._adopt(topic)
        beginning = self._library.OFFSET_BEGINNING
        return [
            self._library.TopicPartition(
                topic, number, self._offsets.get(self._name(topic, number), beginning)
            )
            for number in sorted(found.partitions)
        ]

    def _adopt(self, topic: str) -> None:
        """Give the offsets of a topic that were stored without a cluster to the topic's cluster.

        They stay as they are if the topic is known in any cluster.

        Raises:
            StorageError: The topic is known in a cluster, and the broker has no id of its own.
        """
        known = [(parts, at) for parts, at in _parts(self._offsets) if parts[1] == topic]
        if any(cluster is not None for (cluster, _, _), _ in known):
            if self._clusters[topic] is None:
                what = f"The broker of topic {topic} does not tell the id of its cluster."
                hint = "Messages of the topic were read from a cluster with an id before."
                raise StorageError(what, hint=hint, topic=topic)
            return
        for (_, _, number), at in known:
            del self._offsets[f"{topic}:{number}"]
            self._offsets[self._name(topic, number)] = at

    def _name(self, topic: str, number: int) -> str:
        cluster = self._clusters[topic]
        # Very old brokers have no id of their cluster.
        return f"{topic}:{number}" if cluster is None else f"{cluster}/{topic}:{number}"

    def _portion(self, messages: Sequence[Any]) -> Portion:
        lines = []
        for message in messages:
            place = (message.topic(), message.partition())
            failure = message.error()
            if failure is None:
                self._offsets[self._name(*place)] = message.offset() + 1
                # A message without a value, as compacted topics have, is no row.
                lines.append((message.value() or b"").replace(b"\n", b" "))
            elif failure.code() == self._library.KafkaError._PARTITION_EOF:
                self._unread.discard(place)
            elif not failure.retriable():
                what = f"Topic {place[0]} cannot be read: {failure.str()}."
                raise StorageError(what, topic=place[0])
        if not lines:
            return Portion(None, 0, {})
        rows = given(self._table(lines))
        return Portion(rows, rows.num_rows, {_KEY: dict(self._offsets)})

    def _table(self, lines: Sequence[bytes]) -> pa.Table:
        try:
            return self._lines.table(b"\n".join(lines))
        except InvalidInput as error:
            what = f"A message of {', '.join(self._topics)} is no row: {error.what}"
            raise InvalidInput(what, hint=error.hint) from error


def _parts(
    offsets: Mapping[str, int],
) -> Iterator[tuple[tuple[str | None, str, int], int]]:
    """Yield the cluster, the topic and the partition of each offset, and the offset."""
    for name, offset in offsets.items():
        # Neither a topic nor the number of a partition has a slash.
        cluster, slash, rest = name.rpartition("/")
        topic, _, number = rest.rpartition(":")
        yield (cluster if slash else None, topic, int(number)), offset


def _library() -> Any:
    try:
        import confluent_kafka
    except ImportError as error:
        what = "Reading Kafka needs confluent-kafka."
        raise MissingExtra(what, hint="Run: pip install 'lakeward[kafka]'.") from error
    return confluent_kafka
