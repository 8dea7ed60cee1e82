"""All places of a pipeline where a person's traces may be, and what no erasure reaches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from crossline.erasure.place import Place
from crossline.erasure.places import stored_files
from crossline.erasure.places.audit_log import audit_place
from crossline.erasure.places.lake_tables import LakeTablePlace
from crossline.erasure.places.line_files import LinesPlace
from crossline.erasure.places.record_log import record_log_place
from crossline.erasure.places.serve_files import cases_place, ledger_place, ledger_row
from crossline.erasure.places.sqlite_files import SqlitePlace, store_place
from crossline.erasure.places.state_segments import StatePlace
from crossline.erasure.places.state_snapshots import StateSnapshotsPlace
from crossline.erasure.places.stored_files import StoredFilesPlace
from crossline.erasure.places.token_keys import TokenKeysPlace
from crossline.io.objects.file_stores import FileStore
from crossline.lake.maintenance.expiry import ORPHANED_AFTER_MS, READ_MS
from crossline.lake.state.state_snapshots import StateSnapshots
from crossline.lake.tables.table_layouts import records_table
from crossline.lake.training.training_table import training_tables
from crossline.lake.writing.side_logs import decision_folder
from crossline.plan.state_stores import StateStore
from crossline.settings.config import PipelineConfig
from crossline.settings.postgres import PostgresSettings
from crossline.settings.redis import RedisSettings
from crossline.settings.sinks import JsonlSettings, SqliteSettings
from crossline.settings.sources import ApiSettings
from crossline.settings.webhook import WebhookSettings

if TYPE_CHECKING:
    from crossline.lake.reading import LakeReader

# Files of ``serve.path`` with rows about records; users, keys and drafts of rules name no record.
_SERVE_FILES = ("idempotency.db", "outbox.db", "revised.db", "revisions.db", "resent.db")


@dataclass(frozen=True, slots=True)
class CheckpointParts:
    """A checkpoint as an erasure sees it.

    Attributes:
        folder: Its folder on this machine, or the copy of one on a store.
        state_root: Where the state log is.
        behind: The outboxes of sinks.
        lake: The spool of the lake.
        feed: The feed of the API on the store; None: it is in the folder.
        stores: The state stores in use, by name.
    """

    folder: Path
    state_root: str
    behind: FileStore
    lake: FileStore
    feed: FileStore
    stores: Mapping[str, StateStore]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the places of a pipeline are made from.

    Attributes:
        config: The pipeline; its paths are absolute or relative to the working directory.
        checkpoint: Its checkpoint; None: there is none yet.
        reader: Its lake; None: there is none.
        stopped: Whether the pipeline is held, so that nothing else writes.
        environment: Has the passwords that settings name.
        extra: Further places.
    """

    config: PipelineConfig
    checkpoint: CheckpointParts | None = None
    reader: LakeReader | None = None
    stopped: bool = True
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    extra: tuple[Place, ...] = ()


def places_of(around: Surroundings) -> list[Place]:
    """The places, in the order in which they are erased: what would be copied elsewhere goes first."""
    return [
        *_of_sources(around),
        *_of_serve(around),
        *_of_checkpoint(around),
        *_of_sinks(around),
        *_of_lake(around),
        *_of_tokens(around),
        *around.extra,
    ]


def _of_sources(around: Surroundings) -> Iterator[Place]:
    config = around.config
    for stream, source in config.sources.items():
        if isinstance(source, ApiSettings):
            chunks = None if around.checkpoint is None else around.checkpoint.folder / "sources" / stream
            yield record_log_place(stream, Path(source.path), config.streams[stream].id, chunks)


