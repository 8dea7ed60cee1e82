"""The API from its pipeline's configuration: the only place where settings become parts of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from crossline.connectors.base import wall_clock_ms
from crossline.connectors.feed.files import FeedBatch
from crossline.connectors.objects.place import is_uri
from crossline.connectors.recordlog.filelog import FileRecordLog
from crossline.connectors.recordlog.topic import KafkaRecordLog
from crossline.core.basics.errors import CrosslineError, StateError, UsageError
from crossline.core.conditions.lists import Lists
from crossline.core.decide.policy import Policy
from crossline.core.settings.config import PipelineConfig
from crossline.core.settings.kafka import KafkaSourceSettings
from crossline.core.settings.process.serve import ServeSettings
from crossline.core.settings.sources import ApiSettings
from crossline.engine.book.book import BookFile
from crossline.engine.pipeline.feed import FEED
from crossline.logs import get_logger
from crossline.serve.decisions.adapters import FeedStream, LedgerAnswers, LedgerDecisions, PolicyFallback
from crossline.serve.decisions.outbox import SqliteOutbox, send_on
from crossline.serve.decisions.records import StreamRecords
from crossline.serve.decisions.service import Decisions, Parts
from crossline.serve.decisions.settling import Settling
from crossline.serve.decisions.values import RecordLog
from crossline.serve.feed.exact import Exact
from crossline.serve.feed.reader import FeedReader
from crossline.serve.ledger.group import LedgerGroup
from crossline.serve.ledger.signing import Signer
from crossline.serve.ledger.sqlite import SqliteLedger
from crossline.serve.metrics.figures import ApiFigures, TimedAnswers
from crossline.serve.replica.answers import Bounds
from crossline.serve.replica.replicas import Replicas
from crossline.serve.revising import Revising
from crossline.serve.revisions.told import RevisedLog
from crossline.serve.unread import lay_unread

LEDGER, OUTBOX = "ledger.db", "outbox.db"
BEFORE_MS, EXPECTED_MAX = 60_000, 100_000  # answers from so long before the newest batch, so many of them
FORGET_AT_ONCE, FORGET_STEP_S, FORGET_PAUSE_S = 200, 0.05, 10.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Api:
    """What runs: the service, and what the routes read."""

    config: PipelineConfig
    settings: ServeSettings
    decisions: Decisions
    replicas: Replicas
    ledger: LedgerGroup
    reader: FeedReader
    settling: Settling
    path: Path
    figures: ApiFigures
    outbox: SqliteOutbox
    revised: RevisedLog
    streams: frozenset[str] = field(default_factory=frozenset)


def checked(config: PipelineConfig) -> tuple[ServeSettings, Policy]:
    """What the API goes by. Raises UsageError where the pipeline has no API, or one that cannot be."""
    if config.serve is None or config.policy is None:
        raise UsageError(
            f"pipeline {config.name}: found no serve, or no policy; expected both: serve: {{listen: 127.0.0.1:8080}}, "
            "and policy: FILE, by which the API answers"
        )
    if is_uri(config.engine.checkpoint):
        raise UsageError(
            f"pipeline {config.name}: found checkpoint {config.engine.checkpoint}, expected a folder of this machine: "
            "replicas follow the pipeline's own files there, in this version"
        )
    return config.serve, config.policy


@asynccontextmanager
async def running(config: PipelineConfig) -> AsyncIterator[Api]:
    """The parts of the API over the pipeline of ``config``, whose paths are absolute; they end with the context.

    Raises UsageError where it cannot be; StateError where another process has what it needs.
    """
    settings, policy = checked(config)
    path = Path(settings.path)
    await asyncio.to_thread(path.mkdir, mode=0o700, parents=True, exist_ok=True)
    checkpoint = config.engine.checkpoint
    records = StreamRecords(config.streams)
    async with AsyncExitStack() as held:
        logs = {stream: log for stream in config.sources if (log := _log(config, stream)) is not None}
        for log in logs.values():
            held.push_async_callback(log.close)
            if isinstance(log, FileRecordLog):
                await log.open()  # that another process has it is told at the start
        signer = None if settings.signing_key_file is None else Signer.from_file(settings.signing_key_file)
        group = LedgerGroup(SqliteLedger(path / LEDGER, signer))
        held.push_async_callback(group.close)
        reader = FeedReader(Path(checkpoint) / FEED)
        held.push_async_callback(reader.close)
        replicas = Replicas(checkpoint, count=settings.replicas, bounds=Bounds(behind_max_ms=settings.behind_max))
        await replicas.start()
        held.push_async_callback(replicas.close)
        settling, outbox, figures = Settling(), SqliteOutbox(path / OUTBOX), ApiFigures()
        newest = await reader.newest()
        await _expect(settling, LedgerDecisions(path / LEDGER, config.streams), newest)
        for stream, each in logs.items():
            if isinstance(each, FileRecordLog):
                await lay_unread(replicas, newest, records, stream, each.folder, settling.placed)
        by_broker = frozenset(
            stream
            for stream, source in config.sources.items()
            if isinstance(source, KafkaSourceSettings) and config.streams[stream].ingest_time is None
        )
        decisions = Decisions(
            Parts(
                records=records,
                judge=replicas,
                stream=FeedStream(Exact(reader, policy), records, by_broker),
                ledger=TimedAnswers(LedgerAnswers(group), figures),
                outbox=outbox,
                logs=logs,
                fallback=PolicyFallback(policy, config.streams, records, lists_of(checkpoint)),
                on_answer=figures.before(settling.answered),
                on_placed=settling.placed,
            )
        )
        held.push_async_callback(decisions.close)
        await _warmed(records, group)
        after = -1 if newest is None else newest.number
        async with (
            _beside(outbox, logs, settling),
            _forgetting(group, settings.keep),
            Revising(reader, settling, group, settings, path, after, figures.differed) as revising,
        ):
            told = (settling, path, figures, outbox, revising.revised, frozenset(logs))
            yield Api(config, settings, decisions, replicas, group, reader, *told)


def _log(config: PipelineConfig, stream: str) -> RecordLog | None:
    """Where the API puts the records of a stream; None where its source takes none."""
    source, spec = config.sources[stream], config.streams[stream]
    if isinstance(source, ApiSettings):
        return FileRecordLog(source.path, spec.id, source.segment_bytes)
    if isinstance(source, KafkaSourceSettings) and spec.format == "json":
        key = _key_of(config, stream, source)
        return KafkaRecordLog(source, source.topic.split(",")[0].strip(), key, os.environ)
    return None


def _key_of(config: PipelineConfig, stream: str, source: KafkaSourceSettings) -> str:
    if source.key is None:
        raise UsageError(
            f"pipeline {config.name}: sources.{stream} has no key; expected key: FIELD, by which the topic's "
            "messages are keyed, such as account_id: the API puts records there"
        )
    return source.key


def check_sources(config: PipelineConfig) -> None:
    """Raise UsageError where the API cannot put records into a source, as ``running`` would."""
    for stream, source in config.sources.items():
        if isinstance(source, KafkaSourceSettings) and config.streams[stream].format == "json":
            _key_of(config, stream, source)


async def _expect(settling: Settling, answers: LedgerDecisions, newest: FeedBatch | None) -> None:
    """What an earlier process answered about records that may be in no batch yet is held to the batches that come."""
    since_ms = 0 if newest is None else int(newest.head["planned_ms"]) - BEFORE_MS
    for each in reversed(await asyncio.to_thread(answers.unsettled, since_ms, EXPECTED_MAX)):
        settling.expect(*each, None)


async def _warmed(records: StreamRecords, group: LedgerGroup) -> None:
    """What the first request would wait for is loaded before there is one."""
    for stream in records.streams:
        records.check(stream, [b"{}"], 0)
    await group.call(lambda ledger: ledger.counts())


@asynccontextmanager
async def _beside(outbox: SqliteOutbox, logs: Mapping[str, RecordLog], settling: Settling) -> AsyncIterator[None]:
    """What was answered and is in no stream yet is sent on."""
    stop = asyncio.Event()
    sending = asyncio.create_task(send_on(outbox, logs, stop, settling.placed))
    try:
        yield
    finally:
        stop.set()
        await sending


@asynccontextmanager
async def _forgetting(group: LedgerGroup, keep_ms: int) -> AsyncIterator[None]:
    """Answers older than ``keep_ms`` go, a few at a time."""

    async def forget() -> None:
        while True:
            try:
                gone = await group.call(lambda ledger: ledger.expire(wall_clock_ms() - keep_ms, FORGET_AT_ONCE))
            except CrosslineError as error:
                log.warning("old answers cannot be removed now", error=str(error))
                gone = 0
            await asyncio.sleep(FORGET_PAUSE_S if gone < FORGET_AT_ONCE else FORGET_STEP_S)

    forgetting = asyncio.create_task(forget())
    try:
        yield
    finally:
        forgetting.cancel()
        await asyncio.gather(forgetting, return_exceptions=True)


def lists_of(checkpoint: str) -> Callable[[], Lists]:
    """The named lists in force, as the pipeline has them now; none before it has begun."""
    book = BookFile(f"{checkpoint}/book.json")

    def current() -> Lists:
        with suppress(FileNotFoundError, StateError):
            return book.current().lists
        return {}

    return current
