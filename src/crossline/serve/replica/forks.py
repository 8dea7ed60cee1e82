"""A fork as the process of the API has it: asked one thing at a time, ended where it does not answer; its lag."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from crossline.serve.replica.answers import ReplicaLimits, ReplicationLag
from crossline.serve.replica.messages import ForkReply, ForkRequest, Hello, packed, received
from crossline.serve.replica.pending_records import Ends

# Between two calls: so many times as long as the last one took, and no longer; the most from where calls wait so large
# a share of their time for a processor. The latest call counts so much.
REST_LEAST, REST_MOST, REST_S_MAX, WAITED_MAX, LATEST = 0.25, 3.0, 0.01, 0.5, 0.05
HOLDS_S = 0.005  # for which what was looked up holds: each request asks, and it is short beside any bound

WRITTEN_MAX = 1_000  # files of which it is known

NONE = ReplicationLag(0, -1, ready=False)  # where there is no fork


class LostError(Exception):
    """A fork is gone, or is to be. ``late``: it took too long; ``raised``: what it was asked raised there."""

    def __init__(self, text: str, *, late: bool = False, raised: bool = False) -> None:
        super().__init__(text)
        self.late, self.raised = late, raised


class Fork:
    """``number``: of its follower; ``upto``: the last record laid over it; ``as_of_s``: of its batch's commit.

    ``planned_s``: when its batch was planned; both on the clock that only grows, since the other one may be set.
    """

    def __init__(
        self,
        hello: Hello,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        checkpoint: str,
    ) -> None:
        self.number, self.pid, self.batch = hello.number, hello.pid, hello.batch
        self.as_of_s, self.planned_s = (_noted_s(checkpoint, log, self.batch) for log in ("commits", "offsets"))
        self.ends: Ends = {}
        self.upto: int | None = None  # it has nothing laid over it yet
        self.laying = asyncio.Lock()
        self.closed = False
        self._reader, self._writer = reader, writer
        self._lock = asyncio.Lock()

    async def ask(self, ask: ForkRequest, within_s: float) -> ForkReply:
        """What comes of it. Raises LostError if that is nothing, or takes longer than ``within_s``."""
        async with self._lock:
            if self.closed or self._writer.is_closing():  # uvloop's transports raise RuntimeError when written to then
                raise LostError("it was ended meanwhile")
            try:
                answer: Any = await asyncio.wait_for(self._asked(ask), within_s)
            except TimeoutError:
                raise LostError(f"a call took longer than {within_s:g} s", late=True) from None
            except (EOFError, ConnectionError, OSError) as error:
                raise LostError(f"it ended ({error or type(error).__name__})") from None
        if answer.error:
            raise LostError(answer.error, raised=True)
        return answer  # type: ignore[no-any-return]

    async def _asked(self, ask: ForkRequest) -> Any:
        self._writer.write(packed(ask))
        await self._writer.drain()
        return await received(self._reader)

    def close(self) -> None:
        """Nobody asks it any more: it ends by itself."""
        self.closed = True
        self._writer.close()

    def kill(self) -> None:
        """End it, also one that is stopped."""
        self.close()
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGKILL)


class FileAges:
    """When files were written, on the clock that only grows: the one by which files are dated may be set meanwhile.

    How old a file is by its date is asked once, when it is first seen; one that is dated ahead is of now.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, int], float] = OrderedDict()

    def at_s(self, path: str) -> float:
        """When the file at ``path`` was written. Raises OSError if there is none."""
        dated_ns = os.stat(path).st_mtime_ns  # noqa: PTH116 - asked often
        found = self._known.get((path, dated_ns))
        if found is None:
            found = time.monotonic() - max(0.0, time.time() - dated_ns / 1e9)
            self._known[path, dated_ns] = found
            if len(self._known) > WRITTEN_MAX:
                self._known.popitem(last=False)
        return found


WRITTEN = FileAges()


class CallPace:
    """How long to wait between two calls of a fork.

    A call costs about the same for one record as for ten that came meanwhile. So where processors are scarce, waiting
    makes fewer calls, and leaves the time to others; where they are not, it only makes everybody wait. How scarce they
    are is seen by the share of a call in which it waited for one: its time without its processor time.
    """

    def __init__(self) -> None:
        self._spent_s = self._scarce = 0.0

    def took(self, spent_ms: float, cpu_ms: float) -> None:
        """A call took ``spent_ms``, of which ``cpu_ms`` on a processor."""
        self._spent_s = spent_ms / 1e3
        waited = max(0.0, 1.0 - cpu_ms / spent_ms) if spent_ms else 0.0
        self._scarce += (min(1.0, waited / WAITED_MAX) - self._scarce) * LATEST

    def pause_s(self) -> float:
        """Until the next call."""
        return min(self._spent_s * (REST_LEAST + (REST_MOST - REST_LEAST) * self._scarce), REST_S_MAX)


def _noted_s(checkpoint: str, log: str, batch: int) -> float:
    """When Spark noted ``batch`` in a ``log`` of its own, by ``FileAges``; of one that is not there, now."""
    with suppress(OSError):
        return WRITTEN.at_s(f"{checkpoint}/spark/{log}/{batch}")
    return time.monotonic()


@dataclass(slots=True)
class CheckpointReader:
    """Looks at what the pipeline notes in ``checkpoint``."""

    checkpoint: str
    bounds: ReplicaLimits
    _of: Fork | None = None
    _at_s: float = 0.0
    _lag: ReplicationLag = NONE

    def lag(self, fork: Fork | None) -> ReplicationLag:
        """The age of the oldest batch that was planned and is not in the state of ``fork``; 0 where there is none.

        A pipeline that has nothing to do plans no batch.
        """
        now_s = time.monotonic()
        if fork is None:
            return NONE
        if self._of is not fork or now_s - self._at_s >= HOLDS_S:
            self._of, self._at_s, self._lag = fork, now_s, self._looked_up(fork)
        return self._lag

    def _looked_up(self, fork: Fork) -> ReplicationLag:
        behind_ms = self.bounds.unseen_ms()
        with suppress(OSError):
            planned_s = WRITTEN.at_s(f"{self.checkpoint}/spark/offsets/{fork.batch + 1}")
            behind_ms = max(behind_ms, round((time.monotonic() - planned_s) * 1e3))
        return ReplicationLag(behind_ms, fork.batch, behind_ms <= self.bounds.behind_max_ms)
