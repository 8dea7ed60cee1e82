"""What an erasure does not reach: it is of others, or it is what they must keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from crossline.basics.errors import CrosslineError
from crossline.erasure.place import Unreachable
from crossline.erasure.registry import Surroundings
from crossline.io.objects.location import is_uri
from crossline.settings.kafka import KafkaSinkSettings, KafkaSourceSettings
from crossline.settings.sinks import JsonlSettings, SqliteSettings
from crossline.settings.sources import ApiSettings, FilesSettings, GeneratorSettings

_TOPIC = "when the topic's retention (retention.ms) has passed for its last record"
_APPENDED = "a topic is only appended to"


def unreachable(around: Surroundings) -> Iterator[Unreachable]:
    """What keeps its traces, by name."""
    yield from _sources(around)
    yield from _sinks(around)
    config = around.config
    if config.tables:
        names = ", ".join(sorted(config.tables))
        yield Unreachable(
            f"tables of enrich: {names}",
            "their rows come from you: take the person out there; earlier contents are in rules/.log/tables and "
            "in the checkpoint's tables",
        )
    if config.lists is not None:
        yield Unreachable("lists", "entries come from you; earlier contents are in rules/.log/lists, gzipped")
    yield Unreachable("rule files and their log", "a rule or a hold may name a value; publish them without it")
    if around.checkpoint is not None and is_uri(around.checkpoint.state_root):
        yield Unreachable("earlier versions of objects", "where the bucket keeps versions: let them expire")
    yield Unreachable(
        "files that commands wrote",
        "outputs of replay, backtest and figures, and folders of replay --resume: delete them, and run these again",
    )
    yield Unreachable("logs of processes", "they name alerts and files, and are rotated by the system")
    yield Unreachable("backups and file system snapshots", "they are as they were; erase again after a restore")


def _sources(around: Surroundings) -> Iterator[Unreachable]:
    for stream, source in around.config.sources.items():
        if isinstance(source, KafkaSourceSettings):
            topics = {topic: f"Kafka topic {topic}" for each in source.topic.split(",") if (topic := each.strip())}
            yield from _topics(around, source, topics)
        elif isinstance(source, FilesSettings):
            yield Unreachable(f"files of stream {stream}", f"{_shown(source.path)} is yours; only you delete it")
        elif not isinstance(source, ApiSettings | GeneratorSettings):
            yield Unreachable(f"source of stream {stream}", "it is of another system")


def _sinks(around: Surroundings) -> Iterator[Unreachable]:
    for number, sink in enumerate(around.config.sinks, 1):
        kind = str(getattr(sink, "kind", "?"))
        if isinstance(sink, KafkaSinkSettings):
            named = (sink.topic, *sink.topics, sink.dead_letter_topic, sink.late_topic, sink.corrections_topic)
            places = {topic: f"topic {topic} of sink {number} (kafka)" for topic in named if topic is not None}
            yield from _topics(around, sink, places)
        elif kind == "postgres":
            yield Unreachable(
                f"write-ahead log of sink {number} (postgres)", "the server's own", "when it is recycled or archived"
            )
        elif kind == "redis":
            yield Unreachable(f"append-only file of sink {number} (redis)", "the server's own", "when it is rewritten")
        elif kind != "console" and not isinstance(sink, SqliteSettings | JsonlSettings):
            yield Unreachable(f"receiver of sink {number} ({kind})", "what it got is of another system")


def _topics(
    around: Surroundings, settings: KafkaSourceSettings | KafkaSinkSettings, places: Mapping[str, str]
) -> Iterator[Unreachable]:
    """Topics, and until when they keep what they have; ``places``: their names in the receipt."""
    try:
        from crossline.io.kafka.client import librdkafka_settings  # noqa: PLC0415 - an extra
        from crossline.io.kafka.retention import retention_texts  # noqa: PLC0415 - as above

        client = librdkafka_settings(settings.brokers, settings.security, around.environment)
        known = list(retention_texts(client, places))
    except (CrosslineError, ModuleNotFoundError) as error:
        known = [(topic, None, str(error).partition("\n")[0]) for topic in places]
    for topic, until, why_not in known:
        unknown = f"{_TOPIC}; which is not known: {why_not}"
        yield Unreachable(places[topic], _APPENDED, unknown if until is None else until)


def _shown(path: str) -> str:
    return Path(path).name if not is_uri(path) else path
