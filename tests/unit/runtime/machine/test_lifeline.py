"""Processes that end with the one that started them, in the midst of what they do; each here is a real one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from crossline.runtime.machine.lifeline import watched_lifeline
from crossline.runtime.machine.zygote_client import request_fork
from crossline.runtime.pipeline.in_process_runner import MODULE
from e2e.ended import still_running

ROOT = Path(__file__).parents[4]
END_S = 60.0
# Prints that it works, and then works without an end and without any input.
AT_WORK = """
import os, sys, time
def work(*_, **__):
    os.write(1, b"%d\\n" % os.getpid())
    while True:
        time.sleep(0.01)
"""
ZYGOTE = f"""{AT_WORK}
import crossline.runtime.workers.kernel_warmup as module
module.warm = work
from crossline.runtime.workers.zygote import serve
serve(sys.argv[1])
"""
DAEMON = f"""{AT_WORK}
import crossline.runtime.workers.kernel_warmup as module
module.warm = work
sys.argv[1:] = []
from crossline.runtime.workers import daemon
daemon.main()
"""
WARM = f"""{AT_WORK}
import crossline.runtime.workers.kernel_warmup as module
module.warm = work
module.main(["--tied"])
"""
# Starts one of them as each is started, and waits; its signals are those of any program.
PARENT = """
import subprocess, sys
from crossline.runtime.java.launch import _deaf
child = _deaf([sys.executable, "-c", *sys.argv[1:]], {**__import__("os").environ}, 2)
child.wait()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("program", [ZYGOTE, DAEMON, WARM], ids=["zygote", "daemon", "warm"])
def test_nothing_is_left_of_a_run_that_ends_while_kernels_compile(
    program: str, number: signal.Signals, tmp_path: Path
) -> None:
    """Compiling processes ignore signals, as in a run: they end when their parent ends."""
    command = [sys.executable, "-c", PARENT, program, str(tmp_path / "socket")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        line = parent.stdout.readline()
        assert line.strip().isdigit(), parent.communicate()
        compiling = psutil.Process(int(line))
        try:
            assert compiling.ppid() == parent.pid
            parent.send_signal(number)
            parent.wait(END_S)
            assert still_running([compiling], END_S) == []
        finally:
            for each in (parent, compiling):
                with suppress(psutil.NoSuchProcess):
                    each.kill()
        assert parent.stdout.read() == ""


def test_what_compiles_beside_spark_ends_with_the_process_that_it_is_a_fork_of(tmp_path: Path) -> None:
    """No process waits for it then; it reads nothing before it is done."""
    path = tmp_path / "socket"
    program = f"""{AT_WORK}
import crossline.runtime.workers.kernel_warmup as module
from crossline.runtime.workers import in_process_worker
module.warm, in_process_worker.main = (lambda: None), work
from crossline.runtime.workers.zygote import serve
serve({str(path)!r})
"""
    reads, writes = os.pipe()
    nothing = os.open(os.devnull, os.O_RDWR)
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as zygote:
        assert zygote.stdin is not None
        while not path.exists():
            assert zygote.poll() is None
        with request_fork(str(path), MODULE, [], [nothing, writes, 2]):
            working = psutil.Process(int(os.read(reads, 20)))
            try:
                assert working.ppid() == zygote.pid
                zygote.stdin.close()
                zygote.wait(END_S)
                assert still_running([working], END_S) == []
            finally:
                zygote.kill()
                with suppress(psutil.NoSuchProcess):
                    working.kill()
    for descriptor in (reads, writes, nothing):
        os.close(descriptor)


def test_what_is_no_pipe_or_has_another_end_ends_nothing() -> None:
    reads, writes = os.pipe()
    os.write(writes, b"unread")
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor in (reads, nothing):
        before = set(threading.enumerate())  # of other tests some may end meanwhile
        with watched_lifeline(descriptor):
            [watcher] = set(threading.enumerate()) - before
        assert not watcher.is_alive()
    for descriptor in (reads, writes, nothing):
        os.close(descriptor)
    taken = [os.open(os.devnull, os.O_RDONLY)]
    while taken[-1] < reads:  # so that a pipe that is opened next has the number of the closed one
        taken.append(os.open(os.devnull, os.O_RDONLY))
    os.close(taken.pop())
    with watched_lifeline(reads):  # closed: it says nothing of anybody's end
        pass
    for descriptor in taken:
        os.close(descriptor)


def test_unread_bytes_do_not_hide_the_end() -> None:
    called = "from crossline.runtime.machine.lifeline import watched_lifeline\nwith watched_lifeline(): work()"
    program = f"{AT_WORK}\n{called}"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"unread")
        process.stdin.flush()
        process.stdout.readline()
        process.stdin.close()
        try:
            assert process.wait(END_S) == 1
        finally:
            process.kill()
