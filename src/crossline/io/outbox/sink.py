"""An outbox: stores deliveries on disk, and delivers them to its sink beside the batches."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from crossline.basics.errors import CrosslineError, SinkError, StateError
from crossline.io.objects.file_stores import FileStore, LocalFiles, StoreUnavailableError, retry_until_available
from crossline.io.outbox.encoding import decode_delivery, encode_delivery
from crossline.io.sinks.base import CancellableSink, Delivery, RetryPolicy, Sink, SinkWatch, deliver_all, wall_clock_ms
from crossline.logs import get_logger

SUFFIX = ".json"
PLACE = "place"  # the file with the sink that a folder belongs to
LOG_EVERY = 1_000  # batches: how far the backlog grows between two log lines
END_MS = 30_000
AWAY_S_MAX = 60.0  # how long a start waits for a store
CLOSE_S_MAX = 10.0  # how long an end waits for a sink
HELD_BYTES_MAX = 32 << 20  # of pending deliveries that are kept in memory too, so that none of them is read again

log = get_logger(__name__)


def waiting_in(folder: Path | FileStore) -> int:
    """The number of batches in an outbox folder."""
    return sum(name.endswith(SUFFIX) for name in _store(folder).names())


def place_in(folder: Path | FileStore) -> str | None:
    """The destination that the folder belongs to; None where it is not recorded."""
    try:
        return retry_until_available(lambda: _store(folder).get(PLACE), within_s=AWAY_S_MAX).decode()
    except FileNotFoundError:
        return None


def _store(folder: Path | FileStore) -> FileStore:
    return LocalFiles(folder) if isinstance(folder, Path) else folder


@dataclass(frozen=True, slots=True)
class Backlog:
    """The pending batches of a sink: how many, and since when the oldest waits (epoch ms)."""

    batches: int
    since_ms: int | None


class OutboxSink:
    """Delivers to ``sink`` in batch order, asynchronously, from ``folder``.

    ``deliver`` returns once the delivery is synced to disk, before the batch is marked as done. So the sink gets every
    delivery, after a restart at the latest. It gets a delivery twice where the process was killed after the sink had it
    and before its file was deleted, as with any sink.

    What has just been stored goes to the sink as it is, and is read again only after a start, or where more waits than
    HELD_BYTES_MAX. Nobody else changes the files while it is open: an erasure wants the pipeline stopped.

    A permanent error of the sink is logged as an error and retried every half minute, without end: batches go on, and
    pending deliveries stay. A full disk holds the batches. ``watch`` gets the outcome of each attempt. ``place``: the
    sink's destination, which the folder records, see ``folders``.
    """

    def __init__(
        self,
        sink: Sink,
        folder: Path | FileStore,
        policy: RetryPolicy | None = None,
        watch: SinkWatch | None = None,
        place: str = "",
    ) -> None:
        self.sink = sink
        self.folder = folder
        self._store = _store(folder)
        self._policy = policy or RetryPolicy()
        self._watch = watch
        self._place = place
        self._stop = threading.Event()
        self._news = threading.Condition()
        # Numbers of files and when each came, in order. It may get long: nothing here looks through it.
        self._waiting: deque[tuple[int, int]] = deque()
        self._last = 0
        self._held: dict[int, tuple[Delivery, int]] = {}  # by number, with its bytes on disk
        self._held_bytes = 0
        self._failed: CrosslineError | None = None
        self._thread: threading.Thread | None = None
        self._opened = False

    @classmethod
    def from_settings(cls, settings: Any, pipeline: str) -> Self:
        """Not supported: the pipeline wraps a sink in an outbox."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The sink's name, for logs."""
        return type(self.sink).__name__

    @property
    def closed(self) -> bool:
        """Whether the delivery thread does not run."""
        return self._thread is None

    def open(self) -> None:
        """Load pending deliveries of earlier runs, and start. An unreachable sink does not fail the start."""
        try:
            if isinstance(self._store, LocalFiles):
                self._store.delete_temporary_files()  # a kill cut them off: their batches come again
            found = retry_until_available(self._store.listed, within_s=AWAY_S_MAX)
            numbers = ((int(name.removesuffix(SUFFIX)), ms) for name, ms in found.items() if name.endswith(SUFFIX))
            self._waiting = deque(sorted(numbers))
            self._last = self._waiting[-1][0] if self._waiting else 0
            if self._place and place_in(self._store) != self._place:
                retry_until_available(lambda: self._store.put(PLACE, self._place.encode()), within_s=AWAY_S_MAX)
        except (OSError, ValueError, StoreUnavailableError) as error:
            raise StateError(f"{self.folder}: what sinks are to get cannot be read: {error}") from error
        self._thread = threading.Thread(target=self._work, name=f"behind-{self.name}", daemon=True)
        self._thread.start()

    def deliver(self, delivery: Delivery) -> None:
        """Store the delivery on disk. Raises SinkError where the disk fails."""
        # Numbers of batches may begin anew; what comes again stands there again, and the sink knows it.
        number = self._last = self._last + 1
        path = self._path(number)
        try:
            raw = encode_delivery(delivery)
            self._store.put(path, raw)
            with self._news:
                self._waiting.append((number, wall_clock_ms()))
                if self._held_bytes + len(raw) <= HELD_BYTES_MAX:
                    self._held[number] = delivery, len(raw)
                    self._held_bytes += len(raw)
                behind = len(self._waiting)
                self._news.notify_all()
        except OSError as error:
            raise SinkError(
                f"{self.folder}, {path}: what {self.name} is to get cannot be written: {error.strerror}"
            ) from error
        if behind % LOG_EVERY == 0:
            log.warning("a sink is behind", sink=self.name, batches=behind)

    def backlog(self) -> Backlog:
        """The pending batches."""
        with self._news:
            return Backlog(len(self._waiting), self._waiting[0][1] if self._waiting else None)

    def catch_up(self, stop: threading.Event) -> None:
        """Wait until the sink has everything, or ``stop`` is set. Raises the sink's permanent error."""
        with self._news:
            while self._waiting and not stop.is_set():
                if self._failed is not None:
                    raise self._failed
                self._news.wait(0.1)

    def close(self) -> None:
        """Stop giving; what is left is given by the next run.

        Raises SinkError where the sink does not come to an end: it is left to what it does, and not closed.
        """
        self._stop.set()
        with self._news:
            self._news.notify_all()
        if self._thread is not None:
            thread, self._thread = self._thread, None
            thread.join(CLOSE_S_MAX)
            if thread.is_alive():
                self._opened = False
                raise SinkError(
                    f"{self.name} has not ended within {CLOSE_S_MAX:g} s of the stop; what it has not got stands in "
                    f"{self.folder}, and the next run gives it"
                )
        if self._opened:
            self._opened = False
            self.sink.close()

    def _work(self) -> None:
        while (number := self._next()) is not None:
            try:
                self._give(number)
            except Exception as error:  # noqa: BLE001 - whatever it is, the others do not stop for it
                if self._stop.is_set():
                    return
                fields = {"sink": self.name, "file": f"{self.folder}/{self._path(number)}", "error": str(error)}
                log.error("a sink fails; trying again in a while", **fields)  # noqa: TRY400 - logged, and retried
                if self._watch is not None:
                    self._watch.failed(self.sink, error)
                with self._news:
                    self._failed = error if isinstance(error, CrosslineError) else SinkError(repr(error))
                    self._news.notify_all()
                self._stop.wait(END_MS / 1_000)

    def _next(self) -> int | None:
        """The oldest pending delivery; None at the end."""
        with self._news:
            while not self._waiting and not self._stop.is_set():
                self._news.wait()
            return None if self._stop.is_set() else self._waiting[0][0]

    def _give(self, number: int) -> None:
        if not self._opened:
            if isinstance(self.sink, CancellableSink):
                self.sink.use_cancel_token(self._stop)
            self.sink.open()
            self._opened = True
        name = self._path(number)
        delivery, held_bytes = self._held.get(number) or (None, 0)
        if delivery is None:
            raw = retry_until_available(lambda: self._store.get(name), self._stop)
            delivery = decode_delivery(raw, f"{self.folder}/{name}")
        deliver_all([self.sink], delivery, self._policy, self._stop, self._watch)
        retry_until_available(lambda: self._store.delete(name), self._stop)
        with self._news:
            self._waiting.popleft()
            self._held.pop(number, None)
            self._held_bytes -= held_bytes
            self._failed = None
            self._news.notify_all()

    def _path(self, number: int) -> str:
        return f"{number:012d}{SUFFIX}"
