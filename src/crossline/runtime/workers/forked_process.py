"""A process beside Spark, forked from the zygote, with a connection at its standard input; and waiting for it."""

from __future__ import annotations

import socket
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

from crossline.runtime.machine.zygote_client import request_fork

_LOOK_S = 0.1  # whether it is being stopped


def forked_process(zygote: Path, module: str) -> Connection:
    """The connection to a new process that runs ``module``; ``zygote``: the socket where forks are asked for.

    Raises OSError where there is no zygote.
    """
    mine, theirs = socket.socketpair()
    with theirs:
        # Its output is no result: all of it goes to the standard error.
        request_fork(str(zygote), module, [], [theirs.fileno(), 2, 2]).close()
    return Connection(mine.detach())


def answered(connection: Connection, within_s: float, stopping: threading.Event) -> bool:
    """Wait for an answer; False where it does not come in time, or the pipeline is being stopped."""
    until_s = time.monotonic() + within_s
    while not connection.poll(_LOOK_S):
        if stopping.is_set() or time.monotonic() > until_s:
            return False
    return True
