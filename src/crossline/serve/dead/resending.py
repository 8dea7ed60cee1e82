"""Sends a dead letter again, mended, into the stream that it was meant for; once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

from crossline.connectors.recordlog.filelog import FileRecordLog
from crossline.core.basics.errors import PermanentError, UsageError
from crossline.serve.dead.resent import Resent, ResentFile
from crossline.serve.dead.values import Kept
from crossline.serve.decisions.records import Checked, StreamRecords
from crossline.serve.decisions.values import Asked, Place, RecordLog

RAW_BYTES_MAX = 1 << 20


class NotFitError(UsageError):
    """The record does not fit its stream: it would be a dead letter again."""


class SentAlreadyError(PermanentError):
    """The dead letter was sent again before, or its record stands in the stream."""


class Resending:
    """Sends mended records into streams.

    Args:
        records: Checks records as the pipeline does.
        logs: Where records of a stream are put; a stream that is not here takes none.
        resent: Notes what was sent.
        clock_ms: Epoch milliseconds.
    """

    def __init__(
        self,
        records: StreamRecords,
        logs: Mapping[str, RecordLog],
        resent: ResentFile,
        clock_ms: Callable[[], int],
    ) -> None:
        self._records = records
        self._logs = logs
        self._resent = resent
        self._clock_ms = clock_ms
        self._numbers = count(1)

    def why_not(self, stream: str) -> str:
        """Why nothing can be sent into a stream; empty: it can."""
        if stream not in self._records:
            return f"the pipeline has no stream {stream} any more"
        if self._records.streams[stream].format != "json":
            return f"records of {stream} are of {self._records.streams[stream].format}, and are mended as JSON alone"
        if stream not in self._logs:
            return (
                f"the source of {stream} takes no records from here: that does one of kind api, or a topic with a key; "
                "send it as the source's own producer does"
            )
        return ""

    async def send(self, kept: Kept, raw: bytes, who: str) -> Resent:
        """Put ``raw`` into the stream of a dead letter, in the name of ``who``; once it is kept there, it is told.

        Where a process was ended in between, the same bytes may be sent again, and stand in a log of files once.

        Raises UsageError where the stream takes none, NotFitError where the record would be refused again,
        SentAlreadyError where it was sent, RetryableError where the log takes nothing now.
        """
        stream, now_ms = kept.letter.stream, self._clock_ms()
        if why := self.why_not(stream):
            raise UsageError(why)
        checked = await asyncio.to_thread(self._checked, stream, raw, now_ms)
        wanted = Resent(
            kept.identity, kept.letter.reason, stream, checked.record_id, checked.digest, checked.raw, who, now_ms
        )
        stands = await asyncio.to_thread(self._resent.begin, wanted)
        if stands.log is not None or stands.digest != checked.digest:
            raise SentAlreadyError(_said(stands))
        (place,) = await self._logs[stream].append(
            [Asked(next(self._numbers), stream, checked.record_id, checked.raw, checked.digest, now_ms)]
        )
        if not await asyncio.to_thread(self._is_there, stream, place, checked.raw):
            await asyncio.to_thread(self._resent.forget, kept.identity)
            raise SentAlreadyError(
                f"found record {checked.record_id} in the stream already, with other bytes; nothing was sent. Expected "
                "an id that no record has: the first record of an id counts"
            )
        await asyncio.to_thread(self._resent.done, kept.identity, place.log, place.at)
        return (await asyncio.to_thread(self._resent.of, [kept.identity]))[kept.identity]

    def _checked(self, stream: str, raw: bytes, now_ms: int) -> Checked:
        found = self._records.check(stream, [raw], now_ms)[0]
        if isinstance(found, Checked):
            return found
        raise NotFitError(f"{found.reason}: {found.detail}")

    def _is_there(self, stream: str, place: Place, raw: bytes) -> bool:
        """Whether the line at a place is ours: of an id that is known a log of files gives the place of the first.

        A topic is not read back: of two records with one id the pipeline refuses the second.
        """
        log = self._logs[stream]
        if not isinstance(log, FileRecordLog):
            return True
        with (Path(log.folder) / place.log).open("rb") as file:
            file.seek(place.at)
            return file.read(len(raw) + 1) == raw + b"\n"


def _said(stands: Resent) -> str:
    if stands.log is None:
        return (
            f"found that {stands.who} was sending it when the server ended, as record {stands.record_id}; whether it "
            "stands in the stream nobody knows. Expected the same bytes, which may be sent again"
        )
    return f"found that {stands.who} sent it again already, as record {stands.record_id}; it is sent once"
