"""The process that one model runs in: it scores blocks of records for ``processes.py``, under limits of its own.

A graph is a foreign program: it may run for ever, request all memory there is, or crash the process that it runs in. So
it has a process of its own. The kernel ends it where a block uses more processor time than it may, and limits its
memory. Records come and errors go over pipes (``read_message``). Scores stand in shared memory (``Board``), so the
scores of the blocks before a crash are not lost, and no process is woken for each block.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import select
import signal
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

# Records are scored by so many at a time, always: how a matrix product is rounded may depend on its height.
BLOCK = 64
BLOCKS_MAX = 64  # of one request
BOARD_BYTES = 8 + BLOCKS_MAX + 8 * BLOCKS_MAX * BLOCK
REALS: Mapping[str, Any] = {"tensor(float)": np.float32, "tensor(double)": np.float64}
IDLE_S = 600  # without a request for so long it ends; who has one then starts another
_HEAD = struct.Struct("<II")
_NO_MEMORY = ("Failed to allocate", "bad_alloc", "bad allocation", "BFCArena")
_OF_TWO = 2  # classes, of which the second one is what is looked for


class Board:
    """The scores of a request, in memory that who asks has, too: of ``done`` blocks, those that are ``good``."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._done = np.frombuffer(memory, np.int64, 1)
        self.good = np.frombuffer(memory, np.bool_, BLOCKS_MAX, 8)
        self.scores = np.frombuffer(memory, np.float64, BLOCKS_MAX * BLOCK, 8 + BLOCKS_MAX).reshape(-1, BLOCK)

    @property
    def done(self) -> int:
        """How many blocks have an outcome."""
        return int(self._done[0])

    @done.setter
    def done(self, blocks: int) -> None:
        self._done[0] = blocks


class FailedError(Exception):
    """What is wrong with a model: ``found``, and what was ``expected``; None: it raised, which one record may do."""

    def __init__(self, found: str, expected: str | None) -> None:
        super().__init__(found)
        self.found, self.expected = found, expected


def read_message(stream: BinaryIO) -> tuple[Any, bytes] | None:
    """A value and the bytes behind it; None where the other side is gone."""
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    length, behind = _HEAD.unpack(head)
    value, more = stream.read(length), stream.read(behind)
    return (json.loads(value), more) if (len(value), len(more)) == (length, behind) else None


def write_message(stream: BinaryIO, value: Any, behind: bytes = b"") -> None:
    """Inverse of ``read_message``."""
    body = json.dumps(value).encode()
    stream.write(_HEAD.pack(len(body), len(behind)) + body)
    stream.write(behind)
    stream.flush()


def first_line(error: Exception) -> str:
    """The first line of an error's text, cut short."""
    lines: Sequence[str] = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:200]


def serve(given: BinaryIO, answers: BinaryIO, board: Board) -> None:
    """Open the model that the first message has, and score requests until the pipe is closed."""
    message = read_message(given)
    if message is None:
        return
    limits, data = message
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGXCPU})
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        session = _opened(data, limits["memory_bytes"], limits["open_s"])
        write_message(answers, _described(session))
    except FailedError as error:
        write_message(answers, {"failed": [error.found, error.expected]})
        return
    while select.select([given], [], [], IDLE_S)[0] and (message := read_message(given)) is not None:
        asked, behind = message
        rows = np.frombuffer(behind, np.float64).reshape(-1, len(asked["features"]))
        write_message(answers, list(_score(session, asked, rows, board)))


def _opened(data: bytes, memory_bytes: int, open_s: int) -> Any:
    import onnxruntime as ort  # noqa: PLC0415 - slow to load: an error is reported by then

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    bound = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    _allow(open_s)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.use_deterministic_compute = True
    options.log_severity_level = 4
    try:
        return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - it has a class of its own for each thing that may be wrong
        failed = _failed(error)
        if failed.expected is not None:
            raise failed from None
        raise FailedError(f"what ONNX Runtime cannot open ({failed.found})", "an ONNX model in one file") from None


def _allow(seconds: int) -> None:
    """Let this process have so many seconds of a processor from now on, and up to one more: the kernel counts whole."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + 1 + seconds
    now, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if soft != now:
        resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _described(session: Any) -> dict[str, Any]:
    meta = session.get_modelmeta()
    return {
        "version": str(meta.custom_metadata_map.get("version", meta.version)),
        "inputs": [[each.name, each.type, list(each.shape)] for each in session.get_inputs()],
        "outputs": [[each.name, each.type] for each in session.get_outputs()],
    }


def _score(session: Any, asked: Mapping[str, Any], rows: F64, board: Board) -> Iterator[tuple[int, str, str | None]]:
    """Put the scores of each block on the board; and the number of each that has none, what was found, and expected."""
    for number, start in enumerate(range(0, len(rows), BLOCK)):
        block = rows[start : start + BLOCK]
        if len(block) < BLOCK:
            block = np.concatenate([block, np.repeat(block[-1:], BLOCK - len(block), axis=0)])
        _allow(asked["block_s"])
        board.good[number] = False
        try:
            board.scores[number] = _run(session, asked, block)
            board.good[number] = True
        except Exception as error:  # noqa: BLE001 - whatever a graph raises
            failed = error if isinstance(error, FailedError) else _failed(error)
            yield number, failed.found, failed.expected
        board.done = number + 1


def _failed(error: Exception) -> FailedError:
    """The exception of a graph; the runtime's text about missing memory is long, and names it last."""
    if isinstance(error, MemoryError) or any(sign in str(error) for sign in _NO_MEMORY):
        expected = f"one that needs less than {resource.getrlimit(resource.RLIMIT_AS)[0] >> 20:,} MiB"
        return FailedError("a model that asks for more memory than it gets", expected)
    return FailedError(first_line(error), None)


def _run(session: Any, asked: Mapping[str, Any], block: F64) -> F64:
    """Raises FailedError where the output has another shape, and whatever the graph raises."""
    found = session.run([asked["output"]], _given(asked, block))[0]
    if found.shape == (len(block), _OF_TWO):
        found = found[:, 1]
    if found.shape not in {(len(block),), (len(block), 1)}:
        expected = f"one number for each record: [{len(block)}], [{len(block)}, 1], or [{len(block)}, 2] of two classes"
        raise FailedError(f"an output of shape {list(found.shape)} for {len(block)} records", expected)
    scores: F64 = found.reshape(len(block)).astype(np.float64)
    return scores


def _given(asked: Mapping[str, Any], block: F64) -> dict[str, Any]:
    inputs: list[tuple[str, str]] = asked["inputs"]
    with np.errstate(over="ignore"):
        if len(inputs) == 1:
            return {inputs[0][0]: block.astype(REALS[inputs[0][1]])}
        columns = {name: block[:, n : n + 1] for n, name in enumerate(asked["features"])}
        return {name: columns[name].astype(REALS[kind]) for name, kind in inputs}


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "wb") as answering:
        os.dup2(2, 1)  # what a library prints is no answer
        serve(sys.stdin.buffer, answering, Board(mmap.mmap(int(sys.argv[1]), BOARD_BYTES)))
