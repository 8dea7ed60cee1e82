"""The API from its pipeline's configuration: the only place where settings become parts of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from crossline.basics.conditions.lists import Lists
from crossline.basics.errors import CrosslineError, StateError, UsageError
from crossline.io.objects.location import is_uri
from crossline.io.recordlog.filelog import FileRecordLog
from crossline.logs import get_logger
from crossline.observe.objectives.declaration import OF_RUN, objectives_of
from crossline.observe.objectives.requests import RequestCounts, counting
from crossline.rules.policy.policy import Policy
from crossline.runtime.pipeline.feed_sink import FEED
from crossline.runtime.snapshot.snapshot import SnapshotFile
from crossline.serve.backlog import placed_later
from crossline.serve.decisions.adapters import FeedStream, LedgerAnswers, LedgerDecisions, PolicyFallback
from crossline.serve.decisions.interfaces import ServiceParts
from crossline.serve.decisions.outbox import SqliteOutbox, send_on
from crossline.serve.decisions.reconciliation import Reconciliation
from crossline.serve.decisions.records import StreamRecords
from crossline.serve.decisions.service import DecisionService
from crossline.serve.decisions.values import RecordLog
from crossline.serve.feed.exact import Exact
from crossline.serve.feed.reader import FeedReader
from crossline.serve.ledger.factory import ledger_of
from crossline.serve.ledger.group import LedgerGroup
from crossline.serve.metrics.figures import ApiFigures, TimedAnswers
from crossline.serve.ownership import held as folder_held
from crossline.serve.ownership import note_owner
from crossline.serve.reconciler import Reconciler
from crossline.serve.recovery import ProgressFile, TakenUp, take_up
from crossline.serve.remote.store_follower import StoreFollower
from crossline.serve.replica.answers import ReplicaLimits
from crossline.serve.replica.replicas import Replicas
from crossline.serve.replica.setup import pipeline_of
from crossline.serve.revisions.revision_log import RevisedLog
from crossline.serve.steady_clock import SteadyClock
from crossline.settings.config import PipelineConfig
from crossline.settings.kafka import KafkaSourceSettings
from crossline.settings.process.serve import ServeSettings
from crossline.settings.sources import ApiSettings

OUTBOX = "outbox.db"
FORGET_AT_ONCE, FORGET_STEP_S, FORGET_PAUSE_S = 200, 0.05, 10.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Api:
    """What runs: the service, and what the routes read."""

    config: PipelineConfig
    settings: ServeSettings
    decisions: DecisionService
    replicas: Replicas
    ledger: LedgerGroup
    reader: FeedReader
    settling: Reconciliation
    path: Path
    answers: LedgerDecisions
    figures: ApiFigures
    outbox: SqliteOutbox
    revised: RevisedLog
    clock_ms: Callable[[], int]
    streams: frozenset[str] = field(default_factory=frozenset)
    replica_of: str | None = None
    counts: RequestCounts | None = None
    logs: Mapping[str, RecordLog] = field(default_factory=dict)


def checked(config: PipelineConfig) -> tuple[ServeSettings, Policy]:
    """What the API goes by. Raises UsageError if the pipeline has no API, or one that cannot be."""
    if config.serve is None or config.policy is None:
        raise UsageError(
            f"pipeline {config.name}: found no serve, or no policy; expected both: serve: {{listen: 127.0.0.1:8080}}, "
            "and policy: FILE, by which the API answers"
        )
    if is_uri(config.engine.checkpoint) and config.tables:
        raise UsageError(
            f"pipeline {config.name}: found enrich and checkpoint {config.engine.checkpoint}; expected a checkpoint in "
            "a folder that this machine sees under the same path: replicas have no tables from a store, in this version"
        )
    return config.serve, config.policy


@asynccontextmanager
async def running(config: PipelineConfig, replica_of: str | None = None) -> AsyncIterator[Api]:
    """The parts of the API over the pipeline of ``config``, whose paths are absolute; they end with the context.

    ``replica_of``: the checkpoint, if it is given apart from the pipeline file; the pipeline then runs elsewhere.
    Raises UsageError if it cannot be; StateError where another process has what it needs.
    """
    settings, policy = checked(config)
    path = Path(settings.path)
    await asyncio.to_thread(path.mkdir, mode=0o700, parents=True, exist_ok=True)
    await asyncio.to_thread(note_owner, path, config.name)
    records = StreamRecords(config.streams)
    async with AsyncExitStack() as held:
        held.enter_context(folder_held(path))
        logs = await _logs(held, config)
        group, answers = await asyncio.to_thread(ledger_of, settings, config.streams, config.name)
        held.callback(answers.close)
        held.push_async_callback(group.close)
        clock_ms = SteadyClock()
        ages_ms = SteadyClock(known_ms=await group.call(lambda ledger: ledger.newest_ms()))
        checkpoint, unseen_ms = await _followed(held, config, replica_of)
        reader = FeedReader(Path(checkpoint) / FEED)
        held.push_async_callback(reader.close)
        bounds = ReplicaLimits(behind_max_ms=settings.behind_max, unseen_ms=unseen_ms)
        replicas = Replicas(checkpoint, count=settings.replicas, bounds=bounds)
        await replicas.start()
        held.push_async_callback(replicas.close)
        settling, outbox = Reconciliation(), SqliteOutbox(path / OUTBOX)
        figures, counts = _figures(config)
        mark = ProgressFile(path)
        resumed = await take_up(config.sources, logs, records, reader, mark, answers, settling, replicas)
        by_broker = _by_broker(config)
        decisions = DecisionService(
            ServiceParts(
                records=records,
                judge=replicas,
                stream=FeedStream(Exact(reader, policy), records, by_broker),
                ledger=TimedAnswers(LedgerAnswers(group), figures),
                outbox=outbox,
                logs=logs,
                fallback=PolicyFallback(policy, config.streams, records, lists_of(checkpoint)),
                by_broker=by_broker,
                on_answer=figures.before(settling.answered),
                on_placed=settling.placed,
            )
        )
        held.push_async_callback(decisions.close)
        await _warmed(records, group)
        on_difference = figures.differed
        async with (
            _beside(outbox, logs, settling),
            _forgetting(group, settings.keep, ages_ms),
            counting(counts),
            Reconciler(
                reader, settling, group, settings, path, resumed.after, mark, on_difference, clock_ms
            ) as revising,
            _placing(resumed),
        ):
            parts = (decisions, replicas, group, reader, settling, path, answers, figures, outbox, revising.revised)
            yield Api(config, settings, *parts, clock_ms, frozenset(logs), replica_of, counts, logs)


def _figures(config: PipelineConfig) -> tuple[ApiFigures, RequestCounts | None]:
    """The API's figures, and what counts requests for objectives; None if none is about requests."""
    asked = {each.name for each in objectives_of(config.slo)} - OF_RUN
    counts = RequestCounts(config) if asked else None
    return ApiFigures(None if counts is None else counts.request), counts


