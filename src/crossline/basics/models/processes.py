"""Models that run, each in a process of its own, which is started when it is asked for the first time.

It is another program that is started, not a copy of this one: a process with threads of Java and of brokers is not to
be forked. Bytes go in and numbers come out; it ends with this process, which closes its pipe.

Copies of a process leave its models' processes to it, unless it shares them (``Processes.share``): then they take turns
in asking (``turns.py``), and one that comes upon a process that was left with half a request starts its own.
"""

from __future__ import annotations

import atexit
import mmap
import os
import signal
import subprocess
import sys
import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from crossline.basics.models.session import BLOCK, BLOCKS_MAX, BOARD_BYTES, Board, read_message, write_message
from crossline.basics.models.turns import TornError, Turn
from crossline.basics.values import F64

MEMORY_BYTES_MAX = 1 << 30  # of a model's process: its graph, what it computes, and the runtime (some 0.2 GiB)
PROCESSES_MAX = 16  # that stay for a process that asks; the one that was asked longest ago makes room
DEATHS_MAX = 4  # of one model in one process; then it is asked no more
_AT_ONCE = BLOCKS_MAX * BLOCK  # records of one request
_MODULE = "crossline.basics.models.session"
# What the process gets of the environment: nothing that a password may stand in.
_PASSED = {"PATH", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "LANG", "TMPDIR"}


# Name, type and shape of each input.
Inputs = tuple[tuple[str, str, tuple[int | str | None, ...]], ...]


class ModelError(Exception):
    """What is wrong with a model: ``found``, and what was ``expected``."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"{found}; expected {expected}")
        self.found, self.expected = found, expected


class NoProcessError(ModelError):
    """No process could be started, or something else ended it; the model may be sound."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Whole seconds of a processor: to open a model, to score a block of records; the kernel gives up to 1 s more."""

    open_s: int
    block_s: int


# What was tried has room when it runs: on a slower machine, beside others, over other records.
TRIED = Limits(5, 1)
RUNS = Limits(20, 5)


