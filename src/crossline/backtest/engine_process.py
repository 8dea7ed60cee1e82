"""A process that judges for a command, and begins to load what judging takes while the command is still being read.

Loading takes most of a start, and one processor. What reads a command and its rules, and what judges, have little in
common: two processes load them beside each other, and the first one never loads what judges.
"""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

from crossline.basics.errors import PermanentError
from crossline.runtime.java.child_processes import end_with_parent
from crossline.runtime.machine.dataclass_code import write_dataclass_code

if TYPE_CHECKING:
    from crossline.backtest.backtest import BacktestResult, BacktestSpec, OnBatch
    from crossline.backtest.in_process import LocalRun
    from crossline.runtime.work.totals import Totals

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class SharedFlag:
    """A flag of this process and of those that are forked of it later: whoever sets it sets it for all."""

    def __init__(self) -> None:
        self._byte = mmap.mmap(-1, 1)

    def set(self) -> None:
        """Set it; it stays so."""
        self._byte[0] = 1

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._byte[0] == 1


@dataclass(slots=True)
class RemoteRun:
    """A run of the other process. ``running``: it has come to judge."""

    stopping: SharedFlag
    running: bool = False

    def stop(self) -> None:
        """Stop the run. Any thread may call it, and more than once."""
        self.stopping.set()


@dataclass(frozen=True, slots=True)
class _Request:
    judged: BacktestSpec
    output: Path
    decisions: Path | None
    umask: int


@dataclass(slots=True)
class EngineProcess:
    """The process ``number``, and the pipes to it."""

    number: int
    _requests: BinaryIO
    _answers: BinaryIO
    _stop: SharedFlag = field(repr=False)

    @staticmethod
    def begin(prepare: Sequence[Callable[[], None]] = ()) -> EngineProcess:
        """Fork it; it begins to load. Call it while this process has one thread, and has loaded little.

        It ends with this process. ``prepare``: what it calls first.
        """
        stop, (requests, mine), (answers, theirs) = SharedFlag(), os.pipe(), os.pipe()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            number = os.fork()
            if number == 0:
                # A terminal sends its signals to all processes of a run. They stay blocked here: the command's acts.
                os.close(mine)
                os.close(answers)
                _live(prepare, os.fdopen(requests, "rb"), os.fdopen(theirs, "wb"), stop)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(requests)
        os.close(theirs)
        return EngineProcess(number, os.fdopen(mine, "wb"), os.fdopen(answers, "rb"), stop)

    def backtest(
        self,
        judged: BacktestSpec,
        output: Path,
        *,
        decisions: Path | None = None,
        on_batch: OnBatch | None = None,
        on_start: Callable[[Any], None] | None = None,
    ) -> BacktestResult:
        """As ``in_process.backtest``, in that process. ``on_batch`` gets a delivery without its content.

        Raises:
            PermanentError: it died.
            Exception: what it raised.
        """
        run = RemoteRun(self._stop)
        if on_start is not None:
            on_start(run)
        self._ask(_Request(judged, output, decisions, _umask()))
        while True:
            kind, given = self._answer()
            if kind == "running":
                run.running = True
            elif kind == "batch":
                if on_batch is not None:
                    on_batch(*given)
            elif kind == "failed":
                raise given
            else:
                result: BacktestResult = given
                return result

    def _ask(self, request: _Request) -> None:
        body = pickle.dumps(request)
        try:
            self._requests.write(body)
            self._requests.flush()
        except BrokenPipeError:
            raise self._died() from None

    def _answer(self) -> tuple[str, Any]:
        try:
            found: tuple[str, Any] = pickle.load(self._answers)  # noqa: S301 - our own
        except EOFError:
            raise self._died() from None
        return found

    def _died(self) -> PermanentError:
        code = os.waitstatus_to_exitcode(self._reaped())
        text = f"{code}: {signal.strsignal(-code)}" if code < 0 else str(code)
        return PermanentError(
            f"the process that judges ended (exit code {text}); see the system's log for the reason (out of memory?)"
        )

    def end(self) -> None:
        """End it, wherever it is; safe to call twice."""
        if self.number:
            os.kill(self.number, signal.SIGKILL)
            self._reaped()

    def _reaped(self) -> int:
        """Its wait status, once it is gone."""
        _, status = os.waitpid(self.number, 0)
        self.number = 0
        for each in (self._requests, self._answers):
            with suppress(OSError):  # what it has not read is of no use
                each.close()
        return status


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _live(prepare: Sequence[Callable[[], None]], requests: BinaryIO, answers: BinaryIO, stop: SharedFlag) -> NoReturn:
    code = 1
    try:
        end_with_parent()
        for each in prepare:
            each()
        _serve(requests, answers, stop)
        code = 0
    except BrokenPipeError:
        pass  # the command has ended
    except BaseException:  # noqa: BLE001 - above it stands the code of the process that was forked
        traceback.print_exc()
    finally:
        with suppress(OSError):  # whatever comes, nothing of the command runs here
            sys.stderr.flush()
        os._exit(code)


def _serve(requests: BinaryIO, answers: BinaryIO, stop: SharedFlag) -> None:
    """Answer requests until there are none."""
    import numpy.ma  # noqa: F401, PLC0415 - Arrow loads it with the first array; once here, not in every fork

    from crossline.backtest import in_process  # noqa: PLC0415 - what takes its time
    from crossline.io.sinks.delivery import Delivery  # noqa: PLC0415 - as above
    from crossline.runtime.local.worker import sendable  # noqa: PLC0415 - as above
    from crossline.runtime.workers import kernel_warmup  # noqa: F401, PLC0415 - as above

    write_dataclass_code()

    def answer(kind: str, given: Any) -> None:
        pickle.dump((kind, given), answers)
        answers.flush()

    def on_start(run: LocalRun) -> None:
        run.stopping = stop
        answer("running", None)

    def on_batch(delivery: Delivery, totals: Totals) -> None:
        answer("batch", (Delivery(delivery.pipeline, delivery.batch_id), totals))

    while True:
        try:
            request: _Request = pickle.load(requests)  # noqa: S301 - our own
        except EOFError:
            return
        os.umask(request.umask)
        try:
            done = in_process.backtest(
                request.judged, request.output, decisions=request.decisions, on_start=on_start, on_batch=on_batch
            )
        except Exception as error:  # noqa: BLE001 - it is reported by the process that people see
            answer("failed", sendable(error))
        else:
            answer("done", done)
