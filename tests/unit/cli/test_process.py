"""How the process of a command ends, and what it does without; each in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest


def done(code: str, **options: object) -> subprocess.CompletedProcess[str]:
    start = "import atexit, os, sys, threading, time\nfrom crossline.cli.launch.process import *\n"
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
    ended = done("threading.Thread(target=threading.Event().wait, daemon=True).start()\nleave(0)", timeout=300)
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


def test_records_that_are_judged_again_need_no_pandas(tmp_path: Path) -> None:
    (tmp_path / "stream.yaml").write_text(
        "schema_version: 1\nstreams:\n  payments:\n    id: id\n    event_time: {field: at}\n"
        "    fields: {id: string, card: string, paid: integer, rate: number?, sure: boolean?, at: integer}\n"
    )
    (tmp_path / "rules.yaml").write_text(
        "rule_id: again\nversion: 1\nrule_type: formula\nsource_topic: payments\nlate_policy: reevaluate\n"
        "figures: {tries: {count: true, group_by: card, window: 1m}}\n"
        "when: tries >= 1 and paid > 1 and rate > 0.5 and sure and card == 'a'\n"
    )
    (tmp_path / "in.jsonl").write_text('{"id": "p1", "card": "a", "paid": 2, "rate": 0.6, "sure": true, "at": 1000}\n')
    given = ["--rules", "rules.yaml", "--stream", "stream.yaml", "--input", "in.jsonl", "--output", "alerts.jsonl"]
    command = [sys.executable, "-m", "crossline.cli.main", "backtest", *given]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "alerts.jsonl").read_text().count("again") == 1


# A run of the command that gets Ctrl-C at one place of it.
INTERRUPTED = """
import atexit, os, signal, sys
from crossline.cli import app, exit_status, main
from crossline.cli.launch import engine
def interrupt(*_, **__):
    os.kill(os.getpid(), signal.SIGINT)
{}
sys.argv = ["crossline", "--version"]
main.main()
"""


@pytest.mark.parametrize(
    ("place", "code", "said"),
    [
        ("engine.begin_engine = interrupt", -signal.SIGINT, ("", "")),
        ("app.app = interrupt", 130, ("", "error: interrupted\n")),
        ("atexit.register(interrupt)", -signal.SIGINT, ("crossline 0.1.0\n", "")),
        ("signal.signal(signal.SIGINT, signal.SIG_IGN); engine.begin_engine = interrupt", 0, ("crossline 0.1.0\n", "")),
        ("signal.signal(signal.SIGINT, signal.SIG_IGN); app.app = interrupt", 0, ("", "")),
    ],
    ids=["before", "within", "after", "ignored before", "ignored within"],
)
def test_an_interrupt_ends_a_command_without_a_traceback(place: str, code: int, said: tuple[str, str]) -> None:
    command = [sys.executable, "-c", INTERRUPTED.format(place)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, (ended.stdout, ended.stderr)) == (code, said)


def test_that_memory_is_short_is_a_line() -> None:
    raising = "def app(*_, **__):\n    raise MemoryError('no room')\nfrom crossline.cli import app as commands, main\n"
    command = [sys.executable, "-c", raising + "commands.app = app\nmain.main()"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "error: there is too little memory: no room\n")
