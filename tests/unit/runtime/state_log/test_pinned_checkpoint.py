"""A copy of a checkpoint is what a kill at one moment would have left, however the pipeline goes on meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from crossline.io.objects.file_stores import LocalFiles
from crossline.runtime.snapshot.spark_log import last_committed, last_planned
from crossline.runtime.state_log import pinned_checkpoint
from crossline.runtime.state_log.pinned_checkpoint import CheckpointMovedError, CheckpointPlace, pin
from crossline.runtime.state_log.state_log import Segment, StateLog
from oracle.living import Life
from oracle.test_publications import COUNT, _record
from oracle.test_reshard import begun


@pytest.fixture
def life(tmp_path: Path) -> Life:
    """Two batches."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    made = begun(folder, [{**COUNT, "rule_id": "r0", "window": "60s"}], 2)
    (folder / "spark").mkdir()
    (folder / "spark" / "metadata").write_bytes(orjson.dumps({"id": "one"}))
    for _ in range(2):
        batch(made)
    return made


def batch(life: Life) -> None:
    life.take_in([{**_record(life.batches, life.batches), "account": "a1"}], 1)
    life.deliver(life.judge(life.plan_batch()))
    life.commit()


def place_of(life: Life) -> CheckpointPlace:
    return CheckpointPlace(life.folder, f"{life.folder}/state", LocalFiles(life.folder / "behind"))


def meanwhile(patch: pytest.MonkeyPatch, name: str, happens: Callable[[], None], times: int = 1) -> list[int]:
    """Let something happen right after the first calls of a function of the module; how often it did."""
    original, done = getattr(pinned_checkpoint, name), list[int]()

    def call(*args: Any) -> Any:
        found = original(*args)
        if len(done) < times:
            done.append(1)
            happens()
        return found

    patch.setattr(pinned_checkpoint, name, call)
    return done


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_has_the_files_of_one_moment(life: Life, tmp_path: Path) -> None:
    copy = pin(place_of(life), tmp_path / "copy")
    assert copy is not None
    assert (copy.batch, copy.checkpoint, copy.shards) == (1, "one", 2)
    expected = files_of(life.folder)
    assert files_of(copy.folder) == expected
    batch(life)
    assert files_of(copy.folder) == expected, "what is in it never changes"


def test_a_batch_that_comes_while_files_are_read_is_in_it_whole_or_not_at_all(
    life: Life, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = meanwhile(monkeypatch, "_read", lambda: batch(life), times=3)
    copy = pin(place_of(life), tmp_path / "copy")
    assert copy is not None
    assert (len(done), copy.batch, last_planned(str(copy.folder))) == (3, 4, 4)
    old = {f"spark/{log}/{number}" for log in ("offsets", "commits") for number in (0, 1)}
    expected = {name: data for name, data in files_of(life.folder).items() if name not in old}
    assert files_of(copy.folder) == expected, "Spark needs no older logs"


def test_files_that_grow_after_the_looks_are_cut_at_their_size_then(
    life: Life, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All files are large here: they are read once the looks are over, while batches go on."""
    monkeypatch.setattr(pinned_checkpoint, "READ_BYTES", 0)
    expected = {name: data for name, data in files_of(life.folder).items() if not name.startswith("state/")}
    looked: list[int] = []
    original = pinned_checkpoint.driver_files

    def looking(folder: Path) -> Any:
        found = list(original(folder))
        looked.append(1)
        if len(looked) == 2:
            for _ in range(3):
                batch(life)
        return iter(found)

    monkeypatch.setattr(pinned_checkpoint, "driver_files", looking)
    copy = pin(place_of(life), tmp_path / "copy")
    assert copy is not None
    assert (copy.batch, last_committed(str(life.folder))) == (1, 4)
    assert {name: data for name, data in files_of(copy.folder).items() if not name.startswith("state/")} == expected
    names = {path.name for path in (copy.folder / "state").rglob("*.seg")}
    assert names == {Segment(number, number).name for number in (0, 1)}, "none of later batches"


def test_segments_that_are_merged_meanwhile_are_found_under_their_new_name(
    life: Life, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def merge() -> None:
        for shard in range(2):
            log = StateLog(f"{life.folder}/state", shard)
            log._join(log.segments())

    meanwhile(monkeypatch, "_copy_driver_files", merge)
    copy = pin(place_of(life), tmp_path / "copy")
    assert copy is not None
    assert {path.name for path in (copy.folder / "state").rglob("*.seg")} == {Segment(0, 1).name}


def test_a_segment_that_holds_later_batches_too_is_not_cut(
    life: Life, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is copied again, with the batch that came."""

    def more() -> None:
        batch(life)
        for shard in range(2):
            log = StateLog(f"{life.folder}/state", shard)
            log._join(log.segments())

    meanwhile(monkeypatch, "_copy_driver_files", more)
    copy = pin(place_of(life), tmp_path / "copy")
    assert copy is not None
    assert copy.batch == 2


def test_a_state_with_a_gap_is_none(life: Life, tmp_path: Path) -> None:
    (life.folder / "state" / "shard-00001" / Segment(0, 0).name).unlink()
    with pytest.raises(CheckpointMovedError, match=r"state of batch 0 is missing \(batch 1 needs it\)"):
        pin(place_of(life), tmp_path / "copy")
    shutil.rmtree(life.folder / "state" / "shard-00001")
    with pytest.raises(CheckpointMovedError, match="found the logs of 1 shards, expected 2"):
        pin(place_of(life), tmp_path / "copy")


def test_files_that_never_stand_still(life: Life, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned_checkpoint, "LOOKS_MAX", 5)
    numbers = iter(range(100))
    changing = life.folder / "changing"
    meanwhile(monkeypatch, "_read", lambda: changing.write_text("x" * next(numbers)) and None, times=100)  # type: ignore[func-returns-value]
    with pytest.raises(CheckpointMovedError, match="do not stand still"):
        pin(place_of(life), tmp_path / "copy")


def test_before_a_first_batch_there_is_nothing_to_copy(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    assert pin(CheckpointPlace(folder, f"{folder}/state", LocalFiles(folder / "behind")), tmp_path / "copy") is None


def test_a_state_on_a_store_is_copied(life: Life, tmp_path: Path) -> None:
    place = CheckpointPlace(life.folder, (life.folder / "state").as_uri(), LocalFiles(life.folder / "behind"))
    copy = pin(place, tmp_path / "copy")
    assert copy is not None
    assert files_of(copy.folder) == files_of(life.folder)
