"""The follower: a process that holds the state of a pipeline as of its last batch, and forks who answers on it.

It reads what the pipeline writes, and writes nothing. After a batch, at most every ``pause_ms``, it forks: the fork has
the state as it is (memory is shared until one of them writes), lays over it what came through the API since, and
answers until a later one does. Neither the pipeline nor the follower waits for it.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from crossline.basics.errors import CrosslineError
from crossline.basics.models.processes import HERE
from crossline.logs import configure_helper, get_logger
from crossline.runtime.machine.process_title import set_process_title
from crossline.runtime.snapshot.snapshot import PlanSnapshot, SnapshotFile
from crossline.runtime.snapshot.spark_log import committed, last_committed
from crossline.runtime.state_log.followed_state import FollowedState
from crossline.runtime.workers.kernel_warmup import warm_for
from crossline.runtime.workers.model_processes import RunningModels
from crossline.serve.replica.basis import Bases
from crossline.serve.replica.fork import live
from crossline.serve.replica.messages import FOLLOWER, Alive, ForkNow, Hello, receive, send
from crossline.serve.replica.overlay import StateOverlay, overlay_snapshot
from crossline.serve.replica.sample import sample_record
from crossline.serve.replica.setup import KAFKA, FollowerSetup, sources_of

LOOK_S = 0.005  # between two looks for a batch: a file that is there or not
LIST_S = 1.0  # between two looks at all that is committed
ALIVE_S = 0.5
AGAIN_S = 0.5  # after which what could not be read is tried again
COLLECT_EVERY = 64  # batches between two looks for garbage, of which applying a batch leaves next to none

log = get_logger(__name__)


class Follower:
    """``fork``: makes a process, as ``os.fork`` does."""

    def __init__(self, setup: FollowerSetup, asking: socket.socket, fork: Callable[[], int] = os.fork) -> None:
        self._setup = setup.checked()
        self._asking = asking
        self._fork = fork
        self._file = SnapshotFile(str(Path(setup.checkpoint) / "snapshot.json"))
        self._state = FollowedState(setup.state_root)
        self._snapshot: PlanSnapshot | None = None
        self._overlay_snapshot: PlanSnapshot | None = None
        self._bases: Bases | None = None
        self._models = RunningModels()
        self._by_broker: tuple[str, ...] = ()
        self._followed_by: PlanSnapshot | None = None
        self._due = True  # a fork is
        self._forked_s = self._alive_s = self._listed_s = -1e9
        self._not_before_s = -1e9
        self._reported = ""
        self._batches = 0
        self._forks: set[int] = set()
        self._spent_ms: defaultdict[str, float] = defaultdict(float)

    def run(self) -> None:
        """Until who asks is gone."""
        send(self._asking, Hello(FOLLOWER, self._setup.number, os.getpid()))
        while self._heard():
            self._reap()
            if time.monotonic() < self._not_before_s:
                continue
            try:
                self._follow()
            except (CrosslineError, OSError) as error:
                self._not_before_s = time.monotonic() + AGAIN_S
                if str(error) != self._reported:
                    self._reported = str(error)
                    log.warning("a replica cannot follow; trying again", error=self._reported)
            else:
                self._reported = ""
            self._say_alive()

    def _heard(self) -> bool:
        """Wait a while for a word of who asks; False: it is gone."""
        if not select.select([self._asking], [], [], LOOK_S)[0]:
            return True
        try:
            body: Any = receive(self._asking)
        except (EOFError, ConnectionError):
            return False
        self._due |= isinstance(body, ForkNow)
        return True

    def _reap(self) -> None:
        for pid in list(self._forks):
            with suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    continue
            self._forks.discard(pid)

    def _say_alive(self) -> None:
        now_s = time.monotonic()
        if now_s - self._alive_s >= ALIVE_S:
            self._alive_s = now_s
            with suppress(ConnectionError):
                send(self._asking, Alive(self._state.batch, dict(self._spent_ms)))
            self._spent_ms.clear()

    def _follow(self) -> None:
        batch = self._newest()  # before the plan snapshot: that of a batch is there before the batch is committed
        snapshot = self._file.current()
        if snapshot is not self._snapshot:
            self._take(snapshot)
        if batch > self._state.batch or (self._due and snapshot is not self._followed_by):
            begun_s = time.perf_counter()
            self._state.advance(snapshot, batch)
            self._followed_by = snapshot
            self._spent_ms["follow"] += (time.perf_counter() - begun_s) * 1e3
            self._due = True
            self._batches += 1
            if self._batches % COLLECT_EVERY == 0:
                gc.collect()
        if self._due and time.monotonic() - self._forked_s >= self._setup.pause_ms / 1e3:
            self._make_fork()

    def _newest(self) -> int:
        """The last batch that is committed; where the checkpoint is another one now, all is read anew."""
        batch, now_s = self._state.batch, time.monotonic()
        if now_s - self._listed_s >= LIST_S or batch < 0:
            self._listed_s = now_s
            listed = last_committed(self._setup.checkpoint)
            if listed < batch:
                log.warning("the checkpoint was replaced; a replica restarts", batch=listed, before=batch)
                self._begin()
            return listed
        while committed(self._setup.checkpoint, batch + 1):
            batch += 1
        return batch

    def _begin(self) -> None:
        self._state, self._followed_by = FollowedState(self._setup.state_root), None

    def _take(self, snapshot: PlanSnapshot) -> None:
        """Judge by ``snapshot`` from now on; what is made of it once is made here, so that no fork makes it again."""
        begun_s = time.perf_counter()
        self._by_broker = tuple(s.stream for s in sources_of(self._setup.checkpoint) if s.kind == KAFKA)
        if self._snapshot is None:
            warm_for(snapshot.plans())
        elif snapshot.shards != self._snapshot.shards:
            self._begin()
        mine = overlay_snapshot(snapshot)
        for stream in mine.streams:
            mine.joins(stream)
        self._try(mine)
        self._snapshot, self._overlay_snapshot, self._bases, self._due = snapshot, mine, Bases(mine), True
        gc.collect()
        gc.freeze()
        self._spent_ms["rules"] += (time.perf_counter() - begun_s) * 1e3

    def _try(self, snapshot: PlanSnapshot) -> None:
        """Judge a record or two where nothing is kept: what is loaded or made at first use is there then."""
        scratch = StateOverlay(snapshot, {}, self._by_broker)
        try:
            for stream, spec in snapshot.streams.items():
                for number in range(2):  # the second has an earlier one before it
                    scratch.judge([sample_record(stream, spec, number)])
        except Exception as error:  # noqa: BLE001 - the first call of each fork takes longer then, no more
            log.warning("a made-up record could not be judged; forks begin slower", error=repr(error))

    def _make_fork(self) -> None:
        snapshot, bases = self._overlay_snapshot, self._bases
        if snapshot is None or bases is None:
            return
        begun_s = time.perf_counter()
        self._models.run(snapshot)
        pid = self._fork()
        if pid == 0:
            self._live_as_fork(snapshot, bases)
        self._forks.add(pid)
        self._due, self._forked_s = False, time.monotonic()
        self._spent_ms["fork"] += (time.perf_counter() - begun_s) * 1e3
        self._spent_ms["forks"] += 1

    def _live_as_fork(self, snapshot: PlanSnapshot, bases: Bases) -> NoReturn:
        self._asking.close()
        live(self._setup, StateOverlay(snapshot, self._state.states, self._by_broker), bases, self._state.batch)


def main() -> None:
    """As ``python -m crossline.serve.replica``: the setup is one line of the standard input."""
    configure_helper()
    setup = FollowerSetup.of(sys.stdin.buffer.readline())
    set_process_title("cl-replica")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; who started it ends it
    HERE.share()  # a fork lives for a second or so: a model's process is started here, once
    gc.disable()  # garbage is looked for between batches: a fork must not come upon it
    try:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(setup.socket)
            Follower(setup, asking).run()
    except (ConnectionError, FileNotFoundError):
        pass  # who started it is gone
    finally:
        os._exit(0)
