"""Where a pipeline's alerts go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, PlainValidator

from crossline.core.settings.fields import Settings, by_kind
from crossline.core.settings.kafka import KafkaSinkSettings


class SqliteSettings(Settings):
    """A database file: alerts, shadow alerts, dead letters, late records, rule events; read by `crossline alerts`."""

    kind: Literal["sqlite"] = Field(description="Which kind of sink this is.")
    path: str = Field(min_length=1, description="Database file; made where it is not there.")


class JsonlSettings(Settings):
    """Alerts as JSON, one a line, appended to a file."""

    kind: Literal["jsonl"] = Field(description="Which kind of sink this is.")
    path: str = Field(min_length=1, description="File for alerts.")
    dead_letters: str | None = Field(default=None, min_length=1, description="File for dead letters; by default, none.")


class ConsoleSettings(Settings):
    """Alerts on the screen, one a line."""

    kind: Literal["console"] = Field(description="Which kind of sink this is.")


SINKS: dict[str, type[Settings]] = {
    "sqlite": SqliteSettings,
    "jsonl": JsonlSettings,
    "console": ConsoleSettings,
    "kafka": KafkaSinkSettings,
}
Sink = Annotated[SqliteSettings | JsonlSettings | ConsoleSettings | KafkaSinkSettings, PlainValidator(by_kind(SINKS))]


def rule_topics(sinks: Iterable[Settings]) -> frozenset[str] | None:
    """The topics that a rule may name as ``sink_topic``: those of each Kafka sink, since each is given all alerts.

    None where there is no Kafka sink: then topics mean nothing, and a rule written for another place may name any.
    """
    known = [frozenset((sink.topic, *sink.topics)) for sink in sinks if isinstance(sink, KafkaSinkSettings)]
    return frozenset.intersection(*known) if known else None
