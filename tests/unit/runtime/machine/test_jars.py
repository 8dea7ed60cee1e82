"""Jars come once, whole, and only the pinned ones. The registry is played by a function; no network here."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from crossline.basics.errors import PermanentError
from crossline.runtime.machine.jars import JarStore, Pin, Progress, groups, pins

BODIES = {"one-1.0.jar": b"one", "two-2.0.jar": b"two", "other-3.jar": b"other"}


def pin(name: str, group: str, body: bytes) -> Pin:
    module, _, revision = name.removesuffix(".jar").rpartition("-")
    return Pin(hashlib.sha256(body).hexdigest(), group, f"org/example/{module}/{revision}/{name}")


PINS = [pin("one-1.0.jar", "pair", b"one"), pin("two-2.0.jar", "pair", b"two"), pin("other-3.jar", "alone", b"other")]


class Registry:
    """Hands out ``bodies`` and keeps count of what was asked for."""

    def __init__(self, bodies: dict[str, bytes]) -> None:
        self.bodies = bodies
        self.asked: list[list[str]] = []

    def fetch(self, missing: Sequence[Pin], into: Path, progress: Progress) -> None:
        self.asked.append([each.file_name for each in missing])
        for number, each in enumerate(missing):
            if each.file_name in self.bodies:
                (into / each.file_name).write_bytes(self.bodies[each.file_name])
                progress(each.file_name, number + 1, len(missing))


def quiet(_name: str, _done: int, _total: int) -> None:
    """Progress without a display."""


def test_a_group_comes_once_and_alone(tmp_path: Path) -> None:
    registry, seen = Registry(BODIES), []
    store = JarStore(tmp_path, PINS, registry.fetch)
    for _ in range(2):
        paths = store.ensure("pair", lambda *step: seen.append(step))
        assert [path.read_bytes() for path in paths] == [b"one", b"two"]
    assert registry.asked == [["one-1.0.jar", "two-2.0.jar"]]
    assert seen == [("one-1.0.jar", 1, 2), ("two-2.0.jar", 2, 2)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pair", "pair.lock"]


def test_only_what_is_missing_is_fetched(tmp_path: Path) -> None:
    registry = Registry(BODIES)
    (tmp_path / "pair").mkdir()
    (tmp_path / "pair" / "one-1.0.jar").write_bytes(b"one")
    JarStore(tmp_path, PINS, registry.fetch).ensure("pair", quiet)
    assert registry.asked == [["two-2.0.jar"]]


def test_another_jar_than_the_pinned_one_is_refused_and_not_kept(tmp_path: Path) -> None:
    store = JarStore(tmp_path, PINS, Registry({**BODIES, "two-2.0.jar": b"forged"}).fetch)
    with pytest.raises(PermanentError) as refused:
        store.ensure("pair", quiet)
    assert hashlib.sha256(b"two").hexdigest() in str(refused.value)
    assert hashlib.sha256(b"forged").hexdigest() in str(refused.value)
    assert list((tmp_path / "pair").iterdir()) == []


def test_a_jar_changed_on_disk_is_refused(tmp_path: Path) -> None:
    store = JarStore(tmp_path, PINS, Registry(BODIES).fetch)
    (path,) = store.ensure("alone", quiet)
    path.write_bytes(b"changed")
    with pytest.raises(PermanentError, match=r"other-3\.jar is not the jar that crossline was tested with"):
        store.ensure("alone", quiet)


def test_what_cannot_be_had_is_named_with_its_place(tmp_path: Path) -> None:
    store = JarStore(tmp_path, PINS, Registry({"one-1.0.jar": b"one"}).fetch)
    with pytest.raises(PermanentError) as refused:
        store.ensure("pair", quiet)
    assert "org/example/two/2.0/two-2.0.jar" in str(refused.value)
    assert "one-1.0.jar" not in str(refused.value)
    assert f"Put the files into {tmp_path}/pair/ by hand" in str(refused.value)


def test_no_way_to_the_registry_says_why_and_what_is_missing(tmp_path: Path) -> None:
    def fail(missing: Sequence[Pin], into: Path, progress: Progress) -> None:
        raise PermanentError("Ivy failed: no route to host")

    with pytest.raises(PermanentError, match=r"(?s)no route to host.*one-1\.0\.jar.*two-2\.0\.jar"):
        JarStore(tmp_path, PINS, fail).ensure("pair", quiet)


def test_an_unknown_group_names_the_known(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match="no group of jars 'pear'; there are alone, pair"):
        JarStore(tmp_path, PINS, Registry(BODIES).fetch).ensure("pear", quiet)


_ENSURE = """
import hashlib, pathlib, sys
from crossline.runtime.machine.jars import JarStore, Pin
folder = pathlib.Path(sys.argv[1])
def fetch(missing, into, progress):
    with (folder / "asked").open("a") as asked:
        asked.write("x")
    print("fetching", flush=True)
    if sys.argv[2] == "waits":
        sys.stdin.read()
    (into / "one-1.0.jar").write_bytes(b"one")
store = JarStore(folder, [Pin(hashlib.sha256(b"one").hexdigest(), "g", "org/one/1.0/one-1.0.jar")], fetch)
print(store.ensure("g", lambda *_: None)[0].read_bytes().decode())
"""


def test_two_processes_at_once_fetch_once(tmp_path: Path) -> None:
    def start(how: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", _ENSURE, str(tmp_path), how]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    with start("waits") as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "fetching\n"  # it has the lock
        with start("does not wait") as second:
            assert first.communicate("")[0] == "one\n"
            assert second.communicate()[0] == "one\n"
    assert (tmp_path / "asked").read_text() == "x"


def test_the_pins_are_whole() -> None:
    counts = Counter(each.group for each in pins())
    assert groups() == sorted(counts)
    assert counts == {
        "broker": 46,
        "hdfs": 1,
        "iceberg": 19,
        "local-fs": 1,
        "registry": 1,
        "s3": 32,
        "spark-iceberg": 3,
        "spark-iceberg-s3": 1,
        "spark-kafka": 4,
        "yarn": 8,
    }
    assert all(len(each.sha256) == 64 and each.path.endswith((".jar", "-all.tar.gz")) for each in pins())
    places = [(each.group, each.file_name) for each in pins()]
    assert len(set(places)) == len(places)


def test_coordinates_are_those_of_the_path() -> None:
    path = "org/apache/kafka/kafka_2.13/4.3.1/kafka_2.13-4.3.1.jar"
    assert Pin("0" * 64, "broker", path).coordinates == ("org.apache.kafka", "kafka_2.13", "4.3.1")
