"""Where topics begin and end: how far a reader is behind, and which records a topic still has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from crossline.basics.errors import SourceError
from crossline.io.kafka.client import SILENT

ANSWER_S_MAX = 2.0  # the next scrape asks again
STARTS_S_MAX = 30.0
_Places = dict[tuple[str, int], int]


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
        places = _places(offsets)
        try:
            ends = _listed(self._client, places, OffsetSpec.latest(), ANSWER_S_MAX, "end")
        except SourceError as error:
            if not _lacks_partition(error.__cause__):
                raise
            # A client looks for new partitions every five minutes.
            self._client = AdminClient(self._settings, logger=SILENT)
            ends = _listed(self._client, places, OffsetSpec.latest(), ANSWER_S_MAX, "end")
        return sum(max(0, end - places[place]) for place, end in ends.items())


class TopicStarts:
    """The first offsets that the partitions of topics still have."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = dict(settings)

    def __call__(self, offsets: Mapping[str, Any]) -> dict[str, dict[str, int]]:
        """Of the partitions in ``offsets``, by topic and partition. Raises SourceError where brokers do not answer."""
        client = AdminClient(self._settings, logger=SILENT)
        found: dict[str, dict[str, int]] = {}
        starts = _listed(client, _places(offsets), OffsetSpec.earliest(), STARTS_S_MAX, "begin")
        for (topic, number), offset in starts.items():
            found.setdefault(topic, {})[str(number)] = offset
        return found


def _lacks_partition(error: BaseException | None) -> bool:
    """Whether the client, and not a broker, says that there is no such partition."""
    return isinstance(error, KafkaException) and error.args[0].code() == KafkaError._UNKNOWN_PARTITION  # noqa: SLF001 - the client's public name


def _places(offsets: Mapping[str, Any]) -> _Places:
    return {(topic, int(number)): offset for topic, each in offsets.items() for number, offset in each.items()}


def _listed(client: AdminClient, places: _Places, spec: OffsetSpec, within_s: float, what: str) -> _Places:
    """The offset by ``spec`` of each partition; a partition that is gone is an error as well."""
    wanted = {TopicPartition(topic, number): spec for topic, number in places}
    if not wanted:
        return {}
    futures = client.list_offsets(wanted, request_timeout=within_s)
    try:
        found = {(place.topic, place.partition): future.result(within_s) for place, future in futures.items()}
    except (KafkaException, TimeoutError) as error:
        topics = ", ".join(sorted({topic for topic, _ in places}))
        raise SourceError(f"the brokers did not say where topics {topics} {what}: {error}") from error
    return {place: int(each.offset) for place, each in found.items()}
