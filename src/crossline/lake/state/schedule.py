"""When the writer takes a snapshot of the state: copied before a round of the writer, put in the lake after it.

A snapshot is of a batch that the tables of the lake have, so what a restored pipeline does not judge again is there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from crossline.basics.errors import StoppedError
from crossline.io.objects.file_stores import file_store
from crossline.io.objects.location import is_uri, under
from crossline.lake.state.state_snapshots import StateSnapshot, StateSnapshots
from crossline.lake.watermark import Watermarks
from crossline.logs import get_logger
from crossline.rule_registry.directory import log_path
from crossline.runtime.machine.temporary_folders import OwnFolder, own_folder, sweep
from crossline.runtime.snapshot.checkpoint_mirror import PINNED
from crossline.runtime.snapshot.checkpoint_store import state_folder_of
from crossline.runtime.snapshot.spark_log import last_committed, query_id
from crossline.runtime.state_log.pinned_checkpoint import BEHIND, CheckpointPlace, PinnedCheckpoint, pin
from crossline.settings.config import PipelineConfig

RETRY_MS = 600_000  # after a failure
_COPY = "checkpoint"  # below a folder of our own, which has a lock beside it

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Pin:
    """A copy of the checkpoint, in a folder that is removed by ``release``."""

    copy: PinnedCheckpoint
    folder: OwnFolder

    def release(self) -> None:
        """Remove it."""
        self.folder.remove()


@dataclass(slots=True)
class StateSchedule:
    """Takes snapshots of a pipeline's state, every ``every_ms`` on the wall clock.

    Failures are logged and never raised: the writer goes on, and the next attempt is ten minutes later.

    Attributes:
        snapshots: Where they are put.
        config: The pipeline.
        folder: The folder of its checkpoint on this machine.
        every_ms: Milliseconds between two of them.
        keep: How many are kept.
        clock_ms: The wall clock.
    """

    snapshots: StateSnapshots
    config: PipelineConfig
    folder: Path
    every_ms: int
    keep: int
    clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    _next_ms: int | None = field(default=None)

    def pin(self) -> Pin | None:
        """Copy the checkpoint, if a snapshot is due and it has another batch than the last one; None: it is not."""
        try:
            return self._pinned() if self._due() else None
        except Exception as error:  # noqa: BLE001 - whatever it is, the writer goes on
            self._failed(error)
            return None

    def put(self, pinned: Pin, stop: threading.Event) -> StateSnapshot | None:
        """Put the copy in the lake, and delete the snapshots beyond ``keep``; None: it was not put."""
        try:
            return self._put(pinned.copy, stop)
        except StoppedError:
            return None
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(error)
            return None

    def _due(self) -> bool:
        now_ms = self.clock_ms()
        if self._next_ms is None:
            last = self._last()
            self._next_ms = now_ms if last is None else last.taken_ms + self.every_ms
        # A clock that was put back must not stop snapshots.
        return now_ms >= self._next_ms or self._next_ms - now_ms > self.every_ms + RETRY_MS

    def _last(self) -> StateSnapshot | None:
        return max(self.snapshots.all(), key=lambda each: each.taken_ms, default=None)

    def _pinned(self) -> Pin | None:
        batch = last_committed(str(self.folder))
        if batch < 0:
            return None
        last = self._last()
        if last is not None and (last.checkpoint, last.batch) == (query_id(str(self.folder)), batch):
            self._next_ms = self.clock_ms() + self.every_ms  # nothing came since
            return None
        within = self.folder / PINNED
        within.mkdir(exist_ok=True)
        sweep(within)
        own = own_folder("state", within)
        try:
            copy = pin(checkpoint_place(self.config, self.folder), own.path / _COPY)
        except BaseException:
            own.remove()
            raise
        if copy is None:
            own.remove()
            return None
        return Pin(copy, own)

    def _put(self, copy: PinnedCheckpoint, stop: threading.Event) -> StateSnapshot | None:
        mark = Watermarks.of(self.snapshots.lake).at(copy.checkpoint, copy.batch)
        if mark is None:  # the round failed, or another writer has cut the batches elsewhere
            log.info("a snapshot of the state is not of a batch that the lake ends with; trying again in ten minutes")
            self._next_ms = self.clock_ms() + RETRY_MS
            return None
        last = self._last()
        # The newest has the highest time, also where the clock was put back.
        taken_ms = max(self.clock_ms(), 0 if last is None else last.taken_ms + 1)
        log_file = log_path(self.config.rules.path, self.config.name)
        taken = self.snapshots.put(copy, mark, log_file, taken_ms, stop)
        self._next_ms = self.clock_ms() + (RETRY_MS if taken is None else self.every_ms)
        if taken is not None:
            log.info("a snapshot of the state is in the lake", batch=taken.batch, files=taken.files, bytes=taken.size)
            self.snapshots.drop_old(self.keep)
        return taken

    def _failed(self, error: Exception) -> None:
        self._next_ms = self.clock_ms() + RETRY_MS
        text = str(error).partition("\n")[0] or type(error).__name__
        log.warning("no snapshot of the state was taken; trying again in ten minutes", error=text)


def checkpoint_place(config: PipelineConfig, folder: Path) -> CheckpointPlace:
    """Where the parts of a pipeline's checkpoint are, whose driver works in ``folder``."""
    place = config.engine.checkpoint
    root = place if is_uri(place) else str(folder)
    return CheckpointPlace(folder, under(root, state_folder_of(folder)), file_store(under(root, BEHIND)))


def state_schedule_of(config: PipelineConfig, snapshots: StateSnapshots, folder: Path) -> StateSchedule | None:
    """The schedule of a pipeline; None: it takes no snapshots."""
    settings = config.lake
    if settings is None or not settings.state_every:
        return None
    return StateSchedule(snapshots, config, folder, settings.state_every, settings.state_keep)
