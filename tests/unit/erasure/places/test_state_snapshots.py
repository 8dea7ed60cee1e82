"""Snapshots of the state in the lake: those with a trace go, with the copies that killed processes left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crossline.basics.errors import StateError
from crossline.erasure.place import Counts
from crossline.erasure.places.state_snapshots import StateSnapshotsPlace
from crossline.erasure.subject import Key, Subject
from crossline.lake.state.restore import staging_of
from crossline.runtime.snapshot.checkpoint_mirror import PINNED
from unit.erasure.traces import SALT, files_with
from unit.lake.state.state_kit import DAY_MS, KeptPipeline, KilledError, state_folder

PERSON = "acct-jo"


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[KeptPipeline]:
    """A snapshot before the person came, and one after it."""
    made = KeptPipeline(tmp_path)
    for account in ("a1", PERSON):
        made.batch(account)
        made.round()
        made.now_ms += DAY_MS
    yield made
    made.snapshots.lake.close()


def subject() -> Subject:
    return Subject((Key("account", PERSON),), SALT)


def place_of(kept: KeptPipeline, orphaned_ms: int = 0) -> StateSnapshotsPlace:
    return StateSnapshotsPlace(kept.snapshots, {"payments": "id"}, kept.folder, orphaned_ms)


def batches(kept: KeptPipeline) -> list[int]:
    return [each.batch for each in kept.snapshots.all()]


def test_one_with_a_trace_goes_and_others_stay(kept: KeptPipeline) -> None:
    place = place_of(kept)
    assert batches(kept) == [0, 1]
    person = subject()
    found = place.find(person)
    assert (found.found, found.files, found.size) == (True, kept.last().files, kept.last().size)
    assert person.ids["payments"] == {"t1"}, "its state tells which records are the person's"
    assert place.erase(person) == found
    assert batches(kept) == [0]
    assert files_with(state_folder(kept.root), PERSON, "t1") == []
    assert not place.find(person).found
    assert place.erase(person) == Counts(kept=place.find(person).kept)
    kept.snapshots.read(kept.last())


def test_a_waiting_alert_is_a_trace(kept: KeptPipeline) -> None:
    kept.snapshots.drop(kept.snapshots.all()[1:])
    person = subject()
    person.add("payments", ["p77"])
    place = place_of(kept)
    assert not place.find(person).found
    kept.batch("a1")
    kept.wait_for_sink("p77")
    kept.round()
    assert batches(kept) == [0, 2]
    place.erase(person)
    assert batches(kept) == [0]


def test_what_killed_processes_left_goes_too(kept: KeptPipeline) -> None:
    def die(name: str) -> None:
        if name == "row":
            raise KilledError

    kept.batch("a1")
    kept.snapshots.before_step = die
    with pytest.raises(KilledError):
        kept.round()
    kept.snapshots.before_step = lambda _: None
    staging = staging_of(kept.folder)
    staging.mkdir()
    place_of(kept).erase(subject())
    assert batches(kept) == [0]
    assert [each.name for each in state_folder(kept.root).iterdir()] == [kept.last().name]
    assert not staging.exists()


def test_a_writer_that_is_taking_one_is_waited_for(kept: KeptPipeline) -> None:
    kept.batch("a1")
    pinned = kept.schedule().pin()
    assert pinned is not None
    with pytest.raises(StateError, match=f"{PINNED}: the lake writer is taking a snapshot"):
        place_of(kept).erase(subject())
    pinned.release()
    place_of(kept).erase(subject())
    assert batches(kept) == [0]


def test_a_damaged_one_goes(kept: KeptPipeline) -> None:
    for path in (state_folder(kept.root) / kept.snapshots.all()[0].name).rglob("*.json"):
        path.write_bytes(b"x")
    place_of(kept).erase(subject())
    assert batches(kept) == []
