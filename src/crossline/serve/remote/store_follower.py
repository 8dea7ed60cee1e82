"""Follows a checkpoint on a store for as long as an API runs: a thread that looks, and how old what it saw is."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from crossline.basics.errors import CrosslineError
from crossline.io.objects.file_stores import FileStore, file_store
from crossline.logs import get_logger
from crossline.runtime.machine.temporary_folders import own_folder, sweep
from crossline.serve.remote.checkpoint_copy import CheckpointCopy

LOOK_S = 0.2  # between two looks at what the driver noted
AGAIN_S, AGAIN_S_MAX = 0.5, 5.0  # after which a store that did not answer is asked again
FIRST_S_MAX = 30.0  # that a start waits for the first look; without it the API begins, and is not ready
SETTLE_S = 2.5  # by then a follower has seen that its checkpoint is another one, and has another state
TELL_S = 60.0

log = get_logger(__name__)


class StoreFollower:
    """A folder that is kept like the checkpoint at ``uri``, in a temporary folder of this process.

    Nothing is written to the store, and nothing of its lease is asked for: the pipeline does not notice.

    Args:
        uri: The checkpoint.
        look_s: Seconds between two looks; one costs a listing of a few names.
        store: In place of the one at ``uri``.
        settle_s: How long those who read the folder are given to see that the checkpoint is another one.

    Example:
        >>> follower = StoreFollower("s3://bank/checkpoint")  # doctest: +SKIP
        >>> await follower.start()  # doctest: +SKIP
        >>> replicas = Replicas(str(follower.folder), unseen_ms=follower.unseen_ms)  # doctest: +SKIP
        >>> follower.close()  # doctest: +SKIP
    """

    def __init__(
        self, uri: str, look_s: float = LOOK_S, store: FileStore | None = None, settle_s: float = SETTLE_S
    ) -> None:
        self._uri, self._look_s, self._settle_s = uri, look_s, settle_s
        self._store = store
        self._stop = threading.Event()
        self._seen_s = float("-inf")
        self._began_s = time.monotonic()
        self._reported_s = float("-inf")
        self._reported = ""
        self._first: Callable[[], None] = lambda: None
        sweep()  # what APIs that were killed have left
        self._own = own_folder("replica")
        self.folder = self._own.path / "checkpoint"
        self.folder.mkdir(mode=0o700)
        self._thread = threading.Thread(target=self._keep, name="checkpoint", daemon=True)

    async def start(self) -> None:
        """Begin to look; returns once there is a first copy, or the store does not answer."""
        loop, there = asyncio.get_running_loop(), asyncio.Event()

        def first() -> None:
            with suppress(RuntimeError):  # the caller is gone
                loop.call_soon_threadsafe(there.set)

        self._first = first
        self._thread.start()
        try:
            await asyncio.wait_for(there.wait(), FIRST_S_MAX)
        except TimeoutError:
            log.warning("there is no checkpoint yet; the API answers by the fallback until there is", uri=self._uri)

    def unseen_ms(self) -> int:
        """The time since the last look: changes since then are unknown here."""
        return round((time.monotonic() - max(self._seen_s, self._began_s)) * 1e3)

    def close(self) -> None:
        """Look no more; the folder goes."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(1.0)  # one that waits for a store that is away ends with the process
        self._own.remove()

    def _keep(self) -> None:
        pause_s = AGAIN_S
        copy: CheckpointCopy | None = None
        while not self._stop.is_set():
            looked_s = time.monotonic()
            try:
                if copy is None:
                    copy = CheckpointCopy(self._store or file_store(self._uri), self.folder, self._uri)
                if not copy.look():
                    self._begin_anew(copy)
                    continue
            except Exception as error:  # noqa: BLE001 - any error is logged, and the call tried again
                self._report(str(error) if isinstance(error, CrosslineError | OSError) else repr(error))
                self._first()
                self._stop.wait(pause_s)
                pause_s = min(2 * pause_s, AGAIN_S_MAX)
                continue
            if self._reported:
                log.info("the checkpoint is read again", uri=self._uri, batch=copy.batch)
            self._reported, self._reported_s, pause_s = "", float("-inf"), AGAIN_S
            self._seen_s = looked_s
            self._first()
            self._stop.wait(max(0.0, self._look_s - (time.monotonic() - looked_s)))

    def _begin_anew(self, copy: CheckpointCopy) -> None:
        """The checkpoint is another one. What was judged on the one before is too old by then to be answered on."""
        log.warning("the checkpoint was replaced; replicas restart", uri=self._uri)
        copy.anew()
        self._stop.wait(self._settle_s)
        copy.restart()
        while not self._stop.is_set() and copy.look() and copy.batch < 0:  # another one again shows at the next look
            self._stop.wait(self._look_s)
        self._stop.wait(self._settle_s)

    def _report(self, text: str) -> None:
        now_s = time.monotonic()
        if (text != self._reported and now_s - self._reported_s >= AGAIN_S_MAX) or now_s - self._reported_s >= TELL_S:
            log.warning("the checkpoint cannot be read now; replicas do not go on", uri=self._uri, error=text)
            self._reported_s = now_s
        self._reported = text
