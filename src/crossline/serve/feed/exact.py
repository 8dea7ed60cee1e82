"""The pipeline's own decision of a record, once a batch has it."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson

from crossline.basics.errors import PermanentError, StateError, StoppedError
from crossline.basics.streams.api_record import LogPosition
from crossline.evaluate.decisions.decision import decide
from crossline.io.feed.files import FeedBatch, batch_path, batches_in, read_batch
from crossline.rules.policy.hits import DecidedRecord
from crossline.rules.policy.policy import Policy
from crossline.serve.feed.reader import FeedReader

COPIES = frozenset({"duplicate_id", "late"})  # why the stream refuses a copy
BACK_MAX = 600  # batches that are looked through


class NotDecidedError(PermanentError):
    """The pipeline does not decide about a record.

    ``reason``: ``late``, that of its dead letter (such as ``duplicate_id``), or ``forgotten``: its batch was so long
    ago that what it gave is not kept any more.
    """

    def __init__(self, record: DecidedRecord, reason: str, detail: str) -> None:
        super().__init__(f"stream {record.stream}, record {record.record_id!r}: not decided ({reason}): {detail}")
        self.stream, self.record_id, self.reason, self.detail = record.stream, record.record_id, reason, detail

    @property
    def may_be_copy(self) -> bool:
        """Whether its id may have come before: the first record of an id counts, and a copy may come late."""
        return self.reason in COPIES


class Exact:
    """Waits for the pipeline's own decisions. ``policy``: by which the pipeline decides."""

    def __init__(self, reader: FeedReader, policy: Policy) -> None:
        self._reader = reader
        self._policy = policy
        self._looking = asyncio.Lock()  # copies are rare, and looking back is long: one at a time

    async def decision(self, record: DecidedRecord, place: LogPosition) -> Mapping[str, Any]:
        """The decision of ``record``, which stands at ``place``, as soon as a batch has it; may be cancelled.

        Where a rule holds, it is what the pipeline wrote. Where none does, it is what the pipeline would write with
        ``decisions: {emit: all}``: the policy's decision without reasons, by the rules in force at the record's ingest
        time. A batch of long ago is found as well, for as long as it is kept.

        Args:
            record: The record, with the event and ingest time that the pipeline reads in it, in epoch ms.
            place: Where the log put it.

        Returns:
            The decision, as ``core.decide.decision`` makes it; never a revision.

        Raises:
            NotDecidedError: the record is late or dead, or its batch is not kept any more. Of a copy, whose first
                record was decided in one of the last batches, that decision is returned.
            StoppedError: the reader was closed meanwhile.
        """
        try:
            return await self._decision(record, place)
        except NotDecidedError as error:
            # An earlier process may have put it there, and have ended before it answered: the first copy is decided.
            if not error.may_be_copy:
                raise
            async with self._looking:
                first = await first_decision(self._reader, record.stream, record.record_id)
            if first is None:
                raise
            return first

    async def _decision(self, record: DecidedRecord, place: LogPosition) -> Mapping[str, Any]:
        newest = await self._reader.newest()
        if newest is not None and newest.covers(record.stream, place):
            return self._of(await self._reader.batch_of(record.stream, place) or newest, record, place)
        async for batch in self._reader.follow(after=-1 if newest is None else newest.number):
            if batch.covers(record.stream, place):
                mine = batch if batch.has(record.stream, place) else None
                return self._of(mine or await self._reader.batch_of(record.stream, place) or batch, record, place)
        raise StoppedError(f"stream {record.stream}, record {record.record_id!r}: the feed is not followed any more")

    def _of(self, batch: FeedBatch, record: DecidedRecord, place: LogPosition) -> Mapping[str, Any]:
        if not batch.has(record.stream, place):
            raise NotDecidedError(record, "forgotten", "what its batch gave is not kept any more; see the sinks")
        kept = decided_in(batch, record.stream, record.record_id)
        if kept is not None:
            return kept
        for name in ("dead", "late"):
            for line in batch.section(name):
                each = orjson.loads(line)
                if (each["stream"], each["log"], each["at"]) == (record.stream, place.log, place.at):
                    raise NotDecidedError(record, each["reason"], each["detail"])
        bound_ms = _at(batch.head["on_time_ms"][record.stream], record.ingest_ms)
        late_ms = record.ingest_ms - record.event_ms
        if late_ms > bound_ms:
            detail = f"{late_ms} ms late, found no rule that holds; decided about up to {bound_ms} ms"
            raise NotDecidedError(record, "late", detail)
        digest = _at(batch.head["rules"][record.stream], record.ingest_ms)
        decision = replace(decide(self._policy, record, ()), policy_version=batch.head["policy_version"])
        return decision.to_json(digest, batch.head["delivered_ms"])


async def first_decision(reader: FeedReader, stream: str, record_id: str) -> Mapping[str, Any] | None:
    """The decision of the first record of an id, of which a copy was refused: out of the last batches that are kept.

    None if none of them has it: no rule holds at it, or it came before them.
    """
    needle = orjson.dumps(record_id)

    def found() -> Mapping[str, Any] | None:
        for number in reversed(batches_in(reader.folder)[-BACK_MAX:]):
            with suppress(OSError, StateError):  # gone meanwhile, or damaged
                if needle not in batch_path(reader.folder, number).read_bytes():
                    continue
                decision = decided_in(read_batch(reader.folder, number), stream, record_id)
                if decision is not None:
                    return decision
        return None

    return await asyncio.to_thread(found)


def decided_in(batch: FeedBatch, stream: str, record_id: str) -> Mapping[str, Any] | None:
    """The decision of a record that ``batch`` has; None if it has none. Nothing but that line is read."""
    # Fields stand in this order, and within texts no quote stands bare: so this is in no other place.
    needle = b'"stream":%s,"record_id":%s,"decision":' % (orjson.dumps(stream), orjson.dumps(record_id))
    for line in batch.section("decisions"):
        if needle in line:
            body: dict[str, Any] = orjson.loads(line)
            if body["kind"] == "decision":
                return body
    return None


def _at(spans: Sequence[Sequence[Any]], ingest_ms: int) -> Any:
    """What holds at an ingest time: of the last span that begins by then."""
    return spans[max(0, bisect_right(spans, ingest_ms, key=lambda each: each[0]) - 1)][1]
