"""Processes that run the stages of batches, each batch through all of them, one batch a stage behind the other."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa

from crossline.basics.errors import PermanentError, StoppedError
from crossline.runtime.local.crashes import take_crash
from crossline.runtime.local.worker import StageRequest, StageResult, Worker, as_message, take_outcome, write_rows
from crossline.runtime.stages.stages import Stage
from crossline.runtime.work.rows import Rows

AHEAD = 2  # batches under way: while the last process ends a stage of one, the others begin with the next
QUEUED = 2  # requests that a process has at most when it gets a piece of the input: what runs, and what is next
LOOK_S = 0.1  # between two looks at whether to stop
END_S = 2.0  # for the exit code of a process that is gone

# The input of a batch in pieces, of which the first is read by the first process, and so on; or each by any process.
Dealt = Sequence[Sequence[pa.RecordBatch]]


@dataclass(slots=True)
class _RunningBatch:
    """A batch: the stage it is at, how many requests of it have yet to end, and what came of it so far."""

    stage: int = 0
    left: int = 0
    rows: defaultdict[tuple[int, int], list[str]] = field(default_factory=lambda: defaultdict(list))
    outcome: dict[tuple[int, int, int], Rows] = field(default_factory=dict)  # by stage, piece and process

    def note(self, done: StageResult) -> None:
        """One request of the stage ended."""
        for to, path in done.rows.items():
            self.rows[to].append(path)
        self.outcome[done.stage, *done.place] = take_outcome(done.outcome)
        self.left -= 1

    def in_order(self) -> Rows:
        """The outcome, in an order that does not depend on who was first."""
        return [row for place in sorted(self.outcome) for row in self.outcome[place]]


class StopFlag(Protocol):
    """What an event of ``threading`` is too."""

    def is_set(self) -> bool:
        """Whether to stop."""
        ...

    def set(self) -> None:
        """Stop."""
        ...


class Pool:
    """``count`` processes, forked when the context is entered and gone when it is left. Files lie in ``folder``.

    Fork it while this process has one thread, and all that it needs is loaded. ``ahead``: batches under way; with 1 a
    batch begins once the caller is done with the one before. ``anywhere``: each piece of the input is read by whichever
    process has least to do: what shards are judged by is not the same for all, and a process cannot give a shard away.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        count: int,
        folder: Path,
        stop: StopFlag | None = None,
        ahead: int = AHEAD,
        *,
        anywhere: bool = False,
    ) -> None:
        self._ahead = ahead
        self._anywhere = anywhere
        self._pieces: deque[StageRequest] = deque()  # that no process has yet
        self._queued = [0] * count  # requests that each process has
        self._stages = stages
        self._count = count
        self._folder = folder
        self._stop = stop or threading.Event()
        self._connections: list[Connection] = []
        self._processes: list[BaseProcess] = []
        self._workers: list[Worker] = []

    def __enter__(self) -> Self:
        try:
            # A terminal sends its signals to all processes of a run: this one alone acts on them.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
            try:
                with _no_collection():
                    self._start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)  # a signal that came is acted on here
        except BaseException:
            self._end()
            raise
        return self

    def _start(self) -> None:
        context = multiprocessing.get_context("fork")
        for number in range(self._count):
            ours, theirs = context.Pipe()
            worker = Worker(self._stages, number, self._count, self._folder)
            self._workers.append(worker)
            self._connections.append(ours)
            process = context.Process(target=_serve, args=(worker, theirs, tuple(self._connections)), daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        """What they know is of no use any more: they are killed, all of them before the first is waited for."""
        for connection in self._connections:
            connection.close()
        self._kill()
        for process in self._processes:
            process.join()
        for worker in self._workers:
            take_crash(worker.crash)
        self._connections, self._processes, self._workers = [], [], []

    def _kill(self) -> None:
        """Of processes that have ended nothing is left to kill."""
        for process in self._processes:
            process.kill()

    def run(self, batches: Iterable[Dealt], first: int = 0) -> Iterator[Rows]:
        """The outcome of each batch, in order; the batches are numbered from ``first`` on.

        Raises:
            StoppedError: ``stop`` was set.
            PermanentError: a process died.
            Exception: what a step raised.
        """
        waiting = enumerate(batches, first)
        under_way: dict[int, _RunningBatch] = {}
        exhausted = False
        while True:
            while not exhausted and len(under_way) < self._ahead:
                batch_id, dealt = next(waiting, (-1, None))
                exhausted = dealt is None
                if dealt is not None:
                    under_way[batch_id] = _RunningBatch(left=self._begin(batch_id, dealt))
            if not under_way:
                return
            self._deal()
            for done in self._received():
                under_way[done.batch_id].note(done)
            for rows in self._moved_on(under_way):
                if exhausted and not under_way:
                    self._kill()  # now: the system takes their memory back while the caller writes the last outcome
                yield rows

    def _moved_on(self, under_way: dict[int, _RunningBatch]) -> Iterator[Rows]:
        """Send batches that are done with a stage on to the next one; the outcomes of those that are done with all.

        None goes on to a stage before the batch ahead of it: processes work off their requests in order, and states
        want batches in theirs.
        """
        ahead: _RunningBatch | None = None
        for batch_id, batch in list(under_way.items()):
            if not batch.left and (ahead is None or ahead.stage > batch.stage):
                batch.stage += 1
                if batch.stage == len(self._stages):
                    del under_way[batch_id]
                    yield batch.in_order()
                    continue
                batch.left = self._count
                for number in range(self._count):
                    rows = tuple(sorted(batch.rows.pop((batch.stage, number), ())))
                    self._send(number, StageRequest(batch_id, batch.stage, rows))
            ahead = batch

    def _begin(self, batch_id: int, dealt: Dealt) -> int:
        """Ask for the first stage of a batch, of each process its own piece; pieces for any are left to ``_deal``.

        How many requests it takes.
        """
        pieces = [*dealt, *[()] * ((1 if self._anywhere else self._count) - len(dealt))]
        for number, mine in enumerate(pieces):
            files = [
                write_rows(self._folder / f"{batch_id}-in-{number}-{place}", [rows]) for place, rows in enumerate(mine)
            ]
            request = StageRequest(batch_id, 0, tuple(files), number)
            if self._anywhere:
                self._pieces.append(request)
            else:
                self._send(number, request)
        return len(pieces)

    def _deal(self) -> None:
        """Hand out pieces, so that no process waits and none has more than it can begin soon."""
        while self._pieces:
            number = min(range(self._count), key=self._queued.__getitem__)
            if self._queued[number] >= QUEUED:
                return
            self._send(number, self._pieces.popleft())

    def _send(self, number: int, request: StageRequest) -> None:
        self._queued[number] += 1
        try:
            self._connections[number].send(request)
        except OSError:
            raise self._gone() from None

    def _gone(self) -> PermanentError:
        """That a process is gone: its end of a pipe is, which comes shortly before its exit code is there."""
        gone = wait([process.sentinel for process in self._processes], END_S)
        for process in self._processes:
            if process.sentinel in gone:
                process.join(END_S)
        codes = ", ".join(_code(process.exitcode) for process in self._processes if process.exitcode is not None)
        calls = "\n".join(filter(None, (take_crash(worker.crash) for worker in self._workers)))
        why = f"it was in\n{calls}" if calls else "see the system's log for the reason (out of memory?)"
        return PermanentError(f"a process that judges ended (exit code {codes or 'unknown'}); {why}")

    def _received(self) -> list[StageResult]:
        while True:
            if self._stop.is_set():
                raise StoppedError("stopped before all was judged")
            ready = wait(self._connections, LOOK_S)
            try:
                found = [self._taken(each) for each in ready if isinstance(each, Connection)]
            except (EOFError, OSError):
                raise self._gone() from None
            if found:
                return found

    def _taken(self, connection: Connection) -> StageResult:
        done = as_message(connection.recv())
        self._queued[self._connections.index(connection)] -= 1
        return done


@contextmanager
def _no_collection() -> Iterator[None]:
    """Python does not look for garbage here, nor in a copy of this process until it has set its own apart.

    What is garbage is for this process to destroy, where its threads are. A copy that destroys a client of a broker,
    say, waits for threads that it does not have, or crashes. So a copy never looks through what came with the fork
    (``Worker.serve``), and none is collected before the fork, which would take tens of milliseconds.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _code(exitcode: int) -> str:
    return f"{exitcode}: {signal.strsignal(-exitcode)}" if exitcode < 0 else str(exitcode)


def _serve(worker: Worker, connection: Connection, others: Sequence[Connection]) -> None:
    for each in others:  # so that each process sees when the one that started them is gone
        each.close()
    worker.serve(connection)
