"""Another number of shards for a checkpoint on a store: killed before any step, it is as it was or as it is to be.

The store is a folder that is reached by a URI, as one in HDFS would be: what is put is renamed into its place.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from crossline.basics.errors import StateError, UsageError
from crossline.io.objects.file_stores import ObjectFiles, file_store
from crossline.runtime.snapshot import lease as lease_module
from crossline.runtime.snapshot.checkpoint_store import StoredCheckpoint, is_there
from crossline.runtime.snapshot.lease import CLAIMS
from crossline.runtime.state_log.reshard import reshard_stored
from crossline.runtime.state_log.state_log import StateLog
from oracle.living import Life
from oracle.test_reshard import KilledError, go_on, lived

LAST_ALERT = [("t11", {"account": "a1"}, 3)]


@pytest.fixture(autouse=True)
def _no_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "RENEW_S", 3600.0)


def on_store(folder: Path, life: Life) -> str:
    """The checkpoint of ``life``, on a store: state by itself, the rest in a note."""
    uri = (folder / "store").as_uri()
    held = StoredCheckpoint(uri)
    for path in life.folder.iterdir():
        if path.is_dir() and path.name != "state":
            shutil.copytree(path, held.folder / path.name)
        elif path.is_file():
            shutil.copy(path, held.folder / path.name)
    held.release()
    shutil.copytree(life.folder / "state", folder / "store" / "state")
    return uri


def killed(uri: str) -> None:
    """Its hold would be seen as that of a dead process, were it not this one."""
    file_store(uri).clear(CLAIMS)


def gone_on(uri: str, folder: Path, life: Life) -> tuple[int, list[Any]]:
    """The shards that the next driver finds, and its alerts."""
    held = StoredCheckpoint(uri)
    shards: int = orjson.loads((held.folder / "snapshot.json").read_bytes())["shards"]
    state = held.state_root.rpartition("/")[2]
    there = {name for name in file_store(uri).folders() if name.startswith("state")}
    shutil.rmtree(life.folder)
    shutil.copytree(held.folder, life.folder)
    shutil.copytree(folder / "store" / state, life.folder / "state")
    held.release()
    life.shards = shards
    assert there == {state}, "what counts for nothing is cleared away at a start"
    assert len(list((life.folder / "state").glob("shard-*"))) == shards
    return shards, go_on(life)


def dying(monkeypatch: pytest.MonkeyPatch, step: int) -> list[str]:
    """Let ``step`` changes of the store be made, and no more; what they are."""
    done: list[str] = []

    def counted(of: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(of, name)

        def call(self: Any, *args: Any, **more: Any) -> Any:
            if len(done) == step:
                raise KilledError
            done.append(f"{name} {args[0]}")
            return original(self, *args, **more)

        monkeypatch.setattr(of, name, call)

    for name in ("put", "clear", "delete"):
        counted(ObjectFiles, name)
    counted(StateLog, "_put_as")
    return done


def test_killed_before_any_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    life = lived(tmp_path / "life")
    on_store(tmp_path, life)
    for step in itertools.count():
        folder = tmp_path / str(step)
        shutil.copytree(tmp_path / "store", folder / "store")
        uri = (folder / "store").as_uri()
        held = StoredCheckpoint(uri)
        with monkeypatch.context() as patch:
            dying(patch, step)
            try:
                reshard_stored(held, "payments", 5)
            except KilledError:
                whole = False
            else:
                whole = True
        killed(uri)
        shards, reported = gone_on(uri, folder, life)
        assert reported == LAST_ALERT
        found.append(shards)
        if whole:
            break
    # What was begun, five logs, and the note; then what was is cleared away.
    assert found == [3] * 7 + [5] * (len(found) - 7)
    assert len(found) >= 9


def test_who_was_taken_over_from_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It froze while it wrote; by then another driver has the checkpoint, and has shards of its own."""
    life = lived(tmp_path / "life")
    uri = on_store(tmp_path, life)
    frozen = StoredCheckpoint(uri)
    put = StateLog._put_as

    def freezing(self: StateLog, *args: Any, **more: Any) -> None:
        monkeypatch.setattr(StateLog, "_put_as", put)
        killed(uri)
        other = StoredCheckpoint(uri)
        reshard_stored(other, "payments", 2)
        other.release()
        put(self, *args, **more)

    monkeypatch.setattr(StateLog, "_put_as", freezing)
    with pytest.raises(StateError, match="was taken over by another run"):
        reshard_stored(frozen, "payments", 5)
    frozen.release()
    assert gone_on(uri, tmp_path, life) == (2, LAST_ALERT)


def test_it_may_be_done_again_and_again_and_another_pipeline_is_refused(tmp_path: Path) -> None:
    life = lived(tmp_path / "life")
    uri = on_store(tmp_path, life)
    assert is_there(uri)
    assert not is_there((tmp_path / "nothing").as_uri())
    for shards in (5, 1, 4):
        held = StoredCheckpoint(uri)
        done = reshard_stored(held, "payments", shards)
        assert (done.shards, done.batches) == (shards, 11)
        held.release()
    held = StoredCheckpoint(uri)
    assert reshard_stored(held, "payments", 4).batches == 0
    (held.folder / "owner.json").write_text('{"pipeline": "other"}')
    with pytest.raises(UsageError, match="is the checkpoint of pipeline other, found payments"):
        reshard_stored(held, "payments", 2)
    (held.folder / "owner.json").unlink()
    held.release()
    assert gone_on(uri, tmp_path, life) == (4, LAST_ALERT)
