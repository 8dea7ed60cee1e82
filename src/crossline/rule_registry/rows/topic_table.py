"""A table whose rows are the messages of a topic: what came is read and checked beside the batches, then logged."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from pathlib import Path

import numpy as np
import pyarrow as pa

from crossline.basics.errors import CrosslineError
from crossline.basics.message import TopicMessage
from crossline.ingest.enrich.messages import GONE, MESSAGE, last_of_each, whole_table
from crossline.logs import get_logger
from crossline.rule_registry.content import digest_of
from crossline.rule_registry.events import RuleEvent, published_by
from crossline.rule_registry.rows.reader import FIRST_WAIT_S, RowReader, messages_to_the_end
from crossline.rule_registry.rows.row_log import Declared, RowLog, content_after, raw_of
from crossline.rule_registry.rows.segments import Begins, Change, Header, Read, Segments, Undo
from crossline.rule_registry.sources.keys import HOST, WHO
from crossline.rule_registry.sources.origin import UNKNOWN, Origin
from crossline.rule_registry.sources.principals import principal_of
from crossline.rule_registry.table_log import write_rows

PAUSE_S = 1.0  # between two changes of a table
REPORT_EACH_S = 60.0  # of a table that changes all the time
REFUSED_REPORTED_MAX = 100  # by themselves, in that time
MESSAGES_MAX = 100_000  # of one change
FOLD_ROWS = 20_000  # a content is written anew once its changes have so many rows, or a tenth of its own

# A message without value is gone from a compacted topic after `delete.retention.ms`, a day by default. Who read nothing
# for this long reads it all again, and takes away the rows whose messages are not there.
UNREAD_MS_MAX = 6 * 3_600_000
MARK_S = 60.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A message that is no row: its key, why, and where it came from."""

    key: str
    digest: str
    why: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class RowChange:
    """What came of some messages: those that are rows, as messages and read; and why others are none.

    ``content``: all that stands there after it, where the table is written anew: its digest, and how many rows.
    ``origin``: of the last message.
    """

    messages: int
    raw: pa.Table
    rows: pa.Table
    refused: tuple[Refusal, ...]
    read: Read
    origin: Origin = UNKNOWN
    content: tuple[str, int] | None = None

    @property
    def taken_away(self) -> int:
        """How many rows go."""
        return int(np.count_nonzero(np.asarray(self.rows.column(GONE).combine_chunks()))) if len(self.rows) else 0


@dataclass(slots=True)
class _PendingReport:
    """Changes that were logged and not reported yet: a table that changes each second is reported each minute."""

    since_s: float
    put: int = 0
    removed: int = 0
    refused: int = 0
    refusals: int = 0  # that were reported by themselves
    origin: Origin = UNKNOWN

    @property
    def any(self) -> bool:
        """Whether there is anything to report."""
        return bool(self.put or self.removed or self.refused > self.refusals)


