"""An unreadable file or folder is logged once, retried, and stops nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from crossline.basics.errors import SourceError
from crossline.io.files import folder_watch
from crossline.io.files.identity import read_chunk
from crossline.io.files.lines import Unended
from crossline.io.files.log import FileChunks

NOW_MS = 1_767_225_600_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.log").write_bytes(b"one\n")
    return tmp_path / "in"


def log_of(folder: Path, pattern: str = "*.log", unended: Unended = "waits") -> FileChunks:
    return FileChunks([str(folder / pattern)], str(folder.parent / "list"), 100, unended=unended)


def close_to(monkeypatch: pytest.MonkeyPatch, name: str) -> set[str]:
    """Make files of that name unreadable, also for root, for as long as the name is in the set."""
    closed, opened = {name}, Path.open

    def open_or_not(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name in closed:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", open_or_not)
    return closed


def shut(monkeypatch: pytest.MonkeyPatch, folder: Path) -> set[str]:
    """Make ``folder`` unreadable, also for root, as long as it is in the set."""
    closed, stat, opened, scandir = {str(folder)}, os.stat, Path.open, os.scandir

    def check(path: Any, *, itself: bool = False) -> None:
        if any(str(path).startswith(f"{each}/") or (itself and str(path) == each) for each in closed):
            raise PermissionError(13, "Permission denied", str(path))

    def stat_or_not(path: Any, **options: Any) -> os.stat_result:
        check(path)
        return stat(path, **options)

    def scandir_or_not(path: Any = ".") -> Any:
        check(path, itself=True)
        return scandir(path)

    def open_or_not(path: Path, *arguments: Any, **options: Any) -> Any:
        check(path)
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", stat_or_not)
    monkeypatch.setattr(os, "lstat", lambda path, **options: stat_or_not(path, follow_symlinks=False, **options))
    monkeypatch.setattr(os, "scandir", scandir_or_not)
    monkeypatch.setattr(Path, "open", open_or_not)
    return closed


@pytest.mark.parametrize("pattern", ["", "b.log", "deep", "*.log", "deep/*.log"])
def test_a_folder_that_may_not_be_entered_is_reported_once_and_stops_no_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    inner = folder / "shut"
    (inner / "deep").mkdir(parents=True)
    for path in (inner / "b.log", inner / "deep" / "b.log"):
        path.write_bytes(b"two\n")
    closed = shut(monkeypatch, inner)
    log = FileChunks([str(inner / pattern), str(folder / "*.log")], str(folder.parent / "list"), 100)
    with capture_logs() as logs:
        assert [log.poll(NOW_MS) for _ in range(3)] == [1, 1, 1]
    assert len(logs) == 1
    assert logs[0]["error"].startswith(str(inner))
    assert logs[0]["error"].endswith(": cannot be read: Permission denied")
    assert log.left() == [logs[0]["error"]]
    closed.clear()
    assert [read_chunk(c) for c in log.chunks(0, log.poll(NOW_MS))] == [b"one\n", b"two\n"]
    assert log.left() == []


@pytest.mark.parametrize("pattern", ["", "b.log", "*.log"])
def test_files_of_a_folder_that_cannot_be_entered_for_a_while_are_not_gone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    inner = folder / "shut"
    inner.mkdir()
    (inner / "b.log").write_bytes(b"two\nhal")
    log = FileChunks([str(inner / pattern)], str(folder.parent / "list"), 100)
    assert log.poll(NOW_MS) == 1
    closed = shut(monkeypatch, inner)
    assert [log.poll(NOW_MS) for _ in range(2)] == [1, 1], "half a line was seen there, and is not lost"
    closed.clear()
    with (inner / "b.log").open("ab") as file:
        file.write(b"f\n")
    assert [(c.start, read_chunk(c)) for c in log.chunks(0, log.poll(NOW_MS))] == [(0, b"two\n"), (4, b"half\n")]


def test_a_file_of_a_glob_that_cannot_be_looked_at_stops_no_other_of_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = os.stat
    (folder / "b.log").write_bytes(b"two\n")

    def stat_or_not(path: Any, **options: Any) -> os.stat_result:
        if str(path).endswith("a.log"):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", stat_or_not)
    log = log_of(folder, "**/*.log")
    assert [read_chunk(c) for c in log.chunks(0, log.poll(NOW_MS))] == [b"two\n"]
    assert log.left() == [f"{folder}/a.log: cannot be read: Permission denied"]


@pytest.mark.parametrize("pattern", ["", "*.log", "**/*.log"])
def test_links_that_lead_nowhere_or_to_themselves_and_pipes(folder: Path, pattern: str) -> None:
    (folder / "b.log").symlink_to(folder / "b.log")
    (folder / "c.log").symlink_to(folder / "nothing")
    os.mkfifo(folder / "d.log")
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    log = log_of(folder, pattern)
    with capture_logs() as logs:
        assert [log.poll(NOW_MS) for _ in range(3)] == [1, 1, 1]
    lines = [(Path(each["file"]).name, each["log_level"]) for each in logs]
    assert lines == [("b.log", "warning")]


def test_a_file_that_cannot_be_read_is_reported_once_and_read_when_it_can(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "b.log").write_bytes(b"two\n")
    closed = close_to(monkeypatch, "a.log")
    log = log_of(folder)
    with capture_logs() as logs:
        assert [log.poll(NOW_MS) for _ in range(3)] == [1, 1, 1]
    assert [each["error"] for each in logs] == [f"{folder}/a.log: cannot be read: Permission denied"]
    assert [text.rpartition("/")[2] for text in log.left()] == ["a.log: cannot be read: Permission denied"]
    closed.clear()
    assert [read_chunk(c) for c in log.chunks(0, log.poll(NOW_MS))] == [b"two\n", b"one\n"]
    assert log.left() == []


def test_a_file_that_cannot_be_read_for_a_while_is_not_taken_for_another(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(folder)
    log.poll(NOW_MS)
    with (folder / "a.log").open("ab") as file:
        file.write(b"two\nhal")
    closed = close_to(monkeypatch, "a.log")
    assert [log.poll(NOW_MS) for _ in range(2)] == [1, 1]
    closed.clear()
    assert [(c.start, read_chunk(c)) for c in log.chunks(1, log.poll(NOW_MS))] == [(4, b"two\n")]


def test_where_all_files_are_finished_one_that_cannot_be_read_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close_to(monkeypatch, "a.log")
    with pytest.raises(SourceError, match=r"a\.log: cannot be read: Permission denied"):
        log_of(folder, unended="counts").poll(NOW_MS)


def test_in_a_large_folder_files_that_stand_still_are_looked_at_in_turns(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_watch, "LOOKS", 10)
    for number in range(60):
        (folder / f"{number:02d}.log").write_bytes(b"line\n")
        os.utime(folder / f"{number:02d}.log", (0, 0))
    log = log_of(folder)
    assert log.poll(NOW_MS) == 61
    side_inputs, stat = 0, os.stat

    def counted(path: Any, **options: Any) -> os.stat_result:
        nonlocal side_inputs
        side_inputs += 1
        return stat(path, **options)

    monkeypatch.setattr(folder_watch.os, "stat", counted)
    with (folder / "30.log").open("ab") as file:
        file.write(b"more\n")
    found = [log.poll(NOW_MS + folder_watch.HOT_MS * 10) for _ in range(7)]
    assert side_inputs <= 7 * 12
    assert found[-1] == 62, "each has had its turn"


def test_a_log_that_could_not_be_written_begins_again_from_what_is_on_disk(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space left"):
            log.poll(NOW_MS)
    listed = len(log_of(folder).chunks(0, 10))
    assert len(log.chunks(0, 10)) == listed
    assert [read_chunk(c) for c in log.chunks(0, log.poll(NOW_MS))] == [b"one\n"]
