"""A signal that comes while the main thread is in a call that no signal interrupts, such as compiling a kernel."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

END_S = 60.0
# A call of minutes that lets other threads run, and comes back to Python for no signal.
DEAF = """
import hashlib
from crossline.cli.signals import stoppable
with stoppable() as stopping:
    print("busy", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", (1 << 31) - 1)
"""
AWAKE = """
import time
from crossline.cli.signals import stoppable
class Work:
    running = True
    def stop(self):
        print("stopped", flush=True)
        self.running = False
work = Work()
with stoppable() as stopping:
    stopping.stops(work)
    print("busy", flush=True)
    while work.running:
        time.sleep(0.01)
    time.sleep(1.0)  # longer than it takes to notice that the main thread does not act on a signal
"""


def started(program: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "busy\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_start_ends_though_the_main_thread_is_deaf(number: signal.Signals) -> None:
    with started(DEAF) as process:
        try:
            process.send_signal(number)
            _, errors = process.communicate(timeout=END_S)
        finally:
            process.kill()
        assert process.returncode == 128 + number
        assert errors == f"stopped by {number.name}\n"


def test_a_main_thread_that_handles_signals_acts_once() -> None:
    with started(AWAKE) as process:
        try:
            process.send_signal(signal.SIGTERM)
            out, errors = process.communicate(timeout=END_S)
        finally:
            process.kill()
    assert out == "stopped\n"
    assert errors.splitlines()[0] == "stopped by SIGTERM"


def test_handlers_and_descriptors_are_as_before() -> None:
    program = """
import os, signal, sys
from crossline.cli.signals import stoppable
before = signal.getsignal(signal.SIGTERM), sorted(os.listdir("/dev/fd"))
for _ in range(3):
    with stoppable():
        pass
print("busy", flush=True)
assert (signal.getsignal(signal.SIGTERM), sorted(os.listdir("/dev/fd"))) == before
assert signal.set_wakeup_fd(-1) == -1
"""
    with started(program) as process:
        _, errors = process.communicate(timeout=END_S)
    assert (process.returncode, errors) == (0, "")
