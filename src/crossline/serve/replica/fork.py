"""The forked process: lays records over the state that it was forked with, and answers requests.

Dry runs are judged by a copy of it, beside it: it goes on answering meanwhile.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from crossline.runtime.machine.garbage import collect_seldom
from crossline.runtime.machine.process_title import set_process_title
from crossline.serve.decisions.values import Basis
from crossline.serve.fault_log import noted, with_fault
from crossline.serve.replica.basis import Bases
from crossline.serve.replica.entity import KeyAsked, KeyFigures, key_figures_of
from crossline.serve.replica.messages import DRY, FORK, WITHIN_S, ForkReply, ForkRequest, Hello, receive, send
from crossline.serve.replica.overlay import JudgedRecord, Laid, StateOverlay
from crossline.serve.replica.setup import FollowerSetup

NICE = 10  # how far dry runs stand back
# It lives for a second or so: what it makes is counted, and seldom looked through.
OBJECTS = 20_000


def live(setup: FollowerSetup, overlay: StateOverlay, bases: Bases, batch: int) -> NoReturn:
    """What the fork does; it never returns into the follower that it was, and destroys nothing of it."""
    code = 1
    try:
        gc.freeze()  # what came with the fork is not this process' to destroy, nor to look through
        collect_seldom(OBJECTS)
        gc.enable()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        set_process_title("cl-replica-fork")
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(setup.socket)
            send(asking, Hello(FORK, setup.number, os.getpid(), batch))
            _serve(asking, Answering(overlay, bases), Copies(setup, asking, batch))
    except (EOFError, BrokenPipeError, ConnectionError):
        code = 0  # no more requests: a later fork answers instead
    except BaseException:  # noqa: BLE001 - above it stands the follower's code
        traceback.print_exc()
    finally:
        os._exit(code)


def _serve(asking: socket.socket, answering: Answering, copies: Copies) -> NoReturn:
    while True:
        ask: ForkRequest = receive(asking)
        copies.reap()
        try:
            answer = answering.of(ask)
        except Exception as error:
            send(asking, ForkReply(error=f"{type(error).__name__}: {error}"))
            raise  # the state may have the half of it
        send(asking, answer)
        if ask.dry:
            copies.judge(answering, ask)


class Answering:
    """Answers by one overlay."""

    def __init__(self, overlay: StateOverlay, bases: Bases) -> None:
        self._overlay, self._bases = overlay, bases
        self._sent: set[str] = set()

    def of(self, ask: ForkRequest) -> ForkReply:
        """What comes of what ``ask`` lays over."""
        begun_s, begun_cpu_s = time.perf_counter(), time.thread_time()
        fresh: dict[str, Basis] = {}
        judged = self._judged(ask.lay, fresh) if ask.lay else []
        self._sent |= fresh.keys()
        cpu_ms, spent_ms = (time.thread_time() - begun_cpu_s) * 1e3, (time.perf_counter() - begun_s) * 1e3
        return ForkReply(self._overlay.laid, judged, known=list(fresh.values()), spent_ms=spent_ms, cpu_ms=cpu_ms)

    def dry(self, dry: Sequence[Sequence[Laid] | KeyAsked]) -> ForkReply:
        """What comes of each by itself; this state is of no use afterwards."""
        fresh: dict[str, Basis] = {}
        apart = [self._apart(asked, fresh) for asked in dry[:-1]]
        found = [*apart, self._answer_to(dry[-1], fresh)]
        return ForkReply(dry=found, known=list(fresh.values()))

    def _answer_to(
        self, asked: Sequence[Laid] | KeyAsked, fresh: dict[str, Basis]
    ) -> Sequence[tuple[JudgedRecord, str]] | KeyFigures:
        if isinstance(asked, KeyAsked):
            return key_figures_of(self._overlay.figures(*asked))
        return self._judged(asked, fresh)

    def _judged(self, records: Sequence[Laid], fresh: dict[str, Basis]) -> list[tuple[JudgedRecord, str]]:
        found = []
        for each in self._overlay.judge(records):
            digest = ""
            if each.decision is not None:
                basis = self._bases.of(each.decision)
                digest = basis.digest
                if digest not in self._sent:
                    fresh[digest] = basis
            found.append((each, digest))
        return found

    def _apart(
        self, asked: Sequence[Laid] | KeyAsked, fresh: dict[str, Basis]
    ) -> Sequence[tuple[JudgedRecord, str]] | KeyFigures:
        """Judged in a copy of this process, which is thrown away: so nothing of it stays."""
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                signal.setitimer(signal.ITIMER_REAL, WITHIN_S)
                known: dict[str, Basis] = {}
                try:
                    send(theirs, ForkReply(dry=[self._answer_to(asked, known)], known=list(known.values())))
                except Exception as error:  # noqa: BLE001 - returned in the reply
                    send(theirs, ForkReply(error=_failed(error)))
            finally:
                os._exit(0)
        theirs.close()
        try:
            with ours:
                answer: ForkReply = receive(ours)
        except EOFError:
            answer = ForkReply(error="the process that judged it ended")
        finally:
            os.waitpid(pid, 0)
        if answer.error:
            why = f"a dry run failed: {answer.error}"
            return (
                KeyFigures([], [], why)
                if isinstance(asked, KeyAsked)
                else [(JudgedRecord(None, why=why), "")] * len(asked)
            )
        fresh |= {each.digest: each for each in answer.known}
        (found,) = answer.dry
        return found


def _failed(error: Exception) -> str:
    """For the caller for a dry run; the log has what it was."""
    return with_fault("it could not be judged", noted("a dry run failed", error))


class Copies:
    """Copies of this process that judge dry runs, and return their results on connections of their own."""

    def __init__(self, setup: FollowerSetup, asking: socket.socket, batch: int) -> None:
        self._setup, self._asking, self._batch = setup, asking, batch
        self._pids: list[int] = []

    def judge(self, answering: Answering, ask: ForkRequest) -> None:
        """Begin: it goes on by itself, after the actual callers, and ends in any case."""
        pid = os.fork()
        if pid:
            self._pids.append(pid)
            return
        try:
            signal.setitimer(signal.ITIMER_REAL, WITHIN_S)
            self._asking.close()
            os.nice(NICE)
            with socket.socket(socket.AF_UNIX) as feature_query:
                feature_query.connect(self._setup.socket)
                send(feature_query, Hello(DRY, self._setup.number, os.getpid(), self._batch, ask.token))
                try:
                    answer = answering.dry(ask.dry)
                except Exception as error:  # noqa: BLE001 - returned in the reply
                    answer = ForkReply(error=_failed(error))
                send(feature_query, answer)
        finally:
            os._exit(0)

    def reap(self) -> None:
        """Let go of those that ended."""
        for pid in list(self._pids):
            with suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    continue
            self._pids.remove(pid)
