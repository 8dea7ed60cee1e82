"""Posts the revisions of one address, in the order of each record, until accepted, refused for good, or too old."""

from __future__ import annotations

import heapq
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import count

from crossline.basics.errors import CrosslineError, RetryableError, SinkError
from crossline.io.webhook.poster import Poster
from crossline.logs import get_logger
from crossline.serve.revisions.queue import QueuedRevision, RevisionQueue
from crossline.serve.revisions.values import AddressState, Status
from crossline.settings.process.serve import RevisionSettings

PAUSE_MS, PAUSE_MS_MAX = 200, 10_000  # between two attempts: doubled each time

Record = tuple[str, str]
log = get_logger(__name__)


class Sender:
    """One address, ``parallel`` messages at a time, of one record one.

    ``idle`` is called whenever something stopped waiting.
    """

    def __init__(
        self,
        address: str,
        settings: RevisionSettings,
        queue: RevisionQueue,
        clock_ms: Callable[[], int],
        idle: Callable[[], None],
    ) -> None:
        self.address = address
        self._settings, self._queue, self._clock_ms, self._idle = settings, queue, clock_ms, idle
        self._poster = Poster(settings, clock_ms)
        self._stop = threading.Event()
        self._poster.use_cancel_token(self._stop)
        self._changed = threading.Condition()
        self._by_record: dict[Record, deque[tuple[int, int]]] = {}  # number, and since when it waits
        self._ready: deque[Record] = deque()
        self._later: list[tuple[float, int, Record]] = []  # when it is tried again
        self._numbers = count()
        self._paused_until_s = 0.0
        self._failures = 0  # of the address, one behind the other
        self._away: str | None = None
        self._counts: dict[Status, int] = {"sent": 0, "parked": 0, "expired": 0}
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Go on with what waits. Raises PermanentError without a key."""
        self._poster.open()
        for seq, stream, record_id, put_ms in self._queue.waiting(self.address):
            self.offer(seq, (stream, record_id), put_ms)
        for number in range(self._settings.parallel):
            thread = threading.Thread(target=self._work, name=f"revisions-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def offer(self, seq: int, record: Record, put_ms: int) -> None:
        """Another one waits, behind those of its record."""
        with self._changed:
            known = self._by_record.get(record)
            if known is not None:
                known.append((seq, put_ms))
                return
            self._by_record[record] = deque([(seq, put_ms)])
            self._ready.append(record)
            self._changed.notify()

    def state(self) -> AddressState:
        """How it stands."""
        with self._changed:
            away, counts = self._away, dict(self._counts)
        pending, oldest_ms = self._queue.pending(self.address), self._queue.oldest_ms(self.address)
        return AddressState(
            self._poster.where, pending, counts["sent"], counts["parked"], counts["expired"], oldest_ms, away
        )

    def stop(self) -> None:
        """End; undelivered revisions wait for the next start."""
        self._stop.set()
        with self._changed:
            self._changed.notify_all()
        for each in self._threads:
            each.join()
        self._poster.close()

    def _work(self) -> None:
        while (record := self._next()) is not None:
            try:
                again_s, first = self._send(record)
            except CrosslineError as error:
                if self._stop.is_set():
                    return
                again_s, first = self._pause(error), True
            except Exception as error:  # a thread that ends would leave its record waiting for ever
                log.exception("a revision could not be sent", address=self._poster.where)
                again_s, first = self._pause(RetryableError(f"{type(error).__name__}: {error}")), True
            self._put_back(record, again_s, first=first)

    def _next(self) -> Record | None:
        """The next record whose turn it is; None at a stop."""
        with self._changed:
            while not self._stop.is_set():
                now_s = time.monotonic()
                if now_s < self._paused_until_s:
                    self._changed.wait(self._paused_until_s - now_s)
                    continue
                while self._later and self._later[0][0] <= now_s:
                    self._ready.append(heapq.heappop(self._later)[2])
                if self._ready:
                    return self._ready.popleft()
                self._changed.wait(self._later[0][0] - now_s if self._later else None)
        return None

    def _send(self, record: Record) -> tuple[float, bool]:
        """Post the first one of ``record``. In how many seconds the next one is tried, and whether before others.

        Raises SinkError if the address is away or busy.
        """
        waiting = self._queue.load(self._by_record[record][0][0])
        try:
            refused, final = self._poster.post(waiting.revision_id, waiting.body)
        except SinkError as error:
            if not self._stop.is_set():
                if waiting.put_ms <= self._expired_ms():
                    self._end(record, waiting, "expired", str(error))
                self._expire(str(error))
            raise
        with self._changed:
            self._failures, self._away = 0, None
        if refused is None:
            self._end(record, waiting, "sent", "")
            return 0.0, False
        self._queue.refused(waiting.seq, refused)
        if final or waiting.attempts + 1 >= self._settings.attempts:
            self._end(record, waiting, "parked", refused)
            return 0.0, False
        return _pause_s(waiting.attempts), False

    def _expired_ms(self) -> int:
        return self._clock_ms() - self._settings.give_up

    def _expire(self, why: str) -> None:
        """Give up what waits too long, all at once: the address does not answer, and each attempt takes its time."""
        before_ms = self._expired_ms()
        with self._changed:
            idle = [*self._ready, *(record for _, _, record in self._later)]  # of the others one is under way
            old = [seq for record in idle for seq, put_ms in self._by_record[record] if put_ms <= before_ms]
            if not old:
                return
            self._queue.expire(self.address, old, self._clock_ms(), why)
            gone = set(old)
            for record in idle:
                left = deque(each for each in self._by_record[record] if each[0] not in gone)
                self._by_record[record] = left
            done = {record for record in idle if not self._by_record[record]}
            for record in done:
                del self._by_record[record]
            self._ready = deque(record for record in self._ready if record not in done)
            self._later = [each for each in self._later if each[2] not in done]
            heapq.heapify(self._later)
            self._counts["expired"] += len(old)
        log.error("revisions were given up", address=self._poster.where, count=len(old), why=why)
        self._idle()

    def _end(self, record: Record, waiting: QueuedRevision, status: Status, why: str) -> None:
        self._queue.done(self.address, waiting.seq, status, self._clock_ms(), why)
        if status != "sent":
            log.error(
                "a revision was not accepted",
                status=status,
                address=self._poster.where,
                id=waiting.revision_id,
                why=why,
            )
        with self._changed:
            self._by_record[record].popleft()
            self._counts[status] += 1
        self._idle()

    def _pause(self, error: CrosslineError) -> float:
        """Ask nothing of the address for a while; 0: the record is ready as soon as others are."""
        asked_ms = error.retry_after_ms if isinstance(error, RetryableError) else None
        with self._changed:
            pause_s = _pause_s(self._failures) if asked_ms is None else asked_ms / 1_000
            if self._away is None:
                log.warning("revisions wait", address=self._poster.where, why=str(error))
            now_s = time.monotonic()
            if now_s >= self._paused_until_s:  # several that fail at once are one failure of the address
                self._failures += 1
            self._away = str(error)
            self._paused_until_s = max(self._paused_until_s, now_s + pause_s)
        return 0.0

    def _put_back(self, record: Record, again_s: float, *, first: bool) -> None:
        with self._changed:
            if not self._by_record[record]:
                del self._by_record[record]
            elif again_s:
                heapq.heappush(self._later, (time.monotonic() + again_s, next(self._numbers), record))
            elif first:
                self._ready.appendleft(record)
            else:
                self._ready.append(record)
            self._changed.notify()


def _pause_s(failures: int) -> float:
    pause_ms = min(PAUSE_MS_MAX, PAUSE_MS << min(failures, 20))
    return pause_ms * random.uniform(0.5, 1.0) / 1_000  # noqa: S311 - no secret
