"""One process of a machine compiles a kernel; others that need it wait, and load the result.

The lock is a file lock of the system, beside the compiled kernels. It ends with the process that holds it, however that
ends. Finished kernels are kept; the next process compiles the rest.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from crossline.basics.turns import compile_in
from crossline.logs import get_logger

LOCK = "compiling.lock"
_PID_BYTES = 20

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CompileEvent:
    """What happens to ``kernel`` in this process.

    ``waits``: process ``by`` compiles in the same folder (0: it did not say so yet). ``begins``: this one compiles.
    ``ends``: it is there, or failed.
    """

    kernel: str
    state: Literal["waits", "begins", "ends"]
    by: int = 0


_listening: list[Callable[[CompileEvent], None]] = []
_held: dict[str, int | None] = {}  # by folder; None: it has no locks


def on_compiling(listener: Callable[[CompileEvent], None]) -> Callable[[], None]:
    """Call ``listener``, in the thread that compiles, for all that this process and its forks compile or wait for.

    Kernels that a kernel calls are part of it. What is returned ends that.
    """
    _listening.append(listener)
    return lambda: _listening.remove(listener)


def compile_once() -> None:
    """From now on this process and its forks compile one at a time."""
    compile_in(compile_turn)


@contextmanager
def compile_turn(kernel: str, folder: str) -> Iterator[Callable[[], None]]:
    """Nobody else compiles what is kept in ``folder``; to be called: compiling begins."""
    if folder in _held:
        yield lambda: None
        return
    began: list[bool] = []

    def begins() -> None:
        began.append(True)
        _notify(CompileEvent(kernel, "begins"))

    _held[folder] = lock = _locked(kernel, folder)
    try:
        yield begins
    finally:
        del _held[folder]
        if lock is not None:
            _write(lock, b"")
            fcntl.flock(lock, fcntl.LOCK_UN)  # also where a fork still has the descriptor
            os.close(lock)
        if began:
            _notify(CompileEvent(kernel, "ends"))


def _locked(kernel: str, folder: str) -> int | None:
    """The descriptor that holds the lock, once it does; None where the file system has no locks."""
    try:
        lock = os.open(Path(folder) / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError:
        return None  # another user's: both compile, and both are right
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            by = _by(lock)
            log.info("another process compiles kernels: waiting for it", kernel=kernel, process=by or None)
            _notify(CompileEvent(kernel, "waits", by))
            fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError:
        os.close(lock)
        return None
    except BaseException:
        os.close(lock)  # stopped while it waited
        raise
    _write(lock, b"%d\n" % os.getpid())
    return lock


def _write(lock: int, text: bytes) -> None:
    with suppress(OSError):  # only waiting processes read it
        os.ftruncate(lock, 0)
        os.pwrite(lock, text, 0)


def _by(lock: int) -> int:
    """The process that holds the lock, as it wrote there."""
    with suppress(OSError, ValueError):
        return int(os.pread(lock, _PID_BYTES, 0))
    return 0


def _notify(what: CompileEvent) -> None:
    for each in tuple(_listening):
        each(what)


def _in_fork() -> None:
    """A fork has nothing: where its parent compiles in another thread, it waits for that as everybody does."""
    for lock in _held.values():
        if lock is not None:
            os.close(lock)
    _held.clear()


os.register_at_fork(after_in_child=_in_fork)
