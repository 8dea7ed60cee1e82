"""Snapshots of the state in the lake: there once their row is committed, over kills, two writers and damage."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from crossline.basics.errors import StateError
from crossline.lake.maintenance.schedule import maintain
from crossline.lake.state.schedule import Pin, state_schedule_of
from crossline.lake.state.state_snapshots import FOLDER, StateSnapshot, newest_by
from crossline.lake.watermark import Watermarks
from crossline.runtime.snapshot.checkpoint_mirror import PINNED

from .state_kit import DAY_MS, NOW_MS, KeptPipeline, KilledError, state_folder

HOUR_MS = 3_600_000


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[KeptPipeline]:
    made = KeptPipeline(tmp_path)
    for _ in range(3):
        made.batch()
    yield made
    made.snapshots.lake.close()


def folders(kept: KeptPipeline) -> list[str]:
    root = state_folder(kept.root)
    return sorted(each.name for each in root.iterdir()) if root.exists() else []


def killed_at(step: str) -> Callable[[str], None]:
    def before(name: str) -> None:
        if name == step:
            raise KilledError

    return before


def test_a_round_ends_with_the_batch_of_the_snapshot(kept: KeptPipeline) -> None:
    kept.written_round()
    assert kept.pipeline.reader().count("records_payments") == 3
    taken = kept.last()
    mark = Watermarks.of(kept.snapshots.lake).at(taken.checkpoint, 2)
    assert mark is not None
    assert (taken.batch, taken.checkpoint, taken.taken_ms) == (2, "checkpoint-1", NOW_MS)
    assert (taken.delivered_ms, taken.clocks) == (mark.delivered_ms, mark.clocks)
    assert taken.shards == 2
    assert folders(kept) == [taken.name]
    files = [path for path in (state_folder(kept.root) / taken.name).rglob("*") if path.is_file()]
    assert len(files) == taken.files + 1, "the manifest is beside them"
    assert sum(path.stat().st_size for path in files if path.name != "manifest.json") == taken.size
    assert list((kept.folder / PINNED).iterdir()) == []


def test_it_is_due_once_in_an_interval_and_where_batches_came(kept: KeptPipeline) -> None:
    schedule = kept.schedule()
    kept.round(schedule)
    kept.batch()
    kept.now_ms += DAY_MS - 1
    kept.round(schedule)
    assert [each.batch for each in kept.snapshots.all()] == [2]
    kept.round()  # another process, which reads when the last one was taken
    assert [each.batch for each in kept.snapshots.all()] == [2]
    kept.now_ms += 1
    kept.round(schedule)
    assert [each.batch for each in kept.snapshots.all()] == [2, 3]
    kept.now_ms += DAY_MS
    kept.round(schedule)
    assert [each.batch for each in kept.snapshots.all()] == [2, 3], "no batch came since"
    kept.batch()
    kept.now_ms -= 30 * DAY_MS  # a clock that was put back
    other = kept.schedule(keep=2)
    kept.round(other)
    assert [each.batch for each in kept.snapshots.all()] == [3, 4], "it is the newest"
    assert newest_by(kept.snapshots.all()).batch == 4
    kept.batch()
    kept.round(other)
    assert kept.last().batch == 4, "not before an interval has passed"


def test_only_the_newest_are_kept(kept: KeptPipeline) -> None:
    schedule = kept.schedule(keep=2)
    for _ in range(4):
        kept.batch()
        kept.now_ms += DAY_MS
        kept.round(schedule)
    assert [each.batch for each in kept.snapshots.all()] == [5, 6]
    assert folders(kept) == [each.name for each in kept.snapshots.all()]


def test_without_an_interval_none_is_taken(kept: KeptPipeline) -> None:
    kept.pipeline.text = kept.pipeline.text.replace("lake: {", "lake: {state_every: 0s, ")
    assert state_schedule_of(kept.pipeline.config, kept.snapshots, kept.folder) is None


@pytest.mark.parametrize("step", ["files", "manifest", "row"])
def test_killed_before_its_row_it_never_was(kept: KeptPipeline, step: str) -> None:
    kept.snapshots.before_step = killed_at(step)
    with pytest.raises(KilledError):
        kept.round()
    kept.snapshots.before_step = lambda _: None
    assert kept.snapshots.all() == []
    left = folders(kept)
    assert kept.snapshots.delete_orphans(NOW_MS + 23 * HOUR_MS) == 0, "its process may live"
    kept.round()
    assert kept.last().batch == 2
    assert kept.snapshots.delete_orphans(NOW_MS + 24 * HOUR_MS) == len(left)
    assert folders(kept) == [kept.last().name]
    kept.snapshots.read(kept.last())


@pytest.mark.parametrize("step", ["drop rows", "drop files"])
def test_killed_while_old_ones_are_deleted_the_rest_goes_later(kept: KeptPipeline, step: str) -> None:
    kept.round()
    kept.batch()
    kept.now_ms += DAY_MS
    kept.snapshots.before_step = killed_at(step)
    with pytest.raises(KilledError):
        kept.round(kept.schedule(keep=1))
    kept.snapshots.before_step = lambda _: None
    rows = [each.batch for each in kept.snapshots.all()]
    assert rows == ([2, 3] if step == "drop rows" else [3])
    for each in kept.snapshots.all():
        kept.snapshots.read(each)
    reader = kept.pipeline.reader()
    settings = reader.config.lake
    assert settings is not None
    list(maintain(reader, settings.model_copy(update={"state_keep": 1}), kept.now_ms + 25 * HOUR_MS))
    assert [each.batch for each in kept.snapshots.all()] == [3]
    assert folders(kept) == [kept.last().name]


def pinned(kept: KeptPipeline) -> Pin:
    found = kept.schedule().pin()
    assert found is not None
    return found


def test_of_two_writers_one_puts_it(kept: KeptPipeline) -> None:
    """Both copied the same batch; the second one deletes its files."""
    pins, mark = [pinned(kept), pinned(kept)], kept.mark(2)
    taken = [
        kept.snapshots.put(each.copy, mark, kept.rule_log, NOW_MS + n, threading.Event()) for n, each in enumerate(pins)
    ]
    for each in pins:
        each.release()
    assert [each is None for each in taken] == [False, True]
    assert folders(kept) == [kept.last().name]


def test_a_stop_gives_it_up(kept: KeptPipeline) -> None:
    kept.mark(2)
    stop = threading.Event()
    found, schedule = pinned(kept), kept.schedule()
    stop.set()
    assert schedule.put(found, stop) is None
    found.release()
    assert (kept.snapshots.all(), folders(kept)) == ([], [])


def test_a_batch_that_the_lake_does_not_end_with_is_no_snapshot(kept: KeptPipeline) -> None:
    found, schedule = pinned(kept), kept.schedule()
    kept.mark(kept.batch())  # another writer: its slice ends with a later batch
    assert schedule.put(found, threading.Event()) is None
    found.release()
    assert kept.snapshots.all() == []


def test_a_failure_is_logged_and_tried_again_later(kept: KeptPipeline, capsys: pytest.CaptureFixture[str]) -> None:
    state = kept.folder / "state"
    shutil.rmtree(state / "shard-00001")
    schedule = kept.schedule()
    kept.round(schedule)
    assert kept.snapshots.all() == []
    assert "no snapshot of the state was taken" in capsys.readouterr().out
    kept.now_ms += 1
    assert schedule.pin() is None, "not before ten minutes"


def test_damage_is_named(kept: KeptPipeline) -> None:
    kept.round()
    folder = state_folder(kept.root) / kept.last().name
    shutil.rmtree(kept.folder)
    for what in ("notes", "state", "manifest"):
        found = (each for each in sorted(folder.rglob("*")) if each.is_file() and what in str(each.relative_to(folder)))
        path = next(found)
        raw = path.read_bytes()
        for reason in ("damaged", "missing"):
            path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
            if reason == "missing":
                path.unlink()
            with pytest.raises(StateError, match=rf"{FOLDER}/.*{path.name}: {reason}.*an older snapshot with --at"):
                kept.restoring().restore(kept.last())
        path.write_bytes(raw)
    left = {str(each.relative_to(kept.folder.parent)) for each in kept.folder.parent.rglob("*checkpoint*/*")}
    assert left == {"checkpoint/held"}


def test_the_newest_by_an_instant() -> None:
    made = StateSnapshot(1, "c", 1_000, 5_000, "file:///x/a", 1, 1, "d", 1)
    both = [made, replace(made, batch=2, delivered_ms=2_000, taken_ms=6_000)]
    assert [newest_by(both, at).batch for at in (None, 2_000, 1_999, 1_000)] == [2, 2, 1, 1]
    with pytest.raises(StateError, match=r"by 1970-01-01T00:00:00.999Z; the oldest is of 1970-01-01T00:00:01.000Z"):
        newest_by(both, 999)
    with pytest.raises(StateError, match="has no snapshot of the state: start the pipeline anew"):
        newest_by([])