async def _logs(held: AsyncExitStack, config: PipelineConfig) -> dict[str, RecordLog]:
    """By stream where the API puts its records."""
    logs = {stream: log for stream in config.sources if (log := _log(config, stream)) is not None}
    for log in logs.values():
        held.push_async_callback(log.close)
        if isinstance(log, FileRecordLog):
            await _held(log)
    return logs


def _by_broker(config: PipelineConfig) -> frozenset[str]:
    """The streams whose ingest time is a broker's."""
    return frozenset(
        stream
        for stream, source in config.sources.items()
        if isinstance(source, KafkaSourceSettings) and config.streams[stream].ingest_time is None
    )


async def _held(log: FileRecordLog) -> None:
    """That another process owns it is an error at the start."""
    try:
        await log.open()
    except StateError as error:
        raise StateError(f"{error}; several APIs at once need a source of kind kafka") from None


async def _followed(
    held: AsyncExitStack, config: PipelineConfig, replica_of: str | None
) -> tuple[str, Callable[[], int]]:
    """The checkpoint's folder, a copy of one on a store, and the age of its data."""
    place = replica_of or config.engine.checkpoint
    if is_uri(place):
        follower = StoreFollower(place)
        held.callback(follower.close)
        await follower.start()
        folder, unseen_ms = str(follower.folder), follower.unseen_ms
    else:
        folder, unseen_ms = place, lambda: 0
    owner = pipeline_of(folder)
    if replica_of is not None and owner not in {None, config.name}:
        raise UsageError(
            f"{replica_of} is the checkpoint of pipeline {owner}, found {config.name}: name the pipeline file of that"
        )
    return folder, unseen_ms


def _log(config: PipelineConfig, stream: str) -> RecordLog | None:
    """Where the API puts the records of a stream; None if its source takes none."""
    source, spec = config.sources[stream], config.streams[stream]
    if isinstance(source, ApiSettings):
        return FileRecordLog(source.path, spec.id, source.segment_bytes)
    if isinstance(source, KafkaSourceSettings) and spec.format == "json":
        from crossline.io.recordlog.topic import KafkaRecordLog  # noqa: PLC0415 - the client is an extra

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
    """Raise UsageError if the API cannot put records into a source, as ``running`` would."""
    for stream, source in config.sources.items():
        if isinstance(source, KafkaSourceSettings) and config.streams[stream].format == "json":
            _key_of(config, stream, source)


async def _warmed(records: StreamRecords, group: LedgerGroup) -> None:
    """What the first request would wait for is loaded before there is one."""
    for stream in records.streams:
        records.check(stream, [b"{}"], 0)
    await group.call(lambda ledger: ledger.counts())


@asynccontextmanager
async def _beside(outbox: SqliteOutbox, logs: Mapping[str, RecordLog], settling: Reconciliation) -> AsyncIterator[None]:
    """What was answered and is in no stream yet is sent on."""
    stop = asyncio.Event()
    sending = asyncio.create_task(send_on(outbox, logs, stop, settling.placed))
    try:
        yield
    finally:
        stop.set()
        await sending


@asynccontextmanager
async def _placing(resumed: TakenUp) -> AsyncIterator[None]:
    """Positions of records answered by an earlier process are known once brokers answer."""
    placing = asyncio.create_task(placed_later(resumed.left))
    try:
        yield
    finally:
        placing.cancel()
        await asyncio.gather(placing, return_exceptions=True)


@asynccontextmanager
async def _forgetting(group: LedgerGroup, keep_ms: int, clock_ms: Callable[[], int]) -> AsyncIterator[None]:
    """Answers older than ``keep_ms`` go, a few at a time."""

    async def forget() -> None:
        while True:
            try:
                gone = await group.call(lambda ledger: ledger.expire(clock_ms() - keep_ms, FORGET_AT_ONCE))
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
    snapshot = SnapshotFile(f"{checkpoint}/snapshot.json")

    def current() -> Lists:
        with suppress(FileNotFoundError, StateError):
            return snapshot.current().lists
        return {}

    return current
