"""Where the records of an alert came from: the sources of its pipeline, read backwards, files, and the lake."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossline.basics.errors import UsageError
from crossline.basics.times import parse_instant_ms
from crossline.io.stores.protocol import StoredAlert

if TYPE_CHECKING:
    from crossline.backtest.record_search import ReverseReader
    from crossline.basics.streams.schema import StreamSpec
    from crossline.cli.alerts.lake_source import LakeSource
    from crossline.settings.config import PipelineConfig as Config

_CUT_BYTES = 16 << 20
_GENERATED_CHUNK = 10_000


@dataclass(frozen=True, slots=True)
class RecordOrigin:
    """Where records came from: the sources of a pipeline, or (``inputs``, by stream) files. ``name``: the pipeline's.

    ``time_mode``: the clock of rules that do not say which. ``lake``: the pipeline's, where it has one.
    """

    streams: Mapping[str, StreamSpec]
    inputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    config: Config | None = None
    time_mode: str = "event_time"
    lake: LakeSource | None = None


def back_of(
    stored: StoredAlert,
    stream: str,
    origin: RecordOrigin,
    spec: StreamSpec,
    until_s: float,
    stack: ExitStack,
    came_ms: int | None = None,
) -> ReverseReader:
    """The source of a stream, read backwards from the alert's record, or from its end where no position is known.

    Sensitive fields have their tokens. ``came_ms``: of topics, records that the broker had by then; None: when the
    alert was known.
    """
    from crossline.backtest.token_reader import with_tokens

    return with_tokens(_back_of(stored, stream, origin, spec, until_s, stack, came_ms), spec)


def _back_of(
    stored: StoredAlert,
    stream: str,
    origin: RecordOrigin,
    spec: StreamSpec,
    until_s: float,
    stack: ExitStack,
    came_ms: int | None,
) -> ReverseReader:
    if stream in origin.inputs:
        return _files(spec, stream, origin.inputs[stream], stored.position, stack)
    source = origin.config.sources.get(stream) if origin.config is not None else None
    if origin.config is None or source is None:
        raise UsageError(f"no files are named for stream {stream}: add --input {stream}=GLOB")
    from crossline.runtime.snapshot.checkpoint_store import read_folder, schemas_at

    place = origin.config.engine.checkpoint
    folder = f"{stack.enter_context(read_folder(place))}/sources/{stream}"
    if source.kind == "files":
        return _files(spec, stream, [source.path], stored.position, stack, folder)
    if source.kind == "kafka":
        schemas = schemas_at(place, stream) if "://" in place else f"{folder}/schemas"
        return _topics(source, stored, until_s, schemas, came_ms)
    return _generated(stream, source, stored, Path(folder))


def _files(
    spec: StreamSpec,
    stream: str,
    patterns: Sequence[str],
    position: tuple[str, int] | None,
    stack: ExitStack,
    folder: str | None = None,
) -> ReverseReader:
    """Files by the list of chunks in ``folder``; where there is none, as they are now."""
    from crossline.backtest.reverse_readers import ReverseFileReader
    from crossline.io.files.listing import ChunkList
    from crossline.io.files.log import FileChunks
    from crossline.runtime.sources.files import FileInput, patterns_of

    kind = ReverseFileReader
    if spec.format == "parquet":
        from crossline.backtest.reverse_parquet_reader import ReverseParquetReader

        kind = ReverseParquetReader
    known = ChunkList(folder or "")
    if folder is not None:
        known.refresh()
    if len(known):
        return kind(spec, known.chunks(0, len(known)), position)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="crossline-show-"))
    files = FileInput(stream, tuple(patterns), spec.format)
    log = FileChunks(patterns_of(files, there=True), folder, _CUT_BYTES, whole_files=files.whole, unended="counts")
    return kind(spec, log.chunks(0, log.poll(time.time_ns() // 1_000_000)), position)


def _topics(source: Any, stored: StoredAlert, until_s: float, folder: str, upto_ms: int | None) -> ReverseReader:
    """Topics of JSON, or of Avro by the schemas in ``folder``, and those that the registry has besides."""
    from crossline.backtest.reverse_readers import ReverseKafkaReader
    from crossline.io.kafka.backward_reader import BackwardTopicReader
    from crossline.io.kafka.client import reading_settings

    settings = reading_settings(source, os.environ)
    topics = [name.strip() for name in source.topic.split(",") if name.strip()]
    known_ms = parse_instant_ms(stored.alert["evidence"].get("known_at") or stored.alert["ingest_time"])
    came_ms = known_ms if upto_ms is None else upto_ms
    back = BackwardTopicReader(settings, topics, stored.position, came_ms + 1, until_s)
    if source.registry is None:
        return ReverseKafkaReader(back)
    from crossline.io.registry.avro_decoder import AvroDecoder
    from crossline.io.registry.schema_store import SchemaStore

    return ReverseKafkaReader(back, AvroDecoder(SchemaStore.of(source.registry, folder, os.environ), back.gone))


def _generated(stream: str, source: Any, stored: StoredAlert, folder: Path) -> ReverseReader:
    from crossline.backtest.reverse_readers import ReverseGeneratorReader
    from crossline.generate.source import read_source

    generator = read_source(source.model_dump(exclude_none=True))
    started, chunk, come = folder / "started.json", _GENERATED_CHUNK, generator.records
    if started.exists():
        first = json.loads(started.read_text())
        chunk = int(first["chunk_records"])
        come = generator.available(time.time_ns() // 1_000_000 - int(first["started_ms"]))
    if stored.position is None and come is None:
        raise UsageError("the store does not say which of the generator's records it was, and they have no end")
    return ReverseGeneratorReader(stream, generator, chunk, stored.position, come or 0)
