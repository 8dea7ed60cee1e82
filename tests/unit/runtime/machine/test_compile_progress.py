"""What numba compiles is counted; what it finds in its cache, or a fork compiles, does not count."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from crossline.cli.launch import startup
from crossline.runtime.machine.compile_progress import CompileProgress

COMPILES = """
import sys
from crossline.cli.launch.startup import tell_compiling
sys.path.insert(0, {folder!r})
tell_compiling()
tell_compiling()  # once is enough
import functions
functions.outer(2)
print("done")
"""
FUNCTIONS = """
from crossline.basics.kernels.kernel import Kernel
from crossline.basics.kernels.part import Part


def _made():
    from numba import njit

    from crossline.basics.kernels.parts import PART

    return njit(**PART)(lambda x: x + 1)


inner = Part(_made, "inner")


def outer(x):
    return inner(x) + 1


outer = Kernel(outer, lambda: b"")
"""


def test_the_first_compilation_is_reported_and_the_next_process_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    lines = []
    for _ in range(2):
        command = [sys.executable, "-c", COMPILES.format(folder=str(tmp_path))]
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
        environment.pop("NUMBA_CACHE_DIR", None)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == "done\n"
        lines.append(done.stderr)
    assert lines == [f"{startup.COMPILING}\n", ""]


def test_functions_are_counted_and_those_that_others_ask_for_are_not_shown() -> None:
    shown: list[object] = []
    progress = CompileProgress(lambda: shown.append("begun"), lambda *at: shown.append((at[0], at[2])))
    for step in (progress.started, progress.started, progress.ended, progress.ended, progress.started, progress.ended):
        step()
    assert shown == ["begun", (0, True), (2, False), (2, True), (3, False)]


def test_a_fork_reports_nothing() -> None:
    shown: list[object] = []
    progress = CompileProgress(lambda: shown.append("begun"), lambda *at: shown.append(at), process=os.getpid() + 1)
    progress.started()
    progress.ended()
    assert shown == []


def test_a_terminal_has_a_line_of_progress_that_goes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    startup._compiled(3, 12.4, True)
    startup._compiled(4, 13.0, False)
    assert capsys.readouterr().err == "\r\x1b[K3 compiled, 12 s\r\x1b[K"
