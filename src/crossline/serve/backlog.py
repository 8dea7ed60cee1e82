"""Records that an earlier process of the API acknowledged and no batch has yet: replicas see them all the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import count, islice
from pathlib import Path

from crossline.basics.errors import SourceError
from crossline.io.feed.files import FeedBatch
from crossline.io.recordlog.segments import segment_name, segment_numbers
from crossline.logs import get_logger
from crossline.serve.decisions.records import CheckedRecord, StreamRecords
from crossline.serve.decisions.values import LogPosition, SubmittedRecord
from crossline.serve.replica.replicas import Replicas
from crossline.settings.kafka import KafkaSourceSettings

UNREAD_MAX = 20_000  # more are the pipeline's backlog: replicas are behind until it is worked off
AT_ONCE = 1_000
AGAIN_S = 5.0  # between two looks into a topic whose brokers did not answer

log = get_logger(__name__)

_numbers = count(-1, -1)  # those of requests begin with 1


# By the ends of a batch what stands behind it in a log: where, the line, and when it came, where the log reports it.
RecordsAfter = Callable[[Mapping[str, int]], Iterator[tuple[LogPosition, bytes, int | None]]]


async def tell_places(
    since: FeedBatch | None,
    records: StreamRecords,
    stream: str,
    behind: RecordsAfter,
    placed: Callable[[str, str, LogPosition], None],
) -> int:
    """Call ``placed`` with the position of each record after batch ``since``; return their number."""
    count = 0
    for asked, place in await _behind(since, records, stream, behind):
        placed(stream, asked.record_id, place)
        count += 1
    return count


async def lay_unread(
    replicas: Replicas, newest: FeedBatch | None, records: StreamRecords, stream: str, behind: RecordsAfter
) -> int:
    """Lay over what stands in a log behind the ``newest`` batch; how many records that were."""
    laid = 0
    for asked, place in await _behind(newest, records, stream, behind):
        replicas.lay([asked])
        replicas.placed(asked.number, place)
        laid += 1
    return laid


async def placed_later(placing: Sequence[Callable[[], Awaitable[int]]], again_s: float = AGAIN_S) -> None:
    """Have each of ``placing`` say where records stand, again and again until its brokers answer."""
    left = list(placing)
    while left:
        await asyncio.sleep(again_s)
        waiting, left = left, []
        for each in waiting:
            try:
                await each()
            except SourceError as error:
                log.warning("where answered records stand is not known yet", error=str(error))
                left.append(each)


async def _behind(
    batch: FeedBatch | None, records: StreamRecords, stream: str, behind: RecordsAfter
) -> list[tuple[SubmittedRecord, LogPosition]]:
    ends: Mapping[str, int] = {} if batch is None else batch.head["ends"].get(stream, {})
    lines = await asyncio.to_thread(lambda: list(islice(behind(ends), UNREAD_MAX)))
    now_ms = time.time_ns() // 1_000_000
    read: list[tuple[SubmittedRecord, LogPosition]] = []
    for at in range(0, len(lines), AT_ONCE):
        given = lines[at : at + AT_ONCE]
        for (place, _, came), found in zip(
            given, records.check(stream, [raw for _, raw, _ in given], now_ms), strict=True
        ):
            if isinstance(found, CheckedRecord):
                came_ms = now_ms if came is None else came
                read.append(
                    (SubmittedRecord(next(_numbers), stream, found.record_id, found.raw, found.digest, came_ms), place)
                )
    return read


def of_files(folder: Path) -> RecordsAfter:
    """What stands in the log of files at ``folder``."""
    return lambda ends: ((place, raw, None) for place, raw in lines_behind(folder, ends))


def of_topic(settings: KafkaSourceSettings, topic: str, environment: Mapping[str, str]) -> RecordsAfter:
    """The records in ``topic``; none where no batch has the offsets up to which it was read.

    Raises SourceError, as it is gone through, where its brokers do not answer.
    """
    from crossline.io.recordlog.topic_search import read_tail  # noqa: PLC0415 - the client is an extra

    def behind(ends: Mapping[str, int]) -> Iterator[tuple[LogPosition, bytes, int | None]]:
        yield from read_tail(settings, topic, ends, environment, UNREAD_MAX) if ends else ()

    return behind


def lines_behind(folder: Path, ends: Mapping[str, int]) -> Iterator[tuple[LogPosition, bytes]]:
    """The whole lines of a log behind ``ends`` (by file, the byte up to which it was read), in their order."""
    read = [name for name in ends if name.endswith(".jsonl")]
    first = max(read, default="")
    for number in segment_numbers(folder):
        name = segment_name(number)
        if name < first:
            continue
        with (folder / name).open("rb") as file:
            at = ends.get(name, 0)
            file.seek(at)
            for line in file:
                if line.endswith(b"\n"):
                    yield LogPosition(name, at), line[:-1]
                at += len(line)
