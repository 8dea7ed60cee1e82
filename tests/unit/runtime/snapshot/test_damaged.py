"""Files of a checkpoint that a run relies on: one line names a damaged one and what to do; a power cut damages none."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from crossline.basics.errors import StateError
from crossline.evaluate.bounds import Bounds
from crossline.io.files import state_files
from crossline.io.files.listing import ChunkList
from crossline.rules.base import Defaults
from crossline.rules.ruleset import RuleSet
from crossline.runtime.changes.circuit_breaker import CircuitBreaker
from crossline.runtime.snapshot import snapshot as snapshots
from crossline.runtime.snapshot.previous_snapshot import previous_snapshot
from crossline.runtime.snapshot.snapshot import PlanSnapshot, SnapshotFile
from crossline.runtime.sources.chunk_source import ChunkSource
from crossline.runtime.state_log.reshard import reshard

DAMAGE = [b"", b"\0" * 4096, b'{"format": ', b"[1, 2", b"\xff\xfe{}", b'"text"', b"null", b"{}", b"[]", b"7"]


def _snapshot(folder: Path) -> object:
    snapshots._READ.clear()
    return SnapshotFile(str(folder / "snapshot.json")).current()


def _tables(folder: Path) -> object:
    (folder / "snapshot.json").write_bytes(PlanSnapshot(RuleSet(), {}, Defaults(), 1, Bounds()).to_json())
    return _snapshot(folder)


def _source(folder: Path) -> object:
    options = {"patterns": "[]", "folder": str(folder), "chunkbytes": "50", "batchsize": "100", "tasks": "2"}
    rest = {"kind": "files", "wholefiles": "false", "unended": "waits"}
    return ChunkSource({**options, **rest}).streamReader(None).latestOffset()  # type: ignore[arg-type]


READERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "snapshot.json": (_snapshot, "restore the checkpoint from a copy"),
    "snapshot.tables.json": (_tables, "move it away"),
    "given.json": (_source, "spark/offsets"),
    "alert-counts.json": (lambda folder: CircuitBreaker(str(folder), None), "move it away"),
}


@pytest.mark.parametrize("damage", DAMAGE, ids=repr)
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_reported_in_one_line(tmp_path: Path, name: str, damage: bytes) -> None:
    read, to_do = READERS[name]
    if (name, damage) == ("alert-counts.json", b"[]"):
        pytest.skip("nothing was counted yet")
    (tmp_path / name).write_bytes(damage)
    with pytest.raises(StateError) as raised:
        read(tmp_path)
    text = str(raised.value)
    assert str(tmp_path / name) in text or "plan snapshot of format" in text
    assert to_do in text or "move the checkpoint away" in text
    assert "\n" not in text


@pytest.mark.parametrize("damage", DAMAGE[2:], ids=repr)
def test_a_damaged_line_of_the_list_of_chunks_is_reported_with_its_number(tmp_path: Path, damage: bytes) -> None:
    whole = {"file": 0, "name": "a", "path": "/in/a", "device": 1, "inode": 1}
    (tmp_path / "chunks.jsonl").write_bytes(json.dumps(whole).encode() + b"\n" + damage + b"\n")
    with pytest.raises(StateError, match="line 2") as raised:
        ChunkList(str(tmp_path)).refresh()
    assert str(tmp_path / "chunks.jsonl") in str(raised.value)
    assert "restore the list from a copy, or move the checkpoint away" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_damaged_owner_is_reported_where_shards_are_changed(tmp_path: Path) -> None:
    (tmp_path / "snapshot.json").write_bytes(PlanSnapshot(RuleSet(), {}, Defaults(), 1, Bounds()).to_json())
    for path in [tmp_path / "pipeline.json", tmp_path / "owner.json"]:
        path.write_bytes(b"\0\0")
    with pytest.raises(StateError, match="is damaged: found 2 bytes of nothing; it records the owner"):
        reshard(tmp_path, "p", 2)


def test_what_is_put_is_synced_with_its_name_before_it_is_relied_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First what is in the file, then its name, then that it has it."""
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def replaced(path: Path, target: Path) -> Path:
        done.append("name")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    state_files.put(tmp_path / "deep" / "given.json", b"{}")
    assert done == ["file", "name", "folder"]
    done.clear()
    SnapshotFile(str(tmp_path / "snapshot.json")).replace(PlanSnapshot(RuleSet(), {}, Defaults(), 1, Bounds()))
    SnapshotFile(str(tmp_path / "snapshot.json")).replace_tables(PlanSnapshot(RuleSet(), {}, Defaults(), 1, Bounds()))
    assert done == ["file", "name", "folder"] * 2
    done.clear()
    chunks = ChunkList(str(tmp_path))
    chunks.take_over()
    chunks.write([{"file": 0, "name": "a", "path": "/in/a", "device": 1, "inode": 1}])
    assert done == ["file", "folder"]


def test_a_checkpoint_of_a_version_before_is_reported_and_never_begun_anew(tmp_path: Path) -> None:
    assert previous_snapshot(tmp_path) is None
    (tmp_path / "book.json").write_text('{"format": 3}')
    with pytest.raises(StateError, match=r"snapshot of format 3; .* reads 4.*move the checkpoint away"):
        previous_snapshot(tmp_path)
