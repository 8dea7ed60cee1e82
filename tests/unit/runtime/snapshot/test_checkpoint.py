"""Whose a checkpoint is; that one is held is tried with real processes."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from crossline.basics.errors import StateError
from crossline.runtime.machine.temporary_folders import own_folder
from crossline.runtime.snapshot import checkpoint
from crossline.runtime.snapshot.checkpoint import HELD, OWNER, Checkpoint, SourceMark, claim

HOLDER = """
import sys
from crossline.runtime.snapshot.checkpoint import claim
held = claim(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""
PAYMENTS = SourceMark("payments", "files")
TRIPS = SourceMark("trips", "kafka", {"topics": ["trips", "trips-old"]})


def holder(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def owned(folder: Path, pipeline: str, *marks: SourceMark) -> list[str]:
    held = claim(str(folder))
    try:
        return held.owned_by(pipeline, marks)
    finally:
        held.release()


def offsets(folder: Path, *lines: str) -> None:
    """Spark's own, of batch 9."""
    path = folder / "spark" / "offsets"
    path.mkdir(parents=True)
    (path / "8").write_text("v1\n{}\n")
    (path / "9").write_text("\n".join(["v1", "{}", *lines]))


def test_another_process_is_refused_until_the_first_has_ended_even_by_a_kill(tmp_path: Path) -> None:
    process = holder(tmp_path)
    text = rf"{tmp_path} is held by another run of this pipeline \(process {process.pid} on .+\): stop that one first"
    with pytest.raises(StateError, match=text):
        claim(str(tmp_path))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    claim(str(tmp_path)).release()


def test_one_process_holds_it_once(tmp_path: Path) -> None:
    held = claim(str(tmp_path))
    with pytest.raises(StateError, match=rf"process {os.getpid()} on"):
        claim(str(tmp_path))
    held.release()
    held.release()
    claim(str(tmp_path)).release()
    assert (tmp_path / HELD).read_bytes() == b"", "a run that ended well leaves no note"


def test_an_unreferenced_claim_is_released(tmp_path: Path) -> None:
    claim(str(tmp_path))
    claim(str(tmp_path)).release()


def test_another_pipeline_is_reported_whose_it_is_and_what_to_do(tmp_path: Path) -> None:
    assert owned(tmp_path, "shop", PAYMENTS) == ["payments"]
    before = (tmp_path / OWNER).read_bytes()
    with pytest.raises(StateError, match=r"is the checkpoint of pipeline shop, found kiosk: give kiosk one of its own"):
        owned(tmp_path, "kiosk", PAYMENTS)
    assert (tmp_path / OWNER).read_bytes() == before
    assert owned(tmp_path, "shop", PAYMENTS) == ["payments"]


@pytest.mark.parametrize(
    ("now", "text"),
    [
        ([PAYMENTS], r"has read the streams payments, trips, found payments: .*put them back"),
        ([PAYMENTS, TRIPS, SourceMark("more", "files")], "found payments, trips, more"),
        ([SourceMark("cards", "files"), TRIPS], "found cards, trips"),
        ([SourceMark("payments", "generator"), TRIPS], "stream payments from a source of kind files, found generator"),
        (
            [PAYMENTS, SourceMark("trips", "kafka", {"topics": ["trips"]})],
            "stream trips from topics trips, trips-old, found trips: put it back",
        ),
    ],
)
def test_other_sources_are_refused(tmp_path: Path, now: list[SourceMark], text: str) -> None:
    owned(tmp_path, "shop", PAYMENTS, TRIPS)
    with pytest.raises(StateError, match=text):
        owned(tmp_path, "shop", *now)


def test_sources_keep_the_order_of_the_first_start(tmp_path: Path) -> None:
    """Spark's offsets are positional."""
    owned(tmp_path, "shop", TRIPS, PAYMENTS)
    assert owned(tmp_path, "shop", PAYMENTS, TRIPS) == ["trips", "payments"]
    assert owned(tmp_path, "shop", PAYMENTS, TRIPS) == ["trips", "payments"]


def test_a_topic_more_is_read_and_then_belongs_to_it(tmp_path: Path) -> None:
    owned(tmp_path, "shop", TRIPS)
    more = SourceMark("trips", "kafka", {"topics": ["trips", "trips-new", "trips-old"]})
    assert owned(tmp_path, "shop", more) == ["trips"]
    with pytest.raises(StateError, match="trips-new"):
        owned(tmp_path, "shop", TRIPS)


def test_a_generator_of_other_records_is_refused(tmp_path: Path) -> None:
    owned(tmp_path, "shop", SourceMark("s", "generator", {"workload": "tx", "seed": 1}))
    with pytest.raises(StateError, match="from seed 1, found 2"):
        owned(tmp_path, "shop", SourceMark("s", "generator", {"workload": "tx", "seed": 2}))


def test_a_checkpoint_without_an_owner_is_adopted(tmp_path: Path) -> None:
    offsets(tmp_path, '{"chunk":3}', "-")
    assert owned(tmp_path, "shop", PAYMENTS, TRIPS) == ["payments", "trips"]
    with pytest.raises(StateError, match="pipeline shop"):
        owned(tmp_path, "kiosk", PAYMENTS, TRIPS)


def test_a_checkpoint_without_an_owner_and_with_other_sources_is_not(tmp_path: Path) -> None:
    offsets(tmp_path, '{"chunk":3}', "-")
    with pytest.raises(StateError, match="has read 2 sources, found 1"):
        owned(tmp_path, "shop", PAYMENTS)
    assert not (tmp_path / OWNER).exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pipeline": "shop"}', '{"pipeline": "shop", "sources": [1]}'])
def test_a_damaged_owner_is_reported(tmp_path: Path, text: str) -> None:
    (tmp_path / OWNER).write_text(text)
    with pytest.raises(StateError, match="is damaged: it records the owner of the checkpoint"):
        owned(tmp_path, "shop", PAYMENTS)


def test_a_killed_run_is_waited_for_while_its_java_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = own_folder("test")
    (tmp_path / HELD).write_text(json.dumps({"process": 1, "host": "h", "temporary": str(java.path)}))
    monkeypatch.setattr(checkpoint, "LEFT_S_MAX", 0.1)
    with pytest.raises(StateError, match=f"still in use by what a killed run left behind, which holds {java.path}"):
        claim(str(tmp_path))
    monkeypatch.setattr(checkpoint, "LEFT_S_MAX", 30.0)
    found: list[Checkpoint] = []
    waiting = threading.Thread(target=lambda: found.append(claim(str(tmp_path))))
    waiting.start()
    java.remove()
    waiting.join(30)
    found[0].release()


def test_a_mark_truncated_by_a_kill_stops_no_start(tmp_path: Path) -> None:
    (tmp_path / HELD).write_text('{"process": 1, "ho')
    claim(str(tmp_path)).release()


def test_a_disk_that_does_not_answer_is_no_folder_that_was_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = claim(str(tmp_path / "checkpoint"))

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Path, "stat", fails)
    assert held.missing() is None
    monkeypatch.undo()
    held.release()


def test_a_folder_that_is_not_in_its_place_any_more_is_missed(tmp_path: Path) -> None:
    folder, away = tmp_path / "checkpoint", tmp_path / "away"
    held = claim(str(folder))
    held.publish(threading.Event())

    def found() -> str:
        with pytest.raises(StateError, match="was moved away or deleted while this run used it") as missing:
            held.publish(threading.Event())
        return str(missing.value).partition(": ")[2].partition(",")[0]

    folder.rename(away)
    assert found() == "found no checkpoint there"
    folder.write_text("a file")
    assert found() == "found no checkpoint there"
    folder.unlink()
    other = claim(str(folder))
    assert found() == "found another folder there"
    other.release()
    shutil.rmtree(folder)
    away.rename(folder)
    held.publish(threading.Event())
    shutil.rmtree(folder)
    assert found() == "found no checkpoint there"
    held.release()
    assert held.missing() is None, "whose it is does not matter to it any more"
