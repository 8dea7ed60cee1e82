"""Sends a dead letter again, mended, into the stream that it was meant for; once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol
from weakref import WeakValueDictionary

import orjson

from crossline.basics.errors import PermanentError, UsageError
from crossline.basics.streams.api_record import SubmittedRecord
from crossline.basics.streams.schema import StreamSpec
from crossline.ingest.avro.view import Viewed
from crossline.io.recordlog.filelog import FileRecordLog
from crossline.serve.dead_letters.repair import AvroRepair, Repair
from crossline.serve.dead_letters.resend_log import Resent, ResentFile
from crossline.serve.dead_letters.values import StoredDeadLetter
from crossline.serve.decisions.values import LogPosition, RecordLog

RAW_BYTES_MAX = 1 << 20
GIVEN_UP_MS = 60_000  # after so long no client of before sends what it had still to send


class SentAlreadyError(PermanentError):
    """The dead letter was sent again before, or its record stands in the stream."""


class RecordLookup(Protocol):
    """Looks whether a record stands in a topic; see ``TopicLook``."""

    def ends(self) -> dict[str, int]:
        """Where the topic ends now."""
        ...

    def find(self, ends: Mapping[str, int], raw: bytes) -> LogPosition | None:
        """Where it stands behind ``ends``."""
        ...

    def has(self, place: LogPosition, raw: bytes) -> bool:
        """Whether it stands there."""
        ...


@dataclass(frozen=True, slots=True)
class ResendTarget:
    """How mended records get into a stream. ``look``: of a topic; a log of files knows its ids itself."""

    mending: Repair
    log: RecordLog
    look: RecordLookup | None = None


class Resender:
    """Sends mended records into streams.

    Args:
        streams: Those of the pipeline.
        ways: By stream; one that is not here takes none.
        resent: Notes what was sent.
        clock_ms: Epoch milliseconds.
    """

    def __init__(
        self,
        streams: Mapping[str, StreamSpec],
        ways: Mapping[str, ResendTarget],
        resent: ResentFile,
        clock_ms: Callable[[], int],
    ) -> None:
        self._streams = streams
        self._ways = ways
        self._resent = resent
        self._clock_ms = clock_ms
        self._numbers = count(1)
        self._sending: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def why_not(self, stream: str) -> str:
        """Why nothing can be sent into a stream; empty: it can."""
        if stream not in self._streams:
            return f"the pipeline has no stream {stream} any more"
        if self._streams[stream].format == "csv":
            return f"records of {stream} are of csv, and are mended as JSON alone"
        if stream not in self._ways:
            return (
                f"the source of {stream} takes no records from here: that does one of kind api, or a topic with a key; "
                "send it as the source's own producer does"
            )
        return ""

    def view(self, stream: str, raw: bytes) -> Viewed | None:
        """A dead letter of Avro as JSON, as far as it can be read; None of other streams. May wait for a registry."""
        way = self._ways.get(stream)
        return way.mending.view(raw) if way is not None and isinstance(way.mending, AvroRepair) else None

    async def send(self, kept: StoredDeadLetter, text: bytes, who: str) -> Resent:
        """Put the record ``text`` (JSON) into the stream of a dead letter, in the name of ``who``; when kept there.

        A second caller waits, and gets the error that it was sent. Where a process was ended in between,
        the same record may be sent again: it is looked for first where it would stand, and put there where it does not.

        Raises UsageError if the stream takes none, NotFitError where the record would be refused again,
        SentAlreadyError where it was sent, RetryableError where the log takes nothing now.
        """
        if why := self.why_not(kept.letter.stream):
            raise UsageError(why)
        lock = self._sending.setdefault(kept.identity, asyncio.Lock())
        async with lock:
            return await self._send(kept, text, who, self._ways[kept.letter.stream])

    async def _send(self, kept: StoredDeadLetter, text: bytes, who: str, way: ResendTarget) -> Resent:
        letter, now_ms = kept.letter, self._clock_ms()
        before = (await asyncio.to_thread(self._resent.of, [kept.identity])).get(kept.identity)
        if before is not None and before.log is not None:
            raise SentAlreadyError(_refusal(before))
        asked = await asyncio.to_thread(way.mending.made, next(self._numbers), text, letter.raw, now_ms)
        place = None if before is None else await asyncio.to_thread(_position_of, way, before)
        if before is not None and place is not None:
            await asyncio.to_thread(self._resent.done, kept.identity, place.log, place.at)
            stood = (await asyncio.to_thread(self._resent.of, [kept.identity]))[kept.identity]
            if before.digest != asked.digest:
                raise SentAlreadyError(_refusal(stood))
            return stood
        if before is not None and before.ends is not None and now_ms - before.at_ms > GIVEN_UP_MS:
            await asyncio.to_thread(self._resent.forget, kept.identity)  # it never came there, and other bytes may
        ends = None if way.look is None else orjson.dumps(await asyncio.to_thread(way.look.ends)).decode()
        wanted = Resent(
            *(kept.identity, letter.reason, letter.stream, asked.record_id, asked.digest, asked.raw, who, now_ms),
            ends=ends,
        )
        stands = await asyncio.to_thread(self._resent.begin, wanted)
        if stands.log is not None or stands.digest != asked.digest:
            raise SentAlreadyError(_refusal(stands))
        place = await self._put(way, kept, asked)
        await asyncio.to_thread(self._resent.done, kept.identity, place.log, place.at)
        return (await asyncio.to_thread(self._resent.of, [kept.identity]))[kept.identity]

    async def _put(self, way: ResendTarget, kept: StoredDeadLetter, asked: SubmittedRecord) -> LogPosition:
        (place,) = await way.log.append([asked])
        if await asyncio.to_thread(_is_in_stream, way, place, asked.raw):
            return place
        await asyncio.to_thread(self._resent.forget, kept.identity)
        raise SentAlreadyError(
            f"found record {asked.record_id} in the stream already, with other bytes; nothing was sent. Expected "
            "an id that no record has: the first record of an id counts"
        )


def _position_of(way: ResendTarget, stands: Resent) -> LogPosition | None:
    """Where a process of before, or a try without an answer, put it; None: nowhere, or the log knows it by its id."""
    if way.look is None or stands.ends is None:
        return None
    return way.look.find(orjson.loads(stands.ends), stands.raw)


def _is_in_stream(way: ResendTarget, place: LogPosition, raw: bytes) -> bool:
    """Whether what stands at a place is ours: of an id that is known a log gives the place of the first."""
    if way.look is not None:
        return way.look.has(place, raw)
    if not isinstance(way.log, FileRecordLog):
        return True
    with (Path(way.log.folder) / place.log).open("rb") as file:
        file.seek(place.at)
        return file.read(len(raw) + 1) == raw + b"\n"


def _refusal(stands: Resent) -> str:
    if stands.log is None:
        return (
            f"found that {stands.who} was sending it when the server ended, as record {stands.record_id}; it is "
            "unknown whether the stream has it. Expected the same bytes, which may be sent again"
        )
    return f"found that {stands.who} sent it again already, as record {stands.record_id}; it is sent once"


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """What the routes need beside the sinks. ``resent``: the resent letters. ``resending``: None: not here."""

    resent: ResentFile
    resending: Resender | None = None
