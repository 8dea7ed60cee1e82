"""What a pipeline's settings say of rules and lists, as publications; and the topic that refusals go to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import orjson

from crossline.basics.texts.yamltext import SIZE_MAX
from crossline.io.kafka.client import librdkafka_settings
from crossline.logs import get_logger
from crossline.rule_registry.content import digest_of
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.list_file import LIST_BYTES_MAX
from crossline.rule_registry.sources.publications import Publications
from crossline.rule_registry.sources.topic import TopicPublications, list_file, rule_name
from crossline.settings.sources import ControlTopic, Directory, RulesDirectory, RulesTopic, TopicPlace
from crossline.settings.tables import TableOfTopic

if TYPE_CHECKING:
    from crossline.io.kafka.tables.rows import RowTopicReader

_UNDER_WAY_MAX = 1_000

log = get_logger(__name__)


def client_of(settings: TopicPlace, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Settings of the Kafka client for a control topic; raises PermanentError where its password is not to be had."""
    connection = librdkafka_settings(settings.brokers, settings.security, environment)
    return {"log_level": "3", **settings.options, **connection}


def rules_of(settings: RulesDirectory | RulesTopic) -> Publications | None:
    """Where rules come from; None: from the folder of the log."""
    if isinstance(settings, RulesTopic):
        from crossline.io.kafka.control import ControlTopicReader  # noqa: PLC0415 - the client is an extra

        return TopicPublications(ControlTopicReader(client_of(settings), settings.topic), rule_name, SIZE_MAX)
    return None


def lists_of(settings: Directory | ControlTopic, rules: RulesDirectory | RulesTopic) -> str | Publications:
    """The source of lists. Of several contents in sequence the last one counts."""
    if isinstance(settings, ControlTopic):
        from crossline.io.kafka.control import ControlTopicReader  # noqa: PLC0415 - as above

        reader = ControlTopicReader(client_of(settings), settings.topic)
        shared = isinstance(rules, RulesTopic) and (rules.brokers, rules.topic) == (settings.brokers, settings.topic)
        return TopicPublications(reader, list_file, LIST_BYTES_MAX, in_steps=False, strays=not shared)
    return settings.path


def row_reader(settings: TableOfTopic) -> RowTopicReader:
    """What reads the topic of a table."""
    from crossline.io.kafka.tables.rows import RowTopicReader  # noqa: PLC0415 - as above

    return RowTopicReader(client_of(settings), settings.topic)


class RefusalProducer(Protocol):
    """Sends messages and waits for none of them; see ``ControlTopicPublisher``."""

    topic: str

    def post(self, number: int, key: bytes, value: bytes, headers: Mapping[str, str]) -> None:
        """Send one."""
        ...

    def answers(self) -> dict[int, str | None]:
        """What became of some."""
        ...

    def close(self, wait_s: float = 2.0) -> dict[int, str | None]:
        """Let go, and what became of the last."""
        ...


class RefusalTopic:
    """Has every refusal of a rule log stand in a topic, at least once, whatever stops or is away meanwhile.

    ``mark`` is a file with the number of the log's refusals that are in the topic. A kill between the two has some sent
    again, under the same ``refusal_id``.
    """

    def __init__(self, producer: RefusalProducer, mark: Path, pipeline: str) -> None:
        self._producer = producer
        self._mark = mark
        self._pipeline = pipeline
        self._events: list[RuleEvent] = []
        self._published_count = 0
        self._sent: set[int] = set()  # under way, or there
        self._there: set[int] = set()
        self._trouble = False

    def begin(self, events: Iterable[RuleEvent]) -> None:
        """Go on with the ``events`` of the log."""
        self._events = [event for event in events if event.event == "refused"]
        try:
            self._published_count = min(int(self._mark.read_text()), len(self._events))
        except (OSError, ValueError):
            self._published_count = 0

    def add(self, events: Sequence[RuleEvent]) -> None:
        """Those among ``events``, which were logged, are to be reported."""
        self._events += [event for event in events if event.event == "refused"]

    def send(self) -> None:
        """Send what is not there yet, and note what is. Waits for nothing."""
        self._note_answers(self._producer.answers())
        for number in range(self._published_count, min(len(self._events), self._published_count + _UNDER_WAY_MAX)):
            if number not in self._sent:
                self._sent.add(number)
                event = self._events[number]
                name = digest_of(f"{self._pipeline} {event.at_ms} {event.source} {event.digest}".encode())
                headers = {"refusal_id": name, "pipeline": self._pipeline}
                self._producer.post(number, str(event.source).encode(), orjson.dumps(event.as_dict()), headers)

    def close(self) -> None:
        """Let go of the topic. What is not there yet is reported at the next start."""
        self._note_answers(self._producer.close())

    def _note_answers(self, answers: Mapping[int, str | None]) -> None:
        for number, error in answers.items():
            if error is None:
                self._there.add(number)
            else:
                self._sent.discard(number)
                if not self._trouble:
                    log.warning("a refusal cannot be published; trying again", topic=self._producer.topic, error=error)
        if answers:
            self._trouble = any(error is not None for error in answers.values())
        text = self._published_count
        while text in self._there:
            self._there.discard(text)
            self._sent.discard(text)
            text += 1
        if text != self._published_count:
            self._published_count = text
            temporary = self._mark.with_suffix(".tmp")
            temporary.write_text(f"{text}\n")
            temporary.replace(self._mark)


def refusal_topic_of(settings: RulesDirectory | RulesTopic, rule_log: Path) -> RefusalTopic | None:
    """Where refusals go besides the rule log."""
    if not isinstance(settings, RulesTopic) or settings.refusals_topic is None:
        return None
    from crossline.io.kafka.control import ControlTopicPublisher  # noqa: PLC0415 - as above

    producer = ControlTopicPublisher(client_of(settings), settings.refusals_topic)
    return RefusalTopic(producer, rule_log.with_suffix(".refusals"), rule_log.stem)
