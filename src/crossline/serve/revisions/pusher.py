"""Delivers revisions to all configured addresses."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from crossline.io.sinks.base import wall_clock_ms
from crossline.logs import get_logger
from crossline.serve.revisions.queue import RevisionQueue
from crossline.serve.revisions.sender import Sender
from crossline.serve.revisions.values import AddressState, FailedDelivery, Revision
from crossline.settings.process.serve import RevisionSettings

FILE = "revisions.db"

log = get_logger(__name__)


class RevisionPusher:
    """Posts revisions to each address, signed as the messages of sink ``webhook`` are.

    Guarantee: at least once, under one id (``Idempotency-Key``, and ``revision_id`` in the body), those of one record
    in the order in which they were put. What was put survives kills. While an address is away or busy (429, 503), its
    revisions wait: up to ``give_up`` each, up to ``pending_max`` of them. One that is refused ``attempts`` times, or
    once for what is in it (400, 413, 422), is parked, and those behind it go on. An address that fails holds up no
    other one.

    Args:
        path: The file of what waits, ``revisions.db`` in the folder of ``serve.path``.
        settings: ``serve.revisions``.
        clock_ms: The wall clock, in epoch milliseconds.

    >>> with RevisionPusher(Path("out/serve/revisions.db"), settings.revisions) as pusher:
    ...     pusher.put([revision])
    1
    """

    def __init__(
        self, path: Path, settings: Sequence[RevisionSettings], *, clock_ms: Callable[[], int] = wall_clock_ms
    ) -> None:
        self._path, self._settings, self._clock_ms = path, tuple(settings), clock_ms
        self._queue: RevisionQueue | None = None
        self._senders: dict[str, Sender] = {}
        self._bounds = {_name_of(each.url): each.pending_max for each in self._settings}
        self._order = threading.Lock()
        self._ended = threading.Condition()

    def open(self) -> None:
        """Take up the file, and go on with what waits there.

        Raises PermanentError if a key is missing or another process sends from this file, StateError where the
        file is damaged.
        """
        self._queue = queue = RevisionQueue(self._path)
        try:
            for each in self._settings:
                name = _name_of(each.url)
                self._senders[name] = Sender(name, each, queue, self._clock_ms, self._notify_ended)
            for sender in self._senders.values():
                sender.start()
        except BaseException:
            self.close()
            raise
        left = [name for name in queue.addresses() if name not in self._senders]
        if left:
            log.warning("revisions wait for addresses that are not configured", addresses=left)

    def put(self, revisions: Sequence[Revision]) -> int:
        """Keep ``revisions`` for all addresses, and deliver them soon. Those that are known are left out.

        Returns once they are on the disk; it waits for no address. Do not call it on an event loop: it syncs a file.

        Returns:
            How many are new, over all addresses.

        Raises:
            QueueFullError: Too many wait for some address; nothing was kept. Put them again later.
            RetryableError: The disk takes nothing now; nothing was kept.
        """
        if self._queue is None:
            raise ValueError("the pusher is not open")
        if not revisions or not self._senders:
            return 0
        with self._order:
            now_ms = self._clock_ms()
            fresh = self._queue.put(self._bounds, revisions, now_ms)
            for name, seq, each in fresh:
                self._senders[name].offer(seq, (each.stream, each.record_id), now_ms)
        return len(fresh)

    def states(self) -> list[AddressState]:
        """How it stands with each address, in the order of the settings."""
        return [each.state() for each in self._senders.values()]

    def failed(self, limit: int = 100) -> list[FailedDelivery]:
        """Revisions that were not delivered to some address, within seven days, the latest first."""
        return [] if self._queue is None else self._queue.failed(limit)

    def wait_idle(self, timeout_s: float) -> bool:
        """Whether nothing waits any more, at the latest after ``timeout_s``."""
        with self._ended:
            return self._ended.wait_for(
                lambda: not any(each.state().pending for each in self._senders.values()), timeout_s
            )

    def close(self) -> None:
        """End; undelivered revisions wait for the next start. Safe to call twice."""
        for each in self._senders.values():
            each.stop()
        self._senders.clear()
        if self._queue is not None:
            self._queue.close()
            self._queue = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _notify_ended(self) -> None:
        with self._ended:
            self._ended.notify_all()


def _name_of(url: str) -> str:
    """A name for the file that is no secret: what stands behind the host may be one."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}:{parts.port}#{hashlib.sha256(url.encode()).hexdigest()[:16]}"
