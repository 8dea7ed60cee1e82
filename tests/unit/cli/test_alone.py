"""How the process of a command ends, and what it does without; each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest


def done(code: str, **options: object) -> subprocess.CompletedProcess[str]:
    start = "import atexit, os, sys, threading, time\nfrom crossline.cli.alone import *\n"
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", start + code], capture_output=True, text=True, check=False, **options
    )


@pytest.mark.parametrize("code", [0, 1, 2, 130])
def test_all_that_is_to_be_done_at_the_end_is_done(code: int) -> None:
    ended = done(
        "atexit.register(print, 'at the end')\nsys.stdout.write('said, ')\nsys.stderr.write('told')\n"
        f"try:\n    leave({code})\nfinally:\n    print('never')"
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "said, at the end\n", "told")


def test_a_thread_that_is_at_work_is_waited_for() -> None:
    ended = done(
        "def work():\n    threading.Event().wait(0.3)\n    print('worked')\n"
        "threading.Thread(target=work).start()\nleave(3)"
    )
    assert (ended.returncode, ended.stdout) == (3, "worked\n")


def test_a_daemon_thread_is_not() -> None:
    ended = done("threading.Thread(target=threading.Event().wait, daemon=True).start()\nleave(0)", timeout=30)
    assert ended.returncode == 0


@pytest.mark.parametrize(("alone", "there"), [("", True), ("be_alone()\n", False)])
def test_pandas_is_kept_only_from_a_process_that_is_alone(alone: str, there: bool) -> None:
    code = alone + (
        "do_without_pandas()\nimport pyarrow as pa\n"
        "assert pa.array([1, None]).to_pylist() == [1, None]\nassert pa.scalar(2.5).as_py() == 2.5\n"
        "print('pandas' in sys.modules)"
    )
    ended = done(code)
    assert (ended.stdout, ended.stderr) == (f"{there}\n", "")


def test_pandas_stays_where_it_is_loaded() -> None:
    ended = done("import pandas\nbe_alone()\ndo_without_pandas()\nimport pandas.core\nprint(len(sys.meta_path) > 0)")
    assert (ended.stdout, ended.stderr) == ("True\n", "")