@dataclass(frozen=True, slots=True)
class Described:
    """The description that a model contains. ``outputs``: name and type of each."""

    version: str
    inputs: Inputs
    outputs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """What is given to a model, and what is read: ``inputs`` are names and types, ``features`` names of columns."""

    features: tuple[str, ...]
    inputs: tuple[tuple[str, str], ...]
    output: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a block has no scores. ``expected`` None: the graph raised. ``sure``: another time it will be the same."""

    found: str
    expected: str | None = None
    sure: bool = True

    @property
    def error(self) -> ModelError:
        """As what is wrong with the model."""
        if self.expected is None:
            return ModelError(f"a model that fails ({self.found})", "one that scores any numbers")
        return (ModelError if self.sure else NoProcessError)(self.found, self.expected)

    def __str__(self) -> str:
        return self.found if self.expected is None else f"{self.found}; expected {self.expected}"


_UNKNOWN_FAILURE = Failure("a model that fails")
_NO_MORE = Failure(
    f"a model that ended its process {DEATHS_MAX} times, and is asked no more by this worker",
    "another version of its rule, or the run to be started again",
)


class _OpenError(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class _Process:
    """One that runs the model in ``data``. Raises _OpenError where that cannot be opened.

    ``turn``: of those that ask it, where copies of this process do, too.
    """

    turn: Turn | None = None

    def __init__(self, data: bytes, limits: Limits) -> None:
        self._mine = True
        environment = {name: value for name, value in os.environ.items() if name in _PASSED or name.startswith("LC_")}
        environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        environment["PYTHONPATH"] = os.pathsep.join(each for each in sys.path if each)
        board = os.memfd_create("scores")
        os.ftruncate(board, BOARD_BYTES)
        try:
            # A terminal sends its signals to all processes of a run: those that use this one act on them.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, str(board)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
                pass_fds=[board],
            )
        except OSError as error:
            text = f"no process for a model ({error.strerror or error})"
            raise NoProcessError(text, "one more to be allowed here") from None
        else:
            self._board = Board(mmap.mmap(board, BOARD_BYTES))
        finally:
            os.close(board)
        self._given: Any = self._process.stdin
        self._answers: Any = self._process.stdout
        text = self._asked(limits.open_s, {"memory_bytes": MEMORY_BYTES_MAX, "open_s": limits.open_s}, data)
        failed = text if isinstance(text, Failure) else Failure(*text["failed"]) if "failed" in text else None
        if failed is not None:
            self.close()
            raise _OpenError(failed)
        inputs = tuple((name, kind, tuple(shape)) for name, kind, shape in text["inputs"])
        self.described = Described(text["version"], inputs, tuple((name, kind) for name, kind in text["outputs"]))

    @property
    def dead(self) -> bool:
        """Whether it is gone; for one that another process started, only a request shows it."""
        return self._mine and self._process.poll() is not None

    @property
    def torn(self) -> bool:
        """Whether a copy of this process ended in the middle of asking it."""
        return self.turn is not None and self.turn.torn()

    def run(self, ask: Ask, rows: F64, limits: Limits) -> tuple[list[F64 | Failure], bool]:
        """The answer for each block, up to the one at which it died, and whether it did. Raises TornError."""
        if self.turn is None:
            return self._run(ask, rows, limits)
        with self.turn.held():
            found, died = self._run(ask, rows, limits)
            if not died:
                self.turn.done()
        return found, died

    def _run(self, ask: Ask, rows: F64, limits: Limits) -> tuple[list[F64 | Failure], bool]:
        asked = {"features": ask.features, "inputs": ask.inputs, "output": ask.output, "block_s": limits.block_s}
        self._board.done = 0
        reply = self._asked(limits.block_s, asked, rows.tobytes())
        done = self._board.done
        scores, good = self._board.scores[:done].copy(), self._board.good[:done].tolist()
        cut = [each[: len(rows) - number * BLOCK] for number, each in enumerate(scores)]
        # The errors of the blocks before the one that ended it are lost; their records are scored again.
        why = {} if isinstance(reply, Failure) else {number: Failure(*more) for number, *more in reply}
        found: list[F64 | Failure] = [
            each if good[number] else why.get(number, _UNKNOWN_FAILURE) for number, each in enumerate(cut)
        ]
        if isinstance(reply, Failure) and self._process.returncode != 0:
            found.append(reply)  # an exit with status 0 follows from a closed pipe, and not from a block
        return found, isinstance(reply, Failure)

    def _asked(self, seconds: int, value: Mapping[str, Any], behind: bytes) -> Any:
        """The answer; a Failure where there is none."""
        try:
            write_message(self._given, value, behind)
            message = read_message(self._answers)
        except OSError:
            message = None
        except ValueError:  # no answer of ours: a graph has broken more than itself
            self._process.kill()
            message = None
        except BaseException:  # a signal's: who asks next is not to read what was meant for this one
            self.close()
            raise
        return self._died(seconds) if message is None else message[0]

    def _died(self, seconds: int) -> Failure:
        code = self._process.wait()
        self.close()
        if code == -signal.SIGXCPU:
            expected = f"one that opens, and scores {BLOCK} records, at once"
            return Failure(f"a model that takes more than {seconds} s of a processor", expected)
        text = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        expected = f"one that needs no more than {MEMORY_BYTES_MAX >> 20:,} MiB of memory"
        return Failure(f"a model that ends its process ({text})", expected, sure=False)

    def close(self) -> None:
        """End it, or let go of it where another process started it; safe to call twice."""
        if not self._mine:
            self.forget()
            return
        self._process.kill()
        self._process.wait()
        self._given.close()
        self._answers.close()

    def adopt(self) -> None:
        """In a copy of the process that started it: ask it in turn with that one, which ends it."""
        self._mine, self._process.returncode = False, 0

    def forget(self) -> None:
        """In a copy of the process that started it: leave it to that one, and what was half written to it."""
        self._process.returncode = 0
        self._given.raw.close()
        self._answers.raw.close()


class Processes:
    """Those of this process, by the digests of their models; one is asked at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: OrderedDict[str, _Process] = OrderedDict()
        self._described: dict[str, Described] = {}
        self._unopened: dict[tuple[str, Limits], Failure] = {}
        self._deaths: Counter[str] = Counter()
        self._shared = False

    def share(self) -> None:
        """From now on copies of this process ask the same processes, those that are started from now on."""
        self._shared = True

    def ready(self, digest: str, data: bytes) -> None:
        """Have the process of this model run, before copies are made. Raises ModelError where it cannot be opened."""
        with self._lock:
            known = self._running.get(digest)
            if known is not None and known.torn:
                self._running.pop(digest).close()
            self._described[digest] = self._process(digest, data, RUNS).described

    def described(self, digest: str, data: bytes, limits: Limits = RUNS) -> Described:
        """The description of the model in ``data``. Raises ModelError where it cannot be opened."""
        with self._lock:
            if digest not in self._described:
                self._described[digest] = self._process(digest, data, limits).described
            return self._described[digest]

    def run(self, digest: str, data: bytes, ask: Ask, rows: F64, limits: Limits = RUNS) -> list[F64 | Failure]:
        """The scores of each ``BLOCK`` of ``rows`` (n x k), or why it has none. Raises ModelError as ``described``.

        A process that dies over a block is replaced for the next; of a model that does so time and again none is asked.
        """
        found: list[F64 | Failure] = []
        with self._lock:
            while (start := len(found) * BLOCK) < len(rows):
                if limits is RUNS and self._deaths[digest] >= DEATHS_MAX:
                    return [*found, *[_NO_MORE] * -(-(len(rows) - start) // BLOCK)]
                try:
                    more, died = self._process(digest, data, limits).run(ask, rows[start : start + _AT_ONCE], limits)
                except TornError:
                    self._running.pop(digest).close()
                    continue
                found += more
                if died:
                    del self._running[digest]
                    if limits is RUNS or not more:
                        self._deaths[digest] += 1
        return found

    def _process(self, digest: str, data: bytes, limits: Limits) -> _Process:
        known = self._running.get(digest)
        if known is not None and not known.dead:
            self._running.move_to_end(digest)
            return known
        if known is not None:  # it was idle for long, or the system ended it
            self._running.pop(digest).close()
        if find_spec("onnxruntime") is None:
            raise NoProcessError("no ONNX Runtime here", "it to be installed: pip install 'crossline[onnx]'")
        no_more = limits is RUNS and self._deaths[digest] >= DEATHS_MAX
        failed = _NO_MORE if no_more else self._unopened.get((digest, limits))
        if failed is not None:
            raise failed.error
        try:
            made = self._running[digest] = _Process(data, limits)
            made.turn = Turn() if self._shared else None
        except _OpenError as error:
            if error.failure.sure:
                self._unopened[digest, limits] = error.failure
            elif limits is RUNS:
                self._deaths[digest] += 1
            raise error.failure.error from None
        while len(self._running) > PROCESSES_MAX:
            self._running.popitem(last=False)[1].close()
        return made

    def close(self) -> None:
        """End them all; what is asked later starts anew."""
        while self._running:
            self._running.popitem()[1].close()

    def forget(self) -> None:
        """In a copy of this process: leave them to the one that has them, or ask them in turn with it."""
        self._lock = threading.Lock()
        for digest, each in list(self._running.items()):
            if self._shared:
                each.adopt()
            else:
                self._running.pop(digest).forget()


HERE = Processes()
os.register_at_fork(after_in_child=HERE.forget)
atexit.register(HERE.close)
