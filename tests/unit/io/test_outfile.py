"""Where a command's output goes: files, links, devices, pipes, and what is not written over."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest

from crossline.basics.errors import PermanentError, UsageError
from crossline.io.sinks.outfile import draft_file, growing_file, is_standard_output, written


def put(path: Path, data: bytes = b"new") -> None:
    with written(path) as file:
        file.write(data)


def test_a_file_is_there_only_once_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_bytes(b"old")
    with written(target) as file:
        file.write(b"new")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"

    def half() -> None:
        with written(target) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert target.read_bytes() == b"new"
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_the_draft_of_a_draft_is_itself(tmp_path: Path) -> None:
    with draft_file(tmp_path / "out") as draft:
        with draft_file(draft) as same:
            same.write_bytes(b"new")
        assert [each.name for each in tmp_path.iterdir()] == [draft.name]
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("out", b"new")]


@pytest.mark.parametrize(("code", "kind"), [(errno.ENOSPC, PermanentError), (errno.ENOENT, UsageError)])
def test_an_error_of_a_draft_names_what_was_to_be_written(tmp_path: Path, code: int, kind: type[Exception]) -> None:
    with pytest.raises(kind) as found, draft_file(tmp_path / "out") as draft, draft_file(draft) as same:
        raise OSError(code, os.strerror(code), str(same))
    assert type(found.value) is kind
    assert str(found.value) == f"{tmp_path / 'out'} cannot be written: {os.strerror(code)}"


def test_an_error_of_another_file_stays_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as found, draft_file(tmp_path / "out"):
        (tmp_path / "nothing").read_bytes()
    assert found.value.filename == str(tmp_path / "nothing")


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    put(tmp_path / "out")
    (tmp_path / "other").touch()
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.touch()
    target.chmod(0o640)
    put(target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_leads_to_what_was_written(tmp_path: Path, *, there: bool) -> None:
    target, link = tmp_path / "far" / "target", tmp_path / "link"
    target.parent.mkdir()
    if there:
        target.write_bytes(b"old")
    link.symlink_to("far/target")
    put(link)
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert [each.name for each in target.parent.iterdir()] == ["target"]


def test_a_device_takes_what_is_written_and_stays_a_device(tmp_path: Path) -> None:
    link = tmp_path / "nothing"
    link.symlink_to(os.devnull)
    for path in (Path(os.devnull), link):
        put(path)
        with draft_file(path) as draft:
            draft.write_bytes(b"new")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    assert link.is_symlink()


@pytest.mark.parametrize("way", ["written", "drafted", "growing"])
def test_a_pipe_gets_the_bytes(tmp_path: Path, way: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    if way == "drafted":
        with draft_file(pipe) as draft:
            draft.write_bytes(b"new")
    else:
        with {"written": written, "growing": growing_file}[way](pipe) as file:
            file.write(b"new")
    reader.join(timeout=300)
    assert got == [b"new"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_full_device_is_an_error() -> None:
    with pytest.raises(PermanentError, match="/dev/full cannot be written: No space left on device"):
        put(Path("/dev/full"))


def test_what_cannot_be_a_file_to_write_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        put(tmp_path)
    with pytest.raises(PermanentError, match="No such file or directory"):
        put(tmp_path / "no" / "out")
    with pytest.raises(UsageError, match="cannot be the name of a file"):
        put(tmp_path / "a\0b")
    with pytest.raises(PermanentError, match="File name too long"):
        put(tmp_path / ("x" * 300))
    (tmp_path / "ring").symlink_to("ring")
    with pytest.raises(PermanentError, match="Too many levels of symbolic links"):
        put(tmp_path / "ring")


def test_what_is_read_is_not_written_over(tmp_path: Path) -> None:
    source, link = tmp_path / "in", tmp_path / "link"
    source.write_bytes(b"old")
    link.symlink_to(source)
    with pytest.raises(UsageError, match="is what is read"), draft_file(link, inputs=[source]):
        pass
    assert source.read_bytes() == b"old"


def test_what_a_pipeline_delivered_is_not_written_over(tmp_path: Path) -> None:
    alerts = tmp_path / "alerts.jsonl"
    alerts.write_bytes(b"{}\n")
    alerts.with_name("alerts.jsonl.state").touch()
    with pytest.raises(UsageError, match=r"the file of a pipeline's sink"):
        put(alerts)
    store = tmp_path / "crossline.db"
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("CREATE TABLE t (x)")
    before = store.read_bytes()
    for way in (written, growing_file):
        with pytest.raises(UsageError, match="is a database"), way(store):
            pass
    assert store.read_bytes() == before


@pytest.mark.parametrize("suffix", [".state", ".ids", ".ids-wal", ".ids-shm"])
@pytest.mark.parametrize("moved", [False, True])
def test_what_stands_beside_a_sinks_lines_is_not_written_over(tmp_path: Path, suffix: str, *, moved: bool) -> None:
    alerts = tmp_path / "alerts.jsonl"
    if not moved:
        alerts.write_bytes(b"{}\n")
    alerts.with_name("alerts.jsonl.state").write_bytes(b'{"pipeline":"p"}')
    target = alerts.with_name(alerts.name + suffix)
    with target.open("ab"):
        before = target.read_bytes()
    for way in (written, growing_file):
        with pytest.raises(UsageError, match=r"the file of a pipeline's sink"), way(target):
            pass
    assert target.read_bytes() == before


def test_the_log_of_a_store_is_not_written_over(tmp_path: Path) -> None:
    store = tmp_path / "crossline.db"
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (x)")
        for suffix in ("-wal", "-shm"):
            with pytest.raises(UsageError, match="is a database"):
                put(store.with_name(store.name + suffix))


def test_other_files_of_such_names_are_written(tmp_path: Path) -> None:
    for name in ("machine.state", "user.ids", "x-wal"):
        (tmp_path / name).write_bytes(b"old")
        put(tmp_path / name)
        assert (tmp_path / name).read_bytes() == b"new"


def test_where_the_process_prints_is_known(tmp_path: Path) -> None:
    assert not is_standard_output(tmp_path)
    assert not is_standard_output(Path(os.devnull))
