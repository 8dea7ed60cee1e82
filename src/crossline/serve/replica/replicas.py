"""Replicas as the process of the API has them: who judges, and what is laid over it.

Records are judged in the order in which they came, one call under way at a time: all that waits goes into the next. So
a call's fixed cost is shared by many under load, and a request waits for at most one call before its own.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from crossline.basics.errors import StateError
from crossline.logs import get_logger
from crossline.runtime.snapshot.spark_log import last_committed
from crossline.serve.decisions.values import AsOf, Basis, LogPosition, NotJudgedError, RecordVerdict, SubmittedRecord
from crossline.serve.fault_log import noted, with_fault
from crossline.serve.replica.answers import ReplicaLimits, ReplicationLag, or_raise, together, verdict_of
from crossline.serve.replica.dry_runs import Dry, DryKey, DryRunQueue, laid_of
from crossline.serve.replica.entity import KeyAsked, KeyFigures
from crossline.serve.replica.followers import Followers
from crossline.serve.replica.forks import CallPace, CheckpointReader, Fork, LostError
from crossline.serve.replica.messages import DRY, FORK, ForkRequest, Hello, is_mine, received
from crossline.serve.replica.pending_records import BatchEnds, Ends, PendingRecord, PendingRecords
from crossline.serve.replica.setup import FollowerSetup, sources_of

LAY_S = 0.05  # after which records without a request are laid over
CALL_MAX = 512  # records of one call
LAY_MAX = 2_048  # of one that is only laid over
FAILURES_MAX = 2  # calls that a record may have been part of that came to nothing, before it is left out
BASES_MAX = 1_000
NONE_READY = "no replica is ready"
LEFT_OUT_S = 2.0  # after one was left out, a batch that is planned has it

log = get_logger(__name__)


class Replicas:
    """Judges by read replicas of the pipeline whose checkpoint is ``checkpoint``; see ``Judge``.

    Args:
        checkpoint: the pipeline's folder.
        count: how many followers; each more takes over where one is killed, and takes as much memory.
        bounds: how late, how long and how much.
        state: where shards log their state, where that is not in the checkpoint.

    Example:
        >>> replicas = Replicas("out/checkpoint", count=2)  # doctest: +SKIP
        >>> await replicas.start()  # doctest: +SKIP
        >>> await replicas.judge([asked])  # doctest: +SKIP
        >>> await replicas.close()  # doctest: +SKIP
    """

    def __init__(
        self, checkpoint: str, *, count: int = 1, bounds: ReplicaLimits | None = None, state: str = ""
    ) -> None:
        self._bounds = bounds or ReplicaLimits()
        self._checkpoint = checkpoint
        self._setup = FollowerSetup(checkpoint, "", 0, state, self._bounds.pause_ms).checked()
        self._count = count
        self._waiting = PendingRecords()
        self._forks: dict[int, Fork] = {}  # the latest of each follower
        self._active: Fork | None = None
        self._next: Fork | None = None  # has all laid over that the active one has
        self._pruned = -1  # what this batch has is not known here any more
        self._gone_s = time.monotonic()  # since then there is none that judges, where there is none
        self._settled = 0  # the number of the last record that was answered, or without a waiting request
        self._left_out_s = float("-inf")  # when a record was left out last
        self._pace = CallPace()
        self._work = asyncio.Event()
        self._dry = DryRunQueue(self._work.set, self._learn)
        self._tasks: set[asyncio.Task[None]] = set()
        self._bases: OrderedDict[str, Basis] = OrderedDict()
        self._ends: BatchEnds | None = None
        self._behind = CheckpointReader(checkpoint, self._bounds)
        self.calls = self.handovers = self.lost = 0
        self.spent_ms = 0.0

    async def start(self) -> None:
        """Listen, and start the followers; they are ready once ``lag`` reports it."""
        self._folder = Path(tempfile.mkdtemp(prefix="crossline-replica-"))  # for this user alone
        self._setup = replace(self._setup, socket=str(self._folder / "socket"))
        self._server = await asyncio.start_unix_server(self._connected, self._setup.socket)
        self._followers = Followers(self._setup, self._count)
        await self._followers.start()
        self._task(self._pump())

    async def close(self) -> None:
        """End all of them; waiting calls fail."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._fail_waiting("the API ends", 0)
        self._dry.close()
        await self._followers.close()
        for fork in {*self._forks.values(), *([self._active] if self._active else [])}:
            fork.close()
        self._server.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def judge(
        self, asked: Sequence[SubmittedRecord], *, keep: bool = True
    ) -> list[RecordVerdict | NotJudgedError]:
        """What holds at each of ``asked``, in their order; see ``Judge``.

        Args:
            asked: records, one after the other; those that came before were asked about before.
            keep: whether those that come later see them. A dry run is judged by a copy of the fork, after what is
                there, beside those who really ask (see ``DryRunQueue``).

        Returns:
            Of each its verdict, or why it has none: it does not fit its stream, it came too late, it is known already.

        Raises:
            NotJudgedError: no replica judges now. What is kept is laid over all the same, if there is room; if there is
                none, no replica judges until a batch has it.
        """
        if not asked:
            return []
        if not keep:
            self._check_behind()
            return or_raise(await self._dry.put(asked))
        self._check_room()
        loop = asyncio.get_running_loop()
        entries = [self._waiting.add(each, loop.create_future()) for each in asked]
        self._work.set()
        try:
            self._check_behind()
        except NotJudgedError:
            for entry in entries:
                entry.answer = None
            raise
        return or_raise([await entry.answer for entry in entries if entry.answer is not None])

    async def figures(self, field: str, value: str) -> KeyFigures:
        """Those of one key, computed by a copy of the fork; see ``FigureSource``."""
        return await self._dry.put_key(KeyAsked(field, value), self._check_behind)

    def lay(self, asked: Sequence[SubmittedRecord]) -> None:
        """Records of the stream without a request to a replica: later ones see them all the same."""
        with suppress(NotJudgedError):
            self._check_room()
            for each in asked:
                self._waiting.add(each, None)
        # Nobody waits for it: it goes with what is asked next.
        asyncio.get_running_loop().call_later(LAY_S, self._work.set)

    def placed(self, number: int, place: LogPosition) -> None:
        """The record of that number stands there; see ``Judge``."""
        self._waiting.placed(number, place)

    def dropped(self, number: int) -> None:
        """The record of that number could not be kept: it is laid over no more, from the next fork on."""
        self._waiting.drop(number)

    def basis(self, digest: str) -> Basis:
        """What was in force, by the digest that a verdict names. Raises KeyError for one of long ago."""
        return self._bases[digest]

    def lag(self) -> ReplicationLag:
        """How far behind what is judged on is (see ``CheckpointReader``)."""
        return self._behind.lag(self._active)

    def lags(self) -> list[ReplicationLag]:
        """The same of each follower's latest fork, in the order of their numbers."""
        each = CheckpointReader(self._checkpoint, self._bounds)
        return [each.lag(self._forks.get(number)) for number in range(self._count)]

    def _check_behind(self) -> None:
        if self._active is None and self._next is None and time.monotonic() - self._gone_s > self._bounds.ready_max_s:
            raise NotJudgedError("replica", NONE_READY)
        lag, bound_ms = self.lag(), self._bounds.behind_max_ms
        if lag.ms > bound_ms:
            raise NotJudgedError("replica", f"{lag.ms:,} ms behind (bound {bound_ms:,})")
        if self._active is not None and self._active.planned_s < self._left_out_s + LEFT_OUT_S:
            raise NotJudgedError("replica", "records that came meanwhile are not in a batch yet, and not laid over")

    def _check_room(self) -> None:
        """Whether one more may be laid over; where not, no replica judges until a batch has all that were left out."""
        if len(self._waiting) >= self._bounds.laid_max:
            self._left_out_s = time.monotonic()
            raise NotJudgedError(
                "replica", f"{len(self._waiting):,} records wait for the pipeline (bound {self._bounds.laid_max:,})"
            )

    @property
    def laid_over(self) -> int:
        """How many records are laid over what is judged on, or wait for it."""
        return len(self._waiting)

    def pids(self) -> list[int]:
        """The processes that there are: followers, and those of their forks that may be asked."""
        return [*self._followers.pids(), *(fork.pid for fork in {*self._forks.values(), self._active} if fork)]

    def followers_ms(self) -> dict[str, float]:
        """What the followers' time went to since the start, in ms: `follow`, `rules`, `fork`; and how many `forks`."""
        return dict(self._followers.spent_ms)

    def _task(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a part of the replicas' work failed", error=repr(task.exception()))

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not is_mine(writer.get_extra_info("socket")):
                writer.close()
                return
            hello: Hello = await received(reader)
        except (EOFError, ConnectionError, OSError):
            writer.close()
            return
        if hello.what == DRY:
            self._task(self._dry.receive(hello, reader, writer))
        elif hello.what == FORK:
            self._task(self._take(Fork(hello, reader, writer, self._checkpoint)))
        else:
            self._task(self._followers.receive(hello, reader, writer))

    async def _take(self, fork: Fork) -> None:
        """A fork offers itself: it takes over where it is newer than the one that judges."""
        if fork.batch < self._pruned:
            if last_committed(self._checkpoint) >= self._pruned:
                fork.close()  # an earlier one that comes late: what it would need laid over is forgotten
                return
            self._pruned, self._ends = fork.batch, None  # the checkpoint is another one now
        before = self._forks.get(fork.number)
        self._forks[fork.number] = fork
        fork.ends = self._ends_of(fork.batch)
        if before is not None and before is not self._active and before is not self._next:
            before.close()
        current = self._next or self._active
        newer = current is None or fork.batch > current.batch or current.number == fork.number
        if newer and await self._lay(fork):
            self._offer(fork)
        self._work.set()

    def _ends_of(self, batch: int) -> Ends:
        try:
            if self._ends is None:
                self._ends = BatchEnds(self._checkpoint, sources_of(self._checkpoint))
            return self._ends.of(batch)
        except (StateError, OSError) as error:
            log.warning("it is unknown which records a batch has; all are laid over", batch=batch, error=str(error))
            return {}

    async def _lay(self, fork: Fork) -> bool:
        """Lay over ``fork`` what its batch does not have, up to the last record that was answered."""
        async with fork.laying:
            if fork.upto is None:
                upto = self._settled
                entries = [each for each in self._waiting.upto(upto, fork.ends) if each.failures < FAILURES_MAX]
                try:
                    for at in range(0, len(entries), LAY_MAX):
                        lay = [each.laid(wanted=False) for each in entries[at : at + LAY_MAX]]
                        await fork.ask(ForkRequest(lay), 10 * self._bounds.call_max_s)
                except LostError as error:
                    if not fork.closed:  # else a later one came meanwhile
                        self._lose(fork, error)
                    return False
                fork.upto = upto
        return not fork.closed  # a later one may have come while the last of it was laid over

    def _offer(self, fork: Fork) -> None:
        """``fork`` may judge the next call."""
        before, self._next = self._next, fork
        if before is not None and before is not fork and self._forks.get(before.number) is not before:
            before.close()

    def _lose(self, fork: Fork, error: LostError) -> None:
        """``fork`` is of no use any more: it is ended, and its follower makes another."""
        self.lost += 1
        log.warning("a replica's fork is lost; another takes over", batch=fork.batch, error=str(error))
        if error.late or error.raised:
            fork.kill()
        else:  # it ended: its number may be another's by now
            fork.close()
        if self._forks.get(fork.number) is fork:
            del self._forks[fork.number]
        if self._active is fork:
            self._active, self._gone_s = None, time.monotonic()
        if self._next is fork:
            self._next = None
        self._followers.fork_now(fork.number)

    async def _judging(self) -> Fork | None:
        """Who judges the next call: the newest that has laid over all that was answered; None: there is none now."""
        if self._next is not None:
            before, self._active, self._next = self._active, self._next, None
            self.handovers += 1
            if before is not None and before is not self._active and self._forks.get(before.number) is not before:
                before.close()
            self._prune()
        if self._active is None:
            for fork in sorted(self._forks.values(), key=lambda each: -each.batch):
                if fork.batch >= self._pruned and await self._lay(fork):
                    self._active, self._next = fork, None
                    break
        return self._active

    def _prune(self) -> None:
        """Forget what all have in their state that may still be asked."""
        known = [*self._forks.values(), *([self._active] if self._active else [])]
        oldest = min(known, key=lambda each: each.batch, default=None)
        self._pruned = max(self._pruned, oldest.batch) if oldest is not None else self._pruned
        for entry in self._waiting.prune(oldest.ends if oldest is not None else {}):
            log.warning("a record that was judged came nowhere", stream=entry.asked.stream, id=entry.asked.record_id)

    async def _pump(self) -> None:
        """One call after the other, as long as there is something to ask."""
        while True:
            await self._work.wait()
            self._work.clear()
            try:
                while await self._next_call():
                    await self._rest()
            except Exception as error:
                log.exception("asking a replica failed", error=repr(error))
                self._fail_waiting(with_fault("asking it failed", noted("asking a replica failed", error)), 0)

    async def _rest(self) -> None:
        """Leave most of the time to others: a call costs the same for one record as for ten that came meanwhile."""
        await asyncio.sleep(self._pace.pause_s())

    async def _next_call(self) -> bool:
        """Ask what is to be asked now; whether there may be more."""
        fork = await self._judging()
        if fork is None:
            return await self._without_fork()
        entries = together(self._waiting.after(fork.upto or 0)[:CALL_MAX])
        dry = self._dry.take()
        if entries or dry:
            await self._call(fork, entries, dry)
        return bool(entries or dry)

    async def _without_fork(self) -> bool:
        """No fork judges: calls that waited long enough fail; returns whether to look again."""
        self._fail_waiting(NONE_READY, self._bounds.ready_max_s)
        if not len(self._dry) and not any(True for _ in self._waiting.pending()):
            return False
        with suppress(TimeoutError):
            await asyncio.wait_for(self._work.wait(), 0.05)
        self._work.clear()
        return True

    def _fail_waiting(self, why: str, after_s: float) -> None:
        old_s = time.monotonic() - after_s
        for entry in list(self._waiting.pending()):
            if entry.came_s <= old_s and entry.answer is not None:
                entry.answer.set_result(NotJudgedError("replica", why))
        if not after_s or self._active is None:
            self._dry.fail(why)

    async def _call(self, fork: Fork, entries: Sequence[PendingRecord], dry: Sequence[Dry | DryKey]) -> None:
        sendable = [each for each in entries if each.failures < FAILURES_MAX]
        for each in entries:
            if each.failures >= FAILURES_MAX and each.wanted and each.answer is not None:
                each.answer.set_result(NotJudgedError("record", "judging it failed; see the log of the API"))
        wanted = [each.wanted for each in sendable]
        lay = [each.laid(wanted=is_wanted) for each, is_wanted in zip(sendable, wanted, strict=True)]
        token = self._dry.begin(dry) if dry else 0
        try:
            answer = await fork.ask(ForkRequest(lay, laid_of(dry), token), self._bounds.call_max_s)
        except LostError as error:
            if error.raised:  # one of them did it, and it is unknown which
                for each in sendable:
                    each.failures += 1
            self._dry.lost(token)
            self._lose(fork, error)
            return
        self.calls += 1
        self.spent_ms += answer.spent_ms
        self._pace.took(answer.spent_ms, answer.cpu_ms)
        self._learn(answer.known)
        if entries:
            fork.upto = self._settled = entries[-1].at
        as_of = AsOf(fork.batch, max(0, round((time.monotonic() - fork.as_of_s) * 1e3)), answer.laid)
        self._dry.judged_on(token, as_of)
        for each, (judged, digest) in zip(sendable, answer.judged, strict=False):
            if each.wanted and each.answer is not None:
                each.answer.set_result(verdict_of(judged, digest, as_of))

    def _learn(self, bases: Sequence[Basis]) -> None:
        for each in bases:
            self._bases[each.digest] = each
            self._bases.move_to_end(each.digest)
        while len(self._bases) > BASES_MAX:
            self._bases.popitem(last=False)
