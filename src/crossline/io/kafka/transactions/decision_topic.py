"""Sends the decisions on all records to a topic, from the workers and not through the driver.

Each shard of ids has a transactional id of its own (see ``TransactionalProducer``). One process serves a shard as long
as it lives, and keeps its client. A process that takes the shard over ends the open transaction of the former.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from crossline.io.kafka.client import librdkafka_settings
from crossline.io.kafka.decision_messages import decision_messages
from crossline.io.sinks.decisions import columns_of
from crossline.settings.kafka import KafkaSinkSettings

if TYPE_CHECKING:
    from crossline.io.kafka.transactions.transactional_producer import Batch, TransactionalProducer

# Short, since a state server has other requests to serve: its caller retries.
TIMEOUT_MS = 10_000

# Producers of this process, by (brokers, checkpoint, name).
_producers: dict[tuple[str, str, str], TransactionalProducer] = {}


@dataclass(frozen=True, slots=True)
class DecisionTopic:
    """The topic of decisions on every record. ``clients``: how each cluster is reached that has it; never printed."""

    pipeline: str
    topic: str
    clients: tuple[Mapping[str, Any], ...]

    def __repr__(self) -> str:
        return f"DecisionTopic({self.topic})"

    @classmethod
    def of(cls, pipeline: str, topic: str, sinks: Sequence[KafkaSinkSettings], environment: Mapping[str, str]) -> Self:
        """As the Kafka sinks of a pipeline are reached; raises PermanentError where a password is not to be had."""
        by_brokers = {sink.brokers: sink for sink in reversed(sinks)}  # of sinks with the same ones, the first
        clients = tuple(
            {**sink.options, **librdkafka_settings(brokers, sink.security, environment)}
            for brokers, sink in by_brokers.items()
        )
        return cls(pipeline, topic, clients)

    def give(
        self, checkpoint: str, batch: Batch, shard: tuple[int, int], decisions: Sequence[Mapping[str, Any]]
    ) -> None:
        """Have the topic have the ``decisions`` of a batch on the ids of ``shard``: its number, and how many there are.

        Raises SinkError where trying again may help.
        """
        number, count = shard
        name = f"crossline-{self.pipeline}-{checkpoint}-{self.topic}-{number}-of-{count}"
        messages = decision_messages(columns_of(decisions), self.topic)
        for client in self.clients:
            self._producer_of(client, checkpoint, name).deliver(batch, [self.topic], tuple, messages)

    @staticmethod
    def _producer_of(client: Mapping[str, Any], checkpoint: str, name: str) -> TransactionalProducer:
        # Imported here: who has no such topic need not load a Kafka client.
        from crossline.io.kafka.transactions.transactional_producer import TransactionalProducer  # noqa: PLC0415 - see above

        key = (str(client["bootstrap.servers"]), checkpoint, name)
        if key not in _producers:
            for old in [each for each in _producers if each[1] != checkpoint]:  # a pipeline that is over
                _producers.pop(old).drop()
            _producers[key] = TransactionalProducer(client, name, TIMEOUT_MS)
        return _producers[key]
