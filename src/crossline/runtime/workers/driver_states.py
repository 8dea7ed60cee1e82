"""A process that keeps state servers beside the driver, while the executors cannot keep a second copy of the states.

It opens a place for them as a daemon does, and has them follow the shards as the driver asks. They end with it, and it
ends with the driver, or once the driver needs them no more: whoever holds its standard input open decides.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from crossline.runtime.machine.process_title import set_process_title
from crossline.runtime.stages.shard_judge import ShardJudge
from crossline.runtime.workers.state_server import open_state_server_folder, state_server_folder
from crossline.runtime.workers.state_servers import follow

TITLE = "cl-driver-place"


@dataclass(frozen=True, slots=True)
class FollowRequest:
    """Have ``state_servers`` of them read ``shards`` up to the batch before that of ``work``."""

    work: ShardJudge
    shards: Sequence[int]
    state_servers: int


def serve(connection: Connection) -> None:
    """The first request is the folder in which the place is announced; the answer: whether there is one.

    Each request after it is answered once the state servers have it; what they cannot read, a batch meets again.
    """
    folder: Path = pickle.loads(connection.recv_bytes())  # noqa: S301 - from the process that had this one forked
    folder.mkdir(mode=0o700, exist_ok=True)
    tempfile.tempdir = str(folder)  # of this process alone: executors of this machine have a place of their own each
    open_state_server_folder()
    where = state_server_folder()
    if where is not None:
        where.announce()
    connection.send_bytes(pickle.dumps(where is not None))
    while True:
        request: FollowRequest = pickle.loads(connection.recv_bytes())  # noqa: S301 - as above
        try:
            follow(request.work, request.shards, request.state_servers)
        except Exception as error:  # noqa: BLE001 - the next batch asks again, and reports what is wrong with a log
            sys.stderr.write(f"the driver's machine does not follow: {type(error).__name__}: {error}\n")
        connection.send_bytes(b"1")


def main() -> None:
    """Serve the driver at the standard input."""
    set_process_title(TITLE)
    # Not where forks keep it open: the driver is to see the end of this process at once.
    connection = Connection(os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    with suppress(EOFError, ConnectionError):  # it is also reset, where the end comes with something unread
        serve(connection)
