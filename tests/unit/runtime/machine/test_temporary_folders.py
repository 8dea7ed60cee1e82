"""Folders that runs leave behind: who is gone is a real process here, killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from crossline.runtime.machine.temporary_folders import LOCK, is_held, own_folder, own_folder_for, sweep

OURS = b"a folder of crossline, removed once nobody holds this lock\n"
HOLDER = """
import sys
from crossline.runtime.machine.temporary_folders import own_folder
folder = own_folder("held")
(folder.path / "big").write_bytes(b"x" * 1000)
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def holder() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_has_is_not(temporary: Path) -> None:
    killed, left = holder()
    living, held = holder()
    try:
        assert is_held(left / LOCK)
        end(killed)
        assert killed.returncode == -signal.SIGKILL
        assert not is_held(left / LOCK)
        assert sweep() == [left]
        assert not left.exists()
        assert (held / "big").exists()
        assert held.parent == temporary
    finally:
        end(living)
    assert sweep() == [held]
    assert not is_held(held / LOCK), "gone"


def test_a_process_that_inherits_the_lock_holds_the_folder_too(temporary: Path) -> None:
    folder = own_folder()
    heir = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, pass_fds=(folder.lock,))
    os.close(folder.lock)
    assert sweep() == []
    heir.communicate()
    assert sweep() == [folder.path]
    assert list(temporary.iterdir()) == []


def test_what_is_not_ours_stays(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / LOCK).touch()
    (temporary / "crossline-file").touch()
    (temporary / "crossline-link").symlink_to(elsewhere)
    (temporary / "crossline-no-lock").mkdir()
    (temporary / "crossline-link-inside").mkdir()
    (temporary / "crossline-link-inside" / LOCK).symlink_to(elsewhere / LOCK)
    for name, text in (("other-lock", OURS), ("crossline-empty", b""), ("crossline-pid", b"4711\n")):
        (temporary / name).mkdir()
        (temporary / name / LOCK).write_bytes(text)
    (temporary / "crossline-more").mkdir()
    (temporary / "crossline-more" / LOCK).write_bytes(OURS + b"and more")
    (temporary / "crossline-pipe").mkdir()
    os.mkfifo(temporary / "crossline-pipe" / LOCK)
    before = sorted(temporary.rglob("*"))
    assert sweep() == []
    (temporary / "crossline-of-another").mkdir()
    (temporary / "crossline-of-another" / LOCK).write_bytes(OURS)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert sweep() == []
    assert sweep() == [temporary / "crossline-of-another"], "not tested: it would have been swept"
    assert sorted(temporary.rglob("*")) == before


def test_makers_and_sweepers_at_once(temporary: Path) -> None:
    """A folder in use is never removed, however soon after its creation it is examined."""
    done, swept = threading.Event(), []

    def sweeper() -> None:
        while not done.is_set():
            swept.extend(sweep())

    threads = [threading.Thread(target=sweeper) for _ in range(2)]
    for thread in threads:
        thread.start()
    held = [own_folder("race") for _ in range(200)]
    done.set()
    for thread in threads:
        thread.join()
    assert all((folder.path / LOCK).exists() for folder in held)
    assert not {folder.path for folder in held} & set(swept)
    for folder in held:
        folder.remove()
    assert list(temporary.iterdir()) == []


def test_a_folder_goes_with_its_context(temporary: Path) -> None:
    with own_folder_for("backtest") as path:
        assert path.name.startswith("crossline-backtest-")
        assert path.stat().st_mode & 0o777 == 0o700
        (path / "deep").mkdir()
    assert list(temporary.iterdir()) == []
