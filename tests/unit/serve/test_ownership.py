"""What was answered is of one pipeline."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from crossline.basics.errors import StateError, UsageError
from crossline.serve.ownership import LOCK, OWNER, check_owner, held, note_owner

HOLDS = """
import sys
from pathlib import Path
from crossline.serve.ownership import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_folder_is_the_first_pipelines_that_was_served_from_it(tmp_path: Path) -> None:
    check_owner(tmp_path, "bank")
    note_owner(tmp_path, "shop")
    note_owner(tmp_path, "shop")
    for ask in (check_owner, note_owner):
        with pytest.raises(UsageError, match="has what was answered for pipeline shop; expected that of bank"):
            ask(tmp_path, "bank")
    check_owner(tmp_path, "shop")


@pytest.mark.parametrize("found", [b"", b"{}", b"[]", b'{"pipeline"'])
def test_a_note_that_a_kill_left_is_made_again(tmp_path: Path, found: bytes) -> None:
    (tmp_path / OWNER).write_bytes(found)
    note_owner(tmp_path, "shop")
    with pytest.raises(UsageError, match="pipeline shop"):
        check_owner(tmp_path, "bank")


def test_a_folder_that_is_not_there_is_anybodys(tmp_path: Path) -> None:
    check_owner(tmp_path / "serve", "shop")


def test_one_process_has_a_folder_and_a_killed_one_leaves_it_free(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with (
            pytest.raises(StateError, match=rf"in use by another API \(pid {other.pid}, boot .*one API a folder"),
            held(tmp_path),
        ):
            pass
        other.kill()
        other.wait()
        with held(tmp_path), pytest.raises(StateError, match=f"pid {os.getpid()}"), held(tmp_path):
            pass
    with held(tmp_path):
        pass


def test_what_is_started_meanwhile_does_not_hold_it(tmp_path: Path) -> None:
    with held(tmp_path):
        child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        with held(tmp_path):
            assert (tmp_path / LOCK).read_text().startswith(f"pid {os.getpid()}, ")
    finally:
        child.kill()
        child.communicate()
