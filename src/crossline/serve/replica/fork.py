"""The forked process: lays records over the state that it was forked with, and answers until nobody asks any more."""

from __future__ import annotations

import gc
import os
import signal
import socket
import time
import traceback
from collections.abc import Sequence
from typing import NoReturn

from crossline.engine.machine.title import call_myself
from crossline.serve.decisions.values import Basis
from crossline.serve.replica.basis import Bases
from crossline.serve.replica.messages import FORK, Answer, Ask, Hello, receive, send
from crossline.serve.replica.overlay import Judged, Laid, Overlay
from crossline.serve.replica.setup import Setup

# It lives for a second or so: what it makes is counted, and seldom looked through.
THRESHOLDS = 20_000, 20, 100


def live(setup: Setup, overlay: Overlay, bases: Bases, batch: int) -> NoReturn:
    """What the fork does; it never returns into the follower that it was, and destroys nothing of it."""
    code = 1
    try:
        gc.freeze()  # what came with the fork is not this process' to destroy, nor to look through
        gc.set_threshold(*THRESHOLDS)
        gc.enable()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        call_myself("cl-replica-fork")
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(setup.socket)
            send(asking, Hello(FORK, setup.number, os.getpid(), batch))
            _serve(asking, Answering(overlay, bases))
    except (EOFError, BrokenPipeError, ConnectionError):
        code = 0  # nobody asks any more: a later fork does what this one did
    except BaseException:  # noqa: BLE001 - above it stands the follower's code
        traceback.print_exc()
    finally:
        os._exit(code)


def _serve(asking: socket.socket, answering: Answering) -> NoReturn:
    while True:
        ask: Ask = receive(asking)
        try:
            answer = answering.of(ask)
        except Exception as error:
            send(asking, Answer(error=f"{type(error).__name__}: {error}"))
            raise  # the state may have the half of it
        send(asking, answer)


class Answering:
    """Answers by one overlay."""

    def __init__(self, overlay: Overlay, bases: Bases) -> None:
        self._overlay, self._bases = overlay, bases
        self._told: set[str] = set()

    def of(self, ask: Ask) -> Answer:
        """What comes of ``ask``."""
        begun_s = time.perf_counter()
        fresh: dict[str, Basis] = {}
        judged = self._judged(ask.lay, fresh) if ask.lay else []
        laid = self._overlay.laid
        dry = [self._apart(records, fresh) for records in ask.dry]
        self._told |= fresh.keys()
        return Answer(laid, judged, dry, list(fresh.values()), spent_ms=(time.perf_counter() - begun_s) * 1e3)

    def _judged(self, records: Sequence[Laid], fresh: dict[str, Basis]) -> list[tuple[Judged, str]]:
        found = []
        for each in self._overlay.judge(records):
            digest = ""
            if each.decision is not None:
                basis = self._bases.of(each.decision)
                digest = basis.digest
                if digest not in self._told:
                    fresh[digest] = basis
            found.append((each, digest))
        return found

    def _apart(self, records: Sequence[Laid], fresh: dict[str, Basis]) -> list[tuple[Judged, str]]:
        """Judged in a fork of this fork, which is thrown away: so nothing of it stays."""
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                known: dict[str, Basis] = {}
                try:
                    send(theirs, Answer(0, self._judged(records, known), known=list(known.values())))
                except Exception as error:  # noqa: BLE001 - told by the one that is asked
                    send(theirs, Answer(error=f"{type(error).__name__}: {error}"))
            finally:
                os._exit(0)
        theirs.close()
        try:
            with ours:
                answer: Answer = receive(ours)
        except EOFError:
            answer = Answer(error="the process that judged it ended")
        finally:
            os.waitpid(pid, 0)
        if answer.error:
            return [(Judged(None, why=f"a dry run failed: {answer.error}"), "")] * len(records)
        fresh |= {each.digest: each for each in answer.known}
        return list(answer.judged)
