"""What an erasure does not reach: it is of others, or it is what they must keep."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from crossline.erasure.place import Unreachable
from crossline.erasure.registry import Surroundings
from crossline.io.objects.location import is_uri
from crossline.settings.kafka import KafkaSourceSettings
from crossline.settings.sinks import JsonlSettings, SqliteSettings
from crossline.settings.sources import ApiSettings, FilesSettings, GeneratorSettings

_TOPIC = "when the topic's retention (retention.ms) has passed for its last record"


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
    if config.serve is not None:
        yield Unreachable("audit log of the API", f"{config.serve.path}/audit is evidence of who wrote what")
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
            topics = source.topic if isinstance(source.topic, str) else ", ".join(source.topic)
            yield Unreachable(f"Kafka topic {topics}", "a topic is only appended to", _TOPIC)
        elif isinstance(source, FilesSettings):
            yield Unreachable(f"files of stream {stream}", f"{_shown(source.path)} is yours; only you delete it")
        elif not isinstance(source, ApiSettings | GeneratorSettings):
            yield Unreachable(f"source of stream {stream}", "it is of another system")


def _sinks(around: Surroundings) -> Iterator[Unreachable]:
    for number, sink in enumerate(around.config.sinks, 1):
        kind = str(getattr(sink, "kind", "?"))
        if kind == "kafka":
            yield Unreachable(f"topics of sink {number} (kafka)", "a topic is only appended to", _TOPIC)
        elif kind == "postgres":
            yield Unreachable(
                f"write-ahead log of sink {number} (postgres)", "the server's own", "when it is recycled or archived"
            )
        elif kind == "redis":
            yield Unreachable(f"append-only file of sink {number} (redis)", "the server's own", "when it is rewritten")
        elif kind != "console" and not isinstance(sink, SqliteSettings | JsonlSettings):
            yield Unreachable(f"receiver of sink {number} ({kind})", "what it got is of another system")


def _shown(path: str) -> str:
    return Path(path).name if not is_uri(path) else path
