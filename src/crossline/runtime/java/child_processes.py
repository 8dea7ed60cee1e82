"""Child processes that end with their parent, however it ends. Measurements and tests start many."""

from __future__ import annotations

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1
# Loaded here: between a fork and the start of another program nothing may be.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def end_with_parent() -> None:
    """As ``preexec_fn`` of a process: it is killed when the thread that started it ends. Only Linux has that."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
