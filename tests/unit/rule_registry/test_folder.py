"""Whatever lies in a folder under the name of a rule file or a list: it is refused by itself, and the others go on."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from crossline.basics.conditions.lists import named_list
from crossline.basics.errors import RetryableError
from crossline.rule_registry.list_log import ListContents
from crossline.rule_registry.lists import ListsDirectory
from crossline.rule_registry.sources.folder import Folder

from .harness import Harness, rule


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def two_loops(path: Path) -> None:
    other = path.with_name("other")
    path.symlink_to(other.name)
    other.symlink_to(path.name)


def listener(path: Path) -> None:
    # The path of a socket has at most 107 bytes.
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as each:
            each.bind(path.name)
    finally:
        os.chdir(here)


ODD: dict[str, tuple[Callable[[Path], object], str]] = {
    "a loop": (loop, "Too many levels of symbolic links"),
    "two links in a ring": (two_loops, "Too many levels of symbolic links"),
    "a dangling link": (lambda path: path.symlink_to("nowhere"), "a link to what is not there"),
    "a folder": (Path.mkdir, "a folder"),
    "a link to a folder": (lambda path: path.symlink_to("/tmp"), "a folder"),  # noqa: S108 - any folder
    "a pipe without a writer": (os.mkfifo, "a named pipe"),
    "a socket": (listener, "a socket"),
    "a device without end": (lambda path: path.symlink_to("/dev/zero"), "a device"),
    "a large file": (lambda path: path.write_bytes(b"#" * (16 * 2**20 + 1)), "more than 16,777,216 bytes"),
    "a NUL": (lambda path: path.write_bytes(b"a: \0\n"), "a character that may not stand in YAML"),
    "Latin-1": (lambda path: path.write_bytes(b"# ok\na: \xe9\n"), "byte 0xe9"),
}


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_rule_file_is_refused_by_itself(harness: Harness, odd: str) -> None:
    make, text = ODD[odd]
    harness.write("z.yaml", rule("before"))
    harness.start()
    make(harness.folder / "m.yaml")
    harness.write("a.yaml", rule("a"))
    harness.write("z.yaml", rule("before", version=2))
    rules, events = harness.take_up()
    assert [(e.event, e.source) for e in events] == [
        ("refused", "m.yaml"),
        ("published", "a.yaml"),
        ("published", "z.yaml"),
    ]
    assert f"found {text}" in str(events[0].text)
    assert {(each.rule.rule_id, each.rule.version) for each in rules.versions} >= {("a", 1), ("before", 2)}

    # It is reported once, and what replaces it is accepted.
    harness.write("b.yaml", rule("b"))
    assert [(e.event, e.source) for e in harness.take_up()[1]] == [("published", "b.yaml")]
    path = harness.folder / "m.yaml"
    path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    harness.write("m.yaml", rule("m"))
    assert [(e.event, e.source) for e in harness.take_up()[1]] == [("published", "m.yaml")]


@pytest.mark.parametrize("odd", [name for name in ODD if name != "a large file"])
def test_an_odd_list_is_refused_by_itself(tmp_path: Path, odd: str) -> None:
    make, text = ODD[odd]
    folder = tmp_path / "lists"
    folder.mkdir()
    lists = ListsDirectory(folder, ListContents(tmp_path / "kept"))
    assert lists.start([], 0) == []
    make(folder / "m.yaml")
    (folder / "a.txt").write_text("x\n", encoding="utf-8")
    changes = lists.poll()
    assert changes is not None
    events = lists.events(changes, 1, {})
    lists.take(changes, events)
    assert lists.log.since({}) == {"a": named_list(["x"])}
    assert [(e.event, e.source) for e in events] == [("list_changed", "a.txt"), ("refused", "m.yaml")]
    assert f"found {text}" in str(events[1].text)


def test_a_file_that_may_not_be_read(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests may run as root, who may read anything: the answer of the system is put in."""
    harness.start()
    harness.write("m.yaml", rule("m"))
    harness.write("a.yaml", rule("a"))
    real = os.open

    def refuses(path: object, *arguments: int) -> int:
        if str(path).endswith("m.yaml"):
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("crossline.rule_registry.content.os.open", refuses)
    _, events = harness.take_up()
    assert [(e.event, e.source) for e in events] == [("refused", "m.yaml"), ("published", "a.yaml")]
    assert "found Permission denied; expected a file that can be read" in str(events[0].text)


def test_a_name_that_is_not_utf_8(harness: Harness) -> None:
    harness.start()
    Path(os.fsdecode(os.fsencode(harness.folder) + b"/m\xff.yaml")).write_text(rule("m"), encoding="utf-8")
    harness.write("a.yaml", rule("a"))
    _, events = harness.take_up()
    assert [(e.event, e.source) for e in events] == [("refused", "m\\xff.yaml"), ("published", "a.yaml")]
    assert "found a name that is not UTF-8" in str(events[0].text)
    assert harness.log.poll() is None
    harness.restart()


def test_a_folder_that_is_a_loop_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "rules").symlink_to("rules")
    with pytest.raises(RetryableError, match=r"rules cannot be read: Too many levels of symbolic links"):
        Folder(tmp_path / "rules", (".yaml",), 10).changed()
