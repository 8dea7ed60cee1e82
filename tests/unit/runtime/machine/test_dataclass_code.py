"""Methods of dataclasses are compiled once: the same classes, from a file that is whole and of its user, or without."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.runtime.machine import dataclass_code
from crossline.runtime.machine.dataclass_code import DataclassCode, encoded, read_codes

HELP = (sys.executable, "-m", "crossline.cli.main", "--help")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "python" / "kept.code"


@pytest.fixture(autouse=True)
def bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python is told to write it, whatever these tests are started with."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)


def made(codes: DataclassCode | None, monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    with monkeypatch.context() as patched:
        if codes is not None:
            patched.setitem(vars(dataclasses), "exec", codes.execute)

        @dataclasses.dataclass(frozen=True, slots=True, order=True)
        class Sample:
            name: str
            count: int = 3
            parts: tuple[int, ...] = dataclasses.field(default=(), compare=False)
            made: list[int] = dataclasses.field(default_factory=list, repr=False, hash=False)

        return Sample


def behaviour(sample: type[Any]) -> list[object]:
    one, other = sample("a", parts=(1, 2)), sample("a", 4)
    found: list[object] = [repr(one), one == sample("a"), one < other, hash(one) == hash(sample("a")), one.made]
    for change in (lambda: setattr(one, "count", 1), lambda: delattr(one, "count"), sample, lambda: one < 1):
        with pytest.raises((AttributeError, TypeError)) as raised:
            change()
        found.append((type(raised.value).__name__, str(raised.value)))
    return [*found, str(sample.__init__.__annotations__), sample.__doc__]


def test_classes_are_the_same_compiled_now_kept_and_without(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = behaviour(made(None, monkeypatch))
    first = DataclassCode(path)
    assert behaviour(made(first, monkeypatch)) == plain
    assert len(first.compiled) > 5
    first.keep()
    assert not first.compiled
    second = DataclassCode(path)
    assert behaviour(made(second, monkeypatch)) == plain
    assert not second.compiled  # all of it came from the file


def test_what_is_no_python_is_an_error_and_not_kept(path: Path) -> None:
    codes = DataclassCode(path)
    with pytest.raises(SyntaxError):
        codes.execute("def f(:")
    found: dict[str, Any] = {}
    codes.execute("x = y + 1", {"y": 1}, found)
    assert found == {"x": 2}
    codes.keep()
    assert list(read_codes(path)) == ["x = y + 1"]


def test_two_processes_add_to_one_file(path: Path) -> None:
    one, other = DataclassCode(path), DataclassCode(path)
    one.execute("a = 1", {})
    other.execute("b = 1", {})
    one.keep()
    other.keep()
    assert set(read_codes(path)) == {"a = 1", "b = 1"}
    assert path.stat().st_mode & 0o777 == 0o644


def test_nothing_is_written_where_nothing_is_new_or_python_may_not(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = DataclassCode(path)
    codes.keep()
    assert not path.exists()
    codes.execute("a = 1", {})
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    codes.keep()
    assert not path.exists()


def test_a_file_that_has_grown_too_large_begins_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("a = 1", "b = 1"):
        codes = DataclassCode(path)
        codes.execute(text, {})
        codes.keep()
        monkeypatch.setattr(dataclass_code, "BYTES_MAX", path.stat().st_size)
    assert set(read_codes(path)) == {"b = 1"}


def test_a_file_that_others_may_write_is_not_executed(path: Path) -> None:
    codes = DataclassCode(path)
    codes.execute("a = 1", {})
    codes.keep()
    path.chmod(0o666)
    assert read_codes(path) == {}


def test_a_folder_that_takes_no_files_is_no_error(path: Path) -> None:
    path.parent.write_text("no folder")
    codes = DataclassCode(path)
    codes.execute("a = 1", {})
    codes.keep()
    assert read_codes(path) == {}


@given(data=st.data())
def test_no_part_and_no_change_of_a_file_is_executed(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / f"cut-{os.getpid()}.code"
    whole = encoded({"a = 1": b"some code"})
    path.write_bytes(whole)
    assert read_codes(path) == {"a = 1": b"some code"}
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    assert read_codes(path) == {}
    at, bit = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 7))
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
    assert read_codes(path) == {}


def shown(cache: Path, **more: str) -> str:
    environment = {**os.environ, "CROSSLINE_CACHE": str(cache), **more}
    return subprocess.run(HELP, env=environment, check=True, capture_output=True, text=True).stdout


def test_a_command_compiles_them_once(tmp_path: Path) -> None:
    first = shown(tmp_path)
    (kept,) = (tmp_path / "python").iterdir()
    content, number, texts = kept.read_bytes(), kept.stat().st_ino, set(read_codes(kept))
    assert texts
    assert shown(tmp_path) == first
    assert (kept.read_bytes(), kept.stat().st_ino) == (content, number)  # nothing was left to compile
    kept.write_bytes(content[:-1])
    assert shown(tmp_path) == first
    assert set(read_codes(kept)) == texts  # of the code itself Python may write the same in two ways


def test_a_cache_that_cannot_be_made_is_no_error_of_a_command(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert shown(tmp_path / "file") == shown(tmp_path / "cache")
    assert shown(Path("~no-such-user/cache")) == shown(tmp_path / "cache")


def test_python_that_writes_no_bytecode_leaves_none(tmp_path: Path) -> None:
    shown(tmp_path, PYTHONDONTWRITEBYTECODE="1")
    assert not list(tmp_path.rglob("*.code"))
