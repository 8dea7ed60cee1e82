"""Where state servers are forked: a process that has everything loaded, and does nothing else.

A worker cannot fork all that it is. The client of an object store, once it was used, has threads, which no fork has,
and descriptors, which a state server must not share with a worker: a state server that was forked from such a worker
died of its first request to the store. The daemon forks this process before there is any worker, and it connects to
no other system.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import socket
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from crossline.runtime.machine.process_title import set_process_title

NAME = "fork_server"
_WAIT_S = 30.0
_NAME_MAX = 64  # bytes

# What a fork becomes, given its name and where it listens; it does not come back.
Live = Callable[[str, socket.socket], NoReturn]
# Where the state server of a name listens. Raises ValueError for what is no such name.
Listening = Callable[[str], socket.socket]


def request_state_server(folder: Path, name: str) -> bool:
    """Have the state server ``name`` forked; False where no fork server is in ``folder``, or it does not answer."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(_WAIT_S)
        asking.connect(str(folder / NAME))
        asking.sendall(f"{name}\n".encode())
        return asking.recv(1) == b"1"
    return False


def open_fork_server(
    folder: Path, lifeline: int, listening: Listening, live: Live, leave: Callable[[set[int]], None]
) -> None:
    """Fork it. It ends, and ``folder`` with it, when no process has the other end of ``lifeline`` any more.

    ``leave`` closes all files but some.
    """
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / NAME))
        server.listen()
        if os.fork() == 0:
            try:
                set_process_title("cl-fork-server")
                signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the daemon's word to workers
                signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no parent waits for state servers
                leave({server.fileno(), lifeline})
                _serve(server, lifeline, listening, live)
                shutil.rmtree(folder, ignore_errors=True)
            except BaseException:  # noqa: BLE001 - above it stands the daemon's code
                traceback.print_exc()
            finally:
                os._exit(0)


def _serve(server: socket.socket, lifeline: int, listening: Listening, live: Live) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(server, selectors.EVENT_READ)
        selector.register(lifeline, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if lifeline in ready:
                return
            client, _ = server.accept()
            with client, suppress(OSError, ValueError):
                client.settimeout(_WAIT_S)
                name = client.makefile("rb").readline(_NAME_MAX).decode().strip()
                with listening(name) as socket_of_state_server:
                    if os.fork() == 0:
                        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                        live(name, socket_of_state_server)
                client.sendall(b"1")
