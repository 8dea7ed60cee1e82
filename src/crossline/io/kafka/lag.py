"""Consumer lag: how far a reader is behind the ends of its topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from crossline.basics.errors import SourceError
from crossline.io.kafka.client import SILENT

ANSWER_S_MAX = 2.0  # the next scrape asks again


class TopicLag:
    """Records between the offsets that were read and the current ends of their partitions."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = dict(settings)
        self._client: AdminClient | None = None

    def __call__(self, offsets: Mapping[str, Any] | None) -> int | None:
        """By topic and partition, the next offset; None: nothing was read yet, so nothing is known of what waits.

        Raises SourceError where the brokers do not answer.
        """
        if offsets is None:
            return None
        if self._client is None:
            self._client = AdminClient(self._settings, logger=SILENT)
        places = {(topic, int(n)): offset for topic, each in offsets.items() for n, offset in each.items()}
        wanted = {TopicPartition(topic, number): OffsetSpec.latest() for topic, number in places}
        if not wanted:
            return 0
        futures = self._client.list_offsets(wanted, request_timeout=ANSWER_S_MAX)
        try:
            ends = {(place.topic, place.partition): future.result(ANSWER_S_MAX) for place, future in futures.items()}
        except (KafkaException, TimeoutError) as error:
            raise SourceError(f"the brokers did not say where topics {', '.join(offsets)} end: {error}") from error
        behind: list[int] = [max(0, int(end.offset) - places[place]) for place, end in ends.items()]
        return sum(behind)
