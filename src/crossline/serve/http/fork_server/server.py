"""``python -m crossline.serve.http.fork_server.server IDLE_S MODULE...``: loads modules, and forks for each command.

It is asked at the socket that is its standard input: arguments as JSON, with the descriptors of the command's output,
of its standard error, and of a pipe that gets the process id of the fork and, at the end, its exit code. It ends with
who started it, and without requests for ``IDLE_S`` seconds.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from typing import NoReturn

from crossline.runtime.java.child_processes import end_with_parent
from crossline.runtime.machine.process_title import set_process_title

ASKED_MAX = 64 << 10  # bytes of arguments
MAIN = "crossline.cli.main"


def serve(asked: socket.socket, idle_s: float) -> None:
    """Fork for callers, until there are none."""
    running: dict[int, tuple[int, int]] = {}  # by descriptor: process id of the fork, pipe for its exit code
    with selectors.DefaultSelector() as selector:
        selector.register(asked, selectors.EVENT_READ)
        while ready := selector.select(None if running else idle_s):
            for key, _ in ready:
                if key.fileobj is asked:
                    data, given, _, _ = socket.recv_fds(asked, ASKED_MAX, 3)
                    if not data:
                        return
                    fork, pid = _forked(data, given, running)
                    running[fork] = pid, given[2]
                    selector.register(fork, selectors.EVENT_READ)
                else:
                    selector.unregister(key.fd)
                    _report_exit(key.fd, *running.pop(key.fd))


def _forked(data: bytes, given: list[int], running: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """A fork that runs the command: its descriptor and its number."""
    pid = os.fork()
    if pid == 0:
        _run(data, given, [exit_pipe for _, exit_pipe in running.values()])
    for each in given[:2]:
        os.close(each)
    _write_number(given[2], pid)
    return os.pidfd_open(pid), pid


def _report_exit(fork: int, pid: int, exit_pipe: int) -> None:
    """A fork has ended."""
    os.close(fork)
    _, status = os.waitpid(pid, 0)
    _write_number(exit_pipe, os.waitstatus_to_exitcode(status))
    os.close(exit_pipe)


def _write_number(exit_pipe: int, number: int) -> None:
    try:
        os.write(exit_pipe, b"%d\n" % number)
    except OSError:  # the caller is gone
        return


def _run(data: bytes, given: list[int], others: list[int]) -> NoReturn:
    """In the fork: the command line, as a process of its own has it."""
    try:
        end_with_parent()
        os.setsid()
        for each in others:
            os.close(each)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, each in enumerate((nothing, *given[:2])):
            os.dup2(each, number)
        for each in (nothing, *given):
            os.close(each)
        # Those of the process that was forked know of what they wrote to before.
        sys.stdout, sys.stderr = (os.fdopen(each, "w", closefd=False, encoding="utf-8") for each in (1, 2))
        sys.argv[1:] = json.loads(data)
        set_process_title("cl-command")
        importlib.import_module(MAIN).main()
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException:  # noqa: BLE001 - above it stands the code of the process that was forked
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(1)


def main() -> None:
    """Load, then serve."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: who started it ends it
    idle_s, modules = float(sys.argv[1]), sys.argv[2:]
    asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=os.dup(0))
    set_process_title("cl-warm")
    for name in (MAIN, *modules):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is loaded is shared by all forks, and none looks through it
    serve(asked, idle_s)


if __name__ == "__main__":
    main()
