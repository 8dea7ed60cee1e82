"""What an earlier process of the API left: answers that were held to no batch yet, and records that no batch has."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeGuard

import orjson

from crossline.basics.errors import SourceError, StateError
from crossline.io.feed.files import FeedBatch, batches_in, read_head
from crossline.io.recordlog.filelog import FileRecordLog
from crossline.io.sinks.base import wall_clock_ms
from crossline.logs import get_logger
from crossline.serve.backlog import RecordsAfter, lay_unread, of_files, of_topic, tell_places
from crossline.serve.decisions.reconciliation import Reconciliation
from crossline.serve.decisions.records import StreamRecords
from crossline.serve.decisions.values import LogPosition, RecordLog
from crossline.serve.feed.reader import FeedReader
from crossline.serve.replica.replicas import Replicas
from crossline.settings.kafka import KafkaSourceSettings
from crossline.settings.sources import Source

if TYPE_CHECKING:
    from crossline.io.recordlog.topic import KafkaRecordLog

MARK = "settled.json"  # the batch up to which answers were held to what it gave
NONE_YET = -1  # noted where no batch was there
LOOK_BACK = 10  # batches before it, of which some answers may have waited still
NOTE_MS = 1_000  # between two marks
BEFORE_MS, EXPECTED_MAX = 60_000, 100_000  # answers from so long before that batch, so many of them

log = get_logger(__name__)


class Unsettled(Protocol):
    """The ledger, asked what was held to no batch yet."""

    def unsettled(self, since_ms: int, most: int) -> list[tuple[str, str, str, str, str]]:
        """See ``read_unsettled``."""
        ...


class ProgressFile:
    """Where a process has got to, in a file in ``folder``: the next process goes on from there."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / MARK
        self._noted_ms = 0

    def note(self, batch: int) -> None:
        """Answers up to this batch were held to what it gave; written once a second at most."""
        now_ms = wall_clock_ms()
        if abs(now_ms - self._noted_ms) < NOTE_MS:
            return
        draft = self._path.with_name(f".{MARK}.tmp")
        try:
            draft.write_bytes(orjson.dumps({"batch": batch}))
            draft.replace(self._path)
        except OSError as error:
            log.warning("it cannot be noted which answers were compared", path=str(self._path), error=str(error))
        self._noted_ms = now_ms

    def read(self) -> int | None:
        """The batch; None if there is no mark that can be read: after a kill of the machine it may be empty."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            return int(orjson.loads(self._path.read_bytes())["batch"])
        return None


def begin_of(feed: Path, mark: ProgressFile, newest: FeedBatch | None) -> FeedBatch | None:
    """The batch behind which answers are to be compared: the newest, or an earlier one where the mark is before it.

    None: all batches are, since there was none when the process before this one began.
    """
    noted = mark.read()
    if newest is None or noted is None or noted > newest.number:  # the checkpoint is another one
        return newest
    if noted == NONE_YET:
        return None
    for number in batches_in(feed):
        if noted - LOOK_BACK <= number < newest.number:
            with suppress(OSError, StateError):
                return read_head(feed, number)
    return newest


@dataclass(frozen=True, slots=True)
class TakenUp:
    """``after``: the batch behind which the feed is to be followed.

    ``left``: searches for the positions of records, to be repeated, since brokers did not answer.
    """

    after: int
    left: Sequence[Callable[[], Awaitable[int]]] = ()


async def take_up(
    sources: Mapping[str, Source],
    logs: Mapping[str, RecordLog],
    records: StreamRecords,
    reader: FeedReader,
    mark: ProgressFile,
    answers: Unsettled,
    settling: Reconciliation,
    replicas: Replicas,
) -> TakenUp:
    """Go on where an earlier process ended."""
    newest = await reader.newest()
    begin = await asyncio.to_thread(begin_of, reader.folder, mark, newest)
    if newest is None and mark.read() is None:
        await asyncio.to_thread(mark.note, NONE_YET)
    since_ms = await asyncio.to_thread(_since_ms, reader.folder, begin)
    for each in reversed(await asyncio.to_thread(answers.unsettled, since_ms, EXPECTED_MAX)):
        settling.expect(*each, None)
    left: list[Callable[[], Awaitable[int]]] = []
    for stream, each_log in logs.items():
        behind = _behind_of(sources[stream], each_log)
        if behind is None:
            continue
        placed = _placement_callback(each_log, settling)
        placing = partial(tell_places, begin, records, stream, behind, placed)
        try:
            await lay_unread(replicas, newest, records, stream, behind)
            if settling.waiting or _is_of_topic(each_log):
                await placing()
        except SourceError as error:
            log.warning("what an earlier process put into a topic is not known yet", stream=stream, error=str(error))
            left.append(placing)
    return TakenUp(-1 if begin is None else begin.number, left)


def _is_of_topic(each_log: RecordLog) -> TypeGuard[KafkaRecordLog]:
    """Whether records go to a topic; its client, which is an extra, is not loaded to find out."""
    return hasattr(each_log, "know")


def _placement_callback(each_log: RecordLog, settling: Reconciliation) -> Callable[[str, str, LogPosition], None]:
    """Takes positions of earlier records: answers that wait for their batch, and writers of these records."""
    if not _is_of_topic(each_log):
        return settling.placed

    def both(stream: str, record_id: str, place: LogPosition) -> None:
        each_log.know(record_id, place)
        settling.placed(stream, record_id, place)

    return both


def _since_ms(feed: Path, begin: FeedBatch | None) -> int:
    """Since when there are answers that batches behind ``begin`` are to be compared with.

    The clock may have been set back since that was planned: the earliest of it and of those behind it counts.
    """
    if begin is None:
        return 0
    planned = [begin.planned_ms]
    for number in batches_in(feed):
        if number > begin.number:
            with suppress(OSError, StateError):
                planned.append(read_head(feed, number).planned_ms)
    return min(planned) - BEFORE_MS


def _behind_of(source: Source, each: RecordLog) -> RecordsAfter | None:
    if isinstance(each, FileRecordLog):
        return of_files(each.folder)
    if isinstance(source, KafkaSourceSettings):
        return of_topic(source, source.topic.split(",")[0].strip(), os.environ)
    return None
