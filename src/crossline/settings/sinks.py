"""Where a pipeline's alerts go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PlainValidator

from crossline.basics import plugins
from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import Finding, nearest, one_of, shown
from crossline.settings.decisions import DecisionSettings
from crossline.settings.fields import Settings, by_kind
from crossline.settings.kafka import KafkaSinkSettings
from crossline.settings.postgres import PostgresSettings
from crossline.settings.redis import RedisSettings
from crossline.settings.sinks_base import SinkSettings
from crossline.settings.webhook import WebhookSettings


class SqliteSettings(SinkSettings):
    """A database file: alerts, shadow alerts, decisions, dead letters, late records, rule events.

    It is read by `crossline alerts`.
    """

    PLACE: ClassVar = ("path",)

    kind: Literal["sqlite"] = Field(description="Which kind of sink this is.")
    path: str = Field(min_length=1, description="Database file; made where it is not there.")

    def takes_decisions(self) -> bool:
        """It keeps all of them."""
        return True


class JsonlSettings(SinkSettings):
    """Alerts as JSON, one a line, appended to a file."""

    PLACE: ClassVar = ("path",)

    kind: Literal["jsonl"] = Field(description="Which kind of sink this is.")
    path: str = Field(min_length=1, description="File for alerts.")
    dead_letters: str | None = Field(default=None, min_length=1, description="File for dead letters; by default, none.")
    decisions: str | None = Field(default=None, min_length=1, description="File for decisions; by default, none.")

    def takes_decisions(self) -> bool:
        """Into a file of their own."""
        return self.decisions is not None


class ConsoleSettings(SinkSettings):
    """Alerts on the screen, one a line."""

    kind: Literal["console"] = Field(description="Which kind of sink this is.")


class SinkKinds(MutableMapping[str, type[Settings]]):
    """The models of sinks by kind; other packages, which have entry points ``crossline.sinks``, are asked for the rest.

    Raises UsageError where one of another package cannot be loaded.
    """

    def __init__(self, known: Mapping[str, type[Settings]]) -> None:
        self._known = dict(known)

    def __getitem__(self, kind: str) -> type[Settings]:
        if kind not in self._known:
            found: type[SinkSettings] | None = plugins.load_plugin(plugins.SINKS, kind, SinkSettings)
            if found is None:
                raise KeyError(kind)
            if not found.SINK:
                raise UsageError(f"sink kind {kind}: {found.__module__}.{found.__qualname__} has no SINK: module:name")
            self._known[kind] = found
        return self._known[kind]

    def __setitem__(self, kind: str, model: type[Settings]) -> None:
        self._known[kind] = model

    def __delitem__(self, kind: str) -> None:
        del self._known[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._known, *plugins.plugins(plugins.SINKS))))

    def __len__(self) -> int:
        return sum(1 for _ in self)


SINKS = SinkKinds(
    {
        "sqlite": SqliteSettings,
        "jsonl": JsonlSettings,
        "console": ConsoleSettings,
        "kafka": KafkaSinkSettings,
        "postgres": PostgresSettings,
        "redis": RedisSettings,
        "webhook": WebhookSettings,
    }
)
Sink = Annotated[
    SqliteSettings
    | JsonlSettings
    | ConsoleSettings
    | KafkaSinkSettings
    | PostgresSettings
    | RedisSettings
    | WebhookSettings,
    PlainValidator(by_kind(SINKS)),
]


def rule_topics(sinks: Iterable[Settings]) -> frozenset[str] | None:
    """The topics that a rule may name as ``sink_topic``: those of each Kafka sink, since each is given all alerts.

    None where there is no Kafka sink: then topics mean nothing, and a rule written for another place may name any.
    """
    known = [frozenset((sink.topic, *sink.topics)) for sink in sinks if isinstance(sink, KafkaSinkSettings)]
    return frozenset.intersection(*known) if known else None


def same_topic(sinks: Sequence[Settings]) -> list[Finding]:
    """Kafka sinks of one topic: they would send it all twice, and each end the other's transactions, by their name."""
    first: dict[tuple[frozenset[str], str], int] = {}
    findings = []
    for number, sink in enumerate(sinks):
        if isinstance(sink, KafkaSinkSettings):
            place = (frozenset(each.strip() for each in sink.brokers.split(",")), sink.topic)
            if first.setdefault(place, number) != number:
                expected = f"one sink for it, which is sinks[{first[place]}]"
                findings.append(Finding(("sinks", number, "topic"), f"topic {sink.topic} again", expected))
    return findings


def takes_decisions(sinks: Sequence[Settings], decisions: DecisionSettings | None) -> list[Finding]:
    """What is wrong with where decisions go: a topic that a Kafka sink does not know, or no place at all."""
    topic, topics = decisions.sink_topic if decisions else None, rule_topics(sinks)
    if topic is not None:
        if topics is None:
            return [Finding(("decisions", "sink_topic"), shown(topic), "no sink_topic, for there is no Kafka sink")]
        if topic not in topics:
            expected = f"a topic of the sinks: {one_of(sorted(topics))}"
            hint = nearest(topic, topics) or "name it under topics of the pipeline's Kafka sink, and create it"
            return [Finding(("decisions", "sink_topic"), shown(topic), expected, hint)]
    if topic is not None and decisions is not None and decisions.emit == "all":
        for number, sink in enumerate(sinks):
            if isinstance(sink, KafkaSinkSettings) and (sink.behind or not sink.transactions):
                found = f"a sink {'that batches do not wait for' if sink.behind else 'without transactions'}"
                expected = "behind: false and transactions: true, for tasks send it decisions (emit: all)"
                return [Finding(("sinks", number), found, expected)]
    if topic is not None or (decisions is not None and decisions.path is not None):
        return []
    if any(sink.takes_decisions() for sink in sinks):
        return []
    hint = "a sqlite, postgres or redis sink, decisions: FILE of a jsonl sink, or decisions: {sink_topic: …} with Kafka"
    return [Finding(("policy",), "a policy, and no sink that takes decisions", "a place for them", hint)]
