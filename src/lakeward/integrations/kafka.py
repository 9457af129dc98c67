"""Topics of Kafka, and of brokers that speak like it, as a source for sinks.

Offsets are committed with the rows, in the lake, and sent to the broker afterwards, for tools that
watch the lag. So a consumer that restarts continues after the last row in the table, whatever
offset the broker has.
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
    """Messages of topics, each one JSON object, from all their partitions.

    Args:
        servers: `host:port`, several with commas between.
        topics: To read.
        follow: Wait for more at the end of the topics; otherwise end there.
        settings: More settings, as librdkafka names them.
        wait_seconds: How long to wait for a message before the loop looks at its clock.
        timeout_seconds: How long to wait for the broker's answer about its topics.
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
        self._unread: set[tuple[str, int]] = set()

    def start(self, progress: Any, schema: pa.Schema, table: str) -> None:
        """Read every partition from behind the last message that is in the lake.

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
        """The messages that have arrived; an empty portion when none came in time."""
        while self._unread or self._follow:
            yield self._portion(self._consumer.consume(_FETCHED, self._wait))

    def committed(self, position: Mapping[str, Any]) -> None:
        """Send the offsets to the broker, for tools that watch the lag."""
        offsets = [
            self._library.TopicPartition(*_parted(name), offset)
            for name, offset in position[_KEY].items()
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
            found = self._consumer.list_topics(topic, timeout=self._timeout).topics[topic]
        except error as failure:
            what = f"The broker cannot be asked for topic {topic}: {failure.args[0].str()}."
            raise StorageError(what, topic=topic) from failure
        if found.error is not None:
            what = f"Topic {topic} cannot be read: {found.error.str()}."
            raise StorageError(what, topic=topic)
        beginning = self._library.OFFSET_BEGINNING
        return [
            self._library.TopicPartition(
                topic, number, self._offsets.get(f"{topic}:{number}", beginning)
            )
            for number in sorted(found.partitions)
        ]

    def _portion(self, messages: Sequence[Any]) -> Portion:
        lines = []
        for message in messages:
            place = (message.topic(), message.partition())
            failure = message.error()
            if failure is None:
                self._offsets[f"{place[0]}:{place[1]}"] = message.offset() + 1
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


def _parted(name: str) -> tuple[str, int]:
    topic, _, number = name.rpartition(":")
    return topic, int(number)


def _library() -> Any:
    try:
        import confluent_kafka
    except ImportError as error:
        what = "Reading Kafka needs confluent-kafka."
        raise MissingExtra(what, hint="Run: pip install 'lakeward[kafka]'.") from error
    return confluent_kafka
