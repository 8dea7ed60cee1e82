"""A sink that no batch waits for: what it is to get stands on the disk until it has it."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from crossline.basics.errors import CrosslineError, SinkError, StateError
from crossline.io.objects.file_stores import FileStore, LocalFiles, StoreUnavailableError, retry_until_available
from crossline.io.outbox.encoding import packed, unpacked
from crossline.io.sinks.base import CancellableSink, Delivery, RetryPolicy, Sink, SinkWatch, deliver_all, wall_clock_ms
from crossline.logs import get_logger

SUFFIX = ".json"
PLACE = "place"  # the file that says whom a folder is for
TELL_EACH = 1_000  # batches: how far a sink must fall back until it is told again
END_MS = 30_000
AWAY_S_MAX = 60.0  # how long a start waits for a store
CLOSE_S_MAX = 10.0  # how long an end waits for a sink

log = get_logger(__name__)


def waiting_in(folder: Path | FileStore) -> int:
    """How many batches stand there."""
    return sum(name.endswith(SUFFIX) for name in _store(folder).names())


def place_in(folder: Path | FileStore) -> str | None:
    """The place of the sink that the folder is for; None where it does not say."""
    try:
        return retry_until_available(lambda: _store(folder).get(PLACE), within_s=AWAY_S_MAX).decode()
    except FileNotFoundError:
        return None


def _store(folder: Path | FileStore) -> FileStore:
    return LocalFiles(folder) if isinstance(folder, Path) else folder


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a sink does not have yet: how many batches, and since when the oldest of them waits (epoch ms)."""

    batches: int
    since_ms: int | None


class OutboxSink:
    """Gives ``sink`` its deliveries in their order, beside the batches, from ``folder``.

    ``deliver`` returns once the delivery stands on the disk, synced, before the batch is marked as done: so whatever
    becomes of this process or of the sink, the sink gets all of it, at the next start if not now. It gets a delivery
    again where a kill came between its taking it and the file's going, as any sink does.

    A sink that fails for good is told of as an error and tried again after half a minute, without end: the batches do
    not stop for it, and what it does not have is not let go of. A disk that is full holds the batches. ``watch`` is
    told how ``sink`` does. ``place``: of the sink, by which the folder is known to be its own, see ``folders``.
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
        self._failed: CrosslineError | None = None
        self._thread: threading.Thread | None = None
        self._opened = False

    @classmethod
    def from_settings(cls, settings: Any, pipeline: str) -> Self:
        """Not to be had: a pipeline wraps a sink that its settings describe."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Of the sink, for logs."""
        return type(self.sink).__name__

    @property
    def closed(self) -> bool:
        """Whether nothing is given now."""
        return self._thread is None

    def open(self) -> None:
        """Take up what is left of earlier runs. That the sink is away shows later, and holds nothing."""
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
        """Have it on the disk. Raises SinkError where that does not take it."""
        # Numbers of batches may begin anew; what comes again stands there again, and the sink knows it.
        number = self._last = self._last + 1
        path = self._path(number)
        try:
            self._store.put(path, packed(delivery))
            with self._news:
                self._waiting.append((number, wall_clock_ms()))
                behind = len(self._waiting)
                self._news.notify_all()
        except OSError as error:
            raise SinkError(
                f"{self.folder}, {path}: what {self.name} is to get cannot be written: {error.strerror}"
            ) from error
        if behind % TELL_EACH == 0:
            log.warning("a sink is behind", sink=self.name, batches=behind)

    def backlog(self) -> Backlog:
        """What the sink does not have yet."""
        with self._news:
            return Backlog(len(self._waiting), self._waiting[0][1] if self._waiting else None)

    def catch_up(self, stop: threading.Event) -> None:
        """Wait until the sink has all, or ``stop`` is set. Raises what it failed with, where it failed for good."""
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
                told = {"sink": self.name, "file": f"{self.folder}/{self._path(number)}", "error": str(error)}
                log.error("a sink fails; trying again in a while", **told)  # noqa: TRY400 - told, and tried again
                if self._watch is not None:
                    self._watch.failed(self.sink, error)
                with self._news:
                    self._failed = error if isinstance(error, CrosslineError) else SinkError(repr(error))
                    self._news.notify_all()
                self._stop.wait(END_MS / 1_000)

    def _next(self) -> int | None:
        """The oldest that the sink does not have; None at the end."""
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
        raw = retry_until_available(lambda: self._store.get(name), self._stop)
        deliver_all([self.sink], unpacked(raw, f"{self.folder}/{name}"), self._policy, self._stop, self._watch)
        retry_until_available(lambda: self._store.delete(name), self._stop)
        with self._news:
            self._waiting.popleft()
            self._failed = None
            self._news.notify_all()

    def _path(self, number: int) -> str:
        return f"{number:012d}{SUFFIX}"