@dataclass(slots=True)
class TopicTable:
    """One table. ``clock_s``: a monotonic clock, in seconds."""

    name: str
    declared: Declared
    reader: RowReader
    segments: Segments
    folder: Path
    wait_s: float = FIRST_WAIT_S
    clock_s: Callable[[], float] = time.monotonic
    log: RowLog = field(init=False)
    # With the id of the topic that each is of, which may be made anew meanwhile.
    _waiting: deque[tuple[str | None, TopicMessage]] = field(default_factory=deque)
    _reached: Read = field(default_factory=lambda: Read({}))
    _ready: RowChange | None = None
    _taken_s: float = float("-inf")
    _pause_s: float = PAUSE_S
    _pending: _PendingReport | None = None
    _feature_query: bool = False  # what ``events`` gave last has all unreported changes
    _trouble: str | None = None
    _there: set[bytes] | None = None  # keys that the topic has, where it is read again
    _marked_s: float = float("-inf")

    def __post_init__(self) -> None:
        self.log = RowLog(self.segments, self.folder, self.declared)

    def start(self, now_ms: int, *, first: bool) -> list[RuleEvent]:
        """Go on by what was logged; the events of a table that was not. ``first``: nothing was, whatever is there.

        Raises UsageError where there is no topic, SourceError where it is needed and does not answer, StateError where
        the log is damaged, or does not fit how the table is declared now.
        """
        if first:
            self.segments.clear()
        self.segments.mend()
        self.log = RowLog.opened(self.segments, self.folder, self.declared)
        if self.log.epochs:
            self.log.newest()
            self._reached = self._logged()
            again = self.segments.unread_ms(now_ms) > UNREAD_MS_MAX
            self._there = set() if again else None
            self.reader.begin({} if again else self._reached.offsets, self._reached.topic_id)
            return []
        change, (digest, rows) = self._begun()
        header = Header(1, digest, rows, {}, change.read)
        self.segments.begin(header)
        self.log, self._reached = self.log.anew(header), change.read
        text = f"table {self.name}: {rows:,} rows"
        events = [self._changed(now_ms, text, UNKNOWN), *self._refusals(change.refused[:REFUSED_REPORTED_MAX], now_ms)]
        return events + self._more_refused(len(change.refused) - REFUSED_REPORTED_MAX, now_ms)

    def now(self) -> pa.Table:
        """What stands in the topic, sorted for tasks. Raises as ``start``."""
        raws, _ = self._to_the_end()
        return whole_table(last_of_each(self.declared.read(pa.concat_tables(raws)).rows))

    def poll(self) -> RowChange | None:
        """What there is to load, read and checked, or None. Raises RetryableError where it cannot be kept."""
        try:
            found = self.reader.read()
            self._waiting.extend((self.reader.topic_id, each) for each in found)
            if self._there is not None:
                self._there.update(each.key for each in found if each.key is not None)
            self._trouble = None
        except CrosslineError as error:  # a topic that is gone leaves the table as it is, and rules to be loaded
            if str(error) != self._trouble:
                self._trouble = str(error)
                log.error("the topic of a table cannot be read; the table stays", table=self.name, error=self._trouble)  # noqa: TRY400
        if self._ready is None and self.reader.whole:
            self._met_the_end()
        if self._ready is None and self.clock_s() >= self._taken_s + self._pause_s:
            if self._waiting:
                self._ready = self._prepared()
            elif self._due:
                self._ready = RowChange(0, raw_of([], []), _NO_ROWS, (), self._reached)
        return self._ready

    def commit(self, change: RowChange, begins: Begins) -> Undo:
        """Have it on the disk, in force from ``begins`` on. Raises RetryableError, with nothing kept, else."""
        if not change.messages:
            return _nothing
        last = self.log.epochs[-1].header.number
        undo = self.segments.append(last, Change(change.raw, begins, change.read))
        if change.content is None:
            return undo
        try:
            unmade = self.segments.begin(self._header(change, begins))
        except BaseException:
            undo()
            raise

        def both() -> None:
            unmade()
            undo()

        return both

    def events(self, change: RowChange, now_ms: int) -> list[RuleEvent]:
        """The pending reports: of a table that changes all the time once a minute, with how much it was."""
        pending = self._counted(change)
        room = max(0, REFUSED_REPORTED_MAX - (0 if self._pending is None else self._pending.refusals))
        events = self._refusals(change.refused[:room], now_ms)
        self._feature_query = self._report_now(pending)
        if not self._feature_query:
            return events
        if pending.put or pending.removed:
            text = f"table {self.name}: {pending.put:,} rows put, {pending.removed:,} removed"
            events.append(self._changed(now_ms, text, pending.origin))
        return events + self._more_refused(pending.refused - pending.refusals, now_ms)

    def take(self, change: RowChange, begins: Begins) -> None:
        """Note that it is in the log."""
        for _ in range(change.messages):
            self._waiting.popleft()
        self.log, self._reached = self.preview(change, begins), change.read
        pending = self._counted(change)
        if self._feature_query:
            pending = _PendingReport(self.clock_s())
        self._pending = pending
        self._ready, self._taken_s = None, self.clock_s()

    def preview(self, change: RowChange | None, begins: Begins) -> RowLog:
        """What the log would be with it."""
        if change is None or not len(change.rows):
            return self.log
        if change.content is not None:
            return self.log.after(change.rows, begins).anew(self._header(change, begins))
        return self.log.after(change.rows, begins)

    def begins(self, given: Mapping[str, int | None]) -> dict[str, int]:
        """From when a change holds that may from ``given`` on: no sooner than the one before."""
        last = self.log.epochs[-1]
        before = last.begins[-1] if last.begins else last.header.begins
        found: dict[str, int] = {}
        for stream in self.declared.streams:
            instants = [each for each in (before.get(stream), given.get(stream)) if each is not None]
            if instants:
                found[stream] = max(instants)
        return found

    def in_force(self, versions: int) -> None:
        """So many of the last contents are in use."""
        self.log = self.log.without(max(0, len(self.log.epochs) - versions - 1))

    def close(self) -> None:
        """Leave the brokers."""
        self.reader.close()

    def _header(self, change: RowChange, begins: Begins) -> Header:
        digest, rows = change.content or ("", 0)
        return Header(self.log.epochs[-1].header.number + 1, digest, rows, begins, change.read)

    def _logged(self) -> Read:
        last = self.log.epochs[-1].header
        changes = self.segments.changes(last.number)
        return changes[-1].read if changes else last.read

    def _to_the_end(self) -> tuple[list[pa.Table], list[tuple[int, int]]]:
        """The messages of the topic as they are now, and where each stands."""
        raws, places = [raw_of([], [])], list[tuple[int, int]]()
        messages = messages_to_the_end(self.reader, self.wait_s, self.clock_s)
        while some := list(islice(messages, MESSAGES_MAX)):
            raws.append(raw_of([each.key for each in some], [each.value for each in some]))
            places += [(each.partition, each.offset) for each in some]
        return raws, places

    def _begun(self) -> tuple[RowChange, tuple[str, int]]:
        raws, places = self._to_the_end()
        raw = pa.concat_tables(raws).combine_chunks()
        read = self.declared.read(raw)
        last = last_of_each(read.rows)
        refused = tuple(self._refusal(raw, n, why, places[n]) for n, why in sorted(read.refused.items()))
        there = np.sort(last.column(MESSAGE).to_numpy()[~np.asarray(last.column(GONE).combine_chunks())])
        standing = raw.take(pa.array(there))
        content = self._kept(standing, whole_table(last))
        reached = Read(dict(self.reader.next), self.reader.topic_id)
        return RowChange(0, standing, last, refused, reached), content

    def _refusal(self, raw: pa.Table, number: int, why: str, place: tuple[int, int]) -> Refusal:
        key, value = raw.column("key")[number].as_py(), raw.column("value")[number].as_py()
        return _refusal(key, value, why, Origin(place=f"{self.reader.topic}/{place[0]}/{place[1]}"))

    def _met_the_end(self) -> None:
        there, self._there = self._there, None
        if there is not None and self.reader.topic_id == self._reached.topic_id:
            self._take_away_but(there)
        missed = bool(self._waiting) and self._waiting[0][1].partition < 0  # rows that go: not before that is logged
        if not missed and self.clock_s() >= self._marked_s + MARK_S:
            self._marked_s = self.clock_s()
            self.segments.mark()

    def _take_away_but(self, there: AbstractSet[bytes]) -> None:
        """Rows whose keys are not ``there`` were removed by messages that are gone themselves."""
        last = self.log.epochs[-1].header
        changes = [each.raw for each in self.segments.changes(last.number)]
        standing, _ = content_after(self.declared, [self.segments.content(last), *changes])
        gone = [key for key in standing.column("key").to_pylist() if key not in there]
        if gone and not self.reader.compacted():
            log.warning("rows are not in the topic any more; it is not compacted, so they stay", table=self.name)
        elif gone:
            log.warning("rows are not in the topic any more, and go", table=self.name, rows=len(gone))
            # In front: what the topic has counts.
            of = self.reader.topic_id
            self._waiting.extendleft((of, TopicMessage(self.reader.topic, -1, -1, key, None)) for key in gone)

    def _prepared(self) -> RowChange:
        begun_s, topic_id = self.clock_s(), self._waiting[0][0]
        messages = [each for of, each in takewhile(lambda one: one[0] == topic_id, islice(self._waiting, MESSAGES_MAX))]
        raw = raw_of([each.key for each in messages], [each.value for each in messages])
        read = self.declared.read(raw)
        rows = last_of_each(read.rows)
        refused = tuple(
            _refusal(messages[n].key, messages[n].value, why, _origin(messages[n]))
            for n, why in sorted(read.refused.items())
        )
        reached = dict(self._reached.offsets) if self._reached.topic_id == topic_id else {}
        reached.update({each.partition: each.offset + 1 for each in messages if each.partition >= 0})
        mine = raw.take(pa.array(np.sort(rows.column(MESSAGE).to_numpy())))
        change = RowChange(len(messages), mine, rows, refused, Read(reached, topic_id), _origin(messages[-1]))
        if len(rows) and self._is_to_fold(len(rows)):
            change = replace(change, content=self._content(mine))
            # A table that is written anew each time takes as long as it is large.
            self._pause_s = max(PAUSE_S, 4 * (self.clock_s() - begun_s)) if self._timed else PAUSE_S
        return change

    @property
    def _timed(self) -> bool:
        return self.declared.form.valid_from is not None

    def _is_to_fold(self, more: int) -> bool:
        last = self.log.epochs[-1]
        return self._timed or last.changed + more > max(FOLD_ROWS, last.header.rows // 10)

    def _content(self, raw: pa.Table) -> tuple[str, int]:
        last = self.log.epochs[-1].header
        changes = [each.raw for each in self.segments.changes(last.number)]
        standing, rows = content_after(self.declared, [self.segments.content(last), *changes, raw])
        return self._kept(standing, rows)

    def _kept(self, raw: pa.Table, rows: pa.Table) -> tuple[str, int]:
        digest = self.segments.keep(raw)
        write_rows(self.log.path(Header(0, digest, len(rows), {}, Read({}))), rows)
        return digest, len(rows)

    @property
    def _due(self) -> bool:
        pending = self._pending
        return pending is not None and pending.any and self._report_now(pending)

    def _counted(self, change: RowChange) -> _PendingReport:
        known = self._pending or _PendingReport(float("-inf"))
        removed, reported = change.taken_away, min(known.refusals + len(change.refused), REFUSED_REPORTED_MAX)
        origin = change.origin if len(change.rows) else known.origin
        put = known.put + len(change.rows) - removed
        refused = known.refused + len(change.refused)
        return _PendingReport(known.since_s, put, known.removed + removed, refused, reported, origin)

    def _report_now(self, pending: _PendingReport) -> bool:
        return self.clock_s() >= pending.since_s + REPORT_EACH_S

    def _changed(self, now_ms: int, text: str, origin: Origin) -> RuleEvent:
        event = RuleEvent("table_changed", now_ms, source=self.reader.topic, text=text, table_name=self.name)
        return published_by(event, origin)

    def _refusals(self, refused: Sequence[Refusal], now_ms: int) -> list[RuleEvent]:
        found = []
        for each in refused:
            text = f"table {self.name}: the message {each.key} at {each.origin.place} is no row: {each.why}"
            event = RuleEvent("refused", now_ms, source=each.key, digest=each.digest, text=text, table_name=self.name)
            found.append(published_by(event, each.origin))
        return found

    def _more_refused(self, count: int, now_ms: int) -> list[RuleEvent]:
        if count <= 0:
            return []
        text = f"table {self.name}: {count:,} more messages of {self.reader.topic} are no rows and were passed over"
        return [RuleEvent("refused", now_ms, source=self.reader.topic, text=text, count=count, table_name=self.name)]


def _nothing() -> None:
    """Nothing was written."""


def _origin(message: TopicMessage) -> Origin:
    if message.partition < 0:  # one that is not in the topic any more
        return UNKNOWN
    return Origin(principal_of(message, WHO)[0], message.at_ms, message.header(HOST), message.place)


def _refusal(key: bytes | None, value: bytes | None, why: str, origin: Origin) -> Refusal:
    text = "no key" if key is None else key[:100].decode(errors="backslashreplace")
    return Refusal(text, digest_of(value or b""), why, origin)


_NO_ROWS = pa.table({GONE: pa.array([], pa.bool_())})
