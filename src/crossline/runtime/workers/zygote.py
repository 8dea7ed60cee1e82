"""The zygote: it has loaded the libraries of Spark's Python processes, which are forked from it.

Spark starts five of them for a pipeline on files: the daemon of the workers, and those that make, plan and read a
source. Each would load Python's libraries anew, one after the other: two to three seconds of a start. This one begins
to load them while Java comes up; what Spark starts (``zygote_client.py``) hands over its descriptors, arguments and
environment, and a fork of this process goes on with them.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import traceback
from contextlib import suppress
from typing import Any

from crossline.runtime.java.child_processes import end_with_parent
from crossline.runtime.java.settings import OWN_STATE_SERVERS
from crossline.runtime.machine.dataclass_code import keep_dataclass_code, write_dataclass_code
from crossline.runtime.machine.lifeline import watched_lifeline
from crossline.runtime.machine.process_title import set_process_title

REQUEST_MAX = 4 << 20  # bytes of arguments and environment
LOADED_MODULES = (
    "crossline.runtime.workers.daemon",
    "crossline.runtime.workers.driver_states",
    "crossline.runtime.workers.in_process_worker",
    "crossline.runtime.workers.read_ahead",
    "crossline.runtime.workers.stage_worker",
)
# These may compile for minutes what a batch needs, and see only afterwards that their client is gone.
END_WITH_US = ("crossline.runtime.workers.in_process_worker", "crossline.runtime.workers.stage_worker")
_LENGTH = 8


def serve(path: str, *, places: bool = True) -> None:
    """Fork for each client at the socket ``path``, until the standard input ends.

    ``places``: the state servers are those of this process; else each daemon that is forked from it has its own.
    """
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made = os.path.join(os.path.dirname(path), "new")  # noqa: PTH118, PTH120 - no longer: names of sockets are short
    listening.bind(made)
    listening.listen(64)  # who comes while this process loads waits here
    os.rename(made, path)  # noqa: PTH104 - no client finds a socket that does not listen yet
    keep_dataclass_code()
    from crossline.runtime.workers.daemon import keep_loaded, open_place, preload  # noqa: PLC0415 - once clients can connect

    set_process_title("cl-zygote")
    with watched_lifeline():  # it may compile for minutes
        preload()
    write_dataclass_code()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for children
    if places:
        open_place()
    else:
        keep_loaded()
    with selectors.DefaultSelector() as selector:
        selector.register(listening, selectors.EVENT_READ)
        selector.register(0, selectors.EVENT_READ)
        while True:
            ready = [key.fileobj for key, _ in selector.select()]
            if listening in ready:
                connection, _ = listening.accept()
                if os.fork() == 0:
                    selector.close()
                    listening.close()
                    _go_on(connection)
                connection.close()
            elif 0 in ready:
                return


def _go_on(connection: socket.socket) -> None:
    """In the fork: become the requested program; its exit code goes to the client. Does not return."""
    code = 1
    try:
        request = _become(connection)
        if request["module"] in END_WITH_US:
            end_with_parent()
        code = _run(request["module"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except (ConnectionError, EOFError):
        pass  # a Spark that is gone while something is still written to it is no news
    except BaseException:  # noqa: BLE001 - reported where the process would have reported it
        traceback.print_exc()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(bytes([code & 0xFF]))
    os._exit(code)


def _become(connection: socket.socket) -> dict[str, Any]:
    raw, descriptors, _, _ = socket.recv_fds(connection, _LENGTH, 3)
    while len(raw) < _LENGTH:
        raw += _more(connection, _LENGTH - len(raw))
    length = int.from_bytes(raw, "little")
    if length > REQUEST_MAX or len(descriptors) != 3:
        raise ValueError(f"{length} bytes and {len(descriptors)} descriptors; expected at most {REQUEST_MAX}, and 3")
    body = b""
    while len(body) < length:
        body += _more(connection, length - len(body))
    request: dict[str, Any] = json.loads(body)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[:] = request["arguments"]
    set_process_title(f"cl-{request['module'].rpartition('.')[2]}")
    return request


def _more(connection: socket.socket, length: int) -> bytes:
    part = connection.recv(length)
    if not part:
        raise EOFError("the client is gone")
    return part


def _run(module: str) -> int:
    if module in LOADED_MODULES:  # those that are loaded here cannot be run as others are
        importlib.import_module(module).main()
    else:
        runpy.run_module(module, run_name="__main__", alter_sys=False)
    return 0


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    serve(sys.argv[1], places=OWN_STATE_SERVERS not in sys.argv)
