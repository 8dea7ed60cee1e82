"""A process beside Spark, forked from the zygote, with a connection at its standard input."""

from __future__ import annotations

import socket
from multiprocessing.connection import Connection
from pathlib import Path

from crossline.runtime.machine.zygote_client import request_fork


def forked_process(zygote: Path, module: str) -> Connection:
    """The connection to a new process that runs ``module``; ``zygote``: the socket where forks are asked for.

    Raises OSError where there is no zygote.
    """
    mine, theirs = socket.socketpair()
    with theirs:
        # Its output is no result: all of it goes to the standard error.
        request_fork(str(zygote), module, [], [theirs.fileno(), 2, 2]).close()
    return Connection(mine.detach())