def _of_serve(around: Surroundings) -> Iterator[Place]:
    config = around.config
    if config.serve is None:
        return
    folder = Path(config.serve.path)
    if config.serve.ledger is None:
        yield ledger_place(folder)
    else:
        from crossline.erasure.places.postgres_tables import PostgresPlace  # noqa: PLC0415 - an extra
        from crossline.io.postgres.client import address_of  # noqa: PLC0415 - as above

        address = address_of(config.serve.ledger, around.environment)
        yield PostgresPlace("ledger in PostgreSQL", address, ledger_row, needs_stop=True)
    yield cases_place(folder)
    yield audit_place(folder)
    for name in _SERVE_FILES:
        yield SqlitePlace(f"file {name} of the API", folder / name, needs_stop=True)


def _of_checkpoint(around: Surroundings) -> Iterator[Place]:
    known = around.checkpoint
    if known is None:
        return
    ids = {stream: spec.id for stream, spec in around.config.streams.items()}
    yield StatePlace(known.state_root, ids, known.stores)
    yield StoredFilesPlace("outboxes of sinks", known.behind, ".json", stored_files.delivery)
    yield StoredFilesPlace("spool of the lake", known.lake, ".batch", stored_files.delivery)
    yield StoredFilesPlace("feed of the API", known.feed, ".jsonl", stored_files.feed)


def _of_sinks(around: Surroundings) -> Iterator[Place]:
    for number, sink in enumerate(around.config.sinks, 1):
        if isinstance(sink, SqliteSettings):
            yield store_place(f"sink {number}: SQLite store", Path(sink.path))
        elif isinstance(sink, JsonlSettings):
            named = (sink.path, sink.dead_letters, sink.decisions)
            files = [Path(each) for each in named if each is not None]
            yield LinesPlace(f"sink {number}: files of JSON lines", lambda files=files: files)  # type: ignore[misc]
        elif isinstance(sink, WebhookSettings):
            parked = Path(sink.parked)
            yield LinesPlace(f"sink {number}: parked messages", lambda parked=parked: [parked])  # type: ignore[misc]
        elif isinstance(sink, PostgresSettings):
            from crossline.erasure.places.postgres_tables import (  # noqa: PLC0415 - an extra
                PostgresPlace,
                store_row,
            )
            from crossline.io.postgres.client import address_of  # noqa: PLC0415 - as above

            yield PostgresPlace(f"sink {number}: PostgreSQL", address_of(sink, around.environment), store_row)
        elif isinstance(sink, RedisSettings):
            from crossline.erasure.places.redis_keys import RedisPlace  # noqa: PLC0415 - an extra
            from crossline.io.redis.keys import part  # noqa: PLC0415 - as above
            from crossline.io.redis.sink import client_of  # noqa: PLC0415 - as above

            prefix = sink.prefix or f"crossline:{part(around.config.name)}"
            yield RedisPlace(client_of(sink, around.environment), prefix, f"sink {number}: Redis")
    folder = decision_folder(around.config)
    if folder is not None:
        yield LinesPlace("decisions on all records", lambda: _decisions(folder), holds_positions=True)


def _decisions(folder: Path) -> Iterable[Path]:
    return sorted(folder.glob("decisions-*.jsonl")) if folder.is_dir() else []


def _of_tokens(around: Surroundings) -> Iterator[Place]:
    if any(spec.tokens is not None and spec.sensitive for spec in around.config.streams.values()):
        yield TokenKeysPlace(around.config.streams)


def _of_lake(around: Surroundings) -> Iterator[Place]:
    """The tables; those of records last, for their rows tell which ids are the person's."""
    if around.reader is None:
        return
    streams = {records_table(stream): stream for stream in around.config.streams}
    orphaned_ms = READ_MS if around.stopped else ORPHANED_AFTER_MS
    ids = {stream: spec.id for stream, spec in around.config.streams.items()}
    folder = around.checkpoint.folder if around.checkpoint is not None and around.stopped else None
    yield StateSnapshotsPlace(StateSnapshots(around.reader.lake), ids, folder, orphaned_ms)
    found = [
        LakeTablePlace(table, streams.get(table.layout.name), orphaned_ms=orphaned_ms)
        for table in (*around.reader.tables(), *training_tables(around.reader.lake))
    ]
    yield from sorted(found, key=lambda each: each.stream is not None)
