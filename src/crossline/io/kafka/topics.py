"""Checks that topics are those of the checkpoint: by topic id, and by the offsets that exist."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

import orjson
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec, TopicDescription

from crossline.basics.errors import PermanentError, SourceError, StateError
from crossline.io.kafka.client_factory import ADVICE, ClientErrors, client_of
from crossline.io.kafka.data_loss import absent, deleted_before_read, ends_before, remade
from crossline.io.kafka.errors import passes
from crossline.logs import get_logger

log = get_logger(__name__)

ANSWER_S_MAX = 30.0  # at the start, before the first read
_AGAIN_S = 0.1
_LOOK_S = 0.2
WAIT_S_MAX = 1.0  # how long a batch waits for the answer to a request sent after it was read
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # 16 zero bytes: from brokers that know no ids (before Kafka 3.1)
_ABSENT = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}  # noqa: SLF001 - the client's public names

Offsets = Mapping[str, Mapping[str, int]]


class TopicWatch:
    """The ids of the ``topics`` of one stream, noted in the file ``note`` when a checkpoint first meets them.

    Topic ids are never reused. So a topic with its old id now was the same topic at every instant before, and all
    records read until now came from it. ``begin`` checks before the first read. ``request`` sends a request once a
    batch has been read, and the batch is committed after the answer. An answer that takes longer than a second does
    not hold the batch: it is logged, and the next answer covers all batches before it. So a batch of a recreated
    topic is committed only where the brokers did not know of the change yet; the error comes with the next batch,
    or at the next start.
    """

    def __init__(self, topics: Sequence[str], settings: Mapping[str, str], note: Path) -> None:
        self._topics = list(dict.fromkeys(topics))
        self._settings = dict(settings)
        self._note = note
        self._known: dict[str, str] = {}
        self._client: AdminClient | None = None
        self._client_errors = ClientErrors()

    def begin(self, offsets: Offsets | None) -> None:
        """Look before reading goes on at ``offsets`` (topic -> partition -> next offset; None: it begins).

        Raises PermanentError where a topic is another one, is not there, or lacks what comes next, and SourceError
        where the brokers do not answer.
        """
        self._known = self._noted()
        found = {topic: self._answer(topic, future) for topic, future in self._describe().items()}
        missing = [topic for topic, each in found.items() if each is None]
        if missing:
            raise PermanentError(absent(missing[0]))
        self._compare({topic: each for topic, each in found.items() if each is not None})
        for topic, partitions in (offsets or {}).items():
            description = found.get(topic)
            if description is not None:
                there = {partition.id for partition in description.partitions}
                self._check_history(topic, {int(n): offset for n, offset in partitions.items()}, there)

    def request(self) -> Callable[[], None]:
        """Request the topics; the returned function waits for the answer, see the class.

        It raises PermanentError where one is not the one that was read before.
        """
        requests = self._describe()

        def settle() -> None:
            try:
                found = {topic: self._answer(topic, future, WAIT_S_MAX) for topic, future in requests.items()}
            except SourceError as error:
                log.warning(
                    "topics could not be compared with those read before; the next batch asks again", error=str(error)
                )
                return
            # A broker that has just started may not know a topic yet, and one that is gone gives no further batch.
            self._compare({topic: each for topic, each in found.items() if each is not None})

        return settle

    def close(self) -> None:
        """Close the client."""
        self._client = None

    def _describe(self) -> dict[str, Future[TopicDescription]]:
        if self._client is None:
            self._client = client_of(AdminClient, self._settings, self._client_errors)
        requests: dict[str, Future[TopicDescription]] = self._client.describe_topics(
            TopicCollection(self._topics), request_timeout=ANSWER_S_MAX
        )
        return requests

    def _answer(
        self, topic: str, future: Future[TopicDescription], wait_s: float = ANSWER_S_MAX
    ) -> TopicDescription | None:
        """None where there is no such topic.

        Raises SourceError where nothing is known, PermanentError where the brokers do not let us in.
        """
        until_s = time.monotonic() + wait_s
        while True:
            try:
                return future.result(min(_LOOK_S, wait_s))
            except KafkaException as error:
                if error.args[0].code() in _ABSENT:
                    return None
                raise SourceError(_unanswered(topic, error)) from error
            except TimeoutError as error:
                if self._client is not None:
                    self._client.poll(0)
                if self._client_errors.reason is not None:
                    reason = f"{self._client_errors.reason}; {ADVICE} of the source"
                    raise PermanentError(f"the brokers of topic {topic} do not let us in: {reason}") from error
                if time.monotonic() > until_s:
                    raise SourceError(_unanswered(topic, error)) from error

    def _compare(self, found: Mapping[str, TopicDescription]) -> None:
        fresh = {}
        for topic, description in found.items():
            topic_id = str(description.topic_id)
            known = self._known.get(topic)
            if known is None and topic_id != _NO_ID:
                fresh[topic] = topic_id
            elif known is not None and topic_id not in {known, _NO_ID}:
                raise PermanentError(remade(topic, known, topic_id, str(self._note)))
        if fresh:
            self._write({**self._known, **fresh})

    def _check_history(self, topic: str, wanted: Mapping[int, int], there: set[int]) -> None:
        """Raise PermanentError where the next offset of a partition was deleted, or never existed."""
        begins = self._offsets(topic, wanted.keys() & there, OffsetSpec.earliest())
        ends = self._offsets(topic, wanted.keys() & there, OffsetSpec.latest())
        for partition, offset in sorted(wanted.items()):
            if offset > ends.get(partition, 0):
                raise PermanentError(ends_before(topic, partition, offset, ends.get(partition, 0)))
            if offset < begins[partition]:
                raise PermanentError(deleted_before_read(topic, partition, offset, None, begins[partition]))

    def _offsets(self, topic: str, partitions: set[int], which: OffsetSpec) -> dict[int, int]:
        if not partitions or self._client is None:
            return {}
        places = {TopicPartition(topic, partition): which for partition in partitions}
        deadline_s = time.monotonic() + ANSWER_S_MAX
        while True:
            requests = self._client.list_offsets(places, request_timeout=ANSWER_S_MAX)
            try:
                return {place.partition: int(future.result(ANSWER_S_MAX).offset) for place, future in requests.items()}
            except (KafkaException, TimeoutError) as error:
                # A broker that paused for seconds is fenced, and knows no leader epoch until it is registered again.
                again = isinstance(error, KafkaException) and passes(error.args[0])
                if not again or time.monotonic() > deadline_s:
                    raise SourceError(_unanswered(topic, error)) from error
            time.sleep(_AGAIN_S)

    def _noted(self) -> dict[str, str]:
        try:
            noted = orjson.loads(self._note.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise StateError(f"{self._note} cannot be read: {error}; restore the checkpoint, or start anew") from error
        return {str(topic): str(topic_id) for topic, topic_id in noted.items()}

    def _write(self, known: dict[str, str]) -> None:
        self._note.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._note.with_suffix(".tmp")
        with temporary.open("wb") as file:
            file.write(orjson.dumps(known))
            file.flush()
            os.fsync(file.fileno())  # an empty file after a power failure would stop the next start
        temporary.replace(self._note)
        self._known = known


def _unanswered(topic: str, error: Exception) -> str:
    text = error.args[0].str() if isinstance(error, KafkaException) else f"no answer in {ANSWER_S_MAX:.0f} s"
    return f"the brokers of topic {topic} cannot be reached: {text}; see that they are up, and `brokers` and `security`"
