"""The kernels that a demo does not need are compiled beside it, once, and no longer than it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from tests.e2e.ended import still_running

from crossline.cli.demo.other_kernels import COMMAND, OtherKernels
from crossline.runtime.machine.compile_progress import CompileProgress
from crossline.runtime.workers import kernel_warmup

WAITS = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_nothing_is_started_before_it_is_asked_for() -> None:
    with OtherKernels(WAITS) as kernels:
        assert kernels.process_id is None


def test_one_process_is_started_and_ends_with_the_demo() -> None:
    with OtherKernels(WAITS) as kernels:
        kernels.begin()
        first = kernels.process_id
        kernels.begin()
        assert kernels.process_id == first
        assert first is not None
        process = psutil.Process(first)
        assert os.getsid(first) == first  # no Ctrl-C of the terminal is its own
    assert still_running([process], 10.0) == []


def test_it_ends_where_the_demo_is_killed(tmp_path: Path) -> None:
    """Of a process that is killed nothing runs any more that could end another one: the pipe does."""
    code = (
        "import sys, os, signal\n"
        "from crossline.cli.demo.other_kernels import OtherKernels\n"
        "waits = 'from crossline.runtime.machine.lifeline import watched_lifeline\\nimport time\\n'\n"
        'waits += \'with watched_lifeline():\\n  open("runs", "w").close()\\n  time.sleep(600)\'\n'
        "os.mkfifo('runs')\n"
        "kernels = OtherKernels([sys.executable, '-c', waits])\n"
        "kernels.begin()\n"
        "open('runs').close()\n"  # which waits until the other one has opened it
        "print(kernels.process_id, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120
    )
    # Its standard error is read to the end, which comes when the process beside it has ended, too.
    assert int(done.stdout) > 0
    assert done.returncode == -signal.SIGKILL


def test_what_cannot_be_started_is_no_matter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with OtherKernels([str(tmp_path / "missing")]) as kernels:
        kernels.begin()
        kernels.begin()
    assert capsys.readouterr().err.count("compiled when they are first needed") == 1


def test_all_are_compiled_at_the_lowest_priority(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nice: list[int] = []
    wanted: list[dict[str, bool]] = []
    watched: list[CompileProgress] = []

    def watch(progress: CompileProgress) -> None:
        watched.append(progress)

    def there(**given: bool) -> float:
        wanted.append(given)
        return 0.0

    monkeypatch.setattr(os, "nice", nice.append)
    monkeypatch.setattr(CompileProgress, "watch", watch)
    monkeypatch.setattr(kernel_warmup, "warm", there)
    kernel_warmup.main(COMMAND[3:])
    assert (nice, wanted) == ([19], [kernel_warmup.ALL])
    assert capsys.readouterr().err == ""  # all were there

    def compiles(**_: bool) -> float:
        watched[-1].begun()
        return 71.4

    monkeypatch.setattr(kernel_warmup, "warm", compiles)
    kernel_warmup.main(["--beside"])
    found = capsys.readouterr().err
    assert found == "compiling the other kernels beside, at low priority\nall kernels are compiled, after 71 s\n"
