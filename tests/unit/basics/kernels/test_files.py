"""A kernel's file: whole, of its key and of its user, or not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.kernels import files
from crossline.basics.kernels.files import Code

CODE = Code(b"\x7fELF and so on", "the_function", "int64")
NAME = "package.module:name"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "crossline" / "kernels" / "package.module"


def only(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


def test_what_is_kept_is_loaded(folder: Path) -> None:
    assert files.load(NAME, b"key") is None
    assert files.keep(NAME, b"key", CODE)
    assert files.load(NAME, b"key") == CODE
    assert files.load(NAME, b"another key") is None
    assert only(folder).stat().st_mode & 0o777 == 0o644


def test_the_setting_of_numba_moves_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "of numba"))
    assert files.folder_of(NAME) == tmp_path / "of numba" / "crossline" / "package.module"


@given(st.data())
def test_no_part_and_no_change_of_a_file_is_loaded(data: st.DataObject) -> None:
    whole = files.encoded(b"key", CODE)
    assert files.decoded(whole, b"key") == CODE
    assert files.decoded(whole[: data.draw(st.integers(0, len(whole) - 1))], b"key") is None
    at, bit = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 7))
    assert files.decoded(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :], b"key") is None


def test_a_file_of_another_key_under_this_name_is_not_loaded(folder: Path) -> None:
    files.keep(NAME, b"key", CODE)
    only(folder).write_bytes(files.encoded(b"changed", CODE))
    assert files.load(NAME, b"key") is None


def test_a_file_that_others_may_write_is_not_loaded(folder: Path) -> None:
    files.keep(NAME, b"key", CODE)
    only(folder).chmod(0o666)
    assert files.load(NAME, b"key") is None


def test_a_file_of_another_user_is_not_loaded(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    files.keep(NAME, b"key", CODE)
    owner = only(folder).stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert (files.load(NAME, b"key") is None) == (owner != 0)


def test_a_folder_that_takes_no_files_is_no_error(folder: Path) -> None:
    folder.parent.parent.mkdir(parents=True)
    folder.parent.write_text("no folder")
    files.make_folder(NAME)
    assert not files.keep(NAME, b"key", CODE)
    assert files.load(NAME, b"key") is None


def test_the_latest_files_of_a_kernel_stay(folder: Path) -> None:
    files.keep("package.module:other", b"key", CODE)
    for number in range(files.KEPT_MAX + 3):
        files.keep(NAME, b"%d" % number, CODE)
        for path in folder.glob("name-*"):
            os.utime(path, ns=(0, path.stat().st_mtime_ns - 10**9))
    assert len(list(folder.glob("name-*"))) == files.KEPT_MAX
    assert files.load(NAME, b"%d" % (files.KEPT_MAX + 2)) == CODE
    assert files.load(NAME, b"0") is None
    assert files.load("package.module:other", b"key") == CODE


def test_what_a_killed_process_left_beside_is_no_file(folder: Path) -> None:
    files.keep(NAME, b"key", CODE)
    whole = only(folder)
    whole.rename(whole.with_name(f"{whole.name}.4711.tmp"))
    assert files.load(NAME, b"key") is None


def test_sources_count_with_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "sourced"
    (package / "below").mkdir(parents=True)
    for path in ("__init__.py", "a.py", "below/b.py"):
        (package / path).write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen = set()
    for path, text in (("a.py", ""), ("a.py", "x = 1\n"), ("below/b.py", "x = 1\n"), ("below/c.py", "x = 1\n")):
        (package / path).write_text(text)
        files.sources_of.cache_clear()
        seen.add(files.sources_of("sourced"))
    assert len(seen) == 4
    files.sources_of.cache_clear()
    with pytest.raises(ModuleNotFoundError, match="absent is no package"):
        files.sources_of("absent")


def test_settings_and_processors_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    for name, value in (
        *(("NUMBA_OPT", "3"), ("NUMBA_OPT", "1"), ("NUMBA_BOUNDSCHECK", "1")),
        *(("NUMBA_CPU_NAME", "generic"), ("NUMBA_CPU_FEATURES", "+avx")),
    ):
        monkeypatch.setenv(name, value)
        files._made_with.cache_clear()
        seen.add(files.key_of(NAME, ("int64",), b""))
    monkeypatch.undo()
    files._made_with.cache_clear()
    assert len(seen) == 5
    assert len({files.key_of(NAME, kinds, sources) for kinds in ((), ("int64",)) for sources in (b"", b"1")}) == 4


def test_a_setting_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "yes")
    with pytest.raises(ValueError, match="NUMBA_BOUNDSCHECK: found 'yes', expected a whole number"):
        files.setting("NUMBA_BOUNDSCHECK")
